"""The loop of every sampler and climber: chunks of steps, with progress, Ctrl-C and checkpoints between two of them.

Whoever iterates gives a function that takes a chunk of steps, in JAX or in Numba. The loop keeps what is finished: the first
Ctrl-C ends it after the chunk in hand, a second one at once, and a checkpoint holds all chunks before.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import jax
import numpy as np

from inference.runtime.checkpoints import Checkpoint, CheckpointTimer, restore, store_last
from inference.runtime.files import CHECKPOINT_SECONDS, NotWrittenError
from inference.runtime.progress import Reporter
from inference.runtime.signals import interruptible
from models.base import Pytree


class Chunk(NamedTuple):
    """The outcome of a chunk of steps."""

    state: Pytree
    records: Pytree  # (chain, step, …)
    num_steps: int  # steps taken
    seconds: float
    note: str  # for the progress line
    done: bool = False  # whether all chains have ended by themselves
    chains: Mapping[str, Sequence[str]] = {}  # a figure of every chain, as text


class Progress(NamedTuple):
    """How far a phase has come: one value, so that an interrupt finds the old one or the new one."""

    finished: int
    seconds: float
    state: Pytree
    parts: list[Pytree]  # records (chain, step, …), chunk by chunk; only the last one where none are kept
    done: bool = False

    def after(self, chunk: Chunk, keep: bool) -> "Progress":
        """One chunk further."""
        parts = [*self.parts, chunk.records] if keep else [jax.tree.map(lambda leaf: leaf[:, -1:], chunk.records)]
        return Progress(self.finished + chunk.num_steps, self.seconds + chunk.seconds, chunk.state, parts, chunk.done)

    def stored(self, keep: bool) -> tuple[int, float, Pytree, list[Pytree]]:
        """The part that a checkpoint holds."""
        return self.finished, self.seconds, self.state, self.parts if keep else []

    def records(self) -> Pytree:
        """The records of all chunks (chain, step, …), or None before the first."""
        return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *self.parts) if self.parts else None


def restore_or_start(checkpoint: Checkpoint | None, state: Pytree, record: Pytree, total: int, size: int = 1) -> Progress:
    """Where a phase begins: at ``state``, or at its checkpoint if there is one.

    ``record`` has the structure of one chain's record, which stands for ``size`` steps; None where no records are kept. Raises
    `ZooError` for a checkpoint that is damaged or of another run (`inference.runtime.checkpoints.restore`).
    """
    if checkpoint is None or not checkpoint.path.is_file():
        return Progress(0, 0.0, state, [])
    return Progress(*restore(checkpoint.path, state, record, total, size, checkpoint.cut))


def in_chunks(
    advance: Callable[[Pytree, int, int], Chunk],
    at: Progress,
    total: int,
    reporter: Reporter,
    checkpoint: Checkpoint | None = None,
    keep: bool = True,
) -> tuple[Progress, bool]:
    """Chunks up to ``total`` steps, or until one is done: (where they ended, whether Ctrl-C ended them early).

    ``advance(state, finished, most)`` takes at most ``most`` steps from ``finished`` on. ``keep=False`` drops the records, as
    of a warm-up. An interrupted phase has one chunk at least, so that there is something to go on from. A phase that is done
    by itself, as an optimiser that has converged, leaves no last checkpoint: nothing goes on from it.
    """
    path, restored = (None, at.finished) if checkpoint is None else (checkpoint.path, at.finished)
    timer = CheckpointTimer(CHECKPOINT_SECONDS if checkpoint is None else checkpoint.seconds)
    try:
        with interruptible() as stop:
            while at.finished < total and not at.done and not (stop.is_set() and at.parts):
                chunk = advance(at.state, at.finished, total - at.finished)
                at = at.after(chunk, keep)
                reporter.update(at.finished, chunk.note, chunk.chains)
                if path is not None and timer.is_due():
                    timer.store(path, *at.stored(keep))
            interrupted = stop.is_set() and at.finished < total and not at.done
            stop.heeded |= interrupted
    except KeyboardInterrupt:  # a second one, which does not wait for the chunk in hand: those before it are kept
        with suppress(NotWrittenError):
            store_last(path, restored, *at.stored(keep), draws=False)
        raise
    if not at.done:
        store_last(path, restored, *at.stored(keep), draws=keep)
    return at, interrupted
