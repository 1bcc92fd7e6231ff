"""The Normal family of means with an identity precision; other families are in `models.families.conjugate`."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import Family


class MeanStats(NamedTuple):
    """Statistics of a mean under a known identity precision: T(μ) = (−½ μᵀμ, μ); those of a row: (1, x)."""

    strength: Array  # κ (...)
    total: Array  # s (..., D)


# Functions of the Normal prior on a mean, N(s/κ, I/κ).


def _normal_point(mean: Array) -> MeanStats:
    return MeanStats(-0.5 * (mean * mean).sum(-1), mean)


def _normal_log_partition(nu: MeanStats) -> Array:
    dimension = nu.total.shape[-1]
    exponent = 0.5 * (nu.total**2).sum(-1) / nu.strength
    return (dimension / 2 * jnp.log(2 * jnp.pi / nu.strength) + exponent).sum()


def _normal_mean(nu: MeanStats) -> MeanStats:
    T = _normal_mode(nu)
    return T._replace(strength=T.strength - 0.5 * nu.total.shape[-1] / nu.strength)


def _normal_mode(nu: MeanStats) -> MeanStats:
    return _normal_point(nu.total / nu.strength[..., None])


def _normal_sample(key: Array, nu: MeanStats) -> MeanStats:
    noise = jax.random.normal(key, nu.total.shape, nu.total.dtype)
    return _normal_point((nu.total + noise * jnp.sqrt(nu.strength)[..., None]) / nu.strength[..., None])


def _why_no_normal_mode(nu: MeanStats) -> str | None:
    if not (np.asarray(nu.strength) > 0).all():
        return "a component has no rows, so its mean is undefined. Use a proper prior, or fewer components"
    return None


normal_mean = Family(_normal_log_partition, _normal_mean, _normal_mode, _normal_sample, _why_no_normal_mode)
