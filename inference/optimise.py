"""Fixed-point methods: several starts of one sweep, run until each has converged or found that it has no mode."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.chains import Run, drive
from inference.outcome import Points, Task
from inference.settle import settles, settling_sweep
from inference.start import finite_latents, num_starts, sites_of, start_states
from inference.sweep import Local, Verbs, sweep
from models.base import Algebra, Pytree, Stats, ZooError, log_prior, negative_divergence, on_host

ROUNDING = 1e-13


class FixedPoint(NamedTuple):
    """A fixed-point method: its verbs and what it climbs."""

    verbs: Verbs
    criterion: Callable[[Algebra, Mapping[str, Stats], "Climb", Local], Array]  # (algebra, prior, state, local) -> scalar
    monotone: bool = True  # stop when the criterion gains too little; otherwise run all iterations and keep the best


class Climb(NamedTuple):
    """State of one start."""

    T: Stats
    nu: Stats
    known: Array  # whether nu is the one that T came from (not at a start that the user gave as sites)
    anew: Array  # whether rows with parameters of their own forget these before the next sweep (`inference.settle`)
    went_on: Array  # whether the last sweep began where it was, so that what it gained says how near the end is
    criterion: Array
    done: Array
    failed: Array
    best_point: Stats
    best: Array  # log joint at best_point; followed by methods that are not monotone


class Record(NamedTuple):
    log_joint: Array
    criterion: Array
    done: Array
    failed: Array


def step(static: tuple[Algebra, FixedPoint], arrays: tuple[Any, ...], key: Array, state: Climb) -> tuple[Climb, Record, Array]:
    """One sweep of one start; a start that is done stays as it is."""
    algebra, method = static
    hyper, prior, rows, tol = arrays
    if settles(algebra, method.verbs):
        T, nu, local, anew, went_on = settling_sweep(algebra, hyper, prior, state.T, state.nu, state.anew, rows)
    else:
        T, nu, local = sweep(algebra, method.verbs, hyper, prior, key, state.T, rows)
        anew, went_on = state.anew, state.went_on
    log_joint = local.log_partition + log_prior(algebra, prior, state.T)
    criterion = method.criterion(algebra, prior, state, local)
    failed = state.failed | jnp.isnan(log_joint) | (log_joint == jnp.inf)
    settled = (tol > 0) & method.monotone & state.went_on & (criterion - state.criterion < tol * (1 + jnp.abs(criterion)))
    settled |= (
        (tol > 0) & method.monotone & state.went_on & _equal(T, state.T)
    )  # a fixed point, as where all latents are observed
    done = state.done | failed | settled
    better = ~done & (log_joint > state.best)
    following = Climb(
        T=_where(done, state.T, T),
        nu=_where(done, state.nu, nu),
        known=state.known | ~done,
        anew=jnp.where(done, state.anew, anew),
        went_on=jnp.where(done, state.went_on, went_on),
        criterion=jnp.where(state.done, state.criterion, criterion),
        done=done,
        failed=failed,
        best_point=state.best_point if method.monotone else _where(better, state.T, state.best_point),
        best=jnp.where(better, log_joint, state.best),
    )
    return following, Record(log_joint, criterion, state.done, failed), done


def _equal(left: Pytree, right: Pytree) -> Array:
    """Whether two pytrees are the same but for rounding, relative to the largest number of each leaf."""

    def same(a: Array, b: Array) -> Array:
        gap = jnp.where(a == b, 0.0, jnp.abs(a - b))
        return (gap <= ROUNDING * jnp.max(jnp.where(jnp.isfinite(b), jnp.abs(b), 0.0))).all()

    return jnp.stack([same(a, b) for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)]).all()


def _where(condition: Array, left: Pytree, right: Pytree) -> Pytree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), left, right)


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
    refuses: Callable[[Algebra], str | None] | None = None,
) -> tuple[Points, Climb]:
    """At most ``wanted`` starts to their fixed points: (points, their final states)."""
    algebra = require_algebra(task, refuses)
    if method.verbs.latents == "sample" and task.model.condense is not None:  # weights may stand for very many rows
        require_single_rows(task, algebra)
    state = initial(task, algebra, method, wanted)
    rows = task.condensed if method.verbs.latents == "mean" else task.rows
    arrays = (task.hyper, task.prior, rows, jnp.asarray(tol, float))
    run = drive(step, (algebra, method), arrays, task.key, state, max_iter, task.reporter, "iterating", describe=_describe)
    return points(task, algebra, method, run), run.state


def require_algebra(task: Task, refuses: Callable[[Algebra], str | None] | None = None) -> Algebra:
    """The model's algebra, or a `ZooError` for a program-only model and for an algebra that the method ``refuses``."""
    if task.model.algebra is None:
        raise ZooError(
            f"{task.model.name} is a NumPyro program without the algebra that this method needs; use method=map, laplace "
            "or nuts"
        )
    if refuses is not None and (why := refuses(task.model.algebra)) is not None:
        raise ZooError(f"{task.model.name}: {why}")
    return task.model.algebra


def require_proper(task: Task) -> None:
    """A `ZooError` where the prior is flat and the method needs a proper posterior."""
    if task.model.algebra is not None and not task.model.algebra.proper:
        raise ZooError(
            "prior=flat makes no proper posterior (the likelihood of a mixture, for one, is unbounded); use method=em or map, "
            "or prior=default"
        )


def require_single_rows(task: Task, algebra: Algebra) -> None:
    """A `ZooError` where a row whose latent is drawn or summed over weighs neither 0 nor 1.

    A row of weight 2 is two rows, each with a latent of its own; one latent counted twice is another posterior.
    """
    if task.moments:
        raise ZooError("a covariance is no rows, and this method has one latent a row; use nuts, em or cavi instead")
    weight, allowed = (getattr(task.rows, name, None) for name in ("weight", "allowed"))
    if weight is None:
        return
    several = ~np.isin(np.asarray(weight), (0, 1))
    if allowed is not None and finite_latents(algebra, task.hyper, task.prior, task.rows):
        several &= np.asarray(allowed).sum(-1) > 1
    if several.any():
        raise ZooError(
            f"row {np.flatnonzero(several)[0] + 1} of the data weighs {float(weight[np.flatnonzero(several)[0]]):g}, but this "
            "method has one latent a row; repeat the rows, or use nuts, em or cavi, which take weights as they are"
        )


def initial(task: Task, algebra: Algebra, method: FixedPoint, wanted: int) -> Climb:
    """States of all starts: seeded, or one at the sites given."""
    size = num_starts(task, wanted)
    T, nu, known = start_states(task, algebra, method.verbs.parameters, size)
    lowest, no = on_host(np.full(size, -np.inf, jnp.result_type(float))), on_host(np.zeros(size, bool))
    anew = known and settles(algebra, method.verbs)  # a start that somebody gave is where rows are to begin
    knows, begins, goes_on = (on_host(np.full(size, value)) for value in (known, anew, not anew))
    return Climb(T, nu, knows, begins, goes_on, lowest, no, no, T, lowest)


def points(task: Task, algebra: Algebra, method: FixedPoint, run: Run) -> Points:
    """The driver's run as an outcome: traces cut where a start stopped, failures put into words."""
    state, records = run.state, run.records
    T = state.T if method.monotone else state.best_point
    sites = sites_of(algebra, task.hyper, T)
    longest = max(1, int((~np.asarray(records.done)).sum(1).max()))  # the driver may go on to the end of its chunk
    records = jax.tree.map(lambda leaf: leaf[:, :longest], records)
    stopped = np.asarray(records.done)
    failed = np.asarray(state.failed)
    failure = [
        _reason(algebra, jax.tree.map(lambda leaf, s=s: np.asarray(leaf[s]), state.nu)) if failed[s] else None
        for s in range(len(failed))
    ]
    return Points(
        sites=jax.tree.map(np.asarray, sites),
        objective=np.where(stopped, np.nan, records.log_joint),
        criterion=np.where(stopped, np.nan, records.criterion),
        iterations=(~stopped).sum(1),
        converged=(np.asarray(state.done) | (not method.monotone)) & ~failed,
        failure=failure,
        timing={"compile_seconds": run.compile_seconds, "warmup_seconds": 0.0, "run_seconds": run.run_seconds},
        interrupted=run.interrupted,
    )


def _reason(algebra: Algebra, nu: Stats) -> str:
    found = (family.defect(nu[name]) for name, family in algebra.families)
    return next((why for why in found if why), "the objective is not finite; check the scale of the data and the prior")


def _describe(record: Record) -> str:
    finite = record.log_joint[~np.asarray(record.failed)]
    return f"log joint {finite.max():.2f}" if len(finite) else "every start has failed"
