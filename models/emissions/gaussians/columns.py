"""Gaussian blocks with independent columns: precisions by component and column (diag), by component (spherical), or 1 (unit).

NormalGamma, batch (K, D) of one mean or batch K of D means that share a precision; a Normal mean where it is known. Each cell
counts for its own column, so that any may be missing (errata E19).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from jax.scipy.special import gammaln
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.base import Hyper, Sites, on_host
from models.families.conjugate import GaussianStats, gamma_student
from models.families.normal_mean import MeanStats
from models.rows.centring import LOG_2PI, centre, flat
from models.rows.masks import Cells


class Squares(NamedTuple):
    """Complete rows as monomials about the origin, so that both halves of a sweep are matrix products."""

    monomials: Array  # (N, 2 D + 1): (x_1², …, x_D², x, 1)


class ObservedSquares(NamedTuple):
    """The same of rows with missing cells, every cell with a 1 of its own: 0 where missing, so that it counts nowhere."""

    monomials: Array  # (N, 3 D): (x_1², …, x_D², x, observed)


def squares(hyper: Hyper, x: Array | Cells) -> Squares | ObservedSquares:
    centred = centre(hyper, x)
    if isinstance(x, Cells):
        return ObservedSquares(jnp.concatenate([centred**2, centred, x.observed.astype(centred.dtype)], axis=1))
    return Squares(jnp.concatenate([centred**2, centred, jnp.ones((x.shape[0], 1), x.dtype)], axis=1))


def gamma_log_density(T: GaussianStats) -> Callable[[Squares | ObservedSquares], Array]:
    """< T, u(x) > − ½ log 2π a cell, every column with a precision of its own or all D sharing one."""
    total = T.total.reshape(T.total.shape[0], -1)
    half_log, strength, square = (leaf.reshape(total.shape[0], -1) for leaf in (T.exponent, T.strength, T.square))
    constant = half_log + strength - 0.5 * LOG_2PI  # (K, D)
    both = jnp.concatenate([jnp.broadcast_to(square, total.shape), total], axis=1)

    def log_density(features: Squares | ObservedSquares) -> Array:
        cells = constant if isinstance(features, ObservedSquares) else constant.sum(1, keepdims=True)
        return features.monomials @ jnp.concatenate([both, cells], axis=1).T

    return log_density


def gamma_predictive(nu: GaussianStats) -> Callable[[Squares], Array]:
    """Log of the Student t that integrates mean and precision out, a column each or of all columns together: (N, K)."""
    student = gamma_student(nu)
    num_components = nu.total.shape[0]
    mean = student.mean.reshape(num_components, -1)
    shape, rate = (leaf.reshape(num_components, -1) for leaf in (student.shape, student.scale))  # (K, D), or (K, 1)
    each = mean.shape[1] // shape.shape[1]  # columns that share a precision
    shrink = student.shrink.reshape(mean.shape)
    scale = 0.5 * shrink / rate
    gammas = gammaln(shape + 0.5 * each) - gammaln(shape) - 0.5 * each * jnp.log(rate)
    constant = 0.5 * (jnp.log(shrink) - LOG_2PI).sum(1) + gammas.sum(1)

    def log_density(features: Squares) -> Array:
        x = features.monomials[:, mean.shape[1] : -1].T
        # Component by component and rows last: no array of all components, rows and columns.
        away = [scale[k][:, None] * (x - mean[k][:, None]) ** 2 for k in range(num_components)]
        shared = (part if each == 1 else part.sum(0, keepdims=True) for part in away)
        logs = [((shape[k] + 0.5 * each)[:, None] * jnp.log1p(part)).sum(0) for k, part in enumerate(shared)]
        return constant[None, :] - jnp.stack(logs, axis=1)

    return log_density


def diag_statistics(weight: Array, features: Squares | ObservedSquares) -> GaussianStats:
    square, total, count = gamma_moments(weight, features)
    return GaussianStats(count, count[..., None], total[..., None, None], square)


def spherical_statistics(weight: Array, features: Squares | ObservedSquares) -> GaussianStats:
    square, total, count = gamma_moments(weight, features)
    return GaussianStats(count.sum(1), count, total[..., None], square.sum(1))


def gamma_moments(weight: Array, features: Squares | ObservedSquares) -> tuple[Array, Array, Array]:
    """Σ_n w_nk (x², x, 1) over the observed cells: (K, D) each."""
    sums = weight.T @ features.monomials
    dimension = sums.shape[1] // 3 if isinstance(features, ObservedSquares) else (sums.shape[1] - 1) // 2
    square, total, count = jnp.split(sums, (dimension, 2 * dimension), axis=1)
    return square, total, jnp.broadcast_to(count, total.shape)


def gamma_prior(hyper: Hyper, num_components: int, diagonal: bool) -> GaussianStats:
    shift = hyper["location"] - hyper["origin"]
    dimension = shift.shape[-1]
    batch, means = ((num_components, dimension), 1) if diagonal else ((num_components,), dimension)
    total = hyper["strength"] * shift.reshape(*((-1, 1, 1) if diagonal else (1, -1, 1)))
    square = hyper["scatter"] + hyper["strength"] * (shift**2 if diagonal else (shift**2).sum())
    return GaussianStats(
        on_host(np.full(batch, hyper["dof"] - 2.0 + means)),
        on_host(np.full((*batch, means), hyper["strength"])),
        on_host(np.broadcast_to(total, (*batch, means, 1))),
        on_host(np.broadcast_to(square, batch)),
    )


def gamma_program(hyper: Hyper, x: Array, num_components: int, proper: bool, diagonal: bool) -> dist.Distribution:
    """τ ~ Gamma(dof / 2, scatter / 2), μ | τ ~ Normal(location, 1 / (strength τ)); flat: improper uniform on both."""
    dimension = hyper["origin"].shape[-1]
    batch = (num_components, dimension) if diagonal else (num_components,)
    if proper:
        gamma = dist.Gamma(hyper["dof"] / 2, hyper["scatter"] / 2)
        precision = numpyro.sample("precision", gamma.expand(batch).to_event(len(batch)))
    else:
        precision = numpyro.sample("precision", flat(constraints.positive, batch))
    scale = jnp.broadcast_to(1 / jnp.sqrt(precision if diagonal else precision[:, None]), (num_components, dimension))
    if proper:
        normal = dist.Normal(hyper["location"][None, :], scale / jnp.sqrt(hyper["strength"]))
        mean = numpyro.sample("mean", normal.to_event(2))
    else:
        mean = numpyro.sample("mean", flat(constraints.real, (num_components, dimension)))
    return dist.Normal(mean, scale).to_event(1)


def gamma_sites(hyper: Hyper, T: GaussianStats) -> dict[str, Array]:
    precision = -2 * T.square
    mean = (T.total / precision[..., None, None]).reshape(T.total.shape[0], -1)
    return {"mean": mean + jnp.asarray(hyper["origin"], mean.dtype)[None, :], "precision": precision}


def gamma_natural(hyper: Hyper, sites: Sites, diagonal: bool) -> GaussianStats:
    mean = jnp.asarray(sites["mean"]) - jnp.asarray(hyper["origin"])[None, :]
    precision = jnp.asarray(sites["precision"])
    mean = mean[..., None, None] if diagonal else mean[..., None]
    total = precision[..., None, None] * mean
    return GaussianStats(0.5 * jnp.log(precision), -0.5 * (mean * total).sum(-1), total, -0.5 * precision)


def gamma_draw(key: Array, sites: Sites, z: Array) -> Array:
    scale = 1 / jnp.sqrt(sites["precision"])
    scale = scale[:, None] if scale.ndim == 1 else scale
    return sites["mean"][z] + scale[z] * unit_noise(key, sites, z)


def unit_noise(key: Array, sites: Sites, z: Array) -> Array:
    return jax.random.normal(key, (z.shape[0], sites["mean"].shape[1]), sites["mean"].dtype)


# ---------------------------------------------------------------------------------------------------------------------
# Unit covariance: document 002's simplified model, μ_k ~ Normal(location, I / strength)


class UnitRows(NamedTuple):
    """Rows about the origin, 0 where missing, and which cells are observed: None where all are."""

    x: Array  # (N, D)
    observed: Array | None


def unit_rows(hyper: Hyper, x: Array | Cells) -> UnitRows:
    rows = centre(hyper, x)
    return UnitRows(rows, x.observed.astype(rows.dtype) if isinstance(x, Cells) else None)


def unit_log_density(T: MeanStats) -> Callable[[UnitRows], Array]:
    constant, total = T.strength - 0.5 * LOG_2PI, T.total[..., 0]  # (K, D)

    def log_density(features: UnitRows) -> Array:
        constants = constant.sum(1)[None, :] if features.observed is None else features.observed @ constant.T
        return constants + features.x @ total.T - 0.5 * (features.x**2).sum(1)[:, None]

    return log_density


def unit_statistics(weight: Array, features: UnitRows) -> MeanStats:
    total = weight.T @ features.x
    count = weight.sum(0)[:, None] if features.observed is None else weight.T @ features.observed
    return MeanStats(jnp.broadcast_to(count, total.shape), total[..., None])


def unit_prior(hyper: Hyper, num_components: int) -> MeanStats:
    total = hyper["strength"] * (hyper["location"] - hyper["origin"])
    shape = (num_components, len(total))
    return MeanStats(on_host(np.full(shape, hyper["strength"])), on_host(np.tile(total, (num_components, 1))[..., None]))


def unit_program(hyper: Hyper, x: Array, num_components: int, proper: bool) -> dist.Distribution:
    shape = (num_components, hyper["origin"].shape[-1])
    location = jnp.broadcast_to(hyper["location"][None, :], shape) if proper else None
    prior = dist.Normal(location, 1 / jnp.sqrt(hyper["strength"])).to_event(2) if proper else flat(constraints.real, shape)
    return dist.Normal(numpyro.sample("mean", prior), 1.0).to_event(1)


def unit_sites(hyper: Hyper, T: MeanStats) -> dict[str, Array]:
    return {"mean": T.total[..., 0] + jnp.asarray(hyper["origin"], T.total.dtype)[None, :]}


def unit_natural(hyper: Hyper, sites: Sites) -> MeanStats:
    mean = jnp.asarray(sites["mean"]) - jnp.asarray(hyper["origin"])[None, :]
    return MeanStats(-0.5 * mean**2, mean[..., None])


def unit_draw(key: Array, sites: Sites, z: Array) -> Array:
    return sites["mean"][z] + unit_noise(key, sites, z)
