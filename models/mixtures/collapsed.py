"""Collapsed sampling of conjugate mixtures: the components of rows, with all parameters integrated out.

With nu(z) = prior + Σ_n statistics(x_n, z_n), and log Z the log partition of the parameters' families,

    p(x, z) ∝ exp(log Z(nu(z)) − log Z(prior)),    p(z_n = k | z without it, x) ∝ exp log Z(nu without n + statistics(x_n, k))

A sweep draws every z_n in turn (Neal 2000, algorithm 3). Then one split-merge move (`reallocated`) draws the rows of two
components anew, together. Single rows cannot leave a partition from which every step is improbable, and the move can.

The move is that of Dahl (2005), sequentially allocated, for a fixed number of components: their rows, in random order, join
one of the two given those before them. As an empty component may take rows and an occupied one may lose all, it splits, merges,
and changes one division of two components into another. Jain and Neal (2004) propose splits by Gibbs scans from a launch
state. With K fixed both components are often occupied, the way back must then start from the same launch state, and two good
divisions are no way from each other. A sequential proposal has no launch state: probable divisions are all probable proposals.

This file reads the statistics and the log partition of the algebra, and does not depend on the kind of the rows.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from models.abilities import Collapsed, Sampler
from models.algebra import add, at_mean, at_sample, inner, log_partition, log_prior
from models.base import Algebra, Hyper, Pytree, Sites, Stats
from models.rows.encoded import Rows


class Chain(NamedTuple):
    """State of one chain; arrays, as in a checkpoint."""

    component: Any  # (N,)
    sweeps: Any  # (): how many there have been
    key: Any  # (2,): of the chain's random numbers


class Table(NamedTuple):
    """The arrays that all chains share."""

    hyper: dict[str, Any]
    prior: dict[str, Stats]
    rows: Rows


# ---------------------------------------------------------------------------------------------------------------------
# One row


def statistics_of(algebra: Algebra, size: int, table: Table, row: Array) -> tuple[Stats, Array]:
    """(statistics of one row in each of the K components, with a leading axis K; (K,): 0 where it is allowed, else −∞)."""
    one = jax.tree.map(lambda leaf: leaf[row][None], table.rows)
    features = algebra.features(table.hyper, one)
    stats = jax.vmap(lambda z: algebra.statistics(weights(one, 1), z[None], features))(jnp.eye(size))
    allowed = jnp.ones(size, bool) if one.allowed_states is None else one.allowed_states[0]
    return stats, jnp.where(allowed, 0.0, -jnp.inf)


def weights(rows: Rows, number: int) -> Array:
    """(N,): how often each of ``number`` rows counts."""
    return jnp.ones(number) if rows.weight is None else rows.weight.astype(float)


def at(stats: Stats, component: Array) -> Stats:
    """The entry of a leading axis K."""
    return jax.tree.map(lambda leaf: leaf[component], stats)


def less(left: Stats, right: Stats) -> Stats:
    """Natural parameters without some statistics."""
    return jax.tree.map(lambda a, b: a - b, left, right)


def given_others(algebra: Algebra, nu: Stats, stats: Stats, allowed: Array) -> Array:
    """(K,): log p(x_n, z_n = k | the rows in ``nu``), up to a number that all components share."""
    without = log_partition(algebra, nu)
    return allowed + jax.vmap(lambda nu_of_row: log_partition(algebra, add(nu, nu_of_row)) - without)(stats)


def total(algebra: Algebra, size: int, table: Table, component: Array, counted: Array) -> Stats:
    """Prior + Σ_n statistics(x_n, z_n) over the rows that are ``counted`` (N,)."""
    weight = weights(table.rows, len(component))
    features = algebra.features(table.hyper, table.rows)
    return add(table.prior, algebra.statistics(weight * counted, jax.nn.one_hot(component, size, dtype=float), features))


# ---------------------------------------------------------------------------------------------------------------------
# A sweep


def swept_rows(algebra: Algebra, size: int, table: Table, key: Array, component: Array) -> Array:
    """Every row's component drawn given those of all others."""

    def one(carry: tuple[Array, Stats], row: Array) -> tuple[tuple[Array, Stats], None]:
        component, nu = carry
        stats, allowed = statistics_of(algebra, size, table, row)
        without = less(nu, at(stats, component[row]))
        logits = given_others(algebra, without, stats, allowed)
        chosen = jax.random.categorical(jax.random.fold_in(key, row), logits)
        return (component.at[row].set(chosen), add(without, at(stats, chosen))), None

    nu = total(algebra, size, table, component, jnp.ones(len(component)))
    return lax.scan(one, (component, nu), jnp.arange(len(component)))[0][0]


class Allocation(NamedTuple):
    """Rows allocated one after another."""

    component: Array  # (N,)
    log_weight: Array  # log p(x, z) − log of the probability that they are allocated so, up to what no allocation changes


def allocated(
    algebra: Algebra, size: int, table: Table, key: Array, order: Array, moving: Array, among: Array, given: Array, keep: Array
) -> Allocation:
    """The ``moving`` rows (N,), in an ``order`` (N,), join components ``among`` (K,), each given the rows before it.

    Other rows keep the components ``given`` (N,). With ``keep`` all rows do, and the weight is that of the given allocation.
    Every row's probability is its part of p(x, z) over a sum: the weight is the product of these sums.
    """

    def one(carry: tuple[Array, Stats, Array], place: Array) -> tuple[tuple[Array, Stats, Array], None]:
        component, nu, log_weight = carry
        row = order[place]
        stats, allowed = statistics_of(algebra, size, table, row)
        logits = jnp.where(among, given_others(algebra, nu, stats, allowed), -jnp.inf)
        drawn = jax.random.categorical(jax.random.fold_in(key, place), logits)
        moves = moving[row]
        chosen = jnp.where(moves & ~keep, drawn, component[row])
        joined = jax.tree.map(lambda leaf: jnp.where(moves, leaf, 0), at(stats, chosen))
        log_weight += jnp.where(moves, jax.nn.logsumexp(logits), 0.0)
        return (component.at[row].set(chosen), add(nu, joined), log_weight), None

    nu = total(algebra, size, table, given, ~moving)
    start = (given, nu, jnp.zeros(()))
    component, _, log_weight = lax.scan(one, start, jnp.arange(len(given)))[0]
    return Allocation(component, log_weight)


def reallocated(algebra: Algebra, size: int, table: Table, key: Array, component: Array) -> Array:
    """The rows of two random components divided anew, accepted with probability min(1, new weight / old weight).

    The weights are p(x, z) over the probability of the proposal, in the same order of the rows, so that this is
    Metropolis-Hastings with an independent proposal.
    """
    key_pair, key_order, key_rows, key_accept = jax.random.split(key, 4)
    pair = jax.random.permutation(key_pair, size)[:2]
    among = jnp.zeros(size, bool).at[pair].set(True)
    order = jax.random.permutation(key_order, len(component))
    allocate = partial(allocated, algebra, size, table, key_rows, order, among[component], among, component)
    proposed, present = allocate(jnp.zeros((), bool)), allocate(jnp.ones((), bool))
    accepted = jnp.log(jax.random.uniform(key_accept)) < proposed.log_weight - present.log_weight
    return jnp.where(accepted, proposed.component, component)


@partial(jax.jit, static_argnames=("algebra", "size"))
def advanced(algebra: Algebra, size: int, table: Table, chain: Chain, number: Array) -> Chain:
    """``number`` sweeps: the rows one by one, then a split-merge move."""

    def sweep(_: Array, chain: Chain) -> Chain:
        key_rows, key_move = jax.random.split(jax.random.fold_in(chain.key, chain.sweeps))
        component = swept_rows(algebra, size, table, key_rows, chain.component)
        if size > 1:
            component = reallocated(algebra, size, table, key_move, component)
        return chain._replace(component=component, sweeps=chain.sweeps + 1)

    return lax.fori_loop(0, number, sweep, chain)


# ---------------------------------------------------------------------------------------------------------------------
# The sampler


@partial(jax.jit, static_argnames=("algebra", "size"))
def initial(algebra: Algebra, size: int, table: Table, key: Array) -> Array:
    """(N,): components to start with, all rows allocated one after another."""
    key_order, key_rows = jax.random.split(key)
    number = len(jax.tree.leaves(table.rows)[0])
    order, everywhere = jax.random.permutation(key_order, number), jnp.ones(size, bool)
    rows, nowhere = jnp.ones(number, bool), jnp.zeros(number, int)
    return allocated(algebra, size, table, key_rows, order, rows, everywhere, nowhere, jnp.zeros((), bool)).component


@partial(jax.jit, static_argnames=("algebra",))
def initial_at(algebra: Algebra, table: Table, key: Array, sites: Sites) -> Array:
    """(N,): components drawn given parameters."""
    local = algebra.local_natural_parameters(algebra.natural(table.hyper, sites))
    return jax.random.categorical(key, local(algebra.features(table.hyper, table.rows)))


@partial(jax.jit, static_argnames=("algebra", "size"))
def log_joint(algebra: Algebra, size: int, table: Table, component: Array) -> Array:
    """Log p(x, z): the families' part, and the part of log p(x, z | θ) without θ, which is the same at every θ."""
    nu = total(algebra, size, table, component, jnp.ones(len(component)))
    T = at_mean(algebra, jax.random.PRNGKey(0), table.prior)
    local = algebra.local_natural_parameters(T)(algebra.features(table.hyper, table.rows))
    energy = algebra.latent.energy(jax.nn.one_hot(component, size, dtype=float), local)
    weight = weights(table.rows, len(component))
    without_parameters = (weight * energy).sum() - inner(T, less(nu, table.prior))
    return log_partition(algebra, nu) - log_partition(algebra, table.prior) + without_parameters


@partial(jax.jit, static_argnames=("algebra", "size"))
def drawn_sites(algebra: Algebra, size: int, table: Table, seed: Array, component: Array) -> tuple[dict[str, Array], Array]:
    """(a draw of the parameters given the components of all rows, its log prior density)."""
    key = jax.random.PRNGKey(seed)
    T = at_sample(algebra, key, total(algebra, size, table, component, jnp.ones(len(component))))
    return algebra.sites(table.hyper, T), log_prior(algebra, table.prior, T)


def sampler(algebra: Algebra, size: int, prior_of: Any, hyper: Hyper, rows: Pytree) -> Sampler:
    """A sampler of given rows; ``prior_of(hyper)`` is the prior as pseudo-statistics. In double precision on any thread."""
    numbers = {name: np.asarray(value, dtype=np.float64) for name, value in hyper.items()}
    table = jax.tree.map(_double, Table(numbers, dict(prior_of(numbers)), rows))

    def start(seed: int, number: int, sites: Sites | None) -> Chain:
        with jax.enable_x64(True):
            key = np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(2, np.uint32)
            first = jax.random.fold_in(key, 2**31 - 1)
            given = None if sites is None else {name: _double(value) for name, value in sites.items()}
            result = initial(algebra, size, table, first) if given is None else initial_at(algebra, table, first, given)
            return Chain(np.asarray(result, np.int64), np.zeros((), np.int64), key)

    def advance(chain: Chain, sweeps: int) -> Chain:
        with jax.enable_x64(True):
            result = advanced(algebra, size, table, Chain(*map(np.asarray, chain)), np.int64(sweeps))
            return Chain(*map(np.asarray, result))

    def density(chain: Chain) -> float:
        with jax.enable_x64(True):
            return float(log_joint(algebra, size, table, np.asarray(chain.component)))

    def sites(rng: np.random.Generator, chain: Chain) -> tuple[dict[str, np.ndarray], float]:
        with jax.enable_x64(True):
            seed = rng.integers(2**31)
            result, at_draw = drawn_sites(algebra, size, table, seed, np.asarray(chain.component))
            return {name: np.asarray(value) for name, value in result.items()}, float(at_draw)

    return Sampler(start, advance, density, latents=lambda chain: np.asarray(chain.component), sites=sites)


def _double(leaf: Any) -> np.ndarray:
    """An array on the host, numbers in double precision."""
    host = np.asarray(leaf)
    return host.astype(np.float64) if np.issubdtype(host.dtype, np.floating) else host


def with_collapsed(algebra: Algebra, size: int, prior_of: Any) -> Algebra:
    """The algebra of a mixture of ``size`` components with collapsed sampling, where its parameters integrate out.

    They do under a proper prior, if a row has no latent but its component, and all blocks are conjugate at once.
    ``prior_of(hyper)`` is the prior as pseudo-statistics.
    """
    structure = algebra.structure
    if not algebra.proper or not algebra.latent.enumerable or structure.coupling is not None or structure.cycle:
        return algebra
    collapsed = Collapsed(sampler=partial(sampler, algebra, size, prior_of), prior=lambda hyper, like: dict(prior_of(hyper)))
    return algebra._replace(structure=structure._replace(collapsed=collapsed))
