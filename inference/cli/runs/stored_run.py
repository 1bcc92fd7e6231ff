"""The run of a folder: its configuration, how far it came, and ``resume=<folder>``, by which it goes on or becomes longer.

With ``resume=`` the user may give some options again. Those of `TAKEN` change the length of the run or its output. All others
would make another posterior, or other draws of it, and are errors.
"""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from inference.programs.program_file import digest_of
from inference.runtime.configuration import read_configuration
from inference.runtime.files import (
    CHECKPOINTS,
    CONFIG,
    ENVIRONMENT,
    RESULTS,
    as_text,
    is_complete,
    read,
    remove,
    reopen,
    write,
)
from inference.runtime.hints import hint
from models.errors import ZooError, exists

if TYPE_CHECKING:
    import xarray as xr

EXTENDED = ("num_samples", "max_iter")  # options that are larger in a longer run; nothing computed so far depends on them
WRITES = ("pictures", "impute")  # options by which a finished run writes more
LASTING = (*EXTENDED, *WRITES, "checkpoint_seconds")  # options that a resumed run may change in its configuration
TAKEN = (*LASTING, "progress")  # options that the user may give again
RUNTIME = "runtime"  # who computes the run, which may be others when it goes on
# Options of a finished run that becomes longer. Its files stay as they are until the longer result is there.
ASKED = "longer.yaml"


def write_config(config: Mapping[str, Any], folder: Path) -> None:
    """Write ``environment.json``, then ``config.yaml``, sealed.

    A resumed run keeps its first environment, unless that is damaged. Its configuration changes where it goes on with other
    options.
    """
    content = config_text(config, folder).encode()
    if config["resume"] is not None:
        if not has_environment(folder):
            print(f"warning: {folder / ENVIRONMENT} was damaged, and now describes the environment of resume=", file=sys.stderr)
            reopen(folder)
            _write_environment(config, folder)
        old = stored_config(folder)
        if any(old[name] != config[name] for name in LASTING if name in old):
            reopen(folder)
            write(folder / CONFIG, content, seal=True)
        remove(folder / ASKED)
        return
    reopen(folder)
    remove(folder / ASKED)
    _write_environment(config, folder)
    write(folder / CONFIG, content, seal=True)


def _write_environment(config: Mapping[str, Any], folder: Path) -> None:
    """With its checksum as an entry, so that it stays JSON for other readers."""
    from inference.results.tree import environment

    entries = environment()
    if "sha256" in config["model"]:
        entries["program_sha256"] = config["model"]["sha256"]
    write(folder / ENVIRONMENT, as_text(entries))


def has_environment(folder: Path) -> bool:
    """Whether ``environment.json`` is as its run wrote it, by its checksum.

    Earlier versions wrote no checksum: of theirs, whether it names packages.
    """
    try:
        content = read(folder / ENVIRONMENT)
        entries = json.loads(content)
        return "packages" in entries if "sha256" not in entries else as_text(_without_checksum(entries)) == content
    except (ZooError, ValueError, TypeError, AttributeError, RecursionError):
        return False


def _without_checksum(entries: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if name != "sha256"}


def config_text(config: Mapping[str, Any], folder: Path) -> str:
    """The configuration as YAML, as ``config.yaml`` holds it."""
    from omegaconf import OmegaConf

    model = {name: value for name, value in config["model"].items() if name != "sha256"}
    return OmegaConf.to_yaml(OmegaConf.create({**config, "model": model, "out": str(folder), "resume": None}))


def finished_result(folder: Path) -> "xr.DataTree | None":
    """The result on disk of a fit that has ended, also of a shorter one than the run now requires.

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
    return None if tree.attrs["interrupted"] else tree


def asks_for_more(config: Mapping[str, Any], tree: "xr.DataTree") -> bool:
    """Whether a run goes on longer than its result did."""
    had = json.loads(tree.attrs.get("options", "{}"))
    return any(config[name] > had[name] for name in EXTENDED if name in config and name in had)


def require_work(config: Mapping[str, Any], folder: Path) -> None:
    """A `ZooError` where a run with this configuration is complete in its folder."""
    old = stored_config(folder)
    tree = _finished(folder)
    if tree is None or wants(config, old, (*EXTENDED, *WRITES)):
        return
    settled = _converged(tree, old)
    more = [f"{name}=<more than {old[name]}>" for name in EXTENDED if name in old and not (settled and name == "max_iter")]
    why = [settled] if settled else []
    why += [f"{' or '.join(more)} makes it longer"] if more else []
    raise ZooError("; ".join([f"resume={folder}: that run is finished", *why]))


def wants(config: Mapping[str, Any], old: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether one of the options differs from that of the run."""
    return any(config[name] != old[name] for name in names if name in old)


def is_unfinished(folder: Path) -> bool:
    """Whether there is something left to do in the folder of a run."""
    return _finished(folder) is None


def _finished(folder: Path) -> "xr.DataTree | None":
    """The result of a run that has nothing left to do; None of any other."""
    from inference.results.tree import load

    if not is_complete(folder, RESULTS) or any(folder.glob(CHECKPOINTS)) or (folder / ASKED).is_file():
        return None
    tree = load(folder)
    return None if tree.attrs["interrupted"] else tree


def why_converged(folder: Path, config: Mapping[str, Any]) -> str:
    """That more iterations of a finished run change nothing, in words; "" where they may change something."""
    tree = _finished(folder)
    return "" if tree is None else _converged(tree, config)


def _converged(tree: "xr.DataTree", config: Mapping[str, Any]) -> str:
    if not ended_by_itself(tree, config):
        return ""
    return f"it converged after {int(tree['optimization']['iterations'].max())} iterations, and more change nothing"


def ended_by_itself(tree: "xr.DataTree", config: Mapping[str, Any]) -> bool:
    """Whether an optimiser stopped because it had converged; those without ``tol`` or with batches take all iterations."""
    stops = "tol" in config and not config.get("batch_size", 0)
    return stops and "optimization" in tree and bool(tree["optimization"]["converged"].all())


def stored_config(folder: Path) -> dict[str, Any]:
    """``config.yaml``, checked: complete, sealed, and with exactly the entries that this version knows. Raises `ZooError`."""
    path = folder / CONFIG
    old = cast(dict[str, Any], read_configuration(path, require_seal=True))
    if not isinstance(old, dict) or not all(isinstance(old.get(part), dict) for part in ("model", "data", "runtime")):
        raise ZooError(f"{path} is damaged, or is not the configuration of a run; start a new run")
    from inference.methods.method import method_named
    from inference.runtime.entries import entry_keys, run_keys

    _require_entries(path, "", set(old), run_keys() | set(method_named(old.get("method", "")).options._fields))
    for part in ("model", "data", "runtime"):
        _require_entries(path, f"{part}.", set(old[part]), entry_keys(part, old[part].get("name")))
    return old


def _require_entries(path: Path, prefix: str, entries: set[Any], wanted: set[str]) -> None:
    """Raises `ZooError` for an unknown or a missing entry."""
    for names, words in ((entries - wanted, "it has an entry"), (wanted - entries, "it lacks the entry")):
        if names:
            name = f"{prefix}{min(map(str, names))}"
            raise ZooError(f"{path} is damaged, or of another version of the zoo: {words} {name!r}; start a new run")


def named_program(named: Mapping[str, Any], old: Mapping[str, Any], folder: Path, option: str = "resume") -> dict[str, Any]:
    """The path of the program named again, checked by name and content; empty for a model of the zoo.

    ``option`` is the argument that named the folder.
    """
    given = named["path"] if named["name"] == "program" else None
    if old["name"] != "program":
        if given is not None:
            raise ZooError(f"{option}={folder} is a run of {old['name']}, not of a program: leave model={given} out")
        return {}
    path = str(old.get("path"))
    if given is None:
        raise ZooError(
            f"{option}={folder} is a run of the program {path}. For this the zoo must execute that file: say so by "
            f"{shlex.quote(f'model={path}')}"
        )
    if given.rpartition(":")[2] != path.rpartition(":")[2]:
        raise ZooError(f"{option}={folder} is a run of the program {path}, not of {given}")
    digest = digest_of(given)
    if digest != _program_digest(folder):
        raise ZooError(
            f"model={given} is not the file that the run of {folder} began with: its SHA-256 differs from the one in "
            f"{ENVIRONMENT}. Restore that file, or start a new run"
        )
    return {"path": given, "sha256": digest}


def _program_digest(folder: Path) -> Any:
    path = folder / ENVIRONMENT
    entries = json.loads(read(path)) if has_environment(folder) else {}
    if "program_sha256" not in entries:
        raise ZooError(f"{path} does not say which program the run began with, so nothing is executed; start a new run")
    return entries["program_sha256"]


# ---------------------------------------------------------------------------------------------------------------------
# Going on


def resumed(config: dict[str, Any], again: Sequence[str] = ()) -> dict[str, Any]:
    """With ``resume=<folder>``: the configuration of that run, with the options that the user gave ``again``, by name.

    Building a user's program executes its file, so the user must name it again, and its content must be that of the run.
    Raises `ZooError` for a run that is finished, unless it shall be longer or write more, and for one that shall be shorter.
    """
    if config["resume"] is None:
        return config
    folder = Path(config["resume"])
    old = run_of(folder)
    given = {name: config[name] for name in again if name in TAKEN} | {"progress": config["progress"]}
    if any(name.partition(".")[0] == RUNTIME for name in again):
        given[RUNTIME] = config[RUNTIME]
    requested = old | _requested(folder)
    _require_longer(given, requested, folder)
    require_work(requested | given, folder)
    model = old["model"] | named_program(config["model"], old["model"], folder)
    return requested | given | {"model": model, "out": str(folder), "resume": str(folder)}


def with_digest(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration, for a program with the SHA-256 of its file: only these bytes are executed from now on."""
    model = config["model"]
    if model["name"] != "program" or "sha256" in model or ":" not in (model.get("path") or ""):
        return config
    return config | {"model": model | {"sha256": digest_of(model["path"])}}


def run_of(folder: Path) -> dict[str, Any]:
    """The configuration of the run in a folder. Raises `ZooError` where there is none."""
    require_folder(folder)
    if not (folder / CONFIG).is_file():
        in_python = f"; {hint(folder)}" if any(folder.glob(CHECKPOINTS)) else ""
        raise ZooError(f"resume={folder}: there is no {CONFIG}, so that is not the folder of a run{in_python}")
    return stored_config(folder)


def require_folder(folder: Path) -> None:
    """A `ZooError` where ``resume=`` names no folder."""
    if not exists(folder):
        raise ZooError(f"resume={folder}: there is no such folder")
    if not folder.is_dir():
        raise ZooError(f"resume={folder} is a file: name the folder of a run")


def _requested(folder: Path) -> dict[str, Any]:
    """The options of a finished run that was to become longer, and stopped; empty for any other."""
    path = folder / ASKED
    return dict(read_configuration(path, require_seal=True)) if path.is_file() else {}


def ask(config: Mapping[str, Any], folder: Path) -> None:
    """Store the options of a finished run that becomes longer, so that ``resume=`` alone goes on with it."""
    from omegaconf import OmegaConf

    requested = {name: config[name] for name in LASTING if name in config}
    write(folder / ASKED, OmegaConf.to_yaml(OmegaConf.create(requested)).encode(), seal=True)


def _require_longer(given: Mapping[str, Any], requested: Mapping[str, Any], folder: Path) -> None:
    """A `ZooError` for fewer draws or iterations than are there."""
    for name in EXTENDED:
        if name not in given or name not in requested or given[name] == requested[name]:
            continue
        least = _least(name, requested, folder)
        if given[name] < least:
            raise ZooError(f"{name}={given[name]} is less than the {least} of the run: resume= makes a run longer, not shorter")


def _least(name: str, config: Mapping[str, Any], folder: Path) -> int:
    """How many draws or iterations a longer run has at least: those of the result, or else those of the checkpoints."""
    tree = None
    with suppress(ZooError):  # the checkpoints suffice, and otherwise the reader of the result raises the error
        tree = finished_result(folder)
    had = 0 if tree is None else int(json.loads(tree.attrs.get("options", "{}")).get(name, 0))
    if not any(folder.glob(CHECKPOINTS)) or (name == "num_samples" and tree is not None):
        return had
    from inference.methods.advi import WINDOW
    from inference.runtime.checkpoints import steps_finished

    steps = steps_finished(folder)
    if name == "num_samples":
        return int(steps.get("sampling", 0)) // int(config.get("thin", 1))
    return max(had, steps.get("iterations", 0), WINDOW * (steps.get("windows", 0) - 1) + 1)
