"""The smallest errors that checks see: by their definition without an error, and by simulation."""

import numpy as np
import pytest
from scipy import stats

from inference.certificates.checks.figure import MOST, TIMES
from inference.certificates.checks.kernel_law import deviations
from inference.certificates.command import certify_main
from inference.certificates.sensitivity import SEEN, law, needed, of_pairs, of_products, of_ranks, table

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
    """Of 300 simulated laws of 500 pairs, both looks: a share of 0.9 has a standard error of 0.017."""
    pairs, rng, size = 500, np.random.default_rng(0), getattr(law(500), error)

    def deviation(number):
        x, y, other, more = rng.normal(size=(4, number))
        if error == "shift":
            return deviations({"x": x}, {"x": other + size})["x"]
        if error == "narrow":
            return -deviations({"x": x}, {"x": (1 - size) * other})["x, spread"]
        return deviations({"x": x * y}, {"x": other * (size * other + np.sqrt(1 - size**2) * more)})["x"]

    seen = np.mean([deviation(pairs) > MOST and deviation(TIMES * pairs) > MOST for _ in range(300)])
    assert seen == pytest.approx(SEEN, abs=5 * np.sqrt(SEEN * (1 - SEEN) / 300))


@pytest.mark.slow
def test_the_page_has_the_table_that_the_command_prints(capsys, pytestconfig):
    assert certify_main(["sensitivity"]) == 0
    assert capsys.readouterr().out.strip() == table()
    assert table() in (pytestconfig.rootpath / DOCS).read_text(encoding="utf-8")
