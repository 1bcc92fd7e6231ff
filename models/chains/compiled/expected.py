"""Expected counts of sequences of symbols, by forward and backward recursions compiled for the host (Rabiner 1989).

    α_t = (α_{t−1} · transition) ∘ weight_t / scale_t,        β_{t−1} = transition · (weight_t ∘ β_t) / scale_t
    P(z_t = i | x) ∝ α_t[i] β_t[i],      P(z_{t−1} = i, z_t = j | x) ∝ α_{t−1}[i] transition[i, j] weight_t[j] β_t[j] / scale_t

`models.chains.forward_backward` computes the same in JAX. Here eight sequences of similar lengths go together, one in each lane
of a vector. Counts are added as the backward recursion passes, so that no array over all steps is written beyond α, and α of
eight sequences stays in the cache. Sequences that may underflow go alone, in logarithms.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from models.host.compilation import LANES

SMALL = np.finfo(float).tiny / np.finfo(float).eps ** 2  # numbers that underflow are below the rounding error of larger ones
HARMLESS = np.sqrt(np.finfo(float).tiny / np.finfo(float).eps)  # as `models.chains.forward_backward.harmless`


class Logs(NamedTuple):
    """Logarithms of the probabilities of a chain of S states that emit one of V symbols: arrays of JAX, then of NumPy."""

    start: Any  # (S,)
    step: Any  # (S, S)
    stop: Any  # (S,); 0 if lengths are given
    symbol: Any  # (V, S)


class Counts(NamedTuple):
    """Expected counts, summed over sequences with their weights."""

    first: np.ndarray  # (S,): states of first steps
    pair: np.ndarray  # (S, S): transitions
    last: np.ndarray  # (S,): states of last steps
    symbol: np.ndarray  # (V, S): symbols by state
    log_partition: np.ndarray  # (): Σ_n weight_n log p(x_n)


class Numbers(NamedTuple):
    """The probabilities themselves, and the sets of states, one bit each, that logarithms of −∞ leave."""

    start: np.ndarray
    step: np.ndarray
    stop: np.ndarray
    symbol: np.ndarray  # (V + 1, S): relative to the largest of a symbol
    largest: np.ndarray  # (V + 1,): logarithm of that; 0 for an impossible symbol
    may_underflow: bool  # whether a probability of the chain is below `HARMLESS`: a state may underflow that matters later
    starts: int
    follows: np.ndarray  # (S,)
    emits: np.ndarray  # (V + 1,)


def expected_counts(code: np.ndarray, length: np.ndarray, weight: np.ndarray | None, num_threads: int, given: Logs) -> Counts:
    """Counts of N sequences with codes (N, L) in 0 … V − 1 of their symbols, −1 if missing; arbitrary beyond the length (N,).

    >>> log_half = np.log(np.full((2, 2), 0.5))
    >>> given = Logs(log_half[0], log_half, np.zeros(2), log_half)
    >>> counts = expected_counts(np.array([[0, 1, 1]]), np.array([3]), None, 1, given)
    >>> counts.symbol.tolist(), float(counts.pair.sum()), round(float(counts.log_partition / np.log(0.5)), 12)
    ([[0.5, 0.5], [1.0, 1.0]], 2.0, 3.0)
    """
    number = len(given.symbol)
    given = given._replace(symbol=np.vstack([given.symbol, np.zeros(len(given.start))]))  # the last row: nothing observed
    there = np.arange(code.shape[1]) < length[:, None]
    code = np.where(there & (code >= 0), code, number)
    weight = np.ones(len(length)) if weight is None else np.asarray(weight, float)
    order = np.argsort(-length, kind="stable")
    num_groups = -(-len(order) // LANES)
    edges = np.linspace(0, num_groups, min(num_threads, num_groups) + 1).astype(int) * LANES
    part = partial(_part, code, length, weight, given, numbers(given))
    shares = [order[first:last] for first, last in pairwise(edges)]
    with ThreadPoolExecutor(len(shares)) as pool:
        parts = list(pool.map(part, shares))
    counts = Counts(*(np.sum(leaves, axis=0) for leaves in zip(*parts, strict=True)))
    return counts._replace(symbol=counts.symbol[:number])


def numbers(given: Logs) -> Numbers:
    """Probabilities of logarithms."""
    largest = given.symbol.max(1)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    start, step, stop = (np.exp(part) for part in given[:3])
    may_underflow = min(start.min(), step.min(), stop.min()) < HARMLESS
    bit = 1 << np.arange(len(start))
    starts, follows, emits = ((part > -np.inf) @ bit for part in (given.start, given.step, given.symbol))
    symbol = np.exp(given.symbol - largest[:, None])
    return Numbers(start, step, stop, symbol, largest, may_underflow, int(starts), follows, emits)


def _part(code: np.ndarray, length: np.ndarray, weight: np.ndarray, given: Logs, known: Numbers, rows: np.ndarray) -> Counts:
    """Counts of the sequences ``rows``, the longest first."""
    from models.chains.compiled.lanes import backward, forward, mark_unsure
    from models.chains.compiled.logs import add_in_logs

    (size,), longest = given.start.shape, length[rows[0]]
    first, pair, last, symbol = np.zeros(size), np.zeros((size, size)), np.zeros(size), np.zeros_like(given.symbol)
    pair_by_lane = np.zeros((size, size * LANES))
    predicted, alpha, weights = np.empty((3, longest, size * LANES))
    inverse = np.empty((longest, LANES))
    log_partition = 0.0
    for begin in range(0, len(rows), LANES):
        group = rows[begin : begin + LANES]
        steps = length[group[0]]
        lane = np.append(group, np.repeat(group[-1:], LANES - len(group)))
        codes, lengths = np.ascontiguousarray(code[lane, :steps].T), length[lane]
        own_weight = np.where(np.arange(LANES) < len(group), weight[lane], 0.0)
        log_density, unsure = known.largest[codes].sum(0), np.zeros(LANES, bool)
        forward(codes, lengths, *known[:2], known.symbol, predicted, alpha, weights, inverse, log_density, unsure)
        if known.may_underflow:
            mark_unsure(codes, lengths, known.starts, known.follows, known.emits, predicted, weights, SMALL, unsure)
        at_end = alpha[lengths - 1, :].reshape(LANES, size, LANES)[np.arange(LANES), :, np.arange(LANES)]  # (8, S)
        end = at_end @ known.stop
        unsure |= end < SMALL
        own_weight[unsure], end[unsure] = 0.0, 1.0
        last_beta = (known.stop[:, None] * (own_weight / end)).ravel()
        backward(codes, lengths, known.step, last_beta, alpha, weights, inverse, first, pair_by_lane, last, symbol)
        log_partition += own_weight @ (log_density + np.log(end))
        for row in group[unsure[: len(group)]]:
            own_codes = code[row, : length[row]]
            total = add_in_logs(own_codes, *given, weight[row], first, pair, last, symbol)
            log_partition += weight[row] * total if weight[row] > 0 else 0.0
    pair += pair_by_lane.reshape(size, size, LANES).sum(2) * known.step
    return Counts(first, pair, last, symbol, np.asarray(log_partition))
