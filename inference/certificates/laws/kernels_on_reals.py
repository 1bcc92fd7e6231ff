"""The kernels of methods on ℝᵈ, with fixed step sizes and metrics, and the table of all kernels."""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.certificates.checks.cases import stacked_rows
from inference.certificates.laws.kernels import (
    Kernel,
    KernelOf,
    Ran,
    collapsed_kernel,
    gibbs_kernel,
    permuted,
    ran,
    side_by_side,
    tempered_kernel,
)
from inference.engine.program import constrain, transforms, unconstrain, unravel
from inference.unconstrained import blackjax_nuts, chees, mclmc, numpyro_nuts
from inference.unconstrained.adaptation import AdaptiveKernel
from inference.unconstrained.density import Density
from models.base import Model, Pytree, Sites
from models.data.table import Data

STEP_SIZE = 0.25  # on ℝᵈ, with an identity as the metric
TREE_DEPTH = 5  # side by side, all replicates wait for the deepest tree
MEAN_STEPS = 12.0  # of a trajectory of mclmc, whose steps are STEP_SIZE √d long: it must move far in a few iterations
LONGEST = 32.0  # leapfrog steps of a trajectory of chees


def nuts_kernel(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
    """Iterations of NUTS on the marginal program with a fixed step size and metric."""
    hyper, rows = dict(model.hyper), stacked_rows(model, tables, sufficient_rows=True)
    supports = transforms(model.spec, hyper, jax.tree.map(lambda leaf: leaf[0], rows))
    init, sample = numpyro_nuts.kernels(numpyro_nuts.Kernel(model.spec, 0, 0.8, TREE_DEPTH))

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

    return ran(sites, side_by_side(run, sites, rows, seed))


def on_reals(begin: Callable[..., Pytree], move: Callable[..., Pytree]) -> Kernel:
    """A kernel from ``begin(density, arrays, flat)``, its state at a vector, and ``move(density, arrays, key, state)``."""

    def kernel(model: Model, sites: Sites, tables: Sequence[Data], seed: int, steps: int) -> Ran:
        hyper, rows = dict(model.hyper), stacked_rows(model, tables, sufficient_rows=True)
        supports = transforms(model.spec, hyper, jax.tree.map(lambda leaf: leaf[0], rows))
        shapes = jax.eval_shape(lambda sites: unconstrain(supports, sites), {name: value[0] for name, value in sites.items()})
        density = Density(model.spec, tuple((name, leaf.shape) for name, leaf in shapes.items()))

        def run(key: Array, sites: Sites, rows: Pytree) -> Sites:
            arrays, z = (hyper, rows), unconstrain(supports, sites)
            flat = jnp.concatenate([jnp.ravel(z[name]) for name, _ in density.shapes])
            keys = jax.random.split(key, steps)
            one = partial(move, density, arrays)
            state = jax.lax.scan(lambda state, key: (one(key, state), None), begin(density, arrays, flat), keys)[0]
            return constrain(supports, unravel(density.shapes, state.position))

        return ran(sites, side_by_side(run, sites, rows, seed))

    return kernel


def adaptive_kernel(of_blackjax: Callable[[Density], AdaptiveKernel], step_size: Callable[[int], float]) -> Kernel:
    """A kernel that `inference.unconstrained.adaptation` adapts, at a step size for d dimensions and an identity."""

    def begin(density: Density, arrays: Pytree, flat: Array) -> Pytree:
        return of_blackjax(density).algorithm.begin(density.target(arrays), flat)

    def move(density: Density, arrays: Pytree, key: Array, state: Pytree) -> Pytree:
        kernel = of_blackjax(density)
        metric = jnp.eye(density.size) if kernel.dense else jnp.ones(density.size)
        size = jnp.asarray(step_size(density.size))
        return kernel.algorithm.move(kernel.algorithm.settings, density.target(arrays), key, state, size, metric)[0]

    return on_reals(begin, move)


def _begin_chees(density: Density, arrays: Pytree, flat: Array) -> Pytree:
    from blackjax.mcmc import dynamic_hmc

    return dynamic_hmc.init(flat, density.target(arrays), jnp.zeros((), jnp.int32))


def _move_chees(density: Density, arrays: Pytree, key: Array, state: Pytree) -> Pytree:
    return chees.move(density, arrays, key, state, jnp.asarray(STEP_SIZE), jnp.ones(density.size), jnp.asarray(float(LONGEST)))[
        0
    ]


BLACKJAX_NUTS = adaptive_kernel(
    lambda density: blackjax_nuts.nuts_of_blackjax(density, 0, 0.8, TREE_DEPTH), lambda size: STEP_SIZE
)
MCLMC = adaptive_kernel(
    lambda density: mclmc.mclmc_of_blackjax(density, 0, 0.8, MEAN_STEPS), lambda size: STEP_SIZE * float(np.sqrt(size))
)


KERNELS: dict[str, KernelOf] = {  # by the name of the method
    "gibbs": KernelOf(gibbs_kernel),
    "tempered_gibbs": KernelOf(tempered_kernel, last_rows=2),
    "collapsed_gibbs": KernelOf(collapsed_kernel),
    "nuts": KernelOf(nuts_kernel, draws_latents=False),
    "chees": KernelOf(on_reals(_begin_chees, _move_chees), draws_latents=False),
    "mclmc": KernelOf(MCLMC, draws_latents=False),
}
BACKENDS: dict[str, KernelOf] = {"nuts backend=blackjax": KernelOf(BLACKJAX_NUTS, draws_latents=False)}  # of methods above
PERMUTED: dict[str, KernelOf] = {  # with permute_components; for models with a symmetry
    "gibbs": KernelOf(permuted(gibbs_kernel), draws_latents=False),
    "nuts": KernelOf(permuted(nuts_kernel), draws_latents=False),
}
