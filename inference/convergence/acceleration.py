"""Squared extrapolation of a fixed-point method: SQUAREM (Varadhan and Roland 2008), in the space of nu.

Two plain sweeps lead from nu_0 to nu_1 and nu_2. With r = nu_1 − nu_0 and v = (nu_2 − nu_1) − r, the next point is

    nu' = nu_0 + 2 s r + s² v,    s = ‖r‖ / ‖v‖,                           (their equation 7, step length S3; s = −α)

and s = 1 gives nu_2 back. The space of nu suits every model: nu = prior + statistics is linear in what was counted, so that
counts still sum to the number of rows, a count that is 0 stays 0, and no family needs special coordinates. It is convex and
not all of space, so that a long step may leave it: its parameters are then NaN, and the step is not taken.

The norm is ‖d‖² = < dT, d nu >. As T of nu is a monotone map, by the mean and by the mode, this is not negative for a step; and
no change of units alters it.

A point that is extrapolated is on trial for one sweep. Where the criterion at it is lower than at nu_1, or no number, the
method goes on from nu_2. The criterion of the accepted points therefore never falls. The longest step allowed grows where
trials succeed at it, and shrinks where they fail. Extrapolation begins near the end only, so that a start climbs to the maximum
that plain sweeps lead to.

A step of the method remains one sweep. This file decides between two sweeps from which point the next one starts.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from models.base import Pytree, Stats

FACTOR = 4.0  # by which the longest step allowed grows and shrinks, as in the authors' package
NEAR = 1e-4  # of the weight of all rows plus the rise so far: extrapolation begins where a plain sweep gains less


class Point(NamedTuple):
    """Parameters in both forms: T is the update of nu, for every point that a sweep has reached."""

    T: Stats
    nu: Stats


class Cycle(NamedTuple):
    """The state of the extrapolation of one start, from sweep to sweep."""

    before: Stats  # nu of the point whose sweep led to the present one
    linked: Array  # whether ``before`` is known; not at a start that the user gave as sites
    trial: Array  # whether the present point is extrapolated, and not yet judged
    plain: Point  # where the method goes on if the trial fails
    length: Array  # s of the trial
    longest: Array  # s at most
    log_joint: Array  # at the last accepted point


def begin(at: Point, size: int) -> Cycle:
    """The cycles of ``size`` starts, stacked like the points ``at``."""
    no, one = jnp.zeros(size, bool), jnp.ones(size)
    return Cycle(at.nu, no, no, at, one, one, jnp.full(size, -jnp.inf))


def rejected(cycle: Cycle, stored: Array, criterion: Array, sound: Array) -> Array:
    """Whether the present point is a trial that fails: its ``criterion`` is not ``sound``, or lower than the one ``kept``."""
    return cycle.trial & ~(sound & (criterion >= stored))


def advance(
    cycle: Cycle,
    before: Stats,
    here: Point,
    swept: Point,
    known: Array,
    near: Array,
    fails: Array,
    parameters: Callable[[Mapping[str, Stats]], Stats],
) -> tuple[Point, Stats, Cycle]:
    """Where the next sweep starts: (that point, T of the point before it, the cycle).

    ``here`` is the point of the last sweep, ``swept`` where it led, and ``before`` T of the point that led ``here``. ``known``:
    whether nu of ``here`` is. ``near``: whether sweeps gain so little that steps are nearly linear. ``fails``: `rejected`.
    ``parameters`` is the method's update, nu -> T.
    """
    length = jnp.clip(step_length(Point(before, cycle.before), here, swept), 1.0, cycle.longest)
    nu = jax.tree.map(lambda a, b, c: a + 2 * length * (b - a) + length**2 * (c - 2 * b + a), cycle.before, here.nu, swept.nu)
    tried = Point(parameters(nu), nu)
    wanted = ~cycle.trial & cycle.linked & near
    trial = wanted & (length > 1) & ~has_nan(tried.T)
    following = where(fails, cycle.plain, where(trial, tried, swept))
    short = fails | (wanted & (length > 1) & ~trial)
    long = jnp.where(cycle.trial, ~fails & (cycle.length >= cycle.longest), wanted & (length >= cycle.longest) & (length == 1))
    longest = jnp.where(short, jnp.maximum(cycle.longest / FACTOR, 1.0), jnp.where(long, FACTOR * cycle.longest, cycle.longest))
    after = Cycle(
        before=where(fails, cycle.before, here.nu),
        linked=known,
        trial=trial,
        plain=swept,
        length=length,
        longest=longest,
        log_joint=cycle.log_joint,
    )
    return following, where(fails, before, here.T), after


def step_length(first: Point, second: Point, third: Point) -> Array:
    """‖r‖ / ‖v‖ of three successive points; 1 where that is no number."""
    r, v = _gap(second, first), _gap(third, second)
    v = jax.tree.map(lambda a, b: a - b, v, r)
    ratio = jnp.sqrt(_squared(r) / _squared(v))
    return jnp.where(jnp.isfinite(ratio), ratio, 1.0)


def _gap(later: Point, earlier: Point) -> Point:
    """``later`` − ``earlier``, where −∞ − (−∞) = 0: the logarithm of a probability that stays 0."""
    difference: Point = jax.tree.map(lambda a, b: jnp.where(a == b, 0.0, a - b), later, earlier)
    return difference


def _squared(gap: Point) -> Array:
    """< dT, d nu >."""
    products = jax.tree.map(lambda T, nu: (T * nu).sum(), gap.T, gap.nu)
    return jax.tree.reduce(jnp.add, products)


def at_rest(cycle: Cycle, here: Point) -> Point:
    """Where a run that ends between two sweeps is: ``here``, or, where that is a trial, the point of the last plain sweep."""

    def one(plain: Array, now: Array) -> Array:
        return jnp.where(cycle.trial.reshape(-1, *(1,) * (now.ndim - 1)), plain, now)

    point: Point = jax.tree.map(one, cycle.plain, here)
    return point


def has_nan(tree: Pytree) -> Array:
    """Whether a number of the pytree is NaN."""
    return jnp.stack([jnp.isnan(leaf).any() for leaf in jax.tree.leaves(tree)]).any()


def where(condition: Array, left: Pytree, right: Pytree) -> Pytree:
    """`jnp.where` by leaves."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), left, right)
