"""Local parameters, one set per row (``Structure.local``): inner CAVI updates of these, the shared parameters fixed.

Coordinate ascent may update its blocks in any order. Here the local parameters and the latents are updated several times for
each update of the shared parameters. Local parameters that continue from the last sweep stay in optima that belonged to much
earlier shared parameters. They are therefore restarted in every sweep, as long as that gains much; the last sweeps continue.
A sweep never lowers the bound: where restarted rows do not reach it, the sweep continues from the old ones.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from inference.engine.sweep import Local, Updates, local_step, num_rows
from models.algebra import add, at_mean, negative_divergence
from models.base import Algebra, Hyper, Pytree, Stats

RESTART_STEPS = 10  # updates of restarted rows; measured on topics: 5 and 30 take longer to the same bound
WARM_STEPS = 4  # updates of rows that continue; measured on topics: 1 takes several times as long
MIN_GAIN = 1e-4  # of 1 + |bound|: rows are restarted as long as a sweep gains more


def local_part(algebra: Algebra) -> Algebra:
    """The algebra with its local blocks alone, for updates on parameters."""
    return algebra._replace(families=tuple(pair for pair in algebra.families if pair[0] in algebra.structure.local))


def shared_part(algebra: Algebra) -> Algebra:
    """The algebra with its shared blocks alone."""
    return algebra._replace(families=tuple(pair for pair in algebra.families if pair[0] not in algebra.structure.local))


def local_prior(algebra: Algebra, prior: Mapping[str, Stats], size: int) -> dict[str, Stats]:
    """The prior of the local blocks of ``size`` rows, which is the same for all rows."""

    def one(leaf: Array) -> Array:
        return jnp.broadcast_to(jnp.asarray(leaf)[:1], (size, *jnp.shape(leaf)[1:]))

    return {name: jax.tree.map(one, prior[name]) for name in algebra.structure.local}


def uniform_nu(algebra: Algebra, prior: Mapping[str, Stats]) -> dict[str, Stats]:
    """A uniform nu of the local blocks: the prior and one observation of each kind."""
    return {name: jax.tree.map(lambda leaf: leaf + 1.0, prior[name]) for name in algebra.structure.local}


def local_update(
    algebra: Algebra, updates: Updates, prior: Mapping[str, Stats], key: Array, stats: Mapping[str, Stats]
) -> tuple[dict[str, Stats], dict[str, Stats]]:
    """(T, nu) of the local blocks given statistics of the latents."""
    nu = {name: add(prior[name], stats[name]) for name in algebra.structure.local}
    return updates.parameters(local_part(algebra), key, nu), nu


def local_ascent(
    algebra: Algebra,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    shared: Mapping[str, Stats],
    rows: Pytree,
    most: int | Array = 100,
    close: float = 1e-3,
    first: Mapping[str, Stats] | None = None,
) -> tuple[dict[str, Stats], dict[str, Stats]]:
    """(T of all blocks, nu of the local ones): the best q of the local blocks given E[T] of the shared ones.

    Starts at nu = ``first``, or at `uniform_nu`; ``prior`` is `local_prior`. Ends after ``most`` updates, or when no row's nu
    moved by more than ``close`` on average.
    """
    if not algebra.structure.local:
        return dict(shared), {}
    first = uniform_nu(algebra, prior) if first is None else dict(first)
    ascend = partial(updates, algebra) if algebra.structure.ascend is None else algebra.structure.ascend
    one = jax.custom_batching.sequential_vmap(ascend)  # one start after another: in lockstep all would wait for the slowest
    nu = one(hyper, dict(prior), first, dict(shared), rows, jnp.asarray(most), jnp.asarray(close, float))
    return {**shared, **at_mean(local_part(algebra), jax.random.PRNGKey(0), nu)}, nu


def updates(
    algebra: Algebra,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    first: Mapping[str, Stats],
    T: Mapping[str, Stats],
    rows: Pytree,
    most: Array,
    close: Array,
) -> dict[str, Stats]:
    """``Structure.ascend`` for any model: all rows at once, until the last of them has converged."""
    part, key, mean = local_part(algebra), jax.random.PRNGKey(0), Updates(at_mean, "mean")

    def turn(carry: tuple[Array, dict[str, Stats], Array]) -> tuple[Array, dict[str, Stats], Array]:
        index, nu, _ = carry
        local = local_step(algebra, "mean", hyper, key, {**T, **at_mean(part, key, nu)}, rows)
        following = local_update(algebra, mean, prior, key, local.stats)[1]
        return index + 1, following, moved(nu, following).max()

    start = (jnp.zeros((), int), dict(first), jnp.asarray(jnp.inf))
    return lax.while_loop(lambda carry: (carry[0] < most) & (carry[2] > close), turn, start)[1]


def moved(left: Pytree, right: Pytree) -> Array:
    """(N,): the mean absolute difference of a row's numbers, in the block where that is largest."""
    gaps = jax.tree.map(lambda a, b: jnp.abs(a - b).reshape(a.shape[0], -1).mean(1), left, right)
    return jnp.stack(jax.tree.leaves(gaps)).max(0)


def uses_local_ascent(algebra: Algebra, updates: Updates) -> bool:
    """Whether a method sweeps by `ascent_sweep`: variational inference of a model with local parameters."""
    return bool(algebra.structure.local) and updates.latents == "mean" and updates.parameters is at_mean


class _Attempt(NamedTuple):
    """Local parameters after their updates in one sweep."""

    restart: Array  # whether they were restarted
    taken: Array  # whether the bound did not fall
    T: dict[str, Stats]
    nu: dict[str, Stats]  # of the local blocks
    stats: dict[str, Stats]  # of the shared blocks
    bound: Array


def ascent_sweep(
    algebra: Algebra,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    T: Mapping[str, Stats],
    nu: Mapping[str, Stats],
    restart: Array,
    rows: Pytree,
) -> tuple[dict[str, Stats], dict[str, Stats], Local, Array, Array]:
    """One sweep: (T, nu, local step at the entering T without statistics, whether to restart next time, whether it continued).

    Several starts run one after another, because each decides by its bound.
    """
    one = jax.custom_batching.sequential_vmap(partial(_ascent_sweep, algebra))
    swept: tuple[dict[str, Stats], dict[str, Stats], Local, Array, Array] = one(hyper, prior, dict(T), dict(nu), restart, rows)
    return swept


def _ascent_sweep(
    algebra: Algebra, hyper: Hyper, prior: Any, T: dict[str, Stats], nu: dict[str, Stats], restart: Array, rows: Pytree
) -> tuple[dict[str, Stats], dict[str, Stats], Local, Array, Array]:
    key, shared = jax.random.PRNGKey(0), shared_part(algebra)
    prior_of_rows = local_prior(algebra, prior, num_rows(rows))
    entering = local_step(algebra, "mean", hyper, key, T, rows)._replace(stats={})
    bound = entering.log_partition + negative_divergence(algebra, prior, T, nu)

    def first_turn() -> dict[str, Stats]:
        stats = local_step(algebra, "mean", hyper, key, T, rows).stats
        return local_update(algebra, Updates(at_mean, "mean"), prior_of_rows, key, stats)[1]

    def attempt(last: _Attempt) -> _Attempt:
        first = lax.cond(last.restart, lambda: uniform_nu(algebra, prior_of_rows), first_turn)
        following, local_nu = local_ascent(
            algebra, hyper, prior_of_rows, T, rows, jnp.where(last.restart, RESTART_STEPS, WARM_STEPS - 1), first=first
        )
        local = local_step(algebra, "mean", hyper, key, following, rows)
        stats = {name: local.stats[name] for name in shared_nu}
        reached = local.log_partition + negative_divergence(algebra, prior, following, {**nu, **local_nu})
        taken = ~last.restart | (reached >= bound)
        return _Attempt(last.restart & taken, taken, following, local_nu, stats, reached)

    nu_of_rows, shared_nu = ({name: nu[name] for name, _ in part.families} for part in (local_part(algebra), shared))
    start = _Attempt(restart, jnp.zeros((), bool), T, nu_of_rows, shared_nu, bound)
    final = lax.while_loop(lambda attempts: ~attempts.taken, attempt, start)
    others = {name: add(prior[name], final.stats[name]) for name in shared_nu}
    restart = final.restart & (final.bound - bound > MIN_GAIN * (1 + jnp.abs(final.bound)))
    return {**final.T, **at_mean(shared, key, others)}, {**final.nu, **others}, entering, restart, ~final.restart
