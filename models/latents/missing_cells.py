"""Missing cells under Gaussians with a precision matrix: Gaussian latents, given the component and the observed cells.

For a row with observed cells o and missing cells m, and component k,

    x_m | x_o, k ~ Normal(μ_m − Λ_mm⁻¹ Λ_mo (x_o − μ_o), Λ_mm⁻¹)
    log p(x_o | k) = log Normal(x̂ | μ, Λ⁻¹) + (|m|/2) log 2π − ½ log det Λ_mm,    x̂ the row completed by that mean

for Λ = E[Λ] and μ = E[Λ]⁻¹ E[Λμ] of any T: a point, a draw or an expectation. All rows of a block have matrices of one
size: Λ_mm stands among zeros, with ones on the diagonal where a cell is observed. Ghahramani and Jordan (1994).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

from models.base import Reported
from models.families.cholesky import half_log_determinant
from models.families.conjugate import GaussianStats
from models.latents.categorical import categorical, entropy, mode
from models.latents.hidden import Hidden
from models.rows.centring import LOG_2PI

# ---------------------------------------------------------------------------------------------------------------------
# The latents of a row. Rows of a table without missing cells have features (N, D) and natural parameters (N, K): these latents
# are then the component alone.


class Completion(NamedTuple):
    """Natural parameters of (component, missing cells): those of a row under every component."""

    component: Array  # (N, K): log density of the observed cells, and the component's log probability
    centre: Array  # (N, K, D): the row, completed by the mean of the missing cells
    root: Array  # (N, K, D, D): Cholesky factor of their precision, 1 on the diagonal of observed cells
    missing: Array  # (N, D): 1 where missing, 0 elsewhere


class Completed(NamedTuple):
    """A component and values of the missing cells, expected or drawn."""

    component: Array  # (N, K)
    centre: Array  # (N, K, D)
    covariance: Array | None  # (N, K, D, D) of the missing cells, 0 elsewhere; None for values that were drawn


def _component(value: Any) -> Array:
    component: Array = value.component if isinstance(value, Completion | Completed) else value
    return component


def _on_component(function: Callable[[Array], Array], local: Any) -> Any:
    return local._replace(component=function(local.component)) if isinstance(local, Completion) else function(local)


def _expected(update: Callable[[Array, Array], Array]) -> Callable[[Array, Any], Any]:
    """Component by ``update``, missing cells by their mean and covariance."""

    def completed(key: Array, local: Any) -> Any:
        component = update(key, _component(local))
        if not isinstance(local, Completion):
            return component
        return Completed(component, local.centre, covariance_of(local))

    return completed


def covariance_of(local: Completion) -> Array:
    """(N, K, D, D): the covariance of the missing cells, 0 elsewhere."""
    identity = jnp.broadcast_to(jnp.eye(local.root.shape[-1], dtype=local.root.dtype), local.root.shape)
    both = local.missing[:, None, :, None] * local.missing[:, None, None, :]
    return both * cho_solve((local.root, True), identity)


def noise_of(key: Array, local: Completion) -> Array:
    """(N, K, D): draws of the missing cells less their mean, 0 elsewhere."""
    noise = jax.random.normal(key, local.centre.shape, local.centre.dtype)
    drawn = solve_triangular(jnp.swapaxes(local.root, -1, -2), noise[..., None], lower=False)[..., 0]
    return local.missing[:, None, :] * drawn


def _sample(key: Array, local: Any) -> Any:
    key_component, key_cells = jax.random.split(key)
    if not isinstance(local, Completion):
        return categorical.sample(key, local)
    centre = local.centre + noise_of(key_cells, local)
    return Completed(categorical.sample(key_component, local.component), centre, None)


_latent = categorical._replace(
    log_partition=lambda local: categorical.log_partition(_component(local)),
    mean=_expected(categorical.mean),
    mode=_expected(mode),  # of the component; the cells stay integrated out, so that no spread is lost
    sample=_sample,
    energy=lambda z, local: categorical.energy(_component(z), _component(local)),
    reported=Reported(_component, lambda z, local: entropy(_component(z), _component(local))),
)

missing_cells = Hidden(
    latent=_latent,
    component=_component,
    on_component=_on_component,
    complete=lambda z, features: z if isinstance(z, Completed) else features,
    cells=lambda z: z if isinstance(z, Completed) else None,
    latent_if_missing=_latent._replace(values="discrete"),
)


# ---------------------------------------------------------------------------------------------------------------------
# Rows and statistics


class Partial(NamedTuple):
    """Rows about the origin, of which some cells are missing."""

    x: Array  # (N, D), 0 where missing
    missing: Array  # (N, D), 1 where missing and 0 elsewhere


class Component(NamedTuple):
    """The components at T: E[Λ] (K, D, D), the mean that it implies (K, D), its log density at that mean (K,)."""

    precision: Array
    mean: Array
    constant: Array


def completion(component: Component) -> Callable[[Partial], Completion]:
    """Rows -> log density of the observed cells, and the missing cells, under every component."""
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
        half_log_det = half_log_determinant(root)
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
