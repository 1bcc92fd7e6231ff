"""The prior of factor models, as numbers and as pseudo-statistics, and where their iterations start."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import Data, Hyper, on_host
from models.gaussian_rows import moments
from models.hyperparameters import check_hyper, given_numbers
from models.regression import RegressionStats

BLOCK = "loading"
PRIOR = {BLOCK: {name: name for name in ("loading_strength", "location", "strength", "dof", "scatter")}}


def hyperparameters(data: Data, num_factors: int, shared: bool, prior: Any) -> dict[str, np.ndarray]:
    """The prior in textbook terms, as numbers: the defaults with the user's over them; raises `ZooError`.

    For a flat prior only the constants: origin, and the spread of the columns, which starts are scaled to.
    """
    mean, variance = moments(data)
    constants = {"origin": mean, "spread": np.sqrt(variance)}
    if prior == "flat":
        return constants
    scatter = variance.mean() / 2 if shared else variance / 2
    usual = {"loading_strength": 0.1, "location": mean, "strength": 0.1, "dof": 3.0, "scatter": scatter}
    dimension = len(mean)
    shapes: dict[str, tuple[int, ...]] = {
        "loading_strength": (),
        "location": (dimension,),
        "strength": (),
        "dof": (),
        "scatter": () if shared else (dimension,),
    }
    return check_hyper(usual | given_numbers(prior, PRIOR), shapes, {}) | constants


def prior_statistics(hyper: Hyper, num_factors: int, shared: bool, proper: bool) -> RegressionStats:
    """The prior as pseudo-statistics of the regressions on (z, 1); flat: nu = 0."""
    dimension, size = len(hyper["origin"]), num_factors + 1
    shape = (1, dimension) if shared else (dimension, 1)  # (batch, regressions that share a precision)
    if not proper:
        zeros = (np.zeros(shape[0]), np.zeros((*shape, size, size)), np.zeros((*shape, size)), np.zeros(shape[0]))
        return _squeezed(RegressionStats(*map(on_host, zeros)), shared)
    shift = hyper["location"] - hyper["origin"]
    strength = np.diag(np.append(np.full(num_factors, float(hyper["loading_strength"])), float(hyper["strength"])))
    total = np.zeros((*shape, size))
    total[..., -1] = (hyper["strength"] * shift).reshape(shape)
    square = hyper["scatter"] + hyper["strength"] * (shift**2).reshape(shape).sum(1)
    exponent = np.full(shape[0], float(hyper["dof"]) - 2 + shape[1] * size)
    leaves = (exponent, np.broadcast_to(strength, (*shape, size, size)), total, square)
    return _squeezed(RegressionStats(*map(on_host, leaves)), shared)


def _squeezed(nu: RegressionStats, shared: bool) -> RegressionStats:
    """Without the batch of one, where all columns share a precision."""
    return jax.tree.map(lambda leaf: leaf[0], nu) if shared else nu


def start(num_factors: int, shared: bool, hyper: Hyper, key: Array) -> dict[str, RegressionStats]:
    """Nu whose mode has half of every column's variance in random loadings and half in noise."""
    variance = jnp.asarray(hyper["spread"]) ** 2
    variance = jnp.broadcast_to(variance.mean(), variance.shape) if shared else variance
    noise = jax.random.normal(key, (len(variance), num_factors), variance.dtype)
    loading = noise * jnp.sqrt(variance / (2 * num_factors))[:, None]
    coefficients = _with_zero(loading)
    number = 2.0 * (num_factors + 2)  # pseudo-rows: more than coefficients
    size = num_factors + 1
    strength = jnp.broadcast_to(number * jnp.eye(size), (len(variance), size, size))
    square = number * (0.5 * variance + (coefficients**2).sum(1))
    exponent = jnp.full(len(variance), number)
    nu = RegressionStats(exponent, strength[:, None], number * coefficients[:, None], square)
    if shared:
        nu = RegressionStats(exponent.sum(), strength, number * coefficients, square.sum())
    return {BLOCK: nu}


def _with_zero(z: Array) -> Array:
    return jnp.concatenate([z, jnp.zeros((z.shape[0], 1), z.dtype)], axis=1)
