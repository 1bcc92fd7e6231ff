"""Gaussian blocks with independent columns: precisions by component and column (diag), by component (spherical), or 1 (unit).

NormalGamma, batch (K, D) of one column or batch K of D columns; a Normal mean where the precision is known.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.base import Hyper, Sites, on_host
from models.families import GaussianStats, MeanStats
from models.gaussian_rows import LOG_2PI, Centred, centre, flat


class Squares(NamedTuple):
    """Rows as monomials about the origin, so that both halves of a sweep are matrix products."""

    monomials: Array  # (N, 2 D + 1): (x_1², …, x_D², x, 1)


def squares(hyper: Hyper, x: Array) -> Squares:
    centred = centre(hyper, x)
    return Squares(jnp.concatenate([centred**2, centred, jnp.ones((x.shape[0], 1), x.dtype)], axis=1))


def gamma_log_density(T: GaussianStats) -> Callable[[Squares], Array]:
    """< T, u(x) > − (D/2) log 2π, every column with a precision of its own or all D sharing one."""
    num_components = T.total.shape[0]
    total = T.total.reshape(num_components, -1)
    dimension = total.shape[1]
    count, strength, square = (leaf.reshape(num_components, -1) for leaf in (T.exponent, T.strength, T.square))
    columns_per_precision = dimension // count.shape[1]
    constant = columns_per_precision * count.sum(1) + strength.sum(1) - 0.5 * dimension * LOG_2PI
    coefficients = jnp.concatenate([jnp.broadcast_to(square, total.shape), total, constant[:, None]], axis=1).T
    return lambda features: features.monomials @ coefficients


def diag_statistics(weight: Array, features: Squares) -> GaussianStats:
    square, total, count = gamma_moments(weight, features)
    count = jnp.broadcast_to(count[:, None], square.shape)
    return GaussianStats(count, count[..., None], total[..., None, None], square)


def spherical_statistics(weight: Array, features: Squares) -> GaussianStats:
    square, total, count = gamma_moments(weight, features)
    return GaussianStats(total.shape[1] * count, count[:, None], total[:, None, :], square.sum(1))


def gamma_moments(weight: Array, features: Squares) -> tuple[Array, Array, Array]:
    sums = weight.T @ features.monomials
    dimension = (sums.shape[1] - 1) // 2
    return sums[:, :dimension], sums[:, dimension:-1], sums[:, -1]


def gamma_prior(hyper: Hyper, num_components: int, diagonal: bool) -> GaussianStats:
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
    mean = mean[..., None, None] if diagonal else mean[:, None, :]
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


def unit_log_density(T: MeanStats) -> Callable[[Centred], Array]:
    constant = T.strength - 0.5 * T.total.shape[1] * LOG_2PI

    def log_density(features: Centred) -> Array:
        return constant[None, :] + features.x @ T.total.T - 0.5 * (features.x**2).sum(1)[:, None]

    return log_density


def unit_statistics(weight: Array, features: Centred) -> MeanStats:
    return MeanStats(weight.sum(0), weight.T @ features.x)


def unit_prior(hyper: Hyper, num_components: int) -> MeanStats:
    total = hyper["strength"] * (hyper["location"] - hyper["origin"])
    return MeanStats(on_host(np.full(num_components, hyper["strength"])), on_host(np.tile(total, (num_components, 1))))


def unit_program(hyper: Hyper, x: Array, num_components: int, proper: bool) -> dist.Distribution:
    shape = (num_components, hyper["origin"].shape[-1])
    location = jnp.broadcast_to(hyper["location"][None, :], shape) if proper else None
    prior = dist.Normal(location, 1 / jnp.sqrt(hyper["strength"])).to_event(2) if proper else flat(constraints.real, shape)
    return dist.Normal(numpyro.sample("mean", prior), 1.0).to_event(1)


def unit_sites(hyper: Hyper, T: MeanStats) -> dict[str, Array]:
    return {"mean": T.total + jnp.asarray(hyper["origin"], T.total.dtype)[None, :]}


def unit_natural(hyper: Hyper, sites: Sites) -> MeanStats:
    mean = jnp.asarray(sites["mean"]) - jnp.asarray(hyper["origin"])[None, :]
    return MeanStats(-0.5 * (mean**2).sum(-1), mean)


def unit_draw(key: Array, sites: Sites, z: Array) -> Array:
    return sites["mean"][z] + unit_noise(key, sites, z)
