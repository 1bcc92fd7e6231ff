"""Ranks of paired samples: standard normal where laws are equal, far off where they are not; the two-stage rule."""

import numpy as np
import pytest
from scipy import stats
from two_stage import assert_standard_normal, of_p_value

from inference.certificates.checks.figure import FALSE_ALARM, MOST, POWER, TIMES, large_stage, two_stages
from inference.certificates.laws.kernel_law import deviations, paired, pooled_ranks

PAIRS, REPEATS = 400, 500


def dependent(rng, number):
    """Pairs of the same law that depend on each other: x, and a step of an autoregression from it."""
    before = rng.normal(size=number)
    return before, 0.8 * before + 0.6 * rng.normal(size=number)


@pytest.mark.parametrize("place", ["location", "spread"])
def test_deviations_of_equal_laws_are_standard_normal(place):
    """Of 500 pairs of dependent samples, in location and in spread, by Kolmogorov and Smirnov."""

    def found(seed, times):
        rng = np.random.default_rng(seed)
        values = []
        for _ in range(REPEATS * times):
            before, after = dependent(rng, PAIRS)
            values.append(list(deviations({"x": before}, {"x": after}).values())[place == "spread"])
        return of_p_value(stats.kstest(values, "norm").pvalue)

    assert_standard_normal(found)


def test_a_shift_and_a_wider_law_are_told_apart():
    """A shift moves the location, a wider law the spread, each by its sign."""
    rng = np.random.default_rng(0)
    before, after = dependent(rng, 4_000)
    shifted = deviations({"x": before}, {"x": after + 0.2})
    wider = deviations({"x": before}, {"x": 1.2 * after})
    assert shifted["x"] > 2 * MOST > 2 * abs(shifted["x, spread"])
    assert wider["x, spread"] > 2 * MOST > 2 * abs(wider["x"])
    assert deviations({"x": before}, {"x": after - 0.2})["x"] < -2 * MOST


def test_ranks_are_those_of_all_values_and_ties_share_one():
    one, other = pooled_ranks(np.array([3.0, 1.0]), np.array([1.0, 7.0]))
    assert one.tolist() == [2.5 / 4, 1 / 4]
    assert other.tolist() == [1 / 4, 3.5 / 4]


def test_nothing_deviates_where_nothing_differs():
    assert paired(np.ones(5), np.ones(5)) == 0


def test_a_constant_difference_is_infinitely_far_off():
    """A power of two of pairs, so that no rounding makes an error of it."""
    before = np.arange(2048.0)
    assert deviations({"x": before}, {"x": before + 10_000})["x"] == np.inf
    assert deviations({"x": before}, {"x": before - 10_000})["x"] == -np.inf


@pytest.mark.parametrize(
    ("first", "again", "passed"),
    [
        (3.4, None, True),
        (3.6, 3.4, True),
        (3.6, -6.9, True),
        (3.6, -7.1, False),
        (3.6, -np.inf, False),
        (3.6, 3.6, False),
        (-3.6, -3.6, False),
        (np.nan, np.nan, False),
    ],
)
def test_a_figure_fails_if_it_is_off_twice_with_one_sign_or_far_off(first, again, passed):
    """A second look is made of what was off, with another seed at four times the size."""
    calls = []

    def run(seed, times):
        calls.append((seed, times))
        return {"a": first, "b": 0.1} if times == 1 else {"a": again, "b": 9.0}

    a, b = two_stages(run, 7)
    assert (a.passed, b.passed, b.again) == (passed, True, None)
    assert [times for _, times in calls] == ([1] if again is None else [1, TIMES])
    assert len({seed for seed, _ in calls}) == len(calls)


def test_the_probability_of_a_false_alarm_is_that_of_two_tails_with_one_sign():
    tail = stats.norm.sf(MOST)
    assert pytest.approx(2 * tail * tail, rel=1e-12) == FALSE_ALARM


def test_a_mutant_that_is_rejected_is_seen_by_the_first_look_with_a_probability_of_084():
    """A deviation grows with the root of the size."""
    assert stats.norm.sf(MOST - POWER / np.sqrt(TIMES)) == pytest.approx(0.841, abs=1e-3)


def test_a_mutant_is_run_once_at_the_size_of_the_second_stage():
    (figure,) = large_stage(lambda seed, times: {"a": float(times)}, 0)
    assert (figure.value, figure.passed) == (TIMES, False)
