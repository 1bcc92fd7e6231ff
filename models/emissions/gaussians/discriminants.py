"""Gaussian log densities as functions that are linear in features of the row, in the units of the table.

log Normal(x | μ_k, Λ_k⁻¹) = μ_kᵀΛ_k x − ½ xᵀΛ_k x + ½ log det Λ_k − ½ μ_kᵀΛ_k μ_k − (D/2) log 2π: the log-odds of two
components are linear in x where they share a precision (documents 001 and 003), and in (x, x xᵀ) or (x, x²) where each has
its own. Weights are in raw units, so that a user can read them; squares of columns far from 0 then cost digits, 1e-16 times the
square of the offset, which `predict` does not lose.
"""

import jax.numpy as jnp
from jax import Array

from models.abilities import Discriminant, Linear
from models.base import Hyper, Sites


def discriminant(covariance: str) -> Discriminant:
    """How the block with ``covariance`` (tied, full, diag, spherical, unit) is linear in features of the row."""
    if covariance == "full":
        return Discriminant(
            _full, lambda x: {"x": x, "xx": x[:, :, None] * x[:, None, :]}, (_X, ("xx", ("feature", "feature_")))
        )
    if covariance in ("diag", "spherical"):
        return Discriminant(_columns, lambda x: {"x": x, "xx": x**2}, (_X, ("xx", ("feature",))))
    return Discriminant(_tied if covariance == "tied" else _unit, lambda x: {"x": x}, (_X,))


_X = ("x", ("feature",))


def _affine(weight: Array, mean: Array) -> Array:
    """−½ μ_kᵀΛ_k μ_k, from weight_k = Λ_k μ_k: (K,)."""
    return -0.5 * (weight * mean).sum(-1)


def _about(hyper: Hyper, sites: Sites) -> tuple[Array, Array]:
    """(means about the origin, origin): where a precision is shared, what an offset adds to the weights is shared too."""
    origin = jnp.asarray(hyper["origin"])
    return sites["mean"] - origin[None, :], origin


def _tied(hyper: Hyper, sites: Sites) -> Linear:
    mean, origin = _about(hyper, sites)
    weight = jnp.einsum("ij,kj->ki", sites["precision"], mean)
    return Linear(_affine(weight, mean) - weight @ origin, {"x": weight})


def _full(hyper: Hyper, sites: Sites) -> Linear:
    weight = jnp.einsum("kij,kj->ki", sites["precision"], sites["mean"])
    half_log_det = 0.5 * jnp.linalg.slogdet(sites["precision"])[1]
    return Linear(_affine(weight, sites["mean"]) + half_log_det, {"x": weight, "xx": -0.5 * sites["precision"]})


def _columns(hyper: Hyper, sites: Sites) -> Linear:
    precision = sites["precision"]
    precision = jnp.broadcast_to(precision if precision.ndim == 2 else precision[:, None], sites["mean"].shape)
    weight = precision * sites["mean"]
    return Linear(_affine(weight, sites["mean"]) + 0.5 * jnp.log(precision).sum(-1), {"x": weight, "xx": -0.5 * precision})


def _unit(hyper: Hyper, sites: Sites) -> Linear:
    mean, origin = _about(hyper, sites)
    return Linear(_affine(mean, mean) - mean @ origin, {"x": mean})
