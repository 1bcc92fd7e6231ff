"""The driver of fixed points whose E-step runs on the host (`models.host_loops`).

`inference.engine.driver` keeps a whole chunk of iterations in one compiled program. Here each iteration is the loops over the
rows, one start after another, and then one compiled program for all that does not depend on the rows.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from inference.engine.driver import CHUNK_SECONDS, Run, num_cores, one_blas_thread
from inference.runtime.checkpoints import Checkpoint
from inference.runtime.loop import Chunk, in_chunks, restore_or_start
from inference.runtime.progress import Counted, Reporter, Watch
from models.base import Algebra, Hyper, Pytree
from models.host_loops import HostStep

FEWEST_LATENTS = 50_000  # measured: with fewer, what starting every iteration from the host costs is a part of it
FIRST_ROWS = 8  # rows on which the loops are compiled

# (state of all starts, sums of all starts) -> (state, record, which are done, coefficients of the next iteration)
Update = Callable[[Pytree, Pytree], tuple[Pytree, Pytree, jax.Array, Pytree]]


def host_step_of(algebra: Algebra, rows: Pytree) -> HostStep | None:
    """The loops for these rows: None without any, for rows that they cannot read, for few latents, and on other devices."""
    found = algebra.structure.host_step
    if found is None or found.num_latents(rows) < FEWEST_LATENTS or jax.default_backend() != "cpu":
        return None
    return found if found.serves(rows) else None


class OnHost(NamedTuple):
    """What an iteration on the host is made of."""

    step: HostStep
    update: Update
    coefficients_of: Callable[[Pytree], Pytree]  # state of all starts -> coefficients of their next iteration
    hyper: Hyper
    rows: Pytree


def drive_on_host(
    loops: OnHost,
    state: Pytree,
    num_steps: int,
    reporter: Reporter,
    phase: str,
    watch: Watch,
    checkpoint: Checkpoint | None = None,
) -> Run:
    """At most ``num_steps`` iterations of all starts, the leading axis of ``state``, until all are done.

    A start that is done is left alone. A run goes on from its ``checkpoint`` where that file exists.
    """
    update, coefficients_of = loops.update, loops.coefficients_of
    hyper, rows = jax.tree.map(np.asarray, (loops.hyper, loops.rows))  # views of what is on the device, and no copies
    sums = partial(loops.step.sums, hyper, rows, num_cores())
    reporter.phase(f"compiling {phase}", None)
    clock = time.perf_counter()
    few = partial(loops.step.sums, hyper, jax.tree.map(lambda leaf: leaf[:FIRST_ROWS], rows), 1)
    _, record, *_ = jax.block_until_ready(update(state, _of_all(few, coefficients_of(state))))
    compile_seconds = time.perf_counter() - clock

    start = restore_or_start(checkpoint, state, _at(record, 0), num_steps)
    reporter.phase(phase, num_steps)
    chunks = _Iterations(sums, update, coefficients_of(start.state), watch)
    with one_blas_thread():  # small factorisations between two E-steps leave threads that spin on the cores of the loops
        at, interrupted = in_chunks(chunks, start, num_steps, reporter, checkpoint)
    return Run(at.state, at.records(), at.finished, interrupted, compile_seconds, at.seconds)


class _Iterations:
    """Chunks of iterations: as many as fit in `CHUNK_SECONDS`, and one at least."""

    def __init__(self, sums: Callable[[Pytree], Pytree], update: Update, coefficients: Pytree, watch: Watch) -> None:
        self._sums, self._update, self._words, self._counted = sums, update, watch.words, Counted(watch)
        self._coefficients = coefficients
        self._found: Pytree | None = None  # sums of the last iteration, which starts that are done keep
        self._done = np.zeros(len(jax.tree.leaves(coefficients)[0]), bool)

    def __call__(self, state: Pytree, finished: int, most: int) -> Chunk:
        clock = time.perf_counter()
        records: list[Pytree] = []
        while len(records) < most and not (records and (self._done.all() or time.perf_counter() - clock > CHUNK_SECONDS)):
            self._found = _of_all(self._sums, self._coefficients, self._done, self._found)
            state, record, done, self._coefficients = self._update(state, self._found)
            self._done = np.asarray(done)
            records.append(jax.tree.map(np.asarray, record))
        joined = jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *records)
        newest = records[-1]
        figures = self._counted.columns(joined, newest)
        seconds = time.perf_counter() - clock
        return Chunk(state, joined, len(records), seconds, self._words(newest), bool(self._done.all()), figures)


def _of_all(
    sums: Callable[[Pytree], Pytree], coefficients: Pytree, done: np.ndarray | None = None, before: Pytree | None = None
) -> Pytree:
    """Sums of all starts, stacked; starts that are done keep those ``before``."""
    coefficients = jax.tree.map(np.asarray, coefficients)
    number = len(jax.tree.leaves(coefficients)[0])
    kept = np.zeros(number, bool) if done is None or before is None else done
    found = [_at(before, start) if kept[start] else sums(_at(coefficients, start)) for start in range(number)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *found)


def _at(stacked: Pytree, start: int) -> Pytree:
    return jax.tree.map(lambda leaf: leaf[start], stacked)
