"""What is written in cells: missing ones, numbers, names of levels; and where tables come from."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from models import ZooError, load_data

FRAME = pd.DataFrame(
    {
        "height": [1.5, np.nan, -3.0, 2.0],
        "size": [4, 5, 6, 7],
        "kind": ["b", None, "a", "b"],
        "open": [True, False, None, True],
        "grade": pd.Categorical(["low", "high", "low", None], categories=["low", "mid", "high"]),
    }
)


def spelled(data, column):
    """How missing cells of a column were written."""
    return dict(next(note.spelled for note in data.notes if note.column == column))


def read(tmp_path, text, name="table.csv", **options):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return load_data(str(path), **options)


def same(left, right):
    """Whether two tables hold the same, whatever they are called."""
    np.testing.assert_array_equal(left.x, right.x)
    return (left.columns, left.categories) == (right.columns, right.categories)


class Foreign:
    """A DataFrame that only hands its columns over as Arrow does."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_one_table_from_every_source(tmp_path):
    """A DataFrame, Arrow in memory, another library's DataFrame, Parquet, Feather, an Arrow file and an Arrow stream."""
    table = pa.Table.from_pandas(FRAME)
    FRAME.to_parquet(tmp_path / "table.parquet")
    FRAME.to_feather(tmp_path / "table.feather")
    for suffix, writer in (("arrow", pa.ipc.new_file), ("arrows", pa.ipc.new_stream)):
        with pa.OSFile(str(tmp_path / f"table.{suffix}"), "wb") as file, writer(file, table.schema) as sink:
            sink.write_table(table)
    data = load_data(FRAME)
    assert data.categories == ((), (), ("a", "b"), ("False", "True"), ("low", "mid", "high"))
    files = [str(tmp_path / f"table.{suffix}") for suffix in ("parquet", "feather", "arrow", "arrows")]
    for source in (table, table.to_batches()[0], Foreign(table), *files):
        assert same(load_data(source), data)
    (tmp_path / "broken.arrow").write_bytes(b"no table")
    with pytest.raises(ZooError, match=r"broken\.arrow cannot be read as a table"):
        load_data(str(tmp_path / "broken.arrow"))


def test_text_file_agrees_with_a_frame(tmp_path):
    """But for the order of a Categorical's levels, which a text file has not."""
    frame = FRAME.drop(columns="grade")
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    assert same(load_data(str(path)), load_data(frame))
    frame.to_csv(tmp_path / "table.tsv", index=False, sep="\t")
    assert same(load_data(str(tmp_path / "table.tsv")), load_data(frame))


def test_missing_cells_are_counted_by_their_spelling(tmp_path):
    """Usual ones everywhere, doubtful ones among numbers only: as levels they stay."""
    data = read(tmp_path, "a,b,c\n1,x,+\n-,?,-\n?,NA,-\nunknown,unknown,+\n,,\n2,x,-\n")
    np.testing.assert_array_equal(np.isnan(data.x[:, 0]), [False, True, True, True, True, False])
    assert spelled(data, "a") == {"-": 1, "?": 1, "unknown": 1, "empty": 1}
    assert spelled(data, "b") == {"?": 1, "NA": 1, "empty": 1}
    assert data.categories == ((), ("unknown", "x"), ("+", "-"))
    frame = pd.DataFrame({"b": ["NA", "?", "x", "NA"]})  # a frame's NA was not missing for whoever made it
    assert load_data(frame).categories == (("NA", "x"),)


def test_spellings_of_ones_own(tmp_path):
    """More of them, also as numbers; with an empty list only an empty cell is missing."""
    text = "a,b\n1,x\n-99,unknown\n3,None\n,y\n"
    data = read(tmp_path, text, missing=["unknown", -99])
    assert np.isnan(data.x).tolist() == [[False, False], [True, True], [False, True], [True, False]]
    assert spelled(data, "a") == {"-99": 1, "empty": 1}
    bare = read(tmp_path, text, missing=[])
    assert bare.x[:3, 0].tolist() == [1, -99, 3]
    assert bare.categories == ((), ("None", "unknown", "x", "y"))
    assert np.isnan(load_data(pd.DataFrame({"a": [1.0, -99.0]}), missing=-99).x).tolist() == [[False], [True]]


def test_labels_that_are_missing(tmp_path):
    """The same spellings; numbers among them are still sorted and named as numbers."""
    data = read(tmp_path, "a,kind\n1,10\n2,?\n3,NA\n4,2\n5,\n", label="kind")
    assert data.levels == ("2", "10")
    assert data.labels.tolist() == [1, -1, -1, 0, -1]
    assert read(tmp_path, "a,kind\n1,+\n2,-\n3,?\n", label="kind").levels == ("+", "-")


def test_names_of_levels(tmp_path):
    """Margins and a zero behind the point are nobody's name; a zero in front is. Numbers come by size."""
    data = read(tmp_path, "a,b,c\n x ,10,07\nx,2.0,7\ny,2,07\n", types={"b": "category", "c": "category"})
    assert data.categories == (("x", "y"), ("2", "10"), ("07", "7"))
    assert data.x[:, :2].tolist() == [[0, 1], [0, 0], [1, 0]]
    assert read(tmp_path, "a\nTRUE\nfalse\nNA\n").categories == (("False", "True"),)


def test_numbers_with_marks(tmp_path):
    """Read as said, in a file and in a frame of texts."""
    marks = {"decimal": "comma", "thousands": "point"}
    data = read(tmp_path, "a;b\n1.234,5;x\n2;y\n?;y\n", separator="semicolon", **marks)
    assert data.columns == ("a", "b")
    np.testing.assert_array_equal(data.x[:, 0], [1234.5, 2, np.nan])
    assert load_data(pd.DataFrame({"a": ["1.234,5", "2"]}), **marks).x.tolist() == [[1234.5], [2]]
    assert read(tmp_path, 'a\n"1,234"\n"5,678"\n', thousands=",").x.tolist() == [[1234], [5678]]


HOSTILE = {
    "unnamed column": ("a,b\n1,2,3\n4,5,6\n", {}, ["table.csv", "more cells than the header", "name every column"]),
    "decimal comma": ('a\n"1,5"\n"2,25"\n3\n', {}, ["'a'", "row 1", "'1,5'", "data.decimal=comma", "data.types.a=category"]),
    "thousands comma": ('a\n1\n"1,234"\n', {}, ["row 2", "'1,234'", "data.thousands=comma"]),
    "thousands point": ("a\n1.234.567\n2.345.678\n", {}, ["row 1", "1.234.567", "data.thousands=point"]),
    "thousands space": ("a\n1 234\n2 345\n", {}, ["row 1", "1 234", "data.thousands=space"]),
    "percent": ("a\n10%\n12.5%\n", {}, ["row 1", "10%", "data.units"]),
    "one word": ("a\n1\n2\noops\n", {}, ["'a'", "row 3", "'oops'", "data.missing=[oops]", "data.types.a=category"]),
    "semicolons": ("a;b\n1;2\n", {}, ["one column", "'a;b'", "data.separator=semicolon"]),
    "forced number": ("a\nx\ny\n", {"types": {"a": "number"}}, ["'a'", "row 1", "'x'", "is not a number"]),
    "forced count": ("a\n1\n-2\n", {"types": {"a": "count"}}, ["'a'", "row 2", "-2", "is not a count"]),
    "forced count of fractions": ("a\n1\n2.5\n", {"types": {"a": "count"}}, ["'a'", "row 2", "2.5", "is not a count"]),
    "unknown kind": ("a\n1\n", {"types": {"a": "float"}}, ["'float'", "'a'", "number, count, category, label, identifier"]),
    "unknown column": ("a\n1\n", {"types": {"b": "count"}}, ["'b'", "columns are a"]),
    "types of no mapping": ("a\n1\n", {"types": ["a"]}, ["types=", "a kind per column"]),
    "two labels": ("a,b,c\n1,2,3\n", {"types": {"a": "label"}, "label": "b"}, ["several", "a, b"]),
    "label and count": ("a,b\n1,2\n", {"types": {"a": "count"}, "label": "a"}, ["'a'", "label", "count"]),
    "mark of two": ("a\n1\n", {"decimal": "<>"}, ["decimal='<>'", "comma"]),
    "everything ignored": ("a\n1\n", {"types": {"a": "ignore"}}, ["no columns"]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_cells_are_named(tmp_path, case):
    """File, column, row, value and remedy in one message."""
    text, options, words = HOSTILE[case]
    with pytest.raises(ZooError) as error:
        read(tmp_path, text, **options)
    assert all(word in str(error.value) for word in words), str(error.value)


FRAMES = {
    "dates": (pd.DataFrame({"when": pd.to_datetime(["2020-01-01", None])}), ["'when'", "dates", "data.types.when=ignore"]),
    "periods": (pd.DataFrame({"when": pd.period_range("2020", periods=2)}), ["'when'", "dates"]),
    "lists": (pd.DataFrame({"a": [None, [1, 2]]}), ["'a'", "row 2", "several values"]),
    "complex": (pd.DataFrame({"a": [1 + 2j]}), ["'a'", "complex"]),
}


@pytest.mark.parametrize("case", FRAMES)
def test_cells_that_are_no_cells(case):
    """Refused with a remedy that works."""
    frame, words = FRAMES[case]
    with pytest.raises(ZooError) as error:
        load_data(frame)
    assert all(word in str(error.value) for word in words), str(error.value)
    kept = load_data(frame.assign(b=[1.0] * len(frame)), types={frame.columns[0]: "ignore"})
    assert kept.columns == ("b",)


def test_a_separator_behind_every_row_is_no_column(tmp_path):
    assert read(tmp_path, "a,b\n1,2,\n3,4,\n").x.tolist() == [[1, 2], [3, 4]]


def test_a_column_alone():
    """A Series, with a name or without."""
    assert load_data(FRAME["size"]).columns == ("size",)
    assert load_data(pd.Series([1.5, 2])).columns == ("x0",)


def test_options_of_tables_only():
    with pytest.raises(ZooError, match="unknown option 'decimal' of data set iris"):
        load_data("iris", decimal="comma")
    with pytest.raises(ZooError, match="separator is for text files"):
        load_data(FRAME, separator="tab")
    with pytest.raises(ZooError, match=r"'missing'.*has already been read"):
        load_data(load_data(FRAME), missing=["?"])
