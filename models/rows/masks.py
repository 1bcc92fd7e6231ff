"""Rows with missing cells, which contribute a factor of 1 to the likelihood and nothing to statistics (document 004).

Tables and programs mark a missing cell by NaN; encoded rows hold a mask next to the values.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import on_host
from models.data.table import is_complete


class Cells(NamedTuple):
    """Rows with missing cells."""

    value: Array  # (N, D), 0 for missing cells
    observed: Array  # (N, D), boolean


def cells(x: np.ndarray) -> Array | Cells:
    """Encode a table with NaN for missing cells; a complete table is returned unchanged."""
    if is_complete(x):
        return on_host(x)
    missing = np.isnan(x)
    return Cells(on_host(np.where(missing, 0.0, x)), on_host(~missing))


def observation(x: Array | Cells) -> Array:
    """Decode to (N, D) with NaN for missing cells, as a program observes it."""
    return jnp.where(x.observed, x.value, jnp.nan) if isinstance(x, Cells) else x


def partly_observed(x: Any) -> bool:
    """Whether rows, or a part of them, are encoded with a mask of missing cells."""
    if isinstance(x, Mapping):
        return any(map(partly_observed, x.values()))
    return getattr(x, "observed", None) is not None


def column_means(x: Any, weight: np.ndarray | None) -> np.ndarray:
    """Weighted mean of the observed cells of each column of (N, D) on the host; NaN for an empty column."""
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.asarray(np.average(x, axis=0, weights=weight))
    if not np.isnan(mean).any():
        return mean
    seen = ~np.isnan(x)
    shares = seen if weight is None else seen * weight[:, None]
    with np.errstate(invalid="ignore"):
        return np.asarray((shares * np.where(seen, x, 0.0)).sum(axis=0) / shares.sum(axis=0))
