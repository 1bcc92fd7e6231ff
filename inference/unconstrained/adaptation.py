"""Chains of a BlackJAX kernel, with the warm-up of Stan: step sizes by dual averaging, a metric from windows of draws.

An iteration of the warm-up is an iteration of the chain (Hoffman and Gelman 2014, section 3.2; the windows are those of Stan's
reference manual). So the zoo's driver runs both, keeps their checkpoints and resumes them. BlackJAX has the kernels, the dual
averaging, Welford's covariances and the schedule.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from inference.engine.driver import Run, drive, sample
from inference.engine.program import unravel
from inference.engine.task import Task
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from inference.unconstrained.density import Density, Posterior, begins_with_curvature, curvature_metrics
from models.base import Pytree

FIRST_STEP = 0.5  # step size to begin with, where the metric is the inverse of the curvature
UNKNOWN_STEP = 0.05  # and where it is the identity: dual averaging climbs faster than it finds its way back

Target = Callable[[Array], Array]  # the log density of a vector (d,)


class Algorithm(NamedTuple):
    """A kernel of BlackJAX.

    ``begin(target, flat)`` makes its state at a vector (d,), where ``target`` is the log density of one. ``move(settings,
    target, key, chain, step_size, inverse_mass_matrix)`` returns the next state and its statistics, among them
    ``acceptance_rate``.
    """

    begin: Callable[..., Pytree]
    move: Callable[..., tuple[Pytree, dict[str, Array]]]
    settings: tuple[float, ...] = ()


class AdaptiveKernel(NamedTuple):
    """The static half of a run; with ``dense`` the metric is a full matrix, otherwise diagonal."""

    algorithm: Algorithm
    density: Density
    num_warmup: int
    target_accept: float
    dense: bool


class AdaptiveState(NamedTuple):
    """State of one chain."""

    chain: Pytree  # as BlackJAX has it: position (d,), its log density, its gradient
    step_size: Pytree  # of dual averaging
    metric: Pytree  # the inverse mass matrix, and the moments of the window
    iteration: Array  # number of iterations so far


@cached_jit(static_argnames=("kernel",))
def initial(kernel: AdaptiveKernel, arrays: tuple[Pytree, Pytree], starts: Array, metrics: Array) -> AdaptiveState:
    """State of every chain (a leading axis) at ``starts`` (chain, d) with ``metrics`` (chain, d) or (chain, d, d)."""
    averaging, moments = _adaptations(kernel)
    first = FIRST_STEP if begins_with_curvature(kernel.density, kernel.num_warmup) else UNKNOWN_STEP

    def one(flat: Array, metric: Array) -> AdaptiveState:
        chain = kernel.algorithm.begin(kernel.density.target(arrays), flat)
        return AdaptiveState(
            chain,
            _strong(averaging.init(jnp.asarray(first, flat.dtype))),
            _strong(moments.init(kernel.density.size, metric)),
            jnp.zeros((), jnp.int32),
        )

    return jax.vmap(one)(starts, metrics)


def start_chains(kernel: AdaptiveKernel, posterior: Posterior) -> AdaptiveState:
    """States at the starts of a posterior; the first metric is the curvature there, where `begins_with_curvature`."""
    starts, (number, size) = jnp.asarray(posterior.starts), posterior.starts.shape
    if begins_with_curvature(kernel.density, kernel.num_warmup):
        metrics = curvature_metrics(kernel.density, posterior.arrays, starts)
        metrics = metrics if kernel.dense else jnp.diagonal(metrics, axis1=-2, axis2=-1)
    else:
        same = jnp.eye(size, dtype=starts.dtype) if kernel.dense else jnp.ones(size, starts.dtype)
        metrics = jnp.broadcast_to(same, (number, *same.shape))
    state: AdaptiveState = initial(kernel, posterior.arrays, starts, metrics)
    return state


def adaptive_chains(
    task: Task, posterior: Posterior, kernel: AdaptiveKernel, num_samples: int, watch: Watch
) -> tuple[Run, dict[str, float]]:
    """A warm-up and ``num_samples`` draws of every chain: (the run of the draws, seconds by phase).

    Trajectories have a random number of steps, so that chains do not wait for each other.
    """
    iterate = partial(drive, step, kernel, posterior.arrays, lockstep=False)
    key = jax.random.fold_in(task.key, 1)
    return sample(iterate, key, start_chains(kernel, posterior), kernel.num_warmup, num_samples, task, watch)


def step(
    kernel: AdaptiveKernel, arrays: tuple[Pytree, Pytree], key: Array, state: AdaptiveState
) -> tuple[AdaptiveState, dict[str, Any], Array]:
    """One iteration of one chain; after the warm-up step size and metric stay as they are."""
    adapting = state.iteration < kernel.num_warmup
    current, mean = state.step_size.log_step_size, state.step_size.log_step_size_avg
    size = jnp.exp(jnp.where(adapting, current, mean) if kernel.num_warmup else current)
    algorithm, target = kernel.algorithm, kernel.density.target(arrays)
    chain, statistics = algorithm.move(algorithm.settings, target, key, state.chain, size, state.metric.inverse_mass_matrix)
    record = {"z": unravel(kernel.density.shapes, chain.position), "potential": -chain.logdensity, "step_size": size}
    following = state._replace(chain=chain, iteration=state.iteration + 1)
    if kernel.num_warmup:
        acceptance = jnp.nan_to_num(statistics["acceptance_rate"])
        following = lax.cond(adapting, partial(_adapted, kernel, acceptance), lambda same: same, following)
    return following, record | statistics, jnp.zeros((), bool)


class _Adaptation(NamedTuple):
    """BlackJAX's three functions of an adaptation."""

    init: Callable[..., Any]
    update: Callable[..., Any]
    final: Callable[..., Any]


def _adaptations(kernel: AdaptiveKernel) -> tuple[_Adaptation, _Adaptation]:
    """Those of the step size and of the metric."""
    from blackjax.adaptation.mass_matrix import mass_matrix_adaptation
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    return _Adaptation(*dual_averaging_adaptation(kernel.target_accept)), _Adaptation(*mass_matrix_adaptation(not kernel.dense))


def _adapted(kernel: AdaptiveKernel, acceptance: Array, state: AdaptiveState) -> AdaptiveState:
    """A state after its iteration: a new step size; in a window new moments, and at its end a new metric."""
    from blackjax.adaptation.staged_adaptation import build_schedule

    averaging, moments = _adaptations(kernel)
    in_window, ends = build_schedule(kernel.num_warmup)[state.iteration - 1]
    step_size = averaging.update(state.step_size, acceptance)
    seen = moments.update(state.metric, state.chain.position)
    metric = jax.tree.map(lambda new, old: jnp.where(in_window == 1, new, old), seen, state.metric)
    ended = averaging.init(averaging.final(step_size)), moments.final(metric)
    return state._replace(**_chosen(ends == 1, ended, (step_size, metric)))


def _chosen(ends: Array, ended: tuple[Pytree, Pytree], going: tuple[Pytree, Pytree]) -> dict[str, Pytree]:
    """Step size and metric after an iteration, by whether a window ends with it."""
    step_size, metric = jax.tree.map(lambda new, old: jnp.where(ends, new, old).astype(jnp.result_type(old)), ended, going)
    return {"step_size": step_size, "metric": metric}


def _strong(tree: Pytree) -> Pytree:
    """Numbers of Python as arrays of the types that iterations give them."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.int32 if isinstance(leaf, int) else jnp.result_type(float)), tree)
