"""Laplace's approximation: a Gaussian at the mode of the posterior on ℝᵈ, with the inverse Hessian as its covariance.

The mode is taken on the unconstrained space, with the Jacobian of the transforms (errata E20): it is not the MAP point. The
result holds independent draws mapped back to the sites. A Pareto k-hat of their importance weights above 0.7 says that the
Gaussian is not good enough. A smaller one does not say that it is. The approximation covers one mode, and the evidence leaves
out all others: add log K! for K distinct and exchangeable components, and log 2ᴸ L! for L factors with relevances. Where
factors may be rotated, the Gaussian lies across the orbit of the mode, and the evidence includes the volume of the orbit.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from scipy.special import gammaln

from inference.engine.initialise import num_starts, start_sites
from inference.engine.program import constrain_draws, constrain_starts, potential, transforms, unconstrain_chains
from inference.engine.quasi_newton import Minima, minimise
from inference.engine.sweep import block_map
from inference.engine.task import Draws, Points, Task, approximation, timing
from inference.fixed_points.fixed_point import require_proper
from models.base import Model, Pytree, Rotation, ZooError

TOGETHER = 64  # draws whose densities are computed at a time
NOT_THERE = (
    "laplace: the search for the mode had not converged after {} iterations, so that no mode is here yet: raise max_iter"
)
MOST = 10_000  # free parameters: the Hessian of more takes gigabytes and hours


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
    return block_map(jax.vmap(lambda flat: energy(spec, arrays, unravel(flat))), flat, TOGETHER)


def _at(spec: Callable[..., Any], unravel: Any, arrays: tuple[Pytree, Pytree], flat: Array) -> np.ndarray:
    """Energies (S,) at points (S, d), in double precision on the host."""
    return np.asarray(_energies(spec, unravel, arrays, flat), dtype=np.float64)


class Normal(NamedTuple):
    """The Gaussian at a mode on ℝᵈ, across the orbit on which a symmetry moves the mode."""

    mode: Array  # (d,)
    across: np.ndarray  # (d, D): orthonormal directions across the orbit, all of ℝᵈ without one
    eigenvalues: np.ndarray  # (D,): of the Hessian in these directions
    vectors: np.ndarray  # (D, D)

    @property
    def log_scale(self) -> float:
        """½ log det of the Hessian."""
        return 0.5 * float(np.log(self.eigenvalues).sum())

    def points(self, noise: np.ndarray) -> Array:
        """(S, d) from standard normal numbers (S, D)."""
        away = (noise / np.sqrt(self.eigenvalues)) @ self.vectors.T @ self.across.T
        return jnp.asarray(np.asarray(self.mode) + away, self.mode.dtype)

    def log_density(self, noise: np.ndarray) -> np.ndarray:
        """(S,), across the orbit."""
        return -0.5 * (noise**2).sum(1) + self.log_scale - 0.5 * len(self.eigenvalues) * np.log(2 * np.pi)


def normal_at(mode: Array, hessian: np.ndarray, across: np.ndarray) -> Normal:
    """The Gaussian with the inverse Hessian (d, d) as its covariance; raises `ZooError` where that is singular."""
    eigenvalues, vectors = np.linalg.eigh(across.T @ ((hessian + hessian.T) / 2) @ across)
    if not (eigenvalues > 1e-10 * eigenvalues.max()).all():
        remedy = "use method=nuts, or gibbs for a model of the zoo"
        raise ZooError(f"laplace: no isolated mode is here (its Hessian is singular), as where a scale may go to 0; {remedy}")
    return Normal(mode, across, eigenvalues, vectors)


def run(task: Task, options: Options) -> Draws:
    """Draws from the Gaussian at the best mode found, the evidence, and k-hat."""
    spec, arrays = task.model.spec, (task.hyper, task.condensed)
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
    best = int(np.nanargmin(minima.values))
    mode = jnp.asarray(ravel_pytree(jax.tree.map(lambda leaf: np.asarray(leaf[best]), minima.points))[0])
    hessian = np.asarray(hessian_at(mode), dtype=np.float64)
    orbit = orbits(task.model, unravel, mode[None])
    tangent, across = split_directions(orbit[0])
    try:
        normal = normal_at(mode, hessian, across)
    except ZooError:
        if minima.interrupted:  # the search had not come to a mode yet
            raise KeyboardInterrupt("interrupted before a mode was found") from None
        if not minima.converged[best]:
            raise ZooError(NOT_THERE.format(int(minima.iterations[best]))) from None
        raise
    size = (options.num_chains, options.num_samples)
    random = np.random.default_rng(np.asarray(jax.random.key_data(task.key)))
    noise = random.standard_normal((size[0] * size[1], len(normal.eigenvalues)))
    flat, log_q = normal.points(noise), normal.log_density(noise)
    places = np.concatenate([np.asarray(mode)[None], np.asarray(flat)])  # the mode, then the draws
    volumes = log_volumes(task.model, tangent, orbits(task.model, unravel, flat))
    volume = float(log_volumes(task.model, tangent, orbit)[0])
    constant = volume + 0.5 * len(normal.eigenvalues) * np.log(2 * np.pi) - normal.log_scale

    def weighed(energies: np.ndarray) -> dict[str, Any]:
        at_mode, at_draws = float(energies[0]), energies[1:]
        log_weights = volumes - at_draws - log_q
        evidence = {
            "log_evidence_laplace": constant - at_mode,
            "log_evidence_importance": float(np.logaddexp.reduce(log_weights) - np.log(len(log_weights))),
        }
        return {"sample_stats": {"log_weight": log_weights.reshape(size)}, "attrs": evidence | {"best_start": best}}

    def again(double: Task) -> Draws:
        of_double = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf[0], float), minima.points))[1]
        return outcome._replace(**weighed(_at(spec, of_double, (double.hyper, double.condensed), jnp.asarray(places, float))))

    z = jax.vmap(unravel)(flat)
    sites = constrain_draws(supports, jax.tree.map(lambda leaf: leaf.reshape(*size, *leaf.shape[1:]), z))
    points = _points(supports, minima)
    outcome = approximation(sites, points, again, weighed(_at(spec, unravel, arrays, jnp.asarray(places))))
    return outcome


def _require_small(starts: Pytree) -> None:
    """A `ZooError` for more free parameters than a Hessian may have."""
    dimension = sum(leaf[0].size for leaf in jax.tree.leaves(starts))
    if dimension > MOST:
        raise ZooError(
            f"laplace: {dimension} free parameters make a matrix of as many rows and columns, and {MOST} are the most that are "
            "taken; use method=cavi, gibbs or nuts"
        )


def _points(supports: Mapping[str, Any], minima: Minima) -> Points:
    """How the mode was found."""
    return Points(
        {name: np.asarray(value) for name, value in constrain_starts(supports, minima.points).items()},
        -minima.trace,
        minima.iterations,
        minima.converged,
        [None] * len(minima.trace),
        timing(minima.run_seconds, minima.compile_seconds),
        minima.interrupted,
    )


def orbits(model: Model, unravel: Any, flat: Array) -> np.ndarray:
    """(S, d, R) at points (S, d) on ℝᵈ: directions along which a symmetry keeps the density, one per pair of factors.

    R = 0 for a model without such a symmetry.
    """
    if not isinstance(model.symmetry, Rotation):
        return np.zeros((*flat.shape, 0))
    rotated = tuple(name for name, names in model.naming.dims.items() if names[-1:] == (model.symmetry.dim,))
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

    Near the mode, an integral over ℝᵈ equals the integral over the slice of the density times this volume, which counts all
    rotations and reflections. That holds where factors are distinct and far from 0. A weak factor meets its own reflection on
    the slice, and each such factor makes the evidence too large by up to log 2.
    """
    if not isinstance(model.symmetry, Rotation):
        return np.zeros(len(orbits))
    turns = tangent.shape[1]
    size = int((1 + np.sqrt(1 + 8 * turns)) / 2)
    spheres = [np.log(2.0) + 0.5 * k * np.log(np.pi) - gammaln(0.5 * k) for k in range(2, size + 1)]
    return np.linalg.slogdet(np.einsum("dr,sdq->srq", tangent, orbits))[1] + sum(spheres) + np.log(2.0)
