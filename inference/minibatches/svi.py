"""Stochastic variational inference (Hoffman, Blei, Wang and Paisley 2013): `cavi` in minibatches of rows.

A step takes B of N rows and infers their q(z), and q of their local parameters if they have any, given the shared q(θ) = nu. It
then moves nu towards its value if all rows were like these:

    nu ← (1 − ρ) nu + ρ (prior + N / B · statistics),    ρ = (delay + step)^−forgetting,

which is a natural gradient step on the bound, with a gradient that is unbiased over batches at one nu. On the topic model it is
the online algorithm of Hoffman, Blei and Bach (2010). Rows come in random order, each once before any repeats; the rows
that do not fill the last batch are left out until then.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from inference.engine.driver import Run, drive, vmap_or_call
from inference.engine.initialise import num_starts, sites_at, start_states
from inference.engine.requirements import Support, require_algebra
from inference.engine.row_source import StepSize
from inference.engine.sweep import local_step, num_rows
from inference.engine.task import Points, Task, timing
from inference.fixed_points.fixed_point import Climb, FixedPoint
from inference.fixed_points.local_ascent import local_ascent, local_part, local_prior, shared_part
from inference.minibatches.svi_on_host import BatchPlan, State, converged_local_nu, drive_batches, loops_of
from inference.runtime.progress import Watch
from models.algebra import STRUCTURES, add, at_mean, log_prior, negative_divergence
from models.base import Algebra, Hyper, Pytree, Stats, ZooError, on_host
from models.host.loops import LocalLoops
from models.rows.row_info import row_info

TURNS = 10  # inner updates per batch; measured on topics (`benchmarks latent_dirichlet minibatch`): 100 are slower and worse
WHOLE = 500  # inner updates of all rows after the last step, at most
CLOSE = 1e-6  # the change of nu below which these end
DONE = 1e-4  # of 1 + |bound|: the steps have converged if one more sweep of all rows gains less
SETTLED = 1e-3  # the average change of a row's nu below which the inner updates of a batch end
SUPPORTS = Support("batch_size", STRUCTURES - {"coupled", "cycle"}, remedy="leave it out")


def renumber_local_rows(rows: Pytree) -> Pytree:
    """Rows picked from a table, renumbered: their local parameters are in the order of the rows picked."""
    return rows._replace(document=jnp.arange(num_rows(rows))) if row_info(rows).local_index is not None else rows


def _ordered(key: Array, place: Array, order: Array) -> Array:
    """The order of the rows, a new one when all batches of the last have been taken."""
    return lax.cond(place == 0, lambda: jax.random.permutation(key, order.shape[0]), lambda: order)


# One start at a time: batched, every start would sort at every step.
_order = jax.custom_batching.sequential_vmap(_ordered)


def step(static: tuple[Algebra, int, int], arrays: tuple[Any, ...], key: Array, state: State) -> tuple[State, Array, Array]:
    """One batch: (state, an estimate of the bound at the entering nu, False).

    ``static`` is the algebra, the number of rows in a batch, and the largest number of inner updates.
    """
    algebra, size, turns = static
    hyper, prior, rows, delay, forgetting = arrays
    total = num_rows(rows)
    place = (state.step * size) % (total // size * size)
    order = _order(key, place, state.order)
    picked = lax.dynamic_slice_in_dim(order, place, size)
    batch = renumber_local_rows(jax.tree.map(lambda leaf: leaf[picked], rows))
    shared, row_prior = shared_part(algebra), local_prior(algebra, prior, size)
    T = at_mean(shared, key, state.nu)
    T, nu_of_rows = local_ascent(algebra, hyper, row_prior, T, batch, turns, SETTLED)
    local = local_step(algebra, "mean", hyper, key, T, batch)
    bound = local.log_partition + negative_divergence(local_part(algebra), row_prior, T, nu_of_rows)
    estimate = total / size * bound + negative_divergence(shared, prior, T, state.nu)
    rate = StepSize(delay, forgetting).of(state.step + 1.0)
    wanted = {name: jax.tree.map(lambda p, s: p + total / size * s, prior[name], local.stats[name]) for name in state.nu}
    nu = jax.tree.map(lambda old, new: (1 - rate) * old + rate * new, state.nu, wanted)
    return State(nu, order, state.step + 1), estimate, jnp.zeros((), bool)


@partial(jax.jit, static_argnames=("algebra",))
def _finished(
    algebra: Algebra,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    rows: Pytree,
    nu: Mapping[str, Stats],
    local_nu: Mapping[str, Stats] | None = None,
) -> tuple[dict[str, Stats], dict[str, Stats], Array, Array, Array]:
    """All rows given the shared nu: (T, nu of all blocks, the bound, the log joint at T, the gain of one more sweep).

    ``local_nu`` is nu of the local blocks, where it has converged already.
    """

    def one(nu: Mapping[str, Stats], local_nu: Mapping[str, Stats] | None) -> tuple[Any, ...]:
        key = jax.random.PRNGKey(0)
        T = at_mean(shared_part(algebra), key, nu)
        if local_nu is None:
            row_prior = local_prior(algebra, prior, num_rows(rows))
            T, local_nu = local_ascent(algebra, hyper, row_prior, T, rows, WHOLE, CLOSE)
        else:
            T = {**T, **at_mean(local_part(algebra), key, local_nu)}
        all_nu = {**nu, **local_nu}
        local = local_step(algebra, "mean", hyper, key, T, rows)
        log_joint = local.log_partition + log_prior(algebra, prior, T)
        bound = local.log_partition + negative_divergence(algebra, prior, T, all_nu)
        best = {name: add(prior[name], local.stats[name]) for name in nu}
        further = {**T, **at_mean(shared_part(algebra), key, best)}
        gained = local_step(algebra, "mean", hyper, key, further, rows).log_partition
        return T, all_nu, bound, log_joint, gained + negative_divergence(algebra, prior, further, {**all_nu, **best}) - bound

    return vmap_or_call(one, nu, local_nu)


def climb(task: Task, method: FixedPoint, size: int, step_size: StepSize, max_iter: int, wanted: int) -> tuple[Points, Climb]:
    """``max_iter`` batches of every start, then all rows; returns what `inference.fixed_points.climbing.climb` does."""
    algebra = require_algebra(task, SUPPORTS)
    total = num_rows(task.rows)
    if size >= total:
        raise ZooError(f"batch_size={size} must be less than the {total} rows; leave it out to take all of them at once")
    number = num_starts(task, wanted)
    _, nu, known = start_states(task, algebra, method.updates.parameters, number)
    if not known:
        raise ZooError("batch_size computes its start, because it moves distributions and no points; leave start out")
    shared = {name: leaf for name, leaf in nu.items() if name not in algebra.structure.local}
    integer = jnp.result_type(int)
    state = State(shared, on_host(np.zeros((number, total), integer)), on_host(np.zeros(number, integer)))
    loops = loops_of(algebra, task.rows)
    run = _steps(task, algebra, loops, state, size, step_size, max_iter)
    local_nu = None if loops is None else converged_local_nu(loops, task.prior, task.rows, run.state.nu, WHOLE, CLOSE)
    T, nu, bound, log_joint, gain = _finished(algebra, task.hyper, task.prior, task.rows_on_device, run.state.nu, local_nu)
    settled_down = np.asarray(gain) < DONE * (1 + np.abs(np.asarray(bound)))
    points = _points(algebra, task, run, T, bound, log_joint)._replace(converged=settled_down)
    sound = jnp.isfinite(bound)
    return points, Climb(T, T, nu, sound, ~sound, sound, bound, bound, sound, ~sound, T, log_joint)


def _steps(
    task: Task, algebra: Algebra, loops: LocalLoops | None, state: State, size: int, step_size: StepSize, max_iter: int
) -> Run:
    """All batches of every start, by the algebra, or by compiled loops on the host where it has some for these rows."""
    watch, checkpoint = Watch(_words), task.checkpoint("iterations")
    if loops is not None:
        plan, inputs = BatchPlan(size, TURNS, SETTLED, step_size), (task.prior, task.rows, task.key, state)
        return drive_batches(loops, plan, *inputs, max_iter, task.reporter, "iterating", watch=watch, checkpoint=checkpoint)
    arrays = (task.hyper, task.prior, task.rows_on_device, *(jnp.asarray(part, float) for part in step_size))
    static = (algebra, size, TURNS)
    return drive(
        step, static, arrays, task.key, state, max_iter, task.reporter, "iterating", watch=watch, checkpoint=checkpoint
    )


def _points(algebra: Algebra, task: Task, run: Run, T: Stats, bound: Array, log_joint: Array) -> Points:
    """The outcome. Traces are estimates batch by batch; the last number is that of all rows."""
    sound = np.isfinite(np.asarray(bound))
    trace = np.concatenate([np.asarray(run.records), np.asarray(bound)[:, None]], axis=1)
    return Points(
        sites=jax.tree.map(np.asarray, sites_at(algebra, task.hyper, T)),
        objective=np.where(np.arange(trace.shape[1]) < trace.shape[1] - 1, np.nan, np.asarray(log_joint)[:, None]),
        criterion=trace,
        iterations=np.full(len(sound), run.num_steps),
        converged=sound,
        failure=[None if ok else "the bound is not finite; check the scale of the data and the prior" for ok in sound],
        timing=timing(run.run_seconds, run.compile_seconds),
        interrupted=run.interrupted,
        repeatable=False,
    )


def _words(record: Pytree) -> str:
    return f"evidence bound {np.max(record):.2f}"
