"""Draws beside a reference by their ranks: rows show what they compare, and notes what ranks do not see."""

import numpy as np
import pytest
from scipy import stats

from inference.samplers.draws import DrawsComparison, _notes, _table


def test_a_row_shows_what_it_compares():
    """Mean rank, mean distance of the rank from ½, and shares beyond quantiles."""
    rng = np.random.default_rng(0)
    other = rng.normal(size=(4, 2_000, 2))
    one = np.stack([rng.normal(size=(4, 2_000)) + 1.0, 0.5 * rng.normal(size=(4, 2_000))], -1)
    table = _table(one, other, ["shifted", "narrow"], [])
    for name, law in {"shifted": stats.norm(1.0), "narrow": stats.norm(0.0, 0.5)}.items():
        ranks, levels = stats.norm.cdf(law.ppf((np.arange(10_000) + 0.5) / 10_000)), stats.norm.ppf([0.05, 0.95])
        wanted = [ranks.mean(), np.abs(ranks - 0.5).mean(), law.cdf(levels[0]), law.sf(levels[1])]
        np.testing.assert_allclose(table.loc[name, "draws"], wanted, atol=0.03)  # 8,000 draws a side: 5 standard errors
        np.testing.assert_allclose(table.loc[name, "reference"], [0.5, 0.25, 0.05, 0.05], atol=1e-3)  # less a draw


def compared(one, other):
    return DrawsComparison(["q"], one, other, _table(one, other, ["q"], []), 4.0)


@pytest.mark.parametrize("both_ways", [False, True])
def test_wild_draws_on_both_sides_are_seen_by_the_standard_deviation(both_ways):
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 4, 2_000, 1))
    one[:, :2] = [[[1e3], [-1e3 if both_ways else 1e3]]]
    (note,) = _notes(compared(one, other))
    assert note.startswith("mean ± standard deviation of q is ")
    assert " ± 31.6, and " in note


@pytest.mark.parametrize("heavy", [False, True])
def test_right_draws_are_not_called_wild(heavy):
    """Ten standard errors and twice the standard deviation are far, with log-normal tails, too."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        one, other = rng.normal(size=(2, 4, 1_000, 1))
        assert not _notes(compared(*((np.exp(one), np.exp(other)) if heavy else (one, other))))
