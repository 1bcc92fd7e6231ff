"""Numbers as they are printed: signs, spaces, sizes, times. Each table is read by hand, and every remedy reads it so."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest

from inference.cli.runs.config import compose, expand
from inference.cli.runs.execute import read_data
from inference.cli.runs.inspecting import overrides_of
from models import inspect_table, load_data
from models.data.columns import typed
from models.errors import ZooError

N, T = "\u00a0", "\u202f"
READ = {  # cells -> the numbers, which are read without an option
    "minus": ("−5 3 −7.5 4", [-5, 3, -7.5, 4]),
    "minus alone": ("−5 −3 −1 −4", [-5, -3, -1, -4]),
    "en dash": ("–5 3 –0.5 4", [-5, 3, -0.5, 4]),
    "full width": ("－5 3 2 4", [-5, 3, 2, 4]),
    "exponent": ("1e−3 2e−4 1 2", [1e-3, 2e-4, 1, 2]),
    "minus beside missing": ("−5 – −7.5 ?", [-5, np.nan, -7.5, np.nan]),
    "both signs": ("-5 −3 -1 2", [-5, -3, -1, 2]),
    "plus": ("+5 −3 +1 2", [5, -3, 1, 2]),
    "space that does not break around": (f"{N}5 3{N} 7 4{T}", [5, 3, 7, 4]),
}
REFUSED = {  # cells, separated by bars -> the numbers by the proposed options
    "spaces that do not break": (f"1{N}234|2{N}345|999|12{N}000", [1234, 2345, 999, 12000]),
    "narrow spaces": (f"1{T}234.5|2{T}345.1|999.9|12{T}000.0", [1234.5, 2345.1, 999.9, 12000]),
    "thin spaces": ("1\u2009234|2\u2009345|999|12\u2009000", [1234, 2345, 999, 12000]),
    "mixed spaces": (f"1 234|2{N}345|3{T}456|12", [1234, 2345, 3456, 12]),
    "minus and spaces": (f"−1{N}234|2{N}345|−999|12", [-1234, 2345, -999, 12]),
    "minus and decimal commas": ("−5,5|3,25|−7,5|4,0", [-5.5, 3.25, -7.5, 4]),
    "spaces and decimal commas": (f"1{T}234,5|2{T}345,1|999,9|12,0", [1234.5, 2345.1, 999.9, 12]),
    "units behind spaces": (f"5{N}kg|6{N}kg|7{T}kg|8 kg", [5, 6, 7, 8]),
    "minus and units": ("−5 °C|3 °C|−7.5 °C|4 °C", [-5, 3, -7.5, 4]),
    "thousands and units": (f"1{N}234 kg|2{N}345 kg|999 kg|12 kg", [1234, 2345, 999, 12]),
    "millions": ("$4.4M|$1.2M|$350K|$2B", [4.4e6, 1.2e6, 3.5e5, 2e9]),
    "millions alike": ("$4.4M|$3.1M|$2.7M|$0.5M", [4.4e6, 3.1e6, 2.7e6, 5e5]),
    "small letters": ("€4.4m|€350k|€999|€1.5bn", [4.4e6, 3.5e5, 999, 1.5e9]),
    "signs behind": ("4.4M€|350k €|999 €|1.5 million €", [4.4e6, 3.5e5, 999, 1.5e6]),
    "losses": ("-$4.4M|$1.2M|−$350K|$-2M", [-4.4e6, 1.2e6, -3.5e5, -2e6]),
    "sizes alone": ("4.4M|1.2M|350K|2B", [4.4e6, 1.2e6, 3.5e5, 2e9]),
    "sizes beside numbers": ("999|1.2k|15k|847", [999, 1200, 15000, 847]),
    "words of size": ("4.4 million|350 thousand|2 billion|1.1 million", [4.4e6, 3.5e5, 2e9, 1.1e6]),
    "followers": ("999|1.2K|15K|847", [999, 1200, 15000, 847]),
    "Kelvin": ("293.5K|300.1K|310K|305K", [293.5, 300.1, 310, 305]),
    "times": ("8:05|9:10|10:30|23:59", [8 + 5 / 60, 9 + 1 / 6, 10.5, 23 + 59 / 60]),
    "times of two digits": ("08:05|09:10|10:30|00:15", [8 + 5 / 60, 9 + 1 / 6, 10.5, 0.25]),
    "seconds": ("8:05:10|9:10:00|10:30:30|23:59:59", [8 + 310 / 3600, 9 + 1 / 6, 10 + 1830 / 3600, 24 - 1 / 3600]),
    "half days": ("8:05 am|9:10 PM|12:30 p.m.|12:15 AM", [8 + 5 / 60, 21 + 1 / 6, 12.5, 0.25]),
}
ODD = {  # what is none of these: levels as before
    "codes": "1B|2B|3B|1B",
    "ranges": "1–2|3–4|5–6|1–2",
    "scores": "2:1|3:0|1:1|2:2",
    "sizes of clothes": "S|M|L|XL",
}


def written(path, cells):
    """Three times the cells, beside a column of numbers."""
    frame = pd.DataFrame({"a": cells * 3, "b": np.arange(3 * len(cells)) * 1.37 + 0.11})
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", READ)
def test_printed_signs_are_read(name, tmp_path):
    cells, expected = READ[name]
    path = written(tmp_path / "t.csv", cells.split(" "))
    for data in (load_data(path), typed(load_data(path)), load_data(pd.read_csv(path, dtype=str), types={"b": "number"})):
        np.testing.assert_allclose(data.x[:, 0], expected * 3)
        assert not any(data.categories)
    assert not inspect_table(path).problems


@pytest.mark.parametrize("name", REFUSED)
def test_printed_numbers_are_read_by_the_options_that_are_printed(name, tmp_path):
    """Never as levels: a model of mixed columns refuses the table as it is, but for units, and the remedies can be pasted."""
    cells, expected = REFUSED[name]
    path = written(tmp_path / "t.csv", cells.split("|"))
    found = inspect_table(path)
    assert found.problems
    assert found.data is not None
    np.testing.assert_allclose(found.data.x[:, found.data.columns.index("a")], expected * 3, rtol=1e-12)
    words = shlex.split(shlex.join(overrides_of(found.options)))
    config = compose(expand([f"data={path}", *words], False)[0])["data"]
    data = read_data({key: value for key, value in config.items() if key != "test_fraction"})
    np.testing.assert_allclose(data.x[:, 0], expected * 3, rtol=1e-12)
    if "units" not in name:
        with pytest.raises(ZooError) as refusal:
            typed(load_data(path))
        printed = re.search(r"data\.(units\.a=[^ ;,']+|thousands=space|decimal=comma)", str(refusal.value))
        assert printed is not None, refusal.value


@pytest.mark.parametrize("name", ODD)
def test_what_only_looks_alike_stays_a_level(name, tmp_path):
    cells = ODD[name].split("|")
    path = written(tmp_path / "t.csv", cells)
    data = typed(load_data(path))
    assert [data.categories[0][int(code)] for code in data.x[:, 0]] == cells * 3
    assert not [
        problem for problem in inspect_table(path).problems if problem.remedies and problem.remedies[0].option == "units"
    ]


def test_times_with_and_without_seconds_are_not_guessed(tmp_path):
    """8:05 beside 1:02:30 may be minutes and seconds: inspected, and refused where hours are declared."""
    path = written(tmp_path / "t.csv", ["8:05", "59:10", "1:02:30", "12:15"])
    (problem,) = inspect_table(path).problems
    assert "with and without seconds" in problem.what
    assert problem.remedies[0].value == "ignore"
    with pytest.raises(ZooError, match="write all times of the column alike"):
        load_data(path, units={"a": "h"})


@pytest.mark.parametrize(
    ("marks", "cells", "wanted"),
    [
        ({"thousands": "comma"}, ["1,234", "-1,234,567.5", "12,34,567", "15"], [1234.0, -1234567.5, 1234567.0, 15.0]),
        ({"thousands": "point", "decimal": "comma"}, ["1.234,5", "12", "2,25"], [1234.5, 12.0, 2.25]),
        ({"thousands": "space"}, ["1 234", "−1\u202f234.5", "7"], [1234.0, -1234.5, 7.0]),
        ({"thousands": "comma"}, ["1,234", "1,5"], None),
        ({"thousands": "comma"}, ["1,234", "1234,567"], None),
        ({"thousands": "comma"}, ["1,234", "1.5,000"], None),
        ({"thousands": "point", "decimal": "comma"}, ["1.234", "12.5"], None),
        ({"thousands": "point", "decimal": "comma"}, ["12.5", "13.5"], None),
        ({"thousands": "space"}, ["1 234", "1 5"], None),
        ({"thousands": "point"}, ["1.200", "900"], [1200.0, 900.0]),
        ({"thousands": "point", "decimal": "comma"}, ["1.000", "431", "-20.000", "2.000,5"], [1000.0, 431.0, -20000.0, 2000.5]),
        ({"thousands": "point", "units": {"x": "kg"}}, ["1.000", "2.000 kg", "7"], [1000.0, 2000.0, 7.0]),
        ({"thousands": "point", "units": {"x": "kg"}}, ["63503 g", "2.000 kg"], [63.503, 2000.0]),
    ],
)
def test_marks_stand_between_thousands_or_are_refused(tmp_path, marks, cells, wanted):
    """pandas drops them wherever they stand, and would read 1,5 as 15; a file and a frame are read alike."""
    (tmp_path / "table.csv").write_text("x;y\n" + "".join(f"{cell};{place}\n" for place, cell in enumerate(cells)))
    frame = pd.DataFrame({"x": cells, "y": range(len(cells))})
    for source, options in ((tmp_path / "table.csv", {"separator": "semicolon", **marks}), (frame, marks)):
        if wanted is None:
            with pytest.raises(ZooError, match="x"):
                load_data(source, **options)
        else:
            np.testing.assert_array_equal(load_data(source, **options).x[:, 0], wanted)
