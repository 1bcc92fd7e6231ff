"""Fixed-point methods: several starts of one sweep, run until each has converged or found that it has no mode."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.convergence.acceleration import NEAR, Cycle, Point, advance, at_rest, begin, has_nan, rejected, where
from inference.convergence.forecast import forecast
from inference.engine.driver import Run, drive, vmap_or_call
from inference.engine.initialise import natural_of, num_starts, sites_at, start_states
from inference.engine.requirements import ANY_MODEL, Support, require_algebra, require_single_rows
from inference.engine.sweep import Local, Updates, parameter_step, rows_weight, sweep
from inference.engine.task import Points, Task, timing
from inference.fixed_points.host_driver import OnHost, drive_on_host, host_step_of
from inference.fixed_points.local_ascent import ascent_sweep, uses_local_ascent
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from models.algebra import log_prior, negative_divergence
from models.base import Algebra, Iteration, Pytree, Sites, Stats, on_host

ROUNDING = 1e-13
ALWAYS = 1e-10  # the tolerance that a forecast assumes for runs with tol=0


class FixedPoint(NamedTuple):
    """A fixed-point method: its updates and what it climbs."""

    updates: Updates
    criterion: Callable[[Algebra, Mapping[str, Stats], "Climb", Local], Array]  # (algebra, prior, state, local) -> scalar
    monotone: bool = True  # stop when the criterion gains too little; otherwise run all iterations and keep the best
    accelerate: bool = False  # extrapolate between sweeps (`inference.convergence.acceleration`); only where monotone


class Climb(NamedTuple):
    """State of one start."""

    T: Stats
    before: Stats  # T one iteration earlier
    nu: Stats
    known: Array  # whether T was computed from nu (not at a start that the user gave as sites)
    restart: Array  # whether the next sweep restarts the local parameters (`inference.fixed_points.local_ascent`)
    warm_started: Array  # whether the last sweep did not, so that its gain says how near the end is
    first: Array  # the first finite criterion
    criterion: Array
    done: Array
    failed: Array
    best_point: Stats
    best: Array  # log joint at best_point; followed by methods that are not monotone
    cycle: Cycle | None = None  # of an accelerated method


class Record(NamedTuple):
    log_joint: Array
    criterion: Array
    done: Array
    failed: Array


def step(static: tuple[Algebra, FixedPoint], arrays: tuple[Any, ...], key: Array, state: Climb) -> tuple[Climb, Record, Array]:
    """One sweep of one start; a start that is done stays as it is."""
    algebra, method = static
    hyper, prior, rows, tol = arrays
    if uses_local_ascent(algebra, method.updates):
        swept = SweepResult(*ascent_sweep(algebra, hyper, prior, state.T, state.nu, state.restart, rows))
    else:
        found = sweep(algebra, method.updates, hyper, prior, key, state.T, rows)
        swept = SweepResult(*found, state.restart, state.warm_started)
    return next_state(algebra, method, prior, rows_weight(rows).sum(), tol, state, swept)


@cached_jit(static_argnames=("static",))
def step_from_sums(
    static: tuple[Algebra, FixedPoint], prior: Mapping[str, Stats], size: Array, tol: Array, states: Climb, sums: Pytree
) -> tuple[Climb, Record, Array, Pytree]:
    """What `step` makes of every start, its sums over the rows given; and the coefficients of the next sums."""
    algebra, method = static
    host = algebra.structure.host_step
    assert host is not None

    def one(state: Climb, sums: Pytree) -> tuple[Climb, Record, Array, Pytree]:
        stats, log_partition = host.statistics(sums)
        T, nu = parameter_step(algebra, method.updates, jax.random.PRNGKey(0), prior, state.T, stats)
        swept = SweepResult(T, nu, Local(stats, log_partition, log_partition), state.restart, state.warm_started)
        following, record, done = next_state(algebra, method, prior, size, tol, state, swept)
        return following, record, done, host.coefficients(following.T)

    return vmap_or_call(one, states, sums)


@cached_jit(static_argnames=("algebra",))
def coefficients_of(algebra: Algebra, states: Climb) -> Pytree:
    """What the compiled loops of an algebra read at the parameters of every start."""
    assert algebra.structure.host_step is not None
    return jax.vmap(algebra.structure.host_step.coefficients)(states.T)


class SweepResult(NamedTuple):
    """What one sweep found: the next parameters, the local step at the entering ones, and how local parameters went on."""

    T: Stats
    nu: Stats
    local: Local
    restart: Array
    warm_started: Array


def next_state(
    algebra: Algebra, method: FixedPoint, prior: Mapping[str, Stats], size: Array, tol: Array, state: Climb, swept: SweepResult
) -> tuple[Climb, Record, Array]:
    """Whether a start is done after a sweep, and where its next one starts; ``size`` is the weight of all rows."""
    log_joint = swept.local.log_partition + log_prior(algebra, prior, state.T)
    criterion = method.criterion(algebra, prior, state, swept.local)
    unsound = has_nan(state.T) | jnp.isnan(log_joint) | (log_joint == jnp.inf)  # has_nan: also of what no row reads
    fails, trial = jnp.zeros((), bool), jnp.zeros((), bool)
    if state.cycle is not None:
        trial, fails = state.cycle.trial, rejected(state.cycle, state.criterion, criterion, ~unsound)
        criterion = jnp.where(fails, state.criterion, criterion)
        log_joint = jnp.where(fails, state.cycle.log_joint, log_joint)
    failed = state.failed | (unsound & ~fails)
    first = jnp.where(jnp.isfinite(state.first), state.first, criterion)
    gain, risen = criterion - state.criterion, criterion - first
    # Only the gain of a plain sweep says how near the end is.
    judges = (tol > 0) & method.monotone & state.warm_started & ~trial
    settled = judges & (gain < threshold(tol, size, risen))
    settled |= judges & _equal(swept.T, state.T)  # a fixed point, as where all latents are observed
    done = state.done | failed | settled
    better = ~done & (log_joint > state.best)
    following, before, cycle = Point(swept.T, swept.nu), state.T, state.cycle
    if cycle is not None:
        near = gain < NEAR * (size + risen)
        here, parameters = Point(state.T, state.nu), partial(method.updates.parameters, algebra, jax.random.PRNGKey(0))
        following, before, cycle = advance(cycle, state.before, here, following, state.known, near, fails, parameters)
        cycle = where(done, state.cycle, cycle._replace(log_joint=log_joint))
    after = Climb(
        T=where(done, state.T, following.T),
        before=where(done, state.before, before),
        nu=where(done, state.nu, following.nu),
        known=state.known | ~done,
        restart=jnp.where(done, state.restart, swept.restart),
        warm_started=jnp.where(done, state.warm_started, swept.warm_started),
        first=first,
        criterion=jnp.where(state.done, state.criterion, criterion),
        done=done,
        failed=failed,
        best_point=state.best_point if method.monotone else where(better, state.T, state.best_point),
        best=jnp.where(better, log_joint, state.best),
        cycle=cycle,
    )
    return after, Record(log_joint, criterion, state.done, failed), done


def threshold(tol: Any, size: Any, risen: Any) -> Any:
    """An iteration that gains less is the last: ``tol`` times (the weight of all rows plus the rise of the criterion so far).

    Both grow with the rows and columns of the data, as a log joint does. Neither changes with the units of the data, which
    shift a log joint by a constant.
    """
    return tol * (size + risen)


def _equal(left: Pytree, right: Pytree) -> Array:
    """Whether two pytrees are equal up to rounding, relative to the largest number of each leaf."""

    def same(a: Array, b: Array) -> Array:
        gap = jnp.where(a == b, 0.0, jnp.abs(a - b))
        return (gap <= ROUNDING * jnp.max(jnp.where(jnp.isfinite(b), jnp.abs(b), 0.0))).all()

    return jnp.stack([same(a, b) for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)]).all()


def complete_data(algebra: Algebra, prior: Mapping[str, Stats], state: Climb, local: Local) -> Array:
    """Log p(x, z, θ) at the hard z: what hard EM climbs."""
    return local.energy + log_prior(algebra, prior, state.T)


def log_joint(algebra: Algebra, prior: Mapping[str, Stats], state: Climb, local: Local) -> Array:
    """Log p(x, θ), latents summed out: what EM climbs."""
    return local.log_partition + log_prior(algebra, prior, state.T)


def elbo(algebra: Algebra, prior: Mapping[str, Stats], state: Climb, local: Local) -> Array:
    """Evidence lower bound at q(θ) = nu and the optimal q(z); −inf while q(θ) is not known (a start given as sites)."""
    bound = local.log_partition + negative_divergence(algebra, prior, state.T, state.nu)
    return jnp.where(state.known, bound, -jnp.inf)


def climb(
    task: Task,
    method: FixedPoint,
    max_iter: int,
    tol: float,
    wanted: int,
    support: Support = ANY_MODEL,
) -> tuple[Points, Climb]:
    """At most ``wanted`` starts to their fixed points: (points, their final states).

    Raises `ZooError` where ``support`` excludes the model.
    """
    algebra = require_algebra(task, support)
    # Weights may stand for very many rows, whose latents one draw cannot replace.
    if method.updates.latents == "sample" and task.model.reading.sufficient_rows is not None:
        require_single_rows(task, algebra)
    state = initial(task, algebra, method, wanted)
    rows = task.sufficient_rows if method.updates.latents == "mean" else task.rows_on_device
    run = _iterated(task, (algebra, method), rows, tol, state, max_iter)
    run = run._replace(state=resting(run.state))
    found = points(task, algebra, method, run)
    if method.monotone and not method.accelerate:  # the gains of extrapolated points do not fall by one factor
        size = float(np.asarray(rows_weight(rows)).sum())
        found = found._replace(forecast=forecast(np.asarray(found.criterion), partial(threshold, tol or ALWAYS, size)))
    return found, run.state


def _iterated(task: Task, static: tuple[Algebra, FixedPoint], rows: Pytree, tol: float, state: Climb, max_iter: int) -> Run:
    """All starts until they are done, by the algebra, or by compiled loops on the host where it has some for these rows."""
    algebra, method = static
    watch, limit, checkpoint = Watch(_words), jnp.asarray(tol, float), task.checkpoint("iterations")
    host = host_step_of(algebra, rows) if method.updates.latents == "mean" else None
    if host is None:
        arrays = (task.hyper, task.prior, rows, limit)
        return drive(
            step, static, arrays, task.key, state, max_iter, task.reporter, "iterating", watch=watch, checkpoint=checkpoint
        )
    update = partial(step_from_sums, static, task.prior, rows_weight(rows).sum(), limit)
    loops = OnHost(host, update, partial(coefficients_of, algebra), task.hyper, rows)
    return drive_on_host(loops, state, max_iter, task.reporter, "iterating", watch, checkpoint)


def resting(state: Climb) -> Climb:
    """The states of a run that has ended: a point on trial gives way to that of the last plain sweep."""
    if state.cycle is None:
        return state
    T, nu = at_rest(state.cycle, Point(state.T, state.nu))
    return state._replace(T=T, nu=nu)


def initial(task: Task, algebra: Algebra, method: FixedPoint, wanted: int) -> Climb:
    """States of all starts: seeded, or one at the sites given."""
    size = num_starts(task, wanted)
    T, nu, known = start_states(task, algebra, method.updates.parameters, size)
    return _states(algebra, method, T, nu, known, size)


def _states(algebra: Algebra, method: FixedPoint, T: Stats, nu: Stats, known: bool, size: int) -> Climb:
    lowest, no = on_host(np.full(size, -np.inf, jnp.result_type(float))), on_host(np.zeros(size, bool))
    restart = known and uses_local_ascent(algebra, method.updates)  # rows begin at a start that the user gave
    knows, begins, goes_on = (on_host(np.full(size, value)) for value in (known, restart, not restart))
    cycle = begin(Point(T, nu), size) if method.accelerate else None
    return Climb(T, T, nu, knows, begins, goes_on, lowest, lowest, no, no, T, lowest, cycle)


def climb_from(task: Task, method: FixedPoint, sites: Sites, max_iter: int, tol: float, support: Support = ANY_MODEL) -> Points:
    """From every one of S points (S, …) to its fixed point. Raises `ZooError` unless ``support`` includes the model."""
    algebra = require_algebra(task, support)
    size = len(next(iter(sites.values())))
    nu = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], size, axis=0), dict(task.prior))
    state = _states(algebra, method, natural_of(algebra, task.hyper, dict(sites)), nu, False, size)
    arrays = (task.hyper, task.prior, task.sufficient_rows, jnp.asarray(tol, float))
    run = drive(step, (algebra, method), arrays, task.key, state, max_iter, task.reporter, "climbing", watch=Watch(_words))
    return points(task, algebra, method, run)


def points(task: Task, algebra: Algebra, method: FixedPoint, run: Run) -> Points:
    """The outcome of a run: traces end where a start stopped, and failures are put into words."""
    state, records = run.state, run.records
    T = state.T if method.monotone else state.best_point
    sites = sites_at(algebra, task.hyper, T)
    longest = max(1, int((~np.asarray(records.done)).sum(1).max()))  # the driver may finish its chunk
    records = jax.tree.map(lambda leaf: leaf[:, :longest], records)
    stopped = np.asarray(records.done)
    failed = np.asarray(state.failed) | _undefined(T)
    failure = [
        why_no_mode(algebra, jax.tree.map(lambda leaf, s=s: np.asarray(leaf[s]), state.nu)) if failed[s] else None
        for s in range(len(failed))
    ]
    return Points(
        sites=jax.tree.map(np.asarray, sites),
        objective=np.where(stopped, np.nan, records.log_joint),
        criterion=np.where(stopped, np.nan, records.criterion),
        iterations=(~stopped).sum(1),
        converged=(np.asarray(state.done) | (not method.monotone)) & ~failed,
        failure=failure,
        timing=timing(run.run_seconds, run.compile_seconds),
        interrupted=run.interrupted,
        last=Iteration(*(jax.tree.map(np.asarray, each) for each in (sites_at(algebra, task.hyper, state.before), sites)))
        if method.monotone
        else None,
        repeatable=method.monotone,
    )


def _undefined(T: Stats) -> np.ndarray:
    """(start,): whether a parameter is NaN, as is the mode of a block without any observation."""
    leaves = [np.isnan(np.asarray(leaf)) for leaf in jax.tree.leaves(T)]
    return np.stack([leaf.reshape(len(leaf), -1).any(1) for leaf in leaves]).any(0)


def why_no_mode(algebra: Algebra, nu: Stats) -> str:
    """Why q(θ) = nu of one start has no mode, in words."""
    found = (family.why_no_mode(nu[name]) for name, family in algebra.families)
    return next((why for why in found if why), "the objective is not finite; check the scale of the data and the prior")


def _words(record: Record) -> str:
    finite = record.log_joint[~np.asarray(record.failed)]
    return f"log joint {finite.max():.2f}" if len(finite) else "every start has failed"
