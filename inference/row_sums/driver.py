"""The loop over sums: an iteration is a pass over the rows, and one compiled program for the rest.

`inference.engine.driver` keeps a whole chunk of iterations in one compiled program. Here rows are on the host, in files, or
shared out to processes, which make the same parameter step. A checkpoint of a single process also holds the progress of a pass,
so that a kill costs no more than its seconds, for passes of any length. Those of several processes are written between two
passes, and continue on any number of them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from inference.engine.driver import CHUNK_SECONDS, Run, one_blas_thread
from inference.engine.row_source import PassProgress, RowSums, Update
from inference.runtime.checkpoints import Checkpoint, store
from inference.runtime.files import CHECKPOINT_SECONDS
from inference.runtime.hints import hint
from inference.runtime.loop import Chunk, Progress, in_chunks, restore_or_start
from inference.runtime.programs import cached_jit
from inference.runtime.progress import SILENT, Counted, Reporter, Watch
from models.base import Pytree, Stats, on_host


class PassIteration(NamedTuple):
    """One iteration: a pass at the parameters of the state, and the update of the state by its sums."""

    sums: RowSums
    parameters: Callable[[Pytree], Stats]  # state -> T of all starts
    update: Update

    def after(self, keys: Array, state: Pytree, at: PassProgress) -> tuple[Pytree, Pytree, np.ndarray]:
        """(state, record, which are done) after a complete pass, on the host."""
        totals, held_out = self.sums.all_reduced(at.totals), self.sums.held_out_density(self.parameters(state))
        following, record, done = jax.tree.map(np.asarray, self.update(keys, state, totals, held_out))
        return following, record, done


def drive_sums(
    sums: RowSums,
    parameters: Callable[[Pytree], Stats],
    update: Update,
    key: Array,
    state: Pytree,
    num_steps: int,
    reporter: Reporter,
    phase: str,
    *,
    first: int = 0,
    keep: bool = True,
    watch: Watch = SILENT,
    checkpoint: Checkpoint | None = None,
) -> Run:
    """At most ``num_steps`` iterations of all starts, the leading axis of ``state``, until all are done.

    Arguments and result are those of `inference.engine.driver.drive`. Raises `KeyboardInterrupt` after Ctrl-C where a pass
    takes long: a result would take another one.
    """
    iteration, state = PassIteration(sums, parameters, update), jax.tree.map(np.asarray, state)
    keys = jax.random.split(key, len(sums.example.weight))
    reporter.phase(f"compiling {phase}", None)
    clock = time.perf_counter()
    of_parameters = keys_of_step(keys, np.asarray(first))[1]
    _, record, _ = iteration.after(of_parameters, state, sums.none._replace(totals=sums.example))
    compile_seconds = time.perf_counter() - clock

    single = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), record)
    start = restore_or_start(checkpoint, (state, sums.none), single if keep else None, num_steps)
    start, checkpoint = sums.agreed(start, checkpoint, in_pass=True)
    reporter.phase(phase, num_steps)
    chunks = _Passes(iteration, keys, first, record, watch, CHECKPOINT_SECONDS if checkpoint is None else checkpoint.seconds)
    with one_blas_thread():  # small factorisations between two passes leave threads that spin on the cores of the loops
        try:
            at, interrupted = in_chunks(chunks, start, num_steps, reporter, checkpoint, keep)
        finally:
            sums.close()
    if sums.takes_long:
        require_uninterrupted(interrupted, at, checkpoint, "passes over the rows", keep)
    return Run(at.state[0], at.records(), at.finished, interrupted, compile_seconds, at.seconds)


class _Passes:
    """As many iterations as fit in `CHUNK_SECONDS`, and one at least; or a part of a pass, where a checkpoint is due."""

    def __init__(self, iteration: PassIteration, keys: Array, first: int, record: Pytree, watch: Watch, pause: float) -> None:
        self._iteration, self._keys, self._first, self._pause = iteration, keys, first, pause
        self._watch, self._counted, self._done = watch, Counted(watch), np.zeros(len(keys), bool)
        self._no_records = jax.tree.map(lambda leaf: np.zeros((len(leaf), 0, *leaf.shape[1:]), leaf.dtype), record)
        self._note = ""
        self._chains: Mapping[str, Sequence[str]] = {}

    def __call__(self, state: tuple[Pytree, PassProgress], finished: int, most: int) -> Chunk:
        clock, (inner, at), sums = time.perf_counter(), state, self._iteration.sums
        seconds = 0.0 if sums.shared else CHUNK_SECONDS
        records: list[Pytree] = []
        while len(records) < most and not (records and (self._done.all() or time.perf_counter() - clock > seconds)):
            step = np.asarray(self._first + finished + len(records))
            of_latents, of_parameters = keys_of_step(self._keys, step)
            T = self._iteration.parameters(inner)
            at, complete = sums.advance(T, on_host(of_latents), self._done, at, self._pause)
            if not complete:
                break
            inner, record, self._done = self._iteration.after(of_parameters, inner, at)
            at = sums.none
            records.append(record)
        joined = self._no_records if not records else jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *records)
        if records:
            self._note, self._chains = self._watch.words(records[-1]), self._counted.columns(joined, records[-1])
        done, taken = bool(self._done.all()), time.perf_counter() - clock
        return Chunk((inner, at), joined, len(records), taken, self._note, done, self._chains)


@cached_jit(static_argnames=())
def keys_of_step(keys: Array, index: Array) -> tuple[Array, Array]:
    """Of all starts or chains: (keys of their latents, keys of their parameters), as in `inference.engine.sweep.sweep`."""
    both = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, index)))(keys)
    return both[:, 0], both[:, 1]


def require_uninterrupted(interrupted: bool, at: Progress, checkpoint: Checkpoint | None, what: str, keep: bool = True) -> None:
    """A `KeyboardInterrupt` after Ctrl-C, with all finished work in the checkpoint: a result would take another pass."""
    if not interrupted:
        return
    where = ""
    if checkpoint is not None:
        store(checkpoint.path, *at.stored(keep))
        where = f"; {hint(checkpoint.path.parent)}"
    raise KeyboardInterrupt(f"interrupted after {at.finished} {what}{where}")
