"""The model contract: what a model must provide so that every inference method can run it. Read this file first.

Given its local latent variables ``z``, every model of the zoo is a conjugate exponential family in its parameters ``θ``
(document 004):

    log p(x, z, θ) = < T(θ), prior + Σ_n statistics(x_n, z_n) > − log Z(prior) + constant

``T(θ)`` are the sufficient statistics of the parameters, and ``< , >`` is the inner product over all arrays of a pytree.

The prior is *pseudo-data*: a pytree with the same structure as the sufficient statistics. The conditional posterior of
``θ`` given ``z`` therefore has the natural parameters ``nu = prior + statistics``. This is the only update rule of the
project. The local step (E-step) reads ``T(θ)``, never ``θ``: EM passes a point ``T(θ̂)``, variational inference an
expectation ``E_q[T(θ)]``, Gibbs sampling a draw ``T(θ)``, and the model code is the same for all three.

A `Model` is a named tuple of pure functions. Its `Algebra` is hashable and holds no arrays: jitted code takes it as a
static argument and the arrays (``hyper``, ``prior``, ``rows``) as traced ones. A second model of equal shapes compiles nothing.

Shapes in comments: N rows, D columns, K components (or classes, states, topics), S draws.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jax import Array

from models.abilities import Abilities, Collapsed
from models.data.representation import model_html, model_text
from models.data.table import Data as Data
from models.errors import ZooError as ZooError
from models.host.loops import HostStep
from models.symmetries import Symmetry
from models.types import Hyper as Hyper
from models.types import Pytree as Pytree
from models.types import Sites as Sites
from models.types import Stats as Stats

if TYPE_CHECKING:  # the rules for columns need not be loaded to run a model
    from models.data.columns import Layout


class Family(NamedTuple):
    """A conjugate family q(θ) with natural parameters ``nu``, a pytree with the structure of the statistics.

    ``mean`` is the gradient of ``log_partition``; a test checks this. ``mode`` maximises the density of the program's sites.
    Without a prior (``nu`` = statistics) it is therefore the maximum-likelihood estimate.
    """

    log_partition: Callable[[Stats], Array]  # log ∫ exp < T(θ), nu > dθ, summed over the batch: a scalar
    mean: Callable[[Stats], Stats]  # E[T(θ)]
    mode: Callable[[Stats], Stats]  # T(θ) at the mode
    sample: Callable[[Array, Stats], Stats]  # (key, nu) -> T(θ) of one draw of θ
    why_no_mode: Callable[[Stats], str | None]  # a message if nu has no mode, otherwise None (on the host, in NumPy)


def _as_it_is(z: Pytree) -> Array:
    return z


class Reported(NamedTuple):
    """The latents of each row that a result reports."""

    part: Callable[[Pytree], Array] = _as_it_is  # z, expected or drawn -> (N, …, K): the reported part
    # (E[z], local) -> (N,): entropy of the reported probabilities; None if the reported values are not probabilities
    entropy: Callable[[Pytree, Pytree], Array] | None = None
    spread: Callable[[Pytree], Array] | None = None  # E[z] -> (N, K): posterior variance, for real-valued latents
    # a draw z -> of U units within rows, such as tokens: row, kind, number of copies, value drawn; (U,) each
    units: Callable[[Pytree], tuple[Array, Array, Array, Array]] | None = None


class Latent(NamedTuple):
    """A family of local latent variables z with natural parameters ``local``: the functions of `Family`, for each row.

    Latents in addition to a component (`models.latents.hidden`) are integrated out in partition and energy; mode has their
    mean.
    """

    log_partition: Callable[[Pytree], Array]  # (N,): log Σ_z exp(local)
    mean: Callable[[Array, Pytree], Pytree]  # (key, local) -> E[z]; ignores the key
    mode: Callable[[Array, Pytree], Pytree] | None  # (key, local) -> argmax z; ignores the key. None: not defined
    sample: Callable[[Array, Pytree], Pytree]  # (key, local) -> a draw of z
    energy: Callable[[Pytree, Pytree], Array]  # (z, local) -> (N,): <local, z>
    reported: Reported
    # (key, marginal probabilities (N, …, K)) -> z, to start a fit at groups of rows; None: the model has another start
    independent: Callable[[Array, Array], Pytree] | None = None
    # What has a latent: every row, every step of rows that are sequences, or every token of documents; and its values. Both
    # select how results are read (`inference.predictions.views`)
    unit: str = "row"
    values: str = "label"  # one of finitely many, all of which a label can state; or discrete, or real

    @property
    def enumerable(self) -> bool:
        """Whether z is one of finitely many values, all of which a label can state."""
        return self.values == "label"


class Initial(NamedTuple):
    """How a method is initialised: from groups of rows, or from a random draw."""

    # (hyper, rows) -> points (N, …, F) that are clustered to start with, NaN where there is no point
    coordinates: Callable[[Hyper, Pytree], Array] | None = None
    num_groups: int = 0  # number of clusters
    draw: Callable[[Hyper, Array], Stats] | None = None  # (hyper, key) -> random nu, for models without groups


class Structure(NamedTuple):
    """Dependence between parameter blocks, for models that are not jointly conjugate, and collapsed sampling."""

    # (prior, T) -> the part of the log prior beyond < T, prior > that couples parameter blocks. It is linear in the T of each
    # block: its gradient in one block is what the others add to the nu of that block. None: blocks are a-priori independent
    coupling: "Callable[[Mapping[str, Stats], Mapping[str, Stats]], Array] | None" = None
    # For blocks that are conjugate only given the other blocks: one algebra per block, with the family and statistics of that
    # block, whose ``local_natural_parameters`` reads all of T. A sweep updates them in turn. Empty: all blocks at once
    cycle: "tuple[Algebra, ...]" = ()
    # Local parameters: names of blocks (and sites) with one entry per row along the leading axis, with the same prior for all
    # rows, such as the topic proportions of documents. New rows need new entries
    local: tuple[str, ...] = ()
    # (hyper, prior of the local blocks, their nu, T, rows, most, close) -> nu of the local blocks after inner CAVI updates of
    # latents and local parameters, global parameters fixed. Stops after ``most`` updates, or when every row moves by less than
    # ``close`` on average. An optional faster version of `inference.fixed_points.local_ascent`
    ascend: Callable[..., dict[str, Stats]] | None = None
    collapsed: Collapsed | None = None  # None: no collapsed sampler is implemented
    # nu -> (features -> (N, K): log ∫ p(x, z = k | θ) q(θ | nu) dθ) in closed form; None: computed for each row as a ratio
    # of two log partitions
    predictive: Callable[[Stats], Callable[[Pytree], Array]] | None = None
    host_step: HostStep | None = None  # a faster E-step for many rows on a CPU


class Algebra(NamedTuple):
    """The conjugate form of a model, used by EM, variational inference and Gibbs sampling. Hashable; holds no arrays."""

    families: tuple[tuple[str, Family], ...]  # parameter block -> conjugate family
    latent: Latent
    proper: bool  # False: flat prior, nu = 0, without a normalising constant
    features: Callable[[Hyper, Pytree], Pytree]  # (hyper, rows) -> u(x), from which statistics are computed
    # E-step: T -> (features -> natural parameters ``local`` of q(z))
    local_natural_parameters: Callable[[Stats], Callable[[Pytree], Pytree]]
    # (weight (N,), z, features) -> Σ_n weight_n statistics(x_n, z_n), by block; the M-step is the mode of prior + these
    statistics: Callable[[Array, Pytree, Pytree], Stats]
    sites: Callable[[Hyper, Stats], dict[str, Array]]  # T(θ) -> θ as the sites of the program
    natural: Callable[[Hyper, Sites], Stats]  # θ as the sites of the program -> T(θ)
    initial: Initial
    structure: Structure = Structure()


class Translation(NamedTuple):
    """How to subtract ``hyper["origin"]`` from the rows, which saves digits in single precision, and what shifts with them."""

    move_rows: Callable[[Pytree, np.ndarray], Pytree]  # (rows on the host, origin) -> rows with the origin subtracted
    moved_sites: tuple[str, ...] = ("mean",)  # shifted along the last axis
    moved_hyper: tuple[str, ...] = ("origin", "location")  # names that the model lacks are ignored


class Reading(NamedTuple):
    """How a table becomes the encoded rows of a model, and how rows are moved or summarised without loss."""

    # table -> encoded rows, as spec and algebra read them: a pytree of arrays with N rows (`models.rows.row_info`)
    rows: Callable[[Any], Pytree]
    read: Callable[[Any], Data]  # a table or a path -> a table with this model's columns
    layout: "Layout | None" = None  # kinds and levels of the columns, for models with columns of several kinds
    # rows on the host -> fewer weighted rows with the same likelihood and the same expected statistics, for models that need
    # only the moments of the rows; None: not available
    sufficient_rows: Callable[[Pytree], Pytree] | None = None
    translation: Translation | None = None  # how an origin is subtracted, if the model allows it


class Naming(NamedTuple):
    """Names used in results: dimensions, their labels, and what is reported and observed."""

    dims: Mapping[str, tuple[str, ...]]  # site or functional -> names of its dimensions
    coords: Mapping[str, list[Any]]  # dimension -> labels
    density_of: str  # the variables of the likelihood, in words; elpd and evidence are comparable only if equal
    reports: str = "responsibilities"  # name of the reported latents in a result
    levels: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # column -> the levels that its cells are read as codes of
    named: bool = False  # whether names of components mean something, as ratings do; others are numbered by their sizes
    observes: tuple[str, ...] = ("x",)  # "x" if the cells are modelled, () if they are given (regression); labels always


class Summaries(NamedTuple):
    """Symmetry-invariant summaries (functionals), and messages about the prior, the data or an optimum."""

    functionals: Callable[[Hyper, Sites, Pytree], dict[str, Array]]  # (hyper, sites, E[z] at the probe rows) -> values
    probe_rows: Callable[[int], np.ndarray]  # number of rows -> indices of the few rows whose latents enter
    # (hyper, sites, last iteration or None) -> warnings about an optimum (on the host, in NumPy)
    warnings_at_optimum: "Callable[[Hyper, Sites, Iteration | None], list[str]] | None" = None
    warnings: tuple[str, ...] = ()  # warnings about this prior or this data, stored with every result


class Model(NamedTuple):
    """A model for data of given shapes: a NumPyro program (``spec``), the same model in conjugate form, and the prior.

    The functions in `models.MODELS` build it from a table. Methods of `inference` fit it; NumPyro can run ``program``.

    >>> from models import MODELS
    >>> model = MODELS["gmm"]([[1.0], [2.0], [4.0]])
    >>> model.name, sorted(model.prior), model.symmetry
    ('gmm', ['component', 'mixture_probs'], Permutation(dim='component', also=()))
    """

    name: str
    spec: Callable[..., Any]  # spec(hyper, rows, marginal=True): NumPyro program; marginal=False samples z too
    algebra: Algebra | None  # the conjugate form; None: program only
    hyper: Hyper  # the prior in textbook terms, stored with every result
    prior: Mapping[str, Stats]  # parameter block -> pseudo-statistics
    reading: Reading
    naming: Naming
    summaries: Summaries
    symmetry: Symmetry  # transformations that leave the posterior unchanged
    options: Mapping[str, Any]  # the arguments of build, stored with every result
    abilities: Abilities = Abilities()
    description: str | None = None  # the docstring of the model's file, which begins with its generative program in maths

    def __repr__(self) -> str:
        return model_text(self.name, self.options, self.hyper, self.description)

    def _repr_html_(self) -> str:
        return model_html(self.name, self.options, self.hyper, self.description)

    def rows(self, data: Any) -> Pytree:
        """Encode a table as the rows that spec and algebra read: a pytree of arrays on the host."""
        return self.reading.rows(data)

    def read(self, source: Any) -> Data:
        """Read a table, or the path of one, with the columns of this model."""
        return self.reading.read(source)

    def program(self, data: Any, *, marginal: bool = True) -> Any:
        """The NumPyro program with this model's prior: run ``MCMC(NUTS(model.program), ...).run(key, data)``."""
        return self.spec(self.hyper, self.rows(data) if isinstance(data, Data) else data, marginal=marginal)


class Iteration(NamedTuple):
    """The sites before and after one EM iteration near an optimum: which parameters still move."""

    earlier: Sites
    later: Sites


def on_host(value: Any) -> Array:
    """A NumPy array with the static type of a JAX array, which it becomes under jit."""
    return np.asarray(value)  # type: ignore[return-value]  # as the docstring says
