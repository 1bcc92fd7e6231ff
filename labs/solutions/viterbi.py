# mypy: allow-untyped-defs
"""Viterbi: the most probable path through the states of a hidden Markov model with a boundary state.

start[i]: the probability that a sequence starts in state i;  step[i, j]: that j follows i;  stop[i]: that the
sequence ends after i;  emit[i, w]: that state i emits symbol w. Work with logarithms: a long sequence has a
probability that is too small for a computer.
"""

import numpy as np


def log_joint(path, x, start, step, stop, emit):
    """The log joint density log p(path, x): start, emissions, steps and the stop. path, x: (T,). Returns a number.

    >>> found = log_joint([0], [1], np.array([0.5]), np.array([[0.5]]), np.array([0.5]), np.array([[0.2, 0.8]]))
    >>> np.allclose(found, -1.609, atol=0.001)
    True
    """
    path = np.asarray(path)
    steps = np.log(step[path[:-1], path[1:]]).sum()
    return np.log(start[path[0]]) + np.log(emit[path, x]).sum() + steps + np.log(stop[path[-1]])


def best_scores(x, start, step, emit):
    """The table of Viterbi: the log probability of the best path that is in state j at t and has emitted x_1, …, x_t.

        score_1(j)     = log start_j + log emit[j, x_1]
        score_{t+1}(j) = max_i [ score_t(i) + log step_ij ] + log emit[j, x_{t+1}]
        pointer_{t+1}(j) = the i that has this maximum (of two either)

    Returns (scores (T, S), pointers (T, S) of whole numbers). The first row of pointers is never used: it can be all 0.

    >>> one = np.array([0.5, 0.5])
    >>> found = best_scores(np.array([0, 0]), one, np.array([[0.8, 0.1], [0.1, 0.8]]), np.array([[1.0, 0.0], [0.5, 0.5]]))[1]
    >>> np.array_equal(found[1:], [[0, 1]])
    True
    """
    with np.errstate(divide="ignore"):
        log_step, log_emit = np.log(step), np.log(emit)
        scores, pointers = [np.log(start) + log_emit[:, x[0]]], [np.zeros(len(start), int)]
        for symbol in x[1:]:
            reached = scores[-1][:, None] + log_step
            pointers.append(reached.argmax(0))
            scores.append(reached.max(0) + log_emit[:, symbol])
    return np.array(scores), np.array(pointers)


def best_path(x, start, step, stop, emit):
    """The most probable path: the best last state, with its stop, and from there back along the pointers. Returns (T,).

        z_T = argmax_i [ score_T(i) + log stop_i ],    z_t = pointer_{t+1}(z_{t+1})

    >>> step, emit = np.array([[0.8, 0.1], [0.1, 0.8]]), np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> found = best_path(np.array([0, 0, 1, 1]), np.array([0.5, 0.5]), step, np.array([0.1, 0.1]), emit)
    >>> np.array_equal(found, [0, 0, 1, 1])
    True
    """
    scores, pointers = best_scores(x, start, step, emit)
    path = [int((scores[-1] + np.log(stop)).argmax())]
    for pointer in pointers[:0:-1]:
        path.append(int(pointer[path[-1]]))
    return np.array(path[::-1])


def tags(alpha, beta):
    """Another way to read a sequence: at each t the state with the largest p(z_t | x) ∝ α_t(i) β_t(i). Returns (T,).

    More of its single states are right on average, but the path as a whole can be impossible.
    alpha, beta: (T, S), the logarithms of forward and backward.

    >>> np.array_equal(tags(np.log([[0.1, 0.3]]), np.log([[0.6, 0.1]])), [0])
    True
    """
    return (alpha + beta).argmax(1)
