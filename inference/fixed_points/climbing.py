"""The one loop of fixed points: all starts of a method, until each has converged or is known to have no mode.

Resident rows are swept by one compiled program. Over other rows the local step is summed, and the rest is the same: the
parameter step, and whether a start is done (`inference.fixed_points.fixed_point.next_state`).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.convergence.forecast import forecast
from inference.engine.driver import Run, drive, vmap_or_call
from inference.engine.initialise import finite_latents, natural_of
from inference.engine.requirements import ANY_MODEL, Support, require_algebra, require_single_rows
from inference.engine.row_source import RowSums, Totals
from inference.engine.sweep import Local, parameter_step, rows_weight, sweep
from inference.engine.task import Points, Task
from inference.fixed_points.fixed_point import (
    Climb,
    FixedPoint,
    Record,
    SweepResult,
    initial,
    next_state,
    points,
    states_at,
    states_at_rest,
    threshold,
)
from inference.fixed_points.local_ascent import ascent_sweep, shared_part, uses_local_ascent
from inference.fixed_points.local_blocks import shared_blocks, shared_state, with_local_blocks
from inference.row_sums.compiled import CompiledSums, host_step_of
from inference.row_sums.driver import drive_sums
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from models.algebra import structures
from models.base import Algebra, Pytree, Sites

ALWAYS = 1e-10  # the tolerance that a forecast assumes for runs with tol=0


def step(static: tuple[Algebra, FixedPoint], arrays: tuple[Any, ...], key: Array, state: Climb) -> tuple[Climb, Record, Array]:
    """One sweep of one start over resident rows; a start that is done stays as it is."""
    algebra, method = static
    hyper, prior, rows, tol = arrays
    if uses_local_ascent(algebra, method.updates):
        swept = SweepResult(*ascent_sweep(algebra, hyper, prior, state.T, state.nu, state.restart, rows))
    else:
        T, nu, local = sweep(algebra, method.updates, hyper, prior, key, state.T, rows)
        swept = SweepResult(T, nu, local, state.restart, state.warm_started)
    return next_state(algebra, method, prior, rows_weight(rows).sum(), tol, state, swept)


@cached_jit(static_argnames=("static",))
def step_from_sums(
    static: tuple[Algebra, FixedPoint], prior: Pytree, size: Array, tol: Array, keys: Array, states: Climb, local: Local
) -> tuple[Climb, Record, Array]:
    """`step` of every start from its local step; ``size`` is the weight of all rows."""
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
    """Whether a small gain may end the climb: the criterion has not fallen by more than the threshold.

    Local parameters that are inferred anew in every pass may reach another optimum, so that the bound falls.
    """
    reached = method.criterion(algebra, prior, state, local)
    risen = reached - jnp.where(jnp.isfinite(state.first), state.first, reached)
    return reached - state.criterion >= -threshold(tol, size, risen)


def climb(
    task: Task,
    method: FixedPoint,
    max_iter: int,
    tol: float,
    wanted: int,
    support: Support = ANY_MODEL,
) -> tuple[Points, Climb]:
    """At most ``wanted`` starts to their fixed points: (points, their final states).

    Starts come from ``task.rows``. Raises `ZooError` where ``support`` excludes the model.
    """
    algebra = require_algebra(task, support)
    state = initial(task, algebra, method, wanted)
    update = method.updates.latents
    rows = task.sufficient_rows if update == "mean" else task.rows_on_device
    sums = _sums(task, algebra, method, rows, state)
    if sums is None:
        run, held_out = _resident(task, (algebra, method), rows, tol, state, max_iter), None
        run, size = run._replace(state=states_at_rest(run.state)), float(rows_weight(rows).sum())
    else:
        run, size, held_out = _over_sums(task, sums, (algebra, method), tol, state, max_iter)
    outcome = points(task, algebra, method, run)._replace(held_out=held_out)
    if method.monotone and not method.accelerate:  # the gains of extrapolated points do not fall by one factor
        outcome = outcome._replace(forecast=forecast(np.asarray(outcome.criterion), partial(threshold, tol or ALWAYS, size)))
    return outcome, run.state


def _sums(task: Task, algebra: Algebra, method: FixedPoint, rows: Pytree, state: Climb) -> RowSums | None:
    """Sums over the source of the rows, or over resident rows by compiled loops; None without either.

    Raises `ZooError` for rows that a method with drawn latents does not take: their weights may stand for very many rows.
    """
    update = method.updates.latents
    single = update == "sample" and task.model.reading.sufficient_rows is not None
    if task.source is not None:
        check = partial(_require_single_rows, task, algebra) if single else _any_rows
        return task.source.sums(task, algebra, update, shared_state(algebra, state).T, check)
    if single:
        require_single_rows(task, algebra)
    host = host_step_of(algebra, rows) if update == "mean" else None
    return None if host is None else CompiledSums(algebra, host, task.hyper, rows, state.T)


def _require_single_rows(task: Task, algebra: Algebra, rows: Pytree) -> None:
    require_single_rows(task._replace(rows=rows), algebra)


def _any_rows(rows: Pytree) -> None:
    """No rows are refused."""


def _resident(task: Task, static: tuple[Algebra, FixedPoint], rows: Pytree, tol: float, state: Climb, max_iter: int) -> Run:
    """All starts by sweeps over resident rows."""
    watch, arrays = Watch(_words), (task.hyper, task.prior, rows, jnp.asarray(tol, float))
    checkpoint = task.checkpoint("iterations")
    return drive(
        step, static, arrays, task.key, state, max_iter, task.reporter, "iterating", watch=watch, checkpoint=checkpoint
    )


class WithHeldOut(NamedTuple):
    """A record of a climb, and the density of held-out rows at the parameters that the iteration entered with."""

    record: Record
    size: Array  # (start,): the weight of all rows
    held_out: Array | None  # (start,): the mean log density of the held-out rows; None: there are none


def _over_sums(
    task: Task, sums: RowSums, static: tuple[Algebra, FixedPoint], tol: float, state: Climb, max_iter: int
) -> tuple[Run, float, np.ndarray | None]:
    """All starts by passes: (the run, the weight of all rows, the densities of held-out rows (start, iteration) or None)."""
    algebra, method = static
    shared, prior, limit = (shared_part(algebra), method), shared_blocks(algebra, task.prior), np.asarray(tol, float)
    at_once = _is_closed(algebra, method, task, tol)

    def update(keys: Array, states: Climb, totals: Totals, held_out: Array | None) -> tuple[Climb, WithHeldOut, Array]:
        size = np.asarray(totals.weight)[0]
        following, record, done = step_from_sums(shared, prior, size, limit, keys, states, totals.local)
        if at_once and not totals.latent[0]:
            # Where all latents are observed the statistics are the same at any parameters: one pass is the maximum.
            done = jnp.ones_like(done)
            following = following._replace(done=done)
        return following, WithHeldOut(record, totals.weight, held_out), done

    run = drive_sums(
        sums, _parameters, update, task.key, shared_state(algebra, state), max_iter, task.reporter, "iterating",
        watch=Watch(_words_with_held_out), checkpoint=task.checkpoint("iterations"),
    )  # fmt: skip
    records: WithHeldOut = run.records
    rows = task.rows_on_device if algebra.structure.local else None
    state = with_local_blocks(algebra, task.hyper, dict(task.prior), states_at_rest(run.state), rows)
    held_out = None if records.held_out is None else np.asarray(records.held_out)
    return run._replace(state=state, records=records.record), float(np.max(records.size, initial=0.0)), held_out


def _parameters(state: Climb) -> Any:
    return state.T


def _is_closed(algebra: Algebra, method: FixedPoint, task: Task, tol: float) -> bool:
    """Whether the statistics do not depend on the parameters once the states of all rows are known (`closed_form`)."""
    if method.updates.latents != "mean" or tol == 0 or structures(algebra.structure) - {"collapsed"} != {"joint"}:
        return False
    return finite_latents(algebra, task.hyper, task.prior, task.rows)


def climb_from(task: Task, method: FixedPoint, sites: Sites, max_iter: int, tol: float, support: Support = ANY_MODEL) -> Points:
    """From every one of S points (S, …) to its fixed point. Raises `ZooError` unless ``support`` includes the model."""
    algebra = require_algebra(task, support)
    size = len(next(iter(sites.values())))
    nu = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], size, axis=0), dict(task.prior))
    state = states_at(algebra, method, natural_of(algebra, task.hyper, dict(sites)), nu, False, size)
    arrays = (task.hyper, task.prior, task.sufficient_rows, jnp.asarray(tol, float))
    run = drive(step, (algebra, method), arrays, task.key, state, max_iter, task.reporter, "climbing", watch=Watch(_words))
    return points(task, algebra, method, run)


def _words(record: Record) -> str:
    finite = record.log_joint[~np.asarray(record.failed)]
    return f"log joint {finite.max():.2f}" if len(finite) else "every start has failed"


def _words_with_held_out(records: WithHeldOut) -> str:
    held_out = "" if records.held_out is None else f", held-out rows {np.nanmax(records.held_out):.4f}"
    return f"{_words(records.record)}{held_out}"
