"""The rule of every statistical test: a large deviation fails the test only if it comes back with fresh randomness.

A statistic that is standard normal where the code is right exceeds 3.5 with probability 4.7e-4. The test then runs again with
a fresh seed at four times the size, and fails only if that same statistic is beyond 3.5 again: a false alarm of 2.2e-7 a
statistic, so that 4,600 statistics make 1e-3. `FALSE_ALARM` and the number of statistics of a session are printed at its end.
A true fault grows twofold between the stages, because the size does fourfold. What can never be (a count of what has
probability 0) is an assertion of its own, or a statistic that is not finite: these fail at once.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

LIMIT = 3.5
TIMES = 4  # the size of the second stage
FALSE_ALARM = float((2 * stats.norm.sf(LIMIT)) ** 2)  # of one statistic
counted = 0  # statistics that this process has looked at


def assert_standard_normal(deviations: Callable[[int, int], ArrayLike], seed: int = 0) -> None:
    """``deviations(seed, times)`` returns statistics, always as many: from as few draws as will do, ``times`` over."""
    global counted
    first = np.abs(np.atleast_1d(np.asarray(deviations(seed, 1), dtype=float)))
    assert np.isfinite(first).all(), f"statistics that are not finite: {first}"
    counted += first.size
    suspect = first > LIMIT
    if suspect.any():
        again = np.abs(np.atleast_1d(np.asarray(deviations(seed + 1_000_003, TIMES), dtype=float)))
        assert again.shape == first.shape
        twice = np.argwhere(suspect & ~(again <= LIMIT))
        assert not len(twice), f"beyond {LIMIT} twice: " + ", ".join(
            f"statistic {tuple(map(int, place))} {first[tuple(place)]:.1f} and {again[tuple(place)]:.1f}" for place in twice[:5]
        )


def in_blocks(block: Callable[[int], Any], seed: int, times: int) -> Any:
    """``times`` blocks of draws one after the other, each of its own seed: the second stage runs the programs of the first."""
    blocks = [block(seed + 1_009 * place) for place in range(times)]
    return jax.tree.map(lambda *parts: np.concatenate(parts), *blocks)


def of_p_value(p: ArrayLike) -> np.ndarray:
    """The absolute standard normal deviation that is as rare as a p-value, as of a χ² test."""
    return stats.norm.isf(np.maximum(np.asarray(p, dtype=float), 1e-300) / 2)


def of_student(t: ArrayLike, dof: ArrayLike) -> np.ndarray:
    """The absolute standard normal deviation that is as rare as Student's t, where the error itself was estimated."""
    return of_p_value(2 * stats.t.sf(np.abs(np.asarray(t, dtype=float)), dof))


def of_means(draws: ArrayLike, wanted: ArrayLike, error: ArrayLike = 0.0) -> np.ndarray:
    """How far means of independent draws (draws, …) are from ``wanted``, whose own standard error is ``error``."""
    draws = np.asarray(draws, dtype=float)
    spread = np.sqrt(draws.var(0, ddof=1) / len(draws) + np.asarray(error) ** 2) + 1e-12
    return of_student((draws.mean(0) - np.asarray(wanted)) / spread, len(draws) - 1)


def batch_error(chain: ArrayLike, batches: int = 40) -> np.ndarray:
    """Standard errors of means of a chain (draws, …), as one vector: by batch means."""
    return _batch_means(chain, batches).std(0, ddof=1) / np.sqrt(batches)


def of_batch_means(chain: ArrayLike, wanted: ArrayLike, error: ArrayLike = 0.0, batches: int = 40) -> np.ndarray:
    """How far means of a chain (draws, …) are from ``wanted``, whose own standard error is ``error``: by batch means."""
    return of_means(_batch_means(chain, batches), np.ravel(wanted), np.ravel(error))


def _batch_means(chain: ArrayLike, batches: int) -> np.ndarray:
    """(batches, values) of as many draws as fill them."""
    chain = np.asarray(chain, dtype=float)
    size = len(chain) // batches
    return chain[: size * batches].reshape(batches, size, -1).mean(1)


def of_distribution(draws: ArrayLike, reference: Any) -> np.ndarray:
    """Kolmogorov and Smirnov's test of draws against others, or against a distribution function."""
    return of_p_value((stats.kstest if callable(reference) else stats.ks_2samp)(np.asarray(draws), reference).pvalue)


def of_distributions(found: Mapping[str, ArrayLike], wanted: Mapping[str, ArrayLike]) -> list[np.ndarray]:
    """Kolmogorov and Smirnov's test of every function of draws."""
    return [of_distribution(found[name], wanted[name]) for name in wanted]


def of_frequencies(counts: ArrayLike, probs: ArrayLike, fewest: float = 10.0) -> np.ndarray:
    """χ² of counts (K,) against their probabilities, those that expect fewer than ``fewest`` together; ∞ for the impossible."""
    counts, probs = np.asarray(counts, dtype=float), np.asarray(probs, dtype=float)
    expected = counts.sum() * probs / probs.sum()
    if counts[expected == 0].any():
        return np.array(np.inf)
    order = np.argsort(expected)
    together = order[: max((np.cumsum(expected[order]) < fewest).sum() + 1, (expected < fewest).sum())]
    rest = np.setdiff1d(order, together)
    if not len(rest):
        return np.array(0.0)
    found, wanted = (np.append(part[rest], part[together].sum()) for part in (counts, expected))
    return of_p_value(stats.chi2(len(rest)).sf(((found - wanted) ** 2 / wanted).sum()))


def of_counts(counts: ArrayLike, number: ArrayLike, probs: ArrayLike) -> np.ndarray:
    """Every count of ``number`` trials against its probability, by the binomial law itself; ∞ for what can never be."""
    counts, number, probs = np.broadcast_arrays(counts, number, probs)
    law = stats.binom(number, probs)
    twice = 2 * np.minimum(law.cdf(counts), law.sf(np.asarray(counts) - 1))
    return np.where(twice > 0, of_p_value(np.minimum(twice, 1.0)), np.inf)


def of_largest(deviations: ArrayLike) -> np.ndarray:
    """One statistic of many, correlated or not: the largest deviation, as rare as it is among so many at most (Bonferroni)."""
    deviations = np.abs(np.asarray(deviations, dtype=float))
    return of_p_value(np.minimum(2 * stats.norm.sf(deviations.max()) * deviations.size, 1.0))


def beyond(gap: ArrayLike, bound: ArrayLike) -> np.ndarray:
    """What is left of a gap where an error of up to ``bound`` is allowed."""
    return np.sign(gap) * np.maximum(np.abs(gap) - np.asarray(bound), 0.0)
