"""How large an error passes a random check: the smallest one that it sees with a probability of `SEEN`.

A check sees a deviation d, in standard errors of its first look, if both looks are beyond `MOST`; at the second look d is
√`TIMES` times as large. An error of a Normal statistic is a shift of its mean, another standard deviation, or a correlation
with another statistic. It moves the mean of what the check compares, ranks or their distances from ½, by so many standard
errors.

>>> round(needed(), 2)  # 3.5 at the first look, and 1.28 more in nine of ten runs
4.78
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from inference.certificates.checks.calibration import DRAWS
from inference.certificates.checks.figure import MOST, TIMES
from inference.certificates.checks.posterior import CHAINS, LEAST, REFERENCE

SEEN = 0.9
PLACES = (np.arange(4_000) + 0.5) / 4_000  # quantiles over which means are taken
NORMAL = stats.norm.ppf(PLACES)
UNIFORM, DISTANCE = math.sqrt(1 / 12), math.sqrt(1 / 48)  # standard deviations of a uniform rank, and of its distance from ½

Effect = Callable[[float], float]  # an error -> by how much it moves the mean that is compared


class Sight(NamedTuple):
    """What a check of a certain size compares, for a shift, a scale and a correlation of a Normal statistic."""

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


def law(pairs: int) -> Sight:
    """The law of a kernel that forgets where it started; one that does not sees more."""
    error = [math.sqrt(2 / pairs) * spread for spread in (UNIFORM, DISTANCE)]
    shift = smallest(lambda size: of_pairs(size, 1.0)[0], error[0], 3.0)
    narrow = smallest(lambda size: of_pairs(0.0, 1 - size)[1], error[1], 0.99)
    return Sight("kernel law", f"{pairs:,} pairs", shift, narrow, smallest(of_products, error[0], 0.99))


def tables(check: str, number: int, draws: int) -> Sight:
    """True values ranked among ``draws`` draws given each of so many tables; among narrow draws they are further out."""
    shift = smallest(lambda size: of_ranks(draws, size, 1.0)[0] - 0.5, UNIFORM / math.sqrt(number), 3.0)
    narrow = smallest(lambda size: of_ranks(draws, 0.0, 1 / (1 - size))[1] - 0.25, DISTANCE / math.sqrt(number), 0.99)
    return Sight(check, f"{number:,} tables", shift, narrow, None)


def posterior(draws: int, size: str) -> Sight:
    """Draws of one table ranked among those of the oracle, by so many effective draws of chains; narrow ones are further in."""
    error = math.sqrt(1 / draws + 1 / REFERENCE)
    shift = smallest(lambda size: of_ranks(DRAWS, size, 1.0)[0] - 0.5, UNIFORM * error, 3.0)
    narrow = smallest(lambda size: of_ranks(DRAWS, 0.0, 1 - size)[1] - 0.25, DISTANCE * error, 0.99)
    return Sight("posterior", size, shift, narrow, None)


def sights() -> list[Sight]:
    """The random checks by budget, quick before full."""
    return [
        law(2_500),
        law(10_000),
        *(posterior(CHAINS * draws, f"{CHAINS} × {draws:,} independent draws") for draws in (2_000, 8_000)),
        posterior(LEAST, f"{LEAST} effective draws, the fewest that pass"),
        *(tables("calibration", number, DRAWS) for number in (1_250, 2_500)),
        *(tables("pipeline", number, CHAINS) for number in (200, 300)),
    ]


def table() -> str:
    """A Markdown table of all checks."""
    lines = ["| check | size | shift (sd) | spread too small by | correlation of two blocks |", "|---|---|---|---|---|"]
    for sight in sights():
        correlation = "" if sight.correlation is None else f"{sight.correlation:.2f}"
        lines.append(f"| {sight.check} | {sight.size} | {sight.shift:.2f} | {sight.narrow:.0%} | {correlation} |")
    return "\n".join(lines)
