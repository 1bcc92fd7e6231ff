"""How to go on with a run that stopped: the arguments to type."""

import shlex
from pathlib import Path

from inference.runtime.configuration import read_configuration
from inference.runtime.files import CHECKPOINTS, CONFIG, RESULTS
from models.errors import ZooError


def hint(folder: Path) -> str:
    """How to go on with an unfinished run of the command line, or with a `fit` in Python, which has no configuration."""
    if not (folder / CONFIG).is_file():
        return f"fit with the same arguments, folder={str(folder)!r} among them, goes on from there"
    program = _program(folder)
    typed = [f"resume={folder}", *([] if program is None else [f"model={program}"])]
    return f"{shlex.join(typed)} goes on from there"


def can_go_on(folder: Path) -> bool:
    """Whether a folder holds results or checkpoints to go on from."""
    return (folder / RESULTS).exists() or any(folder.glob(CHECKPOINTS))


def _program(folder: Path) -> str | None:
    """The user's program that a run is of, as its configuration names it; None for a model of the zoo."""
    try:
        model = read_configuration(folder / CONFIG)["model"]
        return str(model["path"]) if model["name"] == "program" else None
    except (ZooError, KeyError, TypeError):  # a damaged file: a hint must not fail, and ``resume=`` says what is wrong
        return None
