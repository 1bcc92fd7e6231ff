"""`inference.inspect` from the shell, and what a run says of a table that it refuses."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from inference.cli.main import guarded, run_main
from inference.cli.runs.config import compose, expand
from inference.cli.runs.execute import read_data
from inference.cli.runs.inspecting import inspect_main, refusal_of
from inference.report.inspection import options_of
from models import ZooError, inspect_table, load_data
from models.cells.overrides import overrides_of

ROOT = Path(__file__).parents[3]
MESSY = """id;weight;crp;visit;sex
A-01;59,4 kg;0,7;3.1.2024;F
A-02;140 lb;1,2;14.1.2024;f
A-03;71 kg;<0,5;25.1.2024;female
A-04;80,5;2,4;30.1.2024;M
A-05;?;3,1;1.2.2024;unknown
A-06;64 kg;2,2;2.2.2024;M
"""


@pytest.fixture
def messy(tmp_path):
    path = tmp_path / "lab results.csv"
    path.write_text(MESSY, encoding="utf-8")
    return path


def test_the_command_can_be_pasted(messy, capsys, monkeypatch):
    """In 80 columns; what it says is what a run reads, and inspecting with it finds nothing more."""
    monkeypatch.setenv("COLUMNS", "80")
    assert guarded(inspect_main, [str(messy)]) == 0
    said = capsys.readouterr().out
    before, _, command = said.partition("this command reads the table as above:\n")
    shown = before.replace(str(messy), "")
    assert all(len(line) <= 80 for line in shown.splitlines()), shown
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:5] == ["uv", "run", "python", "-m", "inference.run"]
    config = compose(expand(words[5:], False)[0])
    assert config["model"]["name"] == "mixed_mixture"
    data = read_data({key: value for key, value in config["data"].items() if key != "test_fraction"})
    assert data.columns == ("weight", "crp", "visit", "sex")
    np.testing.assert_allclose(data.x[:, 0], [59.4, 63.5029318, 71, 80.5, np.nan, 64])
    np.testing.assert_allclose(data.x[:, 1], [0.7, 1.2, np.nan, 2.4, 3.1, 2.2])
    assert data.x[0, 2] == (pd.Timestamp("2024-01-03") - pd.Timestamp(0)).days
    assert len(data.categories[3]) == 2
    overrides = [word for word in words[5:] if word.startswith("data.")]
    assert guarded(inspect_main, [str(messy), *overrides]) == 0
    again = capsys.readouterr().out
    assert "no problems" in again
    assert sorted(shlex.split(again.partition("as above:\n")[2].replace("\\\n", " "))) == sorted(words)


def test_a_refused_run_says_everything_at_once(messy, capsys):
    """One message with all problems, and the command that shows more; nothing is written."""
    assert guarded(run_main, ["model=mixed_mixture", "method=em", f"data={messy}", f"out={messy.parent / 'run'}"]) == 2
    said = capsys.readouterr().err
    for option in ("separator=semicolon", "units.weight=kg", "decimal=comma", "dates.visit=dmy", "merge.sex=", "missing="):
        assert f"data.{option}" in said
    assert f"python -m inference.inspect '{messy}'" in said
    assert not (messy.parent / "run").exists()


def test_a_refused_run_names_no_problem_that_its_own_defaults_make(tmp_path, capsys):
    """`data.block_rows` has a default, and is no option of a table: the one problem is the word among numbers."""
    (tmp_path / "t.csv").write_text("size,weight\n" + "\n".join(f"{n}.5,{n % 7}.25" for n in range(9)) + "\nheavy,1.5\n")
    arguments = ["model=gmm", "method=em", f"data={tmp_path / 't.csv'}", f"out={tmp_path / 'run'}"]
    assert guarded(run_main, arguments) == 2
    said = capsys.readouterr().err
    assert "data.missing=[heavy]" in said
    assert "unknown data option" not in said
    assert "problems of the table" not in said


CELLS = {  # what cells of a column are like, of which all but the first keep a table from being read as numbers
    "numbers": ["1.5", "2.25", "3.5", "4.75", "2.5", "7.25"],
    "a unit": ["59.4 kg", "61", "71 kg", "80", "82", "64"],
    "words": ["1.5", "tall", "3.5", "short", "2.5", "7.25"],
    "one word": ["2.5", "3.5", "odd", "4.5", "6.5", "8.5"],
    "infinite": ["1.5", "inf", "3.5", "4.5", "2.5", "7.5"],
    "a limit": ["<0.5", "1.5", "2.5", "3.5", "1.75", "9.5"],
    "thousands": ["1,234.5", "2,345.5", "3,456.5", "4,567.5", "5,678.5", "6,789.5"],
    "money": ["$4.4M", "$350K", "$3M", "$1M", "$2M", "$7M"],
    "dates": ["3/1/2024", "2024-01-14", "25/1/2024", "30/1/2024", "1/2/2024", "2/2/2024"],
}
LINES = {  # what is wrong with the lines of a file
    "nothing": lambda lines: lines,
    "a title": lambda lines: ["Results of the survey", "", *lines],
    "the separator": lambda lines: ["sep=;", *lines],
    "no names": lambda lines: lines[1:],
    "a total": lambda lines: [*lines, ";".join(["Total", *["9.5"] * lines[0].count(";")])],
    "one name twice": lambda lines: [";".join(["a"] * (1 + lines[0].count(";"))), *lines[1:]],
}


@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("seed", range(12))
def test_a_refusal_says_nothing_twice(tmp_path, lines, seed):
    """Every problem of a table, and every option that solves it, stands once in the message, be it of a cell or of lines."""
    random = np.random.default_rng(seed)
    kinds = ["numbers", *random.choice(list(CELLS), 2, replace=False)]
    rows = zip(*(CELLS[kind] for kind in kinds), strict=True)
    file = tmp_path / "t.csv"
    file.write_text("\n".join(LINES[lines](["a;b;c", *(";".join(row) for row in rows)])) + "\n", encoding="utf-8")
    try:
        load_data(str(file))
    except ZooError as error:
        said = str(refusal_of(error, {"name": "file", "path": str(file)}))
    else:
        return
    found = inspect_table(str(file))
    assert found.problems
    for problem in found.problems:
        assert said.count(problem.what) <= 1, said
        options = [
            option for option in options_of(problem, found.options, overrides_of) if not option.startswith("data.missing=")
        ]
        assert all(len(re.findall(rf"{re.escape(option)}(?![\w.])", said)) == 1 for option in options), said
        assert options or problem.advice in said or problem.what in said or "data.missing=" in said, said
    told = [line for line in said.splitlines() if line]
    assert len(set(told)) == len(told)


def test_the_refusal_of_a_cell_has_the_remedy_of_its_column(tmp_path):
    """A column with two words: the remedy of the first alone would lead to the next refusal."""
    file = tmp_path / "t.csv"
    file.write_text("a,b\n" + "\n".join(f"{word},{n}.5" for n, word in enumerate(CELLS["words"])) + "\n", encoding="utf-8")
    with pytest.raises(ZooError) as caught:
        load_data(str(file))
    said = str(refusal_of(caught.value, {"name": "file", "path": str(file)}))
    assert said.splitlines()[:-1] == [
        f"{file} cannot be read as it is; the problem, with its remedy:",
        "  a: 2 cells are not a number: 'tall' (row 2), 'short' (row 4); count them as missing, or correct the cells, or take "
        "the column as data.types.a=category: 'data.missing=[tall,short]'",
    ]
    assert load_data(str(file), missing=["tall", "short"]).x.shape == (6, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "takes one file, got none"),
        (["a.csv", "b.csv"], "takes one file, got a.csv, b.csv"),
        (["iris"], "there is no file 'iris'"),
        (["tests"], "model=latent_dirichlet method=cavi data=tests \\ data.format=texts"),
        (["TABLE", "data.labl=sex"], "did you mean data.label"),
        (["TABLE", "data.label=nothing", "data.separator=semicolon"], "has no column 'nothing'"),
        (["TABLE", "data.merge.sex=F"], "does not have the form data.merge.<column>={"),
        (["TABLE", "data.dates.visit=day", "data.separator=semicolon"], "is not one of ymd"),
        (["TABLE", "data.encoding=klingon"], "not the name of an encoding"),
    ],
)
def test_mistakes_in_arguments(messy, capsys, arguments, words):
    arguments = [str(messy) if argument == "TABLE" else argument for argument in arguments]
    assert guarded(inspect_main, arguments) == 2
    captured = capsys.readouterr()
    assert words in re.sub(r"\s+", " ", captured.err + captured.out)


def test_inspecting_loads_nothing_heavy(messy):
    """No JAX, NumPyro, ArviZ or Hydra in a fresh process: it starts in a fraction of the time of a run."""
    code = (
        "import sys, runpy\n"
        f"sys.argv = ['inspect', {str(messy)!r}]\n"
        "try: runpy.run_module('inference.inspect', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "heavy = ('jax', 'numpyro', 'arviz_base', 'arviz_stats', 'arviz_plots', 'hydra', 'sklearn', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert out.rstrip().endswith("[]")


ODD = ["a b", "it's", "x=y", "1.5", "null", "{a: b}", 'say "no"', "ä, ö", "dot.ted", "<0,5", "-", "true"]


@pytest.mark.parametrize("name", ODD)
def test_options_survive_the_shell(tmp_path, name):
    """Names of columns, levels and missing cells that mean something to YAML, to Hydra or to the shell."""
    options = {
        "types": {name: "category"},
        "units": {name: "kg/m²"},
        "merge": {name: {name: "b", "c": name}},
        "missing": [name, -99],
    }
    words = shlex.split(" ".join(map(shlex.quote, overrides_of(options))))
    data = compose(expand(["data=table.csv", *words], False)[0])["data"]
    assert {option: data[option] for option in options} == options


def test_what_a_run_was_told_of_columns_is_in_its_configuration(tmp_path):
    """The data section of config.yaml reads the same table."""
    path = tmp_path / "table.csv"
    path.write_text("id,w,sex,n\na,59 kg,F,1\nb,60 kg,f,2\nc,70 kg,M,0\n", encoding="utf-8")
    options = {"units": {"w": "kg"}, "merge": {"sex": {"F": "f"}}, "keep": ["id"], "weight": "n"}
    config = compose(expand([f"data={path}", *overrides_of(options)], False)[0])["data"]
    read = read_data({key: value for key, value in config.items() if key != "test_fraction"})
    direct = load_data(str(path), **options)
    np.testing.assert_array_equal(read.x, direct.x)
    np.testing.assert_array_equal(read.weight, [1, 2, 0])
    assert read.kept_columns[0][1].tolist() == ["a", "b", "c"]


def test_a_model_that_takes_no_such_column_points_to_the_inspection(messy, capsys):
    """A unit makes words of numbers: the model refuses the column, and says where the remedy is."""
    path = messy.parent / "units.csv"
    path.write_text("size,mass\n1.5,2 kg\n2.5,3 kg\n3.5,4 kg\n4.5,2 kg\n")
    assert guarded(run_main, ["model=gmm", "method=em", f"data={path}", "model.num_components=0"]) == 2
    assert "inference.inspect" not in capsys.readouterr().err  # an option is wrong, not the table
    assert guarded(run_main, ["model=gmm", "method=em", f"data={path}"]) == 2
    said = capsys.readouterr().err
    assert "column 'mass'" in said
    assert f"python -m inference.inspect {path} shows all columns)" in said.replace("'", "")
