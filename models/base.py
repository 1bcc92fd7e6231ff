"""The model contract: what a model owes so that every method can run it. Read this file first.

Given its local latent variables ``z``, every model of the zoo is a conjugate exponential family in its parameters ``θ``
(document 004):

    log p(x, z, θ) = < T(θ), prior + Σ_n statistics(x_n, z_n) > − log Z(prior) + constant

The prior is *pseudo-data*: a pytree with exactly the structure of the sufficient statistics. The conditional posterior
of ``θ`` is therefore ``nu = prior + statistics``, the only update rule of the project. The local step reads ``T(θ)``,
never ``θ``, so that a point ``T(θ̂)``, an expectation ``E_q[T(θ)]`` and a draw ``T(θ)`` all enter by the same door.

A `Model` is a named tuple of pure functions. Its `Algebra` is hashable and holds no arrays: jitted code takes it as a
static argument and the arrays (``hyper``, ``prior``, ``rows``) as traced ones, so that a second model of the same shapes
compiles nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from models.columns import Layout
from models.data import Data, ZooError, as_data

__all__ = [
    "Algebra",
    "Data",
    "Discriminant",
    "Family",
    "Latent",
    "Linear",
    "Model",
    "Permutation",
    "Reflection",
    "Rotation",
    "Symmetry",
    "ZooError",
]

Pytree = Any
Stats = Pytree  # sufficient statistics, and natural parameters of q(θ): the same structure
Sites = Mapping[str, Any]  # NumPyro site name -> array
Hyper = Mapping[str, Any]  # hyperparameter name -> array


class Family(NamedTuple):
    """A conjugate family q(θ) with natural parameters ``nu``, in the space of the statistics (prior included).

    ``mean`` is the gradient of ``log_partition`` (a test), and ``mode`` is taken in the coordinates of the program's
    sites, where for ``nu`` = statistics alone it is the maximum-likelihood estimate.
    """

    log_partition: Callable[[Stats], Array]  # log ∫ exp <T(θ), nu> dθ, summed over the batch: a scalar
    mean: Callable[[Stats], Stats]  # E[T(θ)]
    mode: Callable[[Stats], Stats]  # T(argmax of the density)
    sample: Callable[[Array, Stats], Stats]  # (key, nu) -> T(θ) with θ drawn
    defect: Callable[[Stats], str | None]  # why there is no mode at nu, in words, or None (on the host, NumPy)


def _as_it_is(z: Pytree) -> Array:
    value: Array = z
    return value


class Latent(NamedTuple):
    """A family of local latent variables with natural parameters ``local``: the same four verbs, one row at a time."""

    log_partition: Callable[[Pytree], Array]  # (N,): log Σ_z exp(local)
    mean: Callable[[Array, Pytree], Pytree]  # (key, local) -> E[z]; the key is not used
    mode: Callable[[Array, Pytree], Pytree] | None  # (key, local) -> argmax z; the key is not used. None: a mode means nothing
    sample: Callable[[Array, Pytree], Pytree]  # (key, local) -> z
    energy: Callable[[Pytree, Pytree], Array]  # (z, local) -> (N,): <local, z>
    # (E[z], local) -> (N,): entropy of the probabilities that are reported; None: what is reported are no probabilities
    entropy: Callable[[Pytree, Pytree], Array] | None
    # (key, probabilities (N, …, K) of every latent by itself) -> z, for a start that has groups; None: a model starts otherwise
    independent: Callable[[Array, Array], Pytree] | None = None
    report: Callable[[Pytree], Array] = _as_it_is  # z, expected or drawn -> (N, …, K): the part of it that is reported
    spread: Callable[[Pytree], Array] | None = None  # E[z] -> (N, K): variance of what is reported, where it is a number
    # z drawn -> of every unit that a row is made of: its row, what it is, how often it stands there, the value drawn; (U,) each
    units: Callable[[Pytree], tuple[Array, Array, Array, Array]] | None = None
    discrete: bool = True  # whether z takes finitely many values, all of which a label can observe


class Sampler(NamedTuple):
    """Gibbs sampling of the latents of given rows with the parameters integrated out: on the host, in NumPy, free of the GIL.

    A state is a named tuple of arrays and all there is to a chain: taken up again, it goes on as if it had never stopped.
    """

    start: Callable[[int, int, Sites | None], Any]  # (seed, chain, where the parameters are or None) -> state
    advance: Callable[[Any, int], Any]  # (state, sweeps) -> state
    log_joint: Callable[[Any], float]  # state -> log p(x, z), parameters integrated out
    sites: Callable[[np.random.Generator, Any], dict[str, np.ndarray]]  # the parameters, drawn given the latents of a state
    # (states of all chains, whether groups may differ) -> the hyperparameters under which their latents are most probable, and
    # the states with groups in one order
    learnt: Callable[[Sequence[Any], bool], tuple[dict[str, np.ndarray], list[Any]]]


class Collapsed(NamedTuple):
    """What a model can do whose parameters integrate out given the latents."""

    sampler: Callable[[Hyper, Pytree], Sampler]  # (hyper, rows) -> its sampler
    # (hyper, rows, threads) -> one with only private parameters integrated out, so that rows are shared out to threads
    by_rows: Callable[..., Sampler]
    prior: Callable[[Hyper, Mapping[str, Stats]], dict[str, Stats]]  # (hyper, a prior of its shapes) -> pseudo-statistics


class HeldOut(NamedTuple):
    """How well the units that rows are made of, as tokens, are foretold in rows that no fit has seen; on the host, in NumPy."""

    unit: str  # what a row is made of, in a word
    number: Callable[[Pytree], np.ndarray]  # rows -> (N,): how many units each has
    total: Callable[[Data], float]  # a table as it was given -> its units, also those that the model does not know
    # (hyper, draws (S, …), rows, particles, seed, threads) -> (N,): log of the mean over draws of an unbiased estimate of
    # p(units in their order | shared parameters), private ones integrated out
    log_probability: Callable[..., np.ndarray]
    orders: Callable[[Pytree], np.ndarray]  # rows -> (N,): log of how many orders their units have, for log p(x)
    halves: Callable[[int, Pytree], tuple[Pytree, Pytree]]  # (seed, rows) -> rows of half the units each
    # (draws (S, …) with the private parameters of the rows, rows) -> (N,): Σ over units of log mean_s p(unit | θ_s)
    completion: Callable[[Mapping[str, np.ndarray], Pytree], np.ndarray]


class Algebra(NamedTuple):
    """The conjugate half of a model: pure functions, hashable, without arrays."""

    families: tuple[tuple[str, Family], ...]  # parameter block -> conjugate family
    latent: Latent
    proper: bool  # False: the flat prior nu = 0, whose constant is dropped
    features: Callable[[Hyper, Pytree], Pytree]  # (hyper, rows): u(x), what the rows bring, seen from a fixed origin
    local: Callable[[Stats], Callable[[Pytree], Pytree]]  # T -> (features -> natural parameters of q(z))     [E-step]
    statistics: Callable[[Array, Pytree, Pytree], Stats]  # (weight (N,), z, features): Σ_n, by block [M-step, with mode]
    sites: Callable[[Hyper, Stats], dict[str, Array]]  # T of a point -> the program's sites
    natural: Callable[[Hyper, Sites], Stats]  # the program's sites -> T
    # (hyper, rows): points (N, …, F) in which a start seeks groups, NaN where there is none
    coordinates: Callable[[Hyper, Pytree], Array] | None = None
    num_groups: int = 0  # how many it looks for
    # nu -> (features -> (N, K): log ∫ p(x, z = k | θ) q(θ | nu) dθ), where there is a short form of the ratio of two log
    # partitions; None: that ratio is computed row by row
    predictive: Callable[[Stats], Callable[[Pytree], Array]] | None = None
    start: Callable[[Hyper, Array], Stats] | None = None  # (hyper, key) -> nu of one start, where there are no groups
    # (prior, T) -> log density of the prior beyond < T, prior >, which joins blocks of parameters: linear in the T of each, so
    # that its gradient in one block is what the others add to the nu of that block. None: blocks are independent a priori
    coupling: "Callable[[Mapping[str, Stats], Mapping[str, Stats]], Array] | None" = None
    # Where blocks of parameters are conjugate only given the values of the others: one algebra a block, with that block's
    # family and statistics alone, whose ``local`` reads all of T. A sweep takes them in turn. Empty: all blocks at once.
    cycle: "tuple[Algebra, ...]" = ()
    # Blocks with an entry a row along their leading axis, the row's own and alike a priori, named as their sites: rows that
    # were not fitted have others
    private: tuple[str, ...] = ()
    # (hyper, prior and nu of the private blocks, T, rows, most, close) -> their nu after ``most`` updates by expectations at
    # most, latents and own parameters in turn, or when none moves by more than ``close`` on the average: the sweeps of
    # `inference.settle`, where a model has a way with rows that stays within the cache
    settle: Callable[..., dict[str, Stats]] | None = None
    collapsed: Collapsed | None = None  # its parameters integrated out, where somebody wrote that down


class Linear(NamedTuple):
    """Log p(x, k) or log p(x | k) of component k = bias_k + Σ_f < weights[f]_k, φ_f(x) > + a part that no component enters."""

    bias: Array  # (K,)
    weights: dict[str, Array]  # feature -> (K, ...)


class Discriminant(NamedTuple):
    """How log densities are linear in features of the row: what a classifier's log-odds are made of."""

    linear: Callable[[Hyper, Sites], Linear]
    features: Callable[[Pytree], dict[str, Array]]  # rows -> feature -> (N, ...)
    dims: tuple[tuple[str, tuple[str, ...]], ...]  # feature -> names of its dimensions


class Expected(NamedTuple):
    """A column given the component (K entries), or given what is observed of its rows (N entries)."""

    mean: Array  # (N,); (N, levels): probabilities, of a column of categories
    variance: Array | None  # (N,); None for a column of categories


class Table(NamedTuple):
    """The cells that a model explains, in the order of its columns."""

    cells: Layout  # what they are: numbers, counts, or codes of levels
    observed: Callable[[Pytree], Array]  # rows -> (N, D), NaN where missing
    completed: Callable[..., Array]  # (key, hyper, sites, rows) -> (N, D): missing cells drawn given what is observed
    expected: Callable[..., tuple[Expected, ...]]  # (hyper, sites, rows) -> one a column


class Permutation(NamedTuple):
    """The posterior is unchanged when the labels along ``dim`` are permuted.

    Dimensions of other names that carry the same labels, and after them others that stay, are in ``also``.
    """

    dim: str
    also: tuple[str, ...] = ()


class Rotation(NamedTuple):
    """The posterior is unchanged when the coordinates along ``dim``, the last of a site, are rotated."""

    dim: str
    scale: str | None = None  # hyperparameter with the standard deviations of the columns along the other dimension


class Reflection(NamedTuple):
    """The posterior is unchanged when the coordinates along ``dim``, the last of a site, are permuted and change sign."""

    dim: str
    scale: str | None = None  # as of a `Rotation`


Symmetry = Permutation | Rotation | Reflection | None


class Model(NamedTuple):
    """A model on given data shapes: its program (the spec), its algebra (the fast equal of it), its prior as numbers."""

    name: str
    spec: Callable[..., Any]  # spec(hyper, rows, marginal=True): the NumPyro program, marginal=False keeps z as a site
    algebra: Algebra | None  # None: program only
    hyper: Hyper  # the prior in textbook terms, stored with every result
    prior: Mapping[str, Stats]  # parameter block -> pseudo-statistics
    rows: Callable[[Any], Pytree]  # what ``read`` takes -> what spec and algebra read: a pytree of arrays with N rows, of which
    # ``weight`` (N,) weighs a row and ``allowed`` (N, K) restricts its latent, where it has fields of these names; ``whole``
    # rows are read all at once; ``own`` (N,) says where the private parameters of a row are, if there are any
    functionals: Callable[[Hyper, Sites, Pytree], dict[str, Array]]  # (hyper, sites, E[z] at the witnesses) ->
    # symmetry-free summaries
    witnesses: Callable[[int], np.ndarray]  # number of rows -> the few rows whose latents enter the functionals
    symmetry: Symmetry
    simulate: Callable[..., Pytree] | None  # simulate(key, hyper, sites, num_rows) -> rows
    dims: Mapping[str, tuple[str, ...]]  # site or functional -> names of its dimensions
    coords: Mapping[str, list[Any]]  # dimension -> labels
    options: Mapping[str, Any]  # what build was asked for, stored with every result
    explains: str  # what its density is of, in words: elpd and evidence compare where these are the same
    discriminant: Discriminant | None = None  # of log p(x, z = k), where it is linear in features of the row
    warnings: tuple[str, ...] = ()  # what to know of this prior or this data, stored with every result
    table: Table | None = None  # where cells may be missing
    profile: Callable[[Sites], tuple[Expected, ...]] | None = None  # sites -> the columns given the component, if any
    # rows on the host -> the sites at the maximum of the likelihood, for a flat prior where it is known in closed form
    maximum: Callable[[Pytree], dict[str, np.ndarray]] | None = None
    approximate_evidence: Callable[[Pytree], float] | None = None  # rows on the host -> log evidence under a prior of its own
    doubts: Callable[[Hyper, Sites], list[str]] | None = None  # what to know of an optimum (on the host, NumPy)
    reports: str = "responsibilities"  # name of what the latents report, in a result
    # rows on the host -> fewer weighted rows that bring the same statistics of expected latents and the same likelihood, where
    # both depend on moments of the rows alone; None: no such rows
    condense: Callable[[Pytree], Pytree] | None = None
    layout: Layout | None = None  # kinds and levels of the columns, for a model of numbers, counts and categories together
    held_out: HeldOut | None = None  # where rows have parameters of their own
    read: Callable[[Any], Data] = as_data  # a table, or a path of one, -> its rows, column by column as this model reads them

    def program(self, data: Any, *, marginal: bool = True) -> Any:
        """The NumPyro program under this model's prior: ``NUTS(model.program)`` works, with ``data`` as its argument."""
        return self.spec(self.hyper, self.rows(data) if isinstance(data, Data) else data, marginal=marginal)


def reports_probabilities(model: Model) -> bool:
    """Whether what a result says of a row's latent are probabilities of its values; scores, for one, are none."""
    return model.algebra is None or model.algebra.latent.entropy is not None


def row_name(model: Model) -> str:
    """What a model calls a row: by the dimension of the parameters that are the row's own, as documents of topic models."""
    own = () if model.algebra is None else model.algebra.private
    return model.dims[own[0]][0] if own else "row"


def on_host(value: Any) -> Array:
    """A NumPy array, typed as the device array that it becomes under jit."""
    return np.asarray(value)  # type: ignore[return-value]


def add(left: Stats, right: Stats) -> Stats:
    """``nu = prior + statistics``: the update rule."""
    return jax.tree.map(lambda a, b: a + b, left, right)


def inner(T: Stats, nu: Stats) -> Array:
    """< T, nu > over all leaves of two pytrees of one structure, a scalar; a statistic of 0 is worth 0 whatever T, also −∞."""
    products = jax.tree.map(lambda T, nu: (jnp.where(nu == 0, 0.0, T) * nu).sum(), T, nu)
    return jax.tree.reduce(jnp.add, products)


def log_partition(algebra: Algebra, nu: Mapping[str, Stats]) -> Array:
    """Log ∫ exp < T(θ), nu > dθ over all blocks: a scalar."""
    return sum((family.log_partition(nu[name]) for name, family in algebra.families), jnp.zeros(()))


def log_prior(algebra: Algebra, prior: Mapping[str, Stats], T: Mapping[str, Stats]) -> Array:
    """Log p(θ) in the coordinates of the program's sites: < T(θ), prior > − log Z(prior), and what joins its blocks.

    0 for a flat prior.
    """
    if not algebra.proper:
        return jnp.zeros(())
    joined = jnp.zeros(()) if algebra.coupling is None else algebra.coupling(prior, T)
    return inner(T, dict(prior)) - log_partition(algebra, prior) + joined


def negative_divergence(algebra: Algebra, prior: Mapping[str, Stats], T: Mapping[str, Stats], nu: Mapping[str, Stats]) -> Array:
    """E_q[log p(θ)] − E_q[log q(θ)] = −KL(q ‖ p) of q(θ) = nu, where T = E_q[T(θ)]; of the blocks that the algebra has."""
    if not algebra.families:
        return jnp.zeros(())
    T, prior, nu = ({name: leaf[name] for name, _ in algebra.families} for leaf in (T, prior, nu))
    return log_prior(algebra, prior, T) + log_partition(algebra, nu) - inner(T, nu)


def at_mean(algebra: Algebra, key: Array, nu: Mapping[str, Stats]) -> dict[str, Stats]:
    """E_q[T(θ)], block by block. The key is not used."""
    return {name: family.mean(nu[name]) for name, family in algebra.families}


def at_mode(algebra: Algebra, key: Array, nu: Mapping[str, Stats]) -> dict[str, Stats]:
    """T at the mode of q(θ), block by block. The key is not used."""
    return {name: family.mode(nu[name]) for name, family in algebra.families}


def at_sample(algebra: Algebra, key: Array, nu: Mapping[str, Stats]) -> dict[str, Stats]:
    """T at a draw from q(θ), block by block."""
    keys = jax.random.split(key, len(algebra.families))
    return {name: family.sample(k, nu[name]) for k, (name, family) in zip(keys, algebra.families, strict=True)}
