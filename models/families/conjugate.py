"""Conjugate families of parameters, as `models.base.Family`, with natural parameters in the form of statistics.

A Gaussian block holds groups of ``G`` means that share one precision. One precision per component is a batch of K groups with
one mean (``full``, ``diag``, ``spherical``); a precision shared by all components is one group of K means (``tied``).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import gammaln, multigammaln

from models.base import Family, Stats
from models.families.cholesky import half_log_determinant
from models.families.log_gamma import log_gamma

# ---------------------------------------------------------------------------------------------------------------------
# Dirichlet: T = log p (..., V), nu = concentration − 1 + counts


def _dirichlet_log_partition(nu: Array) -> Array:
    return (gammaln(nu + 1).sum(-1) - gammaln((nu + 1).sum(-1))).sum()


def _dirichlet_mean(nu: Array) -> Array:
    return jax.scipy.special.digamma(nu + 1) - jax.scipy.special.digamma((nu + 1).sum(-1, keepdims=True))


def log_mean(nu: Array) -> Array:
    """Log E[p]: the log predictive probabilities of one draw."""
    return jnp.log(nu + 1) - jnp.log((nu + 1).sum(-1, keepdims=True))


def _dirichlet_mode(nu: Array) -> Array:
    return jnp.log(nu) - jnp.log(nu.sum(-1, keepdims=True))


def _dirichlet_sample(key: Array, nu: Array) -> Array:
    draws = log_gamma(key, nu + 1)  # on the log scale: small concentrations underflow otherwise
    return draws - jax.nn.logsumexp(draws, axis=-1, keepdims=True)


def why_no_dirichlet_mode(nu: Array, sums: Callable[[np.ndarray], np.ndarray] = lambda nu: nu.sum(-1)) -> str | None:
    """No mode exists with a negative count, or if all counts of a row are 0; a single zero count has its mode at 0."""
    counts = np.asarray(nu)
    if not (counts >= 0).all():
        return (
            f"a probability has no interior mode: its posterior concentration is {float(counts.min()) + 1:.4g}, and below 1 "
            "the density is unbounded at 0. Use a prior concentration of more than 1"
        )
    if not (np.asarray(sums(counts)) > 0).all():
        return (
            "probabilities are undefined, because nothing was counted for them (a component without rows, a state or token "
            "that is never left): all values are maxima. Use a prior concentration of more than 1, or fewer components"
        )
    return None


dirichlet = Family(_dirichlet_log_partition, _dirichlet_mean, _dirichlet_mode, _dirichlet_sample, why_no_dirichlet_mode)


def joint(families: Mapping[str, Family]) -> Family:
    """Independent families, combined by name into one family on a dict of statistics."""

    def each(function: str) -> Callable[[Stats], Stats]:
        return lambda nu: {name: getattr(family, function)(nu[name]) for name, family in families.items()}

    def sample(key: Array, nu: Stats) -> Stats:
        keys = jax.random.split(key, len(families))
        return {name: family.sample(k, nu[name]) for k, (name, family) in zip(keys, families.items(), strict=True)}

    return Family(
        log_partition=lambda nu: sum((family.log_partition(nu[name]) for name, family in families.items()), jnp.zeros(())),
        mean=each("mean"),
        mode=each("mode"),
        sample=sample,
        why_no_mode=lambda nu: next((why for name, family in families.items() if (why := family.why_no_mode(nu[name]))), None),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Gamma: T = (log λ, −λ), nu = (shape − 1 + counts, rate + exposure)


class GammaStats(NamedTuple):
    """Statistics of Poisson rates, and natural parameters of their prior: counts of events, and exposures (...)."""

    events: Array
    exposure: Array


def _rate_point(log_rate: Array) -> GammaStats:
    return GammaStats(log_rate, -jnp.exp(log_rate))


def _rate_log_partition(nu: GammaStats) -> Array:
    return (gammaln(nu.events + 1) - (nu.events + 1) * jnp.log(nu.exposure)).sum()


def _rate_mean(nu: GammaStats) -> GammaStats:
    shape = nu.events + 1
    return GammaStats(jax.scipy.special.digamma(shape) - jnp.log(nu.exposure), -shape / nu.exposure)


def _rate_mode(nu: GammaStats) -> GammaStats:
    return _rate_point(jnp.log(nu.events) - jnp.log(nu.exposure))


def _rate_sample(key: Array, nu: GammaStats) -> GammaStats:
    return _rate_point(log_gamma(key, nu.events + 1) - jnp.log(nu.exposure))


def _why_no_rate_mode(nu: GammaStats) -> str | None:
    if not (np.asarray(nu.exposure) > 0).all():
        return (
            "a component has no observed cell of a column, so its rate is undefined. Use a proper prior, or fewer "
            "components or classes"
        )
    if not (np.asarray(nu.events) >= 0).all():
        return (
            f"a rate has no interior mode: its posterior shape is {float(np.min(nu.events)) + 1:.4g}, and below 1 the "
            "density is unbounded at 0. Use a prior shape of more than 1"
        )
    return None


gamma = Family(_rate_log_partition, _rate_mean, _rate_mode, _rate_sample, _why_no_rate_mode)


# ---------------------------------------------------------------------------------------------------------------------
# Gaussian blocks


class GaussianStats(NamedTuple):
    """Statistics of G means that share one precision, and natural parameters of their prior (batch shape ...).

    NormalWishart, T(μ, Λ) = (½ log det Λ, −½ μᵀΛμ, Λμ, −½ Λ): ``square`` is (..., D, D).
    NormalGamma, the isotropic Λ = τ I (D = 1 for a diagonal covariance): T = (½ log τ, −½ τ μᵀμ, τ μ, −½ τ), ``square``
    is (...).
    Those of a row: (1, 1, x, x xᵀ), in the isotropic case (D, 1, x, xᵀx); x is relative to a fixed origin.
    """

    exponent: Array  # n (...): 2 × the exponent of det Λ or τ
    strength: Array  # κ (..., G): number of rows and pseudo-rows of each mean
    total: Array  # s (..., G, D)
    square: Array  # Q


def _means(nu: GaussianStats) -> Array:
    return nu.total / nu.strength[..., None]


# Functions of the NormalWishart: dof = n + D + 1 − G, S = Q − Σ_g s_g s_gᵀ / κ_g.


def _wishart_dof(nu: GaussianStats) -> Array:
    groups, dimension = nu.total.shape[-2:]
    return nu.exponent + dimension + 1 - groups


class StudentStats(NamedTuple):
    """Parameters of the predictive of one row under a NormalWishart or NormalGamma: a multivariate Student t."""

    mean: Array  # (..., G, D)
    shrink: Array  # κ / (κ + 1) (..., G)
    shape: Array  # dof of the Wishart, or the Gamma's shape (...)
    scale: Array  # lower Cholesky factor of the scatter (..., D, D), or the Gamma's rate (...)


def wishart_student(nu: GaussianStats) -> StudentStats:
    """The predictive under a NormalWishart."""
    shrink = nu.strength / (nu.strength + 1)
    return StudentStats(_means(nu), shrink, _wishart_dof(nu), jnp.linalg.cholesky(_wishart_scatter(nu)))


def gamma_student(nu: GaussianStats) -> StudentStats:
    """The predictive under a NormalGamma."""
    return StudentStats(_means(nu), nu.strength / (nu.strength + 1), _gamma_shape(nu), _gamma_rate(nu))


def _wishart_scatter(nu: GaussianStats) -> Array:
    return nu.square - jnp.einsum("...gi,...gj->...ij", nu.total, _means(nu))


def _orders(dof: Array, dimension: int) -> Array:
    """(dof − i) / 2 for i = 0 … D − 1: the shapes of the D independent Gamma variables inside a Wishart."""
    return jnp.stack([(dof - i) / 2 for i in range(dimension)], axis=-1)


def _wishart_point(mean: Array, precision: Array, half_log_det: Array) -> GaussianStats:
    """T(μ, Λ) at mean (..., G, D), precision (..., D, D)."""
    scaled = jnp.einsum("...ij,...gj->...gi", precision, mean)
    return GaussianStats(half_log_det, -0.5 * (mean * scaled).sum(-1), scaled, -0.5 * precision)


def _wishart_log_partition(nu: GaussianStats) -> Array:
    dimension = nu.total.shape[-1]
    dof = _wishart_dof(nu)
    log_det = 2 * half_log_determinant(jnp.linalg.cholesky(_wishart_scatter(nu)))
    means = (dimension / 2 * jnp.log(2 * jnp.pi / nu.strength)).sum(-1)
    wishart = dof * dimension / 2 * jnp.log(2.0) - dof / 2 * log_det + multigammaln(dof / 2, dimension)
    return (means + wishart).sum()


def _wishart_mean(nu: GaussianStats) -> GaussianStats:
    dimension = nu.total.shape[-1]
    dof = _wishart_dof(nu)
    root = jnp.linalg.cholesky(_wishart_scatter(nu))
    precision = dof[..., None, None] * _inverse(root)
    orders = _orders(dof, dimension)
    half_log_det = 0.5 * (jax.scipy.special.digamma(orders).sum(-1) + dimension * jnp.log(2.0)) - half_log_determinant(root)
    T = _wishart_point(_means(nu), precision, half_log_det)
    return T._replace(strength=T.strength - 0.5 * dimension / nu.strength)


def _wishart_mode(nu: GaussianStats) -> GaussianStats:
    dimension = nu.total.shape[-1]
    root = jnp.linalg.cholesky(_wishart_scatter(nu))
    precision = nu.exponent[..., None, None] * _inverse(root)
    half_log_det = 0.5 * dimension * jnp.log(nu.exponent) - half_log_determinant(root)
    return _wishart_point(_means(nu), precision, half_log_det)


def _wishart_sample(key: Array, nu: GaussianStats) -> GaussianStats:
    """Bartlett: S = L Lᵀ, Λ = C Cᵀ with C = L⁻ᵀ A, A lower triangular; then μ_g = s_g/κ_g + C⁻ᵀ ε / √κ_g."""
    dimension = nu.total.shape[-1]
    key_diagonal, key_below, key_mean = jax.random.split(key, 3)
    root = jnp.linalg.cholesky(_wishart_scatter(nu))
    log_diagonal = 0.5 * (jnp.log(2.0) + log_gamma(key_diagonal, _orders(_wishart_dof(nu), dimension)))
    below = jnp.tril(jax.random.normal(key_below, root.shape, root.dtype), -1)
    bartlett = below + jnp.vectorize(jnp.diag, signature="(i)->(i,i)")(jnp.exp(log_diagonal))
    factor = solve_triangular(jnp.swapaxes(root, -1, -2), bartlett, lower=False)
    noise = jax.random.normal(key_mean, nu.total.shape, nu.total.dtype)
    whitened = solve_triangular(jnp.swapaxes(bartlett, -1, -2), jnp.swapaxes(noise, -1, -2), lower=False)
    offset = jnp.einsum("...ij,...jg->...gi", root, whitened)
    mean = _means(nu) + offset / jnp.sqrt(nu.strength)[..., None]
    precision = jnp.einsum("...ik,...jk->...ij", factor, factor)
    return _wishart_point(mean, precision, log_diagonal.sum(-1) - half_log_determinant(root))


def _why_no_wishart_mode(nu: GaussianStats) -> str | None:
    nu = jax.tree.map(np.asarray, nu)
    with np.errstate(all="ignore"):
        scatter = nu.square - np.einsum("...gi,...gj->...ij", nu.total, nu.total / nu.strength[..., None])
        finite = np.isfinite(scatter).all()
        smallest = np.linalg.eigvalsh(scatter).min(-1) if finite else np.full(nu.exponent.shape, np.nan)
        largest = np.trace(nu.square, axis1=-2, axis2=-1)
    return _collapse(smallest > ROUNDING * largest, nu)


normal_wishart = Family(_wishart_log_partition, _wishart_mean, _wishart_mode, _wishart_sample, _why_no_wishart_mode)


# Functions of the NormalGamma: a = (n − G D) / 2 + 1, b = ½ (Q − Σ_g s_gᵀs_g / κ_g).


def _gamma_shape(nu: GaussianStats) -> Array:
    groups, dimension = nu.total.shape[-2:]
    return (nu.exponent - groups * dimension) / 2 + 1


def _gamma_rate(nu: GaussianStats) -> Array:
    return 0.5 * (nu.square - (nu.total * _means(nu)).sum((-2, -1)))


def _gamma_point(mean: Array, precision: Array, log_precision: Array) -> GaussianStats:
    """T(μ, τ) at mean (..., G, D), precision (...)."""
    scaled = precision[..., None, None] * mean
    return GaussianStats(0.5 * log_precision, -0.5 * (mean * scaled).sum(-1), scaled, -0.5 * precision)


def _gamma_log_partition(nu: GaussianStats) -> Array:
    dimension = nu.total.shape[-1]
    shape, rate = _gamma_shape(nu), _gamma_rate(nu)
    means = (dimension / 2 * jnp.log(2 * jnp.pi / nu.strength)).sum(-1)
    return (means + gammaln(shape) - shape * jnp.log(rate)).sum()


def _gamma_mean(nu: GaussianStats) -> GaussianStats:
    dimension = nu.total.shape[-1]
    shape, rate = _gamma_shape(nu), _gamma_rate(nu)
    T = _gamma_point(_means(nu), shape / rate, jax.scipy.special.digamma(shape) - jnp.log(rate))
    return T._replace(strength=T.strength - 0.5 * dimension / nu.strength)


def _gamma_mode(nu: GaussianStats) -> GaussianStats:
    precision = nu.exponent / (2 * _gamma_rate(nu))
    return _gamma_point(_means(nu), precision, jnp.log(precision))


def _gamma_sample(key: Array, nu: GaussianStats) -> GaussianStats:
    key_precision, key_mean = jax.random.split(key)
    log_precision = log_gamma(key_precision, _gamma_shape(nu)) - jnp.log(_gamma_rate(nu))
    noise = jax.random.normal(key_mean, nu.total.shape, nu.total.dtype)
    scale = jnp.exp(-0.5 * log_precision)[..., None, None] / jnp.sqrt(nu.strength)[..., None]
    return _gamma_point(_means(nu) + noise * scale, jnp.exp(log_precision), log_precision)


def _why_no_gamma_mode(nu: GaussianStats) -> str | None:
    nu = jax.tree.map(np.asarray, nu)
    with np.errstate(all="ignore"):
        rate = nu.square - (nu.total**2 / nu.strength[..., None]).sum((-2, -1))
    return _collapse(np.asarray(rate > ROUNDING * nu.square), nu)


normal_gamma = Family(_gamma_log_partition, _gamma_mean, _gamma_mode, _gamma_sample, _why_no_gamma_mode)


def _inverse(root: Array) -> Array:
    identity = jnp.broadcast_to(jnp.eye(root.shape[-1], dtype=root.dtype), root.shape)
    return cho_solve((root, True), identity)


ROUNDING = 1e-12  # a scatter below this share of the raw second moment counts as rounding error


def _collapse(positive: np.ndarray, nu: GaussianStats) -> str | None:
    """The message if a covariance has no mode; ``positive``: which groups have a positive definite scatter."""
    sound = np.asarray(positive & (nu.exponent > 0) & (nu.strength > 0).all(-1))
    if sound.all():
        return None
    component = int(np.argwhere(~sound.reshape(sound.shape[0], -1).all(-1))[0, 0]) if sound.ndim else None
    where = "the shared covariance" if component is None else f"the covariance of component {component}"
    return (
        f"{where} collapses: the component is empty or has too few distinct rows, and the density is unbounded there. "
        "Use the default prior, fewer components, or a more restricted covariance (and precision=64: single precision cannot "
        "distinguish a narrow group far from the others from a point)"
    )
