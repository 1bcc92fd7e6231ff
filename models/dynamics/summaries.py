"""Sequences of factors: rotation-invariant summaries, missing cells, simulated sequences."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from models.abilities import Expected
from models.base import Algebra, Hyper, Sites
from models.chains.sequences import Timed
from models.factors import summaries
from models.latents.gaussian_path import Paths, steps_within
from models.rows.masks import observation

TRANSITION = "transition"


def functionals(hyper: Hyper, sites: Sites, latents: Any) -> dict[str, Array]:
    """Rotation-invariant summaries: those of factor analysis, of the innovations of one step, and ``modulus``, the absolute
    eigenvalues of the transition: below 1 the factors are stationary.
    """
    modulus = jnp.abs(jnp.linalg.eigvals(jnp.asarray(sites[TRANSITION])))
    return summaries.functionals(hyper, sites, latents) | {"modulus": -jnp.sort(-modulus)}


def cells_of(rows: Timed) -> Array:
    """(N, T, D): the cells, NaN where missing; 0 after the end of a sequence."""
    x = observation(rows.x)
    return jnp.where(steps_within(jnp.asarray(rows.length), x.shape[1])[..., None], x, 0.0)


def _paths_at(algebra: Algebra, hyper: Hyper, sites: Sites, rows: Timed) -> Paths:
    found: Paths = algebra.local_natural_parameters(algebra.natural(hyper, sites))(algebra.features(hyper, rows))
    return found


def completed(algebra: Algebra, key: Array, hyper: Hyper, sites: Sites, rows: Timed) -> Array:
    """(N, T, D): sequences with missing cells drawn: first the factors given observed cells, then the cells given these."""
    key_z, key_x = jax.random.split(key)
    z = algebra.latent.sample(key_z, _paths_at(algebra, hyper, sites, rows)).mean
    observed = observation(rows.x)
    return jnp.where(jnp.isnan(observed), summaries.emitted(key_x, sites, z), observed)


def expected(algebra: Algebra, hyper: Hyper, sites: Sites, rows: Timed) -> tuple[Expected, ...]:
    """Mean and variance (N, T) of each column at every step given the observed cells of its sequence."""
    z = algebra.latent.mean(jax.random.PRNGKey(0), _paths_at(algebra, hyper, sites, rows))
    loading = sites["loading"]
    mean = sites["mean"] + z.mean @ loading.T
    variance = jnp.einsum("di,ntij,dj->ntd", loading, z.covariance, loading) + 1 / sites["precision"]
    return tuple(Expected(mean[..., d], variance[..., d]) for d in range(mean.shape[-1]))


def simulate(longest: int, key: Array, hyper: Hyper, sites: Sites, num_rows: int, num_steps: int = 0) -> Timed:
    """Sequences drawn at ``sites``, all ``num_steps`` long; 0 steps stand for the longest of the data."""
    num_steps = num_steps or longest
    key_z, key_x = jax.random.split(key)
    noise = jax.random.normal(key_z, (num_steps, num_rows, sites["loading"].shape[1]), sites["loading"].dtype)

    def step(before: Array, noise: Array) -> tuple[Array, Array]:
        found = before @ sites[TRANSITION].T + noise
        return found, found

    z = jax.lax.scan(step, jnp.zeros_like(noise[0]), noise)[1]
    return Timed(summaries.emitted(key_x, sites, jnp.swapaxes(z, 0, 1)), jnp.full(num_rows, num_steps, jnp.int32))


def replicated(rows: Timed, drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drawn steps, sequence after sequence."""
    there = np.arange(drawn["x"].shape[2])[None, :] < np.asarray(rows.length)[:, None]
    return {"x": drawn["x"][:, there]}
