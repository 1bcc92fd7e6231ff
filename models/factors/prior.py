"""The prior of factor models, as hyperparameters and as pseudo-statistics, and random starts.

With automatic relevance determination (MacKay 1994, Bishop 1999) each factor has a prior precision α_l of the loadings,

    relevance_l ~ Gamma(relevance_shape, relevance_rate),    loading_dl | relevance, precision ~ Normal(0, (α_l precision_d)⁻¹)

with α_l = loading_strength relevance_l: the data switch off factors that they do not need. Relevances and loadings are
conjugate given each other; `coupling` is the part of the log prior that involves both.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import Data, Hyper, Stats, on_host
from models.factors.linear_regression import RegressionStats
from models.families.conjugate import GammaStats
from models.families.user_prior import check_hyper, given_numbers
from models.rows.scales import usual_moments

BLOCK = "loading"
RELEVANCE = "relevance"
PRIOR = {BLOCK: {name: name for name in ("loading_strength", "location", "strength", "dof", "scatter")}}
WITH_RELEVANCE = PRIOR | {RELEVANCE: {"shape": "relevance_shape", "rate": "relevance_rate"}}


def hyperparameters(data: Data, shared: bool, relevance: bool, prior: Any) -> dict[str, np.ndarray]:
    """The hyperparameters: defaults, replaced by the user's numbers; raises `ZooError`.

    For a flat prior only constants: the origin, and the spread of the columns, which scales the starts.
    """
    mean, variance = usual_moments(data)
    constants = {"origin": mean, "spread": np.sqrt(np.where(variance > 0, variance, 1.0))}
    if prior == "flat":
        return constants
    scatter = variance.mean() / 2 if shared else variance / 2
    usual = {"loading_strength": 0.1, "location": mean, "strength": 0.1, "dof": 3.0, "scatter": scatter}
    if relevance:  # a loading in units of the noise is then about 0.1 / |standard normal|: heavy-tailed
        usual |= {"loading_strength": 1.0, "relevance_shape": 0.5, "relevance_rate": 0.005}
    dimension = len(mean)
    shapes: dict[str, tuple[int, ...]] = {
        "loading_strength": (),
        "location": (dimension,),
        "strength": (),
        "dof": (),
        "scatter": () if shared else (dimension,),
    }
    if relevance:
        shapes |= {"relevance_shape": (), "relevance_rate": ()}
    return check_hyper(usual | given_numbers(prior, WITH_RELEVANCE if relevance else PRIOR), shapes, {}) | constants


def prior_statistics(hyper: Hyper, num_factors: int, shared: bool, relevance: bool, proper: bool) -> dict[str, Stats]:
    """The prior as pseudo-statistics of the regressions on (z, 1), and of the relevances; flat: nu = 0."""
    nu: dict[str, Stats] = {BLOCK: _regression_prior(hyper, num_factors, shared, proper)}
    if relevance:
        each = np.full(num_factors, 1.0)
        nu[RELEVANCE] = GammaStats(on_host((hyper["relevance_shape"] - 1) * each), on_host(hyper["relevance_rate"] * each))
    return nu


def coupling(prior: Mapping[str, Stats], T: Mapping[str, Stats]) -> Array:
    """Σ_l ½ D log relevance_l + (relevance_l − 1) < T of the loadings, their prior at relevance 1 >: a scalar."""
    relevance = -T[RELEVANCE].exposure
    size = len(relevance)
    at_one = jnp.asarray(_diagonal(prior[BLOCK].strength, size)) * _diagonal(T[BLOCK].strength, size)  # (D, L)
    log_density: Array = 0.5 * len(at_one) * T[RELEVANCE].events.sum() + ((relevance - 1)[None, :] * at_one).sum()
    return log_density


def _diagonal(matrices: Array, size: int) -> Array:
    """The first ``size`` entries of the diagonals of matrices (..., P, P): one row per matrix."""
    return jnp.diagonal(matrices, axis1=-2, axis2=-1)[..., :size].reshape(-1, size)


def no_relevance(num_factors: int) -> GammaStats:
    """The statistics of rows for the relevances: zero."""
    return GammaStats(jnp.zeros(num_factors), jnp.zeros(num_factors))


def _regression_prior(hyper: Hyper, num_factors: int, shared: bool, proper: bool) -> RegressionStats:
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
    """Drop the batch dimension if all columns share a precision."""
    return jax.tree.map(lambda leaf: leaf[0], nu) if shared else nu


def start(num_factors: int, shared: bool, relevance: bool, hyper: Hyper, key: Array) -> dict[str, Stats]:
    """Random start: half of the variance of each column in random loadings, half in noise.

    Relevances are between 1 and 1000, so that starts differ in the number of active factors.
    """
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
    statistics: dict[str, Stats] = {BLOCK: nu}
    if relevance:
        pseudo = jnp.full(num_factors, 10.0)
        powers = jax.random.uniform(jax.random.fold_in(key, 1), (num_factors,), minval=0.0, maxval=3.0)
        statistics[RELEVANCE] = GammaStats(pseudo, pseudo / 10**powers)
    return statistics


def _with_zero(z: Array) -> Array:
    return jnp.concatenate([z, jnp.zeros((z.shape[0], 1), z.dtype)], axis=1)
