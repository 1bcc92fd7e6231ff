"""Exact collapsed Gibbs sampling for many topics: time grows with the number of topics that a word occurs in, not with K.

If all words have the same η, the conditional of `models.topics.sampling.dense_sampler` splits as in SparseLDA (Yao, Mimno and
McCallum, 2009): with q_k = (n_dk + α_dk) / (n_k + Vη), kept up to date, its terms sum to
η Σ_k q_k + Σ_k n_kv q_k. The first sum is stored by blocks of topics. The second needs only the topics in which word v occurs:
a list of them or, for words with many topics, a row of counts of all topics. Each call decides between list and row at its
start; the choice does not change any probability.
"""

from typing import Any

import numpy as np

from models.host.compilation import LANES, compiled
from models.host.simd import (
    add,
    add_product,
    count_up_to,
    first_bit,
    last,
    load,
    matches,
    next_random,
    prefetch,
    running_sums,
    splat,
    store,
)
from models.topics.sampling.dense_sampler import concentration_of, largest_of

BLOCK = 32  # topics in one block: four vectors
AHEAD = 4  # tokens between asking for a word's topics and drawing from them
LISTED = 0.1  # share of topics up to which those of a word are a list: `python -m benchmarks latent_dirichlet`


@compiled
def _first_place(array: Any, start: int, size: int, value: Any) -> int:
    """The first of ``size`` entries that equals the value, ``size`` if none does; may read sixteen entries beyond."""
    for place in range(0, size, 2 * LANES):
        bits = matches(array, start + place, value)
        if bits != 0:
            return min(place + first_bit(bits), size)
    return size


@compiled
def _tables(word: Any, topic: Any, num_words: int, K: int, width: int) -> Any:
    """Of every word: where its list (or, below 0, its row) starts and how long it is; lists of topics and counts; rows."""
    first, size = np.zeros(num_words + 1, np.int64), np.zeros(num_words, np.int64)
    for v in word:
        first[v + 1] += 1
    for v in range(num_words):
        first[v + 1] += first[v]
    at, ordered, seen = first[:-1].copy(), np.zeros(len(word), np.int32), np.full(K, -1, np.int64)
    for i in range(len(word)):
        v = word[i]
        ordered[at[v]] = topic[i]
        at[v] += 1
    place, used, rows = np.zeros(num_words, np.int64), 0, 0
    for v in range(num_words):
        for i in range(first[v], first[v + 1]):
            if seen[ordered[i]] != v:
                seen[ordered[i]] = v
                size[v] += 1
        if size[v] > K * LISTED:
            place[v] = -1 - rows
            rows += width
        else:
            place[v] = used
            used += min(first[v + 1] - first[v], K)
    topics, counts, row, one = (
        np.full(used + 2 * LANES, -1, np.int32),
        np.zeros(used + 2 * LANES, np.int32),
        np.zeros(rows, np.int32),
        np.zeros(K, np.int32),
    )
    for v in range(num_words):
        for i in range(first[v], first[v + 1]):
            if place[v] < 0:
                row[-1 - place[v] + ordered[i]] += 1
            else:
                one[ordered[i]] += 1
        p = place[v]
        if p >= 0:
            for i in range(first[v], first[v + 1]):
                k = ordered[i]
                if one[k] > 0:
                    topics[p], counts[p], one[k] = k, one[k], 0
                    p += 1
    return place, size, topics, counts, row


@compiled
def _from_row(counts: Any, start: int, eta: float, q: Any, heads: Any, u: float) -> int:
    """A topic drawn from (n_kv + η) q_k, of a row of counts; u in [0, 1)."""
    e = splat(eta)
    a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(0, len(q), BLOCK):
        a = add_product(a, add(load(counts, start + k), e), load(q, k))
        b = add_product(b, add(load(counts, start + k + 8), e), load(q, k + 8))
        c = add_product(c, add(load(counts, start + k + 16), e), load(q, k + 16))
        d = add_product(d, add(load(counts, start + k + 24), e), load(q, k + 24))
    a = running_sums(a)
    b = add(running_sums(b), splat(last(a)))
    c = add(running_sums(c), splat(last(b)))
    d = add(running_sums(d), splat(last(c)))
    store(heads, 1, a)
    store(heads, 9, b)
    store(heads, 17, c)
    store(heads, 25, d)
    u *= last(d)
    k = min(count_up_to(a, u) + count_up_to(b, u) + count_up_to(c, u) + count_up_to(d, u), BLOCK - 1)
    u -= heads[k]
    while k < len(q) - BLOCK:
        u -= (counts[start + k] + eta) * q[k]
        if u < 0:
            break
        k += BLOCK
    return k


@compiled
def _listed_sum(topics: Any, counts: Any, start: int, size: int, q: Any, sums: Any) -> float:
    """Σ_k n_kv q_k over a list, stored after every eighth entry."""
    total, whole = 0.0, size // 8
    for i in range(whole):
        a = start + 8 * i
        left = counts[a] * q[topics[a]] + counts[a + 1] * q[topics[a + 1]]
        right = counts[a + 2] * q[topics[a + 2]] + counts[a + 3] * q[topics[a + 3]]
        low = counts[a + 4] * q[topics[a + 4]] + counts[a + 5] * q[topics[a + 5]]
        high = counts[a + 6] * q[topics[a + 6]] + counts[a + 7] * q[topics[a + 7]]
        total += (left + right) + (low + high)
        sums[i] = total
    for a in range(start + 8 * whole, start + size):
        total += counts[a] * q[topics[a]]
    return total


@compiled
def _from_list(topics: Any, counts: Any, start: int, size: int, q: Any, sums: Any, u: float) -> int:
    """The place in the list where the sum passes u."""
    i = 0
    while i < size // 8 and sums[i] <= u:
        i += 1
    if i > 0:
        u -= sums[i - 1]
    place = 8 * i
    while place < size - 1:
        u -= counts[start + place] * q[topics[start + place]]
        if u < 0:
            break
        place += 1
    return min(place, size - 1)


@compiled
def _from_blocks(blocks: Any, q: Any, K: int, u: float) -> int:
    """The topic where the sum of q passes u."""
    b = 0
    while b < len(blocks) - 1 and blocks[b] <= u:
        u -= blocks[b]
        b += 1
    k = b * BLOCK
    while k < min(K, (b + 1) * BLOCK) - 1:
        u -= q[k]
        if u < 0:
            break
        k += 1
    return k


@compiled
def many_topics(
    word: Any, starts: Any, num_words: int, topic: Any, alpha: Any, eta: float, allowed_topics: Any, random: Any, sweeps: int
) -> Any:
    """Sweeps whose work for a token is the number of topics that its word has; arguments as in `few_topics`, η a number."""
    K = len(alpha)
    width, eta_sum = -(-K // BLOCK) * BLOCK, num_words * eta
    place, sizes, topics, counts, rows = _tables(word, topic, num_words, K, width)
    n, nd, prior, q, blocks = np.zeros(K), np.zeros(K), np.zeros(K), np.zeros(width), np.zeros(width // BLOCK)
    sums, heads, weights = np.zeros(K // 8 + 1), np.zeros(BLOCK + 1), np.zeros(K)
    for k in topic:
        n[k] += 1
    s0, s1, s2, s3 = random[0], random[1], random[2], random[3]
    for _ in range(sweeps):
        for d in range(len(starts) - 1):
            begin, end = starts[d], starts[d + 1]
            if begin == end:
                continue
            concentration_of(alpha, allowed_topics, d, prior)
            nd[:] = 0
            for i in range(begin, end):
                nd[topic[i]] += 1
            for k in range(K):
                q[k] = (nd[k] + prior[k]) / (n[k] + eta_sum)
            smooth = 0.0
            for b in range(len(blocks)):
                blocks[b] = q[b * BLOCK : (b + 1) * BLOCK].sum()
                smooth += blocks[b]
            for i in range(begin, end):
                s0, s1, s2, s3, u = next_random(s0, s1, s2, s3)
                v, k = word[i], np.int64(topic[i])
                start, size = place[v], sizes[v]
                soon = word[min(i + AHEAD, len(word) - 1)]
                ahead = place[soon]
                if ahead < 0:
                    for line in range(0, width, 2 * LANES):
                        prefetch(rows, -1 - ahead + line)
                else:
                    for line in range(ahead, ahead + sizes[soon], 2 * LANES):
                        prefetch(topics, line)
                        prefetch(counts, line)
                n[k] -= 1
                nd[k] -= 1
                without = (nd[k] + prior[k]) / (n[k] + eta_sum)
                blocks[k // BLOCK] += without - q[k]
                smooth += without - q[k]
                q[k] = without
                if start < 0:
                    start = -1 - start
                    rows[start + k] -= 1
                    if i + 1 == len(word):
                        weights[:] = (rows[start : start + K] + eta) * q[:K]
                    k = _from_row(rows, start, eta, q, heads, u)
                    if k >= K or q[k] <= 0:
                        k = largest_of(q)
                    rows[start + k] += 1
                else:
                    at = _first_place(topics, start, size, topic[i])
                    counts[start + at] -= 1
                    if counts[start + at] == 0:
                        size -= 1
                        topics[start + at], counts[start + at] = topics[start + size], counts[start + size]
                        topics[start + size], counts[start + size] = -1, 0
                    listed = _listed_sum(topics, counts, start, size, q, sums)
                    if i + 1 == len(word):
                        weights[:] = eta * q[:K]
                        for at in range(start, start + size):
                            weights[topics[at]] += counts[at] * q[topics[at]]
                    u *= listed + eta * smooth
                    if u < listed:
                        at = _from_list(topics, counts, start, size, q, sums, u)
                        k = np.int64(topics[start + at])
                    else:
                        k = _from_blocks(blocks, q, K, (u - listed) / eta)
                        if q[k] <= 0:
                            k = largest_of(q)
                        at = _first_place(topics, start, size, np.int32(k))
                        if at == size:
                            topics[start + size] = k
                            size += 1
                    counts[start + at] += 1
                    sizes[v] = size
                topic[i] = k
                n[k] += 1
                nd[k] += 1
                new = (nd[k] + prior[k]) / (n[k] + eta_sum)
                blocks[k // BLOCK] += new - q[k]
                smooth += new - q[k]
                q[k] = new
    random[0], random[1], random[2], random[3] = s0, s1, s2, s3
    return weights
