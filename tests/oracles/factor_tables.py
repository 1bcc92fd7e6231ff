"""Tables for factor models, whole and with holes, and the covariance that a model gives them."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from models.data import Data

RNG = np.random.default_rng(0)


COLUMNS, FACTORS, ROWS = 6, 2, 40


LOADING = RNG.normal(size=(COLUMNS, FACTORS)) * 2


WHOLE = RNG.normal(size=(ROWS, FACTORS)) @ LOADING.T + RNG.normal(size=(ROWS, COLUMNS)) + 5


HOLED = np.where(RNG.uniform(size=WHOLE.shape) < 0.2, np.nan, WHOLE)


WEIGHT = RNG.uniform(0.5, 2, ROWS)


every_model = pytest.mark.parametrize("name", ["factor_analysis", "ppca"])


def table(x, **fields):
    return Data("table", np.asarray(x), tuple(f"x{d}" for d in range(np.shape(x)[1])), **fields)


def covariance_of(sites):
    noise = np.broadcast_to(1 / np.asarray(sites["precision"]), (len(sites["mean"]),))
    return np.asarray(sites["loading"]) @ np.asarray(sites["loading"]).T + np.diag(noise)


def dense(sites, x):
    """(N,): log density of what is observed of every row, by a dense covariance matrix."""
    covariance = covariance_of(sites)
    found = []
    for row in x:
        seen = ~np.isnan(row)
        gaussian = multivariate_normal(np.asarray(sites["mean"])[seen], covariance[np.ix_(seen, seen)]) if seen.any() else None
        found.append(0.0 if gaussian is None else gaussian.logpdf(row[seen]))
    return np.array(found)
