"""One stage of sequential Monte Carlo: the next temperature, weights, resampling, moves.

N particles θ_i stand for the density π_t ∝ γ_t of a path from the prior (t = 0) to the posterior (t = 1). A stage goes from t
to t′ (Del Moral, Doucet and Jasra 2006; Chopin and Papaspiliopoulos 2020, chapter 17):

    t′: the weights w_i = γ_t′(θ_i) / γ_t(θ_i) have an effective size (Σ w)² / Σ w² of a given share of N, or t′ = 1
    log Ẑ(t′) = log Ẑ(t) + log mean w
    N particles are resampled by their weights (systematic resampling), in their order, so that relatives stay neighbours
    each is moved by Markov kernels that leave π_t′ invariant

Every particle keeps the index of the draw from the prior from which it descends. Families show the error: with W_k, the sum of
the normalised weights of the descendants of draw k,

    Var(Ẑ) / Z² ≈ Σ_k (W_k − 1/N)²

(Chan and Lai 2013; Lee and Whiteley 2018 for multinomial resampling). As temperatures and moves depend on particles,
Ẑ is not unbiased, but it is consistent in N (Beskos, Jasra, Kantas and Thiery 2016).
"""

from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import logsumexp

from models.base import Pytree

CLOSE = 1e-3  # of the log effective size to the one wanted


class Path(Protocol):
    """Densities π_t from the prior to the posterior, and Markov kernels that leave them invariant."""

    def log_density(self, arrays: Pytree, particles: Pytree, temperature: Array) -> Array:
        """(N,): log γ_t up to the prior, log γ_t(θ) − log p(θ)."""
        ...

    def moved(
        self, arrays: Pytree, key: Array, particles: Pytree, temperature: Array, log_step: Array, num_moves: int
    ) -> tuple[Pytree, Array, Array]:
        """(particles, log step size, mean probability of acceptance) after ``num_moves`` moves of every particle."""
        ...


class Sampler(NamedTuple):
    """The static half of a run."""

    path: Any  # a `Path`
    num_moves: int
    ess_share: float


class Cloud(NamedTuple):
    """State of one run: its particles, and their history."""

    particles: Pytree  # (N, …)
    ancestor: Array  # (N,): the draw from the prior from which a particle descends
    temperature: Array
    log_evidence: Array  # log Ẑ so far
    variance: Array  # of Ẑ, relative to its square
    log_step: Array  # of moves that have a step size


class Stage(NamedTuple):
    """The record of a stage; a run that has ended repeats its last one."""

    temperature: Array
    log_evidence: Array
    acceptance: Array
    ancestors: Array  # effective number of the draws from the prior that have descendants


def step(sampler: Sampler, arrays: Pytree, key: Array, state: tuple[Cloud, Stage]) -> tuple[tuple[Cloud, Stage], Stage, Array]:
    """One stage of one run; nothing at the posterior, and where no particle has a density."""

    def onwards(state: tuple[Cloud, Stage]) -> tuple[Cloud, Stage]:
        return next_stage(sampler, arrays, key, state[0])

    following = lax.cond(is_on_the_way(state[0]), onwards, lambda state: state, state)
    return following, following[1], ~is_on_the_way(following[0])


def is_on_the_way(cloud: Cloud) -> Array:
    """Whether a run is not at the posterior yet, and some particle may come there."""
    return (cloud.temperature < 1) & jnp.isfinite(cloud.log_evidence)


def next_stage(sampler: Sampler, arrays: Pytree, key: Array, cloud: Cloud) -> tuple[Cloud, Stage]:
    """Temperature, weights, resampling and moves of one stage."""
    from blackjax.smc.resampling import systematic

    key_resampling, key_moves = jax.random.split(key)
    size = len(cloud.ancestor)
    temperature, log_weights = next_temperature(sampler, arrays, cloud.particles, cloud.temperature)
    weights = jax.nn.softmax(log_weights)
    chosen = systematic(key_resampling, weights, size)
    particles, log_step, acceptance = sampler.path.moved(
        arrays,
        key_moves,
        jax.tree.map(lambda leaf: leaf[chosen], cloud.particles),
        temperature,
        cloud.log_step,
        sampler.num_moves,
    )
    following = Cloud(
        particles,
        cloud.ancestor[chosen],
        temperature,
        cloud.log_evidence + logsumexp(log_weights) - jnp.log(size),
        family_variance(cloud.ancestor, weights),
        log_step,
    )
    return following, Stage(temperature, following.log_evidence, acceptance, num_ancestors(following.ancestor))


def next_temperature(sampler: Sampler, arrays: Pytree, particles: Pytree, now: Array) -> tuple[Array, Array]:
    """(t′, log weights (N,)): where their effective size falls to the share wanted, at most 1.

    The first density is the prior itself, so that the first weights are γ_t′ / p(θ).
    """
    from blackjax.smc.ess import log_ess
    from blackjax.smc.solver import dichotomy

    at = partial(sampler.path.log_density, arrays, particles)
    before = jnp.where(now == 0, 0.0, at(now))

    def log_weights(increment: Array) -> Array:
        ratios = at(now + increment) - before
        return jnp.where(jnp.isnan(ratios), -jnp.inf, ratios)

    def surplus(increment: Array) -> Array:
        return log_ess(log_weights(increment)) - jnp.log(sampler.ess_share * len(before))

    left = 1 - now
    found = jnp.nan_to_num(dichotomy(surplus, jnp.zeros_like(now), left, eps=CLOSE))
    # Where many weights are 0 at every t′, no effective size is that large, and the least step leaves these particles behind.
    least = jnp.finfo(now.dtype).eps * (now + jnp.finfo(now.dtype).eps)
    increment = jnp.where(found >= left, left, jnp.maximum(found, least))
    return jnp.where(increment == left, 1.0, now + increment), log_weights(increment)


def families(ancestor: Array, weights: Array) -> Array:
    """(N,): the sum of the weights of the descendants of every draw from the prior."""
    return jnp.zeros_like(weights).at[ancestor].add(weights)


def family_variance(ancestor: Array, weights: Array) -> Array:
    """The variance of Ẑ relative to its square: Σ_k (W_k − 1/N)²."""
    return ((families(ancestor, weights) - 1 / len(weights)) ** 2).sum()


def num_ancestors(ancestor: Array) -> Array:
    """1 / Σ_k (share of the particles that descend from draw k)²."""
    share = jnp.full(len(ancestor), 1 / len(ancestor))
    return 1 / (families(ancestor, share) ** 2).sum()
