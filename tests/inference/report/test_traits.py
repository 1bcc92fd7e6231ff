"""Groups in words: shares and means of rows that count by their probabilities."""

import re

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
    values = {"responsibilities": (("row", "component"), probs), "decode": ("row", probs.argmax(1))}
    latent = xr.Dataset(values, coords={"component": ["a", "b", "c"]})
    tree = xr.DataTree.from_dict({"/latent": latent, "/observed_data": observed_data(data)})
    tree.attrs |= {"warnings": warnings, "row": "row"}
    return tree


def told(group, column):
    """The numbers of the trait of one column: of the group, and of all rows."""
    (trait,) = [trait for trait in group.traits if trait.startswith(f"{column} ")]
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", trait)]


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
    assert any(one.traits for one in weighted)
    for one, other in zip(weighted, repeated, strict=True):
        assert one.share == pytest.approx(other.share)
        assert one.traits == other.traits


def test_traits_are_means_of_the_rows_of_a_group():
    """One group per row: traits are averages by group, and the most telling column comes first."""
    hard = np.eye(3)[PROBS.argmax(1)]
    found = {group.name: group for group in described(result(load_data(TABLE), hard))}
    means = TABLE.groupby(PROBS.argmax(1))["size"].mean()
    assert told(found["a"], "size") == pytest.approx([means[0], TABLE["size"].mean()], abs=0.05)
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
    assert told(found["a"], "size") == pytest.approx([means[0], holes["size"].mean()], abs=0.05)


@pytest.mark.parametrize("level", [0.0, 1900.0, -2e6])
@pytest.mark.parametrize("spread", [0.003, 1.0, 40.0])
def test_means_have_the_digits_that_their_spread_needs(level, spread):
    """Means of 1901 and 1947 must not both be 1.9e3: the error of rounding is at most a tenth of the spread."""
    size = level + spread * (TABLE["size"] - TABLE["size"].mean()) / TABLE["size"].std(ddof=0)
    hard = np.eye(3)[PROBS.argmax(1)]
    found = {group.name: group for group in described(result(load_data(pd.DataFrame({"size": size})), hard))}
    means = size.groupby(PROBS.argmax(1)).mean()
    assert told(found["a"], "size") == pytest.approx([means[0], size.mean()], abs=spread / 10)
    assert len(re.findall(r"\d", found["a"].traits[0].split()[1])) <= len(f"{abs(means[0]):.0f}") + 4


def test_means_of_dates_are_dates():
    days = np.round(20_000 + 90 * PROBS[:, 0])
    table = TABLE.assign(visit=pd.to_datetime(days, unit="D"))
    hard = np.eye(3)[PROBS.argmax(1)]
    found = {group.name: group for group in described(result(load_data(table, dates={"visit": "ymd"}), hard))}
    (trait,) = [trait for trait in found["a"].traits if trait.startswith("visit")]
    expected = [np.datetime64(int(np.floor(value)), "D") for value in (days[PROBS.argmax(1) == 0].mean(), days.mean())]
    assert trait == f"visit {expected[0]} (all {expected[1]})"


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
