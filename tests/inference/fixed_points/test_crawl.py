"""EM that crawls: its rate from the gains of its last iterations, what it says then, and Heywood cases by size and by trend."""

import numpy as np
import pytest
from naive import SHORT, build, table, two_groups

from inference import fit
from inference.convergence.forecast import forecast
from models import MODELS, load_data
from models.base import Iteration
from models.factors.summaries import heywood


def rising(gains: np.ndarray) -> np.ndarray:
    return np.append(0.0, np.cumsum(gains))[None, :]


def test_forecast_of_equal_factors_is_exact():
    """Gains 0.9^t: the least one below 1e-9 is at t = ⌈log 1e-9 / log 0.9⌉, and the rest of the series is what is left."""
    found = forecast(rising(0.9 ** np.arange(60)), lambda risen: 1e-9)
    assert found.rate[0] == pytest.approx(0.9, rel=1e-9)
    assert found.iterations_left[0] == np.ceil(np.log(1e-9) / np.log(0.9)) - 59
    assert found.gain_left[0] == pytest.approx((0.9 ** np.arange(60, 2000)).sum(), rel=1e-6)


def test_forecast_of_a_slowing_series_is_a_bound():
    """Gains 1 / t²: as many iterations again are not enough, and the forecast says at least so."""
    steps = np.arange(1, 301)
    found = forecast(rising(1.0 / steps**2), lambda risen: 1e-9)
    assert 300 < found.iterations_left[0] < np.sqrt(1e9) - 300
    assert found.gain_left[0] < 1 / 300


def test_what_cannot_be_told_is_nan():
    """Too few gains, gains that are rounding; and a start that has stopped has fewer entries than others."""
    flat = np.concatenate([rising(0.5 ** np.arange(10))[0], np.full(90, 2.0)])
    short = np.append([0.0, 1.0, 1.5], np.full(98, np.nan))
    assert np.isnan(forecast(np.stack([flat, short]), lambda risen: 1e-9)).all()
    assert forecast(rising(np.ones(20)), lambda risen: 1e-9).iterations_left[0] == np.inf


@pytest.mark.slow
def test_more_iterations_are_advised_where_they_help():
    """Overlapping groups: after 30 iterations the message says how many more, and with them EM converges."""
    x = two_groups(40, gap=2.0)
    options = {**SHORT["em"], "seed": 0}
    stopped = fit(build(x, "diag"), table(x), "em", max_iter=30, **options)
    left = float(stopped["optimization"]["iterations_left"][stopped.attrs["best_start"]])
    assert stopped.attrs["exit_status"] == 3
    whole = fit(build(x, "diag"), table(x), "em", **options)
    needed = int(whole["optimization"]["iterations"][whole.attrs["best_start"]]) - 30
    assert (": raise max_iter (about" in stopped.attrs["problems"]) == (left <= 30)
    assert needed / 2 < left < 2 * needed


def three_columns() -> np.ndarray:
    """Rows with correlations 0.9, 0.9, 0.7: one factor explains the first column by 0.9 · 0.9 / 0.7 > 1, a Heywood case."""
    wanted = np.array([[1, 0.9, 0.9], [0.9, 1, 0.7], [0.9, 0.7, 1]])
    x = np.random.default_rng(0).normal(size=(60, 3))
    x -= x.mean(0)
    return x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / 60)).T @ np.linalg.cholesky(wanted).T


@pytest.mark.slow
def test_a_crawl_to_a_heywood_case_is_said():
    """The noise of the first column falls like 1 / t: seen by its trend, then by its size; more iterations are not advised."""
    data = load_data(three_columns())
    model = MODELS["factor_analysis"](data, num_factors=1, prior="flat")
    early = fit(model, data, "em", num_starts=1, max_iter=20, tol=0)
    late = fit(model, data, "em", num_starts=1, max_iter=2000, tol=0)
    share = [float(1 - tree["functionals"]["communality"][0]) for tree in (early, late)]
    assert 0.005 < share[0] < 0.05
    assert "the noise of x0 is below 0.05" in early.attrs["warnings"]
    assert share[1] < 0.005
    assert "the factors explain x0 without noise" in late.attrs["warnings"]
    assert "raising max_iter would not help soon" in late.attrs["problems"]
    assert "Heywood" not in fit(MODELS["factor_analysis"](data, num_factors=1), data, "em", num_starts=1).attrs["warnings"]


def test_heywood_cases_by_size_and_by_trend():
    """Shares of noise below 0.005 are named; those below 0.05 where they still fall; others are not."""

    def lines(share: float, fall: float) -> list[str]:
        def sites(noise: float) -> dict[str, np.ndarray]:
            return {"loading": np.array([[np.sqrt(1 - share)], [0.5]]), "precision": np.array([1 / noise, 1.0])}

        return heywood(("a", "b"), sites(share), Iteration(sites(share / (1 - fall)), sites(share)))

    assert "explain a without noise" in lines(0.0049, 0.0)[0]
    assert "noise of a is below" in lines(0.02, 1e-4)[0]
    assert [lines(0.0051, 0.0), lines(0.02, 1e-7), lines(0.06, 1e-2)] == [[], [], []]
