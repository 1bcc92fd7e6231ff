# mypy: allow-untyped-defs
"""Linear discriminant analysis: Gaussian classes that share one covariance matrix.

y_n ~ Categorical(probs),  x_n | y_n = c ~ Normal(means_c, covariance)
"""

import numpy as np


def estimate(x, y, num_classes):
    """Maximum likelihood of all parameters. With N_c rows in class c:

        probs_c    = N_c / N
        means_c    = Σ_{n in c} x_n / N_c
        covariance = Σ_n (x_n − means_{y_n}) (x_n − means_{y_n})ᵀ / N

    x: (N, D); y: (N,) classes from 0, each with a row. Returns (probs (C,), means (C, D), covariance (D, D)).

    >>> probs, means, covariance = estimate(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 1]), 2)
    >>> np.allclose(probs, [2 / 3, 1 / 3]), np.allclose(means, [[1.0], [9.0]]), np.allclose(covariance, [[2 / 3]])
    (True, True, True)
    """
    one_hot = np.eye(num_classes)[y]
    counts = one_hot.sum(0)
    means = one_hot.T @ x / counts[:, None]
    away = x - means[y]
    return counts / len(x), means, away.T @ away / len(x)


def log_joint(x, probs, means, covariance):
    """The log joint density log p(y = c, x_n) of every row and class.

    log probs_c − ½ D log 2π − ½ log det(covariance) − ½ (x_n − means_c)ᵀ covariance⁻¹ (x_n − means_c)

    x: (N, D). Returns (N, C).

    >>> found = log_joint(np.array([[1.0]]), np.array([0.5, 0.5]), np.array([[0.0], [1.0]]), np.array([[1.0]]))
    >>> np.allclose(found, [[-2.112, -1.612]], atol=0.001)
    True
    """
    away = x[:, None, :] - means
    distance = np.einsum("nci,ij,ncj->nc", away, np.linalg.inv(covariance), away)
    constant = x.shape[1] * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1]
    return np.log(probs) - 0.5 * (constant + distance)


def linear_form(probs, means, covariance):
    """The same as a linear function: log p(y = c, x) = weights_c · x + bias_c + what all classes have in common.

        weights_c = covariance⁻¹ means_c
        bias_c    = log probs_c − ½ means_cᵀ covariance⁻¹ means_c

    Returns (weights (C, D), bias (C,)).

    >>> found = linear_form(np.array([0.5, 0.5]), np.array([[0.0], [2.0]]), np.array([[0.5]]))[0]
    >>> np.allclose(found, [[0.0], [4.0]], atol=0.001)
    True
    """
    weights = np.linalg.solve(covariance, means.T).T
    return weights, np.log(probs) - 0.5 * (weights * means).sum(1)


def predict(x, weights, bias):
    """P(y = c | x_n): exp(weights_c · x_n + bias_c) divided by its sum over c. Returns (N, C).

    Scores can be too large for exp: subtract the largest one of each row first.

    >>> found = predict(np.array([[1.0], [1000.0]]), np.array([[0.0], [4.0]]), np.array([0.0, -4.0]))
    >>> np.allclose(found, [[0.5, 0.5], [0.0, 1.0]], atol=0.001)
    True
    """
    scores = x @ weights.T + bias
    scaled = np.exp(scores - scores.max(1, keepdims=True))
    return scaled / scaled.sum(1, keepdims=True)
