"""Modes on ℝᵈ with their Gaussians and their masses: height is not mass.

The mass of a mode is its share of the evidence by Laplace's approximation, height + d/2 log 2π − ½ log det H, with H the
negative Hessian. A narrow mode may be the higher one and have almost no mass. The Hessian is tested and factorised in standard
units, scaled by its diagonal, so that neither depends on the units of the data.
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
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from inference.engine.program import constrain_draws, constrain_starts, unconstrain_chains
from inference.engine.quasi_newton import Minima
from inference.engine.task import Modes
from inference.identification.invariants import ELSEWHERE, SCALED, distances
from models.base import Model, ZooError
from models.symmetries import Rotation

SINGULAR = 1e-10  # smallest eigenvalue of a Hessian in standard units, relative to the largest, from which a mode is isolated
NEGLIGIBLE = 1e-6  # share of the mass: no draw is of a mode that has less
DIP = 0.1  # nats by which the density must fall between two modes
BETWEEN = 15  # points on the way from one to the other, at which it is evaluated
NO_MODE = (
    "laplace: no isolated mode is here (its Hessian is singular), as where a scale may go to 0; use method=nuts, or gibbs for "
    "a model of the zoo"
)


class Normal(NamedTuple):
    """The Gaussian at a mode on ℝᵈ, across the orbit on which a symmetry moves the mode.

    Directions are orthonormal in standard units, in which a coordinate is 1 / √curvature.
    """

    mode: Array  # (d,)
    unit: np.ndarray  # (d,): one standard unit of each coordinate
    along: np.ndarray  # (d, R): directions along the orbit
    across: np.ndarray  # (d, D): those across it, all of ℝᵈ without an orbit
    root: np.ndarray  # (D, D): the lower Cholesky factor of the Hessian in these units and directions

    @property
    def size(self) -> int:
        """D, the number of directions across the orbit."""
        return len(self.root)

    @property
    def log_scale(self) -> float:
        """½ log det of the Hessian, in the units of ℝᵈ."""
        return float(np.log(np.diagonal(self.root)).sum() - np.log(self.unit).sum())

    def points(self, noise: np.ndarray) -> Array:
        """(S, d) from standard normal numbers (S, D)."""
        away = solve_triangular(self.root, noise.T, trans="T", lower=True).T @ self.across.T
        return jnp.asarray(np.asarray(self.mode) + self.unit * away, self.mode.dtype)

    def noise(self, points: np.ndarray) -> np.ndarray:
        """(S, D): the standard normal numbers of points (S, d)."""
        away = (np.asarray(points, dtype=np.float64) - np.asarray(self.mode)) / self.unit
        return np.asarray((away @ self.across) @ self.root)

    def log_density(self, noise: np.ndarray) -> np.ndarray:
        """(S,), across the orbit."""
        return -0.5 * (noise**2).sum(1) + self.log_scale - 0.5 * self.size * np.log(2 * np.pi)


def normal_at(mode: Array, hessian: np.ndarray, curvature: np.ndarray, orbit: np.ndarray) -> Normal:
    """The Gaussian with the inverse Hessian (d, d) as its covariance; raises `ZooError` where that is singular.

    ``curvature`` (d,) gives the standard units, ``orbit`` (d, R) the directions in which the density stays the same.
    """
    if not (np.isfinite(hessian).all() and (curvature > 0).all()):
        raise ZooError(NO_MODE)
    unit = 1 / np.sqrt(curvature)
    along, across = split_directions(orbit / unit[:, None])
    standard = across.T @ (unit[:, None] * ((hessian + hessian.T) / 2) * unit) @ across
    eigenvalues = np.linalg.eigvalsh(standard)
    if not (eigenvalues > SINGULAR * eigenvalues.max()).all():
        raise ZooError(NO_MODE)
    return Normal(mode, unit, along, across, np.linalg.cholesky(standard))


def curvatures(model: Model, unravel: Any, hessian: np.ndarray, dtype: Any) -> np.ndarray:
    """(d,): the diagonal of a Hessian, averaged over factors that may be rotated: a rotation mixes theirs."""
    diagonal = np.diagonal(hessian)
    if not _turns_freely(model):
        return diagonal
    tree = {name: np.asarray(leaf, dtype=np.float64) for name, leaf in unravel(jnp.asarray(diagonal, dtype)).items()}
    for name, axes in _rotated(model):
        if name in tree:
            tree[name] = np.broadcast_to(tree[name].mean(axes, keepdims=True), tree[name].shape)
    return np.asarray(ravel_pytree(tree)[0], dtype=np.float64)


class Mode(NamedTuple):
    """A mode that starts have reached, with its Gaussian."""

    start: int  # the highest of these
    normal: Normal
    log_constant: float  # log of its mass, less its height
    height: float  # log density
    log_alike: float  # log of the number n of permutations of its components that do not move it: it has K! / n images

    @property
    def log_mass(self) -> float:
        """Log of the mass of the mode with all its images, less log K! for K exchangeable components."""
        return self.height + self.log_constant - self.log_alike


def modes_of(
    model: Model,
    supports: Mapping[str, Any],
    unravel: Any,
    minima: Minima,
    energy_at: Callable[[Array], float],
    hessian_at: Callable[[Array], Array | np.ndarray],
    log_volume: np.ndarray | None = None,
) -> tuple[list[Mode], Modes]:
    """The modes at which starts ended, the largest mass first, and the mode of every start.

    A density that is not one of ℝᵈ has masses in other coordinates, and ``log_volume`` (start,) is the log volume there of a
    unit volume of ℝᵈ at every end.

    Two ends are of one mode if they are near in the invariants of symmetries, in standard deviations of the Gaussian at the
    higher one, or if the density does not fall on the way between them. Raises `ZooError` if the highest start is at no
    isolated mode. A lower one with a singular Hessian has no mass, and is compared by its height.
    """
    ends = np.asarray(jax.vmap(lambda point: ravel_pytree(point)[0])(minima.points))
    sites = {name: np.asarray(leaf) for name, leaf in constrain_starts(supports, minima.points).items()}
    highest = int(np.nanargmin(minima.values))
    sound = minima.converged.astype(bool) & np.isfinite(minima.values)
    sound[highest] = True
    owner = np.full(len(ends), -1)
    isolated: list[Mode] = []
    for start in np.argsort(minima.values, kind="stable").tolist():  # the highest first
        if owner[start] >= 0 or not sound[start]:
            continue
        joined = (mode.start for mode in isolated if _joined(energy_at, ends[mode.start], ends[start], -minima.values[start]))
        owner[start] = next(joined, start)
        if owner[start] != start:
            continue
        try:
            mode = _gaussian(model, unravel, jnp.asarray(ends[start]), hessian_at, start, -float(minima.values[start]))
            volume = 0.0 if log_volume is None else float(log_volume[start])
            alike = _log_alike(model, supports, mode.normal, sites, start)
            mode = mode._replace(log_constant=mode.log_constant + volume, log_alike=alike)
        except ZooError:
            if start == highest:
                raise
            continue
        isolated.append(mode)
        if (owner < 0).any():
            apart = _apart(model, supports, unravel, mode, ends, sites)
            owner[(owner < 0) & (apart <= ELSEWHERE)] = start
    return _by_mass(isolated, owner, -minima.values, highest)


def _joined(energy_at: Callable[[Array], float], higher: np.ndarray, lower: np.ndarray, height: float) -> bool:
    """Whether the density on the line between two ends (d,) does not fall below that of the lower one, its ``height``."""
    shares = np.arange(1, BETWEEN + 1) / (BETWEEN + 1)
    return all(-energy_at(jnp.asarray(higher + share * (lower - higher), higher.dtype)) > height - DIP for share in shares)


def _gaussian(
    model: Model, unravel: Any, mode: Array, hessian_at: Callable[[Array], Array | np.ndarray], start: int, height: float
) -> Mode:
    """The Gaussian at the end of a start, and its mass; raises `ZooError` where there is no isolated mode."""
    hessian = np.asarray(hessian_at(mode), dtype=np.float64)
    orbit = orbits(model, unravel, mode[None])
    normal = normal_at(mode, hessian, curvatures(model, unravel, hessian, mode.dtype), orbit[0])
    volume = float(log_volumes(model, normal, orbit)[0])
    return Mode(start, normal, volume + 0.5 * normal.size * np.log(2 * np.pi) - normal.log_scale, height, 0.0)


def _log_alike(model: Model, supports: Mapping[str, Any], normal: Normal, sites: Mapping[str, np.ndarray], start: int) -> float:
    """Log of the number of permutations of components that do not move the end of a start: Σ log n! over equal groups."""
    pairs = _exchanged(model, sites, start)
    if pairs is None:
        return 0.0
    z = unconstrain_chains(supports, pairs.sites)
    flat = np.asarray(jax.vmap(lambda point: ravel_pytree(point)[0])(z))
    same = np.abs((flat - np.asarray(normal.mode)) / normal.unit).max(1) <= ELSEWHERE
    group = np.arange(pairs.size)
    for one, other in zip(pairs.one[same], pairs.other[same], strict=True):
        group[other] = min(group[one], group[other])
    return float(gammaln(np.bincount(group) + 1.0).sum())


class Exchanged(NamedTuple):
    """A point with each two of its K components exchanged."""

    size: int  # K
    one: np.ndarray  # (P,)
    other: np.ndarray  # (P,)
    sites: dict[str, np.ndarray]  # (P, …)


def _exchanged(model: Model, sites: Mapping[str, np.ndarray], start: int) -> Exchanged | None:
    """The end of a start with each two components exchanged; None without exchangeable components."""
    symmetry, dims = model.symmetry, model.naming.dims
    if symmetry is None or not symmetry.exchanges_labels:
        return None
    sizes = [
        sites[name].shape[1 + names.index(symmetry.dim)]
        for name, names in dims.items()
        if symmetry.dim in names and name in sites
    ]
    size = min(sizes, default=1)
    if size == 1:
        return None
    one, other = np.triu_indices(size, 1)
    place, order = np.arange(len(one)), np.tile(np.arange(size), (len(one), 1))
    order[place, one], order[place, other] = other, one
    moved = symmetry.moved({name: np.repeat(value[start][None], len(one), 0) for name, value in sites.items()}, dims, order)
    return Exchanged(size, one, other, moved)


def _by_mass(isolated: list[Mode], owner: np.ndarray, heights: np.ndarray, highest: int) -> tuple[list[Mode], Modes]:
    """The modes in the order of their masses, then those that have none, and the mode of every start by its ``owner``."""
    masses = {mode.start: mode.log_mass for mode in sorted(isolated, key=lambda mode: -mode.log_mass)}
    singular = [int(start) for start in np.unique(owner[owner >= 0]) if start not in masses]
    masses |= {start: masses[highest] + heights[start] - heights[highest] for start in singular}
    number = {start: place for place, start in enumerate(masses)}
    of_start = np.array([number.get(int(start), -1) for start in owner])
    log_mass = np.array([masses.get(int(start), np.nan) for start in owner])
    return sorted(isolated, key=lambda mode: number[mode.start]), Modes(of_start, log_mass, 1)


def _apart(
    model: Model,
    supports: Mapping[str, Any],
    unravel: Any,
    mode: Mode,
    ends: np.ndarray,
    sites: Mapping[str, np.ndarray],
) -> np.ndarray:
    """(start,): the distances of the ends (start, d) from a mode, in standard deviations of its Gaussian."""
    normal = mode.normal
    near = np.abs((ends - ends[mode.start]) / normal.unit).max(1)  # a standard deviation is a unit or more
    if not (near > ELSEWHERE).any():
        return np.asarray(near)
    noise = np.random.default_rng(0).standard_normal((SCALED, normal.size))
    drawn = constrain_draws(supports, jax.tree.map(lambda leaf: leaf[None], jax.vmap(unravel)(normal.points(noise))))
    some = {name: np.asarray(leaf)[0] for name, leaf in drawn.items()}
    return np.fmin(near, distances(sites, mode.start, some, model.naming.dims, model.symmetry))


def orbits(model: Model, unravel: Any, flat: Array) -> np.ndarray:
    """(S, d, R) at points (S, d) on ℝᵈ: directions along which a symmetry keeps the density, one per pair of factors.

    R = 0 for a model without such a symmetry.
    """
    if not _turns_freely(model):
        return np.zeros((*flat.shape, 0))
    return np.asarray(_turns(unravel, _rotated(model), flat), dtype=np.float64)


def _turns_freely(model: Model) -> bool:
    """Whether factors may be rotated."""
    return model.symmetry is not None and model.symmetry.is_continuous


def _rotated(model: Model) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The sites that hold factors, with the axes that do."""
    symmetry = model.symmetry
    assert isinstance(symmetry, Rotation)
    return tuple((name, axes) for name, names in model.naming.dims.items() if (axes := symmetry.axes(names)))


@partial(jax.jit, static_argnames=("unravel", "rotated"))
def _turns(unravel: Any, rotated: tuple[tuple[str, tuple[int, ...]], ...], flat: Array) -> Array:
    def at(flat: Array) -> Array:
        z = unravel(flat)
        axes = {name: own for name, own in rotated if name in z}
        first, own = next(iter(axes.items()))
        size = z[first].shape[own[0]]

        def turned(name: str, leaf: Array, turn: Array) -> Array:
            along = [jnp.moveaxis(jnp.moveaxis(leaf, axis, -1) @ turn, -1, axis) for axis in axes.get(name, ())]
            return sum(along, jnp.zeros_like(leaf))

        turns = []
        for i, j in combinations(range(size), 2):
            turn = jnp.zeros((size, size)).at[i, j].set(1.0).at[j, i].set(-1.0)
            moved = {name: turned(name, leaf, turn) for name, leaf in z.items()}
            turns.append(ravel_pytree(moved)[0])
        return jnp.stack(turns, axis=1) if turns else jnp.zeros((flat.shape[0], 0), flat.dtype)

    return jax.lax.map(at, flat)


def split_directions(orbit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal bases (d, R) of the directions along an orbit and (d, d − R) of those across it."""
    basis = np.linalg.qr(orbit, mode="complete")[0] if orbit.shape[1] else np.eye(len(orbit))
    return basis[:, : orbit.shape[1]], basis[:, orbit.shape[1] :]


def log_volumes(model: Model, normal: Normal, orbits: np.ndarray) -> np.ndarray:
    """Log volume (S,) of the orbits through S points (S, d, R) of the slice on which a Gaussian lies, in its standard units.

    Near the mode, an integral over ℝᵈ equals the integral over the slice of the density times this volume, which counts all
    rotations and reflections. That holds where factors are distinct and far from 0. A weak factor meets its reflection on the
    slice, and each such factor makes the evidence too large by up to log 2.
    """
    if not _turns_freely(model):
        return np.zeros(len(orbits))
    turns = normal.along.shape[1]
    size = int((1 + np.sqrt(1 + 8 * turns)) / 2)
    spheres = [np.log(2.0) + 0.5 * k * np.log(np.pi) - gammaln(0.5 * k) for k in range(2, size + 1)]
    along = normal.along / normal.unit[:, None]
    return np.linalg.slogdet(np.einsum("dr,sdq->srq", along, orbits))[1] + sum(spheres) + np.log(2.0)
