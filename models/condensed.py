"""Few weighted rows in the place of many, where only their first two moments matter."""

import numpy as np

from models.base import on_host
from models.missing import Cells, column_means
from models.rows import Rows
from models.simplex import simplex

BLOCK = 2**16  # rows


def condense(rows: Rows) -> Rows:
    """D + 1 weighted rows with the count, the means and the covariance of the N rows, where all cells are observed.

    Whatever reads the scores' expectations or the likelihood as a whole
    cannot tell them from the rows themselves.
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
    """(number of rows by weight, means, covariance with that divisor) of rows without missing cells."""
    x = np.asarray(rows.x, dtype=np.float64)
    weight = None if rows.weight is None else np.asarray(rows.weight, dtype=np.float64)
    size = float(len(x) if weight is None else weight.sum())
    mean = np.asarray(column_means(x, weight))
    total = np.zeros((x.shape[1], x.shape[1]))
    for first in range(0, len(x), BLOCK):  # so that no second table is made
        away = x[first : first + BLOCK] - mean
        total += away.T @ (away if weight is None else weight[first : first + BLOCK, None] * away)
    return size, mean, total / size
