"""What factor models cannot be made of: checks of the table and of the number of factors."""

from typing import Any

import numpy as np

from models.base import Data, ZooError
from models.data import as_data, require_filled
from models.gaussian_rows import constant_columns, table

COPY = 1e-12  # distance of a correlation from ±1 that is rounding


def ledermann(num_columns: int) -> int:
    """The largest L with (D − L)² ≥ D + L: beyond it a covariance has more loadings than numbers (Ledermann 1937)."""
    return int(np.floor(num_columns + 0.5 * (1 - np.sqrt(8 * num_columns + 1)) + 1e-9))


def checked(data: Any) -> Data:
    """A table of numbers with a value in every column; raises `ZooError`."""
    data = as_data(data)
    table(data)  # refuses columns of categories
    require_filled(data)
    return data


def refuse_constant(data: Data) -> None:
    """A `ZooError` for a column that has one value."""
    x = table(data)
    constant = [data.columns[d] for d in constant_columns(x if data.weight is None else x[data.weight > 0])]
    if constant:
        raise ZooError(
            f"{data.name}: column {constant[0]!r} has the same value in every row, so it varies with nothing; leave it out "
            "with data.drop_constant=true"
        )


def refuse_copies(data: Data) -> None:
    """A `ZooError` for a column that is another one in other units: a factor explains both without rest."""
    x = table(data) if data.weight is None else table(data)[data.weight > 0]
    x = x[~np.isnan(x).any(axis=1)]
    if len(x) < 3:  # two rows make a line of any two columns
        return
    apart = np.triu(1 - np.abs(np.corrcoef(x, rowvar=False)), 1) + np.tri(x.shape[1])
    i, j = np.unravel_index(np.argmin(apart), apart.shape)
    if apart[i, j] < COPY:
        raise ZooError(
            f"{data.name}: columns {data.columns[i]!r} and {data.columns[j]!r} are one column in two units, so that under "
            "prior=flat a factor explains both without rest and the likelihood has no maximum; leave one out, or give a prior"
        )


def check_factors(num_factors: Any, most: int, why: str) -> None:
    """A `ZooError` for what is no number of factors, or above ``most``."""
    if isinstance(num_factors, bool) or not isinstance(num_factors, int | np.integer) or num_factors < 1:
        raise ZooError(f"num_factors must be a whole number above 0, got {num_factors!r}")
    if num_factors > most:
        raise ZooError(f"num_factors={num_factors}: {why}")
