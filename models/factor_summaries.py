"""What a factor model says of columns and cells: symmetry-free summaries, Heywood cases, missing cells, simulated rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import Algebra, Expected, Hyper, Sites, ZooError
from models.condensed import moments
from models.missing import Cells, observation
from models.rows import Rows, spread

NO_NOISE = 1e-12  # eigenvalues below this share of the largest are rounding
NO_REST = 1e-4  # share of a column's variance below which its noise counts as none
WITNESSES = 20  # columns whose communality is a functional


def functionals(hyper: Hyper, sites: Sites, latents: Any) -> dict[str, Array]:
    """What no rotation changes: communalities, noise variances, and correlations of neighbouring columns.

    The communality of a column is the share of its variance that the factors explain. Of many columns `WITNESSES`, evenly
    spread, are shown.
    """
    loading = sites["loading"]
    dimension = loading.shape[0]
    noise = 1 / sites["precision"]
    explained = (loading**2).sum(1)
    variance = explained + noise
    few = shown(dimension)
    left, right = pairs(dimension).T
    covariance = (loading[left] * loading[right]).sum(1)
    return {
        "communality": (explained / variance)[few],
        "noise": noise if noise.ndim == 0 else noise[few],
        "correlation": covariance / jnp.sqrt(variance[left] * variance[right]),
    }


def heywood(columns: tuple[str, ...], hyper: Hyper, sites: Sites) -> list[str]:
    """A line for columns that the factors explain without rest: Heywood cases, noise at or near its boundary 0."""
    noise = np.broadcast_to(1 / np.asarray(sites["precision"]), (len(columns),))
    explained = (np.asarray(sites["loading"]) ** 2).sum(1)
    there = [name for name, left, whole in zip(columns, noise, explained, strict=True) if left < NO_REST * (left + whole)]
    if not there:
        return []
    listed = ", ".join(there[:5]) + (f" and {len(there) - 5} more" if len(there) > 5 else "")
    return [
        f"perhaps a Heywood case: the factors explain {listed} without rest, so that the noise may be on its way to its "
        "boundary 0, nearer with more iterations. Fewer factors, or a prior, keep away from it"
    ]


def maximum(num_factors: int, rows: Rows) -> dict[str, np.ndarray]:
    """Maximum likelihood of PPCA (Tipping and Bishop 1999): loading U (Λ − σ² I)^½, of the L largest eigenvalues Λ of the
    covariance with divisor N, where σ² = 1 / precision is the mean of the others.

    Raises `ZooError` for rows with missing cells, and where nothing is left for the noise.
    """
    if isinstance(rows.x, Cells):
        raise ZooError("the maximum of the likelihood has no closed form where cells are missing; use method=em")
    _, mean, covariance = moments(rows)
    values, vectors = np.linalg.eigh(covariance)
    noise, top = values[:-num_factors].mean(), values[-num_factors:]
    if not noise > NO_NOISE * top[-1]:
        raise ZooError(f"{num_factors} factors explain these rows without rest, so that no noise is left; use fewer factors")
    loading = vectors[:, -num_factors:] * np.sqrt(top - noise)
    return {"loading": loading, "mean": mean, "precision": np.asarray(1 / noise)}


def shown(dimension: int) -> np.ndarray:
    return spread(dimension, WITNESSES)


def pairs(dimension: int) -> np.ndarray:
    """Neighbours among at most five columns, evenly spread: (pairs, 2)."""
    few = spread(dimension, 5)
    return np.stack([few[:-1], few[1:]], axis=1)


def completed(algebra: Algebra, key: Array, hyper: Hyper, sites: Sites, rows: Rows) -> Array:
    """(N, D): the rows with their missing cells drawn: first the scores given what is observed, then the cells given them."""
    key_z, key_x = jax.random.split(key)
    z = algebra.latent.sample(key_z, algebra.local(algebra.natural(hyper, sites))(algebra.features(hyper, rows)))
    observed = observation(rows.x)
    return jnp.where(jnp.isnan(observed), _emitted(key_x, sites, z.mean), observed)


def expected(algebra: Algebra, hyper: Hyper, sites: Sites, rows: Rows) -> tuple[Expected, ...]:
    """Every column given what is observed of its row: mean + loading E[z], and the variance of scores and noise."""
    local = algebra.local(algebra.natural(hyper, sites))(algebra.features(hyper, rows))
    z = algebra.latent.mean(jax.random.PRNGKey(0), local)
    loading = sites["loading"]
    mean = sites["mean"][None, :] + z.mean @ loading.T
    covariance = jnp.broadcast_to(z.covariance, (mean.shape[0], *z.covariance.shape[-2:]))
    variance = jnp.einsum("di,nij,dj->nd", loading, covariance, loading) + jnp.broadcast_to(
        1 / sites["precision"], (mean.shape[1],)
    )
    return tuple(Expected(mean[:, d], variance[:, d]) for d in range(mean.shape[1]))


def _emitted(key: Array, sites: Sites, z: Array) -> Array:
    mean = sites["mean"][None, :] + z @ sites["loading"].T
    scale = jnp.broadcast_to(1 / jnp.sqrt(sites["precision"]), sites["mean"].shape)
    return mean + scale[None, :] * jax.random.normal(key, mean.shape, mean.dtype)


def simulate(key: Array, hyper: Hyper, sites: Sites, num_rows: int) -> Rows:
    """Rows drawn at ``sites``."""
    key_z, key_x = jax.random.split(key)
    z = jax.random.normal(key_z, (num_rows, sites["loading"].shape[1]), sites["loading"].dtype)
    return Rows(_emitted(key_x, sites, z))
