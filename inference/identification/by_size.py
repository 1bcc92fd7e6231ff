"""Exchangeable components are numbered by their sizes, the largest first, so that runs and methods number them alike.

The size of a component is the expected number of rows in it, or of steps, or of tokens. Components of nearly equal size may
change places from run to run. A fit with a given start keeps the numbers of the start. Components with meaningful names keep
them.
"""

import numpy as np

from inference.engine.evaluate import Evaluation, places_of
from inference.engine.task import Task
from inference.identification.relabel import Identification
from models.algebra import exchanges_labels
from models.base import Model, Sites
from models.rows.row_info import row_info
from models.symmetries import Permutation


def largest_first(task: Task, at: Evaluation) -> np.ndarray | None:
    """(K,): the components by size, from the latents of an evaluation; None where components keep their numbers."""
    model, rows = task.model, task.rows
    exchangeable = exchanges_labels(model) and not model.naming.named and task.start is None
    if model.algebra is None or at.latents is None or not exchangeable:
        return None
    latents = np.asarray(at.latents, dtype=np.float64)
    weight = row_info(rows).weight
    each = np.ones(len(latents)) if weight is None else np.asarray(weight, dtype=np.float64)
    if model.abilities.held_out is not None:  # rows consist of units
        each = each * np.asarray(model.abilities.held_out.number(rows))
    places = places_of(model, rows)
    of_row = places // (latents[..., 0].size // len(latents))
    return np.argsort(-(each[of_row] @ latents.reshape(-1, latents.shape[-1])[places]), kind="stable")


def evaluation_in(order: np.ndarray, at: Evaluation) -> Evaluation:
    """An evaluation with the latents in another ``order`` (K,) of the components."""
    assert at.latents is not None
    return at._replace(latents=at.latents[..., order], share=None if at.share is None else at.share[:, order])


def sites_in(order: np.ndarray, model: Model, sites: Sites) -> dict[str, np.ndarray]:
    """Sites (S, …) in another ``order`` (K,) of the components."""
    assert isinstance(model.symmetry, Permutation)
    size = len(next(iter(sites.values())))
    return model.symmetry.moved(sites, model.naming.dims, np.tile(order, (size, 1)))


def draws_in(order: np.ndarray, model: Model, identified: Identification) -> Identification:
    """Relabelled draws in another ``order`` (K,) of the components."""
    return identified._replace(sites=sites_in(order, model, identified.sites), moves=identified.moves[:, order])
