"""The driver over blocks: an iteration is a pass over the rows and a parameter step, which all processes make alike.

A checkpoint of a single process also holds how far a pass has come, so that a kill during an iteration costs no more than its
seconds, however long a pass is. Those of several processes are written between two passes, and go on on any number of them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from inference.engine.driver import Run
from inference.engine.sweep import Local
from inference.engine.task import Task
from inference.runtime.checkpoints import Checkpoint, store
from inference.runtime.hints import hint
from inference.runtime.loop import Chunk, Progress, in_chunks, restore_or_start
from inference.runtime.progress import Counted, Watch
from inference.streaming.passes import Partial, Pass, Stream, Totals, keys_of_step
from inference.streaming.source.processes import Group
from models.base import Pytree, Stats, ZooError, on_host

# (keys of the parameters, state, local step, totals of the pass) of all starts -> (state, record, which are done)
Update = Callable[[Array, Pytree, Local, Totals], tuple[Pytree, Pytree, Array]]


class Iteration(NamedTuple):
    """What is iterated: a pass at the parameters of the state, and what its sums make of the state."""

    over: Pass
    parameters: Callable[[Pytree], Stats]  # state -> T of all starts
    update: Update
    record: Pytree  # shapes of the record of one start


class _Chunks:
    """One iteration, or a part of a pass where a checkpoint is due."""

    def __init__(self, iteration: Iteration, keys: Array, watch: Watch, pause: float) -> None:
        self._pause = pause  # seconds after which a pass is left for a checkpoint
        self._iteration, self._keys, self._watch, self._counted = iteration, keys, watch, Counted(watch)
        number = len(keys)
        self._no_record = jax.tree.map(lambda leaf: np.zeros((number, 0, *leaf.shape), leaf.dtype), iteration.record)
        self._note = ""
        self._chains: Mapping[str, Sequence[str]] = {}

    def __call__(self, state: tuple[Pytree, Partial], finished: int, most: int) -> Chunk:
        clock, (inner, at), iteration = time.perf_counter(), state, self._iteration
        of_latents, of_parameters = keys_of_step(self._keys, np.asarray(finished))
        at, complete = iteration.over.advance(iteration.parameters(inner), on_host(of_latents), at, self._pause)
        if not complete:
            return Chunk((inner, at), self._no_record, 0, time.perf_counter() - clock, self._note, False, self._chains)
        local, totals = iteration.over.reduced(at.totals)
        following, newest, done = jax.tree.map(np.asarray, iteration.update(of_parameters, inner, local, totals))
        records = jax.tree.map(lambda leaf: leaf[:, None], newest)
        self._note, self._chains = self._watch.words(newest), self._counted.columns(records, newest)
        over = (following, iteration.over.none)
        return Chunk(over, records, 1, time.perf_counter() - clock, self._note, bool(done.all()), self._chains)


def drive_blocks(
    task: Task,
    stream: Stream,
    iteration: Iteration,
    keys: Array,
    state: Pytree,
    num_steps: int,
    phase: str,
    watch: Watch,
    *,
    first: int = 0,
    keep: bool = True,
) -> Run:
    """At most ``num_steps`` iterations, or until all starts are done. Raises `KeyboardInterrupt` after Ctrl-C.

    ``first`` numbers the first step, and ``keep=False`` drops the records, as of a warm-up. A run goes on from its checkpoint,
    which process 0 writes and all read.
    """
    checkpoint = task.checkpoint(phase, cut=phase == "sampling")
    clock = time.perf_counter()
    record = iteration.record if keep else None
    start = restore_or_start(checkpoint, (jax.tree.map(np.asarray, state), iteration.over.none), record, num_steps)
    require_same(stream.group, start.finished)
    if stream.group.size > 1:  # what a single process had of a pass is not shared out
        start = start._replace(state=(start.state[0], iteration.over.none))
    own = checkpoint if stream.group.rank == 0 else None
    task.reporter.phase(phase, num_steps)
    chunks = _Chunks(iteration, keys, watch, task.checkpoint_seconds)
    compile_seconds = time.perf_counter() - clock
    try:
        at, interrupted = in_chunks(lambda s, n, m: chunks(s, first + n, m), start, num_steps, task.reporter, own, keep)
    finally:
        iteration.over.close()
    require_uninterrupted(interrupted, at, own, "passes over the rows", keep)
    return Run(at.state[0], at.records(), at.finished, False, compile_seconds, at.seconds)


def require_same(group: Group, finished: int) -> None:
    """A `ZooError` where processes have read different checkpoints, as from folders of their own."""
    if group.all_sum(np.array([float(finished)]))[0] != group.size * finished:
        raise ZooError("processes go on from different checkpoints: the folder of the run must be one that all of them share")


def require_uninterrupted(interrupted: bool, at: Progress, checkpoint: Checkpoint | None, what: str, keep: bool = True) -> None:
    """A `KeyboardInterrupt` after Ctrl-C, with all that was finished in the checkpoint: a result would take another pass."""
    if not interrupted:
        return
    where = ""
    if checkpoint is not None:
        store(checkpoint.path, *at.stored(keep))
        where = f"; {hint(checkpoint.path.parent)}"
    raise KeyboardInterrupt(f"interrupted after {at.finished} {what}{where}")
