"""Optima on the boundary of the parameter space, or still on their way there when the method stopped.

A maximum of the likelihood may have probabilities of 0 or 1 and rates of 0. EM reaches some of them exactly. Others shrink by
the same factor in every iteration, so EM stops at a small number. Such entries still fall at the last iteration, unlike small
numbers that are themselves the maximum.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpyro import distributions as dist

from inference.engine.program import innermost, latent_sites
from inference.engine.task import Task
from models.algebra import row_name
from models.base import Iteration

EDGE = float(np.finfo(np.float64).eps)  # a probability p below this counts as 0: 1 − p rounds to 1
NEAR = 1e-6  # a probability, or a rate relative to the largest of its column, below which it may be on its way to 0
MUCH = 1e-3  # relative decrease in one iteration from which an entry is on its way to 0


def on_the_boundary(task: Task, sites: Mapping[str, np.ndarray], last: Iteration | None = None) -> list[str]:
    """One message per site that has probabilities of 0 or 1, or rates of 0, at an optimum.

    Given the ``last`` iteration, also one per site with entries that were still falling in it.
    """
    lines = []
    for name, site in latent_sites(task.model.spec, task.hyper, task.rows).items():
        value = np.asarray(sites[name])
        support = innermost(site.support)
        if support is dist.constraints.simplex and value.shape[-1] == 1:
            continue  # a single value has probability 1 for any data
        if support in (dist.constraints.simplex, dist.constraints.unit_interval):
            edges, remedy = {"0": value <= EDGE, "1": value >= 1}, "concentration above 1"
            near = {"0": _falls(value, 1.0, _moves(last, name))}
            if support is dist.constraints.unit_interval:
                near["1"] = _falls(1 - value, 1.0, _moves(last, name, lambda value: 1 - value))
        elif support in (dist.constraints.positive, dist.constraints.nonnegative):
            edges, remedy = {"0": value <= 0}, "shape above 1"
            near = {"0": _falls(value, value.max(axis=0) if value.ndim else value, _moves(last, name))}
        else:
            continue
        row = row_name(task.model)
        if name in task.model.abilities.harmless_zeros:
            edges, near = ({edge: where for edge, where in part.items() if edge != "0"} for part in (edges, near))
        there = np.any([np.zeros(value.shape, bool), *edges.values()], axis=0)
        if there.any():
            values = " or ".join(edge for edge, where in edges.items() if where.any())
            lines.append(
                f"the maximum lies on the boundary: {there.sum()} of {there.size} entries of {name} are {values}. A new "
                f"{row} that contradicts such an entry has density 0; a prior with {remedy} avoids this"
            )
        still = {edge: where & ~there for edge, where in near.items()}
        number = int(np.any([np.zeros(there.shape, bool), *still.values()], axis=0).sum())
        if number:
            values = " or ".join(edge for edge, where in still.items() if where.any())
            lines.append(
                f"the maximum probably lies on the boundary: {number} of {there.size} entries of {name} were on their way to "
                f"{values} when the method stopped; a prior with {remedy} avoids this"
            )
    return lines


def _moves(
    last: Iteration | None, name: str, distance: Callable[[np.ndarray], np.ndarray] = lambda value: value
) -> tuple[np.ndarray, np.ndarray] | None:
    """Distances of a site's entries from an edge, before and after the last iteration."""
    return None if last is None else (distance(np.asarray(last.earlier[name])), distance(np.asarray(last.later[name])))


def _falls(value: np.ndarray, unit: Any, moves: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """Where a distance is below `NEAR` times ``unit`` and fell by more than the share `MUCH`."""
    if moves is None:
        return np.zeros(value.shape, bool)
    earlier, later = moves
    fell: np.ndarray = (value < NEAR * unit) & (later < (1 - MUCH) * earlier)
    return fell
