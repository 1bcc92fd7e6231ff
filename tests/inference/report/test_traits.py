"""Groups in words: shares and means of rows that count by their probabilities."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from inference.identification.relabel import OVERLAP
from inference.report.traits import FEW, described
from inference.results.table import observed_data
from models import load_data

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(3), size=40)
TABLE = pd.DataFrame(
    {
        "size": RNG.normal(size=40) + 3 * PROBS[:, 0],
        "kind": np.where(PROBS[:, 1] > 0.4, "moss", "fern"),
        "weight": RNG.uniform(1, 2, size=40),
    }
)


def result(data, probs, warnings=""):
    latent = xr.Dataset({"responsibilities": (("row", "component"), probs)}, coords={"component": ["a", "b", "c"]})
    tree = xr.DataTree.from_dict({"/latent": latent, "/observed_data": observed_data(data)})
    tree.attrs |= {"warnings": warnings, "row": "row"}
    return tree


def test_shares_are_mean_probabilities():
    data = load_data(TABLE)
    found = described(result(data, PROBS))
    order = np.argsort(-PROBS.mean(0))
    assert [group.name for group in found] == ["abc"[k] for k in order]
    np.testing.assert_allclose([group.share for group in found], PROBS.mean(0)[order])


def test_a_row_of_weight_two_is_two_rows():
    data, repeats = load_data(TABLE), RNG.integers(1, 4, size=40)
    weighted = described(result(data._replace(weight=repeats.astype(float)), PROBS))
    again = np.repeat(np.arange(40), repeats)
    repeated = described(result(load_data(TABLE.iloc[again]), PROBS[again]))
    for one, other in zip(weighted, repeated, strict=True):
        assert one.share == pytest.approx(other.share)
        assert one.traits == other.traits


def test_traits_are_means_of_the_rows_of_a_group():
    """One group per row: traits are averages by group, and the most telling column comes first."""
    hard = np.eye(3)[PROBS.argmax(1)]
    found = {group.name: group for group in described(result(load_data(TABLE), hard))}
    means = TABLE.groupby(PROBS.argmax(1))["size"].mean()
    assert f"size {means[0]:.3g} (all {TABLE['size'].mean():.3g})" in found["a"].traits
    moss = (TABLE["kind"] == "moss").groupby(PROBS.argmax(1)).mean()[1]
    overall = (TABLE["kind"] == "moss").mean()
    levels = [trait for trait in found["b"].traits if trait.startswith("kind")]
    assert levels == [f"kind moss {moss:.0%} (all {overall:.0%})"]


def test_missing_cells_do_not_count():
    """Neither a missing number nor a missing level: means are over the cells that are there."""
    holes = TABLE.astype({"kind": object}).copy()
    holes.loc[:9, "size"], holes.loc[5:14, "kind"] = np.nan, None
    hard = np.eye(3)[PROBS.argmax(1)]
    found = {group.name: group for group in described(result(load_data(holes), hard))}
    means = holes.groupby(PROBS.argmax(1))["size"].mean()
    assert f"size {means[0]:.3g} (all {holes['size'].mean():.3g})" in found["a"].traits


def test_columns_that_tell_nothing_are_no_traits():
    """The same probabilities in every row: all groups have the means of all rows."""
    found = described(result(load_data(TABLE), np.full((40, 3), 1 / 3)))
    assert all(group.traits == [] for group in found)
    assert all(len(group.traits) <= FEW for group in found)


def test_no_groups_where_labels_mix():
    data = load_data(TABLE)
    assert described(result(data, PROBS, "something else"))
    assert described(result(data, PROBS, f"component: {OVERLAP}")) == []


def test_no_groups_of_arrays():
    """A user's program has no table to describe."""
    tree = result(load_data(TABLE), PROBS)
    tree["observed_data"] = xr.DataTree(xr.Dataset({"x": (("row",), np.zeros(40))}))
    assert described(tree) == []
