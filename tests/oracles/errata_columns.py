"""Document 004's mixture, one column of one component: modes over mean and precision, missing cells (errata E17 to E21).

λ ~ Gamma(a, b),  μ | λ ~ Normal(m, 1/(β λ)),  x_n ~ Normal(μ, 1/λ)
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats
from scipy.integrate import quad
from slopes import mode

A, B, BETA, LOCATION = 2.5, 1.3, 0.7, 0.4


def log_joint(mean: Any, precision: Any, x: Any, a: float, b: float, beta: float, location: float) -> Any:
    """log p(x, μ, λ) up to a constant, term by term; with β = 0 it is the improper limit, which keeps the factor λ^½ of μ."""
    likelihood = (0.5 * np.log(precision) - 0.5 * precision * (x - mean) ** 2).sum()
    normal = 0.5 * np.log(precision) - 0.5 * beta * precision * (mean - location) ** 2
    return likelihood + normal + (a - 1) * np.log(precision) - b * precision


def found_mode(x: np.ndarray, a: float, b: float, beta: float, location: float, jacobian: int = 0) -> np.ndarray:
    """The judge: (μ, 1/λ) where the slopes of log p + j log λ vanish. That of μ vanishes at one μ, whatever λ."""
    arguments = (x, a, b, beta, location)
    mean = mode(lambda at: log_joint(at, 1.0, *arguments), x.min() - 1 - abs(location), x.max() + 1 + abs(location))
    precision = mode(lambda at: log_joint(mean, at, *arguments) + jacobian * np.log(at), 1e-6, 1e6)
    return np.array([mean, 1 / precision])


# ---------------------------------------------------------------------------------------------------------------------
# E17: one ν for mean and variance


def map_mean(x: np.ndarray, beta: float, location: float) -> float:
    """(β m + N x̄) / (β + N)."""
    return float((beta * location + x.sum()) / (beta + len(x)))


def map_variance(x: np.ndarray, a: float, b: float, beta: float, location: float, excess: int = -1) -> float:
    """[2b + N var + β N / (β + N) (x̄ − m)²] / (N + 2a + excess): in (μ, λ) the excess is −1."""
    size, shrink = len(x), beta * len(x) / (beta + len(x))
    return float((2 * b + size * x.var() + shrink * (x.mean() - location) ** 2) / (size + 2 * a + excess))


def right_mode(x: np.ndarray, a: float, b: float, beta: float, location: float) -> np.ndarray:
    return np.array([map_mean(x, beta, location), map_variance(x, a, b, beta, location)])


def mode_of_one_nu(x: np.ndarray, a: float, b: float, beta: float, location: float) -> np.ndarray:
    """As printed, with ν = 2a − 1, which is right for β = 2a − 1 alone."""
    nu, size = 2 * a - 1, len(x)
    mean = (beta * location + x.sum()) / (nu + size)
    return np.array([mean, (beta * location**2 + 2 * b + (x**2).sum()) / (nu + size) - mean**2])


def column() -> Mapping[str, Any]:
    """Twelve numbers near 2, and a prior with β far from 2a − 1 = 4."""
    return {"x": np.random.default_rng(0).normal(2.0, 1.5, 12), "a": A, "b": B, "beta": BETA, "location": LOCATION}


# ---------------------------------------------------------------------------------------------------------------------
# E18: the variance without a prior on the mean


def document_variance(x: np.ndarray, a: float, b: float) -> float:
    """As printed for β = 0: [b + N <x²>] / (2a − 1 + N) − <x>²."""
    return float((b + len(x) * (x**2).mean()) / (2 * a - 1 + len(x)) - x.mean() ** 2)


def doubled_variance(x: np.ndarray, a: float, b: float) -> float:
    """With 2b for b alone: still wrong."""
    return float((2 * b + len(x) * (x**2).mean()) / (2 * a - 1 + len(x)) - x.mean() ** 2)


def right_variance(x: np.ndarray, a: float, b: float) -> float:
    """[2b + N (<x²> − <x>²)] / (N + 2a − 1)."""
    return float((2 * b + len(x) * x.var()) / (len(x) + 2 * a - 1))


def found_variance(x: np.ndarray, a: float, b: float) -> float:
    """The judge."""
    return float(found_mode(x, a, b, 0.0, 0.0)[1])


def far_column() -> Mapping[str, Any]:
    """Twelve numbers near 100."""
    return {"x": np.random.default_rng(0).normal(100.0, 1.0, 12), "a": 2.0, "b": 1.0}


# ---------------------------------------------------------------------------------------------------------------------
# E19: missing cells in the M-step


def right_means(x: np.ndarray, r: np.ndarray) -> np.ndarray:
    """(K,): Σ γ x / Σ γ over the rows that have the cell."""
    seen = ~np.isnan(x)
    return r[seen].T @ x[seen] / r[seen].sum(0)


def printed_means(x: np.ndarray, r: np.ndarray) -> np.ndarray:
    """With the one N_k = Σ_n γ_nk of all rows, and zeros where nothing was measured."""
    return r.T @ np.nan_to_num(x) / r.sum(0)


def found_means(x: np.ndarray, r: np.ndarray) -> np.ndarray:
    """The judge: where Σ_n γ_nk log N(x_n | μ, 1) has no slope, a missing cell having probability 1."""

    def expected(k: int) -> Any:
        return lambda mean: sum(w * -0.5 * (value - mean) ** 2 for w, value in zip(r[:, k], x, strict=True) if value == value)

    return np.array([mode(expected(k), -100.0, 100.0) for k in range(r.shape[1])])


def holed_column() -> Mapping[str, Any]:
    """60 rows of N(5, 1), 24 of them missing, and responsibilities of two components."""
    rng = np.random.default_rng(3)
    x = rng.normal(5.0, 1.0, 60)
    x[rng.permutation(60)[:24]] = np.nan
    return {"x": x, "r": rng.dirichlet(np.ones(2), 60)}


# ---------------------------------------------------------------------------------------------------------------------
# E20: the coordinates of the mode


def mode_over_eta(x: np.ndarray, a: float, b: float, beta: float, location: float) -> np.ndarray:
    """What "maximise with respect to η" gives: the density of (λ, λμ) has a factor 1/λ more, the denominator is N + 2a − 3."""
    return np.array([map_mean(x, beta, location), map_variance(x, a, b, beta, location, -3)])


# ---------------------------------------------------------------------------------------------------------------------
# E21: means in order


def expected_order(size: float) -> np.ndarray:
    """Two sorted standard normals: E[smaller] = −1/√π and E[gap] = 2/√π, times their standard deviation."""
    return size * np.array([-1.0, 2.0]) / np.sqrt(np.pi)


def expected_transformed(size: float) -> np.ndarray:
    """y_1 = u_1 and y_2 = y_1 + exp(u_2) with u ~ Normal(0, size²): E[y_1] = 0, E[gap] = exp(size² / 2)."""
    return np.array([0.0, np.exp(size**2 / 2)])


def integrated_order(size: float) -> np.ndarray:
    """The judge: integrals over the density of an order statistic, 2 f(y) P(other > y), and that of the larger likewise."""
    normal = stats.norm(scale=size)
    smaller = quad(lambda y: y * 2 * normal.pdf(y) * normal.sf(y), -12 * size, 12 * size)[0]
    larger = quad(lambda y: y * 2 * normal.pdf(y) * normal.cdf(y), -12 * size, 12 * size)[0]
    return np.array([smaller, larger - smaller])


ENTRIES = (
    (17, "004", mode_of_one_nu, right_mode, found_mode, column),
    (18, "004", document_variance, right_variance, found_variance, far_column),
    (19, "004", printed_means, right_means, found_means, holed_column),
    (20, "004", mode_over_eta, right_mode, found_mode, column),
    (21, "software", expected_transformed, expected_order, integrated_order, lambda: {"size": 1.0}),
)
