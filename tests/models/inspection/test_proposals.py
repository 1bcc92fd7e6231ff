"""What inspection proposes for levels, marks in numbers, and tables of steps, case by case."""

from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from inference.report.columns import print_columns
from models import Data, load_data
from models.data.column_kinds import kind_of
from models.data.columns import typed
from models.errors import in_shell
from models.inspection.advice import sequences_in
from models.inspection.levels import level_problems, variants
from models.inspection.problem import ColumnText, Remedy
from models.inspection.table import inspect_table
from models.reading.long_format import doubted_identifiers


def test_the_most_frequent_spelling_is_the_level():
    column = ColumnText("c", ("A b", "a-b", "a  b", "c"), np.array([1, 5, 2, 9]), np.arange(4))
    assert variants(column) == {"A b": "a-b", "a  b": "a-b"}


def test_a_word_cut_by_a_full_stop_is_the_longer_one():
    """However many letters are left; without the full stop, or with two words that begin so, it is a level of its own."""
    words = ("primary", "prim.", "second.", "secondary", "tert", "tertiary", "inter.", "internal", "interim")
    column = ColumnText("school", words, np.array([9, 2, 2, 8, 2, 7, 2, 3, 3]), np.arange(9))
    assert variants(column) == {"prim.": "primary", "second.": "secondary"}


@pytest.mark.parametrize(
    ("words", "merged"),
    [
        (("carp", "carp.", "carpet"), {"carp.": "carp"}),  # a whole word with a full stop
        (("agree.", "agreement", "neutral"), {}),
        (("yes.", "yesterday", "today"), {}),
        (("no.", "north", "south"), {}),
    ],
)
def test_a_full_stop_alone_makes_no_abbreviation(words, merged):
    assert variants(ColumnText("c", words, np.array([5, 2, 3]), np.arange(3))) == merged


@pytest.mark.parametrize("word", ["refused", "Prefer not to say", "declined", "not recorded"])
def test_a_refusal_to_answer_may_be_a_missing_cell(word):
    column = ColumnText("income", ("high", "low", word), np.array([5, 4, 2]), np.arange(3))
    (problem,) = level_problems(column)
    assert problem.remedies == (Remedy("missing", [word]),)


@pytest.mark.parametrize(
    ("rows", "proposed"),
    [
        (["1.200;7", "900;8", "1.100;9"], {"thousands": "point"}),
        (["1.200;7,5", "900;8,25", "1.100;9"], {"thousands": "point", "decimal": "comma"}),
        (["1.200;0.5", "900;8", "1.100;9"], {}),  # 0.5 has a decimal point, so 1.200 has one too
        (["1.2;7", "900;8", "1.100;9"], {}),
        (["1.200,7", "900,8", "1.100,9"], {}),  # commas between columns
        (["1.200;7", "0.9;8", "1.100;9"], {}),
        (["1.234;12.345", "1.250;13.250", "1.300;14.500"], {}),  # measurements with three decimals
        (["1.200;7", "9;8", "1.100;9"], {}),
        (["1.200;7", "1300;8", "1.100;900"], {}),  # a thousand without a point
    ],
)
def test_points_in_thousands_are_proposed_where_numbers_are_written_so(tmp_path, rows, proposed):
    """1.200 is 1200 where columns are separated by semicolons or decimals by commas, and no number has another point."""
    path = tmp_path / "table.csv"
    separator = ";" if ";" in rows[0] else ","
    path.write_text("\n".join([f"income{separator}score", *rows]), encoding="utf-8")
    found = inspect_table(str(path))
    assert {name: value for name, value in found.options.items() if name in ("thousands", "decimal")} == proposed
    first = [float(row.split(separator)[0].replace(".", "" if proposed else ".")) for row in rows]
    assert found.data.x[:, 0] == pytest.approx(np.array(first))


@pytest.mark.parametrize("first", [0.0, 1.0, -5.0, 1.7e9])
@pytest.mark.parametrize("change", [1.0, -0.1])
def test_a_column_that_numbers_the_steps_is_left_out(first, change):
    """By whatever it changes, and wherever it begins in each sequence; a column that once changes by another amount stays."""
    rng = np.random.default_rng(0)
    lengths = [4, 1, 6]
    frame = pd.DataFrame({"machine": np.repeat(["a", "b", "c"], lengths), "heat": rng.normal(size=11).round(2)})
    frame["minute"] = np.concatenate([first + k + change * np.arange(size) for k, size in enumerate(lengths)])
    frame["pause"] = frame["minute"] + 0.01 * (np.arange(11) == 10)
    found = inspect_table(frame, sequence="machine")
    assert [problem.column for problem in found.problems] == ["minute"]
    assert found.options == {"sequence": "machine", "types": {"minute": "ignore"}}
    assert found.data.columns == ("heat", "pause")
    (warning,) = doubted_identifiers(load_data(frame, sequence="machine"))
    assert "data.types.minute=ignore" in warning
    assert doubted_identifiers(load_data(frame, sequence="machine", types={"minute": "number"})) == []
    assert inspect_table(frame[["machine", "minute"]], sequence="machine").problems == ()  # the only column stays


def test_rows_that_look_like_steps_are_sequences():
    """Blocks of one name in which another column counts; not where a name comes back, or nothing counts."""
    frame = pd.DataFrame({"machine": np.repeat(["a", "b", "c"], 8), "minute": np.tile(np.arange(8) / 2, 3)})
    frame["heat"] = np.random.default_rng(0).normal(size=24).round(2)
    assert sequences_in(typed(load_data(frame))) == ("machine", "minute")
    assert sequences_in(typed(load_data(frame.drop(columns="minute")))) is None
    assert sequences_in(typed(load_data(frame.iloc[[*range(8, 24), *range(4)]]))) == ("machine", "minute")
    assert sequences_in(typed(load_data(frame.iloc[[*range(4), *range(8, 24), *range(4, 8)]]))) is None
    assert sequences_in(typed(load_data(frame, sequence="machine"))) is None


@pytest.mark.parametrize("name", ["interview date", "visit"])
def test_dates_may_only_say_when_a_row_was_measured(name):
    """The proposal reads them as numbers, and says how to leave them out; once they are read, the list of columns says it."""
    frame = pd.DataFrame({name: [f"2024-03-{day:02}" for day in range(1, 13)], "x": [0.5 * row for row in range(12)]})
    found = inspect_table(frame)
    (problem,) = (one for one in found.problems if one.column == name)
    argument = in_shell(f"data.types.{name}=ignore")
    assert argument in problem.advice
    assert load_data(frame, **found.options | {"types": {name: "ignore"}}).columns == ("x",)
    for columns, doubted in ((found.data, True), (load_data(frame, types={name: "ignore"}), False)):
        screen = Console(width=200, file=StringIO())
        print_columns(columns, screen)
        assert (argument in screen.file.getvalue()) == doubted


def test_first_rows_hide_no_identifier():
    """A column is doubted where the rules for kinds call it an identifier, wherever its values come twice or are missing."""
    number = 150
    counter = np.arange(1.0, number + 1)
    columns = {
        "counter": counter,
        "row_id": counter[::-1] * 7,
        "late": np.where(counter > 140, 140.0, counter),
        "early": np.where(counter < 3, 1.0, counter),
        "holed": np.where(counter == 5, np.nan, counter),
        "code": np.where(counter == 5, np.nan, counter * 3),
        "halves": counter / 2,
    }
    data = Data("table", np.stack(list(columns.values()), axis=1), tuple(columns))
    doubted = [line.split("'")[1] for line in doubted_identifiers(data)]
    assert doubted == [name for name, values in columns.items() if kind_of(name, values, ()).kind == "identifier"]
    assert doubted == ["counter", "row_id", "code"]


def test_dates_that_no_order_reads_are_left_out(tmp_path):
    """Or the printed command would not run."""
    zones = ["2024-03-02 20:28:25 CEST", "2024-03-12 03:59:37 CET", "2024-03-12 16:40:55 CET", "2024-05-01 09:00:00 CEST"]
    path = tmp_path / "table.csv"
    path.write_text("when,x\n" + "".join(f"{when},{place}.5\n" for place, when in enumerate(zones)))
    found = inspect_table(path)
    assert [problem.column for problem in found.problems] == ["when"]
    assert found.options == {"types": {"when": "ignore"}}
    assert load_data(path, **found.options).columns == ("x",)


def test_the_examples_of_codes_have_their_zeros_in_front():
    codes = ["14344", "30161", "24948", "05087"]
    found = inspect_table(pd.DataFrame({"zip": codes, "x": [0.5, 1.5, 2.5, 4.0]}))
    assert "'05087' (row 4)" in found.problems[0].what
    assert "14344" not in found.problems[0].what


def test_a_mark_has_its_article():
    found = inspect_table(pd.DataFrame({"a": ["1'234", "22'345", "7"], "x": [0.5, 1.5, 2.5]}))
    assert found.problems[0].what.startswith("numbers with an apostrophe between")


def test_spaces_around_a_word_make_no_other_spelling(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("c,x\nyes ,0.5\n yes,1.5\nno,2.5\nyes,3.5\n")
    assert not inspect_table(path).problems


@pytest.mark.parametrize("cells", [("1", "2", "3", "4", "5+"), ("1 - very bad", "2", "3", "4", "5 - very good")])
def test_the_ends_of_a_scale_are_levels_and_not_missing(cells):
    found = inspect_table(pd.DataFrame({"q": [*cells, *cells[1:4]], "x": np.linspace(0.1, 3.5, 8)}))
    assert found.options == {"types": {"q": "category"}}


@pytest.mark.parametrize(("cell", "warned"), [("(12)", True), ("($1.50)", True), ("12-", True), ("12*", False)])
def test_a_minus_of_bookkeepers_is_not_dropped_without_a_word(cell, warned):
    found = inspect_table(pd.DataFrame({"a": ["31", "45", "76", cell, "88"], "x": [0.5, 1.5, 2.5, 4.0, 3.0]}))
    assert ("stands for −5" in found.problems[0].advice) == warned


def test_a_currency_is_the_same_by_its_sign_and_by_its_code():
    frame = pd.DataFrame({"cost": ["31 EUR", "€45", "76 EUR", "2k EUR"], "x": [0.5, 1.5, 2.5, 4.0]})
    found = inspect_table(frame)
    assert found.options == {"units": {"cost": "€"}}
    assert load_data(frame, **found.options).x[:, 0].tolist() == [31, 45, 76, 2000]
    assert load_data(frame, units={"cost": "EUR"}).x[:, 0].tolist() == [31, 45, 76, 2000]
