"""Families of local latent variables: the functions of `models.base.Latent`."""

import jax
import jax.numpy as jnp
from jax import Array

from models.base import Latent, Reported

# Categorical: z_n is one of K values, one-hot; local (N, K) are unnormalised log probabilities, E[z_n] = softmax(local_n).


def restrict(local: Array, allowed_states: Array | None) -> Array:
    """Natural parameters under a mask of allowed values.

    ``allowed_states`` is (N, K) and boolean: one true value is an observed label, several are a set of candidates, all are a
    missing label. A row that allows no value has log partition −inf.
    """
    return local if allowed_states is None else jnp.where(allowed_states, local, -jnp.inf)


def _scaled(local: Array) -> tuple[Array, Array]:
    """The largest entry (N,) of every row, and exp(local − largest) (N, K): one expression, that all functions share."""
    largest = jax.lax.stop_gradient(local.max(axis=-1))
    largest = jnp.where(jnp.isfinite(largest), largest, 0)
    return largest, jnp.exp(local - largest[..., None])


def _log_partition(local: Array) -> Array:
    largest, scaled = _scaled(local)
    return largest + jnp.log(scaled.sum(axis=-1))


def _mean(key: Array, local: Array) -> Array:
    scaled = _scaled(local)[1]
    return scaled / scaled.sum(axis=-1, keepdims=True)


def mode(key: Array, local: Array) -> Array:
    """One-hot, the first of equals."""
    return jax.nn.one_hot(jnp.argmax(local, axis=-1), local.shape[-1], dtype=local.dtype)


def _sample(key: Array, local: Array) -> Array:
    """Inverse transform on the unnormalised cumulative sum: one uniform number a row.

    A value of probability zero is never drawn: its cumulative sum equals its predecessor's, and u < 1 keeps the
    threshold below the total.
    """
    cumulative = jnp.cumsum(_scaled(local)[1], axis=-1)
    threshold = jax.random.uniform(key, local.shape[:-1], local.dtype)[..., None] * cumulative[..., -1:]
    return jax.nn.one_hot((cumulative <= threshold).sum(axis=-1), local.shape[-1], dtype=local.dtype)


def _energy(z: Array, local: Array) -> Array:
    return jnp.where(z == 0, 0.0, z * local).sum(axis=-1)


def entropy(z: Array, local: Array) -> Array:
    """(N,): of the distribution whose mean is z."""
    return _log_partition(local) - _energy(z, local)


def _independent(key: Array, probs: Array) -> Array:
    return probs


categorical = Latent(_log_partition, _mean, mode, _sample, _energy, Reported(entropy=entropy), _independent)
