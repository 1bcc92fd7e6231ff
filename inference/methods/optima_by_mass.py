"""The masses of the optima of a search for the highest one: the highest may be narrow, and have almost no mass.

The search of ``map`` has no Jacobian, so that an optimum is the peak of the density in the coordinates of the sites. Its mass
is that of the Gaussian there. With J the Jacobian of the transform from ℝᵈ and H the negative Hessian on ℝᵈ, the mass is
height + d/2 log 2π − ½ log det H + log |J|: as the slope is 0, H is Jᵀ times the Hessian in the sites times J. The mode with
the Jacobian, at which ``laplace`` stands, is another point. It would do as well, but take a second search from every optimum.

This costs nothing where all starts ended at one height. Otherwise the Hessians are by the program that the search scales its
coordinates by, so that none is compiled. Optima that the diagonals of these put far below the highest are left out.
"""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from inference.engine.program import log_jacobians
from inference.engine.quasi_newton import SMALL, Minima, Objective, hessian_at, value_at
from inference.engine.task import Modes
from inference.methods.gaussians_at_modes import modes_of
from models.base import Model, Pytree, ZooError

EQUAL = 1e-3  # nats up to which two heights are one: of one optimum, or of its images under a symmetry
LEAST_SLACK, SLACK = 5.0, 0.5  # nats, in all and per parameter, by which the diagonal of a Hessian may mislead about a mass


class Search(NamedTuple):
    """The arguments of `inference.engine.quasi_newton.minimise`, and its result."""

    objective: Objective
    static: Hashable
    arrays: Pytree
    minima: Minima


def modes_by_mass(model: Model, supports: Mapping[str, Any], search: Search, reached: np.ndarray) -> Modes | None:
    """The optima and their masses by start; None for one optimum, for large models, and unless the highest is isolated.

    Only starts in the mask ``reached`` (start,) count, of which the highest must have converged. Optima of one height are taken
    to be images of each other.
    """
    minima = search.minima
    size = sum(leaf[0].size for leaf in jax.tree.leaves(minima.points))
    reached = reached & np.isfinite(minima.values)
    sound = reached & minima.converged.astype(bool)
    if minima.interrupted or size > SMALL or not sound.any() or minima.values[sound].min() > minima.values[reached].min():
        return None
    place = _of_heights(minima.values, sound)
    some = _relevant(search, [int(np.argmax(place == number)) for number in range(place.max() + 1)], size)
    if len(some) < 2 or some[0] != np.argmax(place == 0):
        return None
    points = jax.tree.map(lambda leaf: leaf[np.array(some)], minima.points)
    few = minima._replace(points=points, values=minima.values[some], converged=minima.converged[some])
    unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], points))[1]
    arguments = (search.objective, search.static, search.arrays)
    try:
        _, modes = modes_of(
            model,
            supports,
            unravel,
            few,
            lambda flat: value_at(*arguments, unravel(flat)),
            lambda flat: hessian_at(*arguments, unravel(flat)),
            np.asarray(log_jacobians(supports, jax.tree.map(lambda leaf: leaf[None], points)))[0],
        )
    except ZooError:  # the highest is at no isolated mode, so that no mass is known
        return None
    if modes.of_start.max() < 1:
        return None
    of_place = dict(zip(place[some].tolist(), range(len(some)), strict=True))
    at = np.array([of_place.get(int(number), -1) for number in place])
    return Modes(np.where(at >= 0, modes.of_start[at], -1), np.where(at >= 0, modes.log_mass[at], np.nan), covered=0)


def _of_heights(values: np.ndarray, sound: np.ndarray) -> np.ndarray:
    """(start,): the number of each value, equal ones with one number, from the lowest on; −1 where not ``sound``."""
    order = np.flatnonzero(sound)[np.argsort(values[sound], kind="stable")]
    number = np.full(len(values), -1)
    number[order] = np.cumsum(np.diff(values[order], prepend=values[order[0]]) > EQUAL)
    return number


def _relevant(search: Search, starts: list[int], size: int) -> list[int]:
    """Those of ``starts`` that may have the mass of the first, the highest, by the diagonals of their Hessians."""
    if len(starts) < 2:
        return starts
    ends = [jax.tree.map(lambda leaf, s=s: leaf[s], search.minima.points) for s in starts]
    hessians = [hessian_at(search.objective, search.static, search.arrays, end) for end in ends]
    with np.errstate(invalid="ignore", divide="ignore"):
        mass = -search.minima.values[starts] - 0.5 * np.log([np.diagonal(hessian) for hessian in hessians]).sum(1)
    matters = mass >= mass[0] - max(LEAST_SLACK, SLACK * size)  # NaN, where a direction is not curved, is no mode
    return [start for start, here in zip(starts, matters & np.isfinite(mass), strict=True) if here]
