"""How often `check_draws` sees draws that are too narrow or shifted: the table of docs/samplers.md, and simulations of it."""

import re
from itertools import product

import numpy as np
import pytest
from scipy import stats

from inference.certificates.sensitivity import DISTANCE, NORMAL, UNIFORM, of_one_look
from inference.samplers.draws import FALSE_ALARM, SUMMARIES, _table

CHAINS, REFERENCE, QUANTITIES, TAIL = 4, 4 * 2_000, 11, 0.05
LIMIT = stats.norm.isf(FALSE_ALARM / 2 / (QUANTITIES * len(SUMMARIES)))
ERRORS = {"narrow by 5 %": (0.95, 0.0), "narrow by 10 %": (0.9, 0.0), "narrow by 20 %": (0.8, 0.0)}
ERRORS |= {"off by 0.1 sd": (1.0, 0.1), "off by 0.2 sd": (1.0, 0.2)}
SIZES = (150, 500, 2_000)
DOCS = "docs/samplers.md"


def deviations(scale, shift, draws):
    """The expected deviations of one wrong quantity with a Normal posterior, of so many independent draws in each chain."""
    rank = stats.norm.cdf(shift + scale * NORMAL)
    error = np.sqrt(1 / (CHAINS * draws) + 1 / REFERENCE)
    spread = np.array([UNIFORM, DISTANCE, np.sqrt(TAIL * (1 - TAIL)), np.sqrt(TAIL * (1 - TAIL))])
    of_tails = [(rank < TAIL).mean() - TAIL, (rank > 1 - TAIL).mean() - TAIL]
    return np.array([rank.mean() - 0.5, np.abs(rank - 0.5).mean() - 0.25, *of_tails]) / (spread * error)


def power(scale, shift, draws):
    """The probability that the largest of these deviations is beyond the limit, as if it stood alone."""
    return float(stats.norm.sf(LIMIT - np.abs(deviations(scale, shift, draws)).max()))


def test_right_draws_are_seen_as_rarely_as_promised():
    np.testing.assert_allclose(deviations(1.0, 0.0, 500), 0.0, atol=0.02)
    assert power(1.0, 0.0, 500) < FALSE_ALARM


def test_the_page_has_these_probabilities(pytestconfig):
    """To two digits: rows are errors, columns are draws in each of four chains."""
    page = (pytestconfig.rootpath / DOCS).read_text(encoding="utf-8")
    rows = {name: re.search(rf"^\| {re.escape(name)} \|(.*)\|$", page, re.MULTILINE) for name in ERRORS}
    printed = {name: [float(value) for value in row.group(1).split("|")] for name, row in rows.items()}
    for name, values in printed.items():
        np.testing.assert_allclose(values, [power(*ERRORS[name], draws) for draws in SIZES], atol=0.006)


@pytest.mark.parametrize("draws", SIZES)
def test_the_error_that_a_report_names_is_seen_in_nine_of_ten_runs(draws):
    """Its deviation is the limit and what a standard normal number exceeds in nine of ten cases."""
    shift, narrow = of_one_look(LIMIT, CHAINS * draws, REFERENCE)
    wanted = LIMIT + stats.norm.ppf(0.9)
    assert deviations(1.0, shift, draws)[0] == pytest.approx(wanted, rel=1e-3)
    assert deviations(1.0 - narrow, 0.0, draws)[1] == pytest.approx(-wanted, rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "draws"), [*product(["narrow by 20 %", "off by 0.2 sd"], [150, 500])])
def test_simulated_draws_are_seen_as_often(name, draws):
    """Of 200 comparisons of one wrong quantity: any of four deviations is seen at least as often as the largest alone."""
    rng, (scale, shift), wanted = np.random.default_rng(0), ERRORS[name], power(*ERRORS[name], draws)
    seen = 0
    for _ in range(200):
        mine = shift + scale * rng.normal(size=(CHAINS, draws, 1))
        table = _table(mine, rng.normal(size=(CHAINS, REFERENCE // CHAINS, 1)), ["x"], [])
        seen += bool((table["deviation"].abs() > LIMIT).any())
    error = np.sqrt(max(wanted * (1 - wanted), 0.01) / 200)
    assert -5 * error < seen / 200 - wanted < 5 * error + 0.1  # the other three deviations add to it
