"""The steps of `inference.minibatches.svi` by compiled loops on the host, for models that declare them (`models.host.loops`).

The same steps on the same rows in the same order: sums are added in another order, and every row stops by its change.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from inference.engine.driver import CHUNK_SECONDS, Run, num_cores, one_blas_thread
from inference.engine.row_source import StepSize
from inference.engine.sweep import num_rows
from inference.runtime.checkpoints import Checkpoint
from inference.runtime.loop import Chunk, in_chunks, restore_or_start
from inference.runtime.progress import Counted, Reporter, Watch
from models.base import Algebra, Pytree, Stats, on_host
from models.host.loops import Ascent, BatchSums, LocalLoops, Share, alone

PIECES = 2  # of the work for each thread: documents are unequal


class State(NamedTuple):
    """One start, or all of them along the leading axis."""

    nu: dict[str, Stats]  # of the shared blocks
    order: Array  # (N,): the order in which rows are taken, until all of its batches have been
    step: Array


class BatchPlan(NamedTuple):
    """The settings of all steps."""

    size: int  # rows in a batch
    most: int  # inner updates of a row, at most
    close: float  # these end when the row moves by no more than this on average
    step_size: StepSize


def loops_of(algebra: Algebra, rows: Pytree) -> LocalLoops | None:
    """The compiled loops for these rows, in NumPy; None without any, for rows they cannot read, and on other devices."""
    ascend = algebra.structure.ascend
    if not isinstance(ascend, Ascent) or jax.default_backend() != "cpu":
        return None
    return ascend.loops if ascend.loops.serves(rows) else None


@partial(jax.jit, static_argnames=("number",))
def _orders(keys: Array, index: Array, number: int) -> Array:
    """(S, N): new orders of the rows, with the random numbers of this step."""
    return jax.vmap(lambda key: jax.random.permutation(jax.random.fold_in(key, index), number))(keys)


@contextmanager
def sharing(num_threads: int) -> Iterator[Share]:
    """A function that shares ranges among threads, and waits for them."""
    if num_threads == 1:
        yield alone
        return
    with ThreadPoolExecutor(num_threads) as pool:

        def share(function: Callable[[int, int], None], number: int) -> None:
            ends = np.linspace(0, number, PIECES * num_threads + 1).astype(int).tolist()
            list(pool.map(function, ends[:-1], ends[1:]))

        yield share


def drive_batches(
    loops: LocalLoops,
    plan: BatchPlan,
    prior: Mapping[str, Any],
    rows: Pytree,
    key: Array,
    state: State,
    num_steps: int,
    reporter: Reporter,
    phase: str,
    *,
    first: int = 0,
    watch: Watch,
    checkpoint: Checkpoint | None = None,
    num_threads: int | None = None,
) -> Run:
    """``num_steps`` batches of every start, with the result of `inference.engine.driver.drive` for `svi.step`.

    ``first`` numbers the first step, and its random numbers with it. A run continues from its ``checkpoint`` where that file
    exists.
    """
    reporter.phase(f"compiling {phase}", None)
    clock = time.perf_counter()
    prior, rows = jax.tree.map(np.asarray, (dict(prior), rows))
    tables = loops.read(prior, rows)
    nu = {name: np.asarray(leaf)[0] for name, leaf in state.nu.items()}
    like = loops.sums(tables, alone, nu, np.arange(1), 1, plan.close).stats
    keys = jax.random.split(key, len(state.step))
    orders = partial(_orders, keys, number=num_rows(rows))
    jax.block_until_ready(orders(np.int32(first)))
    compile_seconds = time.perf_counter() - clock

    start = restore_or_start(checkpoint, state, np.zeros(()), num_steps)
    reporter.phase(phase, num_steps)
    with one_blas_thread(), sharing(num_threads or num_cores()) as share:
        sums = partial(loops.sums, tables, share)
        steps = _HostSteps(sums, plan, {name: in_layout(like[name], prior[name]) for name in like}, like, orders, first, watch)
        at, interrupted = in_chunks(steps, start, num_steps, reporter, checkpoint)
    return Run(at.state, at.records(), at.finished, interrupted, compile_seconds, at.seconds)


def converged_local_nu(
    loops: LocalLoops, prior: Mapping[str, Any], rows: Pytree, nu: Mapping[str, Any], most: int, close: float
) -> dict[str, np.ndarray]:
    """(S, N, …): nu of the local blocks of all rows given nu of the shared ones, in every start."""
    prior, rows = jax.tree.map(np.asarray, (dict(prior), rows))
    tables, all_rows = loops.read(prior, rows), np.arange(num_rows(rows))
    with sharing(num_cores()) as share:
        results = [
            loops.sums(tables, share, {name: np.asarray(leaf)[start] for name, leaf in nu.items()}, all_rows, most, close).own
            for start in range(len(next(iter(nu.values()))))
        ]
    return {name: np.stack([nu_of_start[name] for nu_of_start in results]) for name in results[0]}


def in_layout(like: np.ndarray, value: Any) -> np.ndarray:
    """A copy of a value with the layout in memory of another, which is contiguous in the order of C or of Fortran."""
    copy = np.empty_like(like)
    copy[...] = value
    return copy


class _HostSteps:
    """Chunks of steps: as many as fit in `CHUNK_SECONDS`, and one at least."""

    def __init__(
        self,
        sums: Callable[[Mapping[str, np.ndarray], np.ndarray, int, float], BatchSums],
        plan: BatchPlan,
        prior: Mapping[str, np.ndarray],
        like: Mapping[str, np.ndarray],
        orders: Callable[[Any], Array],
        first: int,
        watch: Watch,
    ) -> None:
        self._sums, self._plan, self._prior, self._like = sums, plan, prior, like
        self._orders, self._first, self._words, self._counted = orders, first, watch.words, Counted(watch)

    def __call__(self, state: State, finished: int, most: int) -> Chunk:
        clock = time.perf_counter()
        order, step = np.asarray(state.order), np.asarray(state.step)
        number, records = len(step), list[list[float]]()
        nu = [{name: in_layout(self._like[name], leaf[s]) for name, leaf in state.nu.items()} for s in range(number)]
        while len(records) < most and not (records and time.perf_counter() - clock > CHUNK_SECONDS):
            place = self._place(int(step[0]), order.shape[1])
            if place == 0:
                order = np.asarray(self._orders(np.int32(self._first + finished + len(records)))).astype(order.dtype)
            picked = order[:, place : place + self._plan.size]
            records.append([self._moved(one, rows, order.shape[1], int(step[0])) for one, rows in zip(nu, picked, strict=True)])
            step = step + 1
        stacked = {name: np.stack([np.ascontiguousarray(one[name]) for one in nu]) for name in state.nu}
        joined = np.array(records).T
        figures = self._counted.columns(joined, joined[:, -1])
        seconds, note = time.perf_counter() - clock, self._words(joined[:, -1])
        return Chunk(State(stacked, on_host(order), on_host(step)), joined, len(records), seconds, note, False, figures)

    def _place(self, step: int, total: int) -> int:
        """The first place of the batch of this step in the order."""
        return step * self._plan.size % (total // self._plan.size * self._plan.size)

    def _moved(self, nu: dict[str, np.ndarray], picked: np.ndarray, total: int, step: int) -> float:
        """One step of one start, whose nu changes in place; -> an estimate of the bound at the former nu."""
        from inference.minibatches.natural_gradient import step_along

        scale, rate = total / self._plan.size, self._plan.step_size.of(step + 1.0)
        sums = self._sums(nu, picked, self._plan.most, self._plan.close)
        for name in nu:
            values, stats, prior = (part[name].reshape(-1, order="A") for part in (nu, sums.stats, self._prior))  # views
            step_along(values, stats, prior, scale, rate)
        return scale * sums.bound + sums.divergence
