"""What is said of where the starts of an optimiser ended."""

import numpy as np
import pytest
import xarray as xr

from inference.diagnostics.starts import describe_starts


def tree_of(final, repeatable):
    tree = xr.DataTree.from_dict({"optimization": xr.Dataset({"final_objective": ("start", np.asarray(final))})})
    tree.attrs["repeatable"] = int(repeatable)
    return tree


@pytest.mark.parametrize(
    ("final", "repeatable", "said"),
    [
        ([-2.0, -2.0, -2.0], True, "3 of 3 starts reached the best objective -2.0000"),
        (
            [-2.0, -5.0, np.nan],
            True,
            "1 of 3 starts reached the best objective -2.0000; 1 ended at local optima, at -5.0000; 1 failed",
        ),
        ([-2.03, -2.0, -2.01], False, "3 starts ended at objectives from -2.0300 to -2.0000, with noise"),
        ([-2.03, np.nan, -2.01], False, "2 starts ended at objectives from -2.0300 to -2.0100, with noise; 1 failed"),
        ([-2.0], True, ""),
    ],
)
def test_starts_whose_objectives_have_noise_are_not_at_other_optima(final, repeatable, said):
    assert describe_starts(tree_of(final, repeatable)) == said
