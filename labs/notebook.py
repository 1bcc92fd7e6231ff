"""A lab as a notebook for nbgrader: solution cells that students fill, and locked cells that grade one part each."""

from typing import Any

from labs.parts.lab import Lab, Part
from labs.stub import function_text, model_text, solution_text, stub_text

SCHEMA = 3  # of nbgrader's metadata
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"  # nbgrader clears what is between
UNWRITTEN = "    raise NotImplementedError"


def notebook_of(lab: Lab) -> dict[str, Any]:
    """The notebook in Jupyter's format 4.5."""
    cells = [_text("story", f"# {lab.title}\n\n{lab.story.strip()}\n\n## The mathematics\n\n{lab.maths.strip()}")]
    cells.append(_text("model", f"## The model\n\n```text\n{model_text(lab)}\n```"))
    cells.append(_code("imports", "import numpy as np\n\nfrom labs import assert_right"))
    cells += [_code(name, function_text(solution_text(lab), name)) for name in lab.given]
    stub, written = stub_text(lab), set[str]()
    for part in lab.parts:
        for function in (name for name in part.functions if name not in written):
            cells.append(_to_write(lab, function, function_text(stub, function)))
            written.add(function)
        cells.append(_code(f"check_{part.name}", _check(lab, part), points=part.points))
    return {
        "cells": cells,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _to_write(lab: Lab, name: str, source: str) -> dict[str, Any]:
    """The cell of one function: without the marks, nbgrader would clear the docstring, too.

    A function to repair is no solution cell, because nbgrader clears those: a cell that is neither locked nor graded stays.
    """
    if lab.slips:
        return _code(name, source, locked=False)
    written = source.replace(UNWRITTEN, f"    {BEGIN}\n{UNWRITTEN}\n    {END}")
    return _code(name, written, solution=True, locked=False)


def _check(lab: Lab, part: Part) -> str:
    return f'assert_right("{lab.name}", "{part.name}", {", ".join(part.functions)})'


def _text(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": _graded(name, locked=True), "source": source}


def _code(name: str, source: str, solution: bool = False, points: int = 0, locked: bool = True) -> dict[str, Any]:
    metadata = _graded(name, solution=solution, locked=locked, points=points)
    return {"cell_type": "code", "id": name, "execution_count": None, "metadata": metadata, "outputs": [], "source": source}


def _graded(name: str, solution: bool = False, locked: bool = False, points: int = 0) -> dict[str, Any]:
    """The tags of nbgrader: a cell is a solution, a test with points, or locked."""
    tags: dict[str, Any] = {
        "grade": points > 0,
        "grade_id": name,
        "locked": locked,
        "schema_version": SCHEMA,
        "solution": solution,
        "task": False,
    }
    return {"nbgrader": tags | ({"points": points} if points else {})}
