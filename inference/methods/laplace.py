"""Laplace's approximation: a Gaussian at the mode of the posterior on ℝᵈ, with the inverse Hessian as its covariance.

The mode is taken on the unconstrained space, with the Jacobian of the transforms (errata E20): it is not the MAP point. The
result holds independent draws mapped back to the sites. A Pareto k-hat of their importance weights above 0.7 shows that the
Gaussian is not good enough. A smaller one does not show that it is.

Where starts end at several modes, their masses decide, not their heights (`inference.methods.gaussians_at_modes`). Without a
symmetry the draws are of a mixture, one Gaussian per mode with its mass as the weight, and the evidence is the sum of the
masses. With a symmetry they are of the mode of largest mass alone, and the evidence leaves out its images: add log K! for K
distinct and exchangeable components, and log 2ᴸ L! for L factors with relevances. Where factors may be rotated, the Gaussian
lies across the orbit of the mode, and the evidence includes the volume of the orbit. Modes that no start reaches are not seen.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from scipy.special import logsumexp

from inference.engine.initialise import num_starts, start_sites
from inference.engine.program import constrain_draws, constrain_starts, potential, transforms, unconstrain_chains
from inference.engine.quasi_newton import Minima, minimise, value_at
from inference.engine.requirements import require_proper
from inference.engine.sweep import block_map
from inference.engine.task import Draws, Points, Task, approximation, timing
from inference.methods.gaussians_at_modes import NEGLIGIBLE, Mode, log_volumes, modes_of, orbits
from inference.methods.method import Method
from inference.methods.options import MaxIter, NumChains, NumSamples, NumStarts, Tol
from models.base import Model, Pytree, ZooError

DRAWS_AT_ONCE = 64  # draws whose densities are computed at a time
NOT_THERE = (
    "laplace: the search for the mode had not converged after {} iterations, so that no mode is here yet: raise max_iter"
)
MOST = 10_000  # free parameters: the Hessian of more takes gigabytes and hours


class Options(NamedTuple):
    """The mode as in ``map``; then ``num_chains`` × ``num_samples`` independent draws."""

    max_iter: MaxIter = 5000
    tol: Tol = 1e-14
    num_starts: NumStarts = 10
    num_samples: NumSamples = 1000
    num_chains: NumChains = 4


def energy(spec: Callable[..., Any], arrays: tuple[Pytree, Pytree], z: Pytree) -> Array:
    """−log p(x, z) on ℝᵈ."""
    return potential(spec, *arrays, z)


@partial(jax.jit, static_argnames=("spec", "unravel"))
def _hessian(spec: Callable[..., Any], unravel: Any, arrays: tuple[Pytree, Pytree], flat: Array) -> Array:
    return jax.hessian(lambda flat: energy(spec, arrays, unravel(flat)))(flat)


@partial(jax.jit, static_argnames=("spec", "unravel"))
def _energies(spec: Callable[..., Any], unravel: Any, arrays: tuple[Pytree, Pytree], flat: Array) -> Array:
    return block_map(jax.vmap(lambda flat: energy(spec, arrays, unravel(flat))), flat, DRAWS_AT_ONCE)


def _at(spec: Callable[..., Any], unravel: Any, arrays: tuple[Pytree, Pytree], flat: Array) -> np.ndarray:
    """Energies (S,) at points (S, d), in double precision on the host."""
    return np.asarray(_energies(spec, unravel, arrays, flat), dtype=np.float64)


class Mixture(NamedTuple):
    """One Gaussian per mode that the draws cover, or the one Gaussian."""

    modes: list[Mode]
    log_weights: np.ndarray  # (M,): of the modes, of which the sum of the weights is 1

    def drawn(self, random: np.random.Generator, number: int) -> tuple[Array, np.ndarray]:
        """(points (S, d), their log density across the orbit (S,))."""
        noise = random.standard_normal((number, self.modes[0].normal.size))
        if len(self.modes) == 1:
            normal = self.modes[0].normal
            return normal.points(noise), normal.log_density(noise)
        at = random.choice(len(self.modes), number, p=np.exp(self.log_weights))
        flat = np.zeros((number, self.modes[0].normal.size))
        for m, mode in enumerate(self.modes):
            flat[at == m] = mode.normal.points(noise[at == m])
        densities = [mode.normal.log_density(mode.normal.noise(flat)) for mode in self.modes]
        return jnp.asarray(flat, self.modes[0].normal.mode.dtype), logsumexp(self.log_weights[:, None] + densities, axis=0)


def mixture_of(model: Model, isolated: list[Mode]) -> Mixture:
    """The modes that the draws cover: all that matter, or the first where a symmetry makes images of it."""
    log_mass = np.array([mode.log_mass for mode in isolated])
    some = log_mass >= log_mass[0] + np.log(NEGLIGIBLE) if model.symmetry is None else np.arange(len(isolated)) == 0
    kept = [mode for mode, here in zip(isolated, some, strict=True) if here]
    return Mixture(kept, log_mass[some] - logsumexp(log_mass[some]))


def run(task: Task, options: Options) -> Draws:
    """Draws from the Gaussians at the modes, the evidence, and their weights p / q."""
    spec, arrays = task.model.spec, (task.hyper, task.sufficient_rows)
    require_proper(task)
    supports = transforms(spec, *arrays)
    starts = unconstrain_chains(supports, start_sites(task, num_starts(task, options.num_starts)))
    _require_small(starts)
    unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], starts))[1]
    hessian_at = partial(_hessian, spec, unravel, arrays)
    minima = minimise(
        energy,
        spec,
        arrays,
        starts,
        options.max_iter,
        options.tol,
        task.reporter,
        task.checkpoint("evaluations"),
        lambda flat: jnp.diagonal(hessian_at(flat)),
    )

    def energy_at(flat: Array) -> float:
        return value_at(energy, spec, arrays, unravel(flat))

    try:
        isolated, modes = modes_of(task.model, supports, unravel, minima, energy_at, hessian_at)
    except ZooError:
        if minima.interrupted:  # the search had not come to a mode yet
            raise KeyboardInterrupt("interrupted before a mode was found") from None
        highest = int(np.nanargmin(minima.values))
        if not minima.converged[highest]:
            raise ZooError(NOT_THERE.format(int(minima.iterations[highest]))) from None
        raise
    mixture = mixture_of(task.model, isolated)
    size = (options.num_chains, options.num_samples)
    random = np.random.default_rng(np.asarray(jax.random.key_data(task.key)))
    flat, log_q = mixture.drawn(random, size[0] * size[1])
    number, best = len(mixture.modes), isolated[0].start
    tops = [np.asarray(mode.normal.mode) for mode in mixture.modes]
    places = np.concatenate([tops, np.asarray(flat)])  # the modes, then the draws
    volumes = log_volumes(task.model, isolated[0].normal, orbits(task.model, unravel, flat))
    constants = np.array([mode.log_constant for mode in mixture.modes])

    def weighed(energies: np.ndarray) -> dict[str, Any]:
        at_modes, at_draws = energies[:number], energies[number:]
        log_weights = volumes - at_draws - log_q
        evidence = {
            "log_evidence_laplace": float(logsumexp(constants - at_modes)),
            "log_evidence_importance": float(np.logaddexp.reduce(log_weights) - np.log(len(log_weights))),
        }
        return {"sample_stats": {"log_weight": log_weights.reshape(size)}, "attrs": evidence | {"best_start": best}}

    def recompute_in_double(double: Task) -> Draws:
        of_double = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf[0], float), minima.points))[1]
        return outcome._replace(
            **weighed(_at(spec, of_double, (double.hyper, double.sufficient_rows), jnp.asarray(places, float)))
        )

    z = jax.vmap(unravel)(flat)
    sites = constrain_draws(supports, jax.tree.map(lambda leaf: leaf.reshape(*size, *leaf.shape[1:]), z))
    points = _points(supports, minima)._replace(modes=modes._replace(covered=number))
    outcome = approximation(sites, points, recompute_in_double, weighed(_at(spec, unravel, arrays, jnp.asarray(places))))
    return outcome


def _require_small(starts: Pytree) -> None:
    """A `ZooError` for more free parameters than a Hessian may have."""
    dimension = sum(leaf[0].size for leaf in jax.tree.leaves(starts))
    if dimension > MOST:
        raise ZooError(
            f"laplace: {dimension} free parameters make a matrix of as many rows and columns, and at most {MOST} are taken; "
            "use method=cavi, gibbs or nuts"
        )


def _points(supports: Mapping[str, Any], minima: Minima) -> Points:
    """The search for the modes."""
    return Points(
        {name: np.asarray(value) for name, value in constrain_starts(supports, minima.points).items()},
        -minima.trace,
        minima.iterations,
        minima.converged,
        [None] * len(minima.trace),
        timing(minima.run_seconds, minima.compile_seconds),
        minima.interrupted,
    )


METHOD = Method(
    name="laplace",
    summary="Gaussian at the mode of the unconstrained posterior",
    options=Options,
    run=run,
    claim="approximate",
    evidence=("bias", "predictions"),
)
