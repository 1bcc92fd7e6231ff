"""The folder of a run: created, locked and described before the run begins, and reopened by ``resume=``."""

import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from inference.cli.program_file import digest_of
from inference.runtime.configuration import read_configuration
from inference.runtime.files import (
    CHECKPOINTS,
    CONFIG,
    ENVIRONMENT,
    LOG,
    MANIFEST,
    RESULTS,
    LoggedError,
    NotWrittenError,
    complete,
    is_complete,
    is_sealed,
    listed,
    log_of,
    read,
    reopen,
    write,
)
from inference.runtime.hints import can_go_on, come_so_far, hint
from inference.runtime.lock import locked
from inference.runtime.signals import interrupt_behind
from models.data.table import Data
from models.errors import ZooError, exists

if TYPE_CHECKING:
    import xarray as xr

PICTURES = ("pairs", "checks", "profile", "co_clustering", "loadings", "topics", "state_probs", "transitions", "emissions")
IMPUTED = ("imputed.nc", "imputed.csv", "imputed_mask.csv", "imputed_cells.csv")
TABLES = ("summary.csv", "assignments.csv", "crosstab.csv", "topic_shares.csv")
WRITTEN = (*TABLES, "report.html", *IMPUTED, *(f"{name}.svg" for name in PICTURES))
TRIES = 100  # attempts to create a folder while other processes do the same


@contextmanager
def run_folder(config: Mapping[str, Any], data: Data) -> Iterator[Path]:
    """Create and lock the folder of a run. A run that stops says how to continue; one that computed nothing leaves no folder.

    Raises `ZooError` for the folder of another run, for a folder with foreign files under the names that a run writes, and for
    one in which another process works.
    """
    with held(_place(config, data), fresh=not config["out"]) as folder:
        before = {path.name for path in folder.iterdir()}
        try:
            _require_ours(config, folder)
            yield folder
        except (KeyboardInterrupt, Exception) as error:
            told = _told(error, folder, config)
            if told is error:
                raise
            raise told from error
        finally:
            if config["resume"] is None:
                _remove_if_nothing_was_computed(folder, before)


def _told(error: BaseException, folder: Path, config: Mapping[str, Any]) -> BaseException:
    """What ended a run, with how to continue it, or the name of the log file of a bug."""
    if (stop := interrupt_behind(error)) is not None:
        reached = come_so_far(folder, config)
        after = f" after {reached}" if reached else ""
        return KeyboardInterrupt(f"interrupted{after}; {hint(folder)}" if can_go_on(folder) else str(stop))
    if isinstance(error, NotWrittenError):
        kept = f"; what was computed is kept: {hint(folder)}" if can_go_on(folder) else ""
        return NotWrittenError(f"{error}{kept}")
    if isinstance(error, ZooError):
        return error
    assert isinstance(error, Exception)
    return LoggedError(error, log_of(error, folder))


@contextmanager
def held(folder: Path, fresh: bool = False) -> Iterator[Path]:
    """A folder, created if needed and locked for this process. Folders created for it are removed again if they stay empty.

    With ``fresh``, the folder is always a new one: a number is appended to a name that is taken.
    """
    folder, made = _made(folder, fresh)
    try:
        with locked(folder, lambda: made.extend(make_folder(folder))):
            yield folder
    finally:
        for path in reversed(made):
            with suppress(OSError):  # not empty, as usual
                path.rmdir()


def amend(tree: "xr.DataTree", folder: Path) -> None:
    """Write the result of a finished run again."""
    from inference.results.tree import save

    with locked(folder):
        files = listed(folder)
        reopen(folder)
        save(tree, folder / RESULTS)
        complete(folder, files)


def _place(config: Mapping[str, Any], data: Data) -> Path:
    if config["out"]:
        return Path(config["out"])
    source, name = config["data"]["name"], config["model"]["name"]
    title = Path(data.name).stem if source == "file" else source
    return Path("runs") / f"{name}-{config['method']}-{title}-{time.strftime('%Y%m%d-%H%M%S')}"


def _made(folder: Path, fresh: bool) -> tuple[Path, list[Path]]:
    """The folder, and all folders created for it. Of two processes that want a fresh folder, only one gets the name."""
    if not fresh:
        return folder, make_folder(folder)
    for number in range(TRIES):
        numbered = folder.with_name(f"{folder.name}-{number}") if number else folder
        parents = make_folder(folder.parent)
        try:
            numbered.mkdir()
        except (FileExistsError, FileNotFoundError):  # the name is taken, or another process removed the empty parent
            continue
        except OSError as error:
            raise _not_made(numbered, error) from error
        return numbered, [*parents, numbered]
    raise ZooError(f"out={folder} cannot be made: there are already {TRIES} folders of that name; choose another name")


def make_folder(folder: Path) -> list[Path]:
    """Create a folder and its parents; returns those created, outermost first. Raises `ZooError`."""
    made = []
    try:
        for path in [*reversed(folder.parents), folder]:
            if not path.is_dir():
                path.mkdir()
                made.append(path)
    except FileExistsError:
        if not path.is_dir():
            raise _not_made(folder, "there is a file of that name") from None
        return [*made, *make_folder(folder)]  # another process made it first
    except (OSError, ValueError) as error:
        raise _not_made(folder, error) from error
    return made


def _not_made(folder: Path, why: object) -> ZooError:
    return ZooError(f"out={folder} cannot be made: {getattr(why, 'strerror', None) or why}")


def _require_ours(config: Mapping[str, Any], folder: Path) -> None:
    """Raises `ZooError` for the folder of another run, for foreign files, or if the run to resume has finished meanwhile."""
    if config["resume"] is not None:
        _require_unfinished(folder)
    elif (folder / RESULTS).exists():
        goes_on = f"; {hint(folder)}" if _is_unfinished(folder) else ""
        raise ZooError(f"out={folder} holds the results of another run; choose another folder{goes_on}")
    elif any(folder.glob(CHECKPOINTS)):
        raise ZooError(f"out={folder} holds an unfinished run: {hint(folder)}; or choose another folder")
    else:
        foreign = [name for name in (CONFIG, ENVIRONMENT, LOG, MANIFEST, *WRITTEN) if _is_foreign(folder / name)]
        if foreign:
            raise ZooError(f"out={folder} holds a {foreign[0]} that no unfinished run wrote; choose another folder")


def _is_foreign(path: Path) -> bool:
    """Whether a file under one of our names was not left by a run that was killed before its first result."""
    if not os.path.lexists(path) or path.name in (CONFIG, LOG):
        return os.path.lexists(path) and not is_sealed(path)
    if path.name != ENVIRONMENT:
        return True
    try:
        return "bayes-model-zoo" not in json.loads(path.read_bytes())["packages"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return True


def _remove_if_nothing_was_computed(folder: Path, before: set[str]) -> None:
    """Remove the files that this run added to those ``before``, if they only describe the run."""
    new = {path.name for path in folder.iterdir()} - before if folder.is_dir() else set()
    if new <= {CONFIG, ENVIRONMENT}:
        for name in new:
            with suppress(OSError):
                (folder / name).unlink()


# ---------------------------------------------------------------------------------------------------------------------
# What a folder says of its run


def write_config(config: Mapping[str, Any], folder: Path) -> str:
    """Write ``environment.json``, then ``config.yaml``, sealed; a resumed run keeps its own. Returns the YAML text."""
    from omegaconf import OmegaConf

    from inference.results.tree import environment

    model = {name: value for name, value in config["model"].items() if name != "sha256"}
    text = OmegaConf.to_yaml(OmegaConf.create({**config, "model": model, "out": str(folder), "resume": None}))
    if config["resume"] is not None:
        return text
    found = environment()
    if "sha256" in config["model"]:
        found["program_sha256"] = config["model"]["sha256"]
    reopen(folder)
    write(folder / ENVIRONMENT, (json.dumps(found, indent=2) + "\n").encode())
    write(folder / CONFIG, text.encode(), seal=True)
    return text


def finished_result(folder: Path) -> "xr.DataTree | None":
    """The result on disk if its fit had finished; None if the fit must continue. Raises `ZooError` for a damaged result."""
    from inference.results.tree import load

    if not (folder / RESULTS).is_file():
        return None
    unfinished = any(folder.glob(CHECKPOINTS))
    try:
        tree = load(folder)
    except ZooError:
        if unfinished:  # the result can be made again from the checkpoints
            return None
        raise
    return None if tree.attrs["interrupted"] and (unfinished or samples(tree)) else tree


def samples(tree: "xr.DataTree") -> bool:
    """Whether the result's method is a sampler, which can resume, from its checkpoints or else from the beginning."""
    from inference.methods.options import method_module

    return "num_warmup" in method_module(tree.attrs["method"]).Options._fields


def _is_unfinished(folder: Path) -> bool:
    try:
        _require_unfinished(folder)
    except ZooError:
        return False
    return True


def _require_unfinished(folder: Path) -> None:
    from inference.results.tree import load

    if not is_complete(folder, RESULTS) or any(folder.glob(CHECKPOINTS)):
        return
    tree = load(folder)
    if tree.attrs["interrupted"] and samples(tree):
        return
    if tree.attrs["interrupted"]:
        raise ZooError(
            f"resume={folder}: that run was interrupted, and its method leaves nothing to go on from; start a new run"
        )
    raise ZooError(f"resume={folder}: that run is finished")


def resumed(config: dict[str, Any]) -> dict[str, Any]:
    """With ``resume=<folder>``: the configuration of that run.

    Building a user's program executes its file, so the user must name it again, and its content must be that of the run.
    """
    if config["resume"] is None:
        return config
    folder = Path(config["resume"])
    if not (exists(folder) and (folder / CONFIG).is_file()):
        raise ZooError(f"resume={folder}: there is no run to continue (no {CONFIG})")
    _require_unfinished(folder)
    from inference.methods.options import method_module

    others = method_module(config["method"]).Options._fields  # options of the default method; the run has its own
    old = stored_config(folder)
    model = old["model"] | named_program(config["model"], old["model"], folder)
    config = {name: value for name, value in config.items() if name not in others}
    return config | old | {"model": model, "out": str(folder), "resume": str(folder), "progress": config["progress"]}


def with_digest(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration, for a program with the SHA-256 of its file: only these bytes are executed from now on."""
    model = config["model"]
    if model["name"] != "program" or "sha256" in model or ":" not in (model.get("path") or ""):
        return config
    return config | {"model": model | {"sha256": digest_of(model["path"])}}


def stored_config(folder: Path) -> dict[str, Any]:
    """``config.yaml``, checked: complete, sealed, and with exactly the entries that this version knows. Raises `ZooError`."""
    path = folder / CONFIG
    old = cast(dict[str, Any], read_configuration(path, require_seal=True))
    if not isinstance(old, dict) or not all(isinstance(old.get(part), dict) for part in ("model", "data")):
        raise ZooError(f"{path} is damaged, or is not the configuration of a run; start a new run")
    from inference.methods.options import method_module
    from inference.runtime.entries import entry_keys, run_keys

    _require_entries(path, "", set(old), run_keys() | set(method_module(old.get("method", "")).Options._fields))
    for part in ("model", "data"):
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
