"""Do two paired samples have the same law? Ranks in location and in spread, and the two-stage rule.

A statistic of (θ, x) before and after steps of a kernel that leaves the posterior alone has the same law. Both values of a
pair depend on each other, so the mean difference of their ranks is compared with its own standard error: a standard normal
deviation in the limit of many pairs.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from scipy import stats

from inference.certificates.checks.figure import Figure

MOST = 3.5  # deviations beyond this are looked at a second time
TIMES = 4  # size of the second stage
# By how much a mutant must deviate at the size of the second stage. Then 1 / √TIMES of it is expected at the first one: that is
# one deviation beyond `MOST`, so that the check sees the mutant with a probability of 0.84.
POWER = float((MOST + 1) * np.sqrt(TIMES))
FALSE_ALARM = float(2 * stats.norm.sf(MOST) ** 2)  # of one deviation: beyond twice, with the same sign

Deviations = dict[str, float]  # what was compared -> standard normal deviation


def deviations(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> Deviations:
    """Of every statistic (R,) in location and in spread: positive if it is larger, or wider, after."""
    found = {}
    for name, values in before.items():
        ranks = pooled_ranks(values, after[name])
        found[name] = paired(*ranks)
        found[f"{name}, spread"] = paired(*(np.abs(rank - 0.5) for rank in ranks))
    return found


def pooled_ranks(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ranks in (0, 1) of both samples among all their values; ties share a rank."""
    ranks = (stats.rankdata(np.concatenate([one, other])) - 0.5) / (len(one) + len(other))
    return ranks[: len(one)], ranks[len(one) :]


def paired(before: np.ndarray, after: np.ndarray) -> float:
    """Mean difference in units of its standard error; 0 where nothing differs."""
    difference = after - before
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    mean = float(difference.mean())
    return mean / float(error) if error > 0 or math.isnan(error) else math.copysign(math.inf, mean) if mean else 0.0


def two_stages(run: Callable[[int, int], Deviations], seed: int) -> tuple[Figure, ...]:
    """Figures of ``run(seed, times)``. Deviations beyond `MOST` are run again with a fresh seed at `TIMES` the size."""
    first = run(seed, 1)
    again = {} if all(abs(value) <= MOST for value in first.values()) else run(seed + 1_000_003, TIMES)
    return tuple(_figure(name, value, None if abs(value) <= MOST else again[name]) for name, value in first.items())


def large_stage(run: Callable[[int, int], Deviations], seed: int) -> tuple[Figure, ...]:
    """Figures of the second stage alone: those of a mutant, which are far beyond `MOST` if there is power at all."""
    return tuple(_figure(name, value, value) for name, value in run(seed, TIMES).items())


def _figure(name: str, value: float, again: float | None) -> Figure:
    return Figure(name, value, MOST, "deviation", again)
