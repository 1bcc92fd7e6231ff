"""Rows with parameters of their own (``Algebra.private``), brought to terms with the shared ones by expectations.

Variational inference takes its blocks in any order and climbs: here the rows' own parameters and latents take several turns
for one of the shared parameters. Rows that go on from where the last sweep left them stay in the optima that belonged to
shared parameters of long ago. So they forget theirs and begin anew in every sweep, as long as the bound gains by it much; the
last sweeps go on. A sweep never lets the bound fall: where new rows do not reach it the old ones go on.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from inference.sweep import Local, Verbs, local_step, num_rows
from models.base import Algebra, Hyper, Pytree, Stats, add, at_mean, negative_divergence

ANEW = 10  # turns of rows that begin anew; measured on topics: 5 and 30 take longer to the same bound
ON = 4  # turns of those that go on; measured on topics: 1 takes several times as long
MUCH = 1e-4  # of 1 + |bound|: what a sweep gains as long as rows begin anew


def own_part(algebra: Algebra) -> Algebra:
    """The algebra with its private blocks alone, for verbs on parameters."""
    return algebra._replace(families=tuple(pair for pair in algebra.families if pair[0] in algebra.private))


def shared_part(algebra: Algebra) -> Algebra:
    """The algebra with its other blocks alone."""
    return algebra._replace(families=tuple(pair for pair in algebra.families if pair[0] not in algebra.private))


def own_prior(algebra: Algebra, prior: Mapping[str, Stats], size: int) -> dict[str, Stats]:
    """The prior of the private blocks of ``size`` rows: all are alike."""

    def one(leaf: Array) -> Array:
        return jnp.broadcast_to(jnp.asarray(leaf)[:1], (size, *jnp.shape(leaf)[1:]))

    return {name: jax.tree.map(one, prior[name]) for name in algebra.private}


def favouring_nothing(algebra: Algebra, prior: Mapping[str, Stats]) -> dict[str, Stats]:
    """Nu of the private blocks where no row favours anything: as one observation of each kind."""
    return {name: jax.tree.map(lambda leaf: leaf + 1.0, prior[name]) for name in algebra.private}


def own_update(
    algebra: Algebra, verbs: Verbs, prior: Mapping[str, Stats], key: Array, stats: Mapping[str, Stats]
) -> tuple[dict[str, Stats], dict[str, Stats]]:
    """(T, nu) of the private blocks given statistics of the latents."""
    nu = {name: add(prior[name], stats[name]) for name in algebra.private}
    return verbs.parameters(own_part(algebra), key, nu), nu


def settled(
    algebra: Algebra,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    shared: Mapping[str, Stats],
    rows: Pytree,
    most: int | Array = 100,
    close: float = 1e-3,
    begun: Mapping[str, Stats] | None = None,
) -> tuple[dict[str, Stats], dict[str, Stats]]:
    """(T of all blocks, nu of the private ones): rows at their best q given E[T] of the shared ones.

    They begin at nu = ``begun``, if not at what favours nothing; ``prior`` is `own_prior`. Ends after ``most`` turns, or when
    no nu of a row moved by more than ``close`` on the average.
    """
    if not algebra.private:
        return dict(shared), {}
    begun = favouring_nothing(algebra, prior) if begun is None else dict(begun)
    turns = partial(updates, algebra) if algebra.settle is None else algebra.settle
    one = jax.custom_batching.sequential_vmap(turns)  # starts one after another: side by side each waits for the slowest
    nu = one(hyper, dict(prior), begun, dict(shared), rows, jnp.asarray(most), jnp.asarray(close, float))
    return {**shared, **at_mean(own_part(algebra), jax.random.PRNGKey(0), nu)}, nu


def updates(
    algebra: Algebra,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    begun: Mapping[str, Stats],
    T: Mapping[str, Stats],
    rows: Pytree,
    most: Array,
    close: Array,
) -> dict[str, Stats]:
    """``Algebra.settle`` of any model: all rows at once, until the last of them has settled."""
    part, key, mean = own_part(algebra), jax.random.PRNGKey(0), Verbs(at_mean, "mean")

    def turn(carry: tuple[Array, dict[str, Stats], Array]) -> tuple[Array, dict[str, Stats], Array]:
        index, nu, _ = carry
        local = local_step(algebra, "mean", hyper, key, {**T, **at_mean(part, key, nu)}, rows)
        following = own_update(algebra, mean, prior, key, local.stats)[1]
        return index + 1, following, moved(nu, following).max()

    start = (jnp.zeros((), int), dict(begun), jnp.asarray(jnp.inf))
    return lax.while_loop(lambda carry: (carry[0] < most) & (carry[2] > close), turn, start)[1]


def moved(left: Pytree, right: Pytree) -> Array:
    """(N,): by how much the numbers of a row differ on the average, in the block where that is most."""
    gaps = jax.tree.map(lambda a, b: jnp.abs(a - b).reshape(a.shape[0], -1).mean(1), left, right)
    return jnp.stack(jax.tree.leaves(gaps)).max(0)


def settles(algebra: Algebra, verbs: Verbs) -> bool:
    """Whether a method takes `settling_sweep` for its sweep: variational inference where rows have parameters of their own."""
    return bool(algebra.private) and verbs.latents == "mean" and verbs.parameters is at_mean


class _Attempt(NamedTuple):
    """Rows after their turns in one sweep."""

    anew: Array  # whether they began anew
    taken: Array  # whether that let the bound fall no further than it was
    T: dict[str, Stats]
    own: dict[str, Stats]  # nu of the private blocks
    stats: dict[str, Stats]  # of the shared blocks
    bound: Array


def settling_sweep(
    algebra: Algebra,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    T: Mapping[str, Stats],
    nu: Mapping[str, Stats],
    anew: Array,
    rows: Pytree,
) -> tuple[dict[str, Stats], dict[str, Stats], Local, Array, Array]:
    """(T, nu, what the local step at the entering T brought but its statistics, whether rows begin anew next time as well,
    whether they went on this time).

    Starts side by side run one after another: each has a bound of its own that decides.
    """
    one = jax.custom_batching.sequential_vmap(partial(_settling_sweep, algebra))
    found: tuple[dict[str, Stats], dict[str, Stats], Local, Array, Array] = one(hyper, prior, dict(T), dict(nu), anew, rows)
    return found


def _settling_sweep(
    algebra: Algebra, hyper: Hyper, prior: Any, T: dict[str, Stats], nu: dict[str, Stats], anew: Array, rows: Pytree
) -> tuple[dict[str, Stats], dict[str, Stats], Local, Array, Array]:
    key, shared = jax.random.PRNGKey(0), shared_part(algebra)
    own = own_prior(algebra, prior, num_rows(rows))
    entering = local_step(algebra, "mean", hyper, key, T, rows)._replace(stats={})
    bound = entering.log_partition + negative_divergence(algebra, prior, T, nu)

    def first_turn() -> dict[str, Stats]:
        stats = local_step(algebra, "mean", hyper, key, T, rows).stats
        return own_update(algebra, Verbs(at_mean, "mean"), own, key, stats)[1]

    def attempt(last: _Attempt) -> _Attempt:
        begun = lax.cond(last.anew, lambda: favouring_nothing(algebra, own), first_turn)
        following, private = settled(algebra, hyper, own, T, rows, jnp.where(last.anew, ANEW, ON - 1), begun=begun)
        local = local_step(algebra, "mean", hyper, key, following, rows)
        stats = {name: local.stats[name] for name in theirs}
        reached = local.log_partition + negative_divergence(algebra, prior, following, {**nu, **private})
        taken = ~last.anew | (reached >= bound)
        return _Attempt(last.anew & taken, taken, following, private, stats, reached)

    mine, theirs = ({name: nu[name] for name, _ in part.families} for part in (own_part(algebra), shared))
    start = _Attempt(anew, jnp.zeros((), bool), T, mine, theirs, bound)
    found = lax.while_loop(lambda attempts: ~attempts.taken, attempt, start)
    others = {name: add(prior[name], found.stats[name]) for name in theirs}
    anew = found.anew & (found.bound - bound > MUCH * (1 + jnp.abs(found.bound)))
    return {**found.T, **at_mean(shared, key, others)}, {**found.own, **others}, entering, anew, ~found.anew
