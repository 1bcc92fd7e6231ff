"""The most probable paths of sequences (Viterbi 1967), by a loop compiled for the host, with a share of them for each thread.

`models.chains.latent.viterbi` finds the same paths in JAX, in the same arithmetic. Here the states of one step lie in the lanes
of a vector, so that a single long sequence is as fast as many.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from models.host.compilation import LANES


class Paths(NamedTuple):
    """The most probable paths of N sequences."""

    state: np.ndarray  # (L, N): 0 beyond the end of a sequence
    log_joint: np.ndarray  # (N,): log p(path, x)


def best_paths(
    start: np.ndarray, step: np.ndarray, stop: np.ndarray, emission: np.ndarray, length: np.ndarray, num_threads: int
) -> Paths:
    """Paths for log probabilities (S,), (S, S), (S,) and (L, N, S) of sequences of length (N,). Ties go to the first state.

    >>> step = np.log([[0.9, 0.1], [0.1, 0.9]])
    >>> emission = np.log([[[0.9, 0.1]], [[0.4, 0.6]], [[0.9, 0.1]]])
    >>> best_paths(np.log([0.5, 0.5]), step, np.zeros(2), emission, np.array([3]), 1).state.T
    array([[0, 0, 0]], dtype=int32)
    """
    longest, number, size = emission.shape
    padded = -(-size // LANES) * LANES
    following = np.full((size, padded), -np.inf)
    following[:, :size] = step
    paths = Paths(np.zeros((longest, number), np.int32), np.empty(number))
    edges = np.searchsorted(np.cumsum(length), np.linspace(0, length.sum(), num_threads + 1)[1:-1], side="right")
    part = partial(_part, start, following, np.ascontiguousarray(step.T), stop, emission, length, paths)
    with ThreadPoolExecutor(num_threads) as pool:
        list(pool.map(part, pairwise([0, *edges, number])))
    return paths


def _part(
    start: np.ndarray,
    following: np.ndarray,
    back_from: np.ndarray,
    stop: np.ndarray,
    emission: np.ndarray,
    length: np.ndarray,
    paths: Paths,
    rows: tuple[int, int],
) -> None:
    from models.chains.compiled.path_loops import find_path

    first, last = rows
    number, size = emission.shape[1:]
    best = np.empty(length[first:last].max(initial=1) * size + following.shape[1])
    flat = np.ascontiguousarray(emission).reshape(-1)
    for n in range(first, last):
        path = np.empty(length[n], np.int32)
        given = (start, following, back_from, stop, flat, n * size, number * size)
        paths.log_joint[n] = find_path(*given, best, path)
        paths.state[: length[n], n] = path
