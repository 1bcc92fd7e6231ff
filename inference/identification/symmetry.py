"""Results of a symmetric posterior: aligned draws, optima in one form, fewer free parameters."""

from collections.abc import Mapping

import numpy as np

from inference.engine.evaluate import evaluate, latents_of_draws, num_latents
from inference.engine.task import Kind, Points, Task
from inference.identification.relabel import Identification, identify_draws
from inference.identification.rotation import identify_rotations, oriented
from models.base import Model
from models.rows.encoded import spread
from models.symmetries import Reflection, Rotation


def identified_draws(
    task: Task,
    flat: Mapping[str, np.ndarray],
    kind: Kind,
    criterion: str = "varimax",
    log_prior: np.ndarray | None = None,
    log_joint: np.ndarray | None = None,
) -> Identification | None:
    """The draws (S, …) relabelled, or with aligned factors; None without a symmetry.

    Draws from an approximation keep their labels, because it has one labelling. ``criterion`` is for factors
    (`inference.identification.rotation`). ``log_prior`` (S,) and ``log_joint`` (S,) are those of the sampler, if it has them.
    """
    model, arrays = task.model, (task.hyper, task.prior, task.rows)
    if model.symmetry is None:
        return None
    keep_labels = kind is Kind.APPROXIMATION and model.symmetry.exchanges_labels
    pivot = 0 if keep_labels else _pivot(task, flat, log_prior, log_joint)  # draws that keep their labels need none
    if isinstance(model.symmetry, Rotation | Reflection):
        return identify_rotations(
            flat, model.symmetry, model.naming.dims, column_scale(model, model.symmetry), pivot, criterion
        )
    latents, total = latents_of_draws(model, *arrays, flat), num_latents(model, *arrays, flat)
    if latents is None or model.abilities.held_out is None:
        return identify_draws(flat, model.symmetry, model.naming.dims, latents, pivot, total, keep_labels=keep_labels)
    units = np.asarray(model.abilities.held_out.number(task.rows))[spread(total, latents.shape[1])]
    return identify_draws(
        flat, model.symmetry, model.naming.dims, latents, pivot, total, units, model.abilities.held_out.unit, keep_labels
    )


def _pivot(task: Task, flat: Mapping[str, np.ndarray], log_prior: np.ndarray | None, log_joint: np.ndarray | None) -> int:
    """The draw with the highest log joint: that of the sampler, which is NaN where unknown, or else evaluated on all rows."""
    if log_joint is None or np.isnan(log_joint).all():
        log_joint = evaluate(task.model, task.hyper, task.prior, task.rows, flat, at_draws=log_prior).log_joint
    return int(np.nanargmax(log_joint)) if not np.isnan(log_joint).all() else 0


def canonical_optima(model: Model, points: Points) -> Points:
    """Optima in a canonical form: factors in order, and in a simple rotation if the rotation is free."""
    if not isinstance(model.symmetry, Rotation | Reflection):
        return points
    finite = {name: np.nan_to_num(leaf) for name, leaf in points.sites.items()}  # failed starts are NaN and not used
    return points._replace(sites=oriented(finite, model.symmetry, model.naming.dims, column_scale(model, model.symmetry)))


def num_flat(model: Model) -> int:
    """Number of parameter directions in which the likelihood is flat."""
    symmetry = model.symmetry
    if symmetry is None or not symmetry.turns_factors:
        return 0
    return symmetry.num_flat(len(model.naming.coords[symmetry.dim]))


def column_scale(model: Model, symmetry: Rotation | Reflection) -> np.ndarray:
    """Scales (D,), or 1, that make loadings of different columns comparable; 1 for a constant column."""
    scale = np.ones(1) if symmetry.scale is None else np.asarray(model.hyper[symmetry.scale])
    return np.where(scale > 0, scale, 1.0)
