"""What a factor model says of columns and cells: symmetry-free summaries, Heywood cases, missing cells, simulated rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import gammaln

from models.base import Algebra, Expected, Hyper, Sites, ZooError
from models.condensed import moments
from models.gaussian_rows import LOG_2PI
from models.missing import Cells, observation
from models.rows import Rows, spread

NO_NOISE = 1e-12  # eigenvalues below this share of the largest are rounding
NO_REST = 1e-4  # share of a column's variance below which its noise counts as none
WITNESSES = 20  # columns whose communality is a functional


def functionals(hyper: Hyper, sites: Sites, latents: Any) -> dict[str, Array]:
    """What no rotation changes: communalities, noise variances, correlations of neighbouring columns, and shares of the axes.

    The communality of a column is the share of its variance that the factors explain. ``axis_share`` is its mean over all
    columns, told apart by the L principal axes of the loadings: how many factors carry something. Of many columns `WITNESSES`,
    evenly spread, are shown.
    """
    loading = sites["loading"]
    dimension = loading.shape[0]
    noise = 1 / sites["precision"]
    explained = (loading**2).sum(1)
    variance = explained + noise
    few = shown(dimension)
    left, right = pairs(dimension).T
    covariance = (loading[left] * loading[right]).sum(1)
    standard = loading / jnp.sqrt(variance)[:, None]
    return {
        "axis_share": jnp.linalg.eigvalsh(standard.T @ standard)[::-1] / dimension,
        "communality": (explained / variance)[few],
        "noise": noise if noise.ndim == 0 else noise[few],
        "correlation": covariance / jnp.sqrt(variance[left] * variance[right]),
    }


def dims(shared: bool) -> dict[str, tuple[str, ...]]:
    """Names of the dimensions of sites, hyperparameters and functionals; of one noise for all columns if ``shared``."""
    each = ("column",)
    return {
        "loading": ("column", "factor"),
        "mean": each,
        "precision": () if shared else each,
        "relevance": ("factor",),
        "location": each,
        "origin": each,
        "spread": each,
        "scatter": () if shared else each,
        "scores": ("row", "factor"),
        "communality": ("shown",),
        "noise": () if shared else ("shown",),
        "correlation": ("pair",),
        "axis_share": ("axis",),
    }


def coords(columns: list[str], num_factors: int) -> dict[str, list[Any]]:
    """Labels of the dimensions."""
    return {
        "column": columns,
        "factor": list(range(1, num_factors + 1)),
        "axis": list(range(1, num_factors + 1)),
        "shown": [columns[d] for d in shown(len(columns))],
        "pair": [f"{columns[i]}, {columns[j]}" for i, j in pairs(len(columns))],
    }


def doubts(columns: tuple[str, ...], shared: bool, relevance: bool, hyper: Hyper, sites: Sites) -> list[str]:
    """What to know of an optimum: Heywood cases, and that a mode with relevances does not count factors."""
    found = [] if shared else heywood(columns, sites)
    if relevance:
        found.append(
            "the joint mode of loadings and relevances depends on the prior of these and does not count factors: read "
            "axis_share under gibbs, nuts or cavi, which average over them"
        )
    return found


def heywood(columns: tuple[str, ...], sites: Sites) -> list[str]:
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


def minka(num_factors: int, rows: Rows) -> float:
    """Log evidence of PPCA by Laplace's approximation under Minka's prior (Minka 2000, equation 76 in full), NaN with holes.

    Its prior is uniform on the directions and vanishing on the rest, and is not the model's: for choosing ``num_factors``. The
    constant that no number of factors changes is such that at the maximum log-likelihood and evidence compare.
    """
    if isinstance(rows.x, Cells):
        return np.nan
    number, mean, covariance = moments(rows)
    dimension = len(mean)
    values = np.maximum(np.linalg.eigvalsh(covariance)[::-1], 0.0)
    top, noise = values[:num_factors], values[num_factors:].mean()
    if not noise > NO_NOISE * values[0]:
        return np.nan
    sizes = dimension - np.arange(num_factors)  # of the spheres that the directions are on
    directions = (gammaln(sizes / 2) - sizes / 2 * np.log(np.pi)).sum() - num_factors * np.log(2)
    likelihood = -number / 2 * (np.log(top).sum() + (dimension - num_factors) * np.log(noise) + dimension * (1 + LOG_2PI))
    kept = np.concatenate([top, np.full(dimension - num_factors, noise)])
    i, j = np.triu_indices(dimension, 1)
    i, j = i[i < num_factors], j[i < num_factors]
    with np.errstate(divide="ignore"):
        curvature = (np.log(1 / kept[j] - 1 / kept[i]) + np.log(values[i] - values[j]) + np.log(number)).sum()
    rest = (len(i) + num_factors) / 2 * LOG_2PI - num_factors / 2 * np.log(number)
    found = directions + likelihood + rest - curvature / 2
    return float(found) if np.isfinite(found) else np.nan


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
