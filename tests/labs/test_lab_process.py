"""A student's process: limits of computing and of waiting, a copy to work on, and files that import the answers."""

import hashlib
import json
import shutil

import pytest

from inference.cli.main import guarded
from labs import process
from labs.command import lab_main
from labs.folder import new_folder, submission_in
from labs.grading import grade_of
from labs.labs import LABS, lab_of
from labs.notebook import notebook_of
from labs.stub import model_text, solution_text
from labs.submission import collected, copy_of, imports_of_answers, read_alone
from models.errors import ZooError

LAB = lab_of("k_means")
RIGHT = solution_text(LAB)
SLOW = "\n\nimport time\n{}\n\ndef distortion(x, labels, centres):\n    {}\n    return ((x - centres[labels]) ** 2).sum()\n"


def answer(folder, seconds, before="", body="pass"):
    path = folder / "k_means.py"
    path.write_text(RIGHT + SLOW.format(before, body), encoding="utf-8")
    return collected(LAB, copy_of(path), "distortion", 0, seconds)


def read(path):
    return read_alone(LAB, copy_of(path), 10.0)


@pytest.mark.slow  # it waits
def test_right_code_on_a_busy_machine_passes(tmp_path, monkeypatch):
    """A sleep stands for the time that other programs take: it is longer than the limit, and no computing."""
    monkeypatch.setattr("labs.process.START", 2.0)
    assert not answer(tmp_path, 1.0, before="time.sleep(5)").notes


@pytest.mark.slow  # it waits
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("while True: pass", "takes more than 1 seconds of computing time: does a loop never end?"),
        (
            "time.sleep(1000)",
            "does not end within 3 seconds by the clock: does a loop never end, or does it wait for something?",
        ),
    ],
)
def test_the_message_says_which_limit_it_was(body, words, tmp_path, monkeypatch):
    monkeypatch.setattr("labs.process.START", 1.0)
    monkeypatch.setattr("labs.process.WAITING", 100.0 if "while" in body else 1.0)
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
    assert read(path).problem is None
    assert path.is_file()


COPIED = {
    "viterbi.py",
    "tools.py",
    "data.npz",
    "table.csv",
    "helpers/__init__.py",
    "helpers/deep/more.py",
    "helpers/deep/x.csv",
}
LEFT = {
    ".secret.py",
    "film.gif",
    "notes.txt",
    "large.npz",
    "helpers/film.gif",
    "pictures/picture.py",
    "helpers/__pycache__/old.pyc",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("labs.submission.LARGEST", 10)
    for name in COPIED | LEFT:
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * (11 if "large" in name else 10))
    return tmp_path / "folder"


def files_in(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_copy_has_helpers_data_and_packages(folder):
    """And neither pictures, nor large files, nor hidden ones, nor folders that are no package."""
    with copy_of(folder / "viterbi.py").laid_out() as path:
        assert path.name == "viterbi.py"
        assert set(files_in(path.parent)) == COPIED
    assert not path.parent.exists()


CHANGES = {
    "deletes all": lambda folder: shutil.rmtree(folder),
    "deletes one": lambda folder: (folder / "tools.py").unlink(),
    "adds one": lambda folder: (folder / "numpy.py").write_text("x = 1"),
    "writes into one": lambda folder: (folder / "helpers" / "__init__.py").write_text("y" * 10),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_code_changes_is_there_again_for_the_next_process(change, folder):
    work = copy_of(folder / "viterbi.py")
    with work.laid_out() as path:
        before = files_in(path.parent)
        CHANGES[change](path.parent)
    with work.laid_out() as path:
        assert files_in(path.parent) == before


def test_the_folder_is_read_once(folder):
    """A grade is of one version of the file, also where the student goes on writing."""
    work = copy_of(folder / "viterbi.py")
    (folder / "viterbi.py").write_text("later")
    shutil.rmtree(folder / "helpers")
    with work.laid_out() as path:
        assert files_in(path.parent) == dict.fromkeys(COPIED, 10 * "x")
    assert work.sha256 == hashlib.sha256(10 * b"x").hexdigest()


@pytest.mark.parametrize("part", ["", "distortion", "run"])
def test_what_sleeps_ends_a_fixed_time_after_its_limit(part, tmp_path, monkeypatch):
    """Also for the seconds that an instructor gives."""
    limits = []

    def wait(self, pipe, reads):
        limits.append(self._patience - self._seconds - process.START)
        raise process.EndedError("sleeps", f"does not end within …: {process.WAITS}")

    monkeypatch.setattr(process.StudentProcess, "_wait", wait)
    path = tmp_path / "k_means.py"
    path.write_text(RIGHT, encoding="utf-8")
    for seconds in (1.0, 500.0):
        work = copy_of(path)
        said = collected(LAB, work, part, 0, seconds).notes["all"] if part else read_alone(LAB, work, seconds).problem
        assert "does not end" in said
    assert limits == [60.0, 60.0]


@pytest.mark.parametrize(
    "line",
    [
        "from labs.solutions.k_means import *",
        "from labs.solutions import k_means",
        "import labs.labs.k_means as right",
        "from labs import solutions",
        "import importlib; globals().update(vars(importlib.import_module('labs.solutions.k_means')))",
        "import labs; cheat = lambda *given: labs.labs.k_means.assign(*given)",
    ],
)
def test_a_file_that_imports_the_answers_wins_nothing(line, tmp_path):
    path = tmp_path / "k_means.py"
    path.write_text(f"from labs import assert_right\n{line}\n{RIGHT}", encoding="utf-8")
    grade = grade_of(LAB, path)
    assert grade.points == 0
    assert grade.problem.startswith("k_means.py imports labs")
    assert "it has the answers; write the functions yourself" in grade.problem


ROUNDABOUT = {
    "import labs\nlabs.labs.k_means.assign": "labs",
    "import labs as l\nl.stub.key_of": "labs",
    "import labs.student.words": "labs.student.words",
    "from labs import *": "labs",
    "from labs.stub import key_of": "labs.stub.key_of",
    "import importlib\nimportlib.import_module('labs.labs.k_means')": "labs.labs.k_means",
    "from importlib import import_module as load\nload('labs')": "labs",
    "from pkgutil import resolve_name\nresolve_name('labs.stub:key_of')": "labs.stub:key_of",
    "import sys\nsys.modules['labs']": "labs",
    "from sys import modules\nmodules['labs']": "labs",
    "__import__('labs')": "labs",
    "exec(open('labs.py').read())\nload = 'labs.solutions'": "labs.solutions",
    "def f():\n    import labs.labs": "labs.labs",
}


@pytest.mark.parametrize("text", ROUNDABOUT)
def test_the_answers_are_found_on_other_ways(text):
    assert imports_of_answers(text)[0] == ROUNDABOUT[text]


@pytest.mark.parametrize(
    "text",
    [
        "from labs import assert_right as right",
        "from inference.lab import assert_right",  # as folders of earlier versions have it
        "import inference\ninference.fit",
        "import laboratory.labs, labs_of_mine",
        "'Uses labs.solutions'\nlab = x.labs",
        "labs = x.argmin(1)\nlabs.mean()\nfound = {'labs': labs}",
        "import numpy as np\nlabs = np.load('labs.npz')['labs']\nnp.save('labs.labels.npy', labs)",
        "import sys\n'labs of week 3'",
    ],
)
def test_other_imports_are_no_answers(text):
    assert not imports_of_answers(text)


def test_assert_right_may_be_imported(tmp_path):
    path = tmp_path / "k_means.py"
    path.write_text(f"from labs import assert_right\n{RIGHT}", encoding="utf-8")
    assert read(path).problem is None


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


def test_trace_names_a_function_that_is_not_there(tmp_path):
    path = tmp_path / "k_means.py"
    path.write_text("def assign(x, centres):\n    return [0] * len(x)\n")
    with pytest.raises(ZooError, match="do not run: move is not in the file"):
        lab_main(["trace", str(path)])


def test_trace_says_first_what_it_does(tmp_path, monkeypatch, capsys):
    """The pictures take seconds."""
    path, before = tmp_path / "viterbi.py", []
    path.write_text("x = 1\n")

    def trace(lab, path):
        before.append(capsys.readouterr().out)
        return ["drawn"]

    monkeypatch.setattr("labs.trace.trace", trace)
    assert lab_main(["trace", str(path)]) == 0
    assert before == ["drawing the run of viterbi: this takes some seconds\n"]
    assert capsys.readouterr().out == "drawn\n"
