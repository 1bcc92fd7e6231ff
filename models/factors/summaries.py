"""Factor models: rotation-invariant summaries, Heywood cases, closed-form maxima, missing cells, simulated rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import gammaln

from models.abilities import Expected
from models.base import Algebra, Hyper, Iteration, Sites, ZooError
from models.factors.sufficient_rows import moments
from models.rows.centring import LOG_2PI
from models.rows.encoded import Rows, spread
from models.rows.masks import Cells, observation

NO_NOISE = 1e-12  # eigenvalues below this share of the largest are rounding errors
NO_REST = 5e-3  # uniqueness below which noise counts as zero; the default bound of R's factanal (lower=0.005)
LITTLE = 0.05  # uniqueness below which noise that still decreases may converge to zero
SLOWLY = 1e-5  # smallest relative decrease per iteration that counts: EM converges ever more slowly there
SHOWN = 20  # number of columns whose communality is reported


def functionals(hyper: Hyper, sites: Sites, latents: Any) -> dict[str, Array]:
    """Rotation-invariant summaries: communalities, noise variances, correlations of neighbouring columns, axis shares.

    The communality of a column is the share of its variance that the factors explain. ``axis_share`` splits the mean
    communality by the L principal axes of the loadings, which shows how many factors are active. With many columns only
    `SHOWN`, evenly spaced, are reported.
    """
    loading = sites["loading"]
    dimension = loading.shape[0]
    noise = 1 / sites["precision"]
    explained = (loading**2).sum(1)
    variance = explained + noise
    few = columns_shown(dimension)
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
    """Names of the dimensions of sites, hyperparameters and functionals; ``shared``: one noise variance for all columns."""
    each = ("feature",)
    return {
        "loading": ("feature", "factor"),
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
        "feature": columns,
        "factor": list(range(1, num_factors + 1)),
        "axis": list(range(1, num_factors + 1)),
        "shown": [columns[d] for d in columns_shown(len(columns))],
        "pair": [f"{columns[i]}, {columns[j]}" for i, j in pairs(len(columns))],
    }


def warnings_of(
    columns: tuple[str, ...], shared: bool, relevance: bool, hyper: Hyper, sites: Sites, last: Iteration | None
) -> list[str]:
    """Warnings about an optimum: Heywood cases, and that a mode with relevances does not count factors."""
    warnings = [] if shared else heywood(columns, sites, last)
    if relevance:
        warnings.append(
            "the joint mode of loadings and relevances depends on the prior of the relevances and does not count factors: "
            "read axis_share from gibbs, nuts or cavi, which average over the relevances"
        )
    return warnings


def heywood(columns: tuple[str, ...], sites: Sites, last: Iteration | None = None) -> list[str]:
    """Warnings about Heywood cases: columns whose noise is at or near its boundary 0.

    EM approaches this boundary ever more slowly. Small noise that still decreased in the ``last`` iteration is reported too.
    """
    uniqueness = _uniqueness(sites)[0]
    least = uniqueness < NO_REST
    falls = np.zeros(len(columns), bool)
    if last is not None:
        earlier, later = _uniqueness(last.earlier)[1], _uniqueness(last.later)[1]
        falls = ~least & (uniqueness < LITTLE) & (later < (1 - SLOWLY) * earlier)
    lines = []
    if least.any():
        lines.append(
            f"perhaps a Heywood case: the factors explain {_listed(columns, least)} without noise (below {NO_REST:g} of the "
            "variance, the bound of R's factanal), so that the noise may converge to its boundary 0. Fewer factors, or a "
            "prior, avoid this"
        )
    if falls.any():
        lines.append(
            f"perhaps a Heywood case: the noise of {_listed(columns, falls)} is below {LITTLE:g} of the variance and was still "
            "decreasing when the method stopped. More iterations (max_iter, a smaller tol) would show whether it reaches 0; "
            "fewer factors, or a prior, prevent this"
        )
    return lines


def _uniqueness(sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """(uniqueness: share of noise in the variance, noise variance) of each column."""
    explained = (np.asarray(sites["loading"]) ** 2).sum(1)
    noise = np.broadcast_to(1 / np.asarray(sites["precision"]), explained.shape)
    return noise / (noise + explained), noise


def _listed(columns: tuple[str, ...], where: np.ndarray) -> str:
    there = [name for name, one in zip(columns, where, strict=True) if one]
    return ", ".join(there[:5]) + (f" and {len(there) - 5} more" if len(there) > 5 else "")


def maximum(num_factors: int, rows: Rows) -> dict[str, np.ndarray]:
    """Maximum likelihood of PPCA (Tipping and Bishop 1999): loading U (Λ − σ² I)^½, of the L largest eigenvalues Λ of the
    covariance with divisor N, where σ² = 1 / precision is the mean of the others.

    Raises `ZooError` for rows with missing cells, and if no noise is left.
    """
    if isinstance(rows.x, Cells):
        raise ZooError("the maximum of the likelihood has no closed form if cells are missing; use method=em")
    _, mean, covariance = moments(rows)
    values, vectors = np.linalg.eigh(covariance)
    noise, top = values[:-num_factors].mean(), values[-num_factors:]
    if not noise > NO_NOISE * top[-1]:
        raise ZooError(f"{num_factors} factors explain these rows without noise; use fewer factors")
    loading = vectors[:, -num_factors:] * np.sqrt(top - noise)
    return {"loading": loading, "mean": mean, "precision": np.asarray(1 / noise)}


def minka(num_factors: int, rows: Rows) -> float:
    """Log evidence of PPCA by Laplace's approximation under Minka's prior (Minka 2000, equation 76 in full).

    Use it to choose ``num_factors``. Its prior is not that of the model: uniform on directions, vanishing on the rest. The free
    constant is chosen so that the evidence is comparable with the maximum log-likelihood. NaN if cells are missing.
    """
    if isinstance(rows.x, Cells):
        return np.nan
    number, mean, covariance = moments(rows)
    dimension = len(mean)
    values = np.maximum(np.linalg.eigvalsh(covariance)[::-1], 0.0)
    top, noise = values[:num_factors], values[num_factors:].mean()
    if not noise > NO_NOISE * values[0]:
        return np.nan
    sizes = dimension - np.arange(num_factors)  # dimensions of the spheres of directions
    directions = (gammaln(sizes / 2) - sizes / 2 * np.log(np.pi)).sum() - num_factors * np.log(2)
    likelihood = -number / 2 * (np.log(top).sum() + (dimension - num_factors) * np.log(noise) + dimension * (1 + LOG_2PI))
    eigenvalues = np.concatenate([top, np.full(dimension - num_factors, noise)])
    i, j = np.triu_indices(dimension, 1)
    i, j = i[i < num_factors], j[i < num_factors]
    with np.errstate(divide="ignore"):
        curvature = (np.log(1 / eigenvalues[j] - 1 / eigenvalues[i]) + np.log(values[i] - values[j]) + np.log(number)).sum()
    rest = (len(i) + num_factors) / 2 * LOG_2PI - num_factors / 2 * np.log(number)
    log_evidence_of = directions + likelihood + rest - curvature / 2
    return float(log_evidence_of) if np.isfinite(log_evidence_of) else np.nan


def columns_shown(dimension: int) -> np.ndarray:
    return spread(dimension, SHOWN)


def pairs(dimension: int) -> np.ndarray:
    """Neighbours among at most five evenly spaced columns: (pairs, 2)."""
    few = spread(dimension, 5)
    return np.stack([few[:-1], few[1:]], axis=1)


def completed(algebra: Algebra, key: Array, hyper: Hyper, sites: Sites, rows: Rows) -> Array:
    """(N, D): rows with missing cells drawn: first the scores given observed cells, then the cells given the scores."""
    key_z, key_x = jax.random.split(key)
    z = algebra.latent.sample(
        key_z, algebra.local_natural_parameters(algebra.natural(hyper, sites))(algebra.features(hyper, rows))
    )
    observed = observation(rows.x)
    return jnp.where(jnp.isnan(observed), emitted(key_x, sites, z.mean), observed)


def expected(algebra: Algebra, hyper: Hyper, sites: Sites, rows: Rows) -> tuple[Expected, ...]:
    """Mean and variance of each column given the observed cells of its row."""
    local = algebra.local_natural_parameters(algebra.natural(hyper, sites))(algebra.features(hyper, rows))
    z = algebra.latent.mean(jax.random.PRNGKey(0), local)
    loading = sites["loading"]
    mean = sites["mean"][None, :] + z.mean @ loading.T
    covariance = jnp.broadcast_to(z.covariance, (mean.shape[0], *z.covariance.shape[-2:]))
    variance = jnp.einsum("di,nij,dj->nd", loading, covariance, loading) + jnp.broadcast_to(
        1 / sites["precision"], (mean.shape[1],)
    )
    return tuple(Expected(mean[:, d], variance[:, d]) for d in range(mean.shape[1]))


def emitted(key: Array, sites: Sites, z: Array) -> Array:
    """Cells (…, D) drawn given factors (…, L)."""
    mean = sites["mean"][None, :] + z @ sites["loading"].T
    scale = jnp.broadcast_to(1 / jnp.sqrt(sites["precision"]), sites["mean"].shape)
    return mean + scale[None, :] * jax.random.normal(key, mean.shape, mean.dtype)


def simulate(key: Array, hyper: Hyper, sites: Sites, num_rows: int) -> Rows:
    """Draw rows at ``sites``."""
    key_z, key_x = jax.random.split(key)
    z = jax.random.normal(key_z, (num_rows, sites["loading"].shape[1]), sites["loading"].dtype)
    return Rows(emitted(key_x, sites, z))
