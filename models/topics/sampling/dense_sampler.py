"""Collapsed Gibbs sampling for few topics: compiled sweeps that draw each topic given those of all other tokens.

With n⁻ the counts without the token itself, of word v in document d, topic and word probabilities integrated out
(Griffiths and Steyvers, 2004):

    p(z = k | z⁻, w) ∝ (n⁻_dk + α_dk) (n⁻_kv + η_kv) / (n⁻_k + Σ_v η_kv)

A sweep visits the tokens in order and draws each from exactly this conditional, in double precision. All K terms are computed,
eight at a time. The terms of the next token are computed *before* the draw of this one is known: they lack the token that is
being drawn, and its count in its topic becomes one more outcome of the next draw. The processor can then work on two tokens
at once.

Topics are changed in place, and so is the state of the random numbers, four 64-bit integers.
"""

from typing import Any

import numpy as np

from models.host.compilation import LANES, compiled
from models.host.simd import add, add_product, count_up_to, last, load, next_random, prefetch, running_sums, splat, store

BRANCHLESS = 4  # vectors up to which a search looks at all of them


@compiled
def concentration_of(alpha: Any, allowed_topics: Any, d: int, prior: Any) -> None:
    """α of one document's allowed topics, 0 for the others."""
    for k in range(len(alpha)):
        prior[k] = alpha[k] if len(allowed_topics) == 0 or allowed_topics[d, k] else 0.0


@compiled
def largest_of(weights: Any) -> int:
    """The place of the largest: the draw if rounding leads to a topic of no weight."""
    best = 0
    for k in range(len(weights)):
        if weights[k] > weights[best]:
            best = k
    return best


@compiled
def _cumulated(counts: Any, row: int, eta: Any, eta_row: int, q: Any, sums: Any, start: int, heads: Any, head: int) -> float:
    """Weights (n_kv + η_kv) q_k summed down columns of every eighth topic, and running sums of the columns: -> the total."""
    total = splat(0.0)
    for k in range(0, len(q), LANES):
        total = add_product(total, add(load(counts, row + k), load(eta, eta_row + k)), load(q, k))
        store(sums, start + k, total)
    running = running_sums(total)
    store(heads, head + 1, running)
    return float(last(running))


@compiled
def few_topics(
    word: Any,
    starts: Any,
    num_words: int,
    topic: Any,
    alpha: Any,
    eta: Any,
    eta_total: Any,
    allowed_topics: Any,
    random: Any,
    sweeps: int,
) -> Any:
    """Sweeps that compute all K terms for every token; eta (V, K), or (1, K) where all words have the same; eta_total (K,).

    ``allowed_topics`` is (M, K), or (0, 0) where all topics are. -> the weights (K,) from which the last token was drawn.
    """
    K = len(alpha)
    width = -(-K // LANES) * LANES
    vectors, masked = width // LANES, len(allowed_topics) > 0
    counts = np.zeros(num_words * width, np.int32)
    flat_eta, stride = np.zeros(len(eta) * width), width if len(eta) > 1 else 0
    for v in range(len(eta)):
        flat_eta[v * width : v * width + K] = eta[v]
    n, nd, prior, q, eta_sum = np.zeros(width), np.zeros(width), np.zeros(width), np.zeros(width), np.ones(width)
    eta_sum[:K] = eta_total
    for i in range(len(word)):
        counts[word[i] * width + topic[i]] += 1
        n[topic[i]] += 1
    sums, heads, weights = np.zeros(2 * width + LANES), np.zeros(4 * LANES), np.zeros(K)
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
            for k in range(width):
                q[k] = (nd[k] + prior[k]) / (n[k] + eta_sum[k])
            now, total, extra, pending, row, eta_row = 0, 0.0, 0.0, 0, 0, 0
            for i in range(begin - 1, end):  # prepares token i + 1, then draws token i
                s0, s1, s2, s3, u = next_random(s0, s1, s2, s3)
                then, next_total, own_row = 1 - now, 0.0, row
                ahead = width * word[min(i + 3, len(word) - 1)]
                for line in range(0, width, 2 * LANES):
                    prefetch(counts, ahead + line)
                if i + 1 < end:
                    row, k = width * word[i + 1], topic[i + 1]
                    eta_row = word[i + 1] * stride
                    counts[row + k] -= 1
                    n[k] -= 1
                    nd[k] -= 1
                    q[k] = (nd[k] + prior[k]) / (n[k] + eta_sum[k])
                    next_total = _cumulated(counts, row, flat_eta, eta_row, q, sums, then * width, heads, then * 2 * LANES)
                if i >= begin:
                    offset, head = now * width, now * 2 * LANES
                    if i + 1 == len(word):
                        for k in range(K):
                            weights[k] = sums[offset + k] - (sums[offset + k - LANES] if k >= LANES else 0.0)
                        weights[pending] += extra
                    u *= total + extra
                    column = count_up_to(load(heads, head + 1), u)
                    rest = u - heads[head + column]
                    if vectors <= BRANCHLESS:
                        passed = 0
                        for b in range(vectors - 1):
                            passed += 1 if sums[offset + b * LANES + column] <= rest else 0
                        drawn = passed * LANES + column
                    else:
                        drawn = column
                        while drawn < width - LANES and sums[offset + drawn] <= rest:
                            drawn += LANES
                    drawn = min(drawn, K - 1)
                    drawn = pending if u >= total else drawn
                    if masked and q[drawn] <= 0:
                        drawn = largest_of(q)
                    topic[i] = drawn
                    without = (counts[row + drawn] + flat_eta[eta_row + drawn]) * q[drawn]
                    counts[own_row + drawn] += 1
                    n[drawn] += 1
                    nd[drawn] += 1
                    q[drawn] = (nd[drawn] + prior[drawn]) / (n[drawn] + eta_sum[drawn])
                    pending = drawn
                    extra = (counts[row + drawn] + flat_eta[eta_row + drawn]) * q[drawn] - without
                    if extra < 0 and i + 1 < end:  # no separate outcome: α is large relative to η, and the topic is hardly used
                        next_total = _cumulated(counts, row, flat_eta, eta_row, q, sums, then * width, heads, then * 2 * LANES)
                        extra = 0.0
                now, total = then, next_total
    random[0], random[1], random[2], random[3] = s0, s1, s2, s3
    return weights


@compiled
def tallied(word: Any, starts: Any, topic: Any, document_topic: Any, word_topic: Any) -> None:
    """Count topics of documents and words into tables of zeros."""
    for d in range(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            document_topic[d, topic[i]] += 1
            word_topic[word[i], topic[i]] += 1
