"""`inference.inspect`: look at a table before a run. And for a run that cannot read its table: all problems in one message."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from inference.cli.runs.help import COMMANDS
from models.cells.overrides import is_of_table, overrides_of, read_override
from models.errors import ZooError, exists, in_shell
from models.inspection.advice import models_for
from models.inspection.problem import Problem
from models.inspection.table import Inspection, inspect_table

WIDTH = 80
RUN = ("uv", "run", "python", "-m", "inference.run")
CORPUS_RUN = (*RUN, "model=latent_dirichlet", "method=cavi")
NOT_READING = ("name", "path", "test_fraction")  # keys of the data section that are no options of `load_data`


def inspect_main(arguments: list[str]) -> int:
    """Inspect one file, and print the inspection; returns 0, or 2 if the file must be corrected before it can be read."""
    from inference.report.inspection import print_inspection
    from inference.runtime.progress import console

    file, overrides = _arguments(arguments)
    options = _reading_options(file, overrides)
    if options.get("format") is not None or options.get("kind", "table") != "table":
        raise ZooError("inference.inspect looks at tables; a corpus or a covariance matrix is read as it is")
    inspection = inspect_table(file, **{name: value for name, value in options.items() if name != "kind"})
    print_inspection(inspection, command_of(inspection, file, overrides), overrides_of, console())
    return 0 if inspection.is_readable else 2


def _arguments(arguments: list[str]) -> tuple[str, list[str]]:
    """(the file, the options); raises `ZooError` for anything but one file and ``key=value``."""
    named = [a.removeprefix("data=") for a in arguments if "=" not in a or exists(a) or a.startswith("data=")]
    overrides = [a for a in arguments if not ("=" not in a or exists(a) or a.startswith("data="))]
    if len(named) != 1:
        raise ZooError(f"inference.inspect takes one file, got {', '.join(named) or 'none'}\n{COMMANDS['inspect']}")
    if not (exists(named[0]) and Path(named[0]).is_file()):
        folder = exists(named[0]) and Path(named[0]).is_dir()
        raise ZooError(
            f"{named[0]!r} is a folder, and only tables are inspected; a folder of texts is read as it is:\n"
            + command_line([*CORPUS_RUN, f"data={named[0]}", "data.format=texts"])
            if folder
            else f"there is no file {named[0]!r}"
        )
    return _path(named[0]), overrides


def _reading_options(file: str, overrides: list[str]) -> dict[str, Any]:
    """Options of `load_data`. Hydra is loaded only where the user gives some: it takes a second."""
    if not overrides:
        return {}
    from inference.cli.runs.config import OF_STREAMS, compose, expand

    data = compose(expand([f"data={file}", *overrides], sweep=False)[0])["data"]
    left_out = (*NOT_READING, *OF_STREAMS)
    return {name: value for name, value in data.items() if value is not None and value is not False and name not in left_out}


def command_of(inspection: Inspection, file: str, overrides: Sequence[str]) -> str:
    """The command that runs with all remedies; the options that the user gave stay as they are."""
    if inspection.data is None:
        return ""
    given = [override for override in overrides if not override.startswith("data.missing=")]
    places = {_place(override) for override in given}
    added = [override for override in overrides_of(inspection.options) if _place(override) not in places]
    model = [] if any(o.startswith("model=") for o in given) else [*models_for(inspection.data)[0].options]
    method = [] if any(o.startswith("method=") for o in given) else ["method=em"]
    return command_line([*RUN, *model, *method, f"data={file}", *given, *added])


def _place(override: str) -> tuple[str, str | None]:
    """The key that an override sets, and the column of an option for one column."""
    if not is_of_table(override):
        return override.partition("=")[0], None
    option = read_override(override)
    return f"data.{option.name}", option.column


def _path(file: str) -> str:
    """A file as ``data=`` takes it: one with the name of a named data set needs its folder."""
    return file if "." in file or "/" in file else f"./{file}"


def raise_refusal(error: ZooError, data: Mapping[str, Any]) -> NoReturn:
    """Raise `refusal_of` the error."""
    refusal = refusal_of(error, data)
    if refusal is error:  # no error is its own cause
        raise error
    raise refusal from error


def raise_hinted(error: ZooError, data: Mapping[str, Any], title: str) -> NoReturn:
    """Raises the error of a model; where it is about a column of a file, with the command that shows what its columns are."""
    if data.get("name") != "file" or data.get("format") is not None or f"{title}: column" not in str(error):
        raise error
    raise ZooError(f"{error} (python -m inference.inspect {in_shell(title)} shows all columns)") from error


def refusal_of(error: ZooError, data: Mapping[str, Any]) -> ZooError:
    """The error about a table with all its problems, or with a hint."""
    file = data.get("path")
    if data.get("stream"):  # to inspect it would be to read it into memory
        return error
    if data.get("name") != "file" or data.get("format") is not None or data.get("kind", "table") != "table":
        return error
    if not isinstance(file, str) or not (exists(file) and Path(file).is_file()):
        return error
    from inference.cli.runs.config import OF_STREAMS

    options = {
        name: value
        for name, value in data.items()
        if value is not None and value is not False and name not in (*NOT_READING, *OF_STREAMS, "kind")
    }
    hint = f"python -m inference.inspect {in_shell(str(file))}"
    try:
        inspection = inspect_table(str(file), **options)
    except ZooError:  # a wrong option, or no table at all: inspecting adds nothing
        return error
    if not inspection.problems:
        return ZooError(f"{error} ({hint} shows its columns)")
    more = "shows more, and a command that runs" if inspection.is_readable else "shows more"
    return ZooError("\n".join([*_all_problems(inspection, str(error)), f"{hint} {more}"]))


def _all_problems(inspection: Inspection, refusal: str) -> list[str]:
    """Lines with all problems of a table, each once: those that the error names with their remedies are left out.

    The error about a cell knows this cell alone. Where the problem of its column has another remedy, as for all cells of the
    column, this one stands in its place.
    """
    from inference.report.inspection import options_of

    proposals = [(problem, options_of(problem, inspection.options, overrides_of)) for problem in inspection.problems]
    left = [(problem, options) for problem, options in proposals if not _is_in_refusal(problem, options, refusal)]
    lines = []
    for problem, options in left:
        where = "" if problem.column is None else f"{problem.column}: "
        proposed = " ".join(map(in_shell, options)) or problem.advice
        means = f"; {problem.advice}" if options and problem.advice and _is_of_cell(problem, refusal) else ""
        lines.append(f"  {where}{problem.what}{means}: {proposed}")
    if not left:
        return [refusal]
    several, total = len(left) > 1, len(inspection.problems)
    if any(_is_of_cell(problem, refusal) for problem, _ in left):
        number = f"all {total} problems of the table, each with its remedy" if several else "the problem, with its remedy"
        return [f"{inspection.title} cannot be read as it is; {number}:", *lines]
    number = f"{len(left)} more problems of the table, each" if several else "one more problem of the table,"
    return [refusal, f"{number} with its remedy:", *lines]


def _is_in_refusal(problem: Problem, options: Sequence[str], refusal: str) -> bool:
    """Whether an error already has the problem: in its words, or by proposing the same options."""
    matches = [re.search(rf"{re.escape(option)}(?=$|[\s'\",;:)])", refusal) for option in options]
    return problem.what in refusal or (bool(matches) and all(matches))


def _is_of_cell(problem: Problem, refusal: str) -> bool:
    """Whether a problem is of the column, and of the row among others, that an error names."""
    row = re.search(r"\brow (\d+)\b", refusal)
    return row is not None and f"column {problem.column!r}" in refusal and f"(row {row[1]})" in problem.what


def command_line(arguments: Sequence[str]) -> str:
    """A command in lines of 80 columns, each but the last with a backslash at its end: it can be pasted as it is."""
    lines = [""]
    for argument in map(in_shell, arguments):
        if lines[-1] and len(lines[-1]) + len(argument) + 3 > WIDTH:
            lines.append(f"  {argument}")
        else:
            lines[-1] += f" {argument}" if lines[-1] else argument
    return " \\\n".join(lines)
