"""Stochastic variational inference (Hoffman, Blei, Wang and Paisley 2013): `cavi` in minibatches of rows.

A step takes B of N rows, finds their q(z), and where rows have parameters of their own also q of these, given the shared
q(θ) = nu, and moves nu towards what it would be if all rows were like these:

    nu ← (1 − ρ) nu + ρ (prior + N / B · statistics),    ρ = (delay + step)^−forgetting,

which is a natural gradient step on the bound, of a gradient that is right on the average over batches at one nu. On the topic
model it is the online algorithm of Hoffman, Blei and Bach (2010). Rows come in random order, each once before any comes again,
but for those left over.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from inference.chains import Run, drive, each
from inference.optimise import Climb, FixedPoint, require_algebra
from inference.outcome import Points, Task
from inference.settle import own_part, own_prior, settled, shared_part
from inference.start import num_starts, sites_of, start_states
from inference.sweep import local_step, num_rows
from models.base import Algebra, Hyper, Pytree, Stats, ZooError, add, at_mean, log_prior, negative_divergence, on_host

TURNS = 10  # of the rows of a batch; measured on topics (`benchmarks latent_dirichlet minibatch`): 100 are slower and do worse
WHOLE = 500  # sweeps at most, and the change of nu below which it ends, to settle all rows after the last step
CLOSE = 1e-6
DONE = 1e-4  # of 1 + |bound|: what one more sweep of all rows may gain where the steps have converged


class Pace(NamedTuple):
    """How far a step goes: ρ = (delay + step)^−forgetting, step from 1."""

    delay: float
    forgetting: float


class State(NamedTuple):
    """One start."""

    nu: dict[str, Stats]  # of the shared blocks
    order: Array  # (N,): of the rows, until all batches of it have been taken
    step: Array


def of_own(rows: Pytree) -> Pytree:
    """Rows taken from others, whose private parameters now stand in their order."""
    return rows._replace(own=jnp.arange(num_rows(rows))) if hasattr(rows, "own") else rows


def _ordered(key: Array, place: Array, order: Array) -> Array:
    """Of the rows: a new one where all batches of the last have been taken; one start at a time, or all would sort."""
    return lax.cond(place == 0, lambda: jax.random.permutation(key, order.shape[0]), lambda: order)


_order = jax.custom_batching.sequential_vmap(_ordered)


def step(static: tuple[Algebra, int, int], arrays: tuple[Any, ...], key: Array, state: State) -> tuple[State, Array, Array]:
    """One batch: (state, the bound at the entering nu, were all rows like these; False).

    ``static`` is the algebra, the rows of a batch, and how many turns these have at most to settle.
    """
    algebra, size, turns = static
    hyper, prior, rows, delay, forgetting = arrays
    total = num_rows(rows)
    place = (state.step * size) % (total // size * size)
    order = _order(key, place, state.order)
    picked = lax.dynamic_slice_in_dim(order, place, size)
    batch = of_own(jax.tree.map(lambda leaf: leaf[picked], rows))
    shared, private = shared_part(algebra), own_prior(algebra, prior, size)
    T = at_mean(shared, key, state.nu)
    T, own = settled(algebra, hyper, private, T, batch, turns)
    local = local_step(algebra, "mean", hyper, key, T, batch)
    bound = local.log_partition + negative_divergence(own_part(algebra), private, T, own)
    estimate = total / size * bound + negative_divergence(shared, prior, T, state.nu)
    rate = (delay + state.step + 1.0) ** -forgetting
    wanted = {name: jax.tree.map(lambda p, s: p + total / size * s, prior[name], local.stats[name]) for name in state.nu}
    nu = jax.tree.map(lambda old, new: (1 - rate) * old + rate * new, state.nu, wanted)
    return State(nu, order, state.step + 1), estimate, jnp.zeros((), bool)


@partial(jax.jit, static_argnames=("algebra",))
def _finished(
    algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, nu: Mapping[str, Stats]
) -> tuple[dict[str, Stats], dict[str, Stats], Array, Array, Array]:
    """All rows given the shared nu: (T, nu of all blocks, the bound, the log joint at T, what shared nu can still gain)."""

    def one(nu: Mapping[str, Stats]) -> tuple[Any, ...]:
        key = jax.random.PRNGKey(0)
        private = own_prior(algebra, prior, num_rows(rows))
        T, own = settled(algebra, hyper, private, at_mean(shared_part(algebra), key, nu), rows, WHOLE, CLOSE)
        whole = {**nu, **own}
        local = local_step(algebra, "mean", hyper, key, T, rows)
        log_joint = local.log_partition + log_prior(algebra, prior, T)
        bound = local.log_partition + negative_divergence(algebra, prior, T, whole)
        best = {name: add(prior[name], local.stats[name]) for name in nu}
        further = {**T, **at_mean(shared_part(algebra), key, best)}
        gained = local_step(algebra, "mean", hyper, key, further, rows).log_partition
        return T, whole, bound, log_joint, gained + negative_divergence(algebra, prior, further, {**whole, **best}) - bound

    return each(one, nu)


def refuses(algebra: Algebra) -> str | None:
    """Why minibatches mean nothing on a model, in words, or None."""
    if algebra.cycle or algebra.coupling is not None:
        return "batch_size needs blocks of parameters that are independent a priori and conjugate all at once; leave it out"
    return None


def climb(task: Task, method: FixedPoint, size: int, pace: Pace, max_iter: int, wanted: int) -> tuple[Points, Climb]:
    """``max_iter`` batches of every start, then all rows: what `inference.optimise.climb` returns."""
    algebra = require_algebra(task, refuses)
    total = num_rows(task.rows)
    if size >= total:
        raise ZooError(f"batch_size={size} must be less than the {total} rows; leave it out to take all of them at once")
    number = num_starts(task, wanted)
    _, nu, known = start_states(task, algebra, method.verbs.parameters, number)
    if not known:
        raise ZooError("batch_size needs a start of its own, as it moves distributions and no points; leave start out")
    shared = {name: leaf for name, leaf in nu.items() if name not in algebra.private}
    state = State(shared, on_host(np.zeros((number, total), int)), on_host(np.zeros(number, int)))
    arrays = (task.hyper, task.prior, task.rows, jnp.asarray(pace.delay, float), jnp.asarray(pace.forgetting, float))
    run = drive(step, (algebra, size, TURNS), arrays, task.key, state, max_iter, task.reporter, "iterating", describe=_describe)
    T, nu, bound, log_joint, gain = _finished(algebra, task.hyper, task.prior, task.rows, run.state.nu)
    settled_down = np.asarray(gain) < DONE * (1 + np.abs(np.asarray(bound)))
    points = _points(algebra, task, run, T, bound, log_joint)._replace(converged=settled_down)
    sound = jnp.isfinite(bound)
    return points, Climb(T, nu, sound, ~sound, sound, bound, sound, ~sound, T, log_joint)


def _points(algebra: Algebra, task: Task, run: Run, T: Stats, bound: Array, log_joint: Array) -> Points:
    """Traces are estimates batch by batch, and the last number is of all rows."""
    sound = np.isfinite(np.asarray(bound))
    trace = np.concatenate([np.asarray(run.records), np.asarray(bound)[:, None]], axis=1)
    return Points(
        sites=jax.tree.map(np.asarray, sites_of(algebra, task.hyper, T)),
        objective=np.where(np.arange(trace.shape[1]) < trace.shape[1] - 1, np.nan, np.asarray(log_joint)[:, None]),
        criterion=trace,
        iterations=np.full(len(sound), run.num_steps),
        converged=sound,
        failure=[None if one else "the bound is not finite; check the scale of the data and the prior" for one in sound],
        timing={"compile_seconds": run.compile_seconds, "warmup_seconds": 0.0, "run_seconds": run.run_seconds},
        interrupted=run.interrupted,
    )


def _describe(record: Pytree) -> str:
    return f"evidence bound {np.max(record):.2f}"
