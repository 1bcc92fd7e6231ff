"""Adjusted microcanonical Langevin Monte Carlo (Robnik, Cohn-Gordon and Seljak 2025): BlackJAX's kernel, with Metropolis steps.

A proposal follows dynamics whose velocity u on ℝᵈ has length 1:

    dz = u dt,   du = (1 − u uᵀ) ∇ log p(z) dt / (d − 1)

in coordinates scaled by a diagonal metric. The energy is exchanged with the direction alone, so that a step may be long where
the density is steep. A random number of steps makes a trajectory, on average ``mean_steps``. The Metropolis step accepts its
end, or the chain stays: the posterior is invariant, unlike under the unadjusted kernel. Then the velocity is drawn anew.

The warm-up tunes the step size to an acceptance of ``target_accept`` and the metric in windows, as that of ``nuts`` does.
A trajectory that is all but sure to be rejected counts as divergent: the steps are too long where it went, as in the neck of a
funnel, which chains then avoid.
How this can mislead: as ``nuts``, and short trajectories explore long scales by diffusion, so that chains need more draws.
"""

from typing import Annotated, NamedTuple

import jax
from jax import Array

from inference.engine.task import Draws, Task
from inference.methods.method import Method
from inference.methods.options import NumChains, NumSamples, NumWarmup, PermuteComponents, Setting
from inference.unconstrained.adaptation import AdaptiveKernel, Algorithm, Target, adaptive_chains
from inference.unconstrained.density import Density, draws_from_starts, watch_of
from inference.unconstrained.starts import Starts, posterior_with_starts
from models.base import Pytree, ZooError

LOST = 1e-6  # acceptance probability: an energy error of 14, where steps of the right length have one of about 0.5


class Options(NamedTuple):
    """``num_chains`` chains of ``num_warmup`` adaptive iterations dropped and ``num_samples`` kept."""

    num_warmup: NumWarmup = 1000
    num_samples: NumSamples = 2000
    num_chains: NumChains = 4
    target_accept: Annotated[
        float, Setting("mean acceptance probability that the warm-up aims at; more means shorter steps", low=0.05, high=0.999)
    ] = 0.8
    mean_steps: Annotated[float, Setting("mean number of steps of a trajectory", low=1.2)] = 4.0
    starts: Starts = "overdispersed"
    permute_components: PermuteComponents = False


def mclmc_of_blackjax(density: Density, num_warmup: int, target_accept: float, mean_steps: float) -> AdaptiveKernel:
    """The kernel, with a diagonal metric."""
    return AdaptiveKernel(Algorithm(begin, move, (mean_steps,)), density, num_warmup, target_accept, dense=False)


def begin(target: Target, flat: Array) -> Pytree:
    """BlackJAX's state at a vector (d,)."""
    from blackjax.mcmc import adjusted_mclmc_dynamic

    return adjusted_mclmc_dynamic.init(flat, target, jax.random.PRNGKey(0))


def move(
    settings: tuple[float, ...], target: Target, key: Array, chain: Pytree, step_size: Array, inverse_mass_matrix: Array
) -> tuple[Pytree, dict[str, Array]]:
    """One iteration of one chain, and its statistics. The number of steps comes from the key of the iteration."""
    from blackjax.mcmc import adjusted_mclmc_dynamic as mclmc

    number = mclmc.make_random_trajectory_length_fn(random_trajectory_length=True)
    kernel = mclmc.build_kernel(integration_steps_fn=number)
    key, of_number = jax.random.split(key)
    begun = chain._replace(random_generator_arg=of_number)
    given = {"inverse_mass_matrix": inverse_mass_matrix, "integration_steps_params": settings}
    chain, info = kernel(key, begun, target, step_size, **given)
    return chain, {
        "diverging": info.is_divergent | (info.acceptance_rate < LOST),
        "acceptance_rate": info.acceptance_rate,
        "n_steps": 2 * info.num_integration_steps,  # gradients: a step of the integrator takes two
    }


def run(task: Task, options: Options) -> Draws:
    """Draws of every site from every chain, with the kernel's statistics; a `ZooError` for a single parameter."""
    posterior = posterior_with_starts(task, options)
    if posterior.density.size < 2:
        raise ZooError("mclmc: a velocity of length 1 needs two dimensions, and the posterior has one; use method=nuts")
    kernel = mclmc_of_blackjax(posterior.density, options.num_warmup, options.target_accept, options.mean_steps)
    run, timing = adaptive_chains(task, posterior, kernel, options.num_samples, WATCH)
    return draws_from_starts(task, posterior, run, timing, options.permute_components)


WATCH = watch_of(acceptance="acceptance_rate")


METHOD = Method(
    name="mclmc",
    summary="adjusted microcanonical Langevin Monte Carlo on the marginal NumPyro program, by BlackJAX",
    options=Options,
    run=run,
    claim="invariant",
    evidence=("kernel law", "posterior", "predictions", "pipeline"),
    may_stay=True,
    lockstep=False,  # the number of steps is random
)
