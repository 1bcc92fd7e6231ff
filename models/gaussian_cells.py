"""Missing cells under Gaussians with a precision matrix: Gaussian latents, given the component and what is observed.

For a row with observed cells o and missing cells m, and component k,

    x_m | x_o, k ~ Normal(μ_m − Λ_mm⁻¹ Λ_mo (x_o − μ_o), Λ_mm⁻¹)
    log p(x_o | k) = log Normal(x̂ | μ, Λ⁻¹) + (|m|/2) log 2π − ½ log det Λ_mm,    x̂ the row completed by that mean

for Λ = E[Λ] and μ = E[Λ]⁻¹ E[Λμ] whatever T is: a point, a draw or an expectation. All rows of a block have matrices of one
size: Λ_mm stands among zeros, with ones on the diagonal where a cell is observed. Ghahramani and Jordan (1994).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

from models.families import GaussianStats
from models.gaussian_rows import LOG_2PI
from models.latents import Completed, Completion


class Partial(NamedTuple):
    """Rows about the origin, of which some cells are missing."""

    x: Array  # (N, D), 0 where missing
    missing: Array  # (N, D), 1 where missing and 0 elsewhere


class Component(NamedTuple):
    """What T says of the components: E[Λ] (K, D, D), the mean that it implies (K, D), its log density at that mean (K,)."""

    precision: Array
    mean: Array
    constant: Array


def completion(component: Component) -> Callable[[Partial], Completion]:
    """Rows -> log density of what is observed, and the missing cells, under every component."""
    precision, mean, constant = component

    def complete(rows: Partial) -> Completion:
        dimension = mean.shape[1]
        missing = rows.missing[:, None, :]
        away = (1 - missing) * (rows.x[:, None, :] - mean[None, :, :])
        pull = -missing * jnp.einsum("kij,nkj->nki", precision, away)
        both = rows.missing[:, :, None] * rows.missing[:, None, :]
        ones = jnp.eye(dimension, dtype=mean.dtype)[None, :, :] * (1 - rows.missing)[:, :, None]
        root = jnp.linalg.cholesky(precision[None, :, :, :] * both[:, None, :, :] + ones[:, None, :, :])
        away = away + cho_solve((root, True), pull[..., None])[..., 0]
        square = jnp.einsum("nki,kij,nkj->nk", away, precision, away)
        half_log_det = jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)).sum(-1)
        number = rows.missing.sum(1)[:, None]
        density = constant[None, :] - 0.5 * square + 0.5 * number * LOG_2PI - half_log_det
        return Completion(density, mean[None, :, :] + away, root, rows.missing)

    return complete


def full_statistics(weight: Array, rows: Completed) -> GaussianStats:
    """Σ_n w_nk (1, 1, E[x], E[x xᵀ]), a precision a component."""
    weighted = weight[:, :, None] * rows.centre
    square = jnp.einsum("nki,nkj->kij", weighted, rows.centre)
    if rows.covariance is not None:
        square = square + jnp.einsum("nk,nkij->kij", weight, rows.covariance)
    count = weight.sum(0)
    return GaussianStats(count, count[:, None], weighted.sum(0)[:, None, :], square)


def tied_statistics(weight: Array, rows: Completed) -> GaussianStats:
    """The same for one precision."""
    each = full_statistics(weight, rows)
    return GaussianStats(each.exponent.sum(), each.exponent, each.total[:, 0, :], each.square.sum(0))
