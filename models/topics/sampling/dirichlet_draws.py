"""Compiled draws of gamma variables, and of the word probabilities of topics as normalised gamma variables.

β_k ~ Dirichlet(η_k + n_k) is G_kv / Σ_v G_kv with G_kv ~ Gamma(η_kv + n_kv). With concentrations of 0.01 and
less, gamma variables may underflow. In a topic with tokens this does no harm, as some variables are of order one and the others
are 0 to machine precision. Topics without tokens are drawn in logarithms.
"""

from typing import Any

import numpy as np

from models.host.compilation import compiled
from models.host.simd import next_random

CHUNK = 1024  # tokens of a word whose topics are fetched at once


@compiled
def uniform(s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """As `next_random`, but a number in (0, 1], where rounding makes the 1.

    States are passed and returned: in memory they cost three times as much.
    """
    s0, s1, s2, s3, u = next_random(s0, s1, s2, s3)
    return s0, s1, s2, s3, u + 2.0**-54


@compiled
def gamma(shape: float, s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """A gamma variable of a shape of one or more: Marsaglia and Tsang (2000), with normal variables by the polar method."""
    d = shape - 1 / 3
    c = 1 / np.sqrt(9 * d)
    while True:
        square, x = 2.0, 0.0
        while square >= 1:
            s0, s1, s2, s3, u = uniform(s0, s1, s2, s3)
            s0, s1, s2, s3, y = uniform(s0, s1, s2, s3)
            x, y = 2 * u - 1, 2 * y - 1
            square = x * x + y * y
        x *= np.sqrt(-2 * np.log(square) / square)
        v = 1 + c * x
        if v <= 0:
            continue
        s0, s1, s2, s3, u = uniform(s0, s1, s2, s3)
        v, square = v * v * v, x * x
        if u < 1 - 0.0331 * square * square or np.log(u) < 0.5 * square + d * (1 - v + np.log(v)):
            return s0, s1, s2, s3, d * v


@compiled
def small_gamma(shape: float, s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """A gamma variable of a shape below one, which may be 0 by underflow, and its logarithm.

    Below a half by rejection (Liu, Martin and Syring, 2017, algorithm 1). There, logarithms t are proposed below 0 with
    probability 1 / (1 + shape / (e (1 - shape))). From a half on: that of shape + 1 times a power of a uniform variable.
    """
    if shape >= 0.5:
        s0, s1, s2, s3, y = gamma(shape + 1, s0, s1, s2, s3)
        s0, s1, s2, s3, u = uniform(s0, s1, s2, s3)
        t = np.log(y) + np.log(u) / shape
        return s0, s1, s2, s3, np.exp(t), t
    share = 1 / (1 + shape / (np.e * (1 - shape)))
    while True:
        s0, s1, s2, s3, u = uniform(s0, s1, s2, s3)
        s0, s1, s2, s3, limit = uniform(s0, s1, s2, s3)
        if u <= share:
            t = np.log(u / share) / shape
            y = np.exp(t)
            if limit < 1 - y or limit < np.exp(-y):
                return s0, s1, s2, s3, y, t
        else:
            s0, s1, s2, s3, u = uniform(s0, s1, s2, s3)
            t = -np.log(u) / (1 - shape)
            y = np.exp(t)
            if limit < np.exp(1 + t - y):
                return s0, s1, s2, s3, y, t


@compiled
def places_of_words(word: Any, num_words: int) -> Any:
    """Where every word's tokens begin (V + 1,) in the list of all tokens by word, and that list (T,)."""
    first, order = np.zeros(num_words + 1, np.int64), np.zeros(len(word), np.int64)
    for v in word:
        first[v + 1] += 1
    for v in range(num_words):
        first[v + 1] += first[v]
    at = first[:-1].copy()
    for i in range(len(word)):
        order[at[word[i]]] = i
        at[word[i]] += 1
    return first, order


@compiled
def drawn_words(
    first: Any, order: Any, topic: Any, eta: Any, table: Any, cuts: Any, random: Any, used: Any, sums: Any, begin: int, end: int
) -> None:
    """Gamma variables of the words of shards ``begin`` to ``end`` into their rows of ``table`` (V, width).

    eta (V, K), or (1, K) where all words have the same. Of every shard s: how many tokens a topic has, ``used`` (S, K), and the
    sums of its variables, ``sums`` (S, K). ``cuts`` (S + 1,) are the shards' words, ``random`` (S, 4) their random numbers.
    """
    K = eta.shape[1]
    counts, some = np.zeros(K, np.int64), np.zeros(CHUNK, np.int32)
    for s in range(begin, end):
        total, tokens = sums[s], used[s]
        s0, s1, s2, s3 = random[s, 0], random[s, 1], random[s, 2], random[s, 3]
        total[:] = 0.0
        tokens[:] = 0
        for v in range(cuts[s], cuts[s + 1]):
            counts[:] = 0
            for start in range(first[v], first[v + 1], CHUNK):
                size = min(CHUNK, first[v + 1] - start)
                for i in range(size):  # apart from counting: loads that wait for no store
                    some[i] = topic[order[start + i]]
                for i in range(size):
                    counts[some[i]] += 1
            prior, row = eta[v if len(eta) > 1 else 0], table[v]
            for k in range(K):
                shape = counts[k] + prior[k]
                if shape >= 1:
                    s0, s1, s2, s3, drawn = gamma(shape, s0, s1, s2, s3)
                else:
                    s0, s1, s2, s3, drawn, _ = small_gamma(shape, s0, s1, s2, s3)
                row[k] = drawn
                total[k] += drawn
                tokens[k] += counts[k]
        random[s, 0], random[s, 1], random[s, 2], random[s, 3] = s0, s1, s2, s3


@compiled
def drawn_unused(k: int, eta: Any, table: Any, random: Any) -> float:
    """The variables of a topic without a token, all times one number that makes the largest 1: -> their sum."""
    largest, total = -np.inf, 0.0
    s0, s1, s2, s3 = random[0], random[1], random[2], random[3]
    for v in range(len(table)):
        shape = eta[v if len(eta) > 1 else 0, k]
        if shape >= 1:
            s0, s1, s2, s3, drawn = gamma(shape, s0, s1, s2, s3)
            table[v, k] = np.log(drawn)
        else:
            s0, s1, s2, s3, _, table[v, k] = small_gamma(shape, s0, s1, s2, s3)
        largest = max(largest, table[v, k])
    random[0], random[1], random[2], random[3] = s0, s1, s2, s3
    for v in range(len(table)):
        table[v, k] = np.exp(table[v, k] - largest)
        total += table[v, k]
    return float(total)


@compiled
def scaled(table: Any, totals: Any, cuts: Any, begin: int, end: int) -> None:
    """Variables of the words of shards ``begin`` to ``end`` divided by the sums of their topics: β."""
    for v in range(cuts[begin], cuts[end]):
        for k in range(len(totals)):
            table[v, k] /= totals[k]
