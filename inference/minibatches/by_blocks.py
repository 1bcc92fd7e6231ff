"""Stochastic approximation over blocks (Robbins and Monro 1951): a step takes one block, in random order, not all rows.

A step moves the natural parameters of q(θ) towards their values if all M blocks were like this one:

    nu ← (1 − ρ) nu + ρ (prior + M · statistics),    ρ = (delay + step)^−forgetting.

At expected parameters this is stochastic variational inference (Hoffman, Blei, Wang and Paisley 2013); at the mode of q(θ) it
is online EM (Cappé and Moulines 2009). Each process takes one of its blocks, and M is their number; the processes
are added up.
"""

import time
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from inference.engine.driver import CHUNK_SECONDS, vmap_or_call
from inference.engine.initialise import sites_at
from inference.engine.requirements import Support, require_algebra
from inference.engine.row_source import BlockwiseSums
from inference.engine.sweep import Local
from inference.engine.task import Points, Task, timing
from inference.fixed_points.fixed_point import Climb, FixedPoint, initial
from inference.fixed_points.local_ascent import shared_part
from inference.fixed_points.local_blocks import shared_blocks, shared_state, with_local_blocks
from inference.row_sums.driver import require_uninterrupted
from inference.runtime.loop import Chunk, in_chunks, restore_or_start
from inference.runtime.programs import cached_jit
from models.algebra import STRUCTURES, add
from models.base import Algebra, Pytree, ZooError, on_host

Static = tuple[Algebra, FixedPoint]
SUPPORTS = Support("steps=True", STRUCTURES - {"coupled", "cycle"}, remedy="leave it out")
CLOSE = 1e-4  # of 1 + |objective|: steps have converged if the pass after them gains less


class StepRecord(NamedTuple):
    """The record of a step."""

    objective: Array  # (start,): the log joint or the bound, estimated from one block at the parameters it entered with
    held_out: Array | None  # (start,): the mean log density of the held-out rows there


@cached_jit(static_argnames=("static",))
def after_step(static: Static, prior: Pytree, rate: Array, states: Climb, local: Local) -> tuple[Climb, Array]:
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


def climb(task: Task, method: FixedPoint, max_iter: int, wanted: int, support: Support) -> tuple[Points, Climb]:
    """``max_iter`` steps of every start, then two passes; returns what `inference.fixed_points.climbing.climb` does.

    Raises `ZooError` for a source whose number of blocks is not known, and for a start that the user gives.
    """
    algebra = require_algebra(task, support)
    if (why := SUPPORTS.why_not(algebra)) is not None:
        raise ZooError(f"{task.model.name}: {why}")
    if task.start is not None:
        raise ZooError("steps of one block each move distributions and no points: leave start out")
    assert task.source is not None
    state = jax.tree.map(np.asarray, shared_state(algebra, initial(task, algebra, method, wanted)))
    static, sums = (shared_part(algebra), method), task.source.sums(task, algebra, "mean", state.T, lambda rows: None)
    steps = _Steps(task, static, sums)
    scalar, held_out = jax.ShapeDtypeStruct((), np.result_type(float)), sums.held_out_density(state.T)
    like, checkpoint = StepRecord(scalar, None if held_out is None else scalar), task.checkpoint("iterations")  # type: ignore[arg-type]
    start, checkpoint = sums.agreed(restore_or_start(checkpoint, state, like, max_iter), checkpoint, in_pass=False)
    task.reporter.phase("iterating", max_iter)
    try:
        at, interrupted = in_chunks(steps, start, max_iter, task.reporter, checkpoint)
        require_uninterrupted(interrupted, at, checkpoint, "steps")
        reached, gain = _finished(task, sums, static, at.state)
        held_out = sums.held_out_density(at.state.T)
    finally:
        sums.close()
    records: StepRecord = at.records()
    rows = task.rows_on_device if algebra.structure.local else None
    state = with_local_blocks(algebra, task.hyper, dict(task.prior), at.state, rows)
    points = _points(task, algebra, state, records, reached, gain, at.seconds)
    if held_out is not None:
        trace = np.concatenate([np.asarray(records.held_out), np.asarray(held_out)[:, None]], axis=1)
        points = points._replace(held_out=trace)
    return points, state._replace(criterion=on_host(reached), failed=on_host(~np.isfinite(reached)))


class _Steps:
    """Chunks of steps of one block each: as many as fit in `CHUNK_SECONDS`, and one at least."""

    def __init__(self, task: Task, static: Static, sums: BlockwiseSums) -> None:
        assert task.source is not None
        assert task.source.step_size is not None
        self._prior = shared_blocks(require_algebra(task), task.prior)
        self._static, self._sums, self._step_size = static, sums, task.source.step_size

    def __call__(self, state: Climb, finished: int, most: int) -> Chunk:
        clock = time.perf_counter()
        records: list[StepRecord] = []
        seconds = 0.0 if self._sums.shared else CHUNK_SECONDS  # several processes stop after the same steps
        while len(records) < most and not (records and time.perf_counter() - clock > seconds):
            step = finished + len(records)
            local = self._sums.estimate(state.T, step).local
            held_out = self._sums.held_out_density(state.T)
            rate = np.asarray(self._step_size.of(step + 1.0), float)
            state, objective = jax.tree.map(np.asarray, after_step(self._static, self._prior, rate, state, local))
            records.append(StepRecord(objective, held_out))
        joined = jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *records)
        return Chunk(state, joined, len(records), time.perf_counter() - clock, _words(records[-1]))


def _words(record: StepRecord) -> str:
    held_out = "" if record.held_out is None else f", held-out rows {np.nanmax(record.held_out):.4f}"
    return f"objective {np.nanmax(record.objective):.2f}{held_out}"


def _finished(task: Task, sums: BlockwiseSums, static: Static, state: Climb) -> tuple[np.ndarray, np.ndarray]:
    """(the objective of every start over all rows, the gain of one more sweep): two passes."""
    arrays = (shared_blocks(require_algebra(task), task.prior), np.ones((), float))
    keys = on_host(jax.random.split(task.key, len(state.done)))
    further, reached = after_step(static, *arrays, state, sums.whole(state.T, keys).local)
    _, beyond = after_step(static, *arrays, further, sums.whole(further.T, keys).local)
    return np.asarray(reached), np.asarray(beyond) - np.asarray(reached)


def _points(
    task: Task, algebra: Algebra, state: Climb, records: StepRecord, reached: np.ndarray, gain: np.ndarray, seconds: float
) -> Points:
    """The outcome; traces are estimates, block by block, and their last number is that of all rows."""
    sound = np.isfinite(reached)
    trace = np.concatenate([np.asarray(records.objective), reached[:, None]], axis=1)
    return Points(
        sites=jax.tree.map(np.asarray, sites_at(algebra, task.hyper, state.T)),
        objective=trace,
        criterion=trace,
        iterations=np.full(len(sound), trace.shape[1] - 1),
        converged=sound & (np.abs(gain) < CLOSE * (1 + np.abs(reached))),  # with local parameters it may fall
        failure=[None if ok else "the objective is not finite; check the scale of the data and the prior" for ok in sound],
        timing=timing(seconds, 0.0),
        repeatable=False,
    )
