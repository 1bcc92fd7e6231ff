"""Hamiltonian Monte Carlo whose many chains share one trajectory length (Hoffman, Radul and Sountsov 2021), by BlackJAX.

All chains take equally many leapfrog steps, so that they run side by side without waiting for each other, as the trees of NUTS
would make them. The length of a trajectory is a quasi-random share of one length T. The warm-up climbs the criterion

    ChEES(T) = ¼ E[(‖z(T) − μ‖² − ‖z(0) − μ‖²)²]

the change in the estimator of the expected square, by Adam (optax), over all chains. It tunes the step size to an acceptance of
``target_accept`` by dual averaging over the harmonic mean of all chains, and the metric in Stan's windows.

Chains may be in different labellings of the components, or at different modes. So μ and the covariance of the metric are those
within chains: a chain's mean in the last window, and deviations from it. The metric is dense up to
`inference.unconstrained.density.DENSE` dimensions. The criterion is measured in coordinates that it makes round.

How this can mislead: as ``nuts``. One length serves all directions and all places, so that a funnel needs ``nuts``. Draws of
many chains that are each short look converged by R-hat only if chains start overdispersed, as they do here.
"""

from functools import cache, partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.engine.driver import Run, drive
from inference.engine.program import unravel
from inference.engine.task import Draws, Task, timing
from inference.methods.method import Method
from inference.methods.options import NumSamples, NumWarmup, PermuteComponents, Setting
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from inference.unconstrained.density import (
    DENSE,
    Density,
    Posterior,
    begins_with_curvature,
    curvature_metrics,
    draws_from_starts,
)
from inference.unconstrained.starts import Starts, posterior_with_starts
from models.base import Pytree

FIRST_STEP = 0.5  # step size to begin with, where the metric is the inverse of the curvature
UNKNOWN_STEP = 0.05  # and where it is the identity
FIRST_LENGTH = 1.5  # length of a trajectory to begin with, in round coordinates: about a quarter of a turn
RATE = 0.025  # of Adam on the logarithm of the length, as in the paper
DECAY = 0.5  # of the moving averages of step size and length, as in the paper
MOST_STEPS = 1000  # leapfrog steps of a trajectory
BITS = 16  # of the quasi-random numbers, which repeat after 2 to this power iterations
SHRINKAGE = 5.0  # iterations of which a small multiple of the identity counts as the covariance, as in Stan
SMALL = 1e-3


class Options(NamedTuple):
    """``num_chains`` chains of ``num_warmup`` adaptive iterations dropped and ``num_samples`` kept."""

    num_warmup: NumWarmup = 500
    num_samples: NumSamples = 100
    num_chains: Annotated[int, Setting("chains, which share step size and trajectory length", low=2)] = 64
    target_accept: Annotated[
        float, Setting("mean acceptance probability that the warm-up aims at; more means shorter steps", low=0.05, high=0.999)
    ] = 0.651
    starts: Starts = "overdispersed"
    permute_components: PermuteComponents = False


class Ensemble(NamedTuple):
    """The static half of a warm-up."""

    density: Density
    num_warmup: int
    target_accept: float


class EnsembleState(NamedTuple):
    """All chains, and what they share."""

    chains: Pytree  # as BlackJAX has them: positions (C, d), log densities, gradients, number of the iteration
    tuning: Pytree  # of step size and length
    metric: Array  # (d, d), or its diagonal (d,)
    centre: Array  # (C, d): the mean of each chain in the last window
    mean: Array  # (C, d): in this window
    moments: Array  # as ``metric``: Σ of squared deviations from these means, over all chains
    number: Array  # of iterations in this window
    iteration: Array


# ---------------------------------------------------------------------------------------------------------------------
# Trajectories


def share(iteration: Array) -> Array:
    """A quasi-random number in (0, 1), the same for all chains: the share of the length that an iteration goes."""
    from blackjax.mcmc.dynamic_hmc import halton_sequence

    return halton_sequence(iteration % 2**BITS, BITS)


@cache
def kernel() -> Any:
    """BlackJAX's kernel of trajectories with a number of leapfrog steps that depends on the number of the iteration."""
    from blackjax.mcmc import dynamic_hmc

    def steps(iteration: Array, longest: Array) -> Array:
        return jnp.maximum(jnp.ceil(share(iteration) * longest), 1).astype(jnp.int32)

    return dynamic_hmc.build_kernel(next_random_arg_fn=lambda iteration: iteration + 1, integration_steps_fn=steps)


def move(
    density: Density, arrays: Pytree, key: Array, chain: Pytree, step_size: Array, metric: Array, longest: Array
) -> tuple[Pytree, Any]:
    """One trajectory of one chain, of ``longest`` leapfrog steps at most, and its Metropolis step."""
    following: tuple[Pytree, Any] = kernel()(key, chain, density.target(arrays), step_size, metric, (longest,))
    return following


# ---------------------------------------------------------------------------------------------------------------------
# The warm-up


def tuner(target_accept: float) -> tuple[Any, Any]:
    """BlackJAX's (init, update) of step size and length."""
    import optax
    from blackjax.adaptation import chees_adaptation

    optimiser = optax.adam(RATE, b1=0.0, b2=0.95)
    return chees_adaptation.base(share, lambda iteration: iteration + 1, optimiser, target_accept, DECAY, MOST_STEPS)


@cached_jit(static_argnames=("ensemble",))
def initial(ensemble: Ensemble, arrays: tuple[Pytree, Pytree], starts: Array) -> EnsembleState:
    """The state at ``starts`` (C, d), with a leading axis of one ensemble."""
    from blackjax.mcmc import dynamic_hmc

    density, (_, size) = ensemble.density, starts.shape
    target = density.target(arrays)
    chains = jax.vmap(lambda flat: dynamic_hmc.init(flat, target, jnp.zeros((), jnp.int32)))(starts)
    known = begins_with_curvature(density, ensemble.num_warmup)
    same = jnp.eye(size, dtype=starts.dtype) if size <= DENSE else jnp.ones(size, starts.dtype)
    metric = curvature_metrics(density, arrays, starts).mean(0) if known else same
    tuning = _tuning(ensemble, jnp.asarray(FIRST_STEP if known else UNKNOWN_STEP, starts.dtype))
    length = jnp.asarray(FIRST_LENGTH if known else UNKNOWN_STEP, starts.dtype)
    tuning = tuning._replace(trajectory_length=length, log_trajectory_length_moving_average=jnp.log(length))
    zero = jnp.zeros((), jnp.int32)
    state = EnsembleState(chains, tuning, metric, starts, jnp.zeros_like(starts), jnp.zeros_like(metric), zero, zero)
    return jax.tree.map(lambda leaf: leaf[None], state)


def _tuning(ensemble: Ensemble, step_size: Array) -> Pytree:
    """BlackJAX's state before its first iteration, with numbers of the types that iterations give them.

    Dual averaging shrinks towards ten times the step size that it begins with. So it begins with a tenth of ``step_size``:
    steps ten times too long would make trajectories as long, and the criterion is nearly flat there.
    """
    init, _ = tuner(ensemble.target_accept)
    state = init(jnp.zeros((), jnp.int32), step_size / 10)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.int32 if _is_whole(leaf) else step_size.dtype), state)


def _is_whole(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.integer))


def warm(
    ensemble: Ensemble, arrays: tuple[Pytree, Pytree], key: Array, state: EnsembleState
) -> tuple[EnsembleState, dict[str, Array], Array]:
    """One iteration of all chains; the record has means over them."""
    density, tuning = ensemble.density, state.tuning
    keys = jax.random.split(key, len(state.centre))
    longest = tuning.trajectory_length / tuning.step_size
    step = partial(move, density, arrays, step_size=tuning.step_size, metric=state.metric, longest=longest)
    chains, info = jax.vmap(lambda key, chain: step(key, chain))(keys, state.chains)
    begun, ended = (
        round_positions(state.metric, flat - state.centre) for flat in (state.chains.position, info.proposal.position)
    )
    momenta = round_momenta(state.metric, info.proposal.momentum)
    ones = jnp.ones(density.size, begun.dtype)
    _, update = tuner(ensemble.target_accept)
    tuned = update(tuning, ended, momenta, begun, info.acceptance_rate, info.is_divergent, ones)
    tuned = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), tuned, tuning)
    following = _windowed(ensemble, state._replace(chains=chains, tuning=tuned, iteration=state.iteration + 1))
    record = {
        "potential": -chains.logdensity.mean(),
        "step_size": tuning.step_size,
        "n_steps": info.num_integration_steps[0],
        "acceptance_rate": info.acceptance_rate.mean(),
        "diverging": info.is_divergent.sum(),
    }
    return following, record, jnp.zeros((), bool)


def round_positions(metric: Array, away: Array) -> Array:
    """(C, d): L⁻¹ (z − μ), where the metric is L Lᵀ."""
    if metric.ndim == 1:
        return away / jnp.sqrt(metric)
    return jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(metric), away.T, lower=True).T


def round_momenta(metric: Array, momenta: Array) -> Array:
    """(C, d): Lᵀ p, where the metric is L Lᵀ."""
    return momenta * jnp.sqrt(metric) if metric.ndim == 1 else momenta @ jnp.linalg.cholesky(metric)


def _windowed(ensemble: Ensemble, state: EnsembleState) -> EnsembleState:
    """A state after its iteration: in a window new moments (Welford), and at its end a new metric and new means."""
    from blackjax.adaptation.staged_adaptation import build_schedule

    if not ensemble.num_warmup:
        return state
    in_window, ends = build_schedule(ensemble.num_warmup)[state.iteration - 1].astype(jnp.int32)
    number = state.number + in_window
    away = state.chains.position - state.mean
    mean = state.mean + in_window * away / jnp.maximum(number, 1)
    left = state.chains.position - mean
    products = (away * left).sum(0) if state.moments.ndim == 1 else away.T @ left
    state = state._replace(number=number, mean=mean, moments=state.moments + in_window * products)
    following = jax.tree.map(lambda new, old: jnp.where(ends == 1, new, old), _after_window(ensemble, state), state)
    return following._replace(chains=state.chains)


def _after_window(ensemble: Ensemble, state: EnsembleState) -> EnsembleState:
    """The state at the end of a window: the metric is its covariance within chains, a little towards the identity."""
    covariance = state.moments / (len(state.centre) * jnp.maximum(state.number - 1, 1))
    identity = jnp.ones_like(covariance) if covariance.ndim == 1 else jnp.eye(len(covariance), dtype=covariance.dtype)
    weight = state.number / (state.number + SHRINKAGE)
    step_size = jnp.exp(state.tuning.log_step_size_moving_average)
    restarted = _tuning(ensemble, step_size)
    tuning = restarted._replace(
        trajectory_length=state.tuning.trajectory_length,
        log_trajectory_length_moving_average=state.tuning.log_trajectory_length_moving_average,
        optim_state=state.tuning.optim_state,
        random_generator_arg=state.tuning.random_generator_arg,
    )
    return state._replace(
        tuning=tuning,
        metric=weight * covariance + (1 - weight) * SMALL * identity,
        centre=state.mean,
        mean=jnp.zeros_like(state.mean),
        moments=jnp.zeros_like(state.moments),
        number=jnp.zeros_like(state.number),
    )


# ---------------------------------------------------------------------------------------------------------------------
# The draws


def draw(density: Density, arrays: tuple[Pytree, ...], key: Array, chain: Pytree) -> tuple[Pytree, dict[str, Any], Array]:
    """One iteration of one chain with what the warm-up has tuned, which is part of ``arrays``."""
    *posterior, step_size, metric, longest = arrays
    chain, info = move(density, tuple(posterior), key, chain, step_size, metric, longest)
    record = {
        "z": unravel(density.shapes, chain.position),
        "potential": -chain.logdensity,
        "step_size": step_size,
        "n_steps": info.num_integration_steps,
        "acceptance_rate": info.acceptance_rate,
        "diverging": info.is_divergent,
        "energy": info.energy,
    }
    return chain, record, jnp.zeros((), bool)


def run(task: Task, options: Options) -> Draws:
    """Draws of every site from every chain, with the kernel's statistics."""
    posterior = posterior_with_starts(task, options)
    run, timing = _warmed_and_drawn(task, posterior, options)
    return draws_from_starts(task, posterior, run, timing, options.permute_components)


def _warmed_and_drawn(task: Task, posterior: Posterior, options: Options) -> tuple[Run, dict[str, float]]:
    """A warm-up of the ensemble, then its chains side by side: (the run of the draws, seconds by phase)."""
    density, arrays = posterior.density, posterior.arrays
    ensemble = Ensemble(density, options.num_warmup, options.target_accept)
    key = jax.random.fold_in(task.key, 1)
    state = initial(ensemble, arrays, jnp.asarray(posterior.starts))
    warmed = drive(
        warm, ensemble, arrays, key, state, options.num_warmup, task.reporter, "warm-up",
        keep=False, watch=WATCH, checkpoint=task.checkpoint("warmup"),
    )  # fmt: skip
    if warmed.interrupted:
        return warmed._replace(records=None, num_steps=0), timing(0.0, warmed.compile_seconds, warmed.run_seconds)
    chains, tuning, metric = jax.tree.map(lambda leaf: np.asarray(leaf)[0], warmed.state[:3])
    step_size = np.exp(tuning.log_step_size_moving_average) if options.num_warmup else tuning.step_size
    length = np.exp(tuning.log_trajectory_length_moving_average)
    shared = (step_size, metric, np.clip(length / step_size, 1, MOST_STEPS))
    run = drive(
        draw, density, (*arrays, *map(jnp.asarray, shared)), key, chains, options.num_samples, task.reporter, "sampling",
        first=options.num_warmup, watch=WATCH, checkpoint=task.checkpoint("sampling", cut=True),
    )  # fmt: skip
    return run, timing(run.run_seconds, warmed.compile_seconds + run.compile_seconds, warmed.run_seconds)


def _words(record: Any) -> str:
    steps = int(np.max(record["n_steps"]))
    return (
        f"log joint on ℝᵈ {-np.mean(record['potential']):.2f}, {steps} gradients, step size {np.mean(record['step_size']):.3g}"
    )


WATCH = Watch(_words, totals={"divergent": lambda records: records["diverging"]})


METHOD = Method(
    name="chees",
    summary="Hamiltonian Monte Carlo of many chains with one adapted trajectory length, by BlackJAX",
    options=Options,
    run=run,
    claim="invariant",
    evidence=("kernel law", "posterior", "predictions", "pipeline"),
    may_stay=True,
)
