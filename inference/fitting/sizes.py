"""How much was observed: what BIC counts, and the sum of the weights."""

import numpy as np

from inference.engine.sweep import num_rows
from models.algebra import is_sequential
from models.base import Model, Pytree
from models.rows.carried import carried


def sample_size(model: Model, rows: Pytree) -> float:
    """The sample size for BIC: the sum of the row weights, or for sequences the number of observed steps, each by its weight.

    Counting a single sequence as one would make the penalty log 1 = 0, whatever the number of parameters.
    """
    if not is_sequential(model):
        return total_weight(rows)
    weight, seen, length = carried(rows).weight, carried(rows).seen, np.asarray(carried(rows).length)
    if seen is not None:
        length = (np.asarray(seen) & (np.arange(seen.shape[1])[None, :] < length[:, None])).sum(1)
    return float(np.sum(length * (1.0 if weight is None else np.asarray(weight))))


def total_weight(rows: Pytree) -> float:
    """The sum of the row weights."""
    weight = carried(rows).weight
    return float(num_rows(rows) if weight is None else np.asarray(weight).sum())
