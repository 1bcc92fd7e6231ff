"""Two modes of known mass: who crosses between them, who does not, and what `inference.modes` says of it."""

from functools import cache

import arviz_stats
import numpy as np
import pytest
from naive import table
from two_modes import (
    LEFT_AND_RIGHT,
    LOWER_LEFT,
    LOWER_RIGHT,
    ROWS,
    TOP_AND_BOTTOM,
    UPPER_LEFT,
    divisions,
    probability_together,
)

from inference import fit, modes
from models import MODELS
from models.base import ZooError

MOST = 3.5  # Monte Carlo standard errors: beyond them one time in 2,000
PAIR = f"rows {LOWER_LEFT + 1}, {UPPER_LEFT + 1}"  # neighbours on the left, among the probe rows of the functionals
CROSSING = {
    "tempered_gibbs": {"num_warmup": 500, "num_samples": 1500},
    "collapsed_gibbs": {"num_warmup": 50, "num_samples": 1000, "thin": 1},
}
STAYING = {"gibbs": {"num_warmup": 100, "num_samples": 500}, "nuts": {"num_warmup": 200, "num_samples": 300}}


@cache
def data():
    return table(ROWS)


@cache
def model():
    return MODELS["gmm_simple"](data(), num_components=2)


@cache
def crossing(method):
    return fit(model(), data(), method, seed=2, **CROSSING[method])


def together(tree):
    """(chain, draw): the probability that two rows on the left are in one component: 1 at one mode, 0 at the other."""
    return tree["functionals"]["co_clustering"].sel(pair=PAIR).values


def test_two_divisions_have_all_the_mass():
    """Left and right 72 %, top and bottom the rest; neither is the other with labels changed."""
    left, bottom = (probability_together(LOWER_LEFT, other) for other in (UPPER_LEFT, LOWER_RIGHT))
    assert left + bottom == pytest.approx(1.0, abs=1e-3)
    assert 0.65 < left < 0.8
    z, log_joint = divisions()
    best = z[log_joint > log_joint.max() - 2]
    assert len(best) == 4
    assert {tuple(one) for one in best} == {tuple(1 - one) for one in best}


@pytest.mark.slow
@pytest.mark.parametrize("method", CROSSING)
def test_methods_that_cross_get_the_mass_right(method):
    draws = together(crossing(method))
    error = float(arviz_stats.mcse(draws))
    assert error < 0.03
    assert abs(draws.mean() - probability_together(LOWER_LEFT, UPPER_LEFT)) < MOST * error
    assert (np.abs(draws.mean(1) - draws.mean()) < 0.25).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", STAYING)
@pytest.mark.parametrize("start", [LEFT_AND_RIGHT, TOP_AND_BOTTOM])
def test_methods_that_stay_are_sure_of_the_wrong_mass(method, start):
    """Every draw is at the mode of the start; the mass is wrong by a hundred standard errors, and no diagnostic says so."""
    tree = fit(model(), data(), method, seed=1, start=start, **STAYING[method])
    draws = together(tree)
    assert (draws.round() == (start is LEFT_AND_RIGHT)).all()
    assert abs(draws.mean() - probability_together(LOWER_LEFT, UPPER_LEFT)) > 100 * float(arviz_stats.mcse(draws))
    assert "R-hat" not in tree.attrs["problems"]
    assert modes(model(), tree, data()).sentences[0].startswith("One mode")


@pytest.mark.slow
def test_permuted_labels_do_not_help_and_are_told_from_modes():
    """Random labellings visit both orders at once, and never the other mode."""
    options = {"seed": 1, "start": TOP_AND_BOTTOM, "permute_components": True} | STAYING["gibbs"]
    found = modes(model(), fit(model(), data(), "gibbs", **options), data())
    assert len(found.modes) == 1
    assert (found.labellings["visited"] == 2).all()


@pytest.mark.slow
def test_modes_are_found_with_their_weights():
    """By draws of all chains, the shares of the modes are those of the functional that tells them apart."""
    tree = crossing("collapsed_gibbs")
    found = modes(model(), tree, data(), num_draws=400)
    assert len(found.modes) == 2
    assert sum(found.crossings) > 20
    assert found.sentences[0].startswith("2 modes, between which chains cross")
    some = together(tree)[:, np.unique(np.linspace(0, 999, 100).round().astype(int))]
    assert found.modes["share"].tolist() == pytest.approx([some.round().mean(), 1 - some.round().mean()], abs=1e-12)


@pytest.mark.slow
def test_chains_at_different_modes_are_named():
    """Starts of their own: four chains of Gibbs, of which one is at the lower mode."""
    tree = fit(model(), data(), "gibbs", **STAYING["gibbs"])
    at_left = together(tree).round().mean(1)
    assert set(at_left) == {0.0, 1.0}
    found = modes(model(), tree, data())
    assert "no chain crosses between them" in found.sentences[0]
    assert "use method=tempered_gibbs or collapsed_gibbs" in found.sentences[0]
    per_chain = found.modes[[f"chain {chain}" for chain in range(4)]].to_numpy()
    np.testing.assert_array_equal(per_chain[0], at_left)


def test_results_without_draws_are_refused():
    import xarray as xr

    with pytest.raises(ZooError, match="needs draws of the posterior"):
        modes(model(), xr.DataTree.from_dict({"/point_estimate": xr.Dataset()}), data())
