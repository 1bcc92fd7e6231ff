"""Numeric columns for Gaussian blocks: moments, and subtracting a fixed origin so that an offset costs no precision."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro import distributions as dist

from models.base import Data, Hyper, ZooError, on_host
from models.data.documents import Sequences
from models.data.table import is_sparse, require_no_categories
from models.rows.masks import Cells, cells, column_means

LOG_2PI = float(np.log(2 * np.pi))
REMEDY = (
    "leave it out with data.columns=[…], mark it as the label with data.label=…, or take mixed_mixture, which reads columns of "
    "all kinds"
)
BLOCK = 2**16  # rows processed at a time


def table(data: Data) -> np.ndarray:
    """The numbers (N, D), NaN for a missing cell; raises `ZooError` for documents and categorical columns."""
    if isinstance(data.x, Sequences):
        raise ZooError(f"{data.name} holds documents, not a table of numbers; use naive_bayes or markov_naive_bayes")
    require_no_categories(data, REMEDY)
    return np.asarray(data.x.toarray() if is_sparse(data.x) else data.x)


def encode(data: Data) -> Array | Cells:
    """Encode numeric columns, on the host; raises `ZooError` for documents and categorical columns."""
    return cells(table(data))


def constant_columns(x: Any) -> np.ndarray:
    """Indices of constant columns; only columns that are constant in the first rows are read completely."""
    alike = np.flatnonzero((x[:100] == x[0]).all(axis=0) | np.isnan(x[:100]).any(axis=0))
    return np.array([d for d in alike if len(np.unique(x[~np.isnan(x[:, d]), d])) < 2], dtype=int)


def means(data: Data) -> np.ndarray:
    """Weighted mean of each column."""
    return column_means(table(data), data.weight)


def moments(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and variance of each column; raises `ZooError` if squares overflow or underflow."""
    x, weight = table(data), data.weight
    if weight is not None and not weight.all():  # rows of weight 0 have no influence, even on overflow
        x, weight = x[weight > 0], weight[weight > 0]
    mean = column_means(x, weight)
    variance, farthest = _spread(x, weight, mean)
    away = ~np.isfinite(variance) | ((variance == 0) & (farthest > 0))
    if away.any():
        raise ZooError(
            f"{data.name}: the numbers of column {data.columns[int(np.flatnonzero(away)[0])]!r} are too large or too small to "
            "be squared; give the column in another unit"
        )
    return mean, variance


def _spread(x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(variance, largest distance from the mean) of each column, without a copy of x."""
    total, number, farthest = np.zeros((3, x.shape[1]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for first in range(0, len(x), BLOCK):
            away = np.abs(x[first : first + BLOCK] - mean)
            share = None if weight is None else weight[first : first + BLOCK, None]
            if np.isnan(away.sum()):  # much faster than testing every cell
                seen, away = ~np.isnan(away), np.nan_to_num(away, posinf=np.inf)
                share = seen if share is None else seen * share
            farthest = np.maximum(farthest, away.max(axis=0))
            square = np.square(away, out=away)
            total += (square if share is None else share * square).sum(axis=0)
            number += len(away) if share is None else share.sum(axis=0)
        return total / number, farthest


def origin(data: Data) -> dict[str, np.ndarray]:
    """The origin of the statistics: the column means of the data that the model was built from."""
    return {"origin": means(data)}


def translated(x: Any, origin: np.ndarray) -> Any:
    """Subtract an origin (D,) from rows (…, D) on the host, in double precision; missing cells stay 0."""
    if isinstance(x, Cells):
        return Cells(on_host(np.where(x.observed, translated(x.value, origin), 0.0)), x.observed)
    return on_host(np.asarray(x, dtype=np.float64) - origin)


def centre(hyper: Hyper, x: Array | Cells) -> Array:
    """Rows (N, D) minus the origin, 0 for missing cells."""
    if isinstance(x, Cells):
        return jnp.where(x.observed, centre(hyper, x.value), 0)
    return x - jnp.asarray(hyper["origin"], x.dtype)[None, :]


def flat(support: Any, shape: tuple[int, ...]) -> dist.Distribution:
    return dist.ImproperUniform(support, (), shape)
