"""Families of local latent variables: the four verbs of `models.base.Latent`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

from models.base import Latent

# Categorical: z_n is one of K values, one-hot; local (N, K) are unnormalised log probabilities, E[z_n] = softmax(local_n).


def restrict(local: Array, allowed: Array | None) -> Array:
    """Natural parameters under a mask of allowed values.

    ``allowed`` is (N, K) and boolean: one true value is an observed label, several are a set of candidates, all are a
    missing label. A row that allows no value has log partition −inf.
    """
    return local if allowed is None else jnp.where(allowed, local, -jnp.inf)


def _scaled(local: Array) -> tuple[Array, Array]:
    """The largest entry (N,) of every row, and exp(local − largest) (N, K): one expression, that all verbs share."""
    largest = jax.lax.stop_gradient(local.max(axis=-1))
    largest = jnp.where(jnp.isfinite(largest), largest, 0)
    return largest, jnp.exp(local - largest[..., None])


def _log_partition(local: Array) -> Array:
    largest, scaled = _scaled(local)
    return largest + jnp.log(scaled.sum(axis=-1))


def _mean(key: Array, local: Array) -> Array:
    scaled = _scaled(local)[1]
    return scaled / scaled.sum(axis=-1, keepdims=True)


def _mode(key: Array, local: Array) -> Array:
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


def _entropy(z: Array, local: Array) -> Array:
    return _log_partition(local) - _energy(z, local)


def _independent(key: Array, probs: Array) -> Array:
    return probs


categorical = Latent(_log_partition, _mean, _mode, _sample, _energy, _entropy, _independent)


# Cells: a categorical component and, where a row has missing cells, their values, Gaussian given the component. Rows of
# complete blocks bring arrays (N, K), which are categorical.


class Completion(NamedTuple):
    """Natural parameters of (component, missing cells): what every component makes of a row."""

    component: Array  # (N, K): log density of the observed cells, and the component's log probability
    centre: Array  # (N, K, D): the row, completed by the mean of the missing cells
    root: Array  # (N, K, D, D): Cholesky factor of their precision, 1 on the diagonal of observed cells
    missing: Array  # (N, D): 1 where missing, 0 elsewhere


class Completed(NamedTuple):
    """A component and values of the missing cells, expected or drawn."""

    component: Array  # (N, K)
    centre: Array  # (N, K, D)
    covariance: Array | None  # (N, K, D, D) of the missing cells, 0 elsewhere; None for values that were drawn


def on_component(function: Callable[[Array], Array], local: Any) -> Any:
    """The natural parameters, those of the component changed by ``function``."""
    return local._replace(component=function(local.component)) if isinstance(local, Completion) else function(local)


def component_of(value: Any) -> Array:
    """(N, K): the component's part of natural parameters, or of a value."""
    component: Array = value.component if isinstance(value, Completion | Completed) else value
    return component


def _cells(verb: Callable[[Array, Array], Array]) -> Callable[[Array, Any], Any]:
    """Component by ``verb``, missing cells by their mean and covariance."""

    def completed(key: Array, local: Any) -> Any:
        component = verb(key, component_of(local))
        if not isinstance(local, Completion):
            return component
        identity = jnp.broadcast_to(jnp.eye(local.root.shape[-1], dtype=local.root.dtype), local.root.shape)
        both = local.missing[:, None, :, None] * local.missing[:, None, None, :]
        return Completed(component, local.centre, both * cho_solve((local.root, True), identity))

    return completed


def _cells_sample(key: Array, local: Any) -> Any:
    key_component, key_cells = jax.random.split(key)
    if not isinstance(local, Completion):
        return _sample(key, local)
    noise = jax.random.normal(key_cells, local.centre.shape, local.centre.dtype)
    drawn = solve_triangular(jnp.swapaxes(local.root, -1, -2), noise[..., None], lower=False)[..., 0]
    centre = local.centre + local.missing[:, None, :] * drawn
    return Completed(_sample(key_component, local.component), centre, None)


cells = Latent(
    log_partition=lambda local: _log_partition(component_of(local)),
    mean=_cells(_mean),
    mode=_cells(_mode),  # of the component; the cells stay integrated out, so that no spread is lost
    sample=_cells_sample,
    energy=lambda z, local: _energy(component_of(z), component_of(local)),
    entropy=lambda z, local: _entropy(component_of(z), component_of(local)),
    independent=_independent,
    report=component_of,
)
hidden_cells = cells._replace(discrete=False)  # where some row has missing cells
