"""p(x | component): the contract of the likelihood blocks that mixtures, classifiers and Markov models share.

An `Emission` joins a conjugate family with the rows that it explains: its textbook hyperparameters and the program's sites on
one side, ``<T(θ), u(x)>`` over a block of rows and its weighted sum on the other. `models.emissions.gaussians` holds the
Gaussian ones, `models.emissions.binary`, `discrete` and `categorical` others.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from models.abilities import Discriminant, Expected
from models.base import Data, Family, Hyper, Sites, Stats, Translation, on_host
from models.data.documents import require_tokens
from models.data.table import require_complete, require_filled
from models.latents.hidden import Hidden, component_alone
from models.rows.encoded import Rows, matched


class BlockPrior(NamedTuple):
    """Hyperparameters of a block in textbook terms, and what they are in statistics form."""

    parameters: tuple[str, ...]  # names of those that a user may set
    shapes: Callable[[int], dict[str, tuple[int, ...]]]  # columns -> shapes of the hyperparameters
    defaults: Callable[[Data, int], dict[str, Any]]  # (data, K) -> weak hyperparameters from the columns
    bounds: Callable[[int], Mapping[str, float]]  # columns -> what a hyperparameter must exceed, where it is not 0
    constants: Callable[[Data], dict[str, np.ndarray]]  # numbers that the statistics need under any prior
    nu: Callable[[Hyper, int], Stats]  # (hyper, K) -> nu


class HostSums(NamedTuple):
    """The E-step of a mixture of such blocks by compiled loops on the host (`models.host.loops`)."""

    serves: Callable[[Any], bool]  # x on the host -> whether the loops can read it
    coefficients: Callable[[Stats, Array], Any]  # (T, log probs (K,)) -> arrays that the loops read
    # (hyper, x, weight (N,) or None, threads, coefficients), all in NumPy -> sums over the rows
    sums: Callable[[Hyper, Any, Any, int, Any], Any]
    statistics: Callable[[Any], tuple[Array, Stats, Array]]  # sums -> (Σ_n r_nk (K,), the block's, Σ_n log p(x_n))


class Likelihood(NamedTuple):
    """p(x | z): as a program, and as an exponential family."""

    program: Callable[[Hyper, Array, int, bool], Any]  # (hyper, x observed, K, proper): samples sites -> p(x | z), batch (K,)
    features: Callable[[Hyper, Any], Any]  # (hyper, x) -> u(x)
    log_density: Callable[[Stats], Callable[[Any], Any]]  # T -> (u(x) -> (N, K): log p(x | z), expected or at a point)
    statistics: Callable[[Array, Any], Stats]  # (weight (N, K), u of the completed rows) -> Σ_n weight u
    draw: Callable[[Array, Sites, Array], Any]  # (key, sites, z (N,)) -> x
    predictive: Callable[[Stats], Callable[[Any], Array]] | None = None  # nu -> (u(x) -> (N, K): log ∫ p(x | z) q(θ) dθ)
    host_sums: HostSums | None = None  # a faster E-step for many rows
    # T -> (V, K): log p(x | z) of every x, of a block whose x is one code, −1 if missing; its statistics are counts (K, V)
    log_probs_of_codes: Callable[[Stats], Array] | None = None


class Encoding(NamedTuple):
    """How a checked table becomes x, and what x says of the table."""

    encode: Callable[[Data], Any]  # checked data -> x, on the host: a pytree of arrays with N rows
    observation: Callable[[Any], Array]  # x -> what the program observes
    check: Callable[[Data], None]  # raises ZooError for values that the block cannot explain
    # names of the columns that give a default prior no scale, and a flat one no finite density
    unscaled: Callable[[Data], list[str]] = lambda data: []
    missing: bool = False  # whether cells may be missing, and are filled in
    summed_out: bool = False  # whether rows with missing cells at least have a density and statistics
    remedy: str = "fill the cell in or remove the row"  # for a table with missing cells, where none may be
    # (x on the host, origin) -> x less the origin, of a block with ``origin``, and ``location`` and ``mean`` in its units
    translated: Callable[[Any, np.ndarray], Any] | None = None
    # (x, draws (S, …) of what the program observes) -> a table like the one observed (`models.abilities.Abilities.replicated`)
    replicated: Callable[[Any, np.ndarray], dict[str, np.ndarray]] = lambda x, drawn: {"x": drawn}


class BlockNaming(NamedTuple):
    """The words of a block."""

    dims: tuple[tuple[str, tuple[str, ...]], ...]  # site or hyperparameter -> names of its dimensions; pairs: hashable
    coords: Callable[[Data], dict[str, list[Any]]]  # dimension -> labels
    density_of: str = "numbers"  # what p(x | component) is a density or a probability of
    kind: str = "number"  # of its columns
    levels: tuple[tuple[str, ...], ...] = ()  # of every column, () of one that is no category; empty where none is
    may_be_zero: tuple[str, ...] = ()  # its positive sites that may be 0, as rates at a maximum of the likelihood
    harmless_zeros: tuple[str, ...] = ()  # its sites at whose 0 no row has density 0


class Emission(NamedTuple):
    """A conjugate likelihood block for K components."""

    family: Family
    prior: BlockPrior
    likelihood: Likelihood
    encoding: Encoding
    naming: BlockNaming
    coordinates: Callable[[Hyper, Any], Array]  # (hyper, x) -> (N, F): where a start looks for groups
    sites: Callable[[Hyper, Stats], dict[str, Array]]
    natural: Callable[[Hyper, Sites], Stats]
    discriminant: Discriminant | None = None  # where log densities are linear in features of the row
    hidden: Hidden = component_alone  # the component, and what the block does not sum out: missing cells, precision factors
    profile: Callable[[Sites], tuple[Expected, ...]] | None = None  # sites -> what every column looks like


def checked(data: Data, columns: tuple[str, ...], emission: Emission, model: str) -> Data:
    """The table with the model's columns, and no missing cell where the block needs them all; raises `ZooError`."""
    data = matched(data, columns)
    if not emission.encoding.missing:
        require_complete(data, model, emission.encoding.remedy)
    return data


def require_rows(data: Data, emission: Emission) -> None:
    """Whether a mixture can be made on the table; raises `ZooError`."""
    require_filled(data)
    emission.encoding.check(data)
    require_tokens(data.name, data.columns)


def encoded(data: Data, emission: Emission, allowed_states: np.ndarray | None = None) -> Rows:
    """A table on the host as the rows that program and algebra read."""
    weight = None if data.weight is None else on_host(data.weight)
    return Rows(emission.encoding.encode(data), weight, None if allowed_states is None else on_host(allowed_states))


def translation(emission: Emission) -> Translation | None:
    """How rows with this block move, of a mixture or of steps."""
    move = emission.encoding.translated
    return None if move is None else Translation(lambda rows, origin: rows._replace(x=move(rows.x, origin)))
