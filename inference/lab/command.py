"""``python -m inference.lab``: list, new, check, trace, solution."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from inference.lab.folder import grade_path, new_folder, solution_folder, submission_in
from inference.lab.grading import SECONDS, as_json, grade_of, lines_of
from inference.lab.labs import LABS, lab_of
from inference.runtime.files import write
from models.errors import ZooError, did_you_mean

NOT_FULL = 3
UNREADABLE = 2  # as for a mistake in the command: there is nothing to grade
MOST_SECONDS = 86_400  # a day
MOST_SEED = 2**32 - 3  # parts also use the two seeds after it, and those of JAX have 32 bits
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "list": {},
    "new": {"notebook": "false"},
    "check": {"seed": "0", "seconds": f"{SECONDS:.0f}"},
    "trace": {},
    "solution": {},
}


def lab_main(arguments: list[str]) -> int:
    """Run one command; returns its exit code. Raises `ZooError` for a mistake in the arguments."""
    if not arguments:
        raise ZooError(f"say what to do: {', '.join(OPTIONS)}; python -m inference.lab --help explains them")
    command, *rest = arguments
    if command not in OPTIONS:
        known = f"they are {', '.join(OPTIONS)}, and --help explains them"
        raise ZooError(f"{command!r} is no command{did_you_mean(command, OPTIONS)}; {known}")
    places = [argument for argument in rest if "=" not in argument]
    options = _options(command, [argument for argument in rest if "=" in argument])
    commands: Mapping[str, Callable[[list[str], Mapping[str, str]], int]] = {
        "list": _list,
        "new": _new,
        "check": _check,
        "trace": _trace,
        "solution": _solution,
    }
    return commands[command](places, options)


def _options(command: str, given: list[str]) -> Mapping[str, str]:
    known = OPTIONS[command]
    found: dict[str, str] = {}
    for argument in given:
        name, value = argument.split("=", 1)
        if name not in known:
            there = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ZooError(f"{name}= is no option of `{command}`{did_you_mean(name, known)}; {there}")
        if name in found:
            raise ZooError(f"{name}= is given twice: {found[name]} and {value}")
        found[name] = value
    return {**known, **found}


def _most(places: list[str], least: int, most: int, usage: str) -> None:
    if not least <= len(places) <= most:
        raise ZooError(f"usage: python -m inference.lab {usage}")


def _list(places: list[str], options: Mapping[str, str]) -> int:
    _most(places, 0, 0, "list")
    longest = max(map(len, LABS))
    for name in LABS:
        lab = lab_of(name)
        _say(f"{name:<{longest}}  {lab.out_of:>2} points  {lab.minutes:>3} min  {lab.title}")
    return 0


def _new(places: list[str], options: Mapping[str, str]) -> int:
    _most(places, 1, 2, "new NAME [FOLDER]")
    lab = lab_of(places[0])
    if options["notebook"] not in ("true", "false"):
        raise ZooError(f"notebook={options['notebook']} is neither true nor false")
    files = new_folder(lab, Path(places[1] if len(places) > 1 else lab.name), options["notebook"] == "true")
    for file in files:
        _say(f"wrote {file}")
    then = "run its cells" if options["notebook"] == "true" else f"then: python -m inference.lab check {files[0].parent}"
    _say(f"next: read {files[0]}, complete {files[1].name}, {then}")
    return 0


def _check(places: list[str], options: Mapping[str, str]) -> int:
    _most(places, 0, 1, "check [FOLDER|FILE]")
    lab, path = submission_in(Path(places[0] if places else "."))
    seed, seconds = _number(options, "seed", int, MOST_SEED), _number(options, "seconds", float, MOST_SECONDS)
    grade = grade_of(lab, path, seed, seconds)
    for line in lines_of(grade):
        _say(line)
    write(grade_path(path), as_json(grade, path))
    _say("")
    _say(f"grade in {grade_path(path)}")
    if grade.problem is not None:
        return UNREADABLE
    return 0 if grade.is_full else NOT_FULL


def _number[Number: (int, float)](options: Mapping[str, str], name: str, kind: Callable[[str], Number], most: int) -> Number:
    """An option as a number from 0 to ``most``; raises `ZooError` for anything else."""
    try:
        found = kind(options[name])
    except ValueError as error:
        what = "whole number" if kind is int else "number"
        raise ZooError(f"{name}={options[name]} is no {what}") from error
    if not 0 <= found <= most:  # NaN neither
        raise ZooError(f"{name}={options[name]} is not between 0 and {most}")
    return found


def _trace(places: list[str], options: Mapping[str, str]) -> int:
    from inference.lab.trace import trace

    _most(places, 0, 1, "trace [FOLDER|FILE]")
    lab, path = submission_in(Path(places[0] if places else "."))
    if lab.iterations is not None:
        _say(f"drawing the run of {lab.name}: this takes some seconds")
    for line in trace(lab, path):
        _say(line)
    return 0


def _solution(places: list[str], options: Mapping[str, str]) -> int:
    _most(places, 1, 2, "solution NAME [FOLDER]")
    lab = lab_of(places[0])
    for file in solution_folder(lab, Path(places[1] if len(places) > 1 else f"{lab.name}_solution")):
        _say(f"wrote {file}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
