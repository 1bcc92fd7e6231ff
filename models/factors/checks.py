"""Checks of the table and of the number of factors."""

from typing import Any

import numpy as np

from models.base import Data, ZooError
from models.data.arguments import require_whole
from models.data.table import require_filled
from models.reading.load import as_data
from models.rows.centring import table
from models.rows.encoded import spread

COPY = 1e-12  # a correlation this close to ±1 is exact but for rounding
SOME_ROWS = 1000  # evenly spread, that are looked at first
SURELY = 1e-3  # by which 1 − |correlation| in these rows exceeds that of copies


def ledermann(num_columns: int) -> int:
    """Ledermann's bound (1937): the largest L with (D − L)² ≥ D + L. More loadings are not identified by a covariance."""
    return int(np.floor(num_columns + 0.5 * (1 - np.sqrt(8 * num_columns + 1)) + 1e-9))


def checked(data: Any) -> Data:
    """Read a table of numbers; raises `ZooError` for a categorical or an empty column."""
    data = as_data(data)
    table(data)  # raises for categorical columns
    require_filled(data)
    return data


def refuse_copies(data: Data) -> None:
    """Raise `ZooError` if two columns are perfectly correlated: a factor then explains both without noise."""
    x = table(data) if data.weight is None else table(data)[data.weight > 0]
    # Copies are copies in some of the rows, too: all are read only where those cannot rule them out.
    some = x[spread(len(x), SOME_ROWS)]
    if len(x) > SOME_ROWS and not np.isnan(some).any() and _apart(some).min() > SURELY:
        return
    x = x[~np.isnan(x).any(axis=1)]
    if len(x) < 3:  # with two rows any two columns are perfectly correlated
        return
    apart = _apart(x)
    i, j = np.unravel_index(np.argmin(apart), apart.shape)
    if apart[i, j] < COPY:
        raise ZooError(
            f"{data.name}: columns {data.columns[i]!r} and {data.columns[j]!r} are perfectly correlated, so that under "
            "prior=flat a factor explains both without noise and the likelihood is unbounded; leave one out, or give a prior"
        )


def _apart(x: np.ndarray) -> np.ndarray:
    """1 − |correlation| of every pair of columns (D, D), once: 1 on and below the diagonal; NaN with a constant column."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.triu(1 - np.abs(np.corrcoef(x, rowvar=False)), 1) + np.tri(x.shape[1]))


def check_factors(num_factors: Any, most: int, why: str) -> None:
    """Raise `ZooError` unless ``num_factors`` is a whole number from 1 to ``most``; ``why`` explains the bound."""
    require_whole("num_factors", num_factors)
    if num_factors > most:
        raise ZooError(f"num_factors={num_factors}: {why}")
