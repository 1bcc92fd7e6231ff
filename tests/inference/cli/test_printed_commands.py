"""Every command and every option that is printed about a table runs on this table, and reads what pandas reads."""

import re
import shlex
import subprocess
from itertools import chain

import numpy as np
import pandas as pd
import pytest

from inference.cli.main import guarded
from inference.cli.predicting import merged, parsed
from inference.cli.runs.config import compose, expand
from inference.cli.runs.execute import read_data
from inference.cli.runs.inspecting import inspect_main, refusal_of
from models import ZooError, inspect_table, load_data
from models.cells.overrides import LISTS, TEXTS, alternatives, override, read_override
from models.data.columns import cells_of, typed

ARGUMENT = re.compile(r"(?<!\w)'data\.(?:[^']|'\"'\"')*'|data\.[\w.:@%+/-]+=[^\s,;)']+")
NAMES = [
    "Größe (cm)", "a=b", "#1", 'say "x"', "it's", "x.y.z", "C:\\dir", "back\\", "a, b", "[kg]", "{x: y}", "null", "7", "-x",
    "$HOME", "50 %", "*", "~", "p & q", "true", "x={y", "(open", "open]", '"', "a:b", "?", "`id`", "!1", "a|b", "naïve,'s",
]  # fmt: skip


def printed_command(capsys, path, *given):
    """What inspecting prints, and the arguments of its command after ``inference.run``."""
    assert guarded(inspect_main, [str(path), *given]) == 0
    said = capsys.readouterr().out
    words = shlex.split(said.partition("this command reads the table as above:\n")[2].replace("\\\n", " "))
    assert words[:5] == ["uv", "run", "python", "-m", "inference.run"]
    return said, words[5:]


def read_by(arguments):
    section = compose(expand(arguments, False)[0])["data"]
    return read_data({key: value for key, value in section.items() if key != "test_fraction"})


def options_by(arguments):
    section = compose(expand(["data=table.csv", *arguments], False)[0])["data"]
    return {name: section[name] for name in {read_override(argument).name for argument in arguments}}


def require_arguments_run(text, path, options):
    """Every argument in a text reads the table, with the options of the table as a whole; returns the arguments.

    One that is proposed for a column is in place of what was proposed for it before.
    """
    found = [shlex.split(argument)[0] for argument in ARGUMENT.findall(text) if "=<" not in argument]
    for argument in found:
        given = options_by([argument])
        one = read_override(argument)
        columns = {one.column, *([one.value] if isinstance(one.value, str) else one.value or [])}
        others = {
            name: {column: value for column, value in values.items() if column not in columns}
            if isinstance(values, dict)
            else values
            for name, values in options.items()
        }
        merged = {
            name: {**others.get(name, {}), **value} if isinstance(value, dict) else value for name, value in given.items()
        }
        if one.name == "text":
            others = {name: others[name] for name in ("separator", "encoding") if name in others}
        load_data(str(path), **others | merged)
    return found


def without(values, columns):
    return {column: value for column, value in values.items() if column not in columns} if isinstance(values, dict) else values


def table_with(name):
    """A table with a problem of each kind in columns that are called ``name`` and a letter, and its right reading."""
    frame = pd.DataFrame(
        {
            f"{name}i": [f"P-{number:02}" for number in range(10)],
            f"{name}u": ["59.4 kg", "140 lb", "71 kg", "80", "66 kg", "77.5 kg", "58 kg", "69 kg", "70 kg", "61 kg"],
            f"{name}d": [f"{day}/1/2024 3:05 PM" for day in range(13, 23)],
            f"{name}m": ["F", "f", "female", "M", "M", "F", "F", "M", "M", "F"],
            f"{name}c": [1.5, 2.5, -99, 3.5, 4.5, 1.25, 2.75, 3, 4, 5],
        }
    )
    right = {
        f"{name}u": [59.4, 140 * 0.45359237, 71, 80, 66, 77.5, 58, 69, 70, 61],
        f"{name}d": [19723 + day - 1 + (15 * 60 + 5) / 1440 for day in range(13, 23)],
        f"{name}m": ["F", "F", "F", "M", "M", "F", "F", "M", "M", "F"],
        f"{name}c": [1.5, 2.5, None, 3.5, 4.5, 1.25, 2.75, 3, 4, 5],
    }
    return frame, right


def assert_reads(data, right):
    data = typed(data)
    for column, cells in right.items():
        found = cells_of(data, column)
        if any(isinstance(cell, str) for cell in cells):
            assert found.tolist() == cells
        else:
            np.testing.assert_allclose(found.astype(float), np.array(cells, dtype=float), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_columns_may_have_any_name(tmp_path, capsys, name):
    """The command, each option below a problem, and the options in its advice; inspecting with them finds nothing more."""
    frame, right = table_with(name)
    path = tmp_path / "my table, (1).csv"
    frame.to_csv(path, index=False)
    said, command = printed_command(capsys, path)
    assert_reads(read_by(command), right)
    overrides = [argument for argument in command if argument.startswith("data.")]
    again, same = printed_command(capsys, path, *overrides)
    assert "no problems" in again
    assert sorted(same) == sorted(command)
    found = inspect_table(path)
    printed = [line.strip() for line in said.splitlines() if line.startswith("     data.") or line.startswith("     'data.")]
    assert {shlex.split(line)[0] for line in printed} == set(overrides)
    assert all(
        len(require_arguments_run(problem.advice, path, found.options))
        for problem in found.problems
        if "data." in problem.advice
    )
    error = refusal_of(ZooError("no"), {"name": "file", "path": str(path)})
    require_arguments_run(str(error), path, found.options)
    (inspect,) = re.findall(r"python -m inference.inspect (.*) shows more", str(error))
    assert shlex.split(inspect) == [str(path)]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_takes_any_name(name):
    """As the quoter writes it; in a sweep it is one value, and beside others it stays itself."""
    for option in TEXTS:
        argument = override(option, name)
        assert read_override(argument) == (option, name, None)
        assert alternatives(argument) == [argument]
        assert options_by([argument]) == {option: name}
    for option in LISTS:
        assert options_by([override(option, [name, "x", name])]) == {option: [name, "x", name]}
    two = [override("units", "kg", name), override("units", "m", "other"), override("merge", {name: "b", "c": name}, name)]
    assert options_by(two) == {"units": {name: "kg", "other": "m"}, "merge": {name: {name: "b", "c": name}}}


def test_quotes_are_what_bash_reads():
    """All options at once, in one shell."""
    arguments = [override(option, name) for name in NAMES for option in ("label", "keep")]
    arguments += [override("merge", {name: "b"}, name) for name in NAMES]
    line = " ".join(map(shlex.quote, arguments))
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == arguments


@pytest.mark.parametrize("name", NAMES)
def test_words_that_are_missing_may_be_anything(tmp_path, capsys, name):
    """One word among numbers: the message of a run, and the inspection, declare it missing by an option that runs."""
    frame = pd.DataFrame({"x": [name, "1.5", "2.5", "3.5", "4.5", "5.25"], "y": [0.5, 1.5, 2.5, 3.5, 4.5, 6.5]})
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    if name in ("7", "?", "*", "null"):  # a number, and spellings that need no option
        np.testing.assert_array_equal(load_data(path).x[0, 0], 7.0 if name == "7" else np.nan)
        return
    if name == "50 %":  # a number in %, as the others may be
        return
    _, command = printed_command(capsys, path)
    np.testing.assert_array_equal(read_by(command).x[:, 0], [np.nan, 1.5, 2.5, 3.5, 4.5, 5.25])
    with pytest.raises(ZooError) as raised:
        load_data(path)
    assert require_arguments_run(str(raised.value), path, {})


MOMENTS = {
    "of America": (["1/14/2024 3:05 PM", "2/1/2024 12:00 AM", "12/31/2023 12:59 PM"], "%m/%d/%Y %I:%M %p"),
    "of America, with seconds": (
        ["1/14/2024 03:05:09 PM", "2/1/2024 12:00:01 AM", "12/31/2023 11:59:59 AM"],
        "%m/%d/%Y %I:%M:%S %p",
    ),
    "in small letters": (["14 Jan 2024 3:05 pm", "1 Feb 2024 11:00 am", "31 Dec 2023 12:30 pm"], "%d %b %Y %I:%M %p"),
    "by the month's name": (
        ["January 14, 2024 3:05 PM", "March 1, 2024 1:00 AM", "May 31, 2023 2:00 PM"],
        "%B %d, %Y %I:%M %p",
    ),
    "of browsers": (
        ["1/14/2024, 3:05\u202fPM", "2/1/2024, 4:10\u202fAM", "12/31/2023, 12:00\u202fPM"],
        "%m/%d/%Y, %I:%M\u202f%p",
    ),
    "with an offset": (["2024-01-14T10:00:00+02:00", "2024-07-01T00:30:00+03:00", "2023-12-31T23:59:59-05:00"], "ISO8601"),
    "with a short offset": (["2024-01-14 10:00:00+02", "2024-02-01 00:30:00-11", "2023-12-31 23:59:00+00"], "ISO8601"),
    "with an offset without a colon": (
        ["2024-01-14T10:00:00+0530", "2024-02-01T01:30:00-0330", "2023-12-31T23:59:59+0000"],
        "ISO8601",
    ),
    "in Greenwich": (["2024-01-14T10:00:00.250Z", "2024-02-01T00:30:00.500Z", "2023-12-31T23:59:59.125Z"], "ISO8601"),
    "of Germany": (["14.01.2024 15:05", "01.02.2024 00:30", "31.12.2023 23:59"], "%d.%m.%Y %H:%M"),
    "with a comma": (["14/01/2024, 15:05:01", "01/02/2024, 00:30:02", "31/12/2023, 23:59:03"], "%d/%m/%Y, %H:%M:%S"),
    "without a time": (["2024/01/14", "2024/02/01", "2023/12/31"], "%Y/%m/%d"),
}


@pytest.mark.parametrize("case", MOMENTS)
def test_dates_that_are_recognised_are_read(tmp_path, capsys, case):
    """By the printed command, by the orders that a model proposes, and as pandas reads them."""
    cells, form = MOMENTS[case]
    path = tmp_path / "table.csv"
    pd.DataFrame({"when": cells * 2, "x": [0.5, 1.5, 2.5, 3.5, 4.5, 5.25]}).to_csv(path, index=False)
    right = (pd.to_datetime(cells * 2, format=form, utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta("1D")
    _, command = printed_command(capsys, path)
    np.testing.assert_allclose(read_by(command).x[:, 0], right, rtol=1e-12)
    try:
        typed(load_data(path))
    except ZooError as error:
        assert len(require_arguments_run(str(error), path, {})) >= 3


@pytest.mark.parametrize(
    "cells",
    [
        ["1/14/2024 3:05 CET", "2/15/2024 4:05 CET"],  # a zone by its name
        ["13/13/2024", "14/14/2024"],  # no date in any order
        ["1/14/2024", "14/1/2024"],  # two orders
        ["1/14/2024 14:05 PM", "2/15/2024 13:05 PM"],
    ],
)
def test_dates_that_cannot_be_read_have_other_remedies(tmp_path, cells):
    """No order is proposed that would be refused, and they are no levels unless the user says so."""
    path = tmp_path / "table.csv"
    pd.DataFrame({"when": cells * 3, "x": np.arange(6) + 0.5}).to_csv(path, index=False)
    with pytest.raises(ZooError, match="holds dates") as raised:
        typed(load_data(path))
    assert "data.dates" not in str(raised.value)
    assert len(require_arguments_run(str(raised.value), path, {})) == 2


@pytest.mark.parametrize(
    ("cells", "right"),
    [
        (["1\u00a0234", "22\u00a0345", "7"], [1234, 22345, 7]),
        (["1\u202f234\u202f567", "22\u202f345", "7"], [1234567, 22345, 7]),
        (["1 234", "22\u202f345", "7\u00a0000"], [1234, 22345, 7000]),
        (["1\u00a0234,5", "22\u00a0345,25", "7,5"], [1234.5, 22345.25, 7.5]),
        (["1\u202f234.5 kg", "22\u202f345 kg", "7 kg"], [1234.5, 22345, 7]),
        (["1'234", "22'345", "7"], [1234, 22345, 7]),
        (["€ 1.234,50", "€ 22,00", "€ 7,5"], [1234.5, 22, 7.5]),
        (["12 %", "7.5 %", "30 %"], [12, 7.5, 30]),
    ],
)
def test_marks_that_are_proposed_read_the_numbers(tmp_path, capsys, cells, right):
    """Whatever space stands between thousands; and so do the options in the message of a run."""
    path = tmp_path / "table.csv"
    pd.DataFrame({"x y": cells * 3, "z": [3, 1, 4, 1, 5, 9, 2, 6, 5]}).to_csv(path, index=False)
    _, command = printed_command(capsys, path)
    np.testing.assert_allclose(read_by(command).x[:, 0], right * 3)
    options = inspect_table(path).options
    try:
        load_data(path)
    except ZooError as error:
        assert require_arguments_run(str(error), path, options)


@pytest.mark.parametrize("name", ["iris", "a b", "x=y.csv", "it's.csv", "a,b.csv", "back\\slash.csv", "${HOME}.csv", "ä.csv"])
def test_files_may_have_any_name(tmp_path, capsys, monkeypatch, name):
    """Also that of a data set: the command reads the file that was inspected."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"x": [0.5, 1.5, 2.5], "y": ["1 kg", "2 kg", "3 kg"]}).to_csv(name, index=False)
    _, command = printed_command(capsys, name)
    np.testing.assert_array_equal(read_by(command).x, [[0.5, 1], [1.5, 2], [2.5, 3]])


def test_steps_and_labels_are_proposed_as_they_can_be_typed(tmp_path, capsys):
    """`data.sequence` in the list of models, with a name that needs quotes and is longer than a line."""
    name = "the machine (in hall 3, at the window) that was measured in the first week of the year"
    frame = pd.DataFrame({name: np.repeat(["a", "b", "c"], 8), "minute": np.tile(np.arange(8) / 2, 3)})
    frame["heat"] = np.random.default_rng(0).normal(size=24).round(2)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    said, _ = printed_command(capsys, path)
    (argument,) = [argument for argument in ARGUMENT.findall(said.replace("data.label=<column>", "")) if "sequence" in argument]
    assert read_by([f"data={path}", *shlex.split(argument)]).starts.tolist() == [0, 8, 16, 24]


def test_a_command_of_two_values_says_how_to_write_one():
    with pytest.raises(ZooError, match="add -m to run them all; a text with a comma needs quotes"):
        compose(["data=table.csv", "data.label=mass, kg"])
    with pytest.raises(ZooError, match=re.escape("a list stands in brackets, 'data.keep=[a,b]'")):
        compose(["data=table.csv", "data.keep=a,b"])
    assert [options_by([one]) for one in chain(*expand(["data.label=a,b"], True))] == [{"label": "a"}, {"label": "b"}]


def test_predictions_take_options_of_single_columns(tmp_path):
    """In place of those of the run for these columns alone; names as in a run."""
    asked = parsed(["run=r", "data=d.csv", f"out={tmp_path / 'o.csv'}", "data.units.a=b=kg", "data.keep=[x y,it's]"])
    assert asked.reading == {"units": {"a=b": "kg"}}
    assert asked.keep == ["x y", "it's"]
    given = merged({"units": {"a=b": "lb", "c": "m"}, "dates": None, "missing": ["-"]}, {**asked.reading, "missing": ["?"]})
    assert given == {"units": {"a=b": "kg", "c": "m"}, "dates": None, "missing": ["?"]}
