"""The naive predictive density of a missing cell, column by column."""

from typing import Any

import numpy as np
from naive_mixed import KINDS, LEVELS
from scipy import stats

NUMBERS = [0, 3]  # places of the columns of numbers


def cell_predictive(hyper: Any, d: int, seen: np.ndarray, value: float) -> float:
    """Log p(one more cell | those seen of its column and class)."""
    size = len(seen)
    if LEVELS[d]:
        prior = float(hyper["level_concentration"])
        return float(np.log((prior + (seen == value).sum()) / (prior * len(LEVELS[d]) + size)))
    if KINDS[d] == "count":
        shape, rate = hyper["shape"][0] + seen.sum(), hyper["inverse_scale"][0] + size
        return float(stats.nbinom(shape, rate / (rate + 1)).logpmf(value))
    place = NUMBERS.index(d)
    location, strength, scatter = hyper["location"][place], float(hyper["strength"]) + size, hyper["scatter"][place]
    mean = (hyper["strength"] * location + seen.sum()) / strength
    dof = hyper["dof"] + size
    scatter = scatter + (seen**2).sum() + hyper["strength"] * location**2 - strength * mean**2
    return float(stats.t(dof, mean, np.sqrt(scatter / dof * (1 + 1 / strength))).logpdf(value))
