"""What each command of the labs says of itself: its usage, its options with their defaults, and its part of the help."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from labs.grading import SECONDS


class Command(NamedTuple):
    """One command. The page of all of them is `inference.cli.runs.help.COMMANDS`."""

    places: str  # arguments that are no options
    options: Mapping[str, str]  # name -> default
    said: str
    example: str


COMMANDS: Mapping[str, Command] = {
    "list": Command("", {}, "Name the labs, with points, minutes and titles.", ""),
    "new": Command(
        "NAME [FOLDER]",
        {"notebook": "false"},
        """\
Write a folder: a page to read, a file to complete, public tests, data. The
folder has the name of the lab unless you give one. No file is overwritten.

  notebook=true     write a notebook for nbgrader in the place of the file""",
        "new em_gmm",
    ),
    "check": Command(
        "[FOLDER|FILE]",
        {"seed": "0", "seconds": f"{SECONDS:.0f}"},
        f"""\
Grade the file of a lab, say what is wrong, and write grade.json beside it.
Without an argument it grades the lab of this folder.
Exit code 0: all points, 3: not all, 2: there is nothing to grade.

  seed=0            of the cases that are drawn
  seconds={SECONDS:<10.0f}of computing that one part may take""",
        "check em_gmm seed=7",
    ),
    "trace": Command(
        "[FOLDER|FILE]",
        {},
        """\
Draw every iteration of your functions beside the right one: trace.svg and
trace.gif, beside the file.""",
        "trace em_gmm",
    ),
    "solution": Command(
        "NAME [FOLDER]",
        {},
        """\
Write the instructor's key into another folder than that of a student:
NAME_solution unless you give one.""",
        "solution em_gmm key",
    ),
}
OPTIONS: Mapping[str, Mapping[str, str]] = {name: command.options for name, command in COMMANDS.items()}


def usage_of(name: str) -> str:
    """``usage: python -m labs check [FOLDER|FILE] [seed=0] [seconds=20]``."""
    command = COMMANDS[name]
    options = [f"[{option}={'true' if value == 'false' else value}]" for option, value in command.options.items()]
    return " ".join(filter(None, ["usage: python -m labs", name, command.places, *options]))


def help_of(arguments: Sequence[str]) -> str:
    """The part of one command, where the arguments ask for help on it; nothing where they do not, or ask for all."""
    name = next((argument for argument in arguments if not argument.startswith("-")), "")
    if name not in COMMANDS or not {"--help", "-h"} & set(arguments):
        return ""
    command = COMMANDS[name]
    example = f"  python -m labs {command.example or name}"
    return "\n\n".join([usage_of(name), command.said, example])
