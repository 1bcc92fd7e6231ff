"""What single diagnostics look at, of results that were made up."""

import json

import numpy as np
import pytest
import xarray as xr
from drawn_results import RNG, cut_off, drawn, failed, normal, optimised, wandering
from scipy.signal import lfilter

from inference.diagnostics.checks import as_attributes, diagnose, problems_of
from inference.diagnostics.verdicts import Problem


def test_quarters_of_one_chain_are_compared():
    """R-hat compares the halves of every chain. Those of one chain that visits another place in its second and third quarter
    agree, as its even and its odd draws do; its quarters do not.
    """
    theta, quarter = RNG(0).normal(size=(1, 1000)), np.arange(1000) // 250
    assert "R-hat" not in failed(drawn(theta))
    assert "R-hat" in failed(drawn(theta + 3 * ((quarter == 1) | (quarter == 2))))


@pytest.mark.parametrize("best_converged", [True, False])
def test_the_best_start_is_asked_whether_it_has_converged(best_converged):
    """What became of other starts does not matter."""
    tree = optimised([-5.0, 0.0, -1.0])
    converged = np.array([not best_converged, best_converged, not best_converged])
    tree["optimization"] = xr.DataTree(tree["optimization"].to_dataset().assign(converged=("start", converged)))
    assert ("iterations" in failed(tree)) == (not best_converged)


def test_a_remark_hides_no_failure():
    """The exit code is that of the worst verdict, in whatever order they come."""
    remark, failure = Problem("other modes", "a remark", 0), Problem("R-hat", "a failure", 3)
    for found in ([remark, failure], [failure, remark]):
        assert as_attributes(found)["exit_status"] == 3
        tree = drawn(RNG(0).normal(size=(4, 500)))
        tree.attrs |= as_attributes(found)
        assert diagnose(tree).exit_status == 3


def said_of(theta, statistics=None):
    found = problems_of(drawn(theta, stats=statistics))
    return next(problem.sentence for problem in found if problem.diagnostic == "R-hat")


def test_the_chain_that_lies_apart_is_named():
    """One chain elsewhere all the time; in its first half alone; two chains elsewhere, of which none is the one."""
    late, elsewhere = np.arange(500) < 200, np.arange(4) == 2
    assert "Chain 2 lies apart from the others. " in said_of(normal() + 9 * elsewhere[:, None])
    assert "Chain 2 lies apart from the others in its first half. " in said_of(normal() + 9 * np.outer(elsewhere, late))
    assert "lies apart" not in said_of(normal() + 9 * (np.arange(4) % 2)[:, None])


def diverged(share):
    return {"diverging": np.arange(2000).reshape(4, 500) < share * 2000}


GEOMETRIES = {  # statistics of trajectories -> what chains that disagree do first, and what those do that stay apart
    "one divergence": (diverged(0.0005) | cut_off(0.2), "Mend the divergences first. ", ""),
    "divergences": (diverged(0.05) | cut_off(1.0), "Mend the divergences first. ", "Mend the divergences first. "),
    "energy": ({"energy": wandering(0.95)} | cut_off(1.0), *["Reparametrise (see E-BFMI) first. "] * 2),
    "trees": (cut_off(1.0), "Raise max_tree_depth first. ", "Raise max_tree_depth first. "),
    "some trees": (cut_off(0.2), "Raise max_tree_depth first. ", ""),
    "none": (cut_off(0.0), "", ""),
}


@pytest.mark.parametrize("cause", GEOMETRIES)
def test_chains_that_disagree_are_told_the_first_cause(cause):
    """Several modes are named in any case: first, or after trajectories that fail, where chains stay apart; else last."""
    statistics, of_near, of_far = GEOMETRIES[cause]
    near, far = (said_of(normal() + by * (np.arange(4) % 2)[:, None], statistics) for by in (0.5, 9.0))
    assert f"disagree. {of_near}Warm up and run longer (num_warmup, num_samples); if that does not help" in near
    assert f"disagree. {of_far}Each may be at a mode of its own: use tempered_gibbs where the model has it, or smc" in far


@pytest.mark.parametrize("chains", [2, 8, 64])
def test_a_chain_at_another_mode_is_told_of_modes_however_many_there_are(chains):
    """R-hat of one chain among 64 is 1.06, wherever it is."""
    elsewhere = np.arange(chains) == 1
    assert "Each may be at a mode of its own" in said_of(normal(chains) + 9 * elsewhere[:, None])


def test_chains_that_are_on_their_way_are_at_no_mode():
    """A trend in one chain, which is compared by its halves, or in all; and methods are not told to use themselves."""
    trend = np.linspace(0.0, 9.0, 500)
    for theta in (normal(1) + trend, normal() + trend + np.arange(4)[:, None]):
        assert "mode of its own" not in said_of(theta)
    far = normal() + 9 * (np.arange(4) % 2)[:, None]
    for option, other in {
        "num_moves": "use tempered_gibbs where the model has it, or",
        "num_temperatures": "use smc, or",
    }.items():
        found = problems_of(drawn(far, options=json.dumps({option: 10})))
        assert any(other in problem.sentence for problem in found)


def test_energies_that_are_no_energies():
    """Those of trajectories that diverged are infinite, or huge, and hide nothing; those that never change have no E-BFMI."""
    low = wandering(0.95)
    for value in (np.inf, 1e4):
        energy, diverging = low.copy(), np.zeros(low.shape, bool)
        energy[:, 250], diverging[:, 250] = value, True
        assert "energy" in failed(drawn(normal(), stats={"energy": energy, "diverging": diverging}))
    assert "energy" not in failed(drawn(normal(), stats={"energy": np.ones((4, 500))}))
    assert "tree depth" in failed(
        drawn(normal(), stats={"reached_max_treedepth": np.ones((4, 500), bool)})
    )  # of other programs


def test_the_energy_of_many_short_chains_is_no_alarm():
    """64 chains of 100 draws whose E-BFMI is 0.6, twice the limit: single chains scatter by half of it."""
    noise = RNG(1).normal(size=(64, 1000)) * np.sqrt(1 - 0.7**2)
    energy = lfilter([1.0], [1.0, -0.7], noise, axis=1)[:, 900:]
    assert "energy" not in failed(drawn(normal(64, 100), stats={"energy": energy}))
