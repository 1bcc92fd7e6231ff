"""A table filled in as it is written: text by text."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from inference.cli.runs.config import compose
from inference.predictions.imputation import cell_lines
from inference.report.filled import as_written, filled_in, numbers
from models import MODELS, load_data

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
    assert numbers(np.array([3.14159]), pd.Series(given, dtype=str), decimal) == [expected]


def test_dates_and_units_are_written_as_such(tmp_path):
    """A number that is filled in has the unit of its column, a date its year in front; what was there stays as it was."""
    path = tmp_path / "table.csv"
    path.write_text("whole;part;kind;moons\n1/2/1970;59,4 kg;b;3\n;140 lb;a;1\n3.2.1970;;;\n4/2/1970;61,2 kg;b;0\n")
    repairs = {"units": {"part": "kg"}, "dates": {"whole": "dmy"}}
    given = ["data.units.part=kg", "data.dates.whole=dmy", "data.types.moons=count"]
    config = compose([f"data.path={path}", "data=file", "data.separator=semicolon", "data.decimal=comma", *given])
    data = load_data(str(path), separator="semicolon", decimal="comma", types={"moons": "count"}, **repairs)
    np.testing.assert_allclose(data.x[:2, list(data.columns).index("part")], [59.4, 140 * 0.45359237])
    table, mask = filled_in(MODELS["mixed_mixture"](data, num_components=2), imputed(), data, as_written(config, data))
    assert table["whole"].tolist() == ["1/2/1970", "1970-01-05", "3.2.1970", "4/2/1970"]
    assert table["part"].tolist() == ["59,4 kg", "140 lb", "1,7 kg", "61,2 kg"]
    assert mask["whole"].tolist() == [0, 1, 0, 0]
