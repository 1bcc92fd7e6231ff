"""Calibration: ranks of right draws are uniform; draws that are too narrow, or off to a side, are found."""

import numpy as np
import pytest
from two_stage import assert_standard_normal

from inference.certificates.checks import calibration
from inference.certificates.checks.calibration import (
    DRAWS,
    DrawsOf,
    Replicated,
    _share,
    _shift,
    _size,
    _worst,
    bias_check,
    calibration_check,
    rank_deviations,
    replicated_of,
)
from inference.certificates.checks.figure import MOST, NEEDED
from inference.certificates.oracles import oracle_of
from inference.engine.task import Draws, Kind

REPLICATES = 400


def normal(seed, width=1.0, shift=0.0, number=REPLICATES):
    """True values, and draws of a Normal posterior that is made ``width`` times as wide and moved."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=number)
    true = centre + rng.normal(size=number)
    drawn = centre[:, None] + shift + width * rng.normal(size=(number, DRAWS))
    return {"x": replicated_of(true, drawn, rng)}


def test_ranks_of_right_draws_are_uniform():
    assert_standard_normal(lambda seed, times: list(rank_deviations(normal(seed, number=REPLICATES * times)).values()))


def test_ties_are_ranked_at_random():
    """A statistic with two values: its ranks are uniform, too."""

    def deviations(seed, times):
        rng = np.random.default_rng(seed)
        coins = rng.integers(0, 2, (REPLICATES * times, DRAWS + 1)).astype(float)
        return list(rank_deviations({"coin": replicated_of(coins[:, 0], coins[:, 1:], rng)}).values())

    assert_standard_normal(deviations)


def test_narrow_and_shifted_draws_are_told_apart():
    narrow, aside = rank_deviations(normal(0, width=0.6)), rank_deviations(normal(0, shift=0.5))
    assert narrow["x, spread"] > 2 * MOST > 2 * abs(narrow["x"])
    assert aside["x"] < -2 * MOST
    assert rank_deviations(normal(0, width=1.7))["x, spread"] < -2 * MOST


def test_draws_that_are_no_numbers_have_no_rank():
    drawn = np.zeros((2, DRAWS))
    drawn[1, 5] = np.nan
    found = replicated_of(np.zeros(2), drawn, np.random.default_rng(0))
    assert np.isnan(found.rank).tolist() == [False, True]


def test_draws_that_are_all_the_true_value_are_not_off():
    """As a product with a share that is 0 in the table; all draws at another value are infinitely far off."""
    rng = np.random.default_rng(0)
    drawn = np.concatenate([np.zeros((1, DRAWS)), rng.normal(size=(1, DRAWS))])
    assert np.isfinite(_shift(replicated_of(np.zeros(2), drawn, rng)))
    assert _shift(replicated_of(np.ones(2), np.zeros((2, DRAWS)), rng)) == -np.inf


@pytest.mark.parametrize("width", [0.5, 1.0, 2.0])
def test_the_spread_that_draws_need_is_that_of_the_posterior(width):
    """Errors of the mean have the spread of the posterior: 1 / width standard deviations of the draws, wherever they lie."""
    found = normal(1, width=width, shift=0.5, number=20_000)["x"]
    assert _size(found) == pytest.approx(np.hypot(1 / width, 1 / np.sqrt(DRAWS)), rel=0.03)  # standard error 0.008


def test_the_spread_of_draws_without_any_is_not_enough():
    assert _size(replicated_of(np.array([1.0, -1.0, 2.0]), np.zeros((3, DRAWS)), np.random.default_rng(0))) == np.inf


def test_the_worst_of_right_statistics_is_not_said_to_be_worse():
    """Of twenty exact statistics the least share of 90 % intervals is 87 %; the other half of the replicates says 90 %."""
    rng = np.random.default_rng(0)
    chosen, least = [], []
    for _ in range(200):
        ranks = rng.uniform(size=(20, 300))
        found = {str(number): Replicated(rank, rank, rank, rank, rank) for number, rank in enumerate(ranks)}
        chosen.append(-_worst(found, lambda each: -_share(each.rank))[1])
        least.append(min(_share(rank) for rank in ranks))
    assert np.mean(chosen) == pytest.approx(0.9, abs=5 * np.sqrt(0.9 * 0.1 / 150 / 200))
    assert np.mean(least) < 0.88


class Normal:
    """Draws of the posterior of `gmm_simple` of no rows, which is the prior; wrong where it is narrower."""

    def __init__(self, width):
        self.width, self.rng = width, np.random.default_rng(0)

    def __call__(self, task):
        return Draws(Kind.INDEPENDENT, {"mean": self.width * self.rng.normal(size=(1, DRAWS, 2, 2))}, {}, {})


def without_rows():
    """The oracle of `gmm_simple` with what the rows do not enter: parameters alone."""
    return oracle_of("gmm_simple")._replace(
        functions=lambda sites, tables: {"distance": np.linalg.norm(sites["mean"][:, 0] - sites["mean"][:, 1], axis=-1)},
        log_likelihood=lambda sites, tables: sites["mean"].sum((1, 2)),
    )


@pytest.mark.slow
def test_a_bias_is_measured():
    """Draws half as wide: a 90 % interval of a Normal then holds P(|z| < 0.82) = 59 %, here of the sum of the means."""
    right, narrow = (bias_check(DrawsOf(Normal(width)), without_rows(), 0, 1_000) for width in (1.0, 0.5))
    shares = [
        {f.name: f.value for f in check.figures}["share of log likelihood in its 90% interval"] for check in (right, narrow)
    ]
    assert shares[0] == pytest.approx(0.9, abs=5 * np.sqrt(0.9 * 0.1 / 1_000))
    assert shares[1] == pytest.approx(0.59, abs=5 * np.sqrt(0.59 * 0.41 / 1_000) + 0.02)  # quantiles of 99 draws
    assert right.passed
    assert [f.passed for f in right.figures if f.unit == NEEDED] == [True]
    assert calibration_check(DrawsOf(Normal(1.0)), without_rows(), 0, 200).passed
    assert not calibration_check(DrawsOf(Normal(0.5)), without_rows(), 0, 200).passed


def test_a_measure_that_would_not_see_narrow_draws_fails(monkeypatch):
    """Draws that are ten times too wide: with half their spread they still hold every true value."""
    found = normal(0, width=10.0)
    monkeypatch.setattr(calibration, "calibrated", lambda *_: found)
    check = bias_check(DrawsOf(Normal(1.0)), oracle_of("gmm_simple"), 0, REPLICATES)
    assert [figure.unit for figure in check.figures if not figure.passed] == [NEEDED]
    assert not check.passed


def test_draws_that_are_too_narrow_as_they_are_do_not_stand_for_halved_ones(monkeypatch):
    """Where halving does nothing, intervals that hold too little from the beginning show nothing."""
    found = {name: each._replace(narrow_rank=each.rank) for name, each in normal(0, width=0.5).items()}
    monkeypatch.setattr(calibration, "calibrated", lambda *_: found)
    check = bias_check(DrawsOf(Normal(1.0)), oracle_of("gmm_simple"), 0, REPLICATES)
    assert [figure.unit for figure in check.figures if not figure.passed] == [NEEDED]
