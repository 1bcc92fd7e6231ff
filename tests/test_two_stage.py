"""The two-stage rule of statistical tests: what it lets pass, what it fails, and its statistics against naive ones."""

import numpy as np
import pytest
import two_stage
from scipy import stats
from two_stage import (
    FALSE_ALARM,
    LIMIT,
    assert_standard_normal,
    beyond,
    in_blocks,
    of_batch_means,
    of_counts,
    of_distribution,
    of_frequencies,
    of_largest,
    of_means,
    of_p_value,
    of_student,
)


@pytest.fixture
def stages(monkeypatch):
    """Runs the rule on what each stage finds, and tells how it was called; these statistics are not the session's."""
    monkeypatch.setattr(two_stage, "counted", 0)
    called = []

    def run(*found):
        def deviations(seed, times):
            called.append((seed, times))
            return found[len(called) - 1]

        assert_standard_normal(deviations, seed=5)
        return called

    return run


def test_nothing_beyond_is_one_stage(stages):
    assert stages([LIMIT, -LIMIT, 0.0]) == [(5, 1)]
    assert two_stage.counted == 3


def test_beyond_once_is_chance(stages):
    """The second stage is four times as large, from a seed that is new; a statistic counts once."""
    (_, first), (seed, times) = stages([1.0, 3.6], [1.0, 3.4])
    assert (first, times) == (1, 4)
    assert seed != 5
    assert two_stage.counted == 2


@pytest.mark.parametrize("again", [3.6, -3.6, np.inf, np.nan])
def test_beyond_twice_is_a_fault(stages, again):
    with pytest.raises(AssertionError, match=r"beyond 3.5 twice: statistic \(1,\) 4.0"):
        stages([1.0, -4.0], [1.0, again])


def test_another_one_in_the_second_stage_is_chance(stages):
    assert len(stages([1.0, 3.6], [9.0, 0.1])) == 2


def test_a_bias_grows(monkeypatch):
    """Of 3.6 standard errors in the first stage, 7.2 in the second."""
    monkeypatch.setattr(two_stage, "counted", 0)
    seen = []

    def deviations(seed, times):
        rng = np.random.default_rng(seed)
        draws = rng.normal(size=100 * times)
        seen.append(of_means(draws - draws.mean() + 0.385, 0.0))
        return seen[-1]

    with pytest.raises(AssertionError, match="twice"):
        assert_standard_normal(deviations)
    assert seen[1] > 1.8 * seen[0] > 1.8 * LIMIT


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_fails_at_once(stages, value):
    with pytest.raises(AssertionError, match="not finite"):
        stages([0.0, value])


def test_stages_have_the_same_statistics(stages):
    with pytest.raises(AssertionError):
        stages([4.0, 0.0], [0.0])


def test_of_the_truth_few_are_beyond(monkeypatch):
    """Of 100,000 statistics some 47 are beyond once, and the rate of two is its square: a count by the binomial law."""
    monkeypatch.setattr(two_stage, "counted", 0)
    assert_standard_normal(lambda seed, times: np.random.default_rng(seed).normal(size=1000))
    assert two_stage.counted == 1000
    monkeypatch.setattr(two_stage, "counted", 0)

    def deviations(seed, times):
        number = 100_000 * times
        once = (np.abs(np.random.default_rng(seed).normal(size=number)) > LIMIT).sum()
        return of_counts(once, number, np.sqrt(FALSE_ALARM))

    assert_standard_normal(deviations)


def test_blocks_have_their_own_seeds():
    found = in_blocks(lambda seed: {"a": np.full((2, 3), seed)}, 7, 4)["a"]
    assert found.shape == (8, 3)
    assert len(set(found[:, 0])) == 4
    assert found[0, 0] == 7


def test_deviations_are_as_rare_as_p_values():
    for z in (0.0, 0.5, 3.5, 30.0):
        assert of_p_value(2 * stats.norm.sf(z)) == pytest.approx(z, abs=1e-9)
    assert np.isfinite(of_p_value(0.0))
    assert np.isnan(of_p_value(np.nan))
    assert of_student([-2.0, 300.0], [1e9, 1.0]) == pytest.approx([2.0, stats.norm.isf(np.arctan(1 / 300.0) / np.pi)], rel=1e-6)


def test_batch_means_are_those_of_a_loop():
    """A chain of 83 draws of two numbers in 8 batches, three draws left over: Student's t at 7 degrees of freedom."""
    chain, wanted, error = np.random.default_rng(0).normal(size=(83, 2)).cumsum(0), [1.0, -2.0], [0.3, 0.0]
    for place in range(2):
        means = [np.mean([chain[10 * batch + step, place] for step in range(10)]) for batch in range(8)]
        spread = np.sqrt(sum((mean - np.mean(means)) ** 2 for mean in means) / 7 / 8 + error[place] ** 2)
        t = abs(np.mean(means) - wanted[place]) / spread
        naive = stats.norm.isf(stats.t(7).sf(t))
        assert of_batch_means(chain, wanted, error, batches=8)[place] == pytest.approx(naive, rel=1e-9)


def test_means_are_students_test():
    draws = np.random.default_rng(0).normal(0.4, 2.0, 30)
    assert of_means(draws, 0.0) == pytest.approx(of_p_value(stats.ttest_1samp(draws, 0.0).pvalue), rel=1e-9)
    assert of_means(np.ones(5), 1.0) == 0
    assert of_means(np.ones(5), 1.1) > LIMIT


def test_counts_are_binomial():
    """By sums over the law; below any power of 10 there is only what can never be."""
    law = [stats.binom(9, 0.3).pmf(k) for k in range(10)]
    for count in range(10):
        p = min(1.0, 2 * min(sum(law[: count + 1]), sum(law[count:])))
        assert of_counts(count, 9, 0.3) == pytest.approx(of_p_value(p), rel=1e-9)
    assert list(of_counts([0, 5], 5, [0.0, 1.0])) == [0, 0]
    assert list(of_counts([1, 4], 5, [0.0, 1.0])) == [np.inf, np.inf]


def test_frequencies_are_pearsons():
    """SciPy's χ² with rare values together, and those with the next where they stay rare; what is impossible has no part."""
    counts, probs = np.array([30, 50, 9, 1, 1, 0]), np.array([0.3, 0.5, 0.15, 0.03, 0.02, 0.0])
    wanted = stats.chisquare([30, 50, 11], 91 * np.array([0.3, 0.5, 0.2])).pvalue
    assert of_frequencies(counts, probs) == pytest.approx(of_p_value(wanted), rel=1e-9)
    assert of_frequencies([30, 0, 1], [0.5, 0.5, 0.0]) == np.inf
    assert of_frequencies([30, 0, 0], [1.0, 0.0, 0.0]) == 0
    assert of_frequencies([300, 100], [0.5, 0.5]) > LIMIT


def test_distributions_are_compared():
    draws = np.random.default_rng(0).normal(size=3000)
    assert of_distribution(draws, stats.norm.cdf) < LIMIT < of_distribution(draws + 0.2, stats.norm.cdf)
    assert of_distribution(draws[:1500], draws[1500:]) < LIMIT < of_distribution(draws[:1500], 1.3 * draws[1500:])


def test_the_largest_of_many():
    assert of_largest([0.0, -4.0]) == pytest.approx(of_p_value(4 * stats.norm.sf(4.0)))
    assert of_largest(np.full(1500, 0.5)) == 0
    assert np.isnan(of_largest([np.nan, 1.0]))
    assert list(beyond([-3.0, 0.5, 2.0], 1.0)) == [-2.0, 0.0, 1.0]
