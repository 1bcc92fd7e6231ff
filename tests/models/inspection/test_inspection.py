"""A messy table reads back as the clean one once the proposed options are pasted; each problem is found; nothing else is."""

import numpy as np
import pandas as pd
import pytest

from inference.cli.runs.config import compose, expand
from inference.cli.runs.execute import read_data
from inference.cli.runs.inspecting import overrides_of
from models import ZooError, load_data
from models.cells.dates import days
from models.data.columns import cells_of, typed
from models.inspection.table import inspect_table
from models.reading.units import converted, convertible, quantity

NUM_ROWS = 40


def clean_table(seed):
    """Numbers, dates and levels, with holes; every level occurs often."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "weight": np.round(rng.normal(70, 10, NUM_ROWS), 1),
            "height": np.round(rng.normal(1.7, 0.1, NUM_ROWS), 2),
            "sex": rng.permutation(np.array(["female", "male"])[np.arange(NUM_ROWS) % 2]),
            "diet": rng.permutation(np.array(["meat", "plants", "fish"])[np.arange(NUM_ROWS) % 3]),
            "age": rng.permutation(np.arange(NUM_ROWS) + 20),
        }
    )
    frame.loc[rng.choice(NUM_ROWS, 3, replace=False), "height"] = np.nan
    return frame


def through_the_shell(path, options):
    """The table as the pasted command reads it."""
    return read_data(
        {
            k: v
            for k, v in compose(expand([f"data={path}", *overrides_of(options)], False)[0])["data"].items()
            if k != "test_fraction"
        }
    )


def same_cells(found, wanted, columns):
    for column in columns:
        left, right = cells_of(found, column), cells_of(wanted, column)
        assert left is not None, column
        if any(isinstance(cell, str) for cell in right):
            assert left.tolist() == right.tolist(), column
        else:
            np.testing.assert_allclose(left.astype(float), right.astype(float), rtol=1e-12, err_msg=column)


def written_dates(rng, moments, order):
    """The same days in notations that a reader with this order may mix."""
    forms = {"dmy": ["{d}/{m}/{y}", "{d:02}.{m:02}.{y}"], "mdy": ["{m}/{d}/{y}"], "ymd": ["{y}/{m}/{d}"]}[order]
    forms = [*forms, "{y}-{m:02}-{d:02}", "{d} {name} {y}"]
    names = {moment: moment.strftime("%b") for moment in moments}
    chosen = rng.integers(len(forms), size=len(moments))
    return [forms[c].format(y=m.year, m=m.month, d=m.day, name=names[m]) for c, m in zip(chosen, moments, strict=True)]


@pytest.mark.parametrize("seed", range(8))
def test_a_messy_table_reads_back_as_the_clean_one(tmp_path, seed):
    """Units, marks, dates, spellings, missing cells and a separator at once; then the options, through the shell."""
    rng = np.random.default_rng([seed, 1])
    clean = clean_table(seed)
    moments = [pd.Timestamp("2024-01-13") + pd.Timedelta(days=int(n)) for n in rng.integers(0, 300, NUM_ROWS)]
    moments[0] = pd.Timestamp("2024-03-25")  # tells the order
    order = ["dmy", "mdy", "ymd"][seed % 3]
    comma = bool(seed % 2)

    def number(value, digits):
        text = "" if np.isnan(value) else f"{value:.{digits}f}"
        return text.replace(".", ",") if comma else text

    def weight(value):
        unit = rng.choice([" kg", "kg", "", " g"], p=[0.5, 0.3, 0.1, 0.1])
        return number(value * 1000, 1) + unit if unit == " g" else number(value, 1) + unit

    spellings = {"female": ["female", "female", "female", "f", "Female"], "male": ["male", "male", "male", "M", "Male"]}
    messy = pd.DataFrame(
        {
            "patient": [f"P{n:03}" for n in range(NUM_ROWS)],
            "weight": [weight(value) for value in clean["weight"]],
            "height": [number(value, 2) for value in clean["height"]],
            "sex": [spellings[level][row % 5] for row, level in enumerate(clean["sex"])],
            "diet": clean["diet"],
            "age": clean["age"],
            "visit": written_dates(rng, moments, order),
        }
    )
    messy["diet"] = messy["diet"].where(rng.random(NUM_ROWS) > 0.1, "unknown")
    wanted = clean.assign(
        diet=messy["diet"].where(messy["diet"] != "unknown"), visit=[(m - pd.Timestamp(0)).days for m in moments]
    )
    path = tmp_path / "messy.csv"
    messy.to_csv(path, index=False, sep=[",", ";"][seed % 2])
    found = inspect_table(str(path))
    read = through_the_shell(path, found.options)
    same_cells(read, load_data(wanted, types={"age": "number"}), ["weight", "height", "sex", "diet", "age", "visit"])
    assert read.columns == ("weight", "height", "sex", "diet", "age", "visit")
    assert found.data is not None
    assert not inspect_table(str(path), **found.options).problems


@pytest.mark.parametrize("seed", range(8))
def test_a_clean_table_has_no_problem(tmp_path, seed):
    path = tmp_path / "clean.csv"
    clean = clean_table(seed)
    clean.to_csv(path, index=False)
    for source in (str(path), clean):
        found = inspect_table(source)
        assert found.problems == ()
        assert found.options == {}
        same_cells(found.data, load_data(clean), clean.columns)


@pytest.mark.parametrize("named", ["iris", "wine", "diabetes"])
def test_real_tables_have_no_problem(named):
    from models.reading.readers import to_frame

    assert inspect_table(to_frame(load_data(named))).problems == ()


# One problem each: a column in the place of a clean one, and the options that solve it.
ALONE = {
    "unit": (["59.4 kg", "61 kg"] * 20, {"units": {"new": "kg"}}),
    "several units": (["59.4 kg", "130 lb", "63", "64.5kg"] * 10, {"units": {"new": "kg"}}),
    "unit of its own": (["5.1 mmol/L", "5.3 mmol/L"] * 20, {"units": {"new": "mmol/L"}}),
    "per cent": (["10%", "12.5 %"] * 20, {"units": {"new": "%"}}),
    "money": (["€ 10", "€12.5"] * 20, {"units": {"new": "€"}}),
    "decimal comma": (["1,5", "2,25"] * 20, {"decimal": "comma"}),
    "thousands": (["1,234,567", "2,345.5"] * 20, {"thousands": "comma"}),
    "spaces": (["1 234", "2 345.5"] * 20, {"thousands": "space"}),
    "day first": (["25/1/2024", "3/2/2024"] * 20, {"dates": {"new": "dmy"}}),
    "month first": (["1/25/2024", "3/2/2024"] * 20, {"dates": {"new": "mdy"}}),
    "mixed dates": (["2024-01-25", "3 Feb 2024", "25.2.2024", "4/5/2024"] * 10, {"dates": {"new": "dmy"}}),
    "case": (["yes", "no", "Yes", "no"] * 10, {"merge": {"new": {"Yes": "yes"}}}),
    "abbreviation": (["F", "f", "F", "female", "M", "M"] * 6 + ["M"] * 4, {"merge": {"new": {"f": "F", "female": "F"}}}),
    "accent": (["Zürich", "Zurich", "Zürich", "Bern"] * 10, {"merge": {"new": {"Zurich": "Zürich"}}}),
    "unknown": (["a", "b", "unknown", "b"] * 10, {"missing": ["unknown"]}),
    "slip": ([*map(str, range(38)), "7.5", "oops"], {"missing": ["oops"]}),
    "limit": ([*(str(n / 10) for n in range(39)), "<0.1"], {"missing": ["<0.1"]}),
    "stand-in": ([*(n % 7 for n in range(38)), -99, -99], {"missing": [-99]}),
    "codes": (["007", "012", "123", "007"] * 10, {"types": {"new": "category"}}),
    "identifier": ([f"P{n:03}" for n in range(40)], {"types": {"new": "identifier"}}),
    "running number": (range(1, 41), {"types": {"new": "identifier"}}),
    "replicates": ([f"S-{n // 2:03}" for n in range(40)], {"types": {"new": "identifier"}}),
    "constant": (["same"] * 40, {"types": {"new": "ignore"}}),
    "empty": ([None] * 40, {"types": {"new": "ignore"}}),
    "infinite": ([*(n / 4 for n in range(39)), "inf"], {"missing": ["inf"]}),
    "texts": ([f"the answer of person {n} was {n * n}" for n in range(40)], {"types": {"new": "ignore"}}),
}


@pytest.mark.parametrize("name", ALONE)
def test_each_problem_alone(tmp_path, name):
    """One problem, one remedy; with it there is none left, and the other columns stay as they were."""
    cells, options = ALONE[name]
    clean = clean_table(0)
    path = tmp_path / "table.csv"
    clean.assign(new=list(cells)).to_csv(path, index=False)
    found = inspect_table(str(path))
    assert len(found.problems) == 1, found.problems
    assert found.options == options
    shown = repr(found).splitlines()
    assert shown[0].endswith(": 1 problem")
    assert max(map(len, shown[1:])) <= 80  # a path is not folded
    assert " ".join(repr(found).split()).endswith(f"options: {options}")
    read = through_the_shell(path, found.options)
    same_cells(read, load_data(clean), clean.columns)
    assert inspect_table(str(path), **options).problems == ()


FILES = {
    "separator": ("a;b\n1.5;x\n2.5;y\n3.5;x\n4.5;y\n", {"separator": "semicolon"}),
    "tab": ("a\tb\n1.5\tx\n2.5\ty\n3.5\tx\n4.5\ty\n", {"separator": "tab"}),
}


@pytest.mark.parametrize("name", FILES)
def test_problems_of_files(tmp_path, name):
    text, options = FILES[name]
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    found = inspect_table(str(path))
    assert found.options == options
    assert through_the_shell(path, options).columns == ("a", "b")


def test_an_encoding_is_proposed(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("town,x\nZürich,1.5\nBern,2.5\nZürich,3.5\nBern,4\n".encode("cp1252"))
    found = inspect_table(str(path))
    assert found.options == {"encoding": "cp1252"}
    assert through_the_shell(path, found.options).categories[0] == ("Bern", "Zürich")


NONE = {
    "blood groups": ["A", "AB", "B", "0"] * 10,
    "rhesus": ["A+", "A-", "+", "-"] * 10,
    "Roman": ["I", "II", "III", "IV"] * 10,
    "genotypes": ["AA", "Aa", "aa", "Aa"] * 10,
    "sizes": ["S", "M", "L", "XL"] * 10,
    "elements": ["Na", "K", "Cl", "Na"] * 10,
    "bands": ["18-29", "30-39", "40-49", "50+"] * 10,
    "flats": ["5A", "7B", "12C", "5B"] * 10,
    "ordinals": ["1st", "2nd", "3rd", "1st"] * 10,
    "years": [1999, 2000, 2001, 2020] * 10,
    "whole numbers": [3, -4, 7, 12] * 10,
    "booleans": ["TRUE", "false", "True", "false"] * 10,
    "answers": ["none", "mild", "severe", "none"] * 10,
}


@pytest.mark.parametrize("name", NONE)
def test_what_looks_alike_is_no_problem(tmp_path, name):
    path = tmp_path / "table.csv"
    clean_table(0).assign(new=NONE[name]).to_csv(path, index=False)
    assert inspect_table(str(path)).problems == ()


def test_problems_that_no_option_solves(tmp_path):
    """They are said, and the table is not read in silence."""
    path = tmp_path / "table.csv"
    clean_table(0).assign(new=["1,5", "1,234,567", "2,5", "2.5"] * 10).to_csv(path, index=False)
    assert "decimal in some numbers" in inspect_table(str(path)).problems[0].what
    path.write_text("a,b,a\n1.5,2,3\n2.5,oops,4\n", encoding="utf-8")
    found = inspect_table(str(path))
    assert not found.is_readable
    assert "several columns named 'a'" in found.problems[0].what
    path.write_text("a,b\n1,2\n3,4,5,6\n", encoding="utf-8")
    with pytest.raises(ZooError, match="line 3 has 4 cells, and the lines before have 2"):
        inspect_table(str(path))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("book.xlsx", "PK,abc\n", "is a spreadsheet"),
        ("rows.npy", "\x93NUMPY,abc\n", "holds arrays of NumPy"),
        ("rows.npz", "PK,abc\n", "holds arrays of NumPy"),
        ("table.csv", "", "is empty"),
        ("table.csv", "a,b\n", "has no rows"),
        ("table.csv", "a,b\n1,2\n3,4,5\n", "line 3 has 3 cells, and the lines before have 2"),
    ],
)
def test_what_is_no_table_has_one_message(tmp_path, name, content, words):
    """The same of the reader and of the inspection: there are no columns to list."""
    (tmp_path / name).write_text(content)
    for look in (load_data, inspect_table):
        with pytest.raises(ZooError, match=words):
            look(str(tmp_path / name))


def test_columns_may_be_named_by_numbers(tmp_path):
    """A header of numbers: an option in a command line reads them as such."""
    path = tmp_path / "table.csv"
    path.write_text("3,x,y\n1,2.5 kg,a\n2,3.5 kg,b\n7,4.5 kg,a\n", encoding="utf-8")
    found = inspect_table(str(path), keep=3, label="y")
    assert found.options["units"] == {"x": "kg"}


@pytest.mark.parametrize("option", ["label", "weight", "keep", "columns", "sequence"])
def test_a_column_that_the_table_lacks_is_a_slip_of_the_command(tmp_path, option):
    clean_table(0).to_csv(tmp_path / "table.csv", index=False)
    given = ["wait"] if option in ("keep", "columns") else "wait"
    with pytest.raises(ZooError, match=r"no column 'wait' \(did you mean weight\?\)"):
        inspect_table(str(tmp_path / "table.csv"), **{option: given})


def test_ambiguous_dates_are_said_to_be(tmp_path):
    path = tmp_path / "table.csv"
    clean_table(0).assign(new=["3/2/2024", "4/5/2024"] * 20).to_csv(path, index=False)
    (problem,) = inspect_table(str(path)).problems
    assert "which one is right?" in problem.advice
    assert "mdy" in problem.advice


# ---------------------------------------------------------------------------------------------------------------------
# The parts


def test_days_are_those_of_pandas():
    rng = np.random.default_rng(0)
    for moment in pd.Timestamp("1905-01-01") + pd.to_timedelta(rng.integers(0, 60_000, 200), unit="D"):
        expected = (moment - pd.Timestamp(0)).days
        for form, order in (
            ("%d/%m/%Y", "dmy"),
            ("%m-%d-%Y", "mdy"),
            ("%Y.%m.%d", "mdy"),
            ("%d %B %Y", "ymd"),
            ("%b %d, %Y", "dmy"),
        ):
            assert days(moment.strftime(form), order) == expected
    assert days("2024-01-01T06:00:00Z", "ymd") == days("2024-01-01", "dmy") + 0.25
    assert [days(cell, "dmy") for cell in ("30/2/2024", "13/13/2024", "1.2.3", "2024", "25:00", "")] == [None] * 6


@pytest.mark.parametrize("units", [("kg", "lb"), ("cm", "in"), ("°C", "°F"), ("h", "min"), ("L", "mL"), ("K", "°C")])
def test_conversions_undo_one_another(units):
    one, two = units
    for value in (0.0, 1.0, -3.5, 59.4):
        assert converted(converted(value, one, two), two, one) == pytest.approx(value, abs=1e-12)
        assert converted(value, one, one) == value
    assert convertible(one, two)
    assert not convertible(one, "mmol/L")
    assert converted(212, "°F", "°C") == pytest.approx(100)
    assert converted(12, "inches", "ft") == pytest.approx(1)


def test_millimolar_is_no_millimetre():
    assert not convertible("mM", "mm")
    assert quantity("2 mM").unit == "mM"
    assert quantity("12 h 30") is None


def test_given_options_are_kept():
    """What the user has declared is no problem, and stays."""
    frame = clean_table(0).assign(weight=[f"{value} kg" for value in clean_table(0)["weight"]])
    found = inspect_table(frame, label="sex", units={"weight": "g"}, missing=["fish"])
    assert found.problems == ()
    assert found.options == {"label": "sex", "units": {"weight": "g"}, "missing": ["fish"]}
    assert typed(found.data).x[:, 0] == pytest.approx(1000 * clean_table(0)["weight"].to_numpy())


def test_a_word_that_is_a_value_elsewhere_is_not_proposed_as_missing(tmp_path):
    """A spelling of a missing cell holds for the whole table: proposed for one column, it would empty cells of another."""
    rng = np.random.default_rng(0)
    height = rng.normal(1.7, 0.1, NUM_ROWS).round(2).astype(str)
    height[3] = "broken"
    frame = pd.DataFrame({"height": height, "weight": rng.normal(70, 9, NUM_ROWS).round(1)})
    frame["pets"] = rng.permutation(np.array(["broken", "cat", "dog", "fish"])[np.arange(NUM_ROWS) % 4])
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    found = inspect_table(str(path))
    (problem,) = [problem for problem in found.problems if problem.column == "height"]
    assert found.options == {"merge": {"height": {"broken": ""}}}
    assert "'broken' is a value of column 'pets', too" in problem.advice
    same_cells(through_the_shell(path, found.options), load_data(frame.replace({"height": "broken"}, np.nan)), frame.columns)
    frame.drop(columns="pets").to_csv(path, index=False)
    assert "broken" in inspect_table(str(path)).options["missing"]
