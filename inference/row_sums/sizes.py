"""The sample size of BIC, the sum of the weights, and the memory of the draws."""

import math
from typing import Any

import numpy as np

from inference.engine.program import latent_sites
from inference.engine.sweep import num_rows
from inference.engine.task import Task
from models.algebra import is_sequential
from models.base import Model, Pytree, ZooError
from models.rows.row_info import row_info

MOST_BYTES = 8 * 2**30  # of draws that a result may have


def sample_size(model: Model, rows: Pytree) -> float:
    """The sample size for BIC: the sum of the row weights, or for sequences the number of observed steps, each by its weight.

    Counting a single sequence as one would make the penalty log 1 = 0 for any number of parameters.
    """
    if not is_sequential(model):
        return total_weight(rows)
    weight, seen, length = row_info(rows).weight, row_info(rows).seen, np.asarray(row_info(rows).length)
    if seen is not None:
        length = (np.asarray(seen) & (np.arange(seen.shape[1])[None, :] < length[:, None])).sum(1)
    return float(np.sum(length * (1.0 if weight is None else np.asarray(weight))))


def total_weight(rows: Pytree) -> float:
    """The sum of the row weights."""
    weight = row_info(rows).weight
    return float(num_rows(rows) if weight is None else np.asarray(weight).sum())


def require_room(task: Task, options: Any) -> None:
    """A `ZooError` for more draws than memory is likely to hold."""
    sites = latent_sites(task.model.spec, task.hyper, task.rows).values()
    size = options.num_chains * options.num_samples * sum(8 * math.prod(site.shape) for site in sites)
    if size > MOST_BYTES:
        raise ZooError(
            f"{options.num_chains} × {options.num_samples} draws of all parameters take {size / 2**30:.0f} GiB, and a result "
            f"holds them twice; {MOST_BYTES / 2**30:.0f} are the most: take fewer (num_samples=)"
        )
