"""Paths of densities from the prior to the posterior, with Markov kernels that leave them invariant.

The path of a program, latents summed out, on ℝᵈ:

    γ_t(θ) = p(θ) p(x | θ)^t

p(θ) is the density of draws from the prior; the rest of the program's density, factors among it, is tempered
(`inference.engine.program.prior_and_rest`). The moves are Hamiltonian Monte Carlo or independent Metropolis.

The path of the sweeps of a conjugate model, p(θ) p(x, z | θ)^t, tempers the latents, too. Summed over them it is

    γ_t(θ) = p(θ) Π_n Σ_z p(x_n, z | θ)^t

and the weights are ratios of these sums, so that no draw of z makes them vary. It is p(θ) p(x | θ) at t = 1, as on the first
path, and p(θ) times the number of values of the latents at t → 0. The moves are `inference.engine.sweep.tempered_sweep`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.engine.program import draw_of_prior, prior_and_rest, unravel
from inference.engine.sweep import block_map, block_size, num_rows, tempered_log_partition, tempered_sweep
from inference.unconstrained.density import Density, bounded
from models.base import Algebra, Pytree, Stats

ENTRIES = 2**20  # of the data, times the number of particles that are moved side by side
TARGET = 0.8  # mean acceptance probability of Hamiltonian moves (Beskos et al. 2013: 0.65 at least)
TURN = np.pi / 2  # time after which a trajectory in a Gaussian has forgotten where it started
LONGEST = 64  # leapfrog steps
JITTER = 1e-9  # of the variances: the covariance of few particles is singular


class GibbsPath(NamedTuple):
    """The path of a model with conjugate conditionals; particles are T (N, …), arrays (hyper, prior, rows)."""

    algebra: Algebra
    together: int  # particles that are moved side by side

    def log_density(self, arrays: Pytree, particles: Stats, temperature: Array) -> Array:
        """(N,): Σ_n log Σ_z p(x_n, z | θ)^t."""
        hyper, _, rows = arrays

        def one(T: Stats) -> Array:
            return tempered_log_partition(self.algebra, hyper, temperature, T, rows)

        return block_map(jax.vmap(one), particles, self.together)

    def moved(
        self, arrays: Pytree, key: Array, particles: Stats, temperature: Array, log_step: Array, num_moves: int
    ) -> tuple[Stats, Array, Array]:
        """``num_moves`` tempered sweeps, which are never rejected."""
        hyper, prior, rows = arrays

        def one(keyed: tuple[Array, Stats]) -> Stats:
            def sweep(T: Stats, key: Array) -> tuple[Stats, None]:
                return tempered_sweep(self.algebra, hyper, prior, temperature, key, T, rows)[0], None

            key, T = keyed
            return jax.lax.scan(sweep, T, jax.random.split(key, num_moves))[0]

        keys = jax.random.split(key, num_rows(particles))
        return block_map(jax.vmap(one), (keys, particles), self.together), log_step, jnp.ones_like(log_step)


class Points(NamedTuple):
    """Particles on ℝᵈ, with the two parts of their log density."""

    z: Array  # (N, d)
    log_prior: Array  # (N,)
    log_rest: Array  # (N,)


class ProgramPath(NamedTuple):
    """The path of a program; particles are `Points`, arrays (hyper, rows)."""

    density: Density
    moves: str  # hmc or independent
    together: int  # particles that are moved side by side

    def points(self, arrays: Pytree, z: Array) -> Points:
        """Vectors (N, d) with both parts of their log density, the rest −∞ where it is no number."""

        def one(flat: Array) -> Points:
            prior, rest = prior_and_rest(self.density.spec, *arrays, unravel(self.density.shapes, flat))
            return Points(flat, prior, jnp.where(jnp.isnan(rest + prior), -jnp.inf, rest))

        return block_map(jax.vmap(one), z, self.together)

    def log_density(self, arrays: Pytree, particles: Points, temperature: Array) -> Array:
        """(N,): t log p(x | θ)."""
        return jnp.where(temperature == 0, 0.0, temperature * particles.log_rest)

    def moved(
        self, arrays: Pytree, key: Array, particles: Points, temperature: Array, log_step: Array, num_moves: int
    ) -> tuple[Points, Array, Array]:
        """``num_moves`` moves of BlackJAX's kernel, whose scales come from the particles."""

        def energy(flat: Array) -> Array:
            prior, rest = prior_and_rest(self.density.spec, *arrays, unravel(self.density.shapes, flat))
            return -(prior + temperature * rest)

        kernel = hamiltonian_moves if self.moves == "hmc" else independent_moves
        log_density = bounded(energy)
        z, log_step, acceptance = kernel(lambda flat: -log_density(flat), key, particles.z, log_step, num_moves, self.together)
        return self.points(arrays, z), log_step, acceptance


def hamiltonian_moves(
    log_density: Callable[[Array], Array], key: Array, z: Array, log_step: Array, num_moves: int, together: int
) -> tuple[Array, Array, Array]:
    """(z (N, d), log step size, mean acceptance) after moves of Hamiltonian Monte Carlo (Neal 2011).

    The metric is diagonal, the variances of the particles. A move has a random number of leapfrog steps, the same for all
    particles, of a time up to `TURN`. After every move the step size follows the mean acceptance of all particles to `TARGET`.
    """
    from blackjax.mcmc import hmc

    kernel, variances = hmc.build_kernel(), z.var(0)
    metric = jnp.where(variances > 0, variances, 1.0)

    def move(carry: tuple[Any, Array], key: Array) -> tuple[tuple[Any, Array], Array]:
        states, log_step = carry
        key_length, key_moves = jax.random.split(key)
        step_size = jnp.exp(log_step)
        most = jnp.clip(jnp.ceil(TURN / step_size), 1, LONGEST).astype(int)
        length = jax.random.randint(key_length, (), 1, most + 1)

        def one(keyed: tuple[Array, Any]) -> tuple[Any, Array]:
            state, info = kernel(*keyed, log_density, step_size, metric, length)
            return state, info.acceptance_rate

        keys = jax.random.split(key_moves, len(z))
        states, acceptance = block_map(jax.vmap(one), (keys, states), together)
        return (states, log_step + acceptance.mean() - TARGET), acceptance.mean()

    states = block_map(jax.vmap(lambda flat: hmc.init(flat, log_density)), z, together)
    (states, log_step), acceptance = jax.lax.scan(move, (states, log_step), jax.random.split(key, num_moves))
    return states.position, log_step, acceptance.mean()


def independent_moves(
    log_density: Callable[[Array], Array], key: Array, z: Array, log_step: Array, num_moves: int, together: int
) -> tuple[Array, Array, Array]:
    """(z (N, d), log step size as it was, mean acceptance) after independent Metropolis moves.

    Proposals come from the Gaussian with the mean and the covariance of the particles (Chopin 2002).
    """
    from blackjax.mcmc import random_walk

    mean, covariance = z.mean(0), jnp.atleast_2d(jnp.cov(z, rowvar=False))
    floor = jnp.where(jnp.diag(covariance) > 0, JITTER * jnp.diag(covariance), JITTER)
    root = jnp.linalg.cholesky(covariance + jnp.diag(floor))
    kernel = random_walk.build_irmh()

    def proposal(key: Array) -> Array:
        return mean + root @ jax.random.normal(key, mean.shape, mean.dtype)

    def log_proposal(before: Any, after: Any) -> Array:
        return -0.5 * (jax.scipy.linalg.solve_triangular(root, after.position - mean, lower=True) ** 2).sum()

    def move(states: Any, key: Array) -> tuple[Any, Array]:
        def one(keyed: tuple[Array, Any]) -> tuple[Any, Array]:
            state, info = kernel(*keyed, log_density, proposal, log_proposal)
            return state, info.acceptance_rate

        states, acceptance = block_map(jax.vmap(one), (jax.random.split(key, len(z)), states), together)
        return states, acceptance.mean()

    states = block_map(jax.vmap(lambda flat: random_walk.init(flat, log_density)), z, together)
    states, acceptance = jax.lax.scan(move, states, jax.random.split(key, num_moves))
    return states.position, log_step, acceptance.mean()


def prior_vectors(density: Density, arrays: Pytree, keys: Array) -> Array:
    """(N, d): draws from the prior of a program on ℝᵈ, one per key.

    A number that is infinite there, as the logarithm of one that has underflowed to 0, becomes that of the smallest number.
    """
    hyper, rows = arrays

    def one(key: Array) -> Array:
        z = draw_of_prior(density.spec, hyper, rows, key)
        return jnp.concatenate([z[name].reshape(-1) for name, _ in density.shapes])

    drawn = jax.vmap(one)(keys)
    return jnp.where(jnp.isinf(drawn), jnp.sign(drawn) * -np.log(np.finfo(drawn.dtype).tiny), drawn)


def side_by_side(rows: Pytree, num_particles: int, in_blocks: bool) -> int:
    """The number of particles that are moved side by side, by the size of the data, or of a block of it with ``in_blocks``."""
    leaves = [leaf for leaf in jax.tree.leaves(rows) if np.ndim(leaf)]
    entries = sum(np.size(leaf) // (max(1, len(leaf) // block_size()) if in_blocks else 1) for leaf in leaves)
    return int(np.clip(ENTRIES // max(entries, 1), 1, num_particles))
