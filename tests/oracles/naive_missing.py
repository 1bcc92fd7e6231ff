"""Gaussian mixtures of rows with missing cells, row by row in NumPy and SciPy: what the tests compare with.

What is observed of a row is one Normal sub-vector; what is missing, given it, is another, by the formulas for covariances:
m_u + S_uo S_oo⁻¹ (x_o − m_o) and S_uu − S_uo S_oo⁻¹ S_ou for the unobserved u and the observed o.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from naive import Sites, matrices, probs, two_groups
from scipy import optimize, stats
from scipy.special import logsumexp

WHOLE = two_groups(12, 3)


def with_holes(x: np.ndarray, share: float = 0.4, seed: int = 5) -> np.ndarray:
    """NaN in a share of the cells: the first row is missing entirely, the last is complete, no column is empty."""
    missing = np.random.default_rng(seed).random(x.shape) < share
    missing[0], missing[-1] = True, False
    return np.where(missing, np.nan, x)


X = with_holes(WHOLE)  # rows with 0, 1, 2 and 3 cells of 3, most pairs of columns among them
LABELS = ["a", "b", None, "a|b", "b", "a", None, "b", "a", "b", "a", "b"]


def conditional(mean: np.ndarray, precision: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the row completed by its expected cells (D,), their covariance (D, D), 0 where a cell is observed)."""
    seen, spread = ~np.isnan(row), np.linalg.inv(precision)
    gain = spread[np.ix_(~seen, seen)] @ np.linalg.inv(spread[np.ix_(seen, seen)])
    whole, left = row.copy(), np.zeros_like(spread)
    whole[~seen] = mean[~seen] + gain @ (row[seen] - mean[seen])
    left[np.ix_(~seen, ~seen)] = spread[np.ix_(~seen, ~seen)] - gain @ spread[np.ix_(seen, ~seen)]
    return whole, left


def log_density(mean: np.ndarray, precision: np.ndarray, row: np.ndarray) -> float:
    """Log density of the observed sub-vector; 0 where nothing is observed."""
    seen = ~np.isnan(row)
    spread = np.linalg.inv(precision)[np.ix_(seen, seen)]
    return float(stats.multivariate_normal(mean[seen], spread).logpdf(row[seen])) if seen.any() else 0.0


def log_local(covariance: str, sites: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """log π_k + log p(observed cells of x_n | k): (N, K)."""
    pairs = list(zip(sites["mean"], matrices(covariance, sites), strict=True))
    return np.log(probs(sites)) + np.array([[log_density(mean, precision, row) for mean, precision in pairs] for row in x])


def log_likelihood(covariance: str, sites: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """log p(observed cells of x_n | θ) of every row."""
    return logsumexp(log_local(covariance, sites, x), axis=1)


def responsibilities(covariance: str, sites: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """E-step for the component."""
    local = log_local(covariance, sites, x)
    return np.exp(local - logsumexp(local, axis=1, keepdims=True))


def moments(covariance: str, sites: Mapping[str, np.ndarray], r: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ_n r_nk E[x] and Σ_n r_nk E[x xᵀ] over all rows, completed: (K, D) and (K, D, D)."""
    total, square = np.zeros_like(sites["mean"]), np.zeros((*sites["mean"].shape, x.shape[1]))
    for k, (mean, precision) in enumerate(zip(sites["mean"], matrices(covariance, sites), strict=True)):
        for weight, row in zip(r[:, k], x, strict=True):
            whole, left = conditional(mean, precision, row)
            total[k] += weight * whole
            square[k] += weight * (np.outer(whole, whole) + left)
    return total, square


def map_step(covariance: str, hyper: Mapping[str, Any], sites: Sites, x: np.ndarray, r: np.ndarray | None = None) -> Sites:
    """One step of MAP-EM (errata E17): completed rows for full and tied, observed cells alone for the others (E19).

    ``r`` are the memberships where labels give them.
    """
    r = responsibilities(covariance, sites, x) if r is None else r
    (num_components, dimension), count = sites["mean"].shape, r.sum(0)
    strength, location = hyper["strength"], hyper["location"]
    weights = {"mixture_probs": (hyper["concentration"] - 1 + count) / (hyper["concentration"] - 1 + count).sum()}
    if covariance in {"full", "tied"}:
        total, square = moments(covariance, sites, r, x)
        mean = (strength * location + total) / (strength + count)[:, None]
        apart = square - np.einsum("ki,kj->kij", mean, total) - np.einsum("ki,kj->kij", total, mean)
        apart += np.einsum("k,ki,kj->kij", count, mean, mean)
        apart += strength * np.einsum("ki,kj->kij", mean - location, mean - location)
        own = hyper["dof"] - dimension
        if covariance == "full":
            precision = [(own + n) * np.linalg.inv(hyper["scatter"] + s) for n, s in zip(count, apart, strict=True)]
        else:
            precision = (own - 1 + num_components + count.sum()) * np.linalg.inv(hyper["scatter"] + apart.sum(0))
        return weights | {"mean": mean, "precision": np.array(precision)}
    seen = ~np.isnan(x)
    cells, filled = r.T @ seen, np.where(seen, x, 0.0)  # (K, D): how many cells count
    mean = (strength * location + r.T @ filled) / (strength + cells)
    if covariance == "unit":
        return weights | {"mean": mean}
    away = np.where(seen[:, None, :], (x[:, None, :] - mean) ** 2, 0.0)
    apart = (r[:, :, None] * away).sum(0) + strength * (mean - location) ** 2
    if covariance == "diag":
        return weights | {"mean": mean, "precision": (hyper["dof"] - 1 + cells) / (hyper["scatter"] + apart)}
    number = hyper["dof"] - 2 + dimension + cells.sum(1)
    return weights | {"mean": mean, "precision": number / (hyper["scatter"] + apart.sum(1))}


def maximum(sites: Sites, x: np.ndarray) -> float:
    """The largest log-likelihood near ``sites`` of full covariances, by SciPy in unconstrained coordinates."""
    num_components, dimension = sites["mean"].shape
    below = np.tril_indices(dimension)

    def pack(sites: Sites) -> np.ndarray:
        roots = np.linalg.cholesky(sites["precision"])
        logits = np.log(sites["mixture_probs"][1:] / sites["mixture_probs"][0])
        return np.concatenate([logits, sites["mean"].ravel(), *(root[below] for root in roots)])

    def unpack(vector: np.ndarray) -> Sites:
        logits, mean, rest = np.split(vector, np.cumsum([num_components - 1, num_components * dimension]))
        roots = np.zeros((num_components, dimension, dimension))
        roots[:, below[0], below[1]] = rest.reshape(num_components, -1)
        weights = np.exp(np.append(0.0, logits))
        precision = roots @ np.swapaxes(roots, 1, 2)
        return {"mixture_probs": weights / weights.sum(), "mean": mean.reshape(-1, dimension), "precision": precision}

    def energy(vector: np.ndarray) -> float:
        return -float(log_likelihood("full", unpack(vector), x).sum())

    return -float(optimize.minimize(energy, pack(sites), method="BFGS", options={"gtol": 1e-5}).fun)
