"""The Markov kernels of methods, run side by side on many tables of equal shape from given parameters.

A kernel takes the model, R parameters and R tables, and returns the parameters after some steps. Nothing in it may depend on
the parameters but the steps themselves: NUTS has a fixed step size, tempering fixed temperatures.

Stationarity alone proves little: a kernel that stands still leaves every law alone. So a kernel also reports what stood still.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.certificates.checks.cases import stacked_rows
from inference.certificates.oracles.oracle import Oracle, Tables, drawn_rows
from inference.engine.sweep import local_step
from inference.identification.random_labels import in_random_labellings
from inference.methods import gibbs, tempered_gibbs
from models.base import Algebra, Family, Latent, Model, Pytree, Sites, Stats
from models.data.table import Data

EXCHANGES = frozenset({"exchanges", "states"})  # of posterior and prior: about one proposal in twenty is accepted
COLD, HOT = 0.0, -20.0  # log inverse temperatures; at exp(−20) the posterior is the prior to eight digits
SAME = 1e-9  # relative difference of a number that went to ℝᵈ and back
LATENTS = "latents"  # the block with the latents
# An entry of the latents must move if it has other values than the usual one in this share of the replicates. The limit of its
# movement is then generous: tables of the oracles are small, so that a table leaves most latents open
VARIED = 0.05


class Ran(NamedTuple):
    """The parameters (R, …) after the steps, and latents of a kernel that draws them; the shares that stood still."""

    sites: dict[str, np.ndarray]
    still: dict[str, float]
    rare: frozenset[str] = frozenset()  # values that stand still in most replicates of a right kernel, too
    latents: np.ndarray | None = None  # (R, N, …) as the zoo's model has them, of its last step; None: the kernel draws none


# (model, sites (R, …), tables, seed, steps) -> the parameters after the steps
Kernel = Callable[[Model, Sites, Sequence[Data], int, int], Ran]


def same(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Which entries did not move, but for the rounding of their type."""
    rounding = 10 * np.finfo(after.dtype).eps if after.dtype.kind == "f" else 0.0
    return np.isclose(after, before, rtol=max(SAME, rounding), atol=0.0)


def ran(before: Sites, after: Sites, rare: frozenset[str] = frozenset(), **still: float) -> Ran:
    """The outcome of a kernel; of every site, the share of replicates in which its laziest entry stood still."""
    shares = dict(still)
    for name, value in before.items():
        shares[name] = float(np.reshape(same(value, np.asarray(after[name])), (len(value), -1)).mean(0).max())
    return Ran({name: np.asarray(value) for name, value in after.items()}, shares, rare)


def with_latents(oracle: Oracle, tables: Tables, result: Ran, latents: np.ndarray) -> Ran:
    """Parameters and latents after a kernel, latents in the order of the oracle, and which of them stood still."""
    name = oracle.latent
    assert name is not None
    rows, before = drawn_rows(tables), tables[name]
    unmoved = same(before, latents)[:, rows].reshape(len(before), -1)
    sites, still = result.sites | {name: latents}, result.still | {name: float(unmoved.all(1).mean())}
    if not (varied := varying(before[:, rows].reshape(unmoved.shape))).any():
        return result._replace(sites=sites, still=still)
    least = still_place(name)
    return result._replace(
        sites=sites, still=still | {least: float(unmoved[:, varied].mean(0).max())}, rare=result.rare | {least}
    )


def still_place(latent: str) -> str:
    """The share that stood still of the entry of the latents that changed least."""
    return f"{latent}, at the place where it changes least,"


def varying(entries: np.ndarray) -> np.ndarray:
    """(N,): which columns of (R, N) have other values than their most frequent one in `VARIED` of the replicates or more."""
    most = [np.unique(column, return_counts=True)[1].max() for column in entries.T]
    return np.array([1 - number / len(entries) >= VARIED for number in most])


def as_the_oracle(oracle: Oracle, tables: Tables, latents: np.ndarray) -> np.ndarray:
    """Latents of the zoo's model as those of the oracle's tables: in their order, and as long as the longest row."""
    assert oracle.latent is not None
    wanted = tables[oracle.latent]
    latents_of = latents.reshape(*wanted.shape[:2], -1)
    if oracle.sorted_places is not None:
        latents_of = np.take_along_axis(latents_of, oracle.sorted_places(tables), axis=-1)
    return latents_of.reshape(*wanted.shape[:2], -1)[..., : wanted[0, 0].size].reshape(wanted.shape).astype(wanted.dtype)


def drawn_values(latent: Latent, z: Pytree, rows: int) -> Array:
    """(N, …): drawn latents as numbers, by row: which value a discrete one has; of units within rows, those of all in turn."""
    if latent.reported.units is not None:
        row, _, _, value = latent.reported.units(z)
        return value[jnp.argsort(row)].reshape(rows, -1).astype(float)
    part = latent.reported.part(z)
    return part if latent.reported.entropy is None else part.argmax(-1).astype(float)


def keeping_latents(algebra: Algebra) -> Algebra:
    """The algebra with the drawn latents as one more block of T, which a sweep passes on and nothing reads.

    For tables of fewer rows than a block of them has, and latents that all parameters share.
    """

    def statistics(weight: Array, z: Pytree, features: Pytree) -> Stats:
        latents = {LATENTS: drawn_values(algebra.latent, z, len(weight))}
        return {**algebra.statistics(weight, z, features), **latents}

    unread = Family(
        log_partition=lambda nu: jnp.zeros(()),
        mean=lambda nu: nu,
        mode=lambda nu: nu,
        sample=lambda key, nu: nu,
        why_no_mode=lambda nu: None,
    )
    return algebra._replace(families=(*algebra.families, (LATENTS, unread)), statistics=statistics)


def parts(model: Model) -> tuple[Algebra, dict[str, Any], dict[str, Any]]:
    """The algebra, hyperparameters and prior of a model whose sweeps keep their latents.

    Where blocks of parameters take turns, each draws latents, and none are passed on.
    """
    algebra, hyper, prior = model.algebra, dict(model.hyper), dict(model.prior)
    assert algebra is not None
    if algebra.structure.cycle:
        return algebra, hyper, prior
    return keeping_latents(algebra), hyper, prior | {LATENTS: jnp.zeros(())}


def begun(algebra: Algebra, hyper: Mapping[str, Any], rows: Pytree, sites: Sites) -> Stats:
    """T of parameters, and latents of the `parts` that keep them, none of which have been drawn yet."""
    T = dict(algebra.natural(hyper, sites))
    if algebra.structure.cycle:
        return T
    drawn = jax.eval_shape(lambda: drawn_given(algebra, hyper, jax.random.PRNGKey(0), T, rows))
    return T | {LATENTS: jnp.zeros(drawn.shape, drawn.dtype)}


def drawn_given(algebra: Algebra, hyper: Mapping[str, Any], key: Array, T: Stats, rows: Pytree) -> Array:
    """(N, …): latents of an algebra that keeps them, drawn given T as every sweep draws them."""
    drawn: Array = local_step(algebra, "sample", hyper, key, T, rows).stats[LATENTS]
    return drawn


def side_by_side(run: Callable[..., Any], sites: Sites, rows: Pytree, seed: int) -> Any:
    """``run(key, sites, rows)`` for every replicate."""
    number = len(next(iter(sites.values())))
    keys = jax.random.split(jax.random.PRNGKey(seed), number)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(keys, dict(sites), rows))


def twin_latents(
    model: Model, sites: Sites, tables: Sequence[Data], seed: int, twins: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Latents (R, N, …) given parameters, drawn rightly; and the same with the ``twins``, two rows, drawn by the same numbers.

    Random numbers belong to places: a row that takes the place of another is drawn by its numbers.
    """
    algebra, hyper, _ = parts(model)
    one, other = twins

    def run(key: Array, sites: Sites, rows: Pytree) -> tuple[Array, Array]:
        T = algebra.natural(hyper, sites)
        order = jnp.arange(len(jax.tree.leaves(rows)[0])).at[one].set(other)
        right = drawn_given(algebra, hyper, key, T, rows)
        in_its_place = drawn_given(algebra, hyper, key, T, jax.tree.map(lambda leaf: leaf[order], rows))[one]
        return right, right.at[other].set(in_its_place)

    twins_of: tuple[np.ndarray, np.ndarray] = side_by_side(run, sites, stacked_rows(model, tables), seed)
    return twins_of


def gibbs_kernel(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
    """Sweeps of `inference.methods.gibbs`."""
    algebra, hyper, prior = parts(model)

    def run(key: Array, sites: Sites, rows: Pytree) -> tuple[Sites, Array | None]:
        def sweep(T: Pytree, key: Array) -> tuple[Pytree, None]:
            return gibbs.step(algebra, (hyper, prior, rows), key, T)[0], None

        T, _ = jax.lax.scan(sweep, begun(algebra, hyper, rows, sites), jax.random.split(key, steps))
        return algebra.sites(hyper, T), T.get(LATENTS)

    after, latents = side_by_side(run, sites, stacked_rows(model, tables), seed)
    return ran(sites, after)._replace(latents=latents)


def tempered_kernel(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
    """Sweeps of `inference.methods.tempered_gibbs` with one cold replica and two hot ones.

    Replicas must start from the laws that they have. That of a hot one is the prior, from which ``sites`` are: those of the
    replicates before serve as hot ones, which ties neighbours together hardly at all. With few rows prior and posterior are
    near enough to exchange often.
    """
    algebra, hyper, prior = parts(model)
    others = {name: np.stack([value, np.roll(value, 1, 0), np.roll(value, 2, 0)], 1) for name, value in sites.items()}
    ladder = jnp.array([COLD, HOT, HOT])

    def run(key: Array, sites: Sites, rows: Pytree) -> tuple[Sites, Array, Array, Array]:
        state = tempered_gibbs.replicas(jax.vmap(partial(begun, algebra, hyper, rows))(sites), ladder)
        arrays = (hyper, prior, rows, jnp.zeros((), jnp.int32))

        def sweep(state: Pytree, key: Array) -> tuple[Pytree, tuple[Array, Array]]:
            following, record, _ = tempered_gibbs.step(algebra, arrays, key, state)
            # Of the cold replica with its neighbour: the probability, and whether another state is there now
            return following, (record.acceptance[0], following.walker[0] != state.walker[0])

        state, (acceptance, arrived) = jax.lax.scan(sweep, state, jax.random.split(key, steps))
        proposed = ~jnp.isnan(acceptance)
        share = jnp.where(proposed, arrived, False).sum() / proposed.sum()
        cold = jax.tree.map(lambda leaf: leaf[0], state.T)
        return algebra.sites(hyper, cold), cold[LATENTS], jnp.nanmean(acceptance), share

    after, latents, accepted, arrived = side_by_side(run, others, stacked_rows(model, tables), seed)
    result = ran(sites, after, EXCHANGES, exchanges=1 - float(accepted.mean()), states=1 - float(arrived.mean()))
    return result._replace(latents=latents)


def collapsed_kernel(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
    """Latents drawn given parameters, sweeps of `inference.methods.collapsed_gibbs` over them, parameters given latents."""
    assert model.algebra is not None
    assert model.algebra.structure.collapsed is not None
    hyper = {name: np.asarray(value, float) for name, value in model.hyper.items()}
    parameters, latents, still = [], [], []
    for replicate, table in enumerate(tables):
        sampler = model.algebra.structure.collapsed.sampler(hyper, model.rows(table))
        begun = sampler.start(seed, replicate, {name: value[replicate] for name, value in sites.items()})
        log_joint = sampler.log_joint(begun)  # of the start: a sampler may change its state in place
        state = sampler.advance(begun, steps)
        still.append(np.isclose(sampler.log_joint(state), log_joint, rtol=SAME, atol=0.0))
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replicate, 4)))
        parameters.append(sampler.sites(rng, state)[0])
        latents.append(sampler.latents(state))
    after = {name: np.stack([each[name] for each in parameters]) for name in sites}
    return ran(sites, after, latents=float(np.mean(still)))._replace(latents=np.stack(latents))


def permuted(kernel: Kernel) -> Kernel:
    """The kernel, and then a random element of the model's symmetry, as with ``permute_components``."""

    def run(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
        result = kernel(model, sites, tables, seed, steps)
        single = {name: value[None] for name, value in result.sites.items()}  # replicates are the draws of one chain
        moved = in_random_labellings(single, model.symmetry, model.naming.dims, seed)
        return result._replace(sites={name: value[0] for name, value in moved.items()}, latents=None)

    return run


class KernelOf(NamedTuple):
    """The kernel of a method, and how it is run."""

    kernel: Kernel
    last_rows: int | None = None  # how many rows of each table it is run on; None: all
    draws_latents: bool = True
