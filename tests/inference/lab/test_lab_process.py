"""A student's process: limits of computing and of waiting, a copy to work on, and files that import the answers."""

import json

import pytest

from inference.cli.main import guarded
from inference.lab.command import lab_main
from inference.lab.folder import new_folder, submission_in
from inference.lab.grading import grade_of
from inference.lab.labs import LABS, lab_of
from inference.lab.notebook import notebook_of
from inference.lab.stub import model_text, solution_text
from inference.lab.submission import collected, copied, read_alone
from models.errors import ZooError

LAB = lab_of("k_means")
RIGHT = solution_text(LAB)
SLOW = "\n\nimport time\n{}\n\ndef distortion(x, labels, centres):\n    {}\n    return ((x - centres[labels]) ** 2).sum()\n"


def answer(folder, seconds, before="", body="pass"):
    path = folder / "k_means.py"
    path.write_text(RIGHT + SLOW.format(before, body), encoding="utf-8")
    return collected(LAB, path, "distortion", 0, seconds)


@pytest.mark.slow  # it waits
def test_right_code_on_a_busy_machine_passes(tmp_path, monkeypatch):
    """A sleep stands for the time that other programs take: it is longer than the limit, and no computing."""
    monkeypatch.setattr("inference.lab.submission.START", 2.0)
    assert not answer(tmp_path, 1.0, before="time.sleep(5)").notes


@pytest.mark.slow  # it waits
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("while True: pass", "takes more than 1 seconds of computing time: does a loop never end?"),
        ("time.sleep(1000)", "has used less than 1 seconds of computing time, but it does not end: does it wait"),
    ],
)
def test_the_message_says_which_limit_it_was(body, words, tmp_path, monkeypatch):
    monkeypatch.setattr("inference.lab.submission.START", 1.0)
    monkeypatch.setattr("inference.lab.submission.WAITING", 100.0 if "while" in body else 5.0)
    assert answer(tmp_path, 1.0, body=body).notes["all"].startswith(words)


DELETES = "import pathlib, shutil\nshutil.rmtree(pathlib.Path(__file__).parent)\n"


@pytest.mark.slow  # a whole grade
def test_a_file_that_deletes_its_folder_is_graded(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    new_folder(LAB, tmp_path / "k_means")
    path = tmp_path / "k_means" / "k_means.py"
    path.write_text(DELETES + RIGHT, encoding="utf-8")
    assert guarded(lab_main, ["check", "k_means"]) == 0
    assert json.loads(path.with_name("grade.json").read_text())["points"] == LAB.out_of
    assert path.read_text() == DELETES + RIGHT


def test_a_file_that_deletes_its_folder_leaves_it_there(tmp_path):
    path = tmp_path / "k_means.py"
    path.write_text(DELETES + RIGHT, encoding="utf-8")
    assert read_alone(LAB, path, 10.0).problem is None
    assert path.is_file()


def test_a_copy_has_helpers_and_packages(tmp_path):
    folder = tmp_path / "work"
    (folder / "helpers").mkdir(parents=True)
    (folder / "pictures").mkdir()
    for name in ("viterbi.py", "tools.py", ".secret", "helpers/__init__.py", "pictures/large.bin"):
        (folder / name).write_text("x = 1\n")
    copy = copied(folder / "viterbi.py", tmp_path / "copy")
    assert copy == tmp_path / "copy" / "viterbi.py"
    assert {path.name for path in copy.parent.iterdir()} == {"viterbi.py", "tools.py", "helpers"}


@pytest.mark.parametrize(
    "line",
    [
        "from inference.lab.solutions.k_means import *",
        "from inference.lab.solutions import k_means",
        "import inference.lab.labs.k_means as right",
        "from inference.lab import solutions",
        "import importlib; globals().update(vars(importlib.import_module('inference.lab.solutions.k_means')))",
    ],
)
def test_a_file_that_imports_the_answers_wins_nothing(line, tmp_path):
    path = tmp_path / "k_means.py"
    path.write_text(f"from inference.lab import assert_right\n{line}\n{RIGHT}", encoding="utf-8")
    grade = grade_of(LAB, path)
    assert grade.points == 0
    assert grade.problem.startswith("k_means.py imports inference.lab.")
    assert grade.problem.endswith("it has the answers; write the functions yourself")


def test_assert_right_may_be_imported(tmp_path):
    path = tmp_path / "k_means.py"
    path.write_text(f"from inference.lab import assert_right\n{RIGHT}", encoding="utf-8")
    assert read_alone(LAB, path, 10.0).problem is None


def test_a_file_of_another_name_is_told_the_name(tmp_path):
    (tmp_path / "my_viterbi.py").write_text("x = 1\n")
    for where in (tmp_path, tmp_path / "my_viterbi.py"):
        with pytest.raises(ZooError, match=r"my_viterbi.py.*the file of the lab viterbi is viterbi.py: rename it"):
            submission_in(where)


@pytest.mark.parametrize("name", LABS)
def test_pages_and_notebooks_say_what_the_model_is(name, tmp_path):
    lab = lab_of(name)
    said = model_text(lab)
    assert said
    cells = [cell["source"] for cell in notebook_of(lab)["cells"] if cell["cell_type"] == "markdown"]
    assert [said in cell for cell in cells].count(True) == 1
    assert said in new_folder(lab, tmp_path / name)[0].read_text()


def test_trace_says_first_what_it_does(tmp_path, monkeypatch, capsys):
    """The pictures take seconds."""
    path = tmp_path / "viterbi.py"
    path.write_text("x = 1\n")
    monkeypatch.setattr("inference.lab.trace.trace", lambda lab, path: [capsys.readouterr().out])
    lab_main(["trace", str(path)])
    assert "drawing the run of viterbi: this takes some seconds" in capsys.readouterr().out
