"""The Markov kernels of methods, run side by side on many tables of equal shape from given parameters.

A kernel takes the model, R parameters and R tables, and returns the parameters after some steps. Nothing in it may depend on
the parameters but the steps themselves: NUTS has a fixed step size, tempering fixed temperatures.

Stationarity is no sign of life: a kernel that stands still leaves every law alone. So a kernel also says what stood still.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.certificates.checks.cases import stacked_rows
from inference.engine.program import constrain, transforms, unconstrain
from inference.engine.requirements import ANY_MODEL, Support
from inference.identification.random_labels import in_random_labellings
from inference.methods import collapsed_gibbs, gibbs, nuts, tempered_gibbs
from models.base import Model, Pytree, Sites
from models.data.table import Data

STEP_SIZE = 0.25  # of NUTS on ℝᵈ, with an identity as its metric
TREE_DEPTH = 5  # side by side, all replicates wait for the deepest tree
EXCHANGES = frozenset({"exchanges", "states"})  # of posterior and prior: about one proposal in twenty is accepted
COLD, HOT = 0.0, -20.0  # log inverse temperatures; at exp(−20) the posterior is the prior to eight digits
SAME = 1e-9  # relative difference of a number that went to ℝᵈ and back


class Ran(NamedTuple):
    """The parameters (R, …) after the steps, and latents of a kernel that draws them; the shares of what stood still."""

    sites: dict[str, np.ndarray]
    still: dict[str, float]
    rare: frozenset[str] = frozenset()  # what stands still in most replicates of a right kernel, too


# (model, sites (R, …), tables, seed, steps) -> the parameters after the steps
Kernel = Callable[[Model, Sites, Sequence[Data], int, int], Ran]


def same(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Which entries did not move, but for the rounding of their type."""
    rounding = 10 * np.finfo(after.dtype).eps if after.dtype.kind == "f" else 0.0
    return np.isclose(after, before, rtol=max(SAME, rounding), atol=0.0)


def ran(before: Sites, after: Sites, rare: frozenset[str] = frozenset(), **still: float) -> Ran:
    """The outcome of a kernel; of every site, the share of replicates in which its laziest entry stood still."""
    found = dict(still)
    for name, value in before.items():
        found[name] = float(np.reshape(same(value, np.asarray(after[name])), (len(value), -1)).mean(0).max())
    return Ran({name: np.asarray(value) for name, value in after.items()}, found, rare)


def _side_by_side(run: Callable[..., Any], sites: Sites, rows: Pytree, seed: int) -> Any:
    """``run(key, sites, rows)`` for every replicate."""
    number = len(next(iter(sites.values())))
    keys = jax.random.split(jax.random.PRNGKey(seed), number)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(keys, dict(sites), rows))


def gibbs_kernel(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
    """Sweeps of `inference.methods.gibbs`."""
    algebra, hyper, prior = model.algebra, dict(model.hyper), dict(model.prior)
    assert algebra is not None

    def run(key: Array, sites: Sites, rows: Pytree) -> Sites:
        def sweep(T: Pytree, key: Array) -> tuple[Pytree, None]:
            return gibbs.step(algebra, (hyper, prior, rows), key, T)[0], None

        T, _ = jax.lax.scan(sweep, algebra.natural(hyper, sites), jax.random.split(key, steps))
        return algebra.sites(hyper, T)

    return ran(sites, _side_by_side(run, sites, stacked_rows(model, tables), seed))


def tempered_kernel(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
    """Sweeps of `inference.methods.tempered_gibbs` with one cold replica and two hot ones.

    Replicas must start from the laws that they have. That of a hot one is the prior, from which ``sites`` are: those of the
    replicates before serve as hot ones, which ties neighbours together hardly at all. With few rows prior and posterior are
    near enough to exchange often.
    """
    algebra, hyper, prior = model.algebra, dict(model.hyper), dict(model.prior)
    assert algebra is not None
    others = {name: np.stack([value, np.roll(value, 1, 0), np.roll(value, 2, 0)], 1) for name, value in sites.items()}
    ladder = jnp.array([COLD, HOT, HOT])

    def run(key: Array, sites: Sites, rows: Pytree) -> tuple[Sites, Array, Array]:
        state = tempered_gibbs.replicas(jax.vmap(partial(algebra.natural, hyper))(sites), ladder)
        arrays = (hyper, prior, rows, jnp.zeros((), jnp.int32))

        def sweep(state: Pytree, key: Array) -> tuple[Pytree, tuple[Array, Array]]:
            following, record, _ = tempered_gibbs.step(algebra, arrays, key, state)
            # Of the cold replica with its neighbour: the probability, and whether another state is there now
            return following, (record.acceptance[0], following.walker[0] != state.walker[0])

        state, (acceptance, arrived) = jax.lax.scan(sweep, state, jax.random.split(key, steps))
        proposed = ~jnp.isnan(acceptance)
        share = jnp.where(proposed, arrived, False).sum() / proposed.sum()
        return algebra.sites(hyper, jax.tree.map(lambda leaf: leaf[0], state.T)), jnp.nanmean(acceptance), share

    after, accepted, arrived = _side_by_side(run, others, stacked_rows(model, tables), seed)
    return ran(sites, after, EXCHANGES, exchanges=1 - float(accepted.mean()), states=1 - float(arrived.mean()))


def nuts_kernel(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
    """Iterations of NUTS on the marginal program with a fixed step size and metric."""
    hyper, rows = dict(model.hyper), stacked_rows(model, tables, condensed=True)
    supports = transforms(model.spec, hyper, jax.tree.map(lambda leaf: leaf[0], rows))
    init, sample = nuts.kernels(nuts.Kernel(model.spec, 0, 0.8, TREE_DEPTH))

    def run(key: Array, sites: Sites, rows: Pytree) -> Sites:
        arrays = (hyper, rows)
        state = init(
            unconstrain(supports, sites),
            0,
            step_size=STEP_SIZE,
            adapt_step_size=False,
            adapt_mass_matrix=False,
            dense_mass=False,
            max_tree_depth=TREE_DEPTH,
            model_args=arrays,
            rng_key=key,
        )
        state = jax.lax.fori_loop(0, steps, lambda _, state: sample(state, arrays), state)
        return constrain(supports, state.z)

    return ran(sites, _side_by_side(run, sites, rows, seed))


def collapsed_kernel(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
    """Latents drawn given parameters, sweeps of `inference.methods.collapsed_gibbs` over them, parameters given latents."""
    assert model.algebra is not None
    assert model.algebra.structure.collapsed is not None
    hyper = {name: np.asarray(value, float) for name, value in model.hyper.items()}
    found, still = [], []
    for replicate, table in enumerate(tables):
        sampler = model.algebra.structure.collapsed.sampler(hyper, model.rows(table))
        begun = sampler.start(seed, replicate, {name: value[replicate] for name, value in sites.items()})
        log_joint = sampler.log_joint(begun)  # of the start: a sampler may change its state in place
        state = sampler.advance(begun, steps)
        still.append(np.isclose(sampler.log_joint(state), log_joint, rtol=SAME, atol=0.0))
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replicate, 4)))
        found.append(sampler.sites(rng, state)[0])
    after = {name: np.stack([each[name] for each in found]) for name in sites}
    return ran(sites, after, latents=float(np.mean(still)))


def permuted(kernel: Kernel) -> Kernel:
    """The kernel, and then a random element of the model's symmetry, as with ``permute_components``."""

    def run(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
        found = kernel(model, sites, tables, seed, steps)
        single = {name: value[None] for name, value in found.sites.items()}  # replicates are the draws of one chain
        moved = in_random_labellings(single, model.symmetry, model.naming.dims, seed)
        return found._replace(sites={name: value[0] for name, value in moved.items()})

    return run


class KernelOf(NamedTuple):
    """The kernel of a method, the models that it supports, and how many rows of each table it is run on."""

    kernel: Kernel
    support: Support
    last_rows: int | None = None  # None: all


KERNELS: dict[str, KernelOf] = {  # by the name of the method
    "gibbs": KernelOf(gibbs_kernel, gibbs.METHOD.support),
    "tempered_gibbs": KernelOf(tempered_kernel, tempered_gibbs.METHOD.support, last_rows=2),
    "collapsed_gibbs": KernelOf(collapsed_kernel, collapsed_gibbs.METHOD.support),
    "nuts": KernelOf(nuts_kernel, ANY_MODEL),
}
PERMUTED: dict[str, KernelOf] = {  # with permute_components; for models with a symmetry
    "gibbs": KernelOf(permuted(gibbs_kernel), gibbs.METHOD.support),
    "nuts": KernelOf(permuted(nuts_kernel), ANY_MODEL),
}
