"""Levels that a pandas Categorical declares exist, also those that no row has: in columns, in labels, under the prior."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from inference import fit, predict
from inference.report.columns import print_columns
from models import MODELS, load_data
from models.reading.readers import to_frame

LEVELS = ["low", "mid", "high"]
GRADES = np.repeat(["low", "high"], 10)
TABLE = pd.DataFrame(
    {
        "grade": pd.Categorical(GRADES, categories=LEVELS),
        "shape": np.tile(["flat", "round"], 10),
        "kind": pd.Categorical(np.tile(["a", "b"], 10), categories=["b", "a", "z"]),
    }
)


def test_columns_have_the_levels_that_they_declare():
    data = load_data(TABLE, label="kind")
    assert data.categories == (("low", "mid", "high"), ("flat", "round"))
    np.testing.assert_array_equal(data.x[:, 0], np.repeat([0.0, 2.0], 10))
    assert load_data(pd.DataFrame({"g": pd.Categorical(["?", "a", "b"], categories=["b", "?", "a", ""])})).categories == (
        ("b", "a"),
    )  # what stands for a missing cell is no level


def test_labels_have_the_classes_that_they_declare():
    data = load_data(TABLE, label="kind")
    assert data.levels == ("b", "a", "z")
    np.testing.assert_array_equal(data.labels, np.tile([1, 0], 10))
    given = load_data(TABLE[["grade"]], labels=TABLE["kind"])
    assert given.levels == data.levels
    sets = load_data(TABLE[["grade"]], labels=pd.Categorical(["a", "b", "a|b", None] * 5, categories=["a", "a|b", "b", "z"]))
    assert sets.levels == ("a", "b", "z")
    np.testing.assert_array_equal(sets.candidates[2], [True, True, False])


def test_a_table_written_and_read_is_the_same():
    data = load_data(TABLE, label="kind")
    again = load_data(to_frame(data), label="kind")
    assert (again.categories, again.levels) == (data.categories, data.levels)
    np.testing.assert_array_equal(again.x, data.x)
    np.testing.assert_array_equal(again.labels, data.labels)


@pytest.mark.parametrize("column", ["grade", "kind"])
def test_the_user_sees_which_levels_no_row_has(column):
    text = io.StringIO()
    print_columns(load_data(TABLE, label="kind"), Console(file=text, width=200))
    line = next(line for line in text.getvalue().splitlines() if line.startswith(column))
    assert "no row has" in " ".join(text.getvalue().split())
    assert line


@pytest.mark.slow
def test_the_prior_has_mass_on_a_level_that_no_row_has():
    """MAP of naive Bayes by hand: (n_l + c − 1) / Σ (n_l + c − 1), c = 1.1, so that a new row may have the level."""
    data = load_data(TABLE[["grade", "shape"]], labels=np.tile(["a", "b"], 10))
    model = MODELS["naive_bayes"](data, emission="categorical")
    tree = fit(model, data, "em")
    counts = np.array([[5, 0, 5], [5, 0, 5]]) + 0.1
    np.testing.assert_allclose(tree["point_estimate"]["probs_grade"], counts / counts.sum(1, keepdims=True), rtol=1e-9)
    new = pd.DataFrame({"grade": pd.Categorical(["mid"] * 20, categories=LEVELS), "shape": TABLE["shape"]})
    assert np.isfinite(predict(model, tree, new)["log_density"]).all()


def test_a_class_that_no_row_has_is_said_to_be_the_priors():
    model = MODELS["naive_bayes"](load_data(TABLE, label="kind"), emission="categorical")
    assert any("no row is of z: its estimates come from the prior alone" in line for line in model.summaries.warnings)
    assert model.naming.coords["class"] == ["b", "a", "z"]
