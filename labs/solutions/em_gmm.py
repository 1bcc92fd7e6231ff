# mypy: allow-untyped-defs
"""EM for a Gaussian mixture with diagonal covariances and a prior: the mode of its posterior.

weights ~ Dirichlet(α, …, α),  1 / variances[k, d] ~ Gamma(a, rate b),  any mean is as probable as any other,
z_n ~ Categorical(weights),  x_nd | z_n = k ~ Normal(means[k, d], variances[k, d])
"""

import numpy as np


def log_joint(x, weights, means, variances):
    """The log joint density log p(z_n = k, x_n) of every row and component.

    log weights_k + Σ_d [ −½ log(2π variances_kd) − ½ (x_nd − means_kd)² / variances_kd ]

    x: (N, D); weights: (K,); means, variances: (K, D). Returns (N, K).

    >>> found = log_joint(np.array([[0.0]]), np.array([1.0]), np.array([[0.0]]), np.array([[1.0]]))
    >>> np.allclose(found, [[-0.9189]], atol=0.001)
    True
    """
    away = (x[:, None, :] - means) ** 2 / variances
    return np.log(weights) - 0.5 * (np.log(2 * np.pi * variances) + away).sum(-1)


def responsibilities(log_p):
    """The E-step: p(z_n = k | x_n), which is exp(log_p[n, k]) divided by its sum over k.

    The numbers can be far below −1000, where exp gives 0 for all k: subtract the largest one of each row first.

    log_p: (N, K) from `log_joint`. Returns (N, K); every row sums to 1.

    >>> np.allclose(responsibilities(np.array([[0.0, 0.0], [-2000.0, -2001.0]])), [[0.5, 0.5], [0.731, 0.269]], atol=0.001)
    True
    """
    scaled = np.exp(log_p - log_p.max(1, keepdims=True))
    return scaled / scaled.sum(1, keepdims=True)


def m_step(x, r, alpha, a, b):
    """The M-step: the parameters that maximise the expected log joint density with the prior.

    With N_k = Σ_n r_nk:

        weights_k    = (N_k + α − 1) / (N + K (α − 1))
        means_kd     = Σ_n r_nk x_nd / N_k
        variances_kd = [2b + Σ_n r_nk (x_nd − means_kd)²] / (N_k + 2a − 2)

    The last one is the inverse of the most probable precision 1 / variances_kd: its terms in the log density are
    (a − 1 + N_k / 2) log(precision) − [b + ½ Σ_n r_nk (x_nd − means_kd)²] precision.

    x: (N, D); r: (N, K); alpha, a, b: numbers. Returns (weights (K,), means (K, D), variances (K, D)).

    >>> weights, means, variances = m_step(np.array([[0.0], [2.0]]), np.ones((2, 1)), 2.0, 2.0, 1.0)
    >>> [np.allclose(found, 1.0, atol=0.001) for found in (weights, means, variances)]
    [True, True, True]
    """
    counts = r.sum(0)
    weights = (counts + alpha - 1) / (len(x) + r.shape[1] * (alpha - 1))
    means = r.T @ x / counts[:, None]
    away = (x[:, None, :] - means) ** 2
    variances = (2 * b + (r[:, :, None] * away).sum(0)) / (counts[:, None] + 2 * a - 2)
    return weights, means, variances


def log_posterior(x, weights, means, variances, alpha, a, b):
    """What EM climbs: log p(x, parameters) without the constants of the priors. Returns a number.

    Σ_n log Σ_k p(z_n = k, x_n) + (α − 1) Σ_k log weights_k + Σ_kd [ (a − 1) log λ_kd − b λ_kd ],  λ_kd = 1 / variances_kd

    As in `responsibilities`, the densities can be too small for exp.

    >>> one = np.array([[1.0]])
    >>> np.allclose(log_posterior(np.array([[0.0]]), np.array([1.0]), 0 * one, one, 2.0, 2.0, 1.0), -1.9189, atol=0.001)
    True
    """
    log_p = log_joint(x, weights, means, variances)
    largest = log_p.max(1)
    likelihood = (largest + np.log(np.exp(log_p - largest[:, None]).sum(1))).sum()
    prior = (alpha - 1) * np.log(weights).sum() + (-(a - 1) * np.log(variances) - b / variances).sum()
    return likelihood + prior
