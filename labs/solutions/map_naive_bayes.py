# mypy: allow-untyped-defs
"""Naive Bayes for words that are present or absent, with a prior that cures the word that was never seen.

class_probs ~ Dirichlet(α, …, α),  feature_probs[c, d] ~ Beta(a, b),
y_n ~ Categorical(class_probs),  x_nd | y_n = c ~ Bernoulli(feature_probs[c, d])
"""

import numpy as np


def count(x, y, num_classes):
    """How many rows each class has, and in how many of them each word is present.

    x: (N, D) zeros and ones; y: (N,) classes from 0. Returns (n (C,), ones (C, D)); a class may have no row.

    >>> n, ones = count(np.array([[1, 0], [1, 1], [0, 1]]), np.array([0, 0, 1]), 2)
    >>> np.allclose(n, [2, 1]), np.allclose(ones, [[2, 1], [0, 1]])
    (True, True)
    """
    one_hot = np.eye(num_classes)[y]
    return one_hot.sum(0), one_hot.T @ x


def estimate(n, ones, alpha, a, b):
    """The most probable parameters given the counts.

        class_probs_c    = (n_c + α − 1) / (N + C (α − 1))
        feature_probs_cd = (ones_cd + a − 1) / (n_c + a + b − 2)

    The second one maximises ones log p + (n − ones) log(1 − p) + (a − 1) log p + (b − 1) log(1 − p).

    n: (C,); ones: (C, D). Returns (class_probs (C,), feature_probs (C, D)).

    >>> class_probs, feature_probs = estimate(np.array([2.0, 1.0]), np.array([[2.0], [0.0]]), 2.0, 2.0, 3.0)
    >>> np.allclose(class_probs, [0.6, 0.4]), np.allclose(feature_probs, [[0.6], [0.25]])
    (True, True)
    """
    class_probs = (n + alpha - 1) / (n.sum() + len(n) * (alpha - 1))
    return class_probs, (ones + a - 1) / (n[:, None] + a + b - 2)


def log_joint(x, class_probs, feature_probs):
    """The log joint density log p(y = c, x_n) of every row and class. With p = feature_probs it is

        log class_probs_c + Σ_d [ x_nd log p_cd + (1 − x_nd) log(1 − p_cd) ]

    A word that is absent says something, too. x: (N, D); returns (N, C).

    >>> found = log_joint(np.array([[1, 0]]), np.array([0.5, 0.5]), np.array([[0.5, 0.5], [0.8, 0.2]]))
    >>> np.allclose(found, [[-2.079, -1.139]], atol=0.001)
    True
    """
    return np.log(class_probs) + x @ np.log(feature_probs).T + (1 - x) @ np.log(1 - feature_probs).T


def posterior(log_p):
    """P(y = c | x_n): exp(log_p[n, c]) divided by its sum over c.

    A mail of a thousand words has a log_p below −1000, where exp gives 0: subtract the largest one of each row first.

    log_p: (N, C). Returns (N, C); every row sums to 1.

    >>> np.allclose(posterior(np.array([[-2000.0, -2000.0], [0.0, -1.0]])), [[0.5, 0.5], [0.731, 0.269]], atol=0.001)
    True
    """
    scaled = np.exp(log_p - log_p.max(1, keepdims=True))
    return scaled / scaled.sum(1, keepdims=True)


def log_odds(class_probs, feature_probs):
    """Of two classes: the log odds log P(y = 1 | x) / P(y = 0 | x) are linear, bias + Σ_d weights_d x_d.

        weights_d = log [ p_1d (1 − p_0d) / (p_0d (1 − p_1d)) ]
        bias      = log [ class_probs_1 / class_probs_0 ] + Σ_d log [ (1 − p_1d) / (1 − p_0d) ]

    Returns (bias, weights (D,)).

    >>> bias, weights = log_odds(np.array([0.5, 0.5]), np.array([[0.5, 0.5], [0.8, 0.2]]))
    >>> np.allclose(bias, -0.446, atol=0.001), np.allclose(weights, [1.386, -1.386], atol=0.001)
    (True, True)
    """
    present, absent = np.log(feature_probs), np.log(1 - feature_probs)
    weights = present[1] - present[0] - absent[1] + absent[0]
    return np.log(class_probs[1] / class_probs[0]) + (absent[1] - absent[0]).sum(), weights
