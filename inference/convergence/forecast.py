"""A forecast of a climbing method: its rate of convergence, from the gains of the last iterations.

Near a maximum that is sharp in every direction, the gains g_t fall by a constant factor ρ (Dempster, Laird and Rubin 1977,
section 3), and the method stops after the smallest n with g ρ^n < threshold. Where the factor itself goes to 1, as on the way
to a boundary or along a flat direction, that n is a lower bound.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LAST = 100  # gains over which the rate is averaged, or half of all gains if these are fewer
NOISE = 1e-14  # of the objective: smaller gains are rounding


class Forecast(NamedTuple):
    """A forecast from the gains of the last iterations; (start,), NaN where these determine none."""

    rate: np.ndarray  # the gain of an iteration, as a share of the gain before
    iterations_left: np.ndarray  # until an iteration gains less than the tolerance
    gain_left: np.ndarray  # all that the objective can still gain


def forecast(trace: np.ndarray, threshold: Callable[[float], float]) -> Forecast:
    """Forecasts for rising objectives (start, iteration), NaN after a stop; a gain below ``threshold(rise)`` ends a start."""
    return Forecast(*np.array([_one(row[np.isfinite(row)], threshold) for row in trace]).reshape(-1, 3).T)


def _one(trace: np.ndarray, threshold: Callable[[float], float]) -> tuple[float, float, float]:
    gains = np.diff(trace)
    last = min(LAST, len(gains) // 2)
    if last < 2:
        return np.nan, np.nan, np.nan
    first, now = gains[-1 - last], gains[-1]
    if not min(first, now) > NOISE * np.abs(trace[-1]):
        return np.nan, np.nan, np.nan
    rate = float((now / first) ** (1 / last))
    if rate >= 1:
        return rate, np.inf, np.inf
    wanted = threshold(float(trace[-1] - trace[0]))
    left = max(0.0, np.log(wanted / now) / np.log(rate)) if wanted > 0 else np.inf
    return rate, float(np.ceil(left)), float(now * rate / (1 - rate))
