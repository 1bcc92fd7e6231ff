"""The compiled part of the left-to-right estimator (`models.topics.left_to_right`): particles of topics, per document."""

from typing import Any

import numpy as np

from models.host.compilation import LANES, compiled
from models.host.simd import next_random
from models.topics.sampling.conditional_sampler import heaviest, place_of, summed_products


@compiled
def random_of(key: Any, number: Any) -> Any:
    """A state of `next_random` from a key and a number: four outputs of SplitMix64 (Steele, Lea and Flood, 2014)."""
    state = np.zeros(4, np.uint64)
    for place in range(4):
        x = key + (np.uint64(4) * np.uint64(number) + np.uint64(place + 1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state[place] = x ^ (x >> np.uint64(31))
    return state


@compiled
def _resampled(weights: Any, u: float, copies: Any) -> None:
    """How often each particle goes on (systematic resampling): R times its share of the weights, rounded up or down."""
    step, past, particle = weights.sum() / len(weights), weights[0], 0
    copies[:] = 0
    for r in range(len(weights)):
        while (r + u) * step >= past and particle < len(weights) - 1:
            particle += 1
            past += weights[particle]
        copies[particle] += 1


@compiled
def left_to_right_documents(
    word: Any,
    starts: Any,
    alpha: Any,
    table: Any,
    width: int,
    particles: int,
    key: Any,
    begin: int,
    end: int,
    estimates: Any,
) -> None:
    """Estimates of log p(w_d | β, α) of documents ``begin`` to ``end`` into ``estimates`` (M,)."""
    prior, nd, q = np.zeros(width), np.zeros((particles, width)), np.zeros((particles, width))
    sums, heads = np.zeros(width), np.zeros(2 * LANES)
    weights, copies = np.zeros(particles), np.zeros(particles, np.int64)
    prior[: len(alpha)] = alpha
    whole = prior.sum()
    for d in range(begin, end):
        first, length = starts[d], starts[d + 1] - starts[d]
        if length == 0:
            continue
        estimate = 0.0
        topic = np.zeros((particles, length), np.int32)
        nd[:] = 0
        q[:] = prior
        state = random_of(key, d)
        s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
        for n in range(length):
            row = width * word[first + n]
            for r in range(particles):
                of_topics, counts = q[r], nd[r]
                for m in range(n):
                    old = topic[r, m]
                    counts[old] -= 1
                    of_topics[old] = counts[old] + prior[old]
                    before = width * word[first + m]
                    total = summed_products(table, before, of_topics, sums, 0, heads, 0)
                    s0, s1, s2, s3, u = next_random(s0, s1, s2, s3)
                    k = place_of(sums, 0, heads, 0, width, u * total)
                    if of_topics[k] * table[before + k] <= 0:
                        k = heaviest(table, before, of_topics)
                    topic[r, m] = k
                    counts[k] += 1
                    of_topics[k] = counts[k] + prior[k]
                weights[r] = summed_products(table, row, of_topics, sums, 0, heads, 0)
            mean = weights.sum() / particles
            if mean <= 0:
                estimate = -np.inf
                break
            estimate += np.log(mean / (n + whole))
            s0, s1, s2, s3, u = next_random(s0, s1, s2, s3)
            _resampled(weights, u, copies)
            source = 0
            for r in range(particles):
                if copies[r] == 0:
                    while copies[source] < 2:
                        source += 1
                    copies[source] -= 1
                    topic[r, :n] = topic[source, :n]
                    nd[r] = nd[source]
                    q[r] = q[source]
            for r in range(particles):
                total = summed_products(table, row, q[r], sums, 0, heads, 0)
                s0, s1, s2, s3, u = next_random(s0, s1, s2, s3)
                k = place_of(sums, 0, heads, 0, width, u * total)
                if q[r, k] * table[row + k] <= 0:
                    k = heaviest(table, row, q[r])
                topic[r, n] = k
                nd[r, k] += 1
                q[r, k] = nd[r, k] + prior[k]
        estimates[d] = estimate
