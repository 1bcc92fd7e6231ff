"""Columns that are ticked or blank are yes or no where there is a block of them, or where a mark says nothing else."""

import numpy as np
import pandas as pd
import pytest
from pasted import pasted, require_cells

from inference.cli.runs.config import compose, expand
from models import ZooError, load_data
from models.inspection.table import inspect_table
from models.reading.readers import to_frame

ROWS = 40
# What a tick is, what it is read as, and what a blank is read as
TICKS = {
    "x": ("x", "yes", "no"),
    "X": ("X", "yes", "no"),
    "check mark": ("✓", "yes", "no"),
    "heavy check mark": ("✔", "yes", "no"),
    "box": ("☑", "yes", "no"),
    "cross": ("✗", "yes", "no"),
    "1": ("1", 1, 0),
    "yes": ("yes", "yes", "no"),
    "Yes": ("Yes", "Yes", "no"),
    "y": ("y", "yes", "no"),
    "ja": ("ja", "yes", "no"),
    "oui": ("oui", "yes", "no"),
    "sí": ("sí", "yes", "no"),
    "TRUE": ("TRUE", "True", "False"),
    "true": ("true", "True", "False"),
    "wahr": ("wahr", "yes", "no"),
    "checked": ("checked", "yes", "no"),
    "selected": ("Selected", "yes", "no"),
    "quoted": ("Quoted", "yes", "no"),
    "genannt": ("genannt", "yes", "no"),
    "angekreuzt": ("angekreuzt", "yes", "no"),
}


def table_of_ticks(rng, tick, columns, yes="yes", no="no"):
    """(the table as it is written, the table as it is meant): answers to one question beside two other columns."""
    frame = pd.DataFrame({"mass": rng.normal(70, 9, ROWS).round(1), "town": rng.choice(["Bern", "Chur"], ROWS)})
    frame.loc[3, "mass"] = np.nan
    meant = frame.copy()
    for name in columns:
        ticked = rng.random(ROWS) < 0.4
        ticked[:2] = True, False
        frame[name] = np.where(ticked, tick or name, "")
        meant[name] = np.where(ticked, yes, no)
        if isinstance(yes, int):
            meant[name] = meant[name].astype(int)
    return frame, meant


@pytest.mark.parametrize("name", TICKS)
@pytest.mark.parametrize("number", [2, 4])
def test_a_block_of_ticks_is_read_as_yes_and_no(tmp_path, name, number):
    tick, yes, no = TICKS[name]
    written, meant = table_of_ticks(np.random.default_rng(number), tick, [f"uses {place}" for place in range(number)], yes, no)
    written.to_csv(tmp_path / "table.csv", index=False)
    found, data, options = pasted(tmp_path / "table.csv")
    require_cells(data, meant)
    assert set(options) == {"merge"}
    none = int((written.iloc[:, 2:] == "").all(axis=1).sum())
    assert (f"{none} row" in found.problems[0].advice) == (none > 0)
    assert inspect_table(str(tmp_path / "table.csv"), **found.options).problems == ()


@pytest.mark.parametrize(
    "columns", [["bus", "tram", "bicycle"], ["by bus", "by tram", "on foot"], ["Q1_a", "Q1_b", "Q1_c", "Q1_d"]]
)
def test_answers_may_be_ticked_by_their_words(tmp_path, columns):
    """A survey writes the answer itself into its column."""
    written, meant = table_of_ticks(np.random.default_rng(0), "", columns)
    written.to_csv(tmp_path / "table.csv", index=False)
    _, data, options = pasted(tmp_path / "table.csv")
    assert set(options["merge"]) == set(columns)
    require_cells(data, meant)


@pytest.mark.parametrize("tick", ["x", "✓"])
def test_a_mark_alone_is_a_tick(tmp_path, tick):
    written, meant = table_of_ticks(np.random.default_rng(0), tick, ["member"])
    written.to_csv(tmp_path / "table.csv", index=False)
    _, data, options = pasted(tmp_path / "table.csv")
    assert set(options["merge"]) == {"member"}
    require_cells(data, meant)


NO_TICKS = {
    "one column of 1": {"a": ["1", ""] * 20},
    "one column of a word": {"country": ["Norway", ""] * 20},
    "two constants": {"country": ["Norway", ""] * 20, "currency": ["NOK", "", "", "NOK"] * 10},
    "two numbers": {"a": ["3.5", ""] * 20, "b": ["", "7"] * 20},
    "ticks without blanks": {"a": ["x"] * 40, "b": ["x"] * 40},
    "missing words": {"a": ["x", "NA"] * 20, "b": ["NA", "x"] * 20},
    "levels": {"a": ["x", "y", ""] * 13 + ["x"], "b": ["yes", "no", "yes", "no"] * 10},
}


@pytest.mark.parametrize("name", NO_TICKS)
def test_other_columns_are_no_ticks(tmp_path, name):
    pd.DataFrame({"mass": np.random.default_rng(0).normal(size=40).round(2), **NO_TICKS[name]}).to_csv(
        tmp_path / "table.csv", index=False
    )
    assert "merge" not in inspect_table(str(tmp_path / "table.csv")).options


@pytest.mark.parametrize("seed", range(5))
def test_blanks_become_a_level_and_levels_blank(seed):
    """In frames of words, numbers and booleans: each cell as a person would replace it."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"word": rng.choice(["a", "b", ""], 30), "number": rng.choice([1.0, 2.0, np.nan], 30)})
    frame["flag"] = rng.choice(np.array([True, None], dtype=object), 30)
    frame.loc[:2] = [["a", 1.0, True], ["b", 2.0, None], ["", np.nan, True]]
    merged = load_data(frame, merge={"word": {"": "none", "b": ""}, "number": {"": "0", "2": ""}, "flag": {"": "False"}})
    meant = pd.DataFrame(
        {
            "word": frame["word"].map({"a": "a", "b": None, "": "none"}),
            "number": frame["number"].fillna(0).replace(2.0, np.nan),
            "flag": frame["flag"].map(lambda cell: str(cell is True)),
        }
    )
    require_cells(merged, meant)
    assert to_frame(merged).shape == frame.shape


def test_an_empty_level_is_given_in_quotes():
    """`{x: ""}` empties cells; `{x: }` and `{x}` are slips of the keyboard."""
    (override,) = expand(['data.merge.a={x: "", "": no}'], sweep=False)[0]
    assert compose(["data=file", override])["data"]["merge"] == {"a": {"x": "", "": "no"}}
    for slip in ("{x: }", "{x}", "{}", "{x: [y]}"):
        with pytest.raises(ZooError, match="does not have the form"):
            expand([f"data.merge.a={slip}"], sweep=False)
