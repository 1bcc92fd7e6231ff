"""Every option of reading means the same in memory, in streams, in predictions and in the inspection.

The right reading of each table is computed from its texts by pandas, line by line.
"""

import gzip
import io
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from inference import read_stream
from models import ZooError, inspect_table, load_data
from models.data.columns import as_typed, cells_of, layout, typed
from models.reading.blocks import READING, read_blocks


class Table(NamedTuple):
    """A small table, the options that read it, and what its columns hold then."""

    text: str
    options: dict[str, Any]
    right: dict[str, Callable[[pd.DataFrame], Any]]  # column -> its values, from the texts of the table
    name: str = "table.csv"
    separator: str = ","
    encoding: str = "utf-8"


def number(column, **marks):
    """Texts as numbers: ``number("w", decimal=",")``; other texts are missing."""

    def values(frame):
        cells = frame[column].str.strip()
        for mark in marks.get("thousands", ""):
            cells = cells.str.replace(mark, "", regex=False)
        return pd.to_numeric(cells.str.replace(marks.get("decimal", "."), ".", regex=False), errors="coerce")

    return values


def words(column, missing=(), renamed=()):
    return lambda frame: frame[column].replace(dict(renamed)).where(~frame[column].isin(["", *missing]), None)


def days(column, form):
    return lambda frame: (
        (pd.to_datetime(frame[column], format=form, errors="coerce", utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta("1D")
    )


def scaled(column, units, decimal="."):
    """Numbers with units, each times the factor of its unit; those without a unit as they are."""

    def values(frame):
        split = frame[column].str.extract(r"^([\d.,]+)\s*(.*)$")
        return pd.to_numeric(split[0].str.replace(decimal, ".")) * split[1].map({"": 1.0} | units)

    return values


def value(column):
    """Codes: the name of the number that is written."""
    return lambda frame: pd.to_numeric(frame[column].str.replace(",", ".")).map("{:.15g}".format)


def rows(*columns, separator=",", head="xyzw"):
    """Columns of texts, divided at bars, as lines."""
    split = [column.split("|") for column in columns]
    return (
        "\n".join([separator.join(head[: len(columns)]), *(separator.join(cells) for cells in zip(*split, strict=True))]) + "\n"
    )


X = "0.5|1.5|2.25|3|4.5|5.75|6|7.5"
K = "a|b|a|b|b|a|a|b"
XY = {"x": number("x"), "y": words("y")}
TABLES = {
    "a missing cell by NA in one block": Table(rows(X.replace("2.25", "NA"), K), {}, XY),
    "missing, a number": Table(
        rows(X.replace("2.25", "-99.0"), K.replace("b|b", "refused|b")),
        {"missing": [-99, "refused"]},
        {"x": lambda frame: number("x")(frame).replace(-99, np.nan), "y": words("y", ["refused"])},
    ),
    "missing, none but the empty cell": Table(rows(X, "NA|b|NA|b|?|?|b|"), {"missing": []}, XY),
    "a block of words for missing cells": Table(rows("0.5|1.5|unknown|n.a.|-|.|6|7.5", K), {}, XY),
    "separator and decimal": Table(
        rows(X.replace(".", ","), K, "1,0|2|1,0|2,0|1|2|1,|2", separator=";"),
        {"separator": "semicolon", "decimal": "comma", "types": {"z": "number"}},
        {"x": number("x", decimal=","), "y": words("y"), "z": number("z", decimal=",")},
        separator=";",
    ),
    "codes with decimal commas": Table(
        rows("1,0|0|1|0,0|1,|0|1,0|0", X.replace(".", ","), separator=";"),
        {"separator": ";", "decimal": "comma"},
        {"x": value("x"), "y": number("y", decimal=",")},
        separator=";",
    ),
    "codes in several notations": Table(rows("01|1e+00|1.|0|00|0.0|1|0", X), {}, {"x": value("x"), "y": number("y")}),
    "codes that are missing among numbers": Table(
        rows("01|unknown|1.|0|00|0.0|1|-", X),
        {},
        {"x": lambda frame: number("x")(frame).map("{:.15g}".format).replace("nan", None), "y": number("y")},
    ),
    "decimal with units": Table(
        rows('"59,4 kg"|"140 lb"|"71 kg"|"80,5"|"66 kg"|"77,5 kg"|"58 kg"|"69 kg"', K),
        {"decimal": "comma", "units": {"x": "kg"}},
        {"x": scaled("x", {"kg": 1.0, "lb": 0.45359237}, ","), "y": words("y")},
    ),
    "units in some blocks": Table(
        rows("1.5|2.5|3.25|4|200 cm|3 m|2|1.75", K),
        {"units": {"x": "m"}},
        {"x": scaled("x", {"m": 1, "cm": 0.01}), "y": words("y")},
    ),
    "thousands with an apostrophe": Table(
        rows("1'234.5|12|1'000'000|7|8.5|9|10|11", K),
        {"thousands": "apostrophe"},
        {"x": number("x", thousands="'"), "y": words("y")},
    ),
    "thousands with spaces that do not break": Table(
        rows("1\u202f234.5|12\u00a0000|1 000 000|7|8.5|9|10|11", K),
        {"thousands": "space"},
        {"x": number("x", thousands=" \u00a0\u202f"), "y": words("y")},
    ),
    "thousands and units": Table(
        rows("€ 1.234,50|€ 12|€ 7|€ 8|€ 9,25|€ 1|€ 2|€ 3", K, separator=";"),
        {"separator": ";", "decimal": ",", "thousands": "point", "units": {"x": "€"}},
        {"x": lambda frame: number("x", thousands=".€ ", decimal=",")(frame), "y": words("y")},
        separator=";",
    ),
    "encoding": Table(
        rows(X, "groß|klein|groß|klein|groß|é|é|groß"), {"encoding": "cp1252"}, {"y": words("y")}, encoding="cp1252"
    ),
    "dates": Table(
        rows("3/1/2024|14/2/2024|25/3/2024|||1/4/2024|2/5/2024|3/6/2024", K),
        {"dates": {"x": "dmy"}},
        {"x": days("x", "%d/%m/%Y"), "y": words("y")},
    ),
    "date-times of America": Table(
        rows("1/14/2024 3:05 PM|1/15/2024 12:00 AM|2/1/2024 12:30 PM|||3/3/2024 11:59 AM|3/4/2024 1:00 AM|3/5/2024 1:00 PM", K),
        {"dates": {"x": "mdy"}},
        {"x": days("x", "%m/%d/%Y %I:%M %p"), "y": words("y")},
    ),
    "merge": Table(
        rows(X, "F|f|female|M|M|F|f|M"),
        {"merge": {"y": {"f": "F", "female": "F"}}},
        {"y": words("y", renamed=[("f", "F"), ("female", "F")])},
    ),
    "merge of codes": Table(rows(X, "0|1|01|0|0|1|0|1"), {"merge": {"y": {"01": "1"}}}, {"y": value("y")}),
    "declared categories keep their zeros": Table(
        rows(X, "01|1|01|1|01|1|1|01"), {"types": {"y": "category"}}, {"y": words("y")}
    ),
    "words and numbers in different blocks": Table(rows(X, "01|02|01|02|x|y|x|y"), {}, XY),
    "truth in different blocks": Table(
        rows(X, "TRUE|FALSE|true||False|True|FALSE|TRUE"),
        {},
        {"y": lambda frame: frame["y"].str.capitalize().replace("", None)},
    ),
    "words that are true in one block": Table(rows(X, "TRUE|TRUE|no|no|TRUE|no|no|no"), {}, {"y": words("y")}),
    "columns": Table(rows(X, K, X), {"columns": ["z", "y"]}, {"z": number("z"), "y": words("y")}),
    "threshold": Table(
        rows(X, X), {"threshold": 3}, {"x": lambda frame: (number("x")(frame) > 3).map({True: "1", False: "0"})}
    ),
    "packed": Table(rows(X.replace("1.5", "NA"), K), {}, XY, name="table.csv.gz"),
    "packed, with tabs": Table(rows(X, K, separator="\t"), {}, XY, "table.tsv.gz", "\t"),
    "an ending in capitals": Table(rows(X, K, separator="\t"), {}, XY, "TABLE.TSV", "\t"),
}


def written(table, folder):
    path, content = folder / table.name, table.text.encode(table.encoding)
    path.write_bytes(gzip.compress(content) if table.name.endswith(".gz") else content)
    return str(path)


def seen(data, like):
    """Column -> cells, as names of levels or numbers, None for a missing one."""
    data = as_typed(data, like)
    return {column: list(cells_of(data, column)) for column in data.columns}


def together(parts):
    """The cells of blocks, one after another."""
    return {column: [cell for part in parts for cell in part[column]] for column in parts[0]}


def four_ways(path, options, block_rows):
    """Path of reading -> column -> cells."""
    whole = typed(load_data(path, **options))
    like = layout(whole)
    files = read_stream(path, block_rows=block_rows, **options)
    assert layout(typed(files.sample))[:3] == like[:3]
    given = {name: options.get(name) for name in (*READING, "types")}
    inspected = inspect_table(path, **options)
    assert not inspected.problems, inspected
    return {
        "memory": seen(whole, like),
        "stream": together([seen(block.data, like) for block in files.read(0, None)]),
        "predict": together([seen(block.data, like) for block in read_blocks(path, whole, like, given, block_rows)]),
        "inspect": seen(inspected.data, like),
    }


def agrees(cells, right):
    """Whether cells are those of a column by pandas."""
    right = [None if pd.isna(cell) else cell for cell in right]
    for cell, other in zip(cells, right, strict=True):
        if isinstance(cell, float) and isinstance(other, float | int) and other is not None:
            assert cell == pytest.approx(other, rel=1e-12)
        else:
            assert cell == other


@pytest.mark.parametrize("block_rows", [1, 2, 3, 100])
@pytest.mark.parametrize("case", TABLES)
def test_a_table_is_read_alike_on_all_paths(tmp_path, case, block_rows):
    table = TABLES[case]
    path = written(table, tmp_path)
    texts = pd.read_csv(io.StringIO(table.text), sep=table.separator, dtype=str, keep_default_na=False)
    for way, found in four_ways(path, table.options, block_rows).items():
        for column, right in table.right.items():
            agrees(found[column], right(texts))
        assert set(found) >= set(table.right), way


def streamed(path, options, block_rows=2):
    return [block.data for block in read_stream(path, block_rows=block_rows, **options).read(0, None)]


def names_of(data):
    return [None if code < 0 else data.levels[code] for code in data.labels]


@pytest.mark.parametrize(
    ("labels", "options", "right"),
    [
        ("a|NA|b|refused|a|b|b|a", {"missing": ["refused"]}, ["a", None, "b", None, "a", "b", "b", "a"]),
        ("1|NA|02|NA|1|2|2|1", {}, ["1", None, "2", None, "1", "2", "2", "1"]),
        ("01|01|1|1|-|-|1|NA", {}, ["01", "01", "1", "1", "-", "-", "1", None]),
        ("01|1|01|1|x|x|1|NA", {}, ["01", "1", "01", "1", "x", "x", "1", None]),
    ],
)
def test_labels_are_read_alike(tmp_path, labels, options, right):
    """Numbers keep their spelling where another row has a word, in whichever block it stands."""
    path = written(Table(rows(X, labels), options, {}), tmp_path)
    asked = options | {"label": "y"}
    assert names_of(load_data(path, **asked)) == right
    found = inspect_table(path, **asked)
    assert names_of(found.data) == right or any(
        one.option == "missing" for problem in found.problems for one in problem.remedies
    )
    for block_rows in (1, 2, 3, 100):
        assert [name for block in streamed(path, asked, block_rows) for name in names_of(block)] == right


def test_weights_and_sequences_are_read_alike(tmp_path):
    """Decimal commas in weights; 01 and 1 are two sequences, although both are one number."""
    text = rows(X.replace(".", ","), "1,5|2|NA|0,5|1|1|2|3".replace("NA", "4"), "01|01|1|1|1|2|2|x", separator=";")
    path = written(Table(text, {}, {}), tmp_path)
    options = {"separator": "semicolon", "decimal": "comma", "weight": "y", "sequence": "z"}
    whole, inspected = load_data(path, **options), inspect_table(path, **options).data
    right = np.array([1.5, 2, 4, 0.5, 1, 1, 2, 3]) / (15 / 8)  # relative weights have the mean 1
    for data in (whole, inspected):
        np.testing.assert_allclose(data.weight, right, rtol=1e-12)
        assert np.diff(data.starts).tolist() == [2, 3, 2, 1]
    for block_rows in (1, 2, 100):
        blocks = streamed(path, options, block_rows)
        np.testing.assert_allclose(np.concatenate([block.weight for block in blocks]), right, rtol=1e-12)
        assert np.concatenate([np.diff(block.starts) for block in blocks]).tolist() == [2, 3, 2, 1]
        new = read_blocks(path, whole, None, {name: options.get(name) for name in READING}, block_rows)
        assert np.concatenate([np.diff(block.data.starts) for block in new]).tolist() == [2, 3, 2, 1]


def test_texts_that_are_numbers_are_read_alike(tmp_path):
    """A text is what is written, also in a block that holds numbers alone."""
    path = written(Table("t,n\n007,1\n010,2\nagent 7,3\nagent 8,4\n", {}, {}), tmp_path)
    whole = load_data(path, text="t")
    found = [whole, inspect_table(path, text="t").data]
    assert [data.columns for data in found] == [("007", "010", "7", "8", "agent")] * 2
    blocks = [block.data for block in read_blocks(path, whole, None, {"text": "t"}, 1)]
    streams = streamed(path, {"text": "t"}, 1)
    for parts in (blocks, streams):
        tokens = [[part.columns[token] for token in part.x.tokens] for part in parts]
        assert tokens == [["007"], ["010"], ["agent", "7"], ["agent", "8"]]


def test_kept_columns_are_read_alike(tmp_path):
    path = written(Table(rows(X, K, "01|1|02|2|03|3|x|4"), {}, {}), tmp_path)
    names = ["01", "1", "02", "2", "03", "3", "x", "4"]
    whole = load_data(path, keep=["z"])
    assert list(dict(whole.kept_columns)["z"]) == list(dict(inspect_table(path, keep=["z"]).data.kept_columns)["z"]) == names
    assert [name for block in read_blocks(path, whole, None, {}, 2, keep=["z"]) for name in block.kept_columns["z"]] == names
    assert [name for block in streamed(path, {"keep": ["z"]}) for name in dict(block.kept_columns)["z"]] == names


def test_an_option_that_looks_at_all_rows_is_refused_in_streams(tmp_path):
    path = written(TABLES["columns"], tmp_path)
    assert load_data(path, drop_constant=True).columns == ("x", "y", "z")
    with pytest.raises(ZooError, match="drop_constant needs all rows in memory"):
        read_stream(path, drop_constant=True)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.ndjson.gz", "rows.JSON"])
def test_json_is_refused_on_all_paths(tmp_path, name):
    """Read as CSV it would be columns with brackets in their names."""
    path = str(tmp_path / name)
    content = b'{"a": 1, "b": 2}\n{"a": 3, "b": 4}\n'
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    fitted = load_data(pd.DataFrame({"a": [1.0, 2.5], "b": [0.5, 1.0]}))
    for read in (load_data, read_stream, inspect_table, lambda path: list(read_blocks(path, fitted, None, {}, 2))):
        with pytest.raises(ZooError, match="holds JSON: save it as CSV"):
            read(path)


def test_packed_tables_are_inspected_as_they_are_read(tmp_path):
    """What it finds is what the unpacked table has, whatever packs it; the encoding of the file, too."""
    text = rows("59,4 kg|140 lb|71 kg|80 kg|66 kg|77 kg|58 kg|69 kg", "groß|klein|groß|klein|groß|é|é|groß", separator=";")
    plain = inspect_table(written(Table(text, {}, {}, encoding="cp1252"), tmp_path))
    packed = inspect_table(written(Table(text, {}, {}, "table.csv.gz", encoding="cp1252"), tmp_path))
    assert packed.options == plain.options
    assert {"encoding", "separator", "decimal", "units"} <= set(packed.options)
    np.testing.assert_array_equal(packed.data.x, load_data(str(tmp_path / "table.csv.gz"), **packed.options).x)
    np.testing.assert_array_equal(packed.data.x, plain.data.x)
