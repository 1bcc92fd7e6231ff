"""Relative rates: what makes negative binomial counts of Poisson ones. Given the component k of a row, for every column d,

    u_d | k ~ Gamma(r_kd, r_kd),    x_d | u_d, k ~ Poisson(u_d rate_kd),    x_d | k ~ NegativeBinomial(rate_kd, r_kd)
    u_d | x_d, k ~ Gamma(r_kd + x_d, r_kd + rate_kd)

The mean of u is 1, so that rate is that of the counts, and 1 / r its variance (Greenwood and Yule 1920).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma

from models.families.log_gamma import log_gamma
from models.latents.categorical import categorical
from models.latents.hidden import given_component

START = 5.0  # shape and rate of u before any component is known


class RateGiven(NamedTuple):
    """Natural parameters of (component, relative rates): what every component makes of a row."""

    component: Array  # (N, K): log of the negative binomial probability, and the component's log probability
    shape: Array  # (N, K, D)
    rate: Array  # (N, K, D)


class Rated(NamedTuple):
    """A component and relative rates, expected given each component or drawn."""

    component: Array  # (N, K)
    factor: Array  # (N, K, D), or (N, K, 1) at a start
    log_factor: Array


def _expected(key: Array, component: Array, local: RateGiven) -> Rated:
    return Rated(component, local.shape / local.rate, digamma(local.shape) - jnp.log(local.rate))


def _sample(key: Array, local: RateGiven) -> Rated:
    key_component, key_factor = jax.random.split(key)
    component = categorical.sample(key_component, local.component)
    shape, rate = ((component[:, :, None] * part).sum(1) for part in (local.shape, local.rate))
    log_factor = (log_gamma(key_factor, shape) - jnp.log(rate))[:, None, :]
    log_factor = jnp.broadcast_to(log_factor, local.rate.shape)
    return Rated(component, jnp.exp(log_factor), log_factor)


def _independent(key: Array, probs: Array) -> Rated:
    """A start knows components alone: relative rates are as under r = `START`."""
    factor = jnp.ones_like(probs)[:, :, None]
    return Rated(probs, factor, factor * (digamma(START) - jnp.log(START)))


class RatedRows(NamedTuple):
    """Rows with their components and relative rates, which the statistics of a negative binomial block read."""

    z: Rated
    rows: Any  # u(x) of the Poisson block


relative_rates = given_component(_expected, _sample, _independent, RatedRows)
