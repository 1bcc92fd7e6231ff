"""Which row is in which group, by hand-made results of three components and by counting."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from inference.report.groups import assignments, cross_table, groups_of, largest_first
from inference.report.page import write_groups
from inference.report.remarks import remarks
from models.reading.files import CSV, Marks, marks_of

PROBS = np.array([[0.1, 0.2, 0.7], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8], [0.25, 0.05, 0.7], [0.05, 0.9, 0.05]])
LABEL = np.array([1, 0, 1, -1, 1])


def result(probs=PROBS, labels_observed=0, symmetry='{"kind": "Permutation", "dim": "component", "also": []}'):
    dims = {"component": np.arange(probs.shape[1])}
    latent = {"responsibilities": (("row", "component"), probs), "decode": ("row", probs.argmax(1))}
    mean = xr.Dataset({"mean": (("component", "feature"), 10.0 * np.arange(probs.shape[1])[:, None])}, coords=dims)
    observed = xr.Dataset({"label": ("row", LABEL)}, attrs={"levels": ["ant", "bee"]})
    tree = xr.DataTree.from_dict({"latent": xr.Dataset(latent, coords=dims), "point_estimate": mean, "observed_data": observed})
    tree.attrs = {"labels_observed": labels_observed, "symmetry": symmetry, "local_blocks": ""}
    return tree


def test_every_row_has_its_group_and_the_second_best():
    found = assignments(groups_of(result()))
    assert found.columns.tolist() == ["row", "assignment", "probability", "second_assignment", "second_probability"]
    assert found["row"].tolist() == [1, 2, 3, 4, 5]
    assert found["assignment"].tolist() == [2, 1, 2, 2, 1]
    assert found["second_assignment"].tolist() == [1, 0, 0, 0, 0]
    assert found["probability"].tolist() == PROBS.max(1).tolist()
    assert found["second_probability"].tolist() == np.sort(PROBS, axis=1)[:, 1].tolist()


def test_components_that_hold_no_row_are_counted():
    """Of four components of a point estimate, two have less than half a row together; draws say how many hold one."""
    probs = np.column_stack([0.9 * PROBS, np.full((5, 1), 0.1)])
    few = result(np.column_stack([probs[:, 1:3], np.full((5, 2), 0.05)]))
    few.attrs |= {"exchangeable": "component", "warnings": "", "method": "em"}
    assert "2 of 4 components are nearly empty (fewer than 0.5 expected rows each): try fewer components" in "\n".join(
        remarks(few)
    )
    enough = result(probs)
    enough.attrs |= few.attrs
    assert "nearly empty" not in "\n".join(remarks(enough))


def test_two_groups_have_no_second_best():
    found = assignments(groups_of(result(PROBS[:, 1:] / PROBS[:, 1:].sum(1, keepdims=True))))
    assert found.columns.tolist() == ["row", "assignment", "probability"]


def test_rows_keep_the_numbers_of_the_whole_table():
    numbers = np.array([2, 3, 5, 8, 9])
    assert assignments(groups_of(result(), numbers))["row"].tolist() == numbers.tolist()


def test_steps_are_those_within_their_sequence():
    probs = np.full((2, 3, 2), np.nan)
    probs[0, :1], probs[1] = [[0.9, 0.1]], [[0.6, 0.4], [0.3, 0.7], [0.8, 0.2]]
    there = np.isfinite(probs[..., 0])
    latent = {
        "state_probs": (("row", "time", "state"), probs),
        "decode": (("row", "time"), np.where(there, probs[..., 1] > 0.5, -1)),
    }
    tree = xr.DataTree.from_dict({"latent": xr.Dataset(latent, coords={"state": ["dry", "wet"]})})
    found = assignments(groups_of(tree))
    assert found["sequence"].tolist() == [1, 2, 2, 2]
    assert found["step"].tolist() == [1, 1, 2, 3]
    assert found["assignment"].tolist() == ["dry", "dry", "wet", "dry"]


def test_labels_are_counted_by_group_the_largest_first():
    found = cross_table(result())
    decode = PROBS.argmax(1)
    assert found.index.tolist() == ["2", "1", "0"]
    naive = pd.DataFrame([[((decode == k) & (c == LABEL)).sum() for c in (0, 1)] for k in (2, 1, 0)])
    np.testing.assert_array_equal(found, naive)
    assert found.to_numpy().sum() == 4  # a row without a label does not count
    assert cross_table(result(labels_observed=1)) is None


def test_shares_are_no_groups():
    tree = result()
    tree.attrs["local_blocks"] = "topic_probs"
    assert groups_of(tree) is None
    assert cross_table(tree) is None


@pytest.mark.parametrize("exchangeable", [True, False])
def test_components_are_listed_by_size_and_keep_their_numbers(exchangeable):
    tree = result() if exchangeable else result(symmetry="")
    mean = largest_first(tree)["point_estimate"]["mean"]
    assert mean["component"].values.tolist() == ([2, 1, 0] if exchangeable else [0, 1, 2])
    np.testing.assert_array_equal(mean[:, 0], 10.0 * mean["component"])
    assert tree["point_estimate"]["component"].values.tolist() == [0, 1, 2]  # the result itself is as it was


def test_shares_are_of_the_weights():
    """A row of weight 20 counts twenty times; the group that it is in comes first."""
    weight = np.array([1.0, 1.0, 1.0, 1.0, 20.0])
    tree = result()
    tree["observed_data"] = xr.DataTree(tree["observed_data"].to_dataset().assign(weight=("row", weight)))
    groups = groups_of(tree)
    repeated = np.repeat(PROBS, weight.astype(int), axis=0)
    np.testing.assert_allclose(groups.share, repeated.mean(0))
    assert groups_of(result()).order.tolist() != groups.order.tolist() == np.argsort(-repeated.mean(0)).tolist()


def test_columns_that_are_kept_stand_in_the_assignments():
    tree = result()
    names = ["ann", "bob", "cid", "dan", "eve"]
    tree["latent"] = xr.DataTree(tree["latent"].to_dataset().assign_coords(id=("row", names)))
    found = assignments(groups_of(tree))
    assert found.columns.tolist()[:3] == ["row", "id", "assignment"]
    assert found["id"].tolist() == names


def test_tables_beside_the_users_have_their_marks(tmp_path):
    """What is said of the rows of a table opens where the table opens: the same separator and decimal mark, six digits."""
    found = result()
    for marks, said in ((CSV, {}), (Marks(";", ","), {"separator": "semicolon", "decimal": "comma"})):
        assert marks_of("table.csv", said) == marks
        (path, *_) = write_groups(found, tmp_path, marks=marks)
        read = pd.read_csv(path, sep=marks.separator, decimal=marks.decimal)
        np.testing.assert_allclose(read["probability"], found["latent"]["responsibilities"].values.max(1), rtol=1e-5)
    assert marks_of("table.tsv", {}) == Marks("\t")
    assert marks_of("table.parquet", {"separator": None}) == marks_of("notes", {"format": "texts"}) == CSV
