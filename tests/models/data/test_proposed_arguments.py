"""What messages propose can be pasted: into a shell, and for this table."""

import re
import shlex

import pandas as pd
import pytest

from models import ZooError, load_data
from models.data.columns import typed
from models.errors import in_shell
from models.inspection.problem import ColumnText
from models.inspection.table import inspect_table
from models.reading.long_format import doubted_identifiers

SPACED = "body mass"
BROKEN = [  # cells of a column that is refused, or doubted
    ["1.5", "2.5", "x y", "4.5"],
    ["1,5", "2,5", "3,5", "4,5"],
    ["3/1/1970", "4/1/1970", "5/1/1970", "6/1/1970"],
    ["", "", "", ""],
    ["7", "8", "9", "10"],
    ["59 kg", "61 kg", "63 kg", "140 lb"],
    ["a long text of words", "and another text here", "the third one of them", "a fourth and last text"],
]


def said_of(cells, path):
    """Everything that is said of a table with such a column: refused, doubted, inspected."""
    pd.DataFrame({SPACED: cells, "z": [0.5, 1.5, 2.5, 0.1]}).to_csv(path, index=False)
    said = [problem.advice for problem in inspect_table(path).problems]
    try:
        data = load_data(path)
        return [*said, *doubted_identifiers(data), *map(str, [typed(data)])]
    except ZooError as error:
        return [*said, str(error)]


@pytest.mark.parametrize("cells", BROKEN, ids=lambda cells: cells[0] or "empty")
def test_arguments_with_a_space_are_one_word_of_the_shell(cells, tmp_path):
    for line in said_of(cells, tmp_path / "table.csv"):
        assert not re.search(rf"(?<!')data\.[a-z]+[.=\[]*{SPACED}", line), line


def test_the_messages_above_propose_arguments(tmp_path):
    found = [line for cells in BROKEN for line in said_of(cells, tmp_path / "table.csv")]
    assert sum(f"'data.types.{SPACED}=" in line for line in found) >= 3
    argument = f"data.types.{SPACED}=ignore"
    assert shlex.split(in_shell(argument)) == [argument]


@pytest.mark.parametrize(
    ("header", "options", "proposed"),
    [
        ("'height, cm'", {}, None),  # a name with a comma, in quotes: the separator is the comma
        ("'height; cm'", {"separator": "semicolon"}, None),
        ("height, cm", {"separator": "semicolon"}, "comma"),
        ("height", {}, None),
    ],
)
def test_no_separator_is_proposed_that_is_used(tmp_path, header, options, proposed):
    path = tmp_path / "table.csv"
    path.write_text(header.replace("'", '"') + "\n1.5\n2.5\n")
    with pytest.raises(ZooError, match="has no column 'mass'") as refused:
        load_data(path, columns=["mass"], **options)
    assert (f"data.separator={proposed}" in str(refused.value)) == (proposed is not None)
    assert proposed is not None or "data.separator" not in str(refused.value)


def test_a_column_that_is_asked_for_is_one_column(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("height, cm\n1.5\n2.5\n")
    with pytest.raises(ZooError, match="its columns are height, cm"):
        load_data(path, columns=["height, cm", "mass"], separator="semicolon")


def test_examples_count_spellings_not_cells():
    words = tuple(f"word {number}" for number in range(5))
    column = ColumnText("c", words, pd.Series([9, 1, 1, 1, 1]).to_numpy(), pd.Series(range(5)).to_numpy())
    assert column.examples.endswith("(row 3) and 2 more spellings")
