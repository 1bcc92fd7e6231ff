"""Precision factors: latents given which a Student-t row is Gaussian. Given the component k of a row of D columns,

    u | k ~ Gamma(ν_k / 2, ν_k / 2),    x | u, k ~ Normal(μ_k, (u Λ_k)⁻¹),    x | k ~ Student-t(ν_k, μ_k, Λ_k⁻¹)
    u | x, k ~ Gamma((ν_k + D) / 2, (ν_k + (x − μ_k)ᵀ Λ_k (x − μ_k)) / 2)

so that E[u | x, k] is small in rows far away, which then count little (Lange, Little and Taylor 1989; Peel and McLachlan 2000).

Of a row with missing cells, x and D are the observed cells and their number, and Λ_k⁻¹ is their block of it. Where a matrix
ties the columns together, the missing cells are latents, too: given u they are those of a Gaussian
(`models.latents.missing_cells`), with the covariance divided by u (Liu 1995).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma

from models.families.log_gamma import log_gamma
from models.latents.categorical import categorical
from models.latents.hidden import given_component
from models.latents.missing_cells import Completed, Completion, covariance_of, noise_of

START = 5.0  # shape and rate of u before any component is known: ν = 10


class FactorGiven(NamedTuple):
    """Natural parameters of (component, factor): those of a row under every component."""

    component: Array  # (N, K): log of the Student-t density, and the component's log probability
    shape: Array  # (1, K): of u given the component and the row; (N, K) where cells may be missing
    rate: Array  # (N, K)
    cells: Completion | None = None  # the missing cells given u = 1, where they are latents


class Factored(NamedTuple):
    """A component and a precision factor, expected given each component or drawn."""

    component: Array  # (N, K)
    factor: Array  # (N, K)
    log_factor: Array  # (N, K)
    cells: Completed | None = None  # the missing cells; their covariance is that given u = 1


def _expected(key: Array, component: Array, local: FactorGiven) -> Factored:
    given = local.cells
    cells = None if given is None else Completed(component, given.centre, covariance_of(given))
    return Factored(component, local.shape / local.rate, digamma(local.shape) - jnp.log(local.rate), cells)


def _sample(key: Array, local: FactorGiven) -> Factored:
    key_component, key_factor = jax.random.split(key)
    component = categorical.sample(key_component, local.component)
    shape, rate = (component * local.shape).sum(-1), (component * local.rate).sum(-1)
    log_factor = (log_gamma(key_factor, shape) - jnp.log(rate))[:, None]
    log_factor = jnp.broadcast_to(log_factor, component.shape)
    cells = None
    if local.cells is not None:
        noise = noise_of(jax.random.fold_in(key_factor, 1), local.cells) * jnp.exp(-0.5 * log_factor)[..., None]
        cells = Completed(component, local.cells.centre + noise, None)
    return Factored(component, jnp.exp(log_factor), log_factor, cells)


def _independent(key: Array, probs: Array) -> Factored:
    """A start knows components alone: factors are as under ν = 2 `START`."""
    factor = jnp.ones_like(probs)
    return Factored(probs, factor, factor * (digamma(START) - jnp.log(START)))


class FactoredRows(NamedTuple):
    """Rows with their components and precision factors, which the statistics of a Student-t block read."""

    z: Factored
    rows: Any  # u(x) of the Gaussian block


precision_factors = given_component(_expected, _sample, _independent, FactoredRows)
