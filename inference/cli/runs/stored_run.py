"""The run of a folder: its configuration, how far it came, and ``resume=<folder>``, by which it goes on or becomes longer.

With ``resume=`` the user may give some options again. `TAKEN` says how long the run is, or what is written of it. All others
would make another posterior, or other draws of it, and are refused by name.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from inference.programs.program_file import digest_of
from inference.runtime.configuration import read_configuration
from inference.runtime.files import CHECKPOINTS, CONFIG, ENVIRONMENT, FINAL, RESULTS, is_complete, read, remove, reopen, write
from models.errors import ZooError, exists

if TYPE_CHECKING:
    import xarray as xr

EXTENDED = ("num_samples", "max_iter")  # options that a longer run has more of; nothing that was computed depends on them
WRITES = ("pictures", "impute")  # options by which a finished run writes more
LASTING = (*EXTENDED, *WRITES, "checkpoint_seconds")  # what a resumed run may change in its configuration
TAKEN = (*LASTING, "progress")  # what the user may give again


def write_config(config: Mapping[str, Any], folder: Path) -> str:
    """Write ``environment.json``, then ``config.yaml``, sealed; returns the YAML text.

    A resumed run keeps its own environment. Its configuration changes where it goes on with other options.
    """
    from omegaconf import OmegaConf

    from inference.results.tree import environment

    model = {name: value for name, value in config["model"].items() if name != "sha256"}
    text = OmegaConf.to_yaml(OmegaConf.create({**config, "model": model, "out": str(folder), "resume": None}))
    if config["resume"] is not None:
        old = stored_config(folder)
        if any(old[name] != config[name] for name in LASTING if name in old):
            reopen(folder)
            write(folder / CONFIG, text.encode(), seal=True)
        return text
    found = environment()
    if "sha256" in config["model"]:
        found["program_sha256"] = config["model"]["sha256"]
    reopen(folder)
    write(folder / ENVIRONMENT, (json.dumps(found, indent=2) + "\n").encode())
    write(folder / CONFIG, text.encode(), seal=True)
    return text


def finished_result(folder: Path, config: Mapping[str, Any]) -> "xr.DataTree | None":
    """The result on disk if it is all that the run asks for; None if the fit must go on.

    Raises `ZooError` for a damaged result.
    """
    from inference.results.tree import load

    if not (folder / RESULTS).is_file():
        return None
    try:
        tree = load(folder)
    except ZooError:
        if any(folder.glob(CHECKPOINTS)):  # the result can be made again from the checkpoints
            return None
        raise
    return None if tree.attrs["interrupted"] or _asks_for_more(config, tree) else tree


def _asks_for_more(config: Mapping[str, Any], tree: "xr.DataTree") -> bool:
    """Whether a run goes on longer than its result did."""
    had = json.loads(tree.attrs.get("options", "{}"))
    return any(config[name] > had[name] for name in EXTENDED if name in config and name in had)


def require_work(config: Mapping[str, Any], folder: Path) -> None:
    """A `ZooError` where a run with this configuration has nothing left to do in its folder."""
    old = stored_config(folder)
    if is_unfinished(folder) or any(config[name] != old[name] for name in (*EXTENDED, *WRITES) if name in old):
        return
    longer = " or ".join(f"{name}=<more than {old[name]}>" for name in EXTENDED if name in old)
    raise ZooError(f"resume={folder}: that run is finished" + (f"; {longer} makes it longer" if longer else ""))


def is_unfinished(folder: Path) -> bool:
    """Whether there is something left to do in the folder of a run."""
    from inference.results.tree import load

    if not is_complete(folder, RESULTS) or any(folder.glob(CHECKPOINTS)):
        return True
    return bool(load(folder).attrs["interrupted"])


def stored_config(folder: Path) -> dict[str, Any]:
    """``config.yaml``, checked: complete, sealed, and with exactly the entries that this version knows. Raises `ZooError`."""
    path = folder / CONFIG
    old = cast(dict[str, Any], read_configuration(path, require_seal=True))
    if not isinstance(old, dict) or not all(isinstance(old.get(part), dict) for part in ("model", "data", "runtime")):
        raise ZooError(f"{path} is damaged, or is not the configuration of a run; start a new run")
    from inference.methods.options import method_module
    from inference.runtime.entries import entry_keys, run_keys

    _require_entries(path, "", set(old), run_keys() | set(method_module(old.get("method", "")).Options._fields))
    for part in ("model", "data", "runtime"):
        _require_entries(path, f"{part}.", set(old[part]), entry_keys(part, old[part].get("name")))
    return old


def _require_entries(path: Path, prefix: str, found: set[Any], wanted: set[str]) -> None:
    """Raises `ZooError` for an unknown or a missing entry."""
    for names, words in ((found - wanted, "it has an entry"), (wanted - found, "it lacks the entry")):
        if names:
            name = f"{prefix}{min(map(str, names))}"
            raise ZooError(f"{path} is damaged, or of another version of the zoo: {words} {name!r}; start a new run")


def named_program(named: Mapping[str, Any], old: Mapping[str, Any], folder: Path, said: str = "resume") -> dict[str, Any]:
    """The path of the program named again, checked by name and content; empty for a model of the zoo.

    ``said`` is the argument that named the folder.
    """
    given = named["path"] if named["name"] == "program" else None
    if old["name"] != "program":
        if given is not None:
            raise ZooError(f"{said}={folder} is a run of {old['name']}, not of a program: leave model={given} out")
        return {}
    path = str(old.get("path"))
    if given is None:
        raise ZooError(
            f"{said}={folder} is a run of the program {path}. For this the zoo must execute that file: say so by "
            f"{shlex.quote(f'model={path}')}"
        )
    if given.rpartition(":")[2] != path.rpartition(":")[2]:
        raise ZooError(f"{said}={folder} is a run of the program {path}, not of {given}")
    digest = digest_of(given)
    if digest != _program_digest(folder):
        raise ZooError(
            f"model={given} is not the file that the run of {folder} began with: its SHA-256 differs from the one in "
            f"{ENVIRONMENT}. Restore that file, or start a new run"
        )
    return {"path": given, "sha256": digest}


def _program_digest(folder: Path) -> Any:
    path = folder / ENVIRONMENT
    try:
        return json.loads(read(path))["program_sha256"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ZooError(
            f"{path} does not say which program the run began with, so nothing is executed; start a new run"
        ) from error


# ---------------------------------------------------------------------------------------------------------------------
# Going on


def require_taken(arguments: Sequence[str]) -> None:
    """A `ZooError` that names the first argument that does not go with ``resume=``."""
    for argument in arguments:
        name = argument.partition("=")[0]
        if name not in ("resume", *TAKEN) and not (name == "model" and ".py:" in argument):
            others = ", ".join(f"{one}=" for one in TAKEN)
            raise ZooError(
                f"{argument} does not go with resume=, which keeps the posterior of the run and its draws. It takes {others}, "
                "and for your own program model=<file.py>:<function>"
            )


def stored_method(folder: Path) -> str:
    """The method of the run in a folder. Raises `ZooError` where there is none."""
    return str(_stored(folder)["method"])


def resumed(config: dict[str, Any], again: Sequence[str] = ()) -> dict[str, Any]:
    """With ``resume=<folder>``: the configuration of that run, with the options that the user gave ``again``, by name.

    Building a user's program executes its file, so the user must name it again, and its content must be that of the run.
    Raises `ZooError` for a run that is finished, unless it shall be longer or write more, and for one that shall be shorter.
    """
    if config["resume"] is None:
        return config
    folder = Path(config["resume"])
    old = _stored(folder)
    given = {name: config[name] for name in again if name in TAKEN} | {"progress": config["progress"]}
    _require_longer(given, old)
    require_work(old | given, folder)
    model = old["model"] | named_program(config["model"], old["model"], folder)
    return old | given | {"model": model, "out": str(folder), "resume": str(folder)}


def reopened(config: Mapping[str, Any], folder: Path) -> None:
    """Make the folder of a finished run that of an unfinished one, where the run becomes longer."""
    old = stored_config(folder)
    if any(config[name] > old[name] for name in EXTENDED if name in old):
        reopen(folder)
        for path in folder.glob(FINAL):
            path.replace(_named(path, CHECKPOINTS))


def keep_final(folder: Path, tree: "xr.DataTree") -> None:
    """Keep the last checkpoints of a finished run, so that ``resume=`` can make it longer.

    An optimiser that has converged, and independent draws, have nothing to go on from.
    """
    from inference.engine.task import Kind, kind_of

    converged = "optimization" in tree and bool(tree["optimization"]["converged"].all())
    goes_on = kind_of(tree) is Kind.CHAINS or not converged
    for path in folder.glob(CHECKPOINTS):
        if goes_on:
            path.replace(_named(path, FINAL))
        else:
            remove(path)
    for path in () if goes_on else folder.glob(FINAL):
        remove(path)


def _named(path: Path, pattern: str) -> Path:
    """A checkpoint, by the name that a pattern gives it."""
    return path.with_name(f"{pattern.partition('*')[0]}{path.name.partition('-')[2]}")


def with_digest(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration, for a program with the SHA-256 of its file: only these bytes are executed from now on."""
    model = config["model"]
    if model["name"] != "program" or "sha256" in model or ":" not in (model.get("path") or ""):
        return config
    return config | {"model": model | {"sha256": digest_of(model["path"])}}


def _stored(folder: Path) -> dict[str, Any]:
    if not (exists(folder) and (folder / CONFIG).is_file()):
        raise ZooError(f"resume={folder}: there is no run to continue (no {CONFIG})")
    return stored_config(folder)


def _require_longer(given: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    for name in EXTENDED:
        if name in given and name in old and given[name] < old[name]:
            raise ZooError(
                f"{name}={given[name]} is less than the {old[name]} of the run: resume= makes a run longer, not shorter"
            )
