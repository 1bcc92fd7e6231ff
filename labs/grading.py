"""Grades: of a file, part by part in processes of their own, and of one function in this process, for pytest and notebooks."""

import json
import platform
import textwrap
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from labs.labs import lab_of
from labs.parts.lab import Answer, Lab, Part, Result
from labs.stub import called_by
from labs.student.words import NOT_WRITTEN, in_a_line
from labs.submission import Copy, Read, TamperedError, collected, copy_of, read_alone
from models.errors import ZooError, did_you_mean

WIDTH = 80
SECONDS = 20.0
GRADE = "grade.json"


class Grade(NamedTuple):
    """All parts of one file."""

    lab: str
    results: tuple[Result, ...]
    seed: int
    sha256: str  # of the file, as it was when it was copied
    problem: str | None = None  # why it could not be read at all

    @property
    def points(self) -> float:
        """What was won."""
        return sum(result.points for result in self.results)

    @property
    def out_of(self) -> int:
        """What could be won."""
        return sum(result.out_of for result in self.results)

    @property
    def is_full(self) -> bool:
        """Whether all points were won."""
        return all(result.is_full for result in self.results)


def grade_of(lab: Lab, path: Path, seed: int = 0, seconds: float = SECONDS) -> Grade:
    """The grade of a student's file. Raises `ZooError` where there is no such file."""
    work = copy_of(path)
    try:
        read = read_alone(lab, work, seconds)
        if (problem := _problem(lab, path, read)) is None:
            return Grade(lab.name, _results(lab, work, read, seed, seconds), seed, work.sha256)
    except TamperedError as error:
        problem = str(error)
    return Grade(lab.name, tuple(_nothing(part, ()) for part in lab.parts), seed, work.sha256, problem)


def _results(lab: Lab, work: Copy, read: Read, seed: int, seconds: float) -> tuple[Result, ...]:
    results = []
    for part in lab.parts:
        lacking = lacks(part, read)
        results.append(_graded(lab, work, part, seed, seconds) if lacking is None else _nothing(part, (lacking,)))
    written = {name for name in lab.functions if name not in read.missing and name not in read.unwritten}
    return _with_helpers(lab, work, results, written, seed, seconds)


def _with_helpers(
    lab: Lab, work: Copy, results: list[Result], written: set[str], seed: int, seconds: float
) -> tuple[Result, ...]:
    """The same points. A wrong function that calls wrong ones is told what is wrong beside finished ones."""
    wrong = {result.part for result in results if not result.is_full} & written
    found = []
    for part, result in zip(lab.parts, results, strict=True):
        calls = called_by(work.text(), part.name) if part.name in wrong else set()
        if helpers := [name for name in lab.functions if name in calls & wrong]:
            beside = _graded(lab, work.without(helpers), part, seed, seconds)
            result = result._replace(messages=_told(result, beside, helpers))
            wrong -= {part.name} if beside.is_full else set()  # it is no helper to mend
        found.append(result)
    return tuple(found)


def _graded(lab: Lab, work: Copy, part: Part, seed: int, seconds: float) -> Result:
    """The result of one part. Answers that no part was made for win nothing: they are the student's fault, and not ours."""
    try:
        return judged(part, collected(lab, work, part.name, seed, seconds), seed)
    except ZooError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError) as error:
        return _nothing(part, (f"gives answers that cannot be judged: {in_a_line(error)}",))


def _nothing(part: Part, messages: tuple[str, ...]) -> Result:
    return Result(part.name, 0.0, part.points, messages)


def _told(result: Result, beside: Result, helpers: list[str]) -> tuple[str, ...]:
    """What a function is told that is wrong, and that is graded again beside finished helpers."""
    names = " and ".join(f"`{name}`" for name in helpers)
    finished = f"with {'a ' if len(helpers) == 1 else ''}finished {names}"
    if beside.is_full:
        return (f"right {finished}; mend {names} first",)
    if beside.messages == result.messages:
        return result.messages
    return tuple(f"{finished}: {message}" for message in beside.messages)


def _problem(lab: Lab, path: Path, read: Read) -> str | None:
    """Why nothing of a file can be graded; None where something can."""
    if read.problem is not None or set(read.missing) < set(lab.functions):
        return read.problem
    near = [text for text in read.missing.values() if "did you mean" in text]
    if near:
        return None  # functions of other names: each is told its own
    return f"{path.name} has none of the functions of the lab: {', '.join(lab.functions)}"


def lacks(part: Part, read: Read) -> str | None:
    """Why a part cannot be run, because of a function that is not there or not written yet."""
    if part.name in read.missing:
        return read.missing[part.name]
    if part.name in read.unwritten:
        return NOT_WRITTEN
    missing = [name for name in part.functions if name in read.missing]
    unwritten = [name for name in part.functions if name in read.unwritten]
    said = [_which(missing, "not in the file"), _which(unwritten, "not written yet")]
    return f"needs {', and '.join(filter(None, said))}" if missing or unwritten else None


def _which(names: list[str], what: str) -> str:
    """``assign and move, which are not written yet``; nothing of no names."""
    return f"{' and '.join(names)}, which {'is' if len(names) == 1 else 'are'} {what}" if names else ""


def judged(part: Part, answer: Answer, seed: int) -> Result:
    """The result of an answer; of none, why there is none."""
    if "all" in answer.notes:
        return _nothing(part, (str(answer.notes["all"]),))
    return part.judge(answer, seed)


def assert_right(lab: str, name: str, *functions: Callable[..., Any], seed: int = 0) -> None:
    """Raise `AssertionError` with what the lab says of a part, unless it is right: for pytest and for cells of nbgrader.

    ``functions`` are those that the part needs, of any names, in the order of the lab's page; most parts are of one function.
    Raises `ZooError` for an unknown lab or part.

    >>> import numpy as np
    >>> assert_right("k_means", "distortion", lambda x, labels, centres: ((x - centres[labels]) ** 2).sum())
    >>> assert_right("k_means", "distortion", lambda x, labels, centres: ((x - centres[labels]) ** 2).sum() / len(x))
    Traceback (most recent call last):
        ...
    AssertionError: distortion: 0 of 3 points
    `distortion` is the mean over the points; it should be their sum
    """
    __tracebackhide__ = True  # of pytest: the message is for students, this function is not
    found = lab_of(lab)
    known = [part.name for part in found.parts]
    if name not in known:
        raise ZooError(f"the lab {lab} has no part {name!r}{did_you_mean(name, known)}; its parts are {', '.join(known)}")
    part = found.part(name)
    if len(functions) != len(part.functions):
        raise ZooError(f"the part {name} of {lab} needs {len(part.functions)} functions: {', '.join(part.functions)}")
    result = judged(part, part.collect(SimpleNamespace(**dict(zip(part.functions, functions, strict=True))), seed), seed)
    if not result.is_full:
        raise AssertionError("\n".join([f"{name}: {in_points(result.points)} of {result.out_of} points", *result.messages]))


def in_points(points: float) -> str:
    """``3`` or ``2.5``."""
    return f"{points:g}"


def lines_of(grade: Grade) -> list[str]:
    """The grade as text of 80 columns."""
    lines = [f"{grade.lab}: {in_points(grade.points)} of {grade.out_of} points", ""]
    if grade.problem is not None:
        return [*lines, *textwrap.wrap(grade.problem, WIDTH)]
    longest = max(len(result.part) for result in grade.results)
    for result in grade.results:
        mark = "ok" if result.is_full else "--"
        lines.append(f"  {mark}  {result.part:<{longest}}  {in_points(result.points):>4} of {result.out_of}")
        for message in result.messages:
            lines += textwrap.wrap(message, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False)
    return lines


def as_json(grade: Grade, path: Path) -> bytes:
    """The grade for a gradebook: parts, points, messages, versions, the seed, and the checksum of the file that was graded."""
    content = {
        "lab": grade.lab,
        "file": path.name,
        "sha256": grade.sha256,
        "points": float(grade.points),
        "out_of": grade.out_of,
        "problem": grade.problem,
        "parts": [
            {"part": r.part, "points": float(r.points), "out_of": r.out_of, "messages": list(r.messages)} for r in grade.results
        ],
        "seed": grade.seed,
        "versions": {name: _version(name) for name in ("bayes-model-zoo", "numpy")} | {"python": platform.python_version()},
    }
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode(errors="replace")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
