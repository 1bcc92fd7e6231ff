"""The most probable path of one sequence, the states of a step in the lanes of vectors."""

from typing import Any

import numpy as np

from models.host.compilation import LANES, compiled
from models.host.simd import add, load, maximum, splat, store


@compiled
def find_path(
    start: Any, step: Any, back_from: Any, stop: Any, emission: Any, offset: int, stride: int, best: Any, path: Any
) -> Any:
    """Write the path (L,) of a sequence; returns log p(path, x).

    Its emission log densities begin in the flat array at ``offset``, those of the next step ``stride`` numbers further on.
    ``step`` (S, P) is padded with −∞ to whole vectors, ``back_from`` (S, S) are its columns, and ``best`` (at least L S + P) is
    space for log p of the best paths to each state. Entries of a vector beyond the states of a step are added to −∞ and not
    read, and the next step writes over them.
    """
    length, size, padded = len(path), len(start), step.shape[1]
    reached, density = np.full(padded, -np.inf), np.zeros(padded)
    reached[:size] = start
    for t in range(length):
        here, first = best[t * size :], offset + t * stride
        if first + padded <= len(emission):
            for lane in range(0, padded, LANES):
                store(here, lane, add(load(emission, first + lane), load(reached, lane)))
        else:
            density[:size] = emission[first : first + size]
            for lane in range(0, padded, LANES):
                store(here, lane, add(load(density, lane), load(reached, lane)))
        for lane in range(0, padded, LANES):
            largest = splat(-np.inf)
            for i in range(size):
                largest = maximum(largest, add(splat(here[i]), load(step[i], lane)))
            store(reached, lane, largest)
    value = (best[(length - 1) * size : length * size] + stop).max()
    _trace_back(best, back_from.reshape(-1), stop, path)
    return value


@compiled
def _trace_back(best: Any, back_from: Any, stop: Any, path: Any) -> None:
    """Write the path (L,) from its end: each state is the first with the largest ``best`` plus the step to the state after it.

    States are unsigned and chosen without a jump: a test for negative indices, which count from the end, would run in every
    step, and the jump would often be predicted wrongly. Either takes as long as all the rest.
    """
    length, size = len(path), np.uint64(len(stop))
    onwards, row = stop, np.uint64(0)
    for t in range(length - 1, -1, -1):
        first = np.uint64(t) * size
        largest, state = best[first] + onwards[row], np.uint64(0)
        for i in range(np.uint64(1), size):
            value = best[first + i] + onwards[row + i]
            better = np.uint64(value > largest)
            state += better * (i - state)
            largest = value if better else largest
        path[t] = state
        onwards, row = back_from, state * size
