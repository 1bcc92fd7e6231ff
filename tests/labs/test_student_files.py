"""A student's file in a process of its own: what cannot be read, what does not end, what changes its inputs."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from labs.command import lab_main
from labs.folder import new_folder, submission_in
from labs.grading import assert_right, grade_of, judged
from labs.labs import LABS, lab_of
from labs.notebook import notebook_of
from labs.process import StudentProcess
from labs.stub import solution_text
from labs.student.worker import loaded
from labs.submission import Read, collected, copy_of, read_alone
from models.errors import ZooError

LAB = lab_of("k_means")
RIGHT = solution_text(LAB)


def graded(folder, text, **options):
    path = folder / "k_means.py"
    path.write_text(text, encoding="utf-8")
    return grade_of(LAB, path, **options)


def alone(folder, body, seed=0):
    """The result of `distortion` alone, in this process."""
    path = folder / "k_means.py"
    path.write_text(replaced("distortion", body), encoding="utf-8")
    part = LAB.part("distortion")
    return part.judge(part.collect(loaded(path, path.read_text(encoding="utf-8")), seed), seed)


def read(path):
    return read_alone(LAB, copy_of(path), 10.0)


def messages_of(grade, part):
    return next(result.messages for result in grade.results if result.part == part)


def replaced(function, body):
    """The key with another body of one function."""
    head, _, rest = RIGHT.partition(f"def {function}(")
    signature, _, rest = rest.partition("\n")
    tail = rest.partition("\n\n\ndef ")[2]
    return f"{head}def {function}({signature}\n    {body}\n\n\n" + (f"def {tail}" if tail else "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def assign(x, centres)\n    pass\n", "k_means.py is no Python: line 1"),
        ("import nothing_of_this_name\n", "cannot be imported, line 1: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "cannot be imported, line 1: SystemExit"),
        ("import os\nos._exit(5)\n", "ended the Python process (exit code 5)"),
    ],
)
def test_a_file_that_cannot_be_read_gets_one_message(text, words, tmp_path):
    grade = graded(tmp_path, text)
    assert grade.points == 0
    assert words in grade.problem


@pytest.mark.slow
def test_missing_functions_are_named(tmp_path):
    grade = graded(tmp_path, RIGHT.replace("def distortion(", "def distorsion("))
    assert "did you mean distorsion?" in messages_of(grade, "distortion")[0]
    assert grade.points == grade.out_of - 3


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return None", "returns nothing"),
        ("return 1 / 0", "stops with ZeroDivisionError in line"),
        ("x += 1; return ((x - centres[labels]) ** 2).sum()", "changes its argument x"),
        ("return ((x - centres[labels]) ** 2).sum(1)", "has shape (50,); return one number"),
        ("return float('nan')", "is NaN"),
        ("return 'large'", "returns str of <U5, and it should be numbers"),
        ("return 1.0, 2.0", "has shape (2,); return one number"),
        ("return 2 * ((x - centres[labels]) ** 2).sum()", "is 2 times what it should be"),
    ],
)
def test_answers_of_other_kinds_are_named(body, words, tmp_path):
    result = alone(tmp_path, body)
    assert words in result.messages[0]
    assert result.points == 0


@pytest.mark.slow  # it waits
def test_a_function_that_does_not_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("labs.process.START", 3.0)
    path = tmp_path / "k_means.py"
    path.write_text(replaced("distortion", "while True: pass"), encoding="utf-8")
    answer = collected(LAB, copy_of(path), "distortion", 0, 0.5)
    assert "takes more than 0.5 seconds" in judged(LAB.part("distortion"), answer, 0).messages[0]


def test_hard_coded_answers_fail_under_another_seed(tmp_path):
    arguments = [case.arguments for case in LAB.part("distortion").cases(np.random.default_rng(0))]
    values = {len(given["x"]): float(LAB.part("distortion").oracle(*given.values())) for given in arguments}
    body = f"return {values!r}[len(x)]"
    assert alone(tmp_path, body).is_full
    assert not alone(tmp_path, body, seed=1).is_full


@pytest.mark.parametrize("name", LABS)
def test_a_folder_of_every_lab(name, tmp_path):
    lab = lab_of(name)
    files = new_folder(lab, tmp_path / name)
    assert len(files) == 4
    assert submission_in(tmp_path / name) == (lab, tmp_path / name / f"{name}.py")
    for file in files[:3]:
        text = file.read_text()
        assert max(map(len, text.splitlines())) <= 128
        compile(text, file.name, "exec") if file.suffix == ".py" else None


@pytest.mark.parametrize("name", LABS)
def test_a_notebook_has_the_tags_of_nbgrader(name):
    nbformat = pytest.importorskip("nbformat")
    lab = lab_of(name)
    notebook = nbformat.from_dict(notebook_of(lab))
    nbformat.validate(notebook)
    tags = [cell.metadata.nbgrader for cell in notebook.cells]
    assert sum(tag.get("points", 0) for tag in tags) == lab.out_of
    assert {tag.grade_id for tag in tags if not tag.locked} == set(lab.functions)
    assert {tag.grade_id for tag in tags if tag.solution} == (set() if lab.slips else set(lab.functions))
    names: dict = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and not cell.metadata.nbgrader.grade:
            exec(cell.source, names)
    assert set(lab.functions) <= set(names)


@pytest.mark.parametrize("name", LABS)
def test_docstrings_survive_where_nbgrader_clears_solutions(name):
    """It replaces what is between the marks, or a whole solution cell without marks."""
    for cell in notebook_of(lab_of(name))["cells"]:
        if cell["metadata"]["nbgrader"]["solution"]:
            before, _, rest = cell["source"].partition("    ### BEGIN SOLUTION\n")
            body, _, after = rest.partition("\n    ### END SOLUTION")
            assert before.rstrip().endswith('"""')
            assert body == "    raise NotImplementedError"
            assert not after


def test_a_notebook_stands_alone_and_is_not_read_as_python(tmp_path):
    """With a stub beside it, `check` would grade the stub."""
    files = new_folder(LAB, tmp_path / "notebooks", notebook=True)
    assert [file.name for file in files] == ["README.md", "k_means.ipynb", "data.npz"]
    assert "pytest" not in files[0].read_text()
    for where in (files[1], files[1].parent):
        with pytest.raises(ZooError, match="notebook, which its own cells check"):
            submission_in(where)


def test_the_page_lists_every_lab():
    text = (Path(__file__).parents[2] / "docs" / "labs.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(LABS)


def test_assert_right_is_for_parts_of_labs():
    with pytest.raises(ZooError, match="did you mean move"):
        assert_right("k_means", "mov", print)
    with pytest.raises(ZooError, match="needs 2 functions"):
        assert_right("k_means", "run", print)


def stubbed(*functions):
    """The key, where these functions are still those of the stub."""
    text = RIGHT
    for function in functions:
        head, _, rest = text.partition(f"def {function}(")
        signature, _, rest = rest.partition("\n")
        tail = rest.partition("\n\n\ndef ")[2]
        text = f"{head}def {function}({signature}\n    raise NotImplementedError\n" + (f"\n\ndef {tail}" if tail else "")
    return text


@pytest.mark.slow
def test_a_function_that_is_not_written_costs_its_own_points_and_those_of_the_run(tmp_path):
    grade = graded(tmp_path, stubbed("assign"))
    assert messages_of(grade, "assign") == ("is not written yet",)
    assert messages_of(grade, "run") == ("needs assign, which is not written yet",)
    assert messages_of(grade, "k_means") == ()
    assert [result.is_full for result in grade.results] == [False, True, True, True, False]


def test_a_function_that_calls_an_unwritten_one_says_which(tmp_path):
    path = tmp_path / "k_means.py"
    path.write_text(stubbed("assign"), encoding="utf-8")
    part = LAB.part("k_means")
    result = part.judge(part.collect(loaded(path, path.read_text(encoding="utf-8")), 0), 0)
    assert result.messages == ("needs assign, which is not written yet",)


FUTURE = "from __future__ import annotations\nimport dataclasses\n"
RECORD = "\n\n@dataclasses.dataclass\nclass Record:\n    values: list[int]\n"


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + RIGHT.encode(),
        (FUTURE + RIGHT + RECORD).encode(),
        ("# -*- coding: latin-1 -*-\nNAME = 'é'\n" + RIGHT).encode("latin-1", "replace"),
        (RIGHT + "\n\nimport os\nos.write(1, b'\\xff\\xfe'); os.write(2, b'\\xff'); print('σ² 🎲')\n").encode(),
    ],
    ids=["byte-order mark", "dataclass", "latin-1", "prints bytes"],
)
def test_unusual_files_are_read(content, tmp_path):
    path = tmp_path / "k_means.py"
    path.write_bytes(content)
    assert read(path) == Read({}, (), None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os\nos._exit(0)\n", "k_means.py ended the Python process (exit code 0)"),
        ("import os\nos.write(2, b'\\xff\\xfe bad')\nos._exit(1)\n", "ended the Python process (exit code 1)"),
        ("import helper\n", "helper.py, which k_means.py imports, is no Python: line 2"),
        ("open('bytes.csv', encoding='utf-8').read()\n", "k_means.py cannot be imported, line 1: UnicodeDecodeError"),
        ("eval('1 +')\n", "k_means.py cannot be imported, line 1: SyntaxError"),
    ],
)
def test_the_file_that_is_to_blame_is_named(text, words, tmp_path):
    (tmp_path / "helper.py").write_text("x = 1\ndef f(:\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff")
    path = tmp_path / "k_means.py"
    path.write_text(text)
    assert words in read(path).problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def assign(x, centres)\n", "k_means.py is no Python: line 1"),
        ("", "k_means.py has none of the functions of the lab: assign, move, distortion, k_means"),
    ],
)
def test_a_file_with_nothing_to_grade_gets_one_message(text, words, tmp_path, capsys):
    path = tmp_path / "k_means.py"
    path.write_text(text)
    assert lab_main(["check", str(path)]) == 2
    points, said, where = capsys.readouterr().out.strip().split("\n\n")
    assert points == "k_means: 0 of 20 points"
    assert " ".join(said.split()).startswith(words)
    assert where.startswith("grade in ")
    grade = json.loads((tmp_path / "grade.json").read_text())
    assert grade["problem"].startswith(words)
    assert grade["points"] == 0


def test_a_file_in_no_known_encoding_is_no_text(tmp_path):
    path = tmp_path / "k_means.py"
    path.write_bytes(b"NAME = '\xff'\n")
    assert read(path).problem == "k_means.py is no text in UTF-8"


def test_the_page_shows_what_check_prints(tmp_path, monkeypatch, capsys):
    """For the work that the page names: the key with b for 2b, where `log_posterior` is not written."""
    text = (Path(__file__).parents[2] / "docs" / "labs.md").read_text(encoding="utf-8")
    key = solution_text(lab_of("em_gmm"))
    assert key.count("2 * b") == 1
    head, _, rest = key.replace("2 * b", "b").partition("def log_posterior(")
    signature = rest.partition("\n")[0]
    monkeypatch.chdir(tmp_path)
    Path("em_gmm.py").write_text(f"{head}def log_posterior({signature}\n    raise NotImplementedError\n", encoding="utf-8")
    assert lab_main(["check", "em_gmm.py"]) == 3
    printed = capsys.readouterr().out.partition("\n\ngrade in ")[0]
    assert re.findall(r"```text\n(.*?)\n```", text, re.DOTALL) == [printed]


SD = 2**0.5  # of a log density of four parameters that are nearly normal: half of a χ² with four degrees of freedom
MOST = 5.0  # standard errors: a right page fails once in two million


@pytest.mark.slow  # it compiles a sampler of the zoo
def test_the_finished_step_runs_inside_the_zoo(tmp_path, monkeypatch):
    """The code on the page of gibbs_gmm, beside a file with all functions."""
    lab = lab_of("gibbs_gmm")
    page = new_folder(lab, tmp_path)[0].read_text(encoding="utf-8")
    (tmp_path / "gibbs_gmm.py").write_text(solution_text(lab), encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gibbs_gmm", raising=False)
    names = {"__name__": "page"}
    exec(compile(code, "README.md", "exec"), names)
    found = names["compared"].table
    error = SD * np.sqrt((1 / found["ESS"]).sum())
    assert abs(found["log joint"]["mine"] - found["log joint"]["gibbs"]) < MOST * error


def test_a_stub_is_graded_by_one_process(tmp_path, monkeypatch):
    """Functions that are not written are known from reading the file; no process runs them."""
    started = []
    enter = StudentProcess.__enter__
    monkeypatch.setattr(StudentProcess, "__enter__", lambda self: started.append(self) or enter(self))
    new_folder(LAB, tmp_path)
    grade = grade_of(LAB, tmp_path / "k_means.py")
    assert len(started) == 1
    assert [result.messages for result in grade.results][:4] == [("is not written yet",)] * 4
    assert grade.results[4].messages == ("needs assign and move, which are not written yet",)
    assert grade.points == 0


@pytest.mark.slow  # whole grades
@pytest.mark.parametrize("said", ["is not written yet", "ended the Python process"])
def test_what_a_student_says_does_not_steer_the_grader(said, tmp_path):
    """Words of the grader in an error of the student: the other functions are still run."""
    result = graded(tmp_path, replaced("distortion", f"raise ValueError({said!r})"))
    assert messages_of(result, "distortion")[0].startswith("stops with ValueError")
    assert [each.is_full for each in result.results] == [True, True, False, True, True]
