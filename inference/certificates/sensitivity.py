"""The error that a random check detects: the smallest one that it detects with a probability of `SEEN`.

A check sees a deviation d, in standard errors of its first look, if both looks are beyond `MOST`; at the second look d is
√`TIMES` times as large. An error of a Normal statistic is a shift of its mean, another standard deviation, or a correlation
with another statistic. It moves the mean of the compared quantity, ranks or their distances from ½, by so many standard
errors.

>>> round(needed(), 2)  # 3.5 at the first look, and 1.28 more in nine of ten runs
4.78
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from inference.certificates.cell import PLANS
from inference.certificates.checks.calibration import DRAWS
from inference.certificates.checks.figure import MOST, TIMES
from inference.certificates.checks.posterior import CHAINS, LEAST, LEAST_REFERENCE, REFERENCE

SEEN = 0.9
PLACES = (np.arange(4_000) + 0.5) / 4_000  # quantiles over which means are taken
NORMAL = stats.norm.ppf(PLACES)
UNIFORM, DISTANCE = math.sqrt(1 / 12), math.sqrt(1 / 48)  # standard deviations of a uniform rank, and of its distance from ½

Effect = Callable[[float], float]  # an error -> by how much it moves the mean that is compared


class SmallestErrors(NamedTuple):
    """Of a check of a certain size: the smallest shift, loss of spread and correlation of Normal statistics that it sees."""

    check: str
    size: str
    shift: float  # smallest shift that is seen, in standard deviations
    narrow: float  # smallest loss of spread that is seen, as a share
    correlation: float | None  # smallest correlation of two statistics that is seen; None: products are not compared


def needed() -> float:
    """The deviation, in standard errors of the first look, that both looks see with a probability of `SEEN`."""

    def missing(deviation: float) -> float:
        looks = (stats.norm.sf(MOST - deviation), stats.norm.sf(MOST - math.sqrt(TIMES) * deviation))
        return float(looks[0] * looks[1]) - SEEN

    return float(optimize.brentq(missing, 0.0, 3 * MOST))


def smallest(effect: Effect, error: float, most: float) -> float:
    """The error at which its effect is `needed` standard errors; infinite where none up to ``most`` has it."""

    def lacking(size: float) -> float:
        return abs(effect(size)) - needed() * error

    return float(optimize.brentq(lacking, 0.0, most)) if lacking(most) > 0 else math.inf


def of_ranks(draws: int, shift: float, scale: float) -> tuple[float, float]:
    """Means of a rank, and of its distance from ½, among ``draws`` Normal draws: for another mean and spread than theirs."""
    below = stats.norm.cdf(shift + scale * NORMAL)[:, None]
    count = np.arange(draws + 1)
    probs = special.binom(draws, count) * np.exp(special.xlogy(count, below) + special.xlogy(draws - count, 1 - below))
    low, high = count / (draws + 1), (count + 1) / (draws + 1)  # at random within the place
    away = np.where(high <= 0.5, 0.5 - (low + high) / 2, (low + high) / 2 - 0.5)
    middle = (low < 0.5) & (high > 0.5)
    away = np.where(middle, ((0.5 - low) ** 2 + (high - 0.5) ** 2) / (2 * (high - low)), away)
    return float((probs @ ((low + high) / 2)).mean()), float((probs @ away).mean())


def of_one_look(limit: float, draws: float, reference: float) -> tuple[float, float]:
    """The smallest shift and loss of spread of Normal draws that their ranks in a reference show with a probability of `SEEN`.

    ``draws`` and ``reference`` are effective draws. With a shift δ the mean rank is Φ(δ / √2), and with a standard deviation σ
    the mean distance of ranks from ½ is arctan(σ) / π.

    >>> [round(error, 2) for error in of_one_look(4.5, 4_000, 4_000)]
    [0.13, 0.11]
    """
    error = (limit + float(stats.norm.ppf(SEEN))) * math.sqrt(1 / draws + 1 / reference)
    shift = math.sqrt(2) * float(stats.norm.ppf(min(0.5 + UNIFORM * error, 1.0)))
    return shift, 1 - math.tan(max(math.pi / 4 - math.pi * DISTANCE * error, 0.0))


def of_pairs(shift: float, scale: float) -> tuple[float, float]:
    """Mean differences of pooled ranks, and of their distances from ½, of a Normal statistic and of another one."""
    other = shift + scale * NORMAL
    pooled = [(stats.norm.cdf(value) + stats.norm.cdf((value - shift) / scale)) / 2 for value in (NORMAL, other)]
    return float((pooled[1] - pooled[0]).mean()), float((np.abs(pooled[1] - 0.5) - np.abs(pooled[0] - 0.5)).mean())


def of_products(correlation: float) -> float:
    """Mean difference of pooled ranks of x y: of two Normal statistics with a correlation, and without."""
    one = NORMAL[:: len(NORMAL) // 400]
    x, noise = np.meshgrid(one, one)
    alone = np.sort((x * noise).ravel())
    together = (x * (correlation * x + math.sqrt(1 - correlation**2) * noise)).ravel()
    return float((np.searchsorted(alone, together) / len(alone)).mean() - 0.5)


def law(pairs: int) -> SmallestErrors:
    """The law of a kernel that forgets where it started. With a correlation ρ before and after: 1 / √(1 − ρ) times as large."""
    error = [math.sqrt(2 / pairs) * spread for spread in (UNIFORM, DISTANCE)]
    shift = smallest(lambda size: of_pairs(size, 1.0)[0], error[0], 3.0)
    narrow = smallest(lambda size: of_pairs(0.0, 1 - size)[1], error[1], 0.99)
    return SmallestErrors("kernel law", f"{pairs:,} pairs", shift, narrow, smallest(of_products, error[0], 0.99))


def tables(check: str, number: int, draws: int) -> SmallestErrors:
    """True values ranked among ``draws`` draws given each of so many tables; among narrow draws they are further out."""
    shift = smallest(lambda size: of_ranks(draws, size, 1.0)[0] - 0.5, UNIFORM / math.sqrt(number), 3.0)
    narrow = smallest(lambda size: of_ranks(draws, 0.0, 1 / (1 - size))[1] - 0.25, DISTANCE / math.sqrt(number), 0.99)
    return SmallestErrors(check, f"{number:,} tables", shift, narrow, None)


def posterior(draws: int, reference: int, size: str) -> SmallestErrors:
    """Draws of one table, so many effective ones, ranked among effective draws of the oracle; narrow ones are further in.

    The oracle has no more draws at the second look, so that an error must be larger than here if its draws are few.
    """
    error = math.sqrt(1 / draws + 1 / reference)
    shift = smallest(lambda size: of_ranks(DRAWS, size, 1.0)[0] - 0.5, UNIFORM * error, 3.0)
    narrow = smallest(lambda size: of_ranks(DRAWS, 0.0, 1 - size)[1] - 0.25, DISTANCE * error, 0.99)
    return SmallestErrors("posterior", size, shift, narrow, None)


def sizes(check: str) -> list[int]:
    """The sizes of a check in all plans, from small to large."""
    plans = (spec for plan in PLANS.values() for spec in plan.checks if spec.name == check)
    return sorted({size for spec in plans for size in spec.sizes.values()})


def all_checks() -> list[SmallestErrors]:
    """The random checks of samplers, each with its sizes."""
    chains = sizes("posterior")
    return [
        *(law(pairs) for pairs in sizes("kernel law")),
        *(posterior(CHAINS * draws, REFERENCE, f"{CHAINS} × {draws:,} independent draws") for draws in chains),
        posterior(LEAST, REFERENCE, f"{LEAST} effective draws, the fewest that pass"),
        posterior(CHAINS * chains[-1], LEAST_REFERENCE, f"{LEAST_REFERENCE:,} effective draws of the oracle, the fewest"),
        *(tables("calibration", number, DRAWS) for number in sizes("calibration")),
        *(tables("pipeline", number, CHAINS) for number in sizes("pipeline")),
    ]


def table() -> str:
    """A Markdown table of all checks."""
    lines = ["| check | size | shift (sd) | spread too small by | correlation of two blocks |", "|---|---|---|---|---|"]
    for each in all_checks():
        correlation = "" if each.correlation is None else f"{each.correlation:.2f}"
        lines.append(f"| {each.check} | {each.size} | {each.shift:.2f} | {each.narrow:.0%} | {correlation} |")
    return "\n".join(lines)
