"""What single diagnostics look at, of results that were made up."""

import numpy as np
import pytest
import xarray as xr
from drawn_results import RNG, drawn, failed, optimised

from inference.diagnostics.checks import as_attributes, diagnose
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
    remark, failure = Problem("no Pareto k-hat", "a remark", 0), Problem("R-hat", "a failure", 3)
    for found in ([remark, failure], [failure, remark]):
        assert as_attributes(found)["exit_status"] == 3
        tree = drawn(RNG(0).normal(size=(4, 500)))
        tree.attrs |= as_attributes(found)
        assert diagnose(tree).exit_status == 3
