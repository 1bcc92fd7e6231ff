"""The smallest errors that checks see: by their definition without an error, and by simulation."""

import numpy as np
import pytest
from scipy import stats

from inference.certificates.checks.figure import MOST, TIMES
from inference.certificates.checks.pipeline import ranks
from inference.certificates.command import certify_main
from inference.certificates.laws.kernel_law import deviations
from inference.certificates.sensitivity import (
    DISTANCE,
    SEEN,
    UNIFORM,
    law,
    needed,
    of_pairs,
    of_products,
    of_ranks,
    posterior,
    table,
    tables,
)

DOCS = "docs/certificates.md"


@pytest.mark.parametrize("draws", [4, 99])
def test_without_an_error_nothing_moves(draws):
    """Uniform ranks have a mean of ½ and a mean distance of ¼ from it, however few draws there are."""
    np.testing.assert_allclose(of_ranks(draws, 0.0, 1.0), (0.5, 0.25), atol=1e-6)
    np.testing.assert_allclose(of_pairs(0.0, 1.0), 0.0, atol=1e-12)
    assert of_products(0.0) == pytest.approx(0.0, abs=2e-3)  # of 400 quantiles each


def test_the_shift_of_pairs_is_that_of_the_closed_form():
    """Pooled ranks of N(0, 1) and N(δ, 1) differ by P(other > one) − ½ = Φ(δ / √2) − ½."""
    for shift in (0.1, 1.0):
        assert of_pairs(shift, 1.0)[0] == pytest.approx(stats.norm.cdf(shift / np.sqrt(2)) - 0.5, rel=1e-3)


def test_both_looks_see_what_is_needed_in_nine_of_ten_runs():
    looks = stats.norm.sf(MOST - needed()) * stats.norm.sf(MOST - np.sqrt(TIMES) * needed())
    assert looks == pytest.approx(SEEN)


@pytest.mark.slow
@pytest.mark.parametrize("error", ["shift", "narrow", "correlation"])
def test_simulated_checks_see_the_smallest_error_as_often_as_promised(error):
    """Laws of 500 pairs that are shifted, too narrow, or of two blocks that depend on each other."""
    pairs, rng, size = 500, np.random.default_rng(0), getattr(law(500), error)

    def deviation(number):
        x, y, other, more = rng.normal(size=(4, number))
        if error == "shift":
            return deviations({"x": x}, {"x": other + size})["x"]
        if error == "narrow":
            return -deviations({"x": x}, {"x": (1 - size) * other})["x, spread"]
        return deviations({"x": x * y}, {"x": other * (size * other + np.sqrt(1 - size**2) * more)})["x"]

    assert_seen_as_often_as_promised(deviation, pairs)


def assert_seen_as_often_as_promised(deviation, size):
    """Of 300 runs of both looks: a share of 0.9 has a standard error of 0.017."""
    seen = np.mean([deviation(size) > MOST and deviation(TIMES * size) > MOST for _ in range(300)])
    assert seen == pytest.approx(SEEN, abs=5 * np.sqrt(SEEN * (1 - SEEN) / 300))


@pytest.mark.slow
def test_a_kernel_that_forgets_half_must_be_further_off():
    """A statistic with mean 0 goes to ρ x + √(1 − ρ²) ε + (1 − ρ) δ, so that δ is how far its stationary law is off."""
    pairs, rng, rho = 500, np.random.default_rng(1), 0.5
    off = law(pairs).shift / np.sqrt(1 - rho)

    def deviation(number):
        x, noise = rng.normal(size=(2, number))
        return deviations({"x": x}, {"x": rho * x + np.sqrt(1 - rho**2) * noise + (1 - rho) * off})["x"]

    assert_seen_as_often_as_promised(deviation, pairs)


@pytest.mark.slow
@pytest.mark.parametrize(("error", "draws"), [("shift", 4), ("narrow", 4), ("shift", 99)])
def test_simulated_ranks_see_the_smallest_error_as_often_as_promised(error, draws):
    """Ranks of true values among draws that are shifted or too narrow, over 200 tables: pipeline and calibration."""
    number, rng = 200, np.random.default_rng(2)
    size = getattr(tables("pipeline", number, draws), error)

    def deviation(number):
        drawn = rng.normal(size=(number, draws)) * (1 - size * (error == "narrow")) - size * (error == "shift")
        rank = ranks(rng.normal(size=number), drawn, rng)
        compared, middle, spread = (rank, 0.5, UNIFORM) if error == "shift" else (np.abs(rank - 0.5), 0.25, DISTANCE)
        return (compared.mean() - middle) / (spread / np.sqrt(number))

    assert_seen_as_often_as_promised(deviation, number)


@pytest.mark.slow
def test_simulated_draws_of_a_table_see_the_smallest_shift_as_often_as_promised():
    """400 draws against 4,000 of the oracle, which are drawn once: at the second look they are as many."""
    number, reference, rng = 400, 4_000, np.random.default_rng(3)
    size = posterior(number, reference, "").shift

    def deviation(number):
        pool = np.sort(rng.normal(size=reference))
        rank = np.searchsorted(pool, rng.normal(size=number) + size) / reference
        return (rank.mean() - 0.5) / (UNIFORM * np.sqrt(1 / number + 1 / reference))

    seen = np.mean([deviation(number) > MOST and deviation(TIMES * number) > MOST for _ in range(300)])
    assert seen > SEEN - 5 * np.sqrt(SEEN * (1 - SEEN) / 300) - 0.05  # the second look has 1.7 and not 2 times the deviation


@pytest.mark.slow
def test_the_page_has_the_table_that_the_command_prints(capsys, pytestconfig):
    assert certify_main(["sensitivity"]) == 0
    assert capsys.readouterr().out.strip() == table()
    assert table() in (pytestconfig.rootpath / DOCS).read_text(encoding="utf-8")
