"""The scale of default Gaussian priors, taken from the columns, and the handling of constant columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models.base import Data, ZooError
from models.rows.centring import constant_columns, moments, table

TO_DEVIATION = 1.4826  # median absolute deviation of a Normal -> its standard deviation
ROUNDING = 1e-12  # of sums of weights
SCALE = "scatter"  # the hyperparameter in squared units of the columns


def counted_rows(data: Data) -> int:
    """Number of rows with positive weight."""
    return data.num_rows if data.weight is None else int((data.weight > 0).sum())


def without_spread(data: Data) -> list[str]:
    """Names of the columns that are constant over rows of positive weight."""
    x = table(data) if data.weight is None else table(data)[data.weight > 0]
    return [data.columns[d] for d in constant_columns(x)]


def usual_moments(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each column, for scaling default priors; variance 1 if there is only one row."""
    mean, variance = moments(data)
    return mean, np.ones_like(variance) if counted_rows(data) == 1 else variance


def robust_moments(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Median and squared scale of the observed cells of each column, which few rows far away do not move.

    The scale is 1.4826 times the median absolute deviation, as the standard deviation of a Normal. A column of which more than
    half the cells are equal has none; it keeps its variance.
    """
    x, variance = table(data), usual_moments(data)[1]
    weight = np.ones(len(x)) if data.weight is None else np.asarray(data.weight, float)
    centre = np.array([_weighted_median(column, weight) for column in x.T])
    scale = TO_DEVIATION * np.array([_weighted_median(column, weight) for column in np.abs(x - centre).T])
    return centre, np.where(scale > 0, scale**2, variance)


def _weighted_median(value: np.ndarray, weight: np.ndarray) -> float:
    """The middle of (N,) numbers, NaN left out; a weight of 2 is the number twice."""
    value, weight = value[(seen := ~np.isnan(value))], weight[seen]
    order = np.argsort(value, kind="stable")
    below = np.cumsum(weight[order]) / weight.sum()
    places = np.searchsorted(below, [0.5 - ROUNDING, 0.5 + ROUNDING])
    return float(value[order][places].mean())


def gives(prior: Any, name: str) -> bool:
    """Whether the user's prior sets this hyperparameter."""
    return isinstance(prior, Mapping) and any(isinstance(block, Mapping) and name in block for block in prior.values())


def scale_doubts(data: Data, constant: Sequence[str], prior: Any, why: str) -> tuple[str, ...]:
    """Warnings about a prior on ``constant`` columns; raises `ZooError` if the prior has no scale for them.

    ``why`` is the reason given for a flat prior. A scale is either set by the user, or 1 for a single row.
    """
    if not constant or gives(prior, SCALE):
        return ()
    if prior != "flat" and counted_rows(data) == 1:
        return (f"one row has no variance, so the default prior assumes variance 1 for its columns; give its {SCALE}",)
    shown = ", ".join(repr(name) for name in constant[:5]) + (f" and {len(constant) - 5} more" if len(constant) > 5 else "")
    listed = f"column {shown} has" if len(constant) == 1 else f"columns {shown} have"
    reason, remedy = ("the default prior cannot take its scale from them", f", or give the {SCALE} of the prior")
    if prior == "flat":
        reason, remedy = why, ""
    raise ZooError(
        f"{data.name}: {listed} the same value in every row, so {reason}; leave it out with data.drop_constant=true{remedy}"
    )
