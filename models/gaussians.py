"""Gaussian likelihood blocks: the covariance type is a choice among `GAUSSIANS`, not a branch.

With weak default priors in the manner of mclust (Fraley and Raftery 2007), on K means and their precisions:

    Λ ~ Wishart(dof, scatter⁻¹) or τ ~ Gamma(dof / 2, scatter / 2),     μ | Λ ~ Normal(location, (strength Λ)⁻¹)

Statistics are sums about a fixed ``origin`` (the column means of the data that the model was built on), so that an offset
of the data costs no digits.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.base import Hyper, Sites, on_host
from models.emissions import Emission
from models.families import GaussianStats, MeanStats, normal_gamma, normal_mean, normal_wishart

LOG_2PI = float(np.log(2 * np.pi))


def _spread(x: np.ndarray, num_components: int) -> np.ndarray:
    """Column variances, shrunk to the share of one of K components: var / K^(2/D), as mclust does."""
    return np.asarray(x.var(axis=0) / num_components ** (2 / x.shape[1]))


def _defaults(scatter: Callable[[np.ndarray], Any], dof: Callable[[int], float]) -> Callable[..., dict[str, Any]]:
    def defaults(x: np.ndarray, num_components: int) -> dict[str, Any]:
        return {
            "location": x.mean(axis=0),
            "strength": 0.1,
            "dof": dof(x.shape[1]),
            "scatter": scatter(_spread(x, num_components)),
        }

    return defaults


def _shapes(dimension: int, scatter: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"location": (dimension,), "strength": (), "dof": (), "scatter": scatter}


# ---------------------------------------------------------------------------------------------------------------------
# Full and tied covariances: NormalWishart, G = 1 mean a group (batch K) or G = K means in one group


class Centred(NamedTuple):
    """Rows about the origin."""

    x: Array  # (N, D)


def _centre(hyper: Hyper, x: Array) -> Array:
    return x - jnp.asarray(hyper["origin"], x.dtype)[None, :]


def _centred(hyper: Hyper, x: Array) -> Centred:
    return Centred(_centre(hyper, x))


def _wishart_log_density(T: GaussianStats) -> Callable[[Centred], Array]:
    """< T, u(x) > − (D/2) log 2π for every row and component; T in the layout of K means and K or 1 precisions.

    By the root of E[Λ] and the mean it implies: unlike the terms of xᵀΛx − 2μᵀΛx + μᵀΛμ, those of ‖Lᵀ(x − μ)‖² do not cancel
    where groups are many widths apart. The remainder, 0 at a point and −½ D/κ in expectation, is part of ``strength``.
    """
    dimension = T.total.shape[-1]
    total = T.total.reshape(-1, dimension)
    num_components = total.shape[0]
    square = T.square.reshape(-1, dimension, dimension)
    roots = jnp.broadcast_to(jnp.linalg.cholesky(-2 * square), (num_components, dimension, dimension))
    shifts = jax.scipy.linalg.solve_triangular(roots, total[..., None], lower=True)[..., 0]  # (K, D): Lᵀ mean
    constant = T.strength.reshape(-1) + T.exponent.reshape(-1) - 0.5 * dimension * LOG_2PI + 0.5 * (shifts**2).sum(-1)
    stacked = jnp.swapaxes(roots, 1, 2).reshape(num_components * dimension, dimension)

    def log_density(features: Centred) -> Array:
        # Rows last: the sum of squares then runs along contiguous rows, which a compiler can vectorise.
        projected = (stacked @ features.x.T - shifts.reshape(-1, 1)).reshape(num_components, dimension, -1)
        return (constant[:, None] - 0.5 * (projected**2).sum(1)).T

    return log_density


def _full_statistics(weight: Array, features: Centred) -> GaussianStats:
    """Σ_n w_nk (1, 1, x, x xᵀ), a precision a component."""
    num_components, dimension = weight.shape[1], features.x.shape[1]
    # Rows last: the weighting runs along contiguous rows, and the product needs no transposition.
    weighted = (weight.T[:, None, :] * features.x.T[None, :, :]).reshape(num_components * dimension, -1)
    square = (weighted @ features.x).reshape(num_components, dimension, dimension)
    count = weight.sum(0)
    return GaussianStats(count, count[:, None], (weight.T @ features.x)[:, None, :], square)


def _tied_statistics(weight: Array, features: Centred) -> GaussianStats:
    """The same for one precision: its x xᵀ are summed over the components first."""
    count = weight.sum(0)
    square = (weight.sum(1)[None, :] * features.x.T) @ features.x
    return GaussianStats(count.sum(), count, weight.T @ features.x, square)


def _wishart_prior(hyper: Hyper, num_components: int, tied: bool) -> GaussianStats:
    shift = hyper["location"] - hyper["origin"]
    dimension = shift.shape[-1]
    groups = num_components if tied else 1
    batch = () if tied else (num_components,)
    square = hyper["scatter"] + groups * hyper["strength"] * np.outer(shift, shift)
    return GaussianStats(
        on_host(np.full(batch, hyper["dof"] - dimension - 1 + groups)),
        on_host(np.full((*batch, groups), hyper["strength"])),
        on_host(np.broadcast_to(hyper["strength"] * shift, (*batch, groups, dimension))),
        on_host(np.broadcast_to(square, (*batch, dimension, dimension))),
    )


def _wishart_program(hyper: Hyper, num_components: int, proper: bool, tied: bool) -> dist.Distribution:
    """Λ ~ Wishart(dof, scatter⁻¹), μ_k | Λ_k ~ Normal(location, (strength Λ_k)⁻¹); flat: improper uniform on both."""
    dimension = hyper["origin"].shape[-1]
    batch = () if tied else (num_components,)
    if proper:
        wishart = dist.Wishart(hyper["dof"], rate_matrix=hyper["scatter"])
        precision = numpyro.sample("precision", wishart.expand(batch).to_event(len(batch)))
        normal = dist.MultivariateNormal(hyper["location"], precision_matrix=hyper["strength"] * precision)
        mean = numpyro.sample("mean", normal.expand((num_components,)).to_event(1))
    else:
        matrices = dist.ImproperUniform(constraints.positive_definite, batch, (dimension, dimension))
        precision = numpyro.sample("precision", matrices.to_event(len(batch)))
        mean = numpyro.sample("mean", _flat(constraints.real, (num_components, dimension)))
    return dist.MultivariateNormal(mean, precision_matrix=precision)


def _flat(support: Any, shape: tuple[int, ...]) -> dist.Distribution:
    return dist.ImproperUniform(support, (), shape)


def _wishart_sites(hyper: Hyper, T: GaussianStats) -> dict[str, Array]:
    dimension = T.total.shape[-1]
    mean = jnp.linalg.solve(-2 * T.square, jnp.swapaxes(T.total, -1, -2))
    mean = jnp.swapaxes(mean, -1, -2).reshape(-1, dimension) + jnp.asarray(hyper["origin"], T.total.dtype)[None, :]
    return {"mean": mean, "precision": -2 * T.square}


def _wishart_natural(hyper: Hyper, sites: Sites, tied: bool) -> GaussianStats:
    mean = jnp.asarray(sites["mean"]) - jnp.asarray(hyper["origin"])[None, :]
    precision = jnp.asarray(sites["precision"])
    total = jnp.einsum("ij,kj->ki" if tied else "kij,kj->ki", precision, mean)
    half_log_det = jnp.log(jnp.diagonal(jnp.linalg.cholesky(precision), axis1=-2, axis2=-1)).sum(-1)
    energy = -0.5 * (mean * total).sum(-1)
    if tied:
        return GaussianStats(half_log_det, energy, total, -0.5 * precision)
    return GaussianStats(half_log_det, energy[:, None], total[:, None, :], -0.5 * precision)


# ---------------------------------------------------------------------------------------------------------------------
# Diagonal and spherical covariances: NormalGamma, batch (K, D) of one column or batch K of D columns


class Squares(NamedTuple):
    """Rows as monomials about the origin, so that both halves of a sweep are matrix products."""

    monomials: Array  # (N, 2 D + 1): (x_1², …, x_D², x, 1)


def _squares(hyper: Hyper, x: Array) -> Squares:
    centred = _centre(hyper, x)
    return Squares(jnp.concatenate([centred**2, centred, jnp.ones((x.shape[0], 1), x.dtype)], axis=1))


def _gamma_log_density(T: GaussianStats) -> Callable[[Squares], Array]:
    """< T, u(x) > − (D/2) log 2π, every column with a precision of its own or all D sharing one."""
    num_components = T.total.shape[0]
    total = T.total.reshape(num_components, -1)
    dimension = total.shape[1]
    count, strength, square = (leaf.reshape(num_components, -1) for leaf in (T.exponent, T.strength, T.square))
    columns_per_precision = dimension // count.shape[1]
    constant = columns_per_precision * count.sum(1) + strength.sum(1) - 0.5 * dimension * LOG_2PI
    coefficients = jnp.concatenate([jnp.broadcast_to(square, total.shape), total, constant[:, None]], axis=1).T
    return lambda features: features.monomials @ coefficients


def _diag_statistics(weight: Array, features: Squares) -> GaussianStats:
    square, total, count = _gamma_moments(weight, features)
    count = jnp.broadcast_to(count[:, None], square.shape)
    return GaussianStats(count, count[..., None], total[..., None, None], square)


def _spherical_statistics(weight: Array, features: Squares) -> GaussianStats:
    square, total, count = _gamma_moments(weight, features)
    return GaussianStats(total.shape[1] * count, count[:, None], total[:, None, :], square.sum(1))


def _gamma_moments(weight: Array, features: Squares) -> tuple[Array, Array, Array]:
    sums = weight.T @ features.monomials
    dimension = (sums.shape[1] - 1) // 2
    return sums[:, :dimension], sums[:, dimension:-1], sums[:, -1]


def _gamma_prior(hyper: Hyper, num_components: int, diagonal: bool) -> GaussianStats:
    shift = hyper["location"] - hyper["origin"]
    dimension = shift.shape[-1]
    batch, columns = ((num_components, dimension), 1) if diagonal else ((num_components,), dimension)
    total = hyper["strength"] * shift.reshape(*((-1, 1, 1) if diagonal else (1, 1, -1)))
    square = hyper["scatter"] + hyper["strength"] * (shift**2 if diagonal else (shift**2).sum())
    return GaussianStats(
        on_host(np.full(batch, hyper["dof"] - 2.0 + columns)),
        on_host(np.full((*batch, 1), hyper["strength"])),
        on_host(np.broadcast_to(total, (*batch, 1, columns))),
        on_host(np.broadcast_to(square, batch)),
    )


def _gamma_program(hyper: Hyper, num_components: int, proper: bool, diagonal: bool) -> dist.Distribution:
    """τ ~ Gamma(dof / 2, scatter / 2), μ | τ ~ Normal(location, 1 / (strength τ)); flat: improper uniform on both."""
    dimension = hyper["origin"].shape[-1]
    batch = (num_components, dimension) if diagonal else (num_components,)
    if proper:
        gamma = dist.Gamma(hyper["dof"] / 2, hyper["scatter"] / 2)
        precision = numpyro.sample("precision", gamma.expand(batch).to_event(len(batch)))
    else:
        precision = numpyro.sample("precision", _flat(constraints.positive, batch))
    scale = jnp.broadcast_to(1 / jnp.sqrt(precision if diagonal else precision[:, None]), (num_components, dimension))
    if proper:
        normal = dist.Normal(hyper["location"][None, :], scale / jnp.sqrt(hyper["strength"]))
        mean = numpyro.sample("mean", normal.to_event(2))
    else:
        mean = numpyro.sample("mean", _flat(constraints.real, (num_components, dimension)))
    return dist.Normal(mean, scale).to_event(1)


def _gamma_sites(hyper: Hyper, T: GaussianStats) -> dict[str, Array]:
    precision = -2 * T.square
    mean = (T.total / precision[..., None, None]).reshape(T.total.shape[0], -1)
    return {"mean": mean + jnp.asarray(hyper["origin"], mean.dtype)[None, :], "precision": precision}


def _gamma_natural(hyper: Hyper, sites: Sites, diagonal: bool) -> GaussianStats:
    mean = jnp.asarray(sites["mean"]) - jnp.asarray(hyper["origin"])[None, :]
    precision = jnp.asarray(sites["precision"])
    mean = mean[..., None, None] if diagonal else mean[:, None, :]
    total = precision[..., None, None] * mean
    return GaussianStats(0.5 * jnp.log(precision), -0.5 * (mean * total).sum(-1), total, -0.5 * precision)


# ---------------------------------------------------------------------------------------------------------------------
# Unit covariance: document 002's simplified model, μ_k ~ Normal(location, I / strength)


def _unit_log_density(T: MeanStats) -> Callable[[Centred], Array]:
    constant = T.strength - 0.5 * T.total.shape[1] * LOG_2PI

    def log_density(features: Centred) -> Array:
        return constant[None, :] + features.x @ T.total.T - 0.5 * (features.x**2).sum(1)[:, None]

    return log_density


def _unit_statistics(weight: Array, features: Centred) -> MeanStats:
    return MeanStats(weight.sum(0), weight.T @ features.x)


def _unit_prior(hyper: Hyper, num_components: int) -> MeanStats:
    total = hyper["strength"] * (hyper["location"] - hyper["origin"])
    return MeanStats(on_host(np.full(num_components, hyper["strength"])), on_host(np.tile(total, (num_components, 1))))


def _unit_program(hyper: Hyper, num_components: int, proper: bool) -> dist.Distribution:
    shape = (num_components, hyper["origin"].shape[-1])
    location = jnp.broadcast_to(hyper["location"][None, :], shape) if proper else None
    prior = dist.Normal(location, 1 / jnp.sqrt(hyper["strength"])).to_event(2) if proper else _flat(constraints.real, shape)
    return dist.Normal(numpyro.sample("mean", prior), 1.0).to_event(1)


def _unit_sites(hyper: Hyper, T: MeanStats) -> dict[str, Array]:
    return {"mean": T.total + jnp.asarray(hyper["origin"], T.total.dtype)[None, :]}


def _unit_natural(hyper: Hyper, sites: Sites) -> MeanStats:
    mean = jnp.asarray(sites["mean"]) - jnp.asarray(hyper["origin"])[None, :]
    return MeanStats(-0.5 * (mean**2).sum(-1), mean)


def _unit_defaults(x: np.ndarray, num_components: int) -> dict[str, Any]:
    return {"location": np.zeros(x.shape[1]), "strength": 1.0}


# ---------------------------------------------------------------------------------------------------------------------
# The choice

_MEAN = ("component", "column")
_SETTABLE = ("location", "strength", "dof", "scatter")


def _wishart_emission(tied: bool) -> Emission:
    return Emission(
        family=normal_wishart,
        parameters=_SETTABLE,
        defaults=_defaults(np.diag, lambda dimension: dimension + 2.0),
        prior=partial(_wishart_prior, tied=tied),
        program=partial(_wishart_program, tied=tied),
        features=_centred,
        log_density=_wishart_log_density,
        statistics=_tied_statistics if tied else _full_statistics,
        sites=_wishart_sites,
        natural=partial(_wishart_natural, tied=tied),
        shapes=lambda dimension: _shapes(dimension, (dimension, dimension)),
        dims={"mean": _MEAN, "precision": ("column", "column_") if tied else (*_MEAN, "column_")},
    )


def _gamma_emission(diagonal: bool) -> Emission:
    return Emission(
        family=normal_gamma,
        parameters=_SETTABLE,
        defaults=_defaults(np.asarray if diagonal else np.mean, lambda dimension: 3.0),
        prior=partial(_gamma_prior, diagonal=diagonal),
        program=partial(_gamma_program, diagonal=diagonal),
        features=_squares,
        log_density=_gamma_log_density,
        statistics=_diag_statistics if diagonal else _spherical_statistics,
        sites=_gamma_sites,
        natural=partial(_gamma_natural, diagonal=diagonal),
        shapes=lambda dimension: _shapes(dimension, (dimension,) if diagonal else ()),
        dims={"mean": _MEAN, "precision": _MEAN if diagonal else ("component",)},
    )


GAUSSIANS: dict[str, Emission] = {
    "full": _wishart_emission(tied=False),
    "tied": _wishart_emission(tied=True),
    "diag": _gamma_emission(diagonal=True),
    "spherical": _gamma_emission(diagonal=False),
    "unit": Emission(
        family=normal_mean,
        parameters=("location", "strength"),
        defaults=_unit_defaults,
        prior=_unit_prior,
        program=_unit_program,
        features=_centred,
        log_density=_unit_log_density,
        statistics=_unit_statistics,
        sites=_unit_sites,
        natural=_unit_natural,
        shapes=lambda dimension: {"location": (dimension,), "strength": ()},
        dims={"mean": _MEAN},
    ),
}
