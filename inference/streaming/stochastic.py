"""Stochastic approximation over blocks (Robbins and Monro 1951): a step takes one block, in random order, not all rows.

A step moves the natural parameters of q(θ) towards what they would be if all M blocks were like this one:

    nu ← (1 − ρ) nu + ρ (prior + M · statistics),    ρ = (delay + step)^−forgetting.

At expected parameters this is stochastic variational inference (Hoffman, Blei, Wang and Paisley 2013); at the mode of q(θ) it
is online EM (Cappé and Moulines 2009). Each process takes one of its own blocks, for which M is their number, and the processes
are added up.
"""

import itertools
import time
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from inference.engine.driver import CHUNK_SECONDS, vmap_or_call
from inference.engine.initialise import sites_at
from inference.engine.requirements import Support, require_algebra
from inference.engine.sweep import Local
from inference.engine.task import Points, Task, timing
from inference.fixed_points.fixed_point import Climb, FixedPoint, initial
from inference.fixed_points.local_ascent import shared_part
from inference.runtime.loop import Chunk, in_chunks, restore_or_start
from inference.runtime.programs import cached_jit
from inference.streaming.climbing import ITERATIONS
from inference.streaming.driver import require_same, require_uninterrupted
from inference.streaming.local_blocks import completed, shared_blocks, shared_state
from inference.streaming.passes import Pass, Stream
from inference.streaming.result import Pace
from inference.streaming.source.encoding import Encoded, ReadAhead, require_blocks
from models.algebra import STRUCTURES, add
from models.base import Algebra, Pytree, ZooError, on_host

Static = tuple[Algebra, FixedPoint]
SUPPORTS = Support("stochastic=true", STRUCTURES - {"coupled", "cycle"}, remedy="leave it out")
CLOSE = 1e-4  # of 1 + |objective|: steps have converged if the pass after them gains less


class Record(NamedTuple):
    """Of a step."""

    objective: Array  # (start,): the log joint or the bound, estimated from one block at the parameters it entered with
    held_out: Array | None  # (start,): the mean log density of the held-out rows there


@cached_jit(static_argnames=("static",))
def moved(static: Static, prior: Pytree, rate: Array, states: Climb, local: Local) -> tuple[Climb, Array]:
    """(the states after a step of length ``rate``, estimates of the objective), from estimates of the sums over all rows.

    A step of length 1 is a sweep.
    """
    algebra, method = static

    def one(state: Climb, local: Local) -> tuple[Climb, Array]:
        wanted = add(prior, dict(local.stats))
        nu = jax.tree.map(lambda old, new: (1 - rate) * old + rate * new, dict(state.nu), wanted)
        T = method.updates.parameters(algebra, jax.random.PRNGKey(0), nu)
        return state._replace(T=T, nu=nu), method.criterion(algebra, prior, state, local)

    return vmap_or_call(one, states, local)


class Climbed(NamedTuple):
    """What the steps have led to."""

    points: Points
    state: Climb
    objective: np.ndarray  # (start,): the log joint or the bound over all rows
    held_out: np.ndarray | None  # (start, step + 1): the mean log density of the held-out rows, the last at the end


def climb_stochastically(
    task: Task, stream: Stream, method: FixedPoint, pace: Pace, max_iter: int, wanted: int, support: Support, seed: int
) -> Climbed:
    """``max_iter`` steps of every start, then two passes; ``task`` is that of the rows where starts are sought.

    Raises `ZooError` for a source whose number of blocks is not known, and for a start that the user gives.
    """
    algebra = require_algebra(task, support)
    if (why := SUPPORTS.why_not(algebra)) is not None:
        raise ZooError(f"{task.model.name}: {why}")
    if task.start is not None:
        raise ZooError("stochastic=true moves distributions and no points: leave start out")
    state = jax.tree.map(np.asarray, shared_state(algebra, initial(task, algebra, method, wanted)))
    static, over = (shared_part(algebra), method), Pass(stream, task, algebra, "mean", state.T)
    steps = _Steps(task, stream, static, over, pace, seed)
    checkpoint, one = task.checkpoint(ITERATIONS), jax.ShapeDtypeStruct((), np.result_type(float))
    start = restore_or_start(checkpoint, state, Record(one, None if stream.aside is None else one), max_iter)  # type: ignore[arg-type]
    require_same(stream.group, start.finished)
    own = checkpoint if stream.group.rank == 0 else None
    task.reporter.phase("iterating", max_iter)
    try:
        at, interrupted = in_chunks(steps, start, max_iter, task.reporter, own)
        require_uninterrupted(interrupted, at, own, "steps")
        reached, gain = _finished(task, over, static, at.state)
        held_out = stream.bound_of_held_out(task, algebra, at.state.T)
    finally:
        steps.close()
        over.close()
    records: Record = at.records()
    state = completed(algebra, task.hyper, dict(task.prior), at.state, task.rows_on_device)
    points = _points(task, algebra, state, records, reached, gain, at.seconds)
    if held_out is None:
        return Climbed(points, state, reached, None)
    trace = np.concatenate([np.asarray(records.held_out), np.asarray(held_out)[:, None]], axis=1)
    return Climbed(points, state, reached, trace)


class _Steps:
    """Steps for as long as the host waits for news, of a block each, in an order that the seed and the process decide."""

    def __init__(self, task: Task, stream: Stream, static: Static, over: Pass, pace: Pace, seed: int) -> None:
        self._task, self._stream, self._static, self._over, self._pace = task, stream, static, over, pace
        self._first, last = stream.ends
        self._number = require_blocks(stream.source) if last is None else last - self._first
        self._seed, self._algebra = seed, require_algebra(task)
        self._blocks: ReadAhead | None = None
        self._taken: Iterator[Encoded] = iter(())

    def __call__(self, state: Climb, finished: int, most: int) -> Chunk:
        clock = time.perf_counter()
        records: list[Record] = []
        if self._blocks is None:
            self._blocks = self._stream.blocks(self._order(finished))
            self._taken = iter(self._blocks)
        seconds = CHUNK_SECONDS if self._stream.group.size == 1 else 0.0  # several processes look in after the same steps
        while len(records) < most and not (records and time.perf_counter() - clock > seconds):
            # Each process draws from blocks of its own: its sums stand for all of these.
            one = self._over.of_block(state.T, next(self._taken))
            local, _ = self._over.reduced(jax.tree.map(lambda leaf: self._number * leaf, one))
            rate = (self._pace.delay + finished + len(records) + 1.0) ** -self._pace.forgetting
            at = self._stream.bound_of_held_out(self._task, self._algebra, state.T)
            arrays = (shared_blocks(self._algebra, self._task.prior), np.asarray(rate, float))
            state, objective = jax.tree.map(np.asarray, moved(self._static, *arrays, state, local))
            records.append(Record(objective, at))
        joined = jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *records)
        return Chunk(state, joined, len(records), time.perf_counter() - clock, _words(records[-1]))

    def _order(self, finished: int) -> Iterator[tuple[int, int]]:
        """Blocks of this process, each once before any comes again, from step ``finished`` on."""
        for step in itertools.count(finished):
            turn, place = divmod(step, self._number)
            order = np.random.default_rng([self._seed, turn, self._stream.group.rank]).permutation(self._number)
            block = self._first + int(order[place])
            yield block, block + 1

    def close(self) -> None:
        """Stop reading."""
        if self._blocks is not None:
            self._blocks.close()


def _words(record: Record) -> str:
    held_out = "" if record.held_out is None else f", held-out rows {np.nanmax(record.held_out):.4f}"
    return f"objective {np.nanmax(record.objective):.2f}{held_out}"


def _finished(task: Task, over: Pass, static: Static, state: Climb) -> tuple[np.ndarray, np.ndarray]:
    """(the objective of every start over all rows, what one more sweep would gain): two passes."""
    arrays = (shared_blocks(require_algebra(task), task.prior), np.ones((), float))
    keys = on_host(jax.random.split(task.key, len(state.done)))
    further, reached = moved(static, *arrays, state, over.whole(state.T, keys)[0])
    _, beyond = moved(static, *arrays, further, over.whole(further.T, keys)[0])
    return np.asarray(reached), np.asarray(beyond) - np.asarray(reached)


def _points(
    task: Task, algebra: Algebra, state: Climb, records: Record, reached: np.ndarray, gain: np.ndarray, seconds: float
) -> Points:
    """The outcome; traces are estimates, block by block, and their last number is that of all rows."""
    sound = np.isfinite(reached)
    trace = np.concatenate([np.asarray(records.objective), reached[:, None]], axis=1)
    return Points(
        sites=jax.tree.map(np.asarray, sites_at(algebra, task.hyper, state.T)),
        objective=trace,
        criterion=trace,
        iterations=np.full(len(sound), trace.shape[1] - 1),
        converged=sound & (np.abs(gain) < CLOSE * (1 + np.abs(reached))),  # own parameters of rows may lead to a fall
        failure=[None if one else "the objective is not finite; check the scale of the data and the prior" for one in sound],
        timing=timing(seconds, 0.0),
        repeatable=False,
    )
