"""A table filled in as it is written: text by text."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from inference.cli.runs.config import compose, expand
from inference.cli.runs.inspecting import overrides_of
from inference.predictions.imputation import cell_lines
from inference.report.filled import as_written, filled_in, numbers
from models import MODELS, load_data
from models.cells.style import Style

ROWS = ("1;2,50;b;010;3", "?;1,25;a;011;1", "3;na;;012;-", "10;3,0;b;013;0")


def imputed():
    """What could be imputed: by hand."""
    cells = [(1, "whole", 4.4), (2, "part", 1.6789), (2, "kind", 1), (2, "moons", 2)]
    number = np.array([True, True, False, True])
    value = np.array([cell[2] for cell in cells], float)
    return xr.Dataset(
        {
            "imputed": (("draw", "cell"), value + np.linspace(-1, 1, 201)[:, None]),
            "imputed_mean": ("cell", np.where(number, value, np.nan)),
            "imputed_sd": ("cell", np.where(number, 0.5, np.nan)),
            "imputed_mode": ("cell", np.where([False, False, True, True], value, np.nan)),
            "imputed_level": ("cell", ["", "", "b", ""]),
            "imputed_probs": (("cell", "level"), np.where(number[:, None], np.nan, [[0.25, 0.75]])),
        },
        coords={"cell_row": ("cell", [cell[0] for cell in cells]), "cell_column": ("cell", [cell[1] for cell in cells])},
    )


def test_a_file_keeps_its_own_writing(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["whole;part;kind;id;moons", *ROWS]) + "\n")
    types = ["data.types.id=identifier", "data.types.moons=count"]
    config = compose([f"data.path={path}", "data=file", "data.separator=semicolon", "data.decimal=comma", *types])
    options = {"separator": "semicolon", "decimal": "comma", "types": {"id": "identifier", "moons": "count"}}
    data = load_data(str(path), **options)
    model = MODELS["mixed_mixture"](data, num_components=2)
    written = as_written(config, data)
    table, mask = filled_in(model, imputed(), data, written)
    expected = ["1;2,50;b;010;3", "4;1,25;a;011;1", "3;1,68;b;012;2", "10;3,0;b;013;0"]
    assert table.to_csv(index=False, sep=written.separator).splitlines()[1:] == expected
    assert mask.to_numpy().tolist() == [[0] * 5, [1, 0, 0, 0, 0], [0, 1, 1, 0, 1], [0] * 5]


def test_other_tables_are_written_with_their_whole_numbers():
    frame = pd.DataFrame(
        {"whole": [1.0, np.nan, 3.0, 10.0], "part": [2.5, 1.25, np.nan, 3.0], "kind": list("ba") + [None, "b"]}
    )
    data = load_data(frame.assign(moons=[3.0, 1.0, None, 0.0]), types={"moons": "count"})
    model = MODELS["mixed_mixture"](data, num_components=2)
    table, _ = filled_in(model, imputed(), data, as_written(compose(["data=iris"]), data))
    assert table.to_csv(index=False).splitlines()[1:] == ["1,2.5,b,3", "4,1.25,a,1", "3,1.68,b,2", "10,3.0,b,0"]


def test_missing_cells_are_listed_with_intervals():
    data = load_data(
        pd.DataFrame({"whole": [1.0, 2.0], "part": [0.5, 1.0], "kind": ["a", "b"], "moons": [1, 2]}), types={"moons": "count"}
    )
    found = cell_lines(MODELS["mixed_mixture"](data, num_components=2), imputed(), first_row=10)
    assert found["row"].tolist() == [12, 13, 13, 13]
    assert found["imputed"].tolist() == [4.4, 1.6789, "b", 2]
    np.testing.assert_allclose(found["eti89_ub"] - found["eti89_lb"], [1.78, 1.78, np.nan, 1.78])
    np.testing.assert_array_equal(found["probability"], [np.nan, np.nan, 0.75, np.nan])


@pytest.mark.parametrize(
    ("given", "decimal", "expected"),
    [
        (["1", "20"], ".", "3"),
        (["1.5", "20"], ".", "3.1"),
        (["1,25", "+2,5"], ",", "3,14"),
        (["1e-3", "2"], ".", repr(3.14159)),
        (["0.12345678"], ".", repr(3.14159)),
        ([], ".", repr(3.14159)),
    ],
)
def test_numbers_have_the_decimals_of_their_column(given, decimal, expected):
    assert numbers(np.array([3.14159]), pd.Series(given, dtype=str), Style(decimal=decimal)) == [expected]


def test_dates_and_units_are_written_as_such(tmp_path):
    """A number that is filled in has the unit of its column, a date its marks and order; what was there stays as it was."""
    path = tmp_path / "table.csv"
    path.write_text("whole;part;kind;moons\n1/2/1970;59,4 kg;b;3\n;140 lb;a;1\n3.2.1970;;;\n4/2/1970;61,2 kg;b;0\n")
    repairs = {"units": {"part": "kg"}, "dates": {"whole": "dmy"}}
    given = ["data.units.part=kg", "data.dates.whole=dmy", "data.types.moons=count"]
    config = compose([f"data.path={path}", "data=file", "data.separator=semicolon", "data.decimal=comma", *given])
    data = load_data(str(path), separator="semicolon", decimal="comma", types={"moons": "count"}, **repairs)
    np.testing.assert_allclose(data.x[:2, list(data.columns).index("part")], [59.4, 140 * 0.45359237])
    table, mask = filled_in(MODELS["mixed_mixture"](data, num_components=2), imputed(), data, as_written(config, data))
    assert table["whole"].tolist() == ["1/2/1970", "5/1/1970", "3.2.1970", "4/2/1970"]
    assert table["part"].tolist() == ["59,4 kg", "140 lb", "1,7 kg", "61,2 kg"]
    assert mask["whole"].tolist() == [0, 1, 0, 0]


FORMATS = {  # cells of a column with one that is missing; options; the value that is filled in, and how it is written
    "thousands with commas": (["1,234.5", "12,345.25", "", "999.0"], {"thousands": "comma"}, 5432.109, "5,432.11"),
    "below a thousand": (["1,234", "12,345", "", "999"], {"thousands": "comma"}, 432.4, "432"),
    "points and a decimal comma": (
        ["1.234,5", "12.345,2", "", "999,0"],
        {"thousands": "point", "decimal": "comma"},
        5432.19,
        "5.432,2",
    ),
    "spaces": (["1 234", "12 345", "", "999"], {"thousands": "space"}, 5432.1, "5 432"),
    "spaces that do not break": (["1\u00a0234", "12\u00a0345", "", "999"], {"thousands": "space"}, 5432.1, "5\u00a0432"),
    "narrow spaces": (
        ["1\u202f234,5", "12\u202f345,0", "", "9,5"],
        {"thousands": "space", "decimal": "comma"},
        5432.1,
        "5\u202f432,1",
    ),
    "apostrophes": (["1'234", "12'345", "", "1'999"], {"thousands": "apostrophe"}, 5432.1, "5'432"),
    "no thousands": (["1234", "12345", "", "999"], {"thousands": "comma"}, 5432.1, "5432"),
    "a printed minus": (["−5.5", "3.25", "", "−1"], {}, -2.346, "−2.35"),
    "an ordinary minus": (["-5.5", "3.25", "", "-1"], {}, -2.346, "-2.35"),
    "a unit without a space": (["59.4kg", "140lb", "", "71kg"], {"units": {"c": "kg"}}, 63.21, "63.2kg"),
    "a unit with thousands": (
        ["1,059 g", "1,140 g", "", "971 g"],
        {"units": {"c": "g"}, "thousands": "comma"},
        1063.2,
        "1,063 g",
    ),
    "money": (["$5.20", "$7", "", "$1.05"], {"units": {"c": "$"}}, 3.14159, "$3.14"),
    "money behind": (["5,20 €", "7 €", "", "1,05 €"], {"units": {"c": "€"}, "decimal": "comma"}, 3.14159, "3,14 €"),
    "millions": (["$4.4M", "$1.2M", "", "$350K"], {"units": {"c": "$"}}, 2_345_678.0, "$2.3M"),
    "plain numbers with sizes": (["4.4k", "1.2k", "", "999"], {"units": {"c": "1"}}, 2345.0, "2.3k"),
    "days first": (["03/01/2024", "14/01/2024", "", "25/02/2024"], {"dates": {"c": "dmy"}}, 19783.4, "01/03/2024"),
    "months first, short": (["1/3/24", "1/14/24", "", "2/25/24"], {"dates": {"c": "mdy"}}, 19783.4, "3/1/24"),
    "years first": (["2024-01-03", "2024-01-14", "", "2024-02-25"], {"dates": {"c": "ymd"}}, 19783.4, "2024-03-01"),
    "points": (["3.1.2024", "14.1.2024", "", "25.2.2024"], {"dates": {"c": "dmy"}}, 19783.4, "1.3.2024"),
    "names of months": (["3 Jan 2024", "14 Jan 2024", "", "25 Feb 2024"], {"dates": {"c": "dmy"}}, 19783.4, "1 Mar 2024"),
    "American names": (
        ["January 3, 2024", "January 14, 2024", "", "February 25, 2024"],
        {"dates": {"c": "mdy"}},
        19783.4,
        "March 1, 2024",
    ),
    "with a time of day": (
        ["2024-01-03 08:30", "2024-01-14 09:00", "", "2024-02-25 10:15"],
        {"dates": {"c": "ymd"}},
        19783.5,
        "2024-03-01 12:00",
    ),
    "times": (["8:05", "9:10", "", "12:30"], {"units": {"c": "h"}}, 10.5, "10:30"),
    "times with seconds": (["08:05:10", "09:10:00", "", "12:30:59"], {"units": {"c": "min"}}, 500.25, "08:20:15"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_filled_in_is_written_as_its_column(name, tmp_path):
    """Observed cells stand as they stood, and the filled table is read back by the same options."""
    cells, options, value, expected = FORMATS[name]
    frame = pd.DataFrame({"c": cells, "other": ["1", "2", "3", "5"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load_data(tmp_path / "t.csv", **options)
    assert np.isnan(data.x[2, 0])
    config = compose(expand([f"data={tmp_path / 't.csv'}", *overrides_of(options)], False)[0])
    found = xr.Dataset(
        {
            "imputed": (("draw", "cell"), [[value], [value]]),
            **{f"imputed_{name}": ("cell", [one]) for name, one in (("mean", value), ("sd", 1.0), ("mode", np.nan))},
            "imputed_level": ("cell", [""]),
            "imputed_probs": (("cell", "level"), np.full((1, 1), np.nan)),
        },
        coords={"cell_row": ("cell", [2]), "cell_column": ("cell", ["c"])},
    )
    table, _ = filled_in(MODELS["gmm"](data, num_components=1), found, data, as_written(config, data))
    assert table["c"].tolist() == [cells[0], cells[1], expected, cells[3]]
    table.to_csv(tmp_path / "again.csv", index=False)
    again = load_data(tmp_path / "again.csv", **options)
    np.testing.assert_array_equal(np.delete(again.x, 2, 0), np.delete(data.x, 2, 0))
    assert again.x[2, 0] == pytest.approx(value, rel=0.06)
