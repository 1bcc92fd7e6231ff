"""Rows of which some cells are missing: what was not seen has probability 1 (document 004), and no part in a statistic.

A missing cell is NaN in a table and in what a program observes, and a mask beside the values in what the algebra reads.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import on_host


class Cells(NamedTuple):
    """Rows with missing cells."""

    value: Array  # (N, D), 0 where missing
    observed: Array  # (N, D), boolean


def cells(x: np.ndarray) -> Array | Cells:
    """A host table, NaN where a cell is missing, as the rows of a model: as it is where all cells are there."""
    missing = np.isnan(x)
    return Cells(on_host(np.where(missing, 0.0, x)), on_host(~missing)) if missing.any() else on_host(x)


def observation(x: Array | Cells) -> Array:
    """(N, D), NaN where missing: what a program observes."""
    return jnp.where(x.observed, x.value, jnp.nan) if isinstance(x, Cells) else x


def partly_observed(x: Any) -> bool:
    """Whether rows, or a part of them, are in the form with missing cells."""
    if isinstance(x, Mapping):
        return any(map(partly_observed, x.values()))
    return getattr(x, "observed", None) is not None


def column_means(x: Any, weight: np.ndarray | None) -> np.ndarray:
    """Mean of what is observed of every column of a host table (N, D); a row counts by its weight, NaN where it has none."""
    if not np.isnan(x.sum()):  # much faster than to look at every cell
        return np.asarray(np.average(x, axis=0, weights=weight))
    seen = ~np.isnan(x)
    shares = seen if weight is None else seen * weight[:, None]
    with np.errstate(invalid="ignore"):
        return np.asarray((shares * np.where(seen, x, 0.0)).sum(axis=0) / shares.sum(axis=0))
