"""Forward and backward recursions of eight sequences at once, one in each lane of a vector, in probabilities.

An array over S states has eight numbers for each, those of one state side by side: state i of lane k is number 8 i + k.
"""

from typing import Any

import numpy as np

from models.host.compilation import LANES, compiled
from models.host.simd import add, add_product, load, product, splat, store, where_positive

TINY = np.finfo(float).tiny
FAR = 1e-150  # a sum of probabilities below is unsure; the product of two numbers above does not underflow


@compiled
def forward(
    code: Any, length: Any, start: Any, step: Any, symbol: Any, predicted: Any, alpha: Any, weight: Any, inverse: Any,
    log_scale: Any, unsure: Any,
) -> None:  # fmt: skip
    """Filter eight sequences with codes (T, 8) and lengths (8,).

    Writes the predicted states α_{t−1} · transition, α, and the weights of the symbols (T, 8 S), and 1 / scale (T, 8); adds the
    logarithms of the scales to (8,). Marks in ``unsure`` (8,) sequences of which a scale is so small that another number may
    have underflowed.
    """
    size = len(start)
    scale, running = np.empty(LANES), np.ones(LANES)
    for t in range(len(code)):
        before, here, weights, expected = alpha[max(t - 1, 0)], alpha[t], weight[t], predicted[t]
        for k in range(LANES):
            row = symbol[code[t, k]]
            for j in range(size):
                weights[j * LANES + k] = row[j]
        total = splat(0.0)
        for j in range(size):
            state = splat(0.0)
            if t == 0:
                state = splat(start[j])
            else:
                for i in range(size):
                    state = add_product(state, load(before, i * LANES), splat(step[i, j]))
            store(expected, j * LANES, state)
            joint = product(state, load(weights, j * LANES))
            store(here, j * LANES, joint)
            total = add(total, joint)
        store(scale, 0, total)
        for k in range(LANES):
            if scale[k] < FAR:
                unsure[k] |= t < length[k]
                scale[k] = 1.0
            inverse[t, k] = 1 / scale[k]
            if t < length[k]:
                running[k] *= scale[k]
                if running[k] < FAR:
                    log_scale[k] += np.log(running[k])
                    running[k] = 1.0
        shared = load(inverse[t], 0)
        for j in range(size):
            store(here, j * LANES, product(load(here, j * LANES), shared))
    log_scale += np.log(running)


@compiled
def mark_unsure(
    code: Any, length: Any, starts: Any, follows: Any, emits: Any, predicted: Any, weight: Any, smallest: Any, unsure: Any
) -> None:
    """Mark the sequences in which a state that can be reached is predicted (T, 8 S) with less than the ``smallest``, or
    underflows when multiplied by the ``weight`` (T, 8 S) of its symbol.

    ``starts``, ``follows`` (S,) and ``emits`` (V,) are sets of states, one bit each: those that can begin, follow a state, and
    emit a symbol.
    """
    for k in range(LANES):
        reached = starts
        for t in range(length[k]):
            expected, weights = predicted[t], weight[t]
            following = np.int64(0)
            for i in range(len(follows)):
                if reached >> i & 1:
                    unsure[k] |= expected[i * LANES + k] < smallest
                    if emits[code[t, k]] >> i & 1:
                        unsure[k] |= expected[i * LANES + k] * weights[i * LANES + k] < TINY
                        following |= follows[i]
            reached = following


@compiled
def backward(
    code: Any, length: Any, step: Any, last_beta: Any, alpha: Any, weight: Any, inverse: Any, first: Any, pair: Any, last: Any,
    symbol: Any,
) -> None:  # fmt: skip
    """Add the expected counts of eight sequences, from β of their last steps (8 S,).

    The counts are first and last states (S,), symbols (V, S), and Σ_t α_{t−1} weight_t β_t / scale_t in ``pair`` (S, 8 S).
    """
    size = len(step)
    ahead, beta, both = np.zeros(size * LANES), np.empty(size * LANES), np.empty(size * LANES)
    for t in range(len(code) - 1, -1, -1):
        here, weights = alpha[t], weight[t]
        for i in range(size):
            state, total, pairs = load(here, i * LANES), splat(0.0), pair[i]
            for j in range(size):
                following = load(ahead, j * LANES)
                total = add_product(total, following, splat(step[i, j]))
                store(pairs, j * LANES, add_product(load(pairs, j * LANES), state, following))
            store(beta, i * LANES, total)
        for k in range(LANES):
            if t == length[k] - 1:
                for i in range(size):
                    beta[i * LANES + k] = last_beta[i * LANES + k]
        shared = load(inverse[t], 0)
        for i in range(size):  # β of an impossible state may overflow
            state, ahead_of_state = load(here, i * LANES), load(beta, i * LANES)
            store(both, i * LANES, where_positive(state, product(state, ahead_of_state)))
            onwards = product(product(load(weights, i * LANES), shared), ahead_of_state)
            store(ahead, i * LANES, where_positive(state, onwards))
        for k in range(LANES):
            row = symbol[code[t, k]]
            for i in range(size):
                row[i] += both[i * LANES + k]
            if t == length[k] - 1:
                for i in range(size):
                    last[i] += both[i * LANES + k]
            if t == 0:
                for i in range(size):
                    first[i] += both[i * LANES + k]
