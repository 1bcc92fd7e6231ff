"""Few weighted rows in the place of many, where only their first two moments matter."""

import numpy as np

from models.base import on_host
from models.missing import Cells, column_means
from models.rows import Rows
from models.simplex import simplex


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
    weight = np.ones(len(x)) if rows.weight is None else np.asarray(rows.weight, dtype=np.float64)
    mean = np.asarray(column_means(x, weight))
    away = x - mean
    return float(weight.sum()), mean, (weight[:, None] * away).T @ away / weight.sum()
