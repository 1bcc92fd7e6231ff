"""A student's folder: story, stub, public tests, data and, if asked for, a notebook for nbgrader. And the key, elsewhere."""

import io
import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from inference.runtime.files import write
from labs.grading import GRADE
from labs.labs import LABS, lab_of
from labs.notebook import notebook_of
from labs.parts.lab import Lab
from labs.stub import model_text, solution_text, stub_text
from models.errors import ZooError

README, DATA, NOTEBOOK = "README.md", "data.npz", ".ipynb"


def new_folder(lab: Lab, folder: Path, notebook: bool = False) -> list[Path]:
    """Write the folder of a lab, with a notebook or with a Python file; returns its files, the page and the work first.

    Raises `ZooError` where one of them is there already, or the file of another lab.
    """
    if others := [path for path in works_in(folder) if _lab_of_work(path) != lab.name]:
        raise ZooError(f"{folder} has {others[0].name} of another lab; give another folder for {lab.name}")
    if notebook:
        work = {f"{lab.name}.ipynb": json.dumps(notebook_of(lab), indent=1, ensure_ascii=False).encode()}
    else:
        work = {f"{lab.name}.py": stub_text(lab).encode(), f"test_{lab.name}.py": tests_of(lab).encode()}
    return _written(folder, {README: page_of(lab, notebook).encode(), **work, DATA: _as_npz(lab)})


def solution_folder(lab: Lab, folder: Path) -> list[Path]:
    """Write the key of a lab. Raises `ZooError` for a student's folder, of whatever lab, or where it is there already.

    Keys of other labs may be there.
    """
    own = folder / f"{lab.name}.py"
    if students := [path for path in works_in(folder) if path != own and not _is_key(path)]:
        raise ZooError(f"{folder} is the folder of a student ({students[0].name}); give another one for the key of {lab.name}")
    return _written(folder, {own.name: solution_text(lab).encode()})


def works_in(folder: Path) -> list[Path]:
    """Files of any lab in a folder: what a student writes, notebooks, public tests."""
    names = [name for lab in LABS for name in (f"{lab}.py", f"{lab}{NOTEBOOK}", f"test_{lab}.py")]
    return [folder / name for name in names if (folder / name).is_file()]


def _lab_of_work(path: Path) -> str:
    return path.stem.removeprefix("test_")


def _is_key(path: Path) -> bool:
    """Whether a file is the key of its lab, as `solution_folder` writes it."""
    return path.name in {f"{lab}.py" for lab in LABS} and path.read_bytes() == solution_text(lab_of(path.stem)).encode()


def _written(folder: Path, files: dict[str, bytes]) -> list[Path]:
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise ZooError(f"{folder / there[0]} is there already, and is not overwritten; give another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ZooError(f"{folder} cannot be made: {error.strerror or error}") from error
    for name, content in files.items():
        write(folder / name, content)
    return [folder / name for name in files]


def _as_npz(lab: Lab) -> bytes:
    buffer = io.BytesIO()
    arrays: dict[str, Any] = dict(lab.data())
    np.savez(buffer, **arrays)
    return buffer.getvalue()


CHECKS = [
    "python -m labs check      # points, and what is wrong",
    "pytest                    # the same as tests, and the examples",
]
IN_A_NOTEBOOK = [
    "The cell below each function checks it: it says nothing, or what is wrong. `check` and `trace` are for Python files.",
]


def page_of(lab: Lab, notebook: bool = False) -> str:
    """The README of a lab."""
    rows = [f"| {part.name} | {part.points} | {_asks(part.name, part.functions)} |" for part in lab.parts]
    arrays = [f"- `{name}`: shape {value.shape}" for name, value in lab.data().items()]
    wants = "Repair" if lab.slips else "Write"
    trace = ["python -m labs trace      # every iteration as a picture"] if lab.iterations else []
    return "\n".join(
        [
            f"# {lab.title}",
            "",
            lab.story.strip(),
            "",
            f"Time: about {lab.minutes} minutes.",
            "",
            "## The mathematics",
            "",
            lab.maths.strip(),
            "",
            "## The model",
            "",
            "```text",
            model_text(lab),
            "```",
            "",
            f"## {wants} {lab.name}.{'ipynb' if notebook else 'py'}",
            "",
            "The docstring of each function has its formula, its shapes and an example. Use NumPy or plain loops.",
            "",
            "| part | points | what is graded |",
            "|---|---|---|",
            *rows,
            "",
            "## Check",
            "",
            *(IN_A_NOTEBOOK if notebook else ["```shell", *CHECKS, *trace, "```"]),
            "",
            "## Data",
            "",
            f'`numpy.load("{DATA}")` has',
            "",
            *arrays,
            "",
            *([lab.afterwards.strip(), ""] if lab.afterwards else []),
        ]
    )


def _asks(name: str, functions: tuple[str, ...]) -> str:
    if functions == (name,):
        return f"the function `{name}`"
    return f"{' and '.join(f'`{function}`' for function in functions)} together"


def tests_of(lab: Lab) -> str:
    """The public tests: examples of the docstrings, and every part."""
    tests = [
        f"def test_{part.name}():\n    assert_right({', '.join([repr(lab.name), repr(part.name), *_of(lab, part.functions)])})"
        for part in lab.parts
    ]
    head = f'"""Public tests of the lab {lab.name}: run pytest in this folder."""\n\nimport doctest\n\nimport {lab.name}\n'
    examples = f"def test_examples():\n    assert not doctest.testmod({lab.name}).failed"
    text = "\n\n\n".join([f"{head}\nfrom labs import assert_right", examples, *tests])
    return text.replace("'", '"') + "\n"


def _of(lab: Lab, functions: tuple[str, ...]) -> list[str]:
    return [f"{lab.name}.{function}" for function in functions]


def submission_in(where: Path) -> tuple[Lab, Path]:
    """The lab and the student's file of a folder, or of a file. Raises `ZooError` where there is none, or more than one."""
    if where.suffix == NOTEBOOK:
        raise ZooError(f"{where} is a notebook, which its own cells check; `check` and `trace` read Python files")
    if where.is_file():
        if where.suffix != ".py":
            raise ZooError(f"{where.name} is no Python file; give the file of the lab, or its folder {where.parent}")
        if where.stem not in LABS:
            raise ZooError(f"{where.name} is the file of no lab{_expected(where)}; the labs are {', '.join(LABS)}")
        return lab_of(where.stem), where
    if not where.is_dir():
        raise ZooError(f"there is no folder {where}")
    found = [name for name in LABS if (where / f"{name}.py").is_file()]
    if len(found) != 1:
        if any((where / f"{name}{NOTEBOOK}").is_file() for name in LABS) and not found:
            raise ZooError(f"{where} has a notebook, which its own cells check; `check` and `trace` read Python files")
        other = next((file for file in sorted(where.glob("*.py")) if _expected(file)), None)
        if other is not None and not found:
            raise ZooError(f"{where} has no file of a lab: {other.name} is there{_expected(other)}")
        if not found and any((student / f"{name}.py").is_file() for name in LABS for student in where.iterdir()):
            raise ZooError(f"{where} has no file of a lab, but it has folders of students: check them one by one")
        number = "no lab" if not found else f"several labs ({', '.join(found)})"
        raise ZooError(f"{where} has {number}: give the folder that `python -m labs new` wrote, or one file")
    return lab_of(found[0]), where / f"{found[0]}.py"


def _expected(file: Path) -> str:
    """``, and the file of the lab viterbi is viterbi.py: rename it``, where a file seems to be that of a lab."""
    stem = file.stem.lower().replace("-", "_").replace(" ", "_")
    if stem.startswith("test_"):
        return ""
    tested = [name for name in LABS if (file.parent / f"test_{name}.py").is_file()]
    near = [name for name in LABS if name in stem] or tested or get_close_matches(stem, LABS, n=1)
    return f", and the file of the lab {near[0]} is {near[0]}.py: rename it" if near and stem != near[0] else ""


def grade_path(path: Path) -> Path:
    """Where the grade of a file goes: beside it."""
    return path.with_name(GRADE)
