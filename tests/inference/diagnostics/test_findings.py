"""What single diagnostics look at, of results that were made up."""

import numpy as np
import pytest
import xarray as xr
from drawn_results import RNG, cut_off, drawn, failed, normal, optimised, wandering

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


GEOMETRIES = {  # statistics of trajectories -> the beginning of the advice to chains that disagree
    "divergences": ({"diverging": np.arange(2000).reshape(4, 500) == 7} | cut_off(1.0), "Mend the divergences first"),
    "energy": ({"energy": wandering(0.95)} | cut_off(1.0), "Mend the energy first"),
    "cut trees": (cut_off(1.0), "Raise max_tree_depth first"),
    "none": (cut_off(0.0), "Warm up and run longer"),
}


@pytest.mark.parametrize("cause", GEOMETRIES)
def test_chains_that_disagree_are_told_the_first_cause(cause):
    """Several modes are named where no trajectory explains it: last, or first where chains have nothing in common."""
    statistics, begins = GEOMETRIES[cause]
    near, far = (said_of(normal() + by * np.arange(4)[:, None], statistics) for by in (0.2, 9.0))
    assert f"disagree. {begins}" in near.replace("Chain 0 lies apart from the others. ", "")
    assert ("several modes" in near) == (cause == "none")
    assert ("mode of its own" in far) == (cause == "none")
