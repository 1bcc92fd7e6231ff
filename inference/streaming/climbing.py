"""Fixed points over blocks: EM, hard EM, stochastic EM and variational inference, one pass an iteration."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.convergence.forecast import forecast
from inference.engine.driver import vmap_or_call
from inference.engine.initialise import finite_latents
from inference.engine.requirements import Support, require_algebra, require_single_rows
from inference.engine.sweep import Local, parameter_step
from inference.engine.task import Points, Task
from inference.fixed_points.fixed_point import (
    ALWAYS,
    Climb,
    FixedPoint,
    Record,
    SweepResult,
    initial,
    next_state,
    points,
    resting,
    threshold,
)
from inference.fixed_points.local_ascent import shared_part
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from inference.streaming.driver import Iteration, drive_blocks
from inference.streaming.local_blocks import completed, shared_blocks, shared_state
from inference.streaming.passes import Pass, Stream, Totals, any_rows
from models.algebra import log_prior, structures
from models.base import Algebra, Pytree, Stats, on_host

ITERATIONS = "iterations"  # the phase of a climb


@cached_jit(static_argnames=("static",))
def after_pass(
    static: tuple[Algebra, FixedPoint], prior: Pytree, size: Array, tol: Array, keys: Array, states: Climb, local: Local
) -> tuple[Climb, Record, Array]:
    """What `inference.fixed_points.fixed_point.step` makes of every start, its local step given."""
    algebra, method = static

    def one(key: Array, state: Climb, local: Local) -> tuple[Climb, Record, Array]:
        T, nu = parameter_step(algebra, method.updates, key, prior, state.T, local.stats)
        swept = SweepResult(T, nu, local, state.restart, state.warm_started)
        if algebra.structure.local:
            state = state._replace(warm_started=_has_not_fallen(algebra, method, prior, size, tol, state, local))
        return next_state(algebra, method, prior, size, tol, state, swept)

    return vmap_or_call(one, keys, states, local)


def _has_not_fallen(
    algebra: Algebra, method: FixedPoint, prior: Pytree, size: Array, tol: Array, state: Climb, local: Local
) -> Array:
    """Whether a small gain may end the climb: the criterion is not lower than before by more than ends it.

    Rows whose own parameters are found anew in every pass may come to another optimum, so that the bound falls on its way.
    """
    reached = method.criterion(algebra, prior, state, local)
    risen = reached - jnp.where(jnp.isfinite(state.first), state.first, reached)
    return reached - state.criterion >= -threshold(tol, size, risen)


def climb_blocks(
    task: Task, stream: Stream, method: FixedPoint, max_iter: int, tol: float, wanted: int, support: Support
) -> tuple[Points, Climb, np.ndarray | None]:
    """`inference.fixed_points.fixed_point.climb` over blocks, and the bound of the held-out rows (start, iteration) if any are.

    ``task`` is that of the rows where starts are sought.
    """
    algebra = require_algebra(task, support)
    state = jax.tree.map(np.asarray, shared_state(algebra, initial(task, algebra, method, wanted)))
    static, prior, limit = (shared_part(algebra), method), shared_blocks(algebra, task.prior), np.asarray(tol, float)
    single = method.updates.latents == "sample" and task.model.reading.sufficient_rows is not None
    check = single_rows(task, algebra) if single else any_rows
    over = Pass(stream, task, algebra, method.updates.latents, state.T, check)
    at_once = _is_closed(algebra, method, task, tol)
    keys = jax.random.split(task.key, len(state.done))

    def update(keys: Array, states: Climb, local: Local, totals: Totals) -> tuple[Climb, Watched, Array]:
        found, record, done = after_pass(static, prior, totals.weight[0], limit, keys, states, local)
        record = Watched(record, totals.weight, stream.bound_of_held_out(task, algebra, states.T))
        observed = at_once and not totals.latent[0]
        # Where all latents are observed the statistics are the same at any parameters: one pass is the maximum.
        return (found._replace(done=jnp.ones_like(done)), record, jnp.ones_like(done)) if observed else (found, record, done)

    record = after_pass.eval_shape(static, prior, limit, limit, keys, state, over.shapes())[1]
    of_one = jax.tree.map(_of_one, Watched(record, over.none.totals.weight, stream.bound_of_held_out(task, algebra, state.T)))
    iteration = Iteration(over, lambda state: state.T, update, of_one)
    run = drive_blocks(task, stream, iteration, keys, state, max_iter, ITERATIONS, Watch(_words))
    held_out, size = run.records.held_out, float(np.asarray(run.records.size).max(initial=0.0))
    state = completed(algebra, task.hyper, dict(task.prior), resting(run.state), task.rows_on_device)
    run = run._replace(state=state, records=run.records.own)
    found = points(task, algebra, method, run)
    if method.monotone and not method.accelerate:  # the gains of extrapolated points do not fall by one factor
        found = found._replace(forecast=forecast(np.asarray(found.criterion), partial(threshold, tol or ALWAYS, size)))
    return found, run.state, held_out


def _is_closed(algebra: Algebra, method: FixedPoint, task: Task, tol: float) -> bool:
    """Whether the statistics do not depend on the parameters once the states of all rows are known (`closed_form`)."""
    if method.updates.latents != "mean" or tol == 0 or structures(algebra.structure) - {"collapsed"} != {"joint"}:
        return False
    return finite_latents(algebra, task.hyper, task.prior, task.rows)


def single_rows(task: Task, algebra: Algebra) -> Callable[[Pytree], None]:
    """`inference.engine.requirements.require_single_rows` for the rows of a block."""
    return lambda rows: require_single_rows(task._replace(rows=rows), algebra)


class Watched(NamedTuple):
    """A record of a climb, and what held-out rows say of the parameters that the iteration entered with."""

    own: Record
    size: Array  # (start,): the weight of all rows
    held_out: Array | None  # (start,): the mean log density of their rows; None: there are no held-out rows


def _of_one(leaf: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)


def _words(record: Watched) -> str:
    finite = record.own.log_joint[~np.asarray(record.own.failed)]
    if not len(finite):
        return "every start has failed"
    held_out = "" if record.held_out is None else f", held-out rows {np.nanmax(record.held_out):.4f}"
    return f"log joint {finite.max():.2f}{held_out}"


def log_joints(task: Task, stream: Stream, algebra: Algebra, T: Stats) -> tuple[np.ndarray, np.ndarray, Totals]:
    """(log p(x, θ) over all rows, log p(θ), what was summed) of every start: one pass."""
    T = shared_blocks(algebra, T)
    over = Pass(stream, task, algebra, "mean", T)
    try:
        local, totals = over.whole(T, on_host(jax.random.split(task.key, len(jax.tree.leaves(T)[0]))))
    finally:
        over.close()
    prior = np.asarray(log_priors(shared_part(algebra), shared_blocks(algebra, task.prior), T), np.float64)
    return np.asarray(local.log_partition, np.float64) + prior, prior, totals


@cached_jit(static_argnames=("algebra",))
def log_priors(algebra: Algebra, prior: Pytree, T: Stats) -> Array:
    """Log p(θ) of every start."""
    return jax.vmap(partial(log_prior, algebra, prior))(T)
