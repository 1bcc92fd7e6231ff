"""Laplace's approximation: a Gaussian at the mode of the posterior on ℝᵈ, with the inverse Hessian as its covariance.

The mode is taken on the unconstrained space, with the Jacobian of the transforms (errata E20): it is not the MAP point. The
result holds independent draws mapped back to the sites. Pareto k-hat of their importance weights says whether the Gaussian
will do: above 0.7 it does not. The approximation sits on one mode; the evidence leaves out all others, so that for K components
that are distinct and exchangeable log K! is to be added, and log 2ᴸ L! for L factors with relevances. Where factors may be
rotated the Gaussian lies across the orbit of the mode, and the evidence has the volume of the orbit.
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from scipy.special import gammaln

from inference.diagnostics import FEWEST
from inference.optimise import require_proper
from inference.outcome import Draws, Points, Task
from inference.program import constrain_draws, potential, transforms, unconstrain_chains
from inference.quasi_newton import minimise
from inference.start import num_starts, start_sites
from models.base import Model, Pytree, Rotation, ZooError

MOST = 10_000  # free parameters: the Hessian of more is gigabytes, and hours of work


class Options(NamedTuple):
    """The mode as in ``map``; then ``num_chains`` × ``num_samples`` independent draws."""

    max_iter: int = 5000
    tol: float = 1e-14
    num_starts: int = 10
    num_samples: int = 1000
    num_chains: int = 4


def energy(spec: Callable[..., Any], arrays: tuple[Pytree, Pytree], z: Pytree) -> Array:
    """−log p(x, z) on ℝᵈ."""
    return potential(spec, *arrays, z)


@partial(jax.jit, static_argnames=("spec", "unravel"))
def _hessian(spec: Callable[..., Any], unravel: Any, arrays: tuple[Pytree, Pytree], flat: Array) -> Array:
    return jax.hessian(lambda flat: energy(spec, arrays, unravel(flat)))(flat)


@partial(jax.jit, static_argnames=("spec", "unravel"))
def _energies(spec: Callable[..., Any], unravel: Any, arrays: tuple[Pytree, Pytree], flat: Array) -> Array:
    return jax.lax.map(lambda flat: energy(spec, arrays, unravel(flat)), flat, batch_size=64)


def run(task: Task, options: Options) -> Draws:
    """Draws from the Gaussian at the best mode found, the evidence, and k-hat."""
    spec, arrays = task.model.spec, (task.hyper, task.condensed)
    require_proper(task)
    supports = transforms(spec, *arrays)
    starts = unconstrain_chains(supports, start_sites(task, num_starts(task, options.num_starts)))
    dimension = sum(leaf[0].size for leaf in jax.tree.leaves(starts))
    if dimension > MOST:
        raise ZooError(
            f"laplace: {dimension} free parameters make a matrix of as many rows and columns, and {MOST} are the most that are "
            "taken; use method=cavi, gibbs or nuts"
        )
    minima = minimise(energy, spec, arrays, starts, options.max_iter, options.tol, task.reporter)
    stacked = np.array(
        [ravel_pytree(jax.tree.map(lambda leaf, s=s: leaf[s], minima.points))[0] for s in range(len(minima.trace))]
    )
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], minima.points))
    energies = np.asarray(_energies(spec, unravel, arrays, jnp.asarray(stacked)))
    best = int(np.nanargmin(energies))
    mode = jnp.asarray(stacked[best])
    hessian = np.asarray(_hessian(spec, unravel, arrays, mode), dtype=np.float64)
    orbit = orbits(task.model, unravel, mode[None])
    tangent, across = split_directions(orbit[0])
    eigenvalues, vectors = np.linalg.eigh(across.T @ ((hessian + hessian.T) / 2) @ across)
    if not (eigenvalues > 1e-10 * eigenvalues.max()).all():
        raise ZooError("laplace: the posterior has no isolated mode here (its Hessian is singular); use method=nuts or gibbs")
    size = (options.num_chains, options.num_samples)
    random = np.random.default_rng(np.asarray(jax.random.key_data(task.key)))
    noise = random.standard_normal((size[0] * size[1], len(eigenvalues)))
    flat = jnp.asarray(np.asarray(mode) + (noise / np.sqrt(eigenvalues)) @ vectors.T @ across.T, mode.dtype)
    log_det = float(np.log(eigenvalues).sum())
    log_q = -0.5 * (noise**2).sum(1) + 0.5 * log_det - 0.5 * len(eigenvalues) * np.log(2 * np.pi)
    volumes = log_volumes(task.model, tangent, orbits(task.model, unravel, flat))
    log_weights = volumes - np.asarray(_energies(spec, unravel, arrays, flat), dtype=np.float64) - log_q
    volume = float(log_volumes(task.model, tangent, orbit)[0])
    z = jax.vmap(unravel)(flat)
    sites = constrain_draws(supports, jax.tree.map(lambda leaf: leaf.reshape(*size, *leaf.shape[1:]), z))
    timing = {"compile_seconds": minima.compile_seconds, "warmup_seconds": 0.0, "run_seconds": minima.run_seconds}
    points = Points(
        {}, -minima.trace, minima.iterations, minima.converged, [None] * len(minima.trace), timing, minima.interrupted
    )
    khat = pareto_k(log_weights)
    evidence = {
        "log_evidence_laplace": float(volume - energies[best] + 0.5 * len(eigenvalues) * np.log(2 * np.pi) - 0.5 * log_det),
        "log_evidence_importance": float(np.logaddexp.reduce(log_weights) - np.log(len(log_weights))),
    }
    return Draws(
        sites={name: np.asarray(value) for name, value in sites.items()},
        sample_stats={"log_weight": log_weights.reshape(size)},
        timing=timing,
        interrupted=minima.interrupted,
        optimization=points,
        attrs=evidence | {"best_start": best, "pareto_k": khat},
    )


def orbits(model: Model, unravel: Any, flat: Array) -> np.ndarray:
    """(S, d, R) at points (S, d) on ℝᵈ: directions in which a symmetry moves them at no change of density, one for two factors.

    A model without such a symmetry has none of them, R = 0.
    """
    if not isinstance(model.symmetry, Rotation):
        return np.zeros((*flat.shape, 0))
    rotated = tuple(name for name, names in model.dims.items() if names[-1:] == (model.symmetry.dim,))
    return np.asarray(_turns(unravel, rotated, flat), dtype=np.float64)


@partial(jax.jit, static_argnames=("unravel", "rotated"))
def _turns(unravel: Any, rotated: tuple[str, ...], flat: Array) -> Array:
    def at(flat: Array) -> Array:
        z = unravel(flat)
        names = [name for name in rotated if name in z]
        size = z[names[0]].shape[-1]
        turns = []
        for i, j in combinations(range(size), 2):
            turn = jnp.zeros((size, size)).at[i, j].set(1.0).at[j, i].set(-1.0)
            moved = {name: leaf @ turn if name in names else jnp.zeros_like(leaf) for name, leaf in z.items()}
            turns.append(ravel_pytree(moved)[0])
        return jnp.stack(turns, axis=1) if turns else jnp.zeros((flat.shape[0], 0), flat.dtype)

    return jax.lax.map(at, flat)


def split_directions(orbit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal bases (d, R) of the directions along an orbit and (d, d − R) of those across it."""
    basis = np.linalg.qr(orbit, mode="complete")[0] if orbit.shape[1] else np.eye(len(orbit))
    return basis[:, : orbit.shape[1]], basis[:, orbit.shape[1] :]


def log_volumes(model: Model, tangent: np.ndarray, orbits: np.ndarray) -> np.ndarray:
    """Log volume (S,) of the orbits through S points (S, d, R) of a slice across the directions ``tangent``.

    Near the mode an integral over ℝᵈ is one over the slice of the density times this: all rotations, among them reflections,
    are in it. That holds where factors are distinct and far from 0; a weak factor meets its own reflection on the slice, and
    the evidence is too large by up to log 2 for each.
    """
    if not isinstance(model.symmetry, Rotation):
        return np.zeros(len(orbits))
    turns = tangent.shape[1]
    size = int((1 + np.sqrt(1 + 8 * turns)) / 2)
    spheres = [np.log(2.0) + 0.5 * k * np.log(np.pi) - gammaln(0.5 * k) for k in range(2, size + 1)]
    return np.linalg.slogdet(np.einsum("dr,sdq->srq", tangent, orbits))[1] + sum(spheres) + np.log(2.0)


def pareto_k(log_weights: np.ndarray) -> float:
    """Pareto k-hat of importance weights (Vehtari et al. 2024), by ArviZ; NaN for too few draws to tell.

    Equal weights, up to rounding, have no tail: the posterior is the Gaussian, and k-hat is 0. Weights so far apart that most
    are 0 next to the largest have a tail that no Pareto distribution fits: infinity.
    """
    from arviz_stats.base import array_stats

    if len(log_weights) < FEWEST:
        return float("nan")
    if np.ptp(log_weights) < 1e-8:
        return 0.0
    found = float(array_stats.psislw(np.asarray(log_weights))[1])
    return float("inf") if np.isnan(found) else found
