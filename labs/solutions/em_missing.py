# mypy: allow-untyped-defs
"""EM for a Gaussian mixture when cells of the table are missing (NaN).

z_n ~ Categorical(weights),  x_nd | z_n = k ~ Normal(means[k, d], variances[k, d]),  1 / variances[k, d] ~ Gamma(a, rate b)

Which cells are missing does not depend on what they would have said. So a missing cell has no factor in the density
(it is integrated out, and its probability is 1), and it counts in no sum.
"""

import numpy as np


def log_joint(x, weights, means, variances):
    """The log joint density of component k and of the cells of row n that are there.

    log weights_k + Σ_{d there} [ −½ log(2π variances_kd) − ½ (x_nd − means_kd)² / variances_kd ]

    x: (N, D) with NaN where a cell is missing; weights: (K,); means, variances: (K, D). Returns (N, K) without NaN.

    >>> one = np.array([[1.0, 1.0]])
    >>> found = log_joint(np.array([[0.0, np.nan], [np.nan, np.nan]]), np.array([1.0]), 0 * one, one)
    >>> np.allclose(found, [[-0.9189], [0.0]], atol=0.001)
    True
    """
    terms = np.log(2 * np.pi * variances) + (x[:, None, :] - means) ** 2 / variances
    return np.log(weights) - 0.5 * np.nansum(terms, axis=-1)


def responsibilities(log_p):
    """p(z_n = k | x_n): exp(log_p[n, k]) divided by its sum over k. Given: you need not write it."""
    scaled = np.exp(log_p - log_p.max(1, keepdims=True))
    return scaled / scaled.sum(1, keepdims=True)


def m_step(x, r, a, b):
    """The M-step: sums run over the rows whose cell is there. Each column has counts of its own.

        weights_k    = Σ_n r_nk / N                                      (all rows)
        N_kd         = Σ_{n: x_nd there} r_nk
        means_kd     = Σ_{n: x_nd there} r_nk x_nd / N_kd
        variances_kd = [2b + Σ_{n: x_nd there} r_nk (x_nd − means_kd)²] / (N_kd + 2a − 2)

    x: (N, D) with NaN; r: (N, K); a, b: numbers. Every column has a cell. Returns (weights (K,), means, variances (K, D)).

    >>> x = np.array([[0.0, 5.0], [2.0, np.nan]])
    >>> np.allclose(m_step(x, np.ones((2, 1)), 2.0, 1.0)[1], [[1.0, 5.0]], atol=0.001)
    True
    """
    there = ~np.isnan(x)
    filled = np.where(there, x, 0.0)
    counts = r.T @ there
    means = r.T @ filled / counts
    away = np.where(there[:, None, :], (filled[:, None, :] - means) ** 2, 0.0)
    return r.mean(0), means, (2 * b + (r[:, :, None] * away).sum(0)) / (counts + 2 * a - 2)


def impute(x, r, means):
    """The table with every missing cell at its expectation: Σ_k r_nk means_kd. Cells that are there stay as they are.

    x: (N, D) with NaN; r: (N, K); means: (K, D). Returns (N, D), a new array.

    >>> found = impute(np.array([[np.nan, 7.0]]), np.array([[0.25, 0.75]]), np.array([[0.0, 1.0], [4.0, 1.0]]))
    >>> np.allclose(found, [[3.0, 7.0]], atol=0.001)
    True
    """
    return np.where(np.isnan(x), r @ means, x)
