"""Gaussian scores: L continuous latents a row, the functions of `models.base.Latent`.

Given θ a row's scores are Normal(centre, precision⁻¹), and log p(x, z) = peak − ½ (z − centre)ᵀ precision (z − centre)
− L/2 log 2π. Natural parameters have this form, because the peak is made of residuals, which cost no digits, where
½ hᵀ precision⁻¹ h − ½ xᵀ Ψ⁻¹ x is a difference of large numbers.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

from models.base import Latent, Reported
from models.families.cholesky import half_log_determinant


class Scores(NamedTuple):
    """Natural parameters of the scores of N rows."""

    peak: Array  # (N,)
    centre: Array  # (N, L)
    root: Array  # Cholesky factor of the precision: (L, L), or (N, L, L) where rows differ in their observed cells


class Values(NamedTuple):
    """Scores, expected or drawn."""

    mean: Array  # (N, L)
    covariance: Array | None  # as the root; None for scores that were drawn


def _mean(key: Array, local: Scores) -> Values:
    identity = jnp.broadcast_to(jnp.eye(local.root.shape[-1], dtype=local.root.dtype), local.root.shape)
    return Values(local.centre, cho_solve((local.root, True), identity))


def _sample(key: Array, local: Scores) -> Values:
    noise = jax.random.normal(key, local.centre.shape, local.centre.dtype)
    if local.root.ndim == 2:
        away = solve_triangular(local.root, noise.T, lower=True, trans="T").T
    else:
        away = solve_triangular(local.root, noise[..., None], lower=True, trans="T")[..., 0]
    return Values(local.centre + away, None)


def _energy(z: Values, local: Scores) -> Array:
    away = z.mean - local.centre
    scaled = away @ local.root if local.root.ndim == 2 else jnp.einsum("ni,nij->nj", away, local.root)
    size = local.centre.shape[-1]
    spread = 0.0 if z.covariance is None else size  # tr(precision × its inverse)
    return local.peak - 0.5 * ((scaled**2).sum(-1) + spread + size * jnp.log(2 * jnp.pi))


def _log_partition(local: Scores) -> Array:
    log_partition: Array = local.peak - half_log_determinant(local.root)
    return log_partition


scores = Latent(
    log_partition=_log_partition,
    mean=_mean,
    mode=None,
    sample=_sample,
    energy=_energy,
    reported=Reported(
        part=lambda z: z.mean,
        spread=lambda z: jnp.broadcast_to(
            jnp.zeros(()) if z.covariance is None else jnp.diagonal(z.covariance, axis1=-2, axis2=-1), z.mean.shape
        ),
    ),
    values="real",
)
