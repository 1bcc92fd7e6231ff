"""Compiled sweeps over documents whose topics have given word probabilities β, and the draw of one token's topic.

With topic proportions integrated out and n⁻ the counts of document d without the token itself, of word v:

    p(z = k | z⁻, w, β) ∝ (n⁻_dk + α_dk) β_kv

Other documents do not matter, so that documents can be sampled in parallel. β is a flat table with one row per word, ``width``
apart, with topics padded by zeros to whole vectors (`rows_of`).
"""

from typing import Any

import numpy as np

from models.host.compilation import LANES, compiled
from models.host.simd import add_product, count_up_to, last, load, next_random, prefetch, running_sums, splat, store
from models.topics.sampling.dense_sampler import concentration_of


def rows_of(table: np.ndarray) -> tuple[np.ndarray, int]:
    """A table (R, K) as flat rows of whole vectors, and their width."""
    width = -(-table.shape[1] // LANES) * LANES
    padded = np.zeros((len(table), width))
    padded[:, : table.shape[1]] = table
    return padded.reshape(-1), width


@compiled
def summed_products(table: Any, row: int, q: Any, sums: Any, start: int, heads: Any, head: int) -> float:
    """β_kv q_k summed down columns of every eighth topic, and running sums of the columns: -> the total."""
    total = splat(0.0)
    for k in range(0, len(q), LANES):
        total = add_product(total, load(table, row + k), load(q, k))
        store(sums, start + k, total)
    running = running_sums(total)
    store(heads, head + 1, running)
    return float(last(running))


@compiled
def place_of(sums: Any, start: int, heads: Any, head: int, width: int, u: float) -> int:
    """The topic where sums made by `summed_products` pass u."""
    column = min(count_up_to(load(heads, head + 1), u), LANES - 1)
    rest, drawn = u - heads[head + column], column
    while drawn < width - LANES and sums[start + drawn] <= rest:
        drawn += LANES
    return drawn


@compiled
def heaviest(table: Any, row: int, q: Any) -> int:
    """Where β_kv q_k is largest: the draw if rounding leads to a topic of no weight."""
    best = 0
    for k in range(len(q)):
        if table[row + k] * q[k] > table[row + best] * q[best]:
            best = k
    return best


@compiled
def dense_documents(
    word: Any,
    starts: Any,
    topic: Any,
    alpha: Any,
    allowed_topics: Any,
    table: Any,
    width: int,
    random: Any,
    begin: int,
    end: int,
) -> Any:
    """One sweep over documents ``begin`` to ``end`` that computes all K terms; arguments as in `few_topics`, β by rows.

    As there, the terms of the next token are computed before the draw of this one is known: the count of this one in its topic
    is one more outcome of the next draw. -> the weights (K,) from which the last token was drawn.
    """
    K = len(alpha)
    nd, prior, q = np.zeros(width), np.zeros(width), np.zeros(width)
    sums, heads, weights = np.zeros(2 * width), np.zeros(4 * LANES), np.zeros(K)
    s0, s1, s2, s3 = random[0], random[1], random[2], random[3]
    final = starts[end] - 1
    for d in range(begin, end):
        first, past = starts[d], starts[d + 1]
        if first == past:
            continue
        concentration_of(alpha, allowed_topics, d, prior)
        nd[:] = 0
        for i in range(first, past):
            nd[topic[i]] += 1
        for k in range(width):
            q[k] = nd[k] + prior[k]
        now, total, extra, pending, row, u = 0, 0.0, 0.0, 0, 0, 0.0
        for i in range(first - 1, past):  # prepares token i + 1, then draws token i
            then, next_total, own_row = 1 - now, 0.0, row
            if i + 1 < past:
                s0, s1, s2, s3, u_next = next_random(s0, s1, s2, s3)
                ahead = width * word[min(i + 4, len(word) - 1)]
                for line in range(0, width, LANES):
                    prefetch(table, ahead + line)
                row, k = width * word[i + 1], topic[i + 1]
                nd[k] -= 1
                q[k] = nd[k] + prior[k]
                next_total = summed_products(table, row, q, sums, then * width, heads, then * 2 * LANES)
            else:
                u_next = 0.0
            if i >= first:
                offset, head = now * width, now * 2 * LANES
                if i == final:
                    for k in range(K):
                        weights[k] = sums[offset + k] - (sums[offset + k - LANES] if k >= LANES else 0.0)
                    weights[pending] += extra
                u *= total + extra
                drawn = pending if u >= total else place_of(sums, offset, heads, head, width, u)
                if q[drawn] * table[own_row + drawn] <= 0:
                    drawn = heaviest(table, own_row, q)
                topic[i] = drawn
                nd[drawn] += 1
                without = q[drawn]
                q[drawn] = nd[drawn] + prior[drawn]
                pending, extra = drawn, table[row + drawn] * (q[drawn] - without)
            now, total, u = then, next_total, u_next
    random[0], random[1], random[2], random[3] = s0, s1, s2, s3
    return weights


@compiled
def dense_shards(
    word: Any,
    starts: Any,
    topic: Any,
    alpha: Any,
    allowed_topics: Any,
    table: Any,
    width: int,
    random: Any,
    cuts: Any,
    begin: int,
    end: int,
) -> None:
    """`dense_documents` of shards ``begin`` to ``end``: documents cuts[s] to cuts[s + 1] with random numbers random[s]."""
    for s in range(begin, end):
        if cuts[s] < cuts[s + 1]:
            dense_documents(word, starts, topic, alpha, allowed_topics, table, width, random[s], cuts[s], cuts[s + 1])
