"""The prior of logistic regression, as standard deviations in the units of the columns and as pseudo-statistics."""

from typing import Any

import numpy as np

from models.base import Algebra, Hyper, Stats, on_host
from models.data.table import Data, ZooError
from models.families.coefficients import NormalStats
from models.families.user_prior import check_hyper, given_numbers
from models.rows.centring import constant_columns, moments, table

INTERCEPT_SCALE = 5.0
PRIOR = {"weight": {"scale": "weight_scale"}, "intercept": {"scale": "intercept_scale"}}  # block -> name -> hyperparameter


def hyperparameters(data: Data, weight_scale: float, prior: Any) -> dict[str, np.ndarray]:
    """Origin and spread of the columns, and the prior's standard deviations in the columns' units; raises `ZooError`.

    A column that is constant over rows of positive weight has spread 0; its weight has the prior for spread 1.
    """
    mean, variance = moments(data)
    counted = table(data) if data.weight is None else table(data)[data.weight > 0]
    constant = constant_columns(counted)
    mean[constant], variance[constant] = counted[0, constant], 0.0  # exact, so that this column minus the origin is 0
    constants = {"origin": mean, "spread": np.sqrt(variance)}
    if prior == "flat":
        return constants
    try:
        weight_scales = float(weight_scale) / np.where(variance > 0, constants["spread"], 1.0)
        scales: dict[str, Any] = {"weight_scale": weight_scales, "intercept_scale": INTERCEPT_SCALE}
    except (TypeError, ValueError, OverflowError) as error:
        raise ZooError(f"weight_scale must be a number above 0, got {weight_scale!r}") from error
    shapes = {"weight_scale": mean.shape, "intercept_scale": ()}
    return check_hyper(scales | given_numbers(prior, PRIOR), shapes, {}) | constants


def pseudo_statistics(hyper: Hyper, algebra: Algebra, proper: bool) -> dict[str, Stats]:
    """The prior as pseudo-statistics: h = 0 and J = diag(1 / scale²) for each class; flat: nu = 0."""
    size = len(hyper["origin"]) + 1
    precision = np.zeros(size)
    if proper:
        precision = np.concatenate([np.reshape(hyper["intercept_scale"], 1), hyper["weight_scale"]]) ** -2.0
    nu: Any = NormalStats(on_host(np.zeros(size)), on_host(np.diag(precision)))
    return {name: nu for name, _ in algebra.families}
