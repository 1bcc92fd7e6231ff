"""Columns as regressions on factors: the density of their cells given the factors of a row, and the statistics.

Column d is coefficients_dᵀ z̃ + noise with z̃ = (z, 1), of the factors z of a row. With τ_d the precision of the noise and w_d
the loadings, the observed cells of a row have the log density

    Σ_d log p(x_d | z) = peak(z) = pullᵀ z − ½ zᵀ precision z + …,    precision = Σ_d E[τ_d w_d w_dᵀ]

where T(θ) is a point, a draw or an expectation (`models.factors.linear_regression`).
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import Hyper, Sites, Stats
from models.factors.linear_regression import RegressionStats, point, remainder
from models.factors.prior import BLOCK, RELEVANCE, no_relevance
from models.families.conjugate import GammaStats
from models.latents.gaussian import Values
from models.rows.centring import LOG_2PI


class Observed(NamedTuple):
    """Rows minus the origin, 0 where missing, and which cells are observed (None: all)."""

    x: Array  # (N, D)
    seen: Array | None  # (N, D), 1 or 0


class Columns(NamedTuple):
    """D regressions on L factors, as T(θ) states them."""

    half_log: Array  # (D,): E[½ log τ] − ½ log 2π
    precision: Array  # (D,): E[τ]
    loading: Array  # (D, L)
    mean: Array  # (D,)
    left: Array  # (D, L + 1, L + 1): E[τ w̃ w̃ᵀ] beyond that of the means; 0 at a point
    scaled: Array  # (D, L): precision × loading
    outer: Array  # (D, L, L): E[τ w wᵀ]


def regressions(nu: RegressionStats) -> Columns:
    """The regressions of T(θ), one per column also where all share a precision."""
    dimension = int(np.prod(nu.total.shape[:-1]))
    size = nu.total.shape[-1]
    half_log = jnp.broadcast_to(nu.exponent, (dimension,)) - 0.5 * LOG_2PI
    precision = jnp.broadcast_to(-2 * nu.square, (dimension,))
    coefficients = nu.total.reshape(dimension, size) / precision[:, None]
    left = remainder(nu).reshape(dimension, size, size)
    loading, mean = coefficients[:, :-1], coefficients[:, -1]
    scaled = precision[:, None] * loading
    outer = loading[:, :, None] * scaled[:, None, :] + left[:, :-1, :-1]
    return Columns(half_log, precision, loading, mean, left, scaled, outer)


class CellTerms(NamedTuple):
    """Σ_d log p(x_d | z) over the observed cells of N rows, as a quadratic function of their factors z."""

    precision: Array  # (N, L, L)
    pull: Array  # (N, L)
    away: Array  # (N, D): cells minus the mean, 0 where missing
    together: Array  # (N, L + 1, L + 1): Σ of `Columns.left` over the observed cells


def cell_terms(known: Columns, x: Array, seen: Array) -> CellTerms:
    """Sums over the observed cells of every row; ``seen`` (N, D) is 1 or 0."""
    dimension, size = known.left.shape[:2]
    number = x.shape[0]
    away = seen * (x - known.mean[None, :])
    together = (seen @ known.left.reshape(dimension, -1)).reshape(number, size, size)
    gathered = (seen @ known.outer.reshape(dimension, -1)).reshape(number, size - 1, size - 1)
    return CellTerms(gathered, away @ known.scaled - together[:, :-1, -1], away, together)


def peak(known: Columns, terms: CellTerms, seen: Array, middle: Array) -> Array:
    """(N,): Σ_d E[log p(x_d | z)] over the observed cells at factors ``middle`` (N, L), made of residuals."""
    bent = quadratic(middle, terms.together)
    residual = terms.away - seen * (middle @ known.loading.T)
    return seen @ known.half_log - 0.5 * (residual**2 @ known.precision) - 0.5 * bent


def quadratic(middle: Array, left: Array) -> Array:
    """z̃ᵀ R z̃ of each row, z̃ = (z, 1): (N,)."""
    whole = with_one(middle)
    return jnp.einsum("ni,nij,nj->n", whole, jnp.broadcast_to(left, (whole.shape[0], *left.shape[1:])), whole)


def with_one(z: Array) -> Array:
    return jnp.concatenate([z, jnp.ones((z.shape[0], 1), z.dtype)], axis=1)


def statistics(shared: bool, relevance: bool, weight: Array, z: Values, rows: Observed) -> dict[str, Stats]:
    """Σ_n weight (1, E[z̃ z̃ᵀ], x E[z̃], x²) of each column over its observed cells; summed over columns if ``shared``."""
    whole = with_one(z.mean)
    size, dimension = whole.shape[1], rows.x.shape[1]
    weighted = weight[:, None] * rows.x
    total = weighted.T @ whole  # missing cells are 0
    square = (weighted * rows.x).sum(0)
    if rows.seen is None:
        both = (weight[:, None] * whole).T @ whole
        if z.covariance is not None:
            both = both.at[:-1, :-1].add(weight.sum() * z.covariance)
        strength = jnp.broadcast_to(both, (dimension, size, size))
        exponent = jnp.broadcast_to(weight.sum(), (dimension,))
    else:
        each = whole[:, :, None] * whole[:, None, :]
        if z.covariance is not None:
            each = each.at[:, :-1, :-1].add(z.covariance)
        counted = weight[:, None] * rows.seen
        strength = (counted.T @ each.reshape(-1, size * size)).reshape(dimension, size, size)
        exponent = counted.sum(0)
    nu = RegressionStats(exponent, strength[:, None], total[:, None], square)
    if shared:
        nu = RegressionStats(exponent.sum(), strength, total, square.sum())
    return {BLOCK: nu, RELEVANCE: no_relevance(size - 1)} if relevance else {BLOCK: nu}


def sites(relevance: bool, hyper: Hyper, T: Stats) -> dict[str, Array]:
    """T(θ) -> θ as the sites of the program."""
    nu = T[BLOCK]
    precision = -2 * nu.square
    coefficients = (nu.total / precision[..., None, None]).reshape(-1, nu.total.shape[-1])
    mean = coefficients[:, -1] + jnp.asarray(hyper["origin"], coefficients.dtype)
    found = {"loading": coefficients[:, :-1], "mean": mean, "precision": precision}
    return found | {"relevance": -T[RELEVANCE].exposure} if relevance else found


def natural(shared: bool, relevance: bool, hyper: Hyper, sites: Sites) -> dict[str, Stats]:
    """θ as the sites of the program -> T(θ)."""
    mean = jnp.asarray(sites["mean"]) - jnp.asarray(hyper["origin"])
    coefficients = jnp.concatenate([jnp.asarray(sites["loading"]), mean[:, None]], axis=1)
    precision = jnp.asarray(sites["precision"])
    T: dict[str, Stats] = {BLOCK: point(coefficients if shared else coefficients[:, None, :], precision, jnp.log(precision))}
    if relevance:
        each = jnp.asarray(sites["relevance"])
        T[RELEVANCE] = GammaStats(jnp.log(each), -each)
    return T
