"""Spot the bug: ten functions with a slip or two each, most of them from printed lecture notes."""

import math
from functools import cache
from inspect import getsource
from typing import Any

import numpy as np

from labs.parts import chains
from labs.parts.bugs import SLIPS
from labs.parts.lab import Case, Lab, Mistake, made_once, slipped
from labs.parts.naive import factor_scores
from labs.parts.values import Values
from labs.solutions import spot_the_bug as key


@cache
def _broken() -> dict[str, Any]:
    """The functions of the student's file by name."""
    found: dict[str, Any] = {}
    exec(compile(slipped(getsource(key), SLIPS), "spot_the_bug.py", "exec"), found)
    return found


STORY = """\
Formulas in notes have slips: a ½ too few, an index one off, a prior that is forgotten. The code runs, the numbers
look like numbers, and nobody notices. Each of the ten functions in this file has one or two such bugs. The docstrings
are right. Find the bugs and repair them: but before you look for one, ask what must be *true* of a right answer, and
test that. A probability is below 1. Shifting the data shifts a mean and leaves a variance. Counts of T − 1 steps sum
to T − 1.
"""
MATHS = """\
Nothing beyond the other labs. Laws that find bugs: what sums to 1, what cannot change when the data are shifted,
scaled or reordered, what must hold for one observation, or for no observations, and brute force: on a tiny case you can
add up all paths, or look for a maximum on a grid. Some bugs hide behind innocent data: try values far from 0, and more
than one of everything.
"""


# ---------------------------------------------------------------------------------------------------------------------
# Naive oracles: brute force


def smoothed_probability(present: Any, absent: Any, a: Any, b: Any) -> Any:
    """Where the slope of the log density changes its sign, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        slope = (present + a - 1) / middle - (absent + b - 1) / (1 - middle)
        low, high = (middle, high) if slope > 0 else (low, middle)
    return low


def spam_probability(x: Any, spam_share: Any, p_spam: Any, p_ham: Any) -> Any:
    """By logarithms, word by word."""
    odds = math.log(spam_share / (1 - spam_share))
    for one, spam, ham in zip(x, p_spam, p_ham, strict=True):
        odds += math.log(spam / ham) if one else math.log((1 - spam) / (1 - ham))
    return 1 / (1 + math.exp(-odds))


def class_log_density(x: Any, mean: Any, covariance: Any) -> Any:
    """By SciPy's density."""
    from scipy.stats import multivariate_normal

    return multivariate_normal(mean, covariance).logpdf(x) + 0.5 * len(x) * math.log(2 * math.pi)


def log_odds_intercept(mean_0: Any, mean_1: Any, covariance: Any, share_1: Any) -> Any:
    """The log odds at x = 0."""
    origin = np.zeros(len(mean_0))
    densities = [class_log_density(origin, mean, covariance) for mean in (mean_0, mean_1)]
    return densities[1] - densities[0] + math.log(share_1 / (1 - share_1))


def map_variance(x: Any, a: Any, b: Any) -> Any:
    """Where the slope in λ changes its sign, by bisection over log λ."""
    scatter = sum((value - sum(x) / len(x)) ** 2 for value in x)
    low, high = -30.0, 30.0
    for _ in range(100):
        middle = (low + high) / 2
        slope = (len(x) / 2 + 0.5 + a - 1) / math.exp(middle) - 0.5 * scatter - b
        low, high = (middle, high) if slope > 0 else (low, middle)
    return math.exp(-low)


def group_means(x: Any, r: Any) -> Any:
    """Group by group."""
    known = [n for n in range(len(x)) if not math.isnan(x[n])]
    return np.array([sum(r[n, k] * x[n] for n in known) / sum(r[n, k] for n in known) for k in range(r.shape[1])])


def forward(x: Any, start: Any, step: Any, emit: Any) -> Any:
    """Over all paths."""
    return np.exp(chains.forward(x, start, step, emit))


def transition_counts(x: Any, alpha: Any, beta: Any, step: Any, emit: Any) -> Any:
    """Step by step."""
    return chains.transition_counts(x, np.log(alpha), np.log(beta), step, emit)


# ---------------------------------------------------------------------------------------------------------------------
# Cases


def _beta(rng: np.random.Generator) -> list[Case]:
    return [
        Case("some of each", {"present": 3, "absent": 5, "a": 2.5, "b": 1.7}),
        Case("always present", {"present": 4, "absent": 0, "a": 2.0, "b": 2.0}),
    ]


def _spam(rng: np.random.Generator) -> list[Case]:
    """Words that are there, and words that are not."""
    p_spam, p_ham = rng.uniform(0.2, 0.8, (2, 4))
    x = rng.permutation(np.array([0, 0, 1, 1]))
    return [Case("four words, two of them absent", {"x": x, "spam_share": 0.3, "p_spam": p_spam, "p_ham": p_ham})]


def _gaussians(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    root = rng.normal(size=(3, 3))
    return rng.normal(size=(3, 3)), root @ root.T + np.eye(3)


def _density(rng: np.random.Generator) -> list[Case]:
    points, covariance = _gaussians(rng)
    return [Case("three columns", {"x": points[0], "mean": points[1], "covariance": covariance})]


def _intercept(rng: np.random.Generator) -> list[Case]:
    points, covariance = _gaussians(rng)
    return [Case("three columns", {"mean_0": points[0], "mean_1": points[1], "covariance": covariance, "share_1": 0.7})]


def _variance(rng: np.random.Generator) -> list[Case]:
    x = rng.normal(size=12)
    return [Case(f"values near {centre}", {"x": x + centre, "a": 2.0, "b": 1.0}) for centre in (0, 100)]


def _means(rng: np.random.Generator) -> list[Case]:
    """The more a row belongs to the second group, the larger it is."""
    share = rng.uniform(0.05, 0.95, 20)
    x = 4 + 4 * share + 0.1 * rng.normal(size=20)
    holed = np.where(np.arange(20) < 8, np.nan, x)
    return [Case("eight of twenty missing", {"x": holed, "r": np.stack([1 - share, share], axis=1)})]


def _forward(rng: np.random.Generator) -> list[Case]:
    model = chains.model(rng, 2, 4)
    return [Case("five symbols", {"x": rng.integers(4, size=5)} | {name: model[name] for name in ("start", "step", "emit")})]


def _counts(rng: np.random.Generator) -> list[Case]:
    x, (start, step, stop, emit) = rng.integers(4, size=5), chains.model(rng, 3, 4).values()
    alpha, beta = np.exp(chains.forward(x, start, step, emit)), np.exp(chains.backward(x, step, stop, emit))
    return [Case("five symbols", {"x": x, "alpha": alpha, "beta": beta, "step": step, "emit": emit})]


def _paths(rng: np.random.Generator) -> list[Case]:
    """Sequences on which each slip changes the path."""
    found: list[Case] = []
    broken = _broken()["viterbi"]
    while len(found) < 3:
        given = {"x": rng.integers(4, size=5)} | chains.model(rng, 3, 4)
        wrong = [broken(*given.values()), _half_repaired(True, *given.values()), _half_repaired(False, *given.values())]
        if len({tuple(path) for path in [chains.best_of_all(*given.values()), *wrong]}) == 4:
            found.append(Case(f"five symbols, {len(found) + 1}", given))
    return found


def _scores(rng: np.random.Generator) -> list[Case]:
    given = {"x": rng.normal(size=(6, 4)), "mean": rng.normal(size=4), "W": rng.normal(size=(4, 2)), "variance": 0.7}
    return [Case("two of four directions", given)]


def _half_repaired(first: bool, x: Any, start: Any, step: Any, stop: Any, emit: Any) -> Any:
    """Viterbi with the first emission and no end, or with the end alone."""
    if first:
        return _broken()["viterbi"](x, start * emit[:, x[0]], step, stop, emit)
    return chains.best_of_all(x, start / emit[:, x[0]], step, stop, emit)


def _still(name: str, where: str) -> Mistake:
    """The bug itself."""
    return Mistake(f"`{name}` still has its bug: {where}", lambda *given: _broken()[name](*given))


def _part(name: str, oracle: Any, cases: Any, where: str, *others: Mistake) -> Values:
    return Values(name, 2, cases, oracle, (_still(name, where), *others))


PARTS = (
    _part(
        "smoothed_probability",
        smoothed_probability,
        _beta,
        "what does it say of a word that was present every time?",
        Mistake(
            "`smoothed_probability` is now the posterior mean; its mode is asked for",
            lambda n, m, a, b: (n + a) / (n + m + a + b),
        ),
    ),
    _part(
        "spam_probability",
        spam_probability,
        _spam,
        "how often does the share of spam enter, for ten words?",
        Mistake(
            "`spam_probability` has no share of spam any more; it enters once",
            lambda x, share, *p: spam_probability(x, 0.5, *p),
        ),
        Mistake(
            "`spam_probability` leaves out the words that are absent: each has probability 1 − p",
            lambda x, share, *p: spam_probability(np.ones(x.sum()), share, *(each[x == 1] for each in p)),
        ),
    ),
    _part(
        "class_log_density",
        class_log_density,
        _density,
        "is the density largest at the mean?",
        Mistake(
            "`class_log_density` has the sign right now; the ½ of the quadratic form is missing",
            lambda x, m, c: 2 * class_log_density(x, m, c) + 0.5 * np.linalg.slogdet(c)[1],
        ),
        Mistake(
            "`class_log_density` has the ½ now; the quadratic form should be subtracted",
            lambda x, m, c: -class_log_density(x, m, c) - np.linalg.slogdet(c)[1],
        ),
        Mistake(
            "`class_log_density` has no determinant any more: −½ log |covariance| belongs to it",
            lambda x, m, c: class_log_density(x, m, c) + 0.5 * np.linalg.slogdet(c)[1],
        ),
    ),
    _part(
        "log_odds_intercept",
        log_odds_intercept,
        _intercept,
        "which class is it at a point in the middle between the means?",
        Mistake(
            "`log_odds_intercept` has the sign right now; the ½ of the quadratic forms is missing",
            lambda a, b, c, s: 2 * log_odds_intercept(a, b, c, 0.5) + math.log(s / (1 - s)),
        ),
        Mistake(
            "`log_odds_intercept` has no shares of the classes any more: their log odds belong to it",
            lambda a, b, c, s: log_odds_intercept(a, b, c, 0.5),
        ),
    ),
    _part(
        "map_variance",
        map_variance,
        _variance,
        "shift all x by 100, and look at the variance",
        Mistake(
            "`map_variance` has 2b now; ⟨x²⟩ and ⟨x⟩² still have different weights: shift all x by 100",
            lambda x, a, b: (2 * b + (x**2).sum()) / (2 * a - 1 + len(x)) - x.mean() ** 2,
        ),
        Mistake(
            "`map_variance` does not change when x is shifted; but is it b or 2b?", lambda x, a, b: map_variance(x, a, b / 2)
        ),
    ),
    _part(
        "group_means",
        group_means,
        _means,
        "x near 5, half of it missing: is a mean near 2.5 plausible?",
        Mistake(
            "`group_means` fills the holes with the mean of x: leave them out of both sums",
            lambda x, r: r.T @ np.where(np.isnan(x), np.nanmean(x), x) / r.sum(0),
        ),
    ),
    _part(
        "forward",
        forward,
        _forward,
        "which symbol does the last row see?",
        Mistake(
            "`forward` steps backwards now: step[i, j] has the old state first",
            lambda x, start, step, emit: forward(x, start, step.T, emit),
        ),
    ),
    _part("transition_counts", transition_counts, _counts, "do the counts of T symbols sum to T − 1?"),
    _part(
        "viterbi",
        chains.best_of_all,
        _paths,
        "change the first symbol of x: does the path know of it? And of stop?",
        Mistake("`viterbi` sees the first symbol now; but it does not stop", lambda *given: _half_repaired(True, *given)),
        Mistake("`viterbi` stops now; but it does not see the first symbol", lambda *given: _half_repaired(False, *given)),
    ),
    _part("explained_scores", factor_scores, _scores, "with very much noise, what do you know of z?"),
)


@made_once
def data() -> dict[str, np.ndarray]:
    """Twelve numbers near 0, and the same near 100: for `map_variance`."""
    x = np.random.default_rng(0).normal(size=12)
    return {"near_0": x, "near_100": x + 100}


LAB = Lab("spot_the_bug", "Spot the bug", 60, STORY, MATHS, PARTS, data, slips=SLIPS)
