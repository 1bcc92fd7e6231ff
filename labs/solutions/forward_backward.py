# mypy: allow-untyped-defs
"""Forward and backward: a hidden Markov model whose sequences start and end at a boundary state.

start[i]: the probability that a sequence starts in state i;  step[i, j]: that j follows i;  stop[i]: that the
sequence ends after i;  emit[i, w]: that state i emits symbol w. Each row of step, with its stop, sums to 1.
These are probabilities. α, β and the likelihood are logarithms, because the probability of a long sequence is too small
for a computer.
"""

import numpy as np


def log_sum(values, axis):
    """The logarithm of Σ exp(values) along an axis, with the largest value taken out first; −infinity where all are.

    >>> np.allclose(log_sum(np.array([-1000.0, -1000.0]), 0), -999.307, atol=0.001)
    True
    """
    largest = values.max(axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    return np.log(np.exp(values - largest).sum(axis)) + largest.squeeze(axis)


def forward(x, start, step, emit):
    """α_t(j) in logarithms: the log probability of the symbols up to and including x_t, and of state j at t.

        α_1(j)     = start_j emit[j, x_1]
        α_{t+1}(j) = [ Σ_i α_t(i) step_ij ] emit[j, x_{t+1}]

    x: (T,) symbols from 0; start: (S,); step: (S, S); emit: (S, W). Returns (T, S), logarithms.

    >>> found = forward(np.array([0]), np.array([0.5, 0.5]), np.eye(2) / 2, np.array([[0.2, 0.8], [1.0, 0.0]]))
    >>> np.allclose(found, [[-2.303, -0.693]], atol=0.001)
    True
    """
    with np.errstate(divide="ignore"):
        log_step, log_emit = np.log(step), np.log(emit)
        alpha = [np.log(start) + log_emit[:, x[0]]]
        for symbol in x[1:]:
            alpha.append(log_sum(alpha[-1][:, None] + log_step, 0) + log_emit[:, symbol])
    return np.array(alpha)


def backward(x, step, stop, emit):
    """β_t(i) in logarithms: the log probability of all symbols after t and of the end, given state i at t.

        β_T(i) = stop_i
        β_t(i) = Σ_j step_ij emit[j, x_{t+1}] β_{t+1}(j)

    Returns (T, S), logarithms.

    >>> found = backward(np.array([0, 1]), np.eye(2) / 2, np.array([0.5, 0.5]), np.full((2, 2), 0.5))
    >>> np.allclose(found, [[-2.079, -2.079], [-0.693, -0.693]], atol=0.001)
    True
    """
    with np.errstate(divide="ignore"):
        log_step, log_emit = np.log(step), np.log(emit)
        beta = [np.log(stop)]
        for symbol in x[:0:-1]:
            beta.append(log_sum(log_step + log_emit[:, symbol] + beta[-1], 1))
    return np.array(beta[::-1])


def log_likelihood(alpha, stop):
    """The log-likelihood log p(x) = log Σ_i α_T(i) stop_i: the sequence has to end. alpha: (T, S) logarithms. Returns a number.

    >>> np.allclose(log_likelihood(np.log([[0.1, 0.3]]), np.array([0.5, 0.5])), -1.609, atol=0.001)
    True
    """
    return log_sum(alpha[-1] + np.log(stop), 0)


def state_probs(alpha, beta):
    """p(z_t = i | x) = α_t(i) β_t(i) / p(x): after all symbols, also those after t. Every row sums to 1.

    alpha, beta: (T, S) logarithms. Returns (T, S), probabilities.

    >>> np.allclose(state_probs(np.log([[0.1, 0.3]]), np.log([[0.5, 0.5]])), [[0.25, 0.75]], atol=0.001)
    True
    """
    both = alpha + beta
    return np.exp(both - log_sum(both, 1)[:, None])


def transition_counts(x, alpha, beta, step, emit):
    """How often a sequence is expected to step from i to j, given x.

        Σ_{t=1}^{T−1} α_t(i) step_ij emit[j, x_{t+1}] β_{t+1}(j) / p(x),   p(x) = Σ_i α_t(i) β_t(i), the same for every t

    Returns (S, S), which sums to T − 1.

    >>> x, step, stop, emit = np.array([0, 0, 1]), np.full((2, 2), 0.25), np.full(2, 0.5), np.full((2, 2), 0.5)
    >>> alpha, beta = forward(x, np.full(2, 0.5), step, emit), backward(x, step, stop, emit)
    >>> np.allclose(transition_counts(x, alpha, beta, step, emit), [[0.5, 0.5], [0.5, 0.5]], atol=0.001)
    True
    """
    total = log_sum(alpha[-1] + beta[-1], 0)
    counts = np.zeros(step.shape)
    for t in range(len(x) - 1):
        joint = alpha[t][:, None] + np.log(step) + np.log(emit[:, x[t + 1]]) + beta[t + 1]
        counts += np.exp(joint - total)
    return counts
