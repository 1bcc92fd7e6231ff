"""Replace many rows by few weighted rows with the same first two moments."""

import numpy as np

from models.base import on_host
from models.data.covariance_matrix import simplex
from models.rows.encoded import Rows
from models.rows.masks import Cells, column_means

BLOCK = 2**16  # rows processed at a time


def sufficient_rows(rows: Rows) -> Rows:
    """D + 1 weighted rows with the count, means and covariance of N complete rows; other rows are returned unchanged.

    The likelihood and expected statistics are the same, so that EM, CAVI and NUTS can use these rows instead.
    """
    if isinstance(rows.x, Cells):
        return rows
    number, dimension = rows.x.shape
    if number <= dimension + 1:
        return rows
    size, mean, covariance = moments(rows)
    x, weight = simplex(mean, covariance, size)
    return Rows(on_host(x), on_host(weight))


def moments(rows: Rows) -> tuple[float, np.ndarray, np.ndarray]:
    """(sum of weights, means, covariance with this divisor) of complete rows."""
    x = np.asarray(rows.x, dtype=np.float64)
    weight = None if rows.weight is None else np.asarray(rows.weight, dtype=np.float64)
    size = float(len(x) if weight is None else weight.sum())
    mean = np.asarray(column_means(x, weight))
    total = np.zeros((x.shape[1], x.shape[1]))
    for first in range(0, len(x), BLOCK):  # avoids a second table in memory
        away = x[first : first + BLOCK] - mean
        total += away.T @ (away if weight is None else weight[first : first + BLOCK, None] * away)
    return size, mean, total / size
