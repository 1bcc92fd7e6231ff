"""Documents 001, 002 and 003 on Gaussians: covariances, gradients, factors, discriminants (errata E5 to E8, E14, E15)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit
from slopes import gradient, log_normal

from models.datasets.tables import MARTIAN_COVARIANCES

Array = np.ndarray

# ---------------------------------------------------------------------------------------------------------------------
# E5: matrices that are no covariances

PRINTED_COVARIANCES = np.array([[[80, 50], [-5, 2]], [[60, 50], [-8, 2]], [[60, -50], [8, 2]]], dtype=float)


def printed_covariances() -> Array:
    return PRINTED_COVARIANCES


def shipped_covariances() -> Array:
    return MARTIAN_COVARIANCES


def sampled_covariances() -> Array:
    """The judge: NumPy's legacy sampler multiplies two known normal rows by A; what it draws has the covariance Aᵀ A."""
    found = []
    for covariance in PRINTED_COVARIANCES:
        rows = np.random.RandomState(0).standard_normal((2, 2))
        drawn = np.random.RandomState(0).multivariate_normal(np.zeros(2), covariance, 2, check_valid="ignore")
        matrix = np.linalg.solve(rows, drawn)
        found.append(matrix.T @ matrix)
    return np.array(found)


# ---------------------------------------------------------------------------------------------------------------------
# E6, E14, E15: Gaussian discriminants


def log_likelihood(x: Array, y: Array, phi: Any, means: Any, covariance: Any) -> Any:
    """Σ_n log p(x_n, y_n) of classes 1 and 0, for real or complex arguments: term by term."""
    parts = [log_normal(x[y == c], means[c], covariance).sum() for c in (0, 1)]
    return sum(parts) + y.sum() * np.log(phi) + (1 - y).sum() * np.log(1 - phi)


def scatter(x: Array, y: Array, means: Array) -> Array:
    """Σ_n (x_n − μ_y)(x_n − μ_y)ᵀ."""
    return (x - means[y]).T @ (x - means[y])


def printed_gradient(x: Array, y: Array, phi: float, means: Array, covariance: Array) -> Array:
    """Σ_n −½ Σ + ½ (x − μ)(x − μ)ᵀ."""
    return 0.5 * (scatter(x, y, means) - len(x) * covariance)


def right_gradient(x: Array, y: Array, phi: float, means: Array, covariance: Array) -> Array:
    """Σ_n −½ Σ⁻¹ + ½ Σ⁻¹ (x − μ)(x − μ)ᵀ Σ⁻¹."""
    precision = np.linalg.inv(covariance)
    return precision @ printed_gradient(x, y, phi, means, covariance) @ precision


def found_gradient(x: Array, y: Array, phi: float, means: Array, covariance: Array) -> Array:
    """The judge: complex steps, one entry of Σ after the other."""
    return gradient(lambda at: log_likelihood(x, y, phi, means, at), covariance)


def quadratic(x: Array, y: Array, phi: float, means: Array, covariance: Array, weight: float) -> float:
    """Document 003's log-likelihood with ``weight`` before (x − μ)ᵀ Σ⁻¹ (x − μ)."""
    determinant = np.log(np.linalg.det(2 * np.pi * covariance))
    labels = y.sum() * np.log(phi) + (1 - y).sum() * np.log(1 - phi)
    return float(labels - 0.5 * len(x) * determinant + weight * np.trace(np.linalg.solve(covariance, scatter(x, y, means))))


def printed_likelihood(x: Array, y: Array, phi: float, means: Array, covariance: Array) -> float:
    return quadratic(x, y, phi, means, covariance, 1.0)


def right_likelihood(x: Array, y: Array, phi: float, means: Array, covariance: Array) -> float:
    return quadratic(x, y, phi, means, covariance, -0.5)


def found_likelihood(x: Array, y: Array, phi: float, means: Array, covariance: Array) -> float:
    """The judge: SciPy, row by row."""
    rows = [stats.multivariate_normal(means[c], covariance).logpdf(row) for row, c in zip(x, y, strict=True)]
    return float(np.sum(rows) + stats.bernoulli(phi).logpmf(y).sum())


def class_posterior(x: Array, y: Array, phi: float, means: Array, covariance: Array) -> Array:
    """The judge of E15: p(y = 1 | x) (N,) by Bayes' rule."""
    one, zero = (stats.multivariate_normal(mean, covariance).pdf(x) for mean in (means[1], means[0]))
    return phi * one / (phi * one + (1 - phi) * zero)


def printed_logistic(x: Array, y: Array, phi: float, means: Array, covariance: Array) -> Array:
    """1 / (1 + exp(−Θᵀ x)): no intercept."""
    return expit(x @ np.linalg.solve(covariance, means[1] - means[0]))


def right_logistic(x: Array, y: Array, phi: float, means: Array, covariance: Array) -> Array:
    """θ_0 = −½ (μ₁ᵀ Σ⁻¹ μ₁ − μ₀ᵀ Σ⁻¹ μ₀) + log φ / (1 − φ)."""
    zero, one = (mean @ np.linalg.solve(covariance, mean) for mean in means)
    slope = np.linalg.solve(covariance, means[1] - means[0])
    return expit(x @ slope - 0.5 * (one - zero) + np.log(phi / (1 - phi)))


def two_classes() -> Mapping[str, Any]:
    """Eight rows, three of class 1, at parameters that are not the estimates."""
    rng = np.random.default_rng(0)
    means = np.array([[1.0, 2.0], [3.0, 1.0]])
    y = np.array([0, 1, 0, 0, 1, 0, 1, 0])
    return {"x": means[y] + rng.normal(size=(8, 2)), "y": y, "phi": 0.3, "means": means, "covariance": COVARIANCE}


COVARIANCE = np.array([[2.0, 0.6], [0.6, 1.0]])

# ---------------------------------------------------------------------------------------------------------------------
# E7, E8: factors


def log_factor_density(x: Array, loading: Array, noise: Array) -> float:
    """log p(x | W, Ψ) + log p(W), every loading ~ N(0, 1), rows about 0."""
    covariance = loading @ loading.T + np.diag(noise)
    rows = stats.multivariate_normal(np.zeros(len(noise)), covariance).logpdf(x)
    return float(rows.sum() + stats.norm.logpdf(loading).sum())


def no_change(x: Array, loading: Array, noise: Array, scale: Array) -> float:
    """As printed, "immune to scalings": a scaled table costs its Jacobian, and nothing else."""
    return float(-len(x) * np.log(scale).sum())


def change_of_the_prior(x: Array, loading: Array, noise: Array, scale: Array) -> float:
    """Right: that, and what the prior thinks of the scaled loadings: ½ Σ w² (1 − c²)."""
    return no_change(x, loading, noise, scale) + float(0.5 * (loading**2 * (1 - scale[:, None] ** 2)).sum())


def found_change(x: Array, loading: Array, noise: Array, scale: Array) -> float:
    """The judge: both densities."""
    moved = log_factor_density(x * scale, loading * scale[:, None], noise * scale**2)
    return moved - log_factor_density(x, loading, noise)


def factor_case() -> Mapping[str, Any]:
    rng = np.random.default_rng(2)
    loading, noise = rng.normal(size=(3, 1)), rng.gamma(3.0, 0.3, 3)
    x = rng.normal(size=(6, 1)) @ loading.T + rng.normal(size=(6, 3)) * np.sqrt(noise)
    return {"x": x, "loading": loading, "noise": noise, "scale": np.array([2.0, 0.5, 3.0])}


def eigen(x: Array) -> tuple[Array, Array]:
    """Eigenvalues (D,), falling, and vectors of the covariance with divisor N."""
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    return values[::-1], vectors[:, ::-1]


def principal_components(x: Array) -> Array:
    """As printed, "the same solution as PCA": rows projected on the first component."""
    top = eigen(x)[1][:, :1]
    return (x - x.mean(0)) @ top @ top.T


def shrunk_components(x: Array) -> Array:
    """Right: W M⁻¹ Wᵀ x with W = U (Λ − σ² I)^½, M = Wᵀ W + σ² I, σ² the mean of the eigenvalues left over."""
    values, vectors = eigen(x)
    noise = values[1:].mean()
    loading = vectors[:, :1] * np.sqrt(values[0] - noise)
    inner = np.linalg.inv(loading.T @ loading + noise * np.eye(1))
    return (x - x.mean(0)) @ loading @ inner @ loading.T


def conditioned_components(x: Array) -> Array:
    """The judge: an optimiser finds W and σ², and E[W z | x] is Cov(W z, x) Cov(x)⁻¹ x."""
    away = x - x.mean(0)

    def parts(at: Any) -> tuple[Any, Any]:
        signal = np.outer(at[:-1], at[:-1])
        return signal, signal + np.exp(at[-1]) * np.eye(x.shape[1])

    def energy(at: Any) -> Any:
        return -log_normal(away, np.zeros(x.shape[1]), parts(at)[1]).mean()

    start = np.append(np.ones(x.shape[1]), 0.0)
    best = minimize(lambda at: float(energy(at)), start, jac=lambda at: gradient(energy, at), options={"gtol": 1e-10})
    signal, total = parts(best.x)
    return away @ np.linalg.inv(total) @ signal


def four_columns() -> Mapping[str, Any]:
    rng = np.random.default_rng(5)
    return {"x": rng.normal(size=(20, 1)) @ np.array([[1.5, 1.0, -1.0, 0.5]]) + rng.normal(size=(20, 4))}


ENTRIES = (
    # the data set has one decimal: 0.05 of 69
    (5, "001", printed_covariances, shipped_covariances, sampled_covariances, dict, 8e-4),
    (6, "001", printed_gradient, right_gradient, found_gradient, two_classes),
    (7, "002", no_change, change_of_the_prior, found_change, factor_case),
    # an optimiser that stops at a gradient of 1e-10 or at rounding, sqrt(1e-16)
    (8, "002", principal_components, shrunk_components, conditioned_components, four_columns, 1e-7),
    (14, "003", printed_likelihood, right_likelihood, found_likelihood, two_classes),
    (15, "003", printed_logistic, right_logistic, class_posterior, two_classes),
)
