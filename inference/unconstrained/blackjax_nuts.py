"""`method=nuts backend=blackjax`: BlackJAX's kernel of the No-U-Turn sampler, with the warm-up of Stan."""

from typing import Any

from jax import Array

from inference.engine.driver import Run
from inference.engine.task import Task
from inference.runtime.progress import Watch
from inference.unconstrained.adaptation import AdaptiveKernel, Algorithm, Target, adaptive_chains
from inference.unconstrained.density import DENSE, Density, Posterior
from models.base import Pytree


def chains(task: Task, posterior: Posterior, options: Any, watch: Watch) -> tuple[Run, dict[str, float]]:
    """Chains with the ``options`` of `inference.unconstrained.nuts`: (their run, seconds by phase)."""
    kernel = nuts_of_blackjax(posterior.density, options.num_warmup, options.target_accept, options.max_tree_depth)
    return adaptive_chains(task, posterior, kernel, options.num_samples, watch)


def nuts_of_blackjax(density: Density, num_warmup: int, target_accept: float, max_tree_depth: int) -> AdaptiveKernel:
    """The kernel; its metric is dense up to `DENSE` dimensions."""
    algorithm = Algorithm(begin, move, (max_tree_depth,))
    return AdaptiveKernel(algorithm, density, num_warmup, target_accept, density.size <= DENSE)


def begin(target: Target, flat: Array) -> Pytree:
    """BlackJAX's state at a vector (d,)."""
    from blackjax.mcmc import nuts

    return nuts.init(flat, target)


def move(
    settings: tuple[int, ...], target: Target, key: Array, chain: Pytree, step_size: Array, inverse_mass_matrix: Array
) -> tuple[Pytree, dict[str, Array]]:
    """One iteration of one chain, and its statistics."""
    from blackjax.mcmc import nuts

    (max_tree_depth,) = settings
    chain, info = nuts.build_kernel()(key, chain, target, step_size, inverse_mass_matrix, max_tree_depth)
    return chain, {
        "diverging": info.is_divergent,
        "acceptance_rate": info.acceptance_rate,
        "n_steps": info.num_integration_steps,
        "energy": info.energy,
        "tree_depth": info.num_trajectory_expansions,
        "reached_max_treedepth": info.num_trajectory_expansions >= max_tree_depth,
    }
