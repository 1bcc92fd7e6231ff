# mypy: allow-untyped-defs
"""Ten formulas of latent variable models, each as it should be."""

import numpy as np


def smoothed_probability(present, absent, a, b):
    """The mode of p after ``present`` and ``absent`` observations, under a Beta(a, b) prior of p.

    It is where p^(present + a − 1) (1 − p)^(absent + b − 1) is largest.

    >>> np.allclose(smoothed_probability(2, 0, 2.0, 2.0), 0.75, atol=0.001)
    True
    """
    return (present + a - 1) / (present + absent + a + b - 2)


def spam_probability(x, spam_share, p_spam, p_ham):
    """P(spam | x) of naive Bayes: Bayes' rule with Π_d p_d^x_d (1 − p_d)^(1 − x_d) for each kind.

    x: (D,) zeros and ones; spam_share: P(spam); p_spam, p_ham: (D,).

    >>> np.allclose(spam_probability(np.array([1]), 0.25, np.array([0.6]), np.array([0.2])), 0.5, atol=0.001)
    True
    """
    spam = spam_share * np.prod(np.where(x, p_spam, 1 - p_spam))
    ham = (1 - spam_share) * np.prod(np.where(x, p_ham, 1 - p_ham))
    return spam / (spam + ham)


def class_log_density(x, mean, covariance):
    """The log density of Normal(mean, covariance) at x, without the constant −½ D log 2π.

    x, mean: (D,); covariance: (D, D).

    >>> np.allclose(class_log_density(np.array([2.0]), np.array([0.0]), np.array([[1.0]])), -2.0, atol=0.001)
    True
    """
    away = x - mean
    return -0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * away @ np.linalg.solve(covariance, away)


def log_odds_intercept(mean_0, mean_1, covariance, share_1):
    """Two Gaussian classes of one covariance: the log odds of class 1 are slope · x + intercept. This is the intercept.

    The log odds at x are log [ share_1 Normal(x; mean_1, covariance) ] − log [ (1 − share_1) Normal(x; mean_0, covariance) ].

    >>> np.allclose(log_odds_intercept(np.array([0.0]), np.array([2.0]), np.array([[1.0]]), 0.5), -2.0, atol=0.001)
    True
    """
    forms = [mean @ np.linalg.solve(covariance, mean) for mean in (mean_0, mean_1)]
    return -0.5 * (forms[1] - forms[0]) + np.log(share_1 / (1 - share_1))


def map_variance(x, a, b):
    """The inverse of the precision λ at the largest of λ^(N/2) exp(−½ λ Σ (x_n − x̄)²) · λ^½ · λ^(a−1) exp(−b λ).

    The factor λ^½ is what a very wide normal prior of the mean leaves. x: (N,). Shifting all x changes nothing.

    >>> np.allclose(map_variance(np.array([100.0, 102.0]), 1.5, 1.0), 1.0, atol=0.001)
    True
    """
    return (2 * b + len(x) * x.var()) / (len(x) + 2 * a - 1)


def group_means(x, r):
    """The M-step for the means when some x are missing (NaN): weighted means over what is there.

    x: (N,); r: (N, K) responsibilities. Returns (K,).

    >>> np.allclose(group_means(np.array([4.0, np.nan]), np.array([[1.0], [1.0]])), [4.0], atol=0.001)
    True
    """
    there = ~np.isnan(x)
    return r[there].T @ x[there] / r[there].sum(0)


def forward(x, start, step, emit):
    """α_t(j), (T, S): the probability of x_1, …, x_t and of state j at t. emit: (S, W).

    >>> found = forward(np.array([0, 1]), np.array([1.0]), np.array([[0.5]]), np.array([[0.25, 0.75]])).ravel()
    >>> np.allclose(found, [0.25, 0.09375], atol=0.001)
    True
    """
    alpha = [start * emit[:, x[0]]]
    for t in range(len(x) - 1):
        alpha.append((alpha[t] @ step) * emit[:, x[t + 1]])
    return np.array(alpha)


def transition_counts(x, alpha, beta, step, emit):
    """How often a step from i to j is expected, (S, S). alpha, beta: (T, S), with Σ_i α_t(i) β_t(i) = p(x) at every t.

    >>> one = np.ones((3, 2)) / 2
    >>> found = transition_counts(np.zeros(3, int), one, np.ones((3, 2)), np.ones((2, 2)) / 2, np.ones((2, 1))).sum()
    >>> np.allclose(found, 2.0, atol=0.001)
    True
    """
    counts = np.zeros(step.shape)
    for t in range(len(x) - 1):
        counts += alpha[t][:, None] * step * emit[:, x[t + 1]] * beta[t + 1]
    return counts / (alpha[-1] * beta[-1]).sum()


def viterbi(x, start, step, stop, emit):
    """The most probable path of states, (T,): it starts, emits every symbol of x, and stops.

    It has the largest start(z_1) emit(z_1, x_1) · Π_t step(z_t, z_{t+1}) emit(z_{t+1}, x_{t+1}) · stop(z_T).

    >>> emit = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> found = viterbi(np.array([0, 1]), np.array([0.5, 0.5]), np.full((2, 2), 0.25), np.array([0.5, 0.5]), emit)
    >>> np.array_equal(found, [0, 1])
    True
    """
    scores, pointers = start * emit[:, x[0]], []
    for symbol in x[1:]:
        reached = scores[:, None] * step * emit[:, symbol]
        pointers.append(reached.argmax(0))
        scores = reached.max(0)
    path = [int((scores * stop).argmax())]
    for pointer in pointers[::-1]:
        path.append(int(pointer[path[-1]]))
    return np.array(path[::-1])


def explained_scores(x, mean, W, variance):
    """E[z | x] in x = W z + mean + noise, z ~ Normal(0, I), noise ~ Normal(0, variance · I). x: (N, D). Returns (N, q).

    >>> np.allclose(explained_scores(np.array([[3.0]]), np.array([0.0]), np.array([[2.0]]), 2.0), [[1.0]], atol=0.001)
    True
    """
    return np.linalg.solve(W.T @ W + variance * np.eye(W.shape[1]), W.T @ (x - mean).T).T
