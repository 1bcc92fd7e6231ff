"""Relative rates: what makes negative binomial counts of Poisson ones. Given the component k of a row, for every column d,

    u_d | k ~ Gamma(r_kd, r_kd),    x_d | u_d, k ~ Poisson(u_d rate_kd),    x_d | k ~ NegativeBinomial(rate_kd, r_kd)
    u_d | x_d, k ~ Gamma(r_kd + x_d, r_kd + rate_kd)

The mean of u is 1, so that rate is that of the counts, and 1 / r its variance (Greenwood and Yule 1920).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma

from models.base import Latent, Reported
from models.families.log_gamma import log_gamma
from models.latents.categorical import categorical, entropy, mode
from models.latents.hidden import Hidden

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


def _expected(update: Callable[[Array, Array], Array]) -> Callable[[Array, RateGiven], Rated]:
    """Component by ``update``; the rates stay integrated out, and have their means given each component."""

    def expected(key: Array, local: RateGiven) -> Rated:
        log_factor = digamma(local.shape) - jnp.log(local.rate)
        return Rated(update(key, local.component), local.shape / local.rate, log_factor)

    return expected


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


def _component(value: RateGiven | Rated) -> Array:
    return value.component


_latent = Latent(
    log_partition=lambda local: categorical.log_partition(local.component),
    mean=_expected(categorical.mean),
    mode=_expected(mode),
    sample=_sample,
    energy=lambda z, local: categorical.energy(z.component, local.component),
    reported=Reported(_component, lambda z, local: entropy(z.component, local.component)),
    independent=_independent,
    values="discrete",
)


class RatedRows(NamedTuple):
    """Rows with their components and relative rates, which the statistics of a negative binomial block read."""

    z: Rated
    rows: Any  # u(x) of the Poisson block


relative_rates = Hidden(
    latent=_latent,
    component=_component,
    on_component=lambda function, local: local._replace(component=function(local.component)),
    complete=RatedRows,
)
