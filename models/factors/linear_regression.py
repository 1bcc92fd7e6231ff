"""The NormalGamma family of linear regressions: conjugate prior of coefficients and noise precision.

G regressions with P coefficients each share one noise precision τ. If each column has its own precision this is a batch of D
with G = 1; if all columns share one, G = D. With y = wᵀz + noise the statistics of a row are (1, z zᵀ, y z, y²):

    T(w, τ) = (½ log τ, −½ τ w wᵀ, τ w, −½ τ),    nu = (n, K, s, q)
    log Z = Σ_g (P/2 log 2π − ½ log det K_g) + log Γ(a) − a log b,    a = (n − G P)/2 + 1,    b = ½ (q − Σ_g s_gᵀ K_g⁻¹ s_g)

so that w_g | τ ~ Normal(K_g⁻¹ s_g, (τ K_g)⁻¹) and τ ~ Gamma(a, b). The mode is K⁻¹ s and n / (2 b).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import digamma, gammaln

from models.base import Family
from models.families.log_gamma import log_gamma

ROUNDING = 1e-12  # a residual below this share of the raw second moment is rounding, not noise


class RegressionStats(NamedTuple):
    """Statistics of G regressions that share one precision (batch shape ...), and natural parameters of their prior."""

    exponent: Array  # n (...): number of cells; 2 × the exponent of τ
    strength: Array  # K (..., G, P, P)
    total: Array  # s (..., G, P)
    square: Array  # q (...)


class Moments(NamedTuple):
    """Parameters of the NormalGamma distribution."""

    root: Array  # Cholesky factor of K (..., G, P, P)
    mean: Array  # of the coefficients (..., G, P)
    shape: Array  # of the Gamma (...)
    rate: Array


def moments(nu: RegressionStats) -> Moments:
    root = jnp.linalg.cholesky(nu.strength)
    mean = cho_solve((root, True), nu.total[..., None])[..., 0]
    groups, size = nu.total.shape[-2:]
    rate = 0.5 * (nu.square - (nu.total * mean).sum((-2, -1)))
    return Moments(root, mean, (nu.exponent - groups * size) / 2 + 1, rate)


def point(coefficients: Array, precision: Array, log_precision: Array) -> RegressionStats:
    """T(w, τ) at coefficients (..., G, P) and precision (...)."""
    scaled = precision[..., None, None] * coefficients
    return RegressionStats(
        0.5 * log_precision, -0.5 * coefficients[..., :, None] * scaled[..., None, :], scaled, -0.5 * precision
    )


def remainder(T: RegressionStats) -> Array:
    """E[τ w wᵀ] − E[τ w] E[τ w]ᵀ / E[τ]: (..., G, P, P), 0 if T is that of a point."""
    precision = -2 * T.square[..., None, None, None]
    return -2 * T.strength - T.total[..., :, None] * T.total[..., None, :] / precision


def _log_partition(nu: RegressionStats) -> Array:
    root, mean, shape, rate = moments(nu)
    half_log_det = jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)).sum((-2, -1))
    constant = 0.5 * mean.shape[-2] * mean.shape[-1] * jnp.log(2 * jnp.pi)
    return (constant - half_log_det + gammaln(shape) - shape * jnp.log(rate)).sum()


def _mean(nu: RegressionStats) -> RegressionStats:
    root, mean, shape, rate = moments(nu)
    T = point(mean, shape / rate, digamma(shape) - jnp.log(rate))
    identity = jnp.broadcast_to(jnp.eye(root.shape[-1], dtype=root.dtype), root.shape)
    return T._replace(strength=T.strength - 0.5 * cho_solve((root, True), identity))


def _mode(nu: RegressionStats) -> RegressionStats:
    moments_of = moments(nu)
    precision = nu.exponent / (2 * moments_of.rate)
    return point(moments_of.mean, precision, jnp.log(precision))


def _sample(key: Array, nu: RegressionStats) -> RegressionStats:
    key_precision, key_coefficients = jax.random.split(key)
    root, mean, shape, rate = moments(nu)
    log_precision = log_gamma(key_precision, shape) - jnp.log(rate)
    noise = jax.random.normal(key_coefficients, mean.shape, mean.dtype)
    away = solve_triangular(root, noise[..., None], lower=True, trans="T")[..., 0]
    return point(mean + away * jnp.exp(-0.5 * log_precision)[..., None, None], jnp.exp(log_precision), log_precision)


def _why_no_mode(nu: RegressionStats) -> str | None:
    nu = jax.tree.map(np.asarray, nu)
    with np.errstate(all="ignore"):
        definite = np.isfinite(nu.strength).all() and np.linalg.eigvalsh(nu.strength).min() > 0
        mean = np.linalg.solve(nu.strength, nu.total[..., None])[..., 0] if definite else np.nan
        left = nu.square - (nu.total * mean).sum((-2, -1))
    sound = np.atleast_1d((left > ROUNDING * nu.square) & (nu.exponent > 0))
    if definite and sound.all():
        return None
    where = f"column {np.flatnonzero(~sound)[0] + 1}" if definite and nu.exponent.ndim else "the noise"
    return (
        f"the noise precision of {where} has no mode: the factors explain it fully (a Heywood case), and the density is "
        "unbounded there. Use prior=default, or fewer factors"
        if definite
        else "the loadings have no mode: there are fewer rows than coefficients, or scores that do not vary. Use "
        "prior=default, or fewer factors"
    )


regression = Family(_log_partition, _mean, _mode, _sample, _why_no_mode)
