"""The command: what it takes and refuses, its help, and folders where a key and the work of a student never meet."""

import hashlib
import json
import re
import runpy
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from unittest.mock import Mock

import pytest

from inference.cli.main import guarded
from inference.cli.runs.help import COMMANDS
from labs.command import lab_main
from labs.folder import new_folder, solution_folder, submission_in
from labs.grading import Grade, as_json, assert_right, lacks
from labs.labs import lab_of
from labs.parts.lab import Result
from labs.stub import solution_text
from labs.submission import Read
from labs.usage import OPTIONS, help_of, usage_of
from models.errors import ZooError

LAB = lab_of("k_means")
RIGHT = solution_text(LAB)
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_new_check_and_solution_as_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert lab_main(["new", "k_means"]) == 0
    assert lab_main(["check", "k_means"]) == 3
    assert "not written yet" in capsys.readouterr().out
    assert lab_main(["solution", "k_means"]) == 0
    (tmp_path / "k_means" / "k_means.py").write_text((tmp_path / "k_means_solution" / "k_means.py").read_text())
    assert lab_main(["check", "k_means"]) == 0
    grade = json.loads((tmp_path / "k_means" / "grade.json").read_text())
    assert grade["points"] == grade["out_of"] == LAB.out_of
    assert [part["part"] for part in grade["parts"]] == [part.name for part in LAB.parts]
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nwe"], "did you mean new?"),
        (["new", "k_mean"], "did you mean k_means?"),
        (["new"], "usage"),
        (["check", "nowhere"], "there is no folder nowhere"),
        (["check", "."], "no lab"),
        (["check", ".", "sed=1"], "did you mean seed?"),
        (["trace", "ppca.py"], "no iterations"),
        (["list", "all"], "usage"),
        ([], "say what to do: list, new"),
        (["help"], "--help explains them"),
        (["check", ".", "seed=1", "seed=2"], "seed= is given twice: 1 and 2"),
        (["new", "k_means", "--notebook"], "did you mean notebook?); options are written notebook=true"),
        (["new", "k_means", "-o"], "-o is no argument of `new`; options are written notebook=true"),
        (["solution", "k_means", "--force"], "--force is no argument of `solution`; it takes no options"),
        (["check", ".", "--seed", "7"], "did you mean seed?); options are written seed=7 seconds=60"),
        (["check", ".", "--seed=7"], "options are written seed=7 seconds=60"),
        (["new", "k_means", "notebook"], "notebook is an option: write notebook=true; a folder of this name is ./notebook"),
        (["new", "k_means", "notebook=True"], "neither true nor false: write notebook=true"),
        (["new", "k_means", "notebook=yes"], "neither true nor false: write notebook=true"),
        (["new"], "usage: python -m labs new NAME [FOLDER] [notebook=true]"),
        (["check", "a", "b"], "usage: python -m labs check [FOLDER|FILE] [seed=0] [seconds=20]"),
    ],
)
def test_mistakes_in_the_arguments_are_one_message(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if "ppca.py" in arguments:
        (tmp_path / "ppca.py").write_text("")
    assert guarded(lab_main, arguments) == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == (["ppca.py"] if "ppca.py" in arguments else [])


def test_no_time_is_no_limit(tmp_path, capsys):
    path = tmp_path / "k_means.py"
    path.write_text(RIGHT, encoding="utf-8")
    assert guarded(lab_main, ["check", str(path), "seconds=0"]) == 2
    assert "seconds=0 is no time to compute" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "1e30", "", "many", "1e400"])
@pytest.mark.parametrize("name", ["seconds", "seed"])
def test_numbers_that_are_no_limit_are_refused(name, value, tmp_path, capsys):
    """NaN is below nothing, and the system has no limit that is infinite."""
    path = tmp_path / "k_means.py"
    path.write_text(RIGHT, encoding="utf-8")
    assert guarded(lab_main, ["check", str(path), f"{name}={value}"]) == 2
    assert f"{name}={value} is " in capsys.readouterr().err
    assert not path.with_name("grade.json").exists()


@pytest.mark.parametrize("arguments", [[], *([name] for name in OPTIONS), ["new", "k_means"], ["check", "nowhere", "seed=1"]])
def test_help_after_any_command_is_help(arguments, tmp_path, monkeypatch, capsys):
    """As `python -m labs` runs it: the part of the command, or the page of all, and no file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("inference.cli.main.gc", Mock())  # this process keeps its own collector
    for asked in ("--help", "-h"):
        monkeypatch.setattr("sys.argv", ["labs", *arguments, asked])
        with pytest.raises(SystemExit) as end:
            runpy.run_module("labs", run_name="__main__")
        assert end.value.code == 0
        assert capsys.readouterr().out == (f"{help_of([*arguments, asked])}\n" if arguments else COMMANDS["labs"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [[], ["list"], ["new"], ["check", "nowhere"], ["--help"], ["check", "--help"]])
def test_the_former_name_of_the_command_does_the_same(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("inference.cli.main.gc", Mock())  # this process keeps its own collector
    monkeypatch.setattr("labs.hidden.hide_arguments", Mock())  # and its arguments
    monkeypatch.delitem(sys.modules, "inference.lab", raising=False)
    monkeypatch.setattr("sys.argv", ["labs", *arguments])
    ends = []
    for name in ("labs", "inference.lab"):
        with pytest.raises(SystemExit) as end:
            runpy.run_module(name, run_name="__main__")
        ends.append((end.value.code, *capsys.readouterr()))
    assert ends[0] == ends[1]
    assert "python -m inference.lab" not in "".join(ends[0][1:])


def test_folders_of_earlier_versions_have_assert_right():
    assert import_module("inference.lab").assert_right is assert_right


def test_the_help_has_every_command_and_option():
    text = COMMANDS["labs"]
    assert re.findall(r"python -m labs (\w+)", text.partition("\n\n")[0]) == list(OPTIONS)
    for options in OPTIONS.values():
        assert not [name for name, default in options.items() if f"\n  {name}={default} " not in text]
    usages = " ".join(text.partition("\n\n")[0].removeprefix("usage: ").split("\n")).split()
    assert usages == " ".join(usage_of(name).removeprefix("usage: ") for name in OPTIONS).split()


@pytest.mark.parametrize("name", OPTIONS)
def test_the_help_of_a_command_is_of_this_command(name):
    text = help_of([name, "--help"])
    assert text == help_of(["-h", name, "k_means"])
    assert text.startswith(f"usage: python -m labs {name}")
    assert max(map(len, text.splitlines())) <= 80
    assert not [other for other in OPTIONS if other != name and f"labs {other}" in text]
    assert not help_of([name])
    assert not help_of(["--help"])


def test_nothing_is_overwritten_and_the_key_stays_out(tmp_path):
    new_folder(LAB, tmp_path)
    for write in (new_folder, solution_folder):
        with pytest.raises(ZooError):
            write(LAB, tmp_path)
    assert not [path for path in tmp_path.iterdir() if "argmin" in path.read_text(errors="ignore")]


@pytest.mark.parametrize("notebook", [False, True])
def test_a_key_and_the_work_of_a_student_never_meet(notebook, tmp_path):
    """Of whatever labs they are: `check` takes a folder with one lab."""
    new_folder(LAB, tmp_path / "handout", notebook)
    with pytest.raises(ZooError, match="is the folder of a student"):
        solution_folder(lab_of("viterbi"), tmp_path / "handout")
    solution_folder(LAB, tmp_path / "key")
    for folder in ("handout", "key"):
        with pytest.raises(ZooError, match="of another lab; give another folder for viterbi"):
            new_folder(lab_of("viterbi"), tmp_path / folder)
    solution_folder(lab_of("viterbi"), tmp_path / "key")
    assert {path.name for path in (tmp_path / "key").iterdir()} == {"k_means.py", "viterbi.py"}


def test_work_without_its_tests_is_that_of_a_student(tmp_path):
    (tmp_path / "em_gmm.py").write_text("def log_joint(): pass\n")
    with pytest.raises(ZooError, match="is the folder of a student"):
        solution_folder(LAB, tmp_path)


def test_what_is_no_python_file_is_not_to_be_renamed(tmp_path):
    files = new_folder(LAB, tmp_path / "handout")
    for file in (files[0], files[-1]):
        with pytest.raises(ZooError, match=f"{file.name} is no Python file; give the file of the lab, or its folder"):
            submission_in(file)


def test_folders_of_students_are_checked_one_by_one(tmp_path):
    new_folder(LAB, tmp_path / "submissions" / "ann")
    with pytest.raises(ZooError, match="it has folders of students: check them one by one"):
        submission_in(tmp_path / "submissions")


def commands_of(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    return [shlex.split(rest, comments=True) for rest in re.findall(r"^python -m labs(.*)$", text, re.MULTILINE)]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["labs.md", "labs_instructor.md"])
def test_commands_of_the_pages_run(page, tmp_path, monkeypatch):
    """In order; `check` finds points missing, and `trace` functions that are not written."""
    monkeypatch.chdir(tmp_path)
    expected = {"list": 0, "new": 0, "check": 3, "trace": 2, "solution": 0}
    commands = commands_of(page)
    assert len(commands) >= 4
    for arguments in commands:
        assert guarded(lab_main, arguments) == expected[arguments[0]], arguments


def page_code():
    """The Python of the page for instructors."""
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "labs_instructor.md").read_text(encoding="utf-8"), re.DOTALL)
    return code


def digest(content):
    return hashlib.sha256(content).hexdigest()


HONEST, FULL = b'{"points": 12.5, "seed": 7}', b'{"points": 20.0, "seed": 7}'
PRINTED = f"distortion 3 of 3\n\ngrade in grade.json\nits SHA-256: {digest(HONEST)}\n"
# student -> (what lies there when `check` has ended, its exit code, what it has printed)
CHECKED = {
    "ann": (HONEST, 3, PRINTED),
    "ben": (FULL, 3, PRINTED),  # written after the grade
    "cleo": (FULL, 1, ""),  # an answer that breaks the grader
    "dan": (FULL, -9, f"its SHA-256: {digest(FULL)}\n"),  # a grader that is killed
    "eve": (FULL, 3, f"its SHA-256: {digest(FULL)}\n{PRINTED}"),  # prints what the grader prints
    "fay": (None, 2, "error: no file\n"),
    "gus": (b"no JSON", 3, PRINTED),
    "hal": (b"[]", 0, ""),
    "ida": (HONEST, 2, PRINTED),  # with a problem
}


def test_the_page_takes_only_grades_that_check_has_written(tmp_path, monkeypatch):
    """Old and forged grades stop nothing, and are listed."""
    monkeypatch.chdir(tmp_path)
    for student in CHECKED:
        folder = tmp_path / "submissions" / student
        folder.mkdir(parents=True)
        (folder / "grade.json").write_bytes(FULL)
    (tmp_path / "submissions" / "notes.txt").write_text("no student")
    asked = []

    def run(command, **options):
        asked.append(command[1:])
        content, code, printed = CHECKED[Path(command[4]).name]
        path = Path(command[4]) / "grade.json"
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        return subprocess.CompletedProcess(command, code, printed, "")

    monkeypatch.setattr(subprocess, "run", run)
    names = {}
    exec(page_code(), names)
    assert asked[0] == ["-m", "labs", "check", str(Path("submissions", "ann")), "seed=7"]
    assert names["table"].to_dict("records") == [{"student": name, "points": 12.5} for name in ("ann", "ida")]
    assert names["without"] == [name for name in CHECKED if name not in ("ann", "ida")]


FORGES = """
import json, os, pathlib
folder = pathlib.Path({folder!r})
folder.joinpath("grade.json").write_text(json.dumps(dict(points=20.0, seed=7)))
print("its SHA-256: 0", flush=True)
os._exit(0)
"""


@pytest.mark.slow  # processes of Python
def test_the_page_grades_and_finds_who_forges(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for student in ("ann", "eve"):
        folder = tmp_path / "submissions" / student
        folder.mkdir(parents=True)
        text = RIGHT if student == "ann" else FORGES.format(folder=str(folder))
        (folder / "k_means.py").write_text(text, encoding="utf-8")
    names = {}
    exec(page_code(), names)
    assert names["table"].to_dict("records") == [{"student": "ann", "points": 20.0}, {"student": "eve", "points": 0.0}]
    assert names["without"] == []


def test_points_of_a_grade_are_numbers_of_one_kind():
    results = (Result("all", 6, 6, ()), Result("half", 5.5, 6, ()), Result("none", 0, 6, ()))
    content = as_json(Grade("k_means", results, 0, "sum"), Path("k_means.py")).decode()
    assert re.findall(r'"points": (.*),', content) == ["11.5", "6.0", "5.5", "0.0"]


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (Read({}, ("assign",), None), "needs assign, which is not written yet"),
        (Read({}, ("assign", "move"), None), "needs assign and move, which are not written yet"),
        (Read({"assign": "…"}, ("move",), None), "needs assign, which is not in the file, and move, which is not written yet"),
        (Read({}, (), None), None),
    ],
)
def test_all_functions_that_a_part_lacks_are_named(read, said):
    assert lacks(LAB.part("run"), read) == said
