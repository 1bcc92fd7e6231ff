"""How to go on with a run that stopped: how far it had come, and the arguments to type."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inference.runtime.configuration import read_configuration
from inference.runtime.files import CHECKPOINTS, CONFIG, RESULTS
from models.errors import ZooError

# Phase of an optimiser, or of sequential Monte Carlo -> what its steps are. The last phase of a run comes first.
OF_OPTIMISERS = {
    "iterations": "iterations",
    "windows": "groups of steps",
    "evaluations": "evaluations of the density",
    "stages": "stages on the way to the posterior",
}


def hint(folder: Path) -> str:
    """How to go on with an unfinished run of the command line, or with a `fit` in Python, which has no configuration.

    A fit goes on from its checkpoints. Without them, `resume=` writes what is missing in the folder.
    """
    if not (folder / CONFIG).is_file():
        return f"fit with the same arguments, folder={str(folder)!r} among them, goes on from there"
    program = _program(folder)
    typed = [f"resume={folder}", *([] if program is None else [f"model={program}"])]
    does = "goes on from there" if any(folder.glob(CHECKPOINTS)) else "writes what is missing"
    return f"{shlex.join(typed)} {does}"


def come_so_far(folder: Path, config: Mapping[str, Any]) -> str:
    """How far a run had come, by its checkpoints; "" where there are none that can be read.

    >>> come_so_far(Path("runs/x"), {"num_warmup": 1000, "num_samples": 1000})
    '137 of 1000 draws per chain'
    """
    if not any(folder.glob(CHECKPOINTS)):
        return ""
    from inference.runtime.checkpoints import steps_finished

    steps = steps_finished(folder)
    if "sampling" in steps:
        number = steps["sampling"] // config.get("thin", 1)
        return f"{number} of {config['num_samples']} draws per chain"
    if "warmup" in steps:
        return f"{steps['warmup']} of {config['num_warmup']} steps of the warm-up"
    return next((f"{steps[phase]} {word}" for phase, word in OF_OPTIMISERS.items() if phase in steps), "")


def can_go_on(folder: Path) -> bool:
    """Whether a folder holds results or checkpoints to go on from."""
    return (folder / RESULTS).exists() or any(folder.glob(CHECKPOINTS))


def _program(folder: Path) -> str | None:
    """The user's program that a run is of, as its configuration names it; None for a model of the zoo."""
    try:
        model = read_configuration(folder / CONFIG)["model"]
        return str(model["path"]) if model["name"] == "program" else None
    except (ZooError, KeyError, TypeError):  # a damaged file: a hint must not fail, and ``resume=`` reports the error
        return None
