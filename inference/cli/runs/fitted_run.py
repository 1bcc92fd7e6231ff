"""A run, read back from its folder: how far it has come; of a finished one the configuration, the result, and the model.

JAX is imported once there is a run to read, so that a wrong argument fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from inference.cli.runs.execute import all_rows, build_model, options_of_method
from inference.cli.runs.run_folder import WRITTEN
from inference.cli.runs.stored_run import ASKED, named_program, stored_config
from inference.runtime.files import CHECKPOINTS, CONFIG, ENVIRONMENT, LOG, MANIFEST, RESULTS, is_complete, remove
from inference.runtime.hints import hint
from models.errors import ZooError, exists

if TYPE_CHECKING:
    import xarray as xr

    from models.base import Model

SAME = 1e-6  # relative difference of hyperparameters that are built again: sums in another order, on another machine


class Stage(Enum):
    """How far a run has come, by its folder."""

    NEW = "no result and nothing to go on from"
    UNFINISHED = "it can go on"
    DAMAGED = "its result cannot be read"
    FINISHED = "finished"


def stage_of(folder: Path) -> Stage:
    """How far the run of a folder has come."""
    from inference.results.tree import load

    if not (folder / CONFIG).is_file():
        return Stage.NEW
    if any(folder.glob(CHECKPOINTS)) or (folder / ASKED).is_file():
        return Stage.UNFINISHED
    if not (folder / RESULTS).is_file():
        return Stage.NEW
    try:
        tree = load(folder)
        complete = is_complete(folder, RESULTS)
    except ZooError:
        return Stage.DAMAGED
    if tree.attrs["interrupted"]:
        return Stage.UNFINISHED
    return Stage.FINISHED if complete else Stage.UNFINISHED


def clear(folder: Path) -> None:
    """Remove what a run wrote, so that another one can begin there; other files stay."""
    remove(*(folder / name for name in (MANIFEST, CONFIG, ENVIRONMENT, LOG, RESULTS, *WRITTEN)))


class FittedRun(NamedTuple):
    """A finished run."""

    folder: Path
    config: dict[str, Any]
    tree: xr.DataTree
    model: Model
    observed: Any  # the fitted data: a table, as `data_of` reads it from the result; of a program its array


def finished_config(folder: Path, option: str = "run") -> tuple[dict[str, Any], xr.DataTree]:
    """The configuration and the result of a finished run. Raises `ZooError` where there is none, or it is not finished."""
    if not (exists(folder) and folder.is_dir()):
        raise ZooError(f"{option}={folder}: there is no such folder; give the folder of a run")
    stopped = any(folder.glob(CHECKPOINTS))
    if stopped and not is_complete(folder, RESULTS):  # where all is complete, a finished run was to become longer
        raise _not_finished(folder, option)
    if not (folder / RESULTS).is_file():
        raise ZooError(f"{option}={folder}: no {RESULTS} there; give the folder of a finished run")
    from inference.results.tree import load

    tree = load(folder)
    if tree.attrs["interrupted"] and stopped:
        raise _not_finished(folder, option)
    if tree.attrs["interrupted"]:
        raise ZooError(f"{option}={folder}: that run was interrupted, so its result is none of a finished fit; run it again")
    if not (folder / CONFIG).is_file():
        raise ZooError(f"{option}={folder} has a {RESULTS} and no {CONFIG}: give the folder of a run as the run wrote it")
    return stored_config(folder), tree


def _not_finished(folder: Path, option: str) -> ZooError:
    return ZooError(f"{option}={folder}: that run is not finished; {hint(folder)}")


def fitted_run(folder: Path, named: Mapping[str, Any] | None = None, option: str = "run") -> FittedRun:
    """Build the model of a finished run again, on the rows that its result holds.

    ``named`` is the model section of a configuration that names a user's program again, which is executed only then. Raises
    `ZooError` where the model is not the one that was fitted, as after a change of the zoo or of a program's data.
    """
    from inference.fitting.fit import fingerprint_of
    from inference.results.table import data_of

    config, tree = finished_config(folder, option)
    section = config["model"]
    if section["name"] != "program":
        data = data_of(tree)
        model = build_model(section, data, config["precision"])[0]
        return FittedRun(folder, config, tree, _under_stored_prior(model, tree, folder, option), data)
    section = section | named_program(named or {"name": None}, section, folder, option)
    model, observed = build_model(section, all_rows(config)[1], config["precision"])
    options_of_fit = {name: config[name] for name in ("seed", "precision")} | options_of_method(config)
    if tree.attrs.get("fingerprint") != fingerprint_of(model, observed, config["method"], **options_of_fit):
        raise _another_model(folder, option, "the data of the program have")
    return FittedRun(folder, config, tree, model, observed)


def _under_stored_prior(model: Model, tree: xr.DataTree, folder: Path, option: str) -> Model:
    """The model with the hyperparameters of the result: those built again may differ in their last digits.

    Those that a fit learnt are for `inference.predictions.new_rows.as_learnt`.
    """
    if tree.attrs.get("learnt", 0):
        return model
    group = tree["constant_data"].to_dataset()
    stored = {name: np.asarray(group[name].values) for name in model.hyper if name in group}
    if set(stored) != set(model.hyper) or not all(_are_close(stored[name], value) for name, value in model.hyper.items()):
        raise _another_model(folder, option, "the zoo has")
    return model._replace(hyper=stored)


def _are_close(left: np.ndarray, right: Any) -> bool:
    again = np.asarray(right)
    return left.shape == again.shape and np.allclose(left, again, rtol=SAME, atol=0, equal_nan=True)


def _another_model(folder: Path, option: str, what: str) -> ZooError:
    return ZooError(f"{option}={folder}: {what} changed since: the model of its {CONFIG} is not the one fitted; run it again")


def key_values(arguments: Sequence[str], known: Callable[[str], bool], usage: str) -> dict[str, str]:
    """``key=value`` arguments as a dictionary; raises `ZooError` for another form, an unknown key, and a key given twice."""
    given: dict[str, str] = {}
    for argument in arguments:
        key, mark, value = argument.partition("=")
        if not mark or not known(key):
            raise ZooError(f"{argument!r} is no argument of this command: {usage}")
        if key in given:
            raise ZooError(f"{key}= is given twice: {given[key]} and {value}")
        given[key] = value
    return given
