"""Forward and backward recursions of one sequence in logarithms: slower, and nothing underflows."""

from typing import Any

import numpy as np

from models.host.compilation import compiled


@compiled
def log_sum(terms: Any) -> Any:
    """Log Σ exp(terms); −∞ if all are."""
    largest = terms.max()
    if largest == -np.inf:
        return largest
    return largest + np.log(np.exp(terms - largest).sum())


@compiled
def add_in_logs(
    code: Any, start: Any, step: Any, stop: Any, symbol: Any, weight: Any, first: Any, pair: Any, last: Any, counts: Any
) -> Any:
    """Log p(x) of a sequence of codes (L,); adds its expected counts times ``weight``: first and last states (S,), transitions
    (S, S), symbols (V, S). An impossible sequence adds none.
    """
    length, size = len(code), len(start)
    state, scale = np.empty((length, size)), np.empty(length)
    joint, total = start + symbol[code[0]], 0.0
    for t in range(length):
        scale[t] = log_sum(joint)
        total += scale[t]
        if scale[t] == -np.inf:
            return scale[t]
        state[t] = joint - scale[t]
        if t + 1 < length:
            for j in range(size):
                joint[j] = log_sum(state[t] + step[:, j]) + symbol[code[t + 1], j]
    end = log_sum(state[length - 1] + stop)
    if end == -np.inf:
        return end
    beta, earlier = stop - end, np.empty(size)
    last += weight * np.exp(state[length - 1] + beta)
    for t in range(length - 1, -1, -1):
        both = weight * np.exp(state[t] + beta)
        counts[code[t]] += both
        if t == 0:
            first += both
        else:
            ahead = symbol[code[t]] + beta - scale[t]
            for i in range(size):
                onwards = step[i] + ahead
                pair[i] += weight * np.exp(state[t - 1, i] + onwards)
                earlier[i] = log_sum(onwards)
            beta[:] = earlier
    return total + end
