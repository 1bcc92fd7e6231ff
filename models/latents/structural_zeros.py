"""Structural zeros: what makes zero-inflated counts of the counts of another block. Given component k, for every column d,

    s_d | k ~ Bernoulli(zero_probs_kd),    x_d = 0 if s_d = 1,    x_d | s_d = 0, k ~ the block
    P(s_d = 1 | x_d = 0, k) = zero_probs_kd / (zero_probs_kd + (1 − zero_probs_kd) p(0 | k));  a count above 0 is not structural

The block's latents, if it has any, are those of its counts given s_d = 0 (Lambert 1992).
"""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from models.latents.categorical import categorical
from models.latents.hidden import Hidden, drawn_given, given_component

START = 0.5  # probability that a zero is structural, before any component is known


class ZeroGiven(NamedTuple):
    """Natural parameters of (component, structural zeros, the block's latents)."""

    component: Array  # (N, K): log of the zero-inflated probability, and the component's log probability
    log_odds: Array  # (N, K, D): of a structural zero; −∞ where the count is above 0
    block: Any  # of every column alone: leaves (…, D)


class Inflated(NamedTuple):
    """A component, structural zeros and the block's latents, expected given each component or drawn."""

    component: Array  # (N, K)
    structural: Array  # (N, K, D), or (N, K, 1) at a start, which does not know the counts
    block: Any  # leaves (…, D), or (…, 1) at a start


class InflatedRows(NamedTuple):
    """Rows with their latents, which the statistics of a zero-inflated block read."""

    z: Inflated
    rows: Any  # u(x) of the block


@cache
def structural_zeros(hidden: Hidden) -> Hidden:
    """The latents of a block with latents ``hidden`` whose counts are zero-inflated; cached."""
    return given_component(partial(_expected, hidden), partial(_sample, hidden), partial(_independent, hidden), InflatedRows)


def _expected(hidden: Hidden, key: Array, component: Array, local: ZeroGiven) -> Inflated:
    block = jax.vmap(hidden.latent.mean, (None, -1), -1)(key, local.block)
    return Inflated(component, jax.nn.sigmoid(local.log_odds), block)


def _sample(hidden: Hidden, key: Array, local: ZeroGiven) -> Inflated:
    key_component, key_zero, key_block = jax.random.split(key, 3)
    component = categorical.sample(key_component, local.component)
    uniform = jax.random.uniform(key_zero, local.log_odds[:, :1].shape, local.log_odds.dtype)
    structural = (uniform < jax.nn.sigmoid(local.log_odds)).astype(uniform.dtype)
    keys = jax.random.split(key_block, local.log_odds.shape[-1])
    block = jax.vmap(partial(drawn_given, hidden), (0, None, -1), -1)(keys, component, local.block)
    return Inflated(component, structural, block)


def _independent(hidden: Hidden, key: Array, probs: Array) -> Inflated:
    assert hidden.latent.independent is not None
    block = jax.tree.map(lambda leaf: leaf[..., None], hidden.latent.independent(key, probs))
    return Inflated(probs, jnp.full_like(probs, START)[:, :, None], block)
