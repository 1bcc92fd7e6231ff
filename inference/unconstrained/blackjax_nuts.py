"""`method=nuts backend=blackjax`: BlackJAX's kernel of the No-U-Turn sampler, with the warm-up of Stan."""

from functools import cache, partial
from typing import Any

import jax
from jax import Array

from inference.engine.driver import Run, drive, sample
from inference.engine.task import Task
from inference.runtime.progress import Watch
from inference.unconstrained.adaptation import AdaptiveKernel, Algorithm, start_chains, step
from inference.unconstrained.density import DENSE, Density, Posterior
from models.base import Pytree


def chains(task: Task, posterior: Posterior, options: Any, watch: Watch) -> tuple[Run, dict[str, float]]:
    """Chains with the ``options`` of `inference.unconstrained.nuts`: (their run, seconds by phase)."""
    kernel = nuts_of_blackjax(posterior.density, options.num_warmup, options.target_accept, options.max_tree_depth)
    iterate = partial(drive, step, kernel, posterior.arrays, lockstep=False)
    key = jax.random.fold_in(task.key, 1)
    state = start_chains(kernel, posterior)
    return sample(iterate, key, state, options.num_warmup, options.num_samples, task, watch)


def nuts_of_blackjax(density: Density, num_warmup: int, target_accept: float, max_tree_depth: int) -> AdaptiveKernel:
    """The kernel; its metric is dense up to `DENSE` dimensions."""
    algorithm = Algorithm(begin, move, (max_tree_depth,))
    return AdaptiveKernel(algorithm, density, num_warmup, target_accept, density.size <= DENSE)


def begin(density: Density, arrays: tuple[Pytree, Pytree], flat: Array) -> Pytree:
    """BlackJAX's state at a vector (d,)."""
    from blackjax.mcmc import nuts

    return nuts.init(flat, lambda flat: density.log_density(arrays, flat))


@cache
def _kernel() -> Any:
    from blackjax.mcmc import nuts

    return nuts.build_kernel()


def move(
    algorithm: Algorithm,
    density: Density,
    arrays: tuple[Pytree, Pytree],
    key: Array,
    chain: Pytree,
    step_size: Array,
    inverse_mass_matrix: Array,
) -> tuple[Pytree, dict[str, Array]]:
    """One iteration of one chain, and its statistics."""
    (max_tree_depth,) = algorithm.settings
    target = lambda flat: density.log_density(arrays, flat)  # noqa: E731
    chain, info = _kernel()(key, chain, target, step_size, inverse_mass_matrix, int(max_tree_depth))
    return chain, {
        "diverging": info.is_divergent,
        "acceptance_rate": info.acceptance_rate,
        "n_steps": info.num_integration_steps,
        "energy": info.energy,
        "tree_depth": info.num_trajectory_expansions,
        "reached_max_treedepth": info.num_trajectory_expansions >= max_tree_depth,
    }
