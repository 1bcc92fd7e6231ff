"""Exact, partially collapsed Gibbs sampling of topics, in parallel over shards of documents (Magnusson et al., 2018).

A sweep draws the word probabilities β of all topics given the topics of all tokens, then the topic of every token given β,
topic proportions integrated out (Magnusson, Jonsson, Villani and Broman, "Sparse partially collapsed MCMC for parallel
inference in topic models", 2018, the partially collapsed sampler):

    β_k | z, w ~ Dirichlet(n_kv + η_kv),      p(z = k | z⁻, w, β) ∝ (n⁻_dk + α_dk) β_kv

Given β documents are independent, so that they can be sampled in parallel and the posterior is still exact. AD-LDA (Newman,
Asuncion, Smyth and Welling, 2009) uses the fully collapsed conditional with outdated counts and is approximate. The price of
exactness: a chain mixes more slowly than the fully collapsed one, and each sweep draws K V gamma variables, which is worthwhile
only with many more tokens. All K terms of each token are computed; the alias tables and sparse sums of the paper are not used.

Documents and words are cut into a fixed number of shards, each with its own random numbers: the result does not depend on the
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from models.errors import ZooError
from models.topics.sampling.chains import TopicPrior, start_chain
from models.topics.sampling.corpus import Corpus

SHARDS = 64  # of documents and of words; fixed, because results depend on it


class ShardedChain(NamedTuple):
    """The topic of every token and the states of all random numbers."""

    topic: np.ndarray  # (T,) int32
    random: np.ndarray  # (S, 4) uint64, of the shards of documents
    word_random: np.ndarray  # (S + 1, 4) uint64, of the shards of words; the last: of topics without a token


def start_sharded(corpus: Corpus, prior: TopicPrior, seed: int, chain: int = 0) -> ShardedChain:
    """The topics of `start_chain`, and random numbers of this seed and chain alone."""
    states = np.random.SeedSequence(seed, spawn_key=(chain, 2)).generate_state(4 * (2 * SHARDS + 1), np.uint64).reshape(-1, 4)
    return ShardedChain(start_chain(corpus, prior, seed, chain).topic, states[:SHARDS].copy(), states[SHARDS:].copy())


class WordRows(NamedTuple):
    """The inputs of draws of β, made once for many sweeps (`word_rows`)."""

    first: np.ndarray  # (V + 1,): where every word's tokens begin in ``order``
    order: np.ndarray  # (T,): all tokens by word
    cuts: np.ndarray  # (S + 1,): the shards' words
    eta: np.ndarray  # (V, K), or (1, K) where all words have the same
    table: np.ndarray  # (V, width): β, with zeros from column K on; written by every draw


def word_rows(corpus: Corpus, prior: TopicPrior) -> WordRows:
    """Tokens by word, words in shards of about equal work (a word costs its tokens and K gamma variables), and a table."""
    from models.host.compilation import LANES
    from models.topics.sampling.dirichlet_draws import places_of_words

    K = len(prior.alpha)
    first, order = places_of_words(corpus.word, corpus.num_words)
    eta = np.full((1, K), prior.eta) if prior.eta.ndim == 0 else np.ascontiguousarray(prior.eta.T)
    return WordRows(
        first, order, _cuts(first + K * np.arange(len(first))), eta, np.zeros((corpus.num_words, -(-K // LANES) * LANES))
    )


def _alone(function: Callable[[int, int], Any]) -> None:
    function(0, SHARDS)


def draw_word_probs(rows: WordRows, topic: np.ndarray, random: np.ndarray, run: Any = _alone) -> None:
    """A draw of β given the topics into ``rows.table``; ``random`` (S + 1, 4) moves on; ``run`` calls a function on shards."""
    from models.topics.sampling.dirichlet_draws import drawn_unused, drawn_words, scaled

    used, sums = (np.zeros((SHARDS, rows.eta.shape[1]), kind) for kind in (np.int64, np.float64))
    run(partial(drawn_words, rows.first, rows.order, topic, rows.eta, rows.table, rows.cuts, random, used, sums))
    totals = sums.sum(0)
    for k in np.flatnonzero(used.sum(0) == 0).tolist():
        totals[k] = drawn_unused(k, rows.eta, rows.table, random[-1])
    run(partial(scaled, rows.table, totals, rows.cuts))


def sharded_sweeps(corpus: Corpus, prior: TopicPrior, chain: ShardedChain, sweeps: int, num_threads: int = 1) -> ShardedChain:
    """The chain after some sweeps, on several threads. Releases the GIL.

    Tokens are sorted by word in every call: run several sweeps per call. Needs 8 (V K + T) bytes. Raises
    `ZooError` for less than one thread.
    """
    from models.topics.sampling.conditional_sampler import dense_shards

    if num_threads < 1:
        raise ZooError(f"num_threads={num_threads}: must be at least 1")
    if not len(corpus.word):
        return chain
    topic, random, word_random = (part.copy() for part in chain)
    allowed_topics = np.zeros((0, 0), bool) if prior.allowed_topics is None else prior.allowed_topics
    rows, cuts = word_rows(corpus, prior), _cuts(corpus.starts)
    beta, width = rows.table.reshape(-1), rows.table.shape[1]
    sweep = partial(dense_shards, *corpus[:2], topic, prior.alpha, allowed_topics, beta, width, random, cuts)
    with _shards(num_threads) as run:
        for _ in range(sweeps):
            draw_word_probs(rows, topic, word_random, run)
            run(sweep)
    return ShardedChain(topic, random, word_random)


def _cuts(ends: np.ndarray) -> np.ndarray:
    """Items cut into shards of about equal size (S + 1,), where the first n items have the size ends[n]."""
    cuts = np.searchsorted(ends, np.linspace(0, ends[-1], SHARDS + 1))
    cuts[-1] = len(ends) - 1
    return cuts


@contextmanager
def _shards(num_threads: int) -> Iterator[Callable[[Callable[[int, int], Any]], Any]]:
    """Calls a function of the first and past the last shard on as many threads, and waits for all."""
    if num_threads == 1:
        yield _alone
        return
    ends = np.linspace(0, SHARDS, num_threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(num_threads) as pool:
        yield lambda function: list(pool.map(function, ends[:-1], ends[1:]))
