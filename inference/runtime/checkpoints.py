"""Checkpoints of samplers and optimisers: sealed, versioned, and checked before a run goes on from one."""

import io
import time
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.runtime.files import CHECKPOINT_SECONDS, CHECKPOINTS, NotWrittenError, read, write
from models.base import Pytree, ZooError

VERSION = 1
REMEDY = "remove it, and what it held is computed again"
SHARE = 0.05  # largest share of the time that is spent on checkpoints


class Checkpoint(NamedTuple):
    """Where one phase of a run leaves its checkpoint, and how often."""

    path: Path
    seconds: float = CHECKPOINT_SECONDS  # between two of them, unless writing would take more than `SHARE` of the time
    cut: bool = False  # whether the first records are those of a shorter run: draws are, iterations of an optimiser are not


class CheckpointTimer:
    """When the next checkpoint is due. The file grows with the draws, and must not be written all the time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = time.perf_counter() + seconds

    def is_due(self) -> bool:
        return time.perf_counter() > self._due

    def store(self, *arguments: Any) -> None:
        """`store`; then no checkpoint for the requested seconds, or for longer if `SHARE` requires it."""
        clock = time.perf_counter()
        store(*arguments)
        now = time.perf_counter()
        self._due = now + max(self._seconds, (now - clock) / SHARE)


def store(path: Path, finished: int, seconds: float, state: Pytree, parts: list[Pytree]) -> None:
    """Write a checkpoint; records of ``parts`` are (chain, step, …). Raises `NotWrittenError`."""
    arrays = {"version": np.asarray(VERSION), "finished": np.asarray(finished), "seconds": np.asarray(seconds)}
    arrays |= {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    if parts:
        merged = [np.concatenate(leaves, axis=1) for leaves in zip(*map(jax.tree.leaves, parts), strict=True)]
        arrays |= {f"record_{i}": leaf for i, leaf in enumerate(merged)}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write(path, buffer.getvalue(), seal=True)


def store_last(
    path: Path | None, restored: int, finished: int, seconds: float, state: Pytree, parts: list[Pytree], draws: bool
) -> None:
    """Write the checkpoint at the end of a phase, if more is ``finished`` than was ``restored``.

    Draws in memory are worth more than their checkpoint: where it cannot be written, there is a warning instead of an error.
    """
    if path is None or finished <= restored:
        return
    try:
        store(path, finished, seconds, state, parts)
    except NotWrittenError as error:
        if not draws:
            raise
        warnings.warn(f"{error}; what was computed is returned without a checkpoint", RuntimeWarning, stacklevel=2)


def restore(
    path: Path, state: Pytree, record: Pytree, total: int, size: int = 1, cut: bool = True
) -> tuple[int, float, Pytree, list[Pytree]]:
    """(steps finished, seconds, state, records) of a checkpoint, structured like ``state`` and the ``record`` of one chain.

    A record stands for ``size`` steps, and the records of the first ``total`` steps are returned. Without records (``record``
    is None) the checkpoint may have ``total`` steps at most, and so it may with ``cut=False``, of an optimiser. Raises
    `ZooError` where the file is damaged, holds what no run has written or more steps than this run makes, or belongs to another
    model, data set or number of chains.
    """
    arrays = _arrays(path)
    states = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    chains = states[0].shape[0]
    leaves = [arrays.get(f"state_{i}") for i in range(len(states))]
    if f"state_{len(states)}" in arrays or not all(_same(a, b.shape, b.dtype) for a, b in zip(leaves, states, strict=True)):
        raise ZooError(f"{path} belongs to another model, data set or number of chains; start a new run")
    finished, seconds = _count(path, arrays), _seconds(path, arrays)
    steps = -(-finished // size)
    like = jax.tree.leaves(record)
    records = [arrays.get(f"record_{i}") for i in range(len(like))]
    if record is None and finished > total:
        raise _impossible(path, f"{finished} of {total} steps")
    if finished > total and not cut:
        raise ZooError(f"{path} holds {finished} iterations, and max_iter={total} asks for fewer; ask for {finished} at least")
    if any(
        leaf is None or not _same(leaf, (chains, steps, *np.shape(one)), _dtype(one))
        for leaf, one in zip(records, like, strict=True)
    ):
        raise _impossible(path, f"{finished} steps, and other records")
    records_left = [leaf[:, : -(-total // size)] for leaf in records if leaf is not None]
    parts = [jax.tree.unflatten(jax.tree.structure(record), records_left)] if records_left and steps else []
    return finished, seconds, jax.tree.unflatten(jax.tree.structure(state), leaves), parts


def steps_finished(folder: Path) -> dict[str, int]:
    """Phase -> steps finished, by the checkpoints in a folder; without those that are damaged."""
    steps = {}
    for path in folder.glob(CHECKPOINTS):
        with suppress(ZooError):  # `restore` has the message for a damaged checkpoint
            steps[path.stem.split("-")[1]] = _count(path, _arrays(path))
    return steps


def _arrays(path: Path) -> dict[str, np.ndarray]:
    content = read(path, require_seal=True, remedy=REMEDY)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {str(name): file[name] for name in file}
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ZooError(f"{path} is no checkpoint ({error}); {REMEDY}") from error
    version = arrays.get("version")
    if version is None or version.shape or version != VERSION:
        raise ZooError(f"{path} is a checkpoint of another version of the zoo; {REMEDY}")
    return arrays


def _count(path: Path, arrays: dict[str, np.ndarray]) -> int:
    value = arrays.get("finished")
    if value is None or value.shape or not np.issubdtype(value.dtype, np.integer) or value < 0:
        raise _impossible(path, f"{value} steps")
    return int(value)


def _seconds(path: Path, arrays: dict[str, np.ndarray]) -> float:
    value = arrays.get("seconds")
    if value is None or value.shape or value.dtype != np.float64 or not np.isfinite(value) or value < 0:
        raise _impossible(path, f"{value} seconds")
    return float(value)


def _impossible(path: Path, what: str) -> ZooError:
    return ZooError(f"{path} claims to hold {what}, which no run has written; {REMEDY}")


def _dtype(leaf: Any) -> Any:
    return leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype


def _same(leaf: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    return leaf is not None and leaf.shape == shape and leaf.dtype == dtype


def require_own_checkpoints(folder: Path, fingerprint: str) -> None:
    """A `ZooError` for a checkpoint of another run, of any phase: its name ends in the fingerprint of its run."""
    strangers = sorted(path for path in folder.glob(CHECKPOINTS) if not path.stem.endswith(f"-{fingerprint}"))
    if strangers:
        raise ZooError(
            f"{strangers[0]} belongs to a run with other data, options or seed: go on with that one, or use another folder"
        )
