"""The Normal family of coefficients in canonical form: the conjugate prior of regressions whose noise is known.

T(β) = (β, −½ β βᵀ),    nu = (J m, J) of Normal(m, J⁻¹),    log Z = ½ hᵀ J⁻¹ h − ½ log det J + P/2 log 2π,  h = J m

The rows of a matrix (G, P) are G vectors that share the precision J, as those of a transition matrix: T(β) = (β, −½ βᵀ β).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

from models.base import Family
from models.families.cholesky import half_log_determinant

SINGULAR = 1e-12  # bound on the smallest eigenvalue of a precision with unit diagonal; below it the matrix counts as singular


class NormalStats(NamedTuple):
    """Statistics of P coefficients, and natural parameters of their prior. Those of a row: (κ x, ω x xᵀ)."""

    linear: Array  # (P,), or (G, P)
    quadratic: Array  # (P, P): in nu, the precision


def point(beta: Array) -> NormalStats:
    """T(β) at a point (P,) or (G, P)."""
    return NormalStats(beta, -0.5 * _squared(beta))


def covariance(T: NormalStats) -> Array:
    """(P, P): E[β βᵀ] − E[β] E[β]ᵀ, summed over vectors; exactly 0 if T is that of a point."""
    return -2 * T.quadratic - _squared(T.linear)


def _squared(beta: Array) -> Array:
    """Σ_g β_g β_gᵀ: (P, P)."""
    return jnp.einsum("...i,...j->ij", beta, beta)


def _number(beta: Array) -> int:
    """G, how many vectors share the precision."""
    return int(np.prod(beta.shape[:-1], dtype=int))


def _moments(nu: NormalStats) -> tuple[Array, Array]:
    """(m, Cholesky factor of J)."""
    root = jnp.linalg.cholesky(nu.quadratic)
    return cho_solve((root, True), nu.linear.T).T, root


def _log_partition(nu: NormalStats) -> Array:
    mean, root = _moments(nu)
    constant = 0.5 * mean.size * jnp.log(2 * jnp.pi)
    return 0.5 * (nu.linear * mean).sum() - _number(mean) * half_log_determinant(root) + constant


def _mean(nu: NormalStats) -> NormalStats:
    mean, root = _moments(nu)
    T = point(mean)
    identity = jnp.eye(mean.shape[-1], dtype=mean.dtype)
    return T._replace(quadratic=T.quadratic - 0.5 * _number(mean) * cho_solve((root, True), identity))


def _mode(nu: NormalStats) -> NormalStats:
    return point(_moments(nu)[0])


def _sample(key: Array, nu: NormalStats) -> NormalStats:
    mean, root = _moments(nu)
    noise = jax.random.normal(key, mean.shape, mean.dtype)
    return point(mean + solve_triangular(root, noise.T, lower=True, trans="T").T)


def _why_no_mode(nu: NormalStats) -> str | None:
    precision = np.asarray(nu.quadratic, dtype=np.float64)
    with np.errstate(all="ignore"):
        scale = 1 / np.sqrt(np.diag(precision))
        unit = precision * np.outer(scale, scale)
    if np.isfinite(unit).all() and np.linalg.eigvalsh(unit).min() > SINGULAR:
        return None
    return (
        "the coefficients have no mode: some column is a combination of the others, there are fewer rows with a label than "
        "coefficients, or the fitted probabilities have all reached 0 or 1. Use prior=default, or fewer columns"
    )


normal = Family(_log_partition, _mean, _mode, _sample, _why_no_mode)
