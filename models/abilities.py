"""What only some models can do: the optional parts of the contract in `models.base`.

Shapes in comments: N rows, D columns, K components (or classes, states, topics), S draws.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jax import Array

from models.data.table import Data
from models.types import Hyper, Pytree, Sites, Stats

if TYPE_CHECKING:  # the rules for columns need not be loaded to run a model
    from models.data.columns import Layout


class Sampler(NamedTuple):
    """Collapsed Gibbs sampling: the latents of given rows, with parameters integrated out. NumPy on the host, without the GIL.

    A state is a named tuple of arrays. It holds everything about a chain: a chain resumed from its state continues exactly.
    """

    start: Callable[[int, int, Sites | None], Any]  # (seed, chain, initial parameters or None) -> state
    advance: Callable[[Any, int], Any]  # (state, sweeps) -> state
    log_joint: Callable[[Any], float]  # state -> log p(x, z), parameters integrated out
    latents: Callable[[Any], np.ndarray]  # state -> the latents of the rows, one row after another
    # (generator, state) -> a draw of the parameters given the latents of the state, and its log prior density
    sites: Callable[[np.random.Generator, Any], tuple[dict[str, np.ndarray], float]]
    # (states of all chains, whether groups get different values) -> the hyperparameters that maximise the probability of the
    # latents, and the states with their groups in the same order in all chains; None: hyperparameters are not learnt
    learnt: Callable[[Sequence[Any], bool], tuple[dict[str, np.ndarray], list[Any]]] | None = None


class Collapsed(NamedTuple):
    """Collapsed sampling, for models whose parameters can be integrated out given the latents."""

    sampler: Callable[[Hyper, Pytree], Sampler]  # (hyper, rows) -> sampler with all parameters integrated out
    prior: Callable[[Hyper, Mapping[str, Stats]], dict[str, Stats]]  # (hyper, prior of the same shapes) -> pseudo-data
    # (hyper, rows, threads) -> sampler with only local parameters integrated out; threads then share the rows
    by_rows: Callable[..., Sampler] | None = None  # None: no parameters are local


class HeldOut(NamedTuple):
    """Predictive scores for new rows that consist of units, such as the tokens of documents. NumPy on the host."""

    unit: str  # name of a unit, such as token
    number: Callable[[Pytree], np.ndarray]  # rows -> (N,): how many units each has
    total: Callable[[Data], float]  # table -> its number of units, including unknown ones
    # (hyper, draws (S, …), rows, particles, seed, threads) -> (N,): log of the mean over draws of an unbiased estimate of
    # p(ordered units | shared parameters), local parameters integrated out
    log_probability: Callable[..., np.ndarray]
    orders: Callable[[Pytree], np.ndarray]  # rows -> (N,): log number of orders of the units (multinomial coefficient)
    halves: Callable[[int, Pytree], tuple[Pytree, Pytree]]  # (seed, rows) -> each row split at random in two
    # (draws (S, …) with the local parameters of the rows, rows) -> (N,): Σ over units of log mean_s p(unit | θ_s)
    completion: Callable[[Mapping[str, np.ndarray], Pytree], np.ndarray]


class Linear(NamedTuple):
    """Log p(x, k) or log p(x | k), linear in features φ of x: bias_k + Σ_f < weights[f]_k, φ_f(x) > + terms free of k."""

    bias: Array  # (K,)
    weights: dict[str, Array]  # feature -> (K, ...)


class Discriminant(NamedTuple):
    """Log densities as linear functions of features: the log-odds of a classifier, feature by feature."""

    linear: Callable[[Hyper, Sites], Linear]
    features: Callable[[Pytree], dict[str, Array]]  # rows -> feature -> (N, ...)
    dims: tuple[tuple[str, tuple[str, ...]], ...]  # feature -> names of its dimensions


class Expected(NamedTuple):
    """Mean and variance of a column: given the component (K entries), or given the observed cells of each row (N entries)."""

    mean: Array  # (N,) or (K,); for a categorical column the probabilities (N, levels) or (K, levels)
    variance: Array | None  # (N,) or (K,); None for a categorical column
    covariance: Array | None = None  # (K, D): with all D columns of the model; None: with none of them, or not requested


class Table(NamedTuple):
    """The cells of the table that a model describes, column by column: for imputation of missing cells."""

    cells: "Layout"  # kinds of the columns: numbers, counts, or categories
    observed: Callable[[Pytree], Array]  # rows -> (N, D), NaN where missing
    completed: Callable[..., Array]  # (key, hyper, sites, rows) -> (N, D): missing cells drawn given the observed ones
    expected: Callable[..., tuple[Expected, ...]]  # (hyper, sites, rows) -> one entry per column


class Abilities(NamedTuple):
    """Optional features that only some models provide; None: not available."""

    simulate: Callable[..., Pytree] | None = None  # simulate(key, hyper, sites, num_rows) -> rows
    discriminant: Discriminant | None = None  # if log p(x, z = k) is linear in features of the row
    table: Table | None = None  # for imputation, if cells may be missing
    profile: Callable[[Sites], tuple[Expected, ...]] | None = None  # sites -> columns given the component
    # rows on the host -> the maximum-likelihood sites in closed form, with a flat prior
    maximum: Callable[[Pytree], dict[str, np.ndarray]] | None = None
    approximate_evidence: Callable[[Pytree], float] | None = None  # rows on the host -> log evidence, under a special prior
    held_out: HeldOut | None = None  # for models with local parameters
    # (rows, draws (S, …) of the spec with marginal=False) -> replicated data in the form of the observed table: "x" (S, row,
    # column), "token" (S, position), "label" (S, row), on the host; None: x as the spec draws it
    replicated: Callable[[Pytree, Mapping[str, np.ndarray]], dict[str, np.ndarray]] | None = None
    may_be_zero: tuple[str, ...] = ()  # positive sites for which 0 is a valid estimate, such as Poisson rates
    harmless_zeros: tuple[str, ...] = ()  # sites at whose 0 no row has density 0, such as probabilities of excess zeros
