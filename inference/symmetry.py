"""What a symmetry of the posterior asks of results: draws moved to where they compare, optima in one form, fewer parameters."""

from collections.abc import Mapping

import numpy as np

from inference.evaluate import evaluate, latents_of_draws, num_latents
from inference.outcome import Points, Task
from inference.relabel import Identification, identify_draws
from inference.rotation import identify_rotations, oriented
from models.base import Model, Reflection, Rotation
from models.rows import spread


def identified_draws(task: Task, flat: Mapping[str, np.ndarray], criterion: str = "varimax") -> Identification | None:
    """The draws (S, …) with their labels, or their factors, moved to where they compare; None without a symmetry.

    ``criterion`` is for factors (`inference.rotation`).
    """
    model, arrays = task.model, (task.hyper, task.prior, task.rows)
    if model.symmetry is None:
        return None
    log_joint = evaluate(model, *arrays, flat).log_joint
    if isinstance(model.symmetry, Rotation | Reflection):
        return identify_rotations(flat, model.symmetry, model.dims, column_scale(model, model.symmetry), log_joint, criterion)
    latents, total = latents_of_draws(model, *arrays, flat), num_latents(model, *arrays, flat)
    if latents is None or model.held_out is None:
        return identify_draws(flat, model.symmetry, model.dims, latents, log_joint, total)
    units = np.asarray(model.held_out.number(task.rows))[spread(total, latents.shape[1])]
    return identify_draws(flat, model.symmetry, model.dims, latents, log_joint, total, units, model.held_out.unit)


def in_one_form(model: Model, points: Points) -> Points:
    """Optima as they are read: factors in order, and in the rotation that is simplest where they may be rotated at will."""
    if not isinstance(model.symmetry, Rotation | Reflection):
        return points
    finite = {name: np.nan_to_num(leaf) for name, leaf in points.sites.items()}  # starts that failed are not read
    return points._replace(sites=oriented(finite, model.symmetry, model.dims, column_scale(model, model.symmetry)))


def whatever(model: Model) -> str:
    """What summaries that are free of the symmetry do not depend on, in words; "" without one."""
    if model.symmetry is None:
        return ""
    if isinstance(model.symmetry, Rotation):
        return f"the rotation of the {model.symmetry.dim}s"
    return f"the order and the signs of the {model.symmetry.dim}s" if isinstance(model.symmetry, Reflection) else "the labels"


def num_flat(model: Model) -> int:
    """How many directions of the parameters the likelihood does not see: L (L − 1) / 2 rotations of L factors, and what the
    prior has of each.
    """
    if not isinstance(model.symmetry, Rotation | Reflection):
        return 0
    size = len(model.coords[model.symmetry.dim])
    return size * (size - 1) // 2 + (size if isinstance(model.symmetry, Reflection) else 0)


def column_scale(model: Model, symmetry: Rotation | Reflection) -> np.ndarray:
    """What makes loadings of different columns comparable: (D,), or 1; a column that does not vary counts as it is."""
    scale = np.ones(1) if symmetry.scale is None else np.asarray(model.hyper[symmetry.scale])
    return np.where(scale > 0, scale, 1.0)
