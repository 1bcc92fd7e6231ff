"""``python -m labs``: list, new, check, trace, solution."""

import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from inference.runtime.files import remove, write
from inference.runtime.formats.texts import visible
from labs.folder import grade_path, new_folder, solution_folder, submission_in
from labs.grading import as_json, grade_of, lines_of
from labs.labs import LABS, lab_of
from labs.usage import OPTIONS, usage_of
from models.errors import ZooError, did_you_mean

NOT_FULL = 3
CHECKSUM = "its SHA-256:"  # of the grade that was written: a file with another one was written by somebody else
UNREADABLE = 2  # as for a mistake in the command: there is nothing to grade
MOST_SECONDS = 86_400  # a day
EXAMPLES = {"notebook": "true", "seed": "7", "seconds": "60"}  # options as they are written
MOST_SEED = 2**32 - 3  # parts also use the two seeds after it, and those of JAX have 32 bits


def lab_main(arguments: list[str]) -> int:
    """Run one command; returns its exit code. Raises `ZooError` for a mistake in the arguments."""
    if not arguments:
        raise ZooError(f"say what to do: {', '.join(OPTIONS)}; python -m labs --help explains them")
    command, *rest = arguments
    if command not in OPTIONS:
        known = f"they are {', '.join(OPTIONS)}, and --help explains them"
        raise ZooError(f"{command!r} is no command{did_you_mean(command, OPTIONS)}; {known}")
    for argument in rest:
        _assert_no_flag(command, argument)
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


def _assert_no_flag(command: str, argument: str) -> None:
    """Raise `ZooError` for ``--seed`` and for a bare ``seed``, which would name a file or a folder."""
    options = OPTIONS[command]
    name = argument.strip("-").partition("=")[0]
    written = " ".join(f"{option}={value}" for option, value in EXAMPLES.items() if option in options)
    if argument.startswith("-"):
        said = f"options are written {written}" if options else "it takes no options"
        raise ZooError(f"{argument} is no argument of `{command}`{did_you_mean(name, options)}; {said}")
    if argument in options:
        raise ZooError(f"{argument} is an option: write {argument}={EXAMPLES[argument]}; a folder of this name is ./{argument}")


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


def _most(command: str, places: list[str], least: int, most: int) -> None:
    if not least <= len(places) <= most:
        raise ZooError(usage_of(command))


def _list(places: list[str], options: Mapping[str, str]) -> int:
    _most("list", places, 0, 0)
    longest = max(map(len, LABS))
    for name in LABS:
        lab = lab_of(name)
        say(f"{name:<{longest}}  {lab.out_of:>2} points  {lab.minutes:>3} min  {lab.title}")
    return 0


def _new(places: list[str], options: Mapping[str, str]) -> int:
    _most("new", places, 1, 2)
    lab = lab_of(places[0])
    if options["notebook"] not in ("true", "false"):
        raise ZooError(f"notebook={options['notebook']} is neither true nor false: write notebook=true")
    files = new_folder(lab, Path(places[1] if len(places) > 1 else lab.name), options["notebook"] == "true")
    for file in files:
        say(f"wrote {file}")
    then = "run its cells" if options["notebook"] == "true" else f"then: python -m labs check {files[0].parent}"
    say(f"next: read {files[0]}, complete {files[1].name}, {then}")
    return 0


def _check(places: list[str], options: Mapping[str, str]) -> int:
    _most("check", places, 0, 1)
    lab, path = submission_in(Path(places[0] if places else "."))
    seed, seconds = _number(options, "seed", int, MOST_SEED), _number(options, "seconds", float, MOST_SECONDS)
    if not seconds:
        raise ZooError(f"seconds={options['seconds']} is no time to compute; leave it out for the usual time")
    remove(grade_path(path))  # before any code of the student runs: an old grade is none of this file
    grade = grade_of(lab, path, seed, seconds)
    for line in lines_of(grade):
        say(visible(line))
    content = as_json(grade, path)
    write(grade_path(path), content)
    say("")
    say(f"grade in {grade_path(path)}")
    say(f"{CHECKSUM} {hashlib.sha256(content).hexdigest()}")
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
    from labs.trace import trace

    _most("trace", places, 0, 1)
    lab, path = submission_in(Path(places[0] if places else "."))
    if lab.iterations is not None:
        say(f"drawing the run of {lab.name}: this takes some seconds")
    for line in trace(lab, path):
        say(line)
    return 0


def _solution(places: list[str], options: Mapping[str, str]) -> int:
    _most("solution", places, 1, 2)
    lab = lab_of(places[0])
    for file in solution_folder(lab, Path(places[1] if len(places) > 1 else f"{lab.name}_solution")):
        say(f"wrote {file}")
    return 0


def say(line: str) -> int:
    """Print a line at once; returns the exit code of what has gone well."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    return 0
