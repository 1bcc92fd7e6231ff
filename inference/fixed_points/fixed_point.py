"""Fixed-point methods: the state of a start, its update by a sweep, and its end."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.convergence.acceleration import NEAR, Cycle, Point, advance, at_rest, begin, has_nan, rejected, where
from inference.engine.driver import Run
from inference.engine.initialise import num_starts, sites_at, start_states
from inference.engine.sweep import Local, Updates
from inference.engine.task import Points, Task, timing
from inference.fixed_points.local_ascent import uses_local_ascent
from models.algebra import log_prior, negative_divergence
from models.base import Algebra, Iteration, Pytree, Stats, on_host

ROUNDING = 1e-13


class FixedPoint(NamedTuple):
    """A fixed-point method: its updates and its objective."""

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
    warm_started: Array  # whether the last sweep did not, so that its gain measures the distance to the end
    first: Array  # the first finite criterion
    criterion: Array
    done: Array
    failed: Array
    best_point: Stats
    best: Array  # log joint at best_point, for methods that are not monotone
    cycle: Cycle | None = None  # of an accelerated method


class Record(NamedTuple):
    log_joint: Array
    criterion: Array
    done: Array
    failed: Array


class SweepResult(NamedTuple):
    """The result of a sweep: the next parameters, the local step at the entering ones, and whether local parameters restart."""

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
    unsound = has_nan(state.T) | jnp.isnan(log_joint) | (log_joint == jnp.inf)  # has_nan: also of parameters that no row reads
    fails, trial = jnp.zeros((), bool), jnp.zeros((), bool)
    if state.cycle is not None:
        trial, fails = state.cycle.trial, rejected(state.cycle, state.criterion, criterion, ~unsound)
        criterion = jnp.where(fails, state.criterion, criterion)
        log_joint = jnp.where(fails, state.cycle.log_joint, log_joint)
    failed = state.failed | (unsound & ~fails)
    first = jnp.where(jnp.isfinite(state.first), state.first, criterion)
    gain, risen = criterion - state.criterion, criterion - first
    # Only the gain of a plain sweep measures the distance to the end.
    may_end = (tol > 0) & method.monotone & state.warm_started & ~trial
    settled = may_end & (gain < threshold(tol, size, risen))
    settled |= may_end & _equal(swept.T, state.T)  # a fixed point, as where all latents are observed
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
    """Log p(x, z, θ) at the hard z: the objective of hard EM."""
    return local.energy + log_prior(algebra, prior, state.T)


def log_joint(algebra: Algebra, prior: Mapping[str, Stats], state: Climb, local: Local) -> Array:
    """Log p(x, θ), latents summed out: the objective of EM."""
    return local.log_partition + log_prior(algebra, prior, state.T)


def elbo(algebra: Algebra, prior: Mapping[str, Stats], state: Climb, local: Local) -> Array:
    """Evidence lower bound at q(θ) = nu and the optimal q(z); −inf while q(θ) is not known (a start given as sites)."""
    bound = local.log_partition + negative_divergence(algebra, prior, state.T, state.nu)
    return jnp.where(state.known, bound, -jnp.inf)


def states_at_rest(state: Climb) -> Climb:
    """The states at the end of a run: the point of the last plain sweep replaces a point on trial."""
    if state.cycle is None:
        return state
    T, nu = at_rest(state.cycle, Point(state.T, state.nu))
    return state._replace(T=T, nu=nu)


def initial(task: Task, algebra: Algebra, method: FixedPoint, wanted: int) -> Climb:
    """States of all starts: seeded, or one at the sites given."""
    size = num_starts(task, wanted)
    T, nu, known = start_states(task, algebra, method.updates.parameters, size)
    return states_at(algebra, method, T, nu, known, size)


def states_at(algebra: Algebra, method: FixedPoint, T: Stats, nu: Stats, known: bool, size: int) -> Climb:
    lowest, no = on_host(np.full(size, -np.inf, jnp.result_type(float))), on_host(np.zeros(size, bool))
    restart = known and uses_local_ascent(algebra, method.updates)  # local parameters restart where the user gave the start
    knows, begins, goes_on = (on_host(np.full(size, value)) for value in (known, restart, not restart))
    cycle = begin(Point(T, nu), size) if method.accelerate else None
    return Climb(T, T, nu, knows, begins, goes_on, lowest, lowest, no, no, T, lowest, cycle)


def points(task: Task, algebra: Algebra, method: FixedPoint, run: Run) -> Points:
    """The outcome of a run: traces end where a start stopped, and failures are in words."""
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
        last=Iteration(*(jax.tree.map(np.asarray, point) for point in (sites_at(algebra, task.hyper, state.before), sites)))
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
    reasons = (family.why_no_mode(nu[name]) for name, family in algebra.families)
    return next((why for why in reasons if why), "the objective is not finite; check the scale of the data and the prior")
