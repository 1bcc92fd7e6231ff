"""The folder of a run: created, locked and described before the run begins, and reopened by ``resume=``."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.cli.runs.stored_run import (
    ASKED,
    ask,
    asks_for_more,
    ended_by_itself,
    is_unfinished,
    require_folder,
    require_work,
)
from inference.runtime.files import (
    CHECKPOINTS,
    CONFIG,
    ENVIRONMENT,
    FINAL,
    LOCK,
    LOG,
    MANIFEST,
    RESULTS,
    LoggedError,
    NotWrittenError,
    complete,
    in_manifest,
    is_sealed,
    log_of,
    read,
    remove,
    reopen,
    write,
)
from inference.runtime.hints import can_go_on, come_so_far, hint
from inference.runtime.lock import locked
from inference.runtime.signals import interrupt_behind
from inference.streaming.source.names import SAMPLE, SCAN
from models.errors import ZooError

if TYPE_CHECKING:
    import xarray as xr

PICTURES = ("pairs", "checks", "profile", "co_clustering", "loadings", "topics", "state_probs", "transitions", "emissions")
IMPUTED = ("imputed.nc", "imputed.csv", "imputed_mask.csv", "imputed_cells.csv")
TABLES = ("summary.csv", "assignments.csv", "crosstab.csv", "topic_shares.csv")
WRITTEN = (*TABLES, "report.html", *IMPUTED, *(f"{name}.svg" for name in PICTURES))
TRIES = 100  # attempts to create a folder while other processes do the same


@contextmanager
def run_folder(config: Mapping[str, Any], data: str) -> Iterator[Path]:
    """Create and lock the folder of a run on ``data``, named by its source.

    A run that stops prints how to continue; one that computed nothing leaves no folder. Raises `ZooError` for the folder of
    another run, for a folder with foreign files under the names that a run writes, and for one in which another process works.
    """
    with locked_folder(_place(config, data), fresh=not config["out"]) as folder:
        before = {path.name for path in folder.iterdir()}
        try:
            _require_ours(config, folder)
            yield folder
        except (KeyboardInterrupt, Exception) as error:
            ended = _explained(error, folder, config)
            if ended is error:
                raise
            raise ended from error
        finally:
            if config["resume"] is None:
                _remove_if_nothing_was_computed(folder, before)


def _explained(error: BaseException, folder: Path, config: Mapping[str, Any]) -> BaseException:
    """The error that ended a run, with how to continue it, or the name of the log file of a bug."""
    if (stop := interrupt_behind(error)) is not None:
        reached = come_so_far(folder, config)
        after = f" after {reached}" if reached else ""
        stays = (
            f"; {RESULTS} stays that of the finished run"
            if (folder / ASKED).is_file() and (folder / MANIFEST).is_file()
            else ""
        )
        return KeyboardInterrupt(f"interrupted{after}{stays}; {hint(folder)}" if can_go_on(folder) else str(stop))
    if isinstance(error, NotWrittenError):
        remark = f"; finished work is kept: {hint(folder)}" if can_go_on(folder) else ""
        return NotWrittenError(f"{error}{remark}")
    if isinstance(error, ZooError):
        return error
    assert isinstance(error, Exception)
    return LoggedError(error, log_of(error, folder))


@contextmanager
def locked_folder(folder: Path, fresh: bool = False) -> Iterator[Path]:
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


def require_free(folder: Path) -> None:
    """A `ZooError` where ``resume=`` names no folder, or one in which another process works: this comes before all else."""
    require_folder(folder)
    if not (folder / LOCK).exists():
        return
    try:
        with locked(folder):
            pass
    except NotWrittenError:
        raise
    except ZooError as error:  # resume= takes no other folder
        raise ZooError(f"resume={str(error).replace(', or give another folder with out=', '')}") from error


def amend(tree: "xr.DataTree", folder: Path) -> None:
    """Write the result of a finished run again."""
    from inference.results.tree import save

    with locked(folder):
        files = in_manifest(folder)
        reopen(folder)
        save(tree, folder / RESULTS)
        complete(folder, files)


# ---------------------------------------------------------------------------------------------------------------------
# Making a finished run longer


def goes_on(folder: Path, config: Mapping[str, Any], tree: "xr.DataTree | None") -> str:
    """Where ``resume=`` goes on. ``tree`` is the result of a fit that has ended, if there is one."""
    if tree is not None and not asks_for_more(config, tree):
        return f"the fit of {folder} has ended: writing what is missing"
    if reached := come_so_far(folder, config):
        return f"{folder} goes on after {reached}"
    if tree is None:
        return f"{folder} holds no checkpoint: the fit begins anew"
    return f"the fit of {folder} is computed again: {_why_again(tree, config)}"


def _why_again(tree: "xr.DataTree", config: Mapping[str, Any]) -> str:
    from inference.engine.task import Kind, kind_of

    if "max_iter" not in config and kind_of(tree) is not Kind.CHAINS:
        return f"{config['method']} draws all at once, without steps to go on from"
    if kind_of(tree) is not Kind.CHAINS and ended_by_itself(tree, config):
        return f"the search of {config['method']} had converged and left nothing to go on from, and all draws are made after it"
    return f"there is no {FINAL} to go on from"


@contextmanager
def longer(config: Mapping[str, Any], folder: Path) -> Iterator[None]:
    """Let a fit go on from the last checkpoints of a finished run, whose files stay as they are until it has ended.

    A damaged checkpoint is a `ZooError` before anything is changed. After any other `ZooError` the folder is as it was, unless
    the disk was full: then computed draws stay.
    """
    moved = _sound(folder)
    before = read(folder / ASKED) if (folder / ASKED).is_file() else None
    ask(config, folder)
    for final, path in moved.items():
        final.replace(path)
    try:
        yield
    except NotWrittenError:
        raise
    except ZooError as error:
        words = str(error)
        for final, path in moved.items():
            words = words.replace(str(path), str(final))
            if path.is_file():
                path.replace(final)
        remove(folder / ASKED) if before is None else write(folder / ASKED, before, seal=True)
        raise ZooError(words) from error


def go_on_from_final(folder: Path) -> None:
    """The last checkpoints of a run as those of one that goes on."""
    for final, path in _sound(folder).items():
        final.replace(path)


def _sound(folder: Path) -> dict[Path, Path]:
    """Last checkpoints of a finished run -> their names in a fit that goes on. Raises `ZooError` for a damaged one."""
    from inference.runtime.checkpoints import REMEDY

    names = {path: _named(path, CHECKPOINTS) for path in sorted(folder.glob(FINAL))}
    for path in names:
        read(path, require_seal=True, remedy=REMEDY)
    return names


def keep_final(folder: Path, tree: "xr.DataTree", config: Mapping[str, Any]) -> None:
    """Keep the last checkpoints of a finished run, so that ``resume=`` can make it longer.

    An optimiser that has converged has nothing to go on from.
    """
    from inference.engine.task import Kind, kind_of

    keeps = kind_of(tree) is Kind.CHAINS or not ended_by_itself(tree, config)
    for path in folder.glob(CHECKPOINTS):
        if keeps:
            path.replace(_named(path, FINAL))
        else:
            remove(path)
    for path in () if keeps else folder.glob(FINAL):
        remove(path)


def _named(path: Path, pattern: str) -> Path:
    """A checkpoint, by the name that a pattern gives it."""
    return path.with_name(f"{pattern.partition('*')[0]}{path.name.partition('-')[2]}")


# ---------------------------------------------------------------------------------------------------------------------
# A place


def _place(config: Mapping[str, Any], data: str) -> Path:
    if config["out"]:
        return Path(config["out"])
    source, name = config["data"]["name"], config["model"]["name"]
    title = Path(data).stem if source == "file" else source
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
        require_work(config, folder)
    elif (folder / RESULTS).exists():
        goes_on = f"; {hint(folder)}" if is_unfinished(folder) else ""
        raise ZooError(f"out={folder} holds the results of another run; choose another folder{goes_on}")
    elif any(folder.glob(CHECKPOINTS)):
        raise ZooError(f"out={folder} holds an unfinished run: {hint(folder)}; or choose another folder")
    else:
        foreign = [name for name in (CONFIG, ASKED, ENVIRONMENT, LOG, MANIFEST, *WRITTEN) if _is_foreign(folder / name)]
        if foreign:
            raise ZooError(f"out={folder} holds a {foreign[0]} that no unfinished run wrote; choose another folder")


def _is_foreign(path: Path) -> bool:
    """Whether a file under one of our names was not left by a run that was killed before its first result."""
    if not os.path.lexists(path) or path.name in (CONFIG, ASKED, LOG):
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
    if new <= {CONFIG, ENVIRONMENT, SCAN, SAMPLE}:
        for name in new:
            with suppress(OSError):
                (folder / name).unlink()
