"""Minibatches of documents for variational inference by the compiled loops of `models.topics.ragged`.

This file takes rows and nu apart for the loops, as `models.host.loops.LocalLoops`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from models.host.compilation import LANES
from models.host.loops import Ascent, BatchSums, LocalLoops, Share
from models.topics.collapsed import TOPIC, WORD
from models.topics.documents import Documents
from models.topics.local_variational import ascend

SHARDS = 64  # of the entries of E[log β], each with a separate sum: threads do not change the total


class Corpus(NamedTuple):
    """Inputs of all batches: distinct words of document d are word[starts[d] : starts[d + 1]]; V words, K topics."""

    word: np.ndarray  # (C,) int64
    times: np.ndarray  # (C,): counts
    starts: np.ndarray  # (N + 1,)
    carrier: np.ndarray  # (N,)
    weight: np.ndarray  # (N,)
    allowed: np.ndarray  # (N, K), or (1, K) where all topics are
    topic_prior: np.ndarray  # (K,): nu of the proportions of any document
    word_prior: np.ndarray  # (V, K)
    word_prior_sums: np.ndarray  # (K,)
    constants: tuple[float, float]  # log Z of the prior of a document's proportions, and of all words
    psi: np.ndarray  # (V, K): memory for ψ of concentrations
    stats: np.ndarray  # (V, K): memory for statistics


class Batch(NamedTuple):
    """Words of B documents, concatenated; U distinct ones in all."""

    begins: np.ndarray  # (B + 1,)
    cells: np.ndarray  # (C,): place of the word in ``used``
    counts: np.ndarray  # (C,)
    weights: np.ndarray  # (B,): of documents
    allowed: np.ndarray  # (B, K)
    used: np.ndarray  # (U,)


class Words(NamedTuple):
    """E[log β] of the words of a batch."""

    logs: np.ndarray  # (U, K)
    weight: np.ndarray  # (U, width): exp(logs − shift), with zeros from K on
    shift: np.ndarray  # (U,)


class Proportions(NamedTuple):
    """Q(θ) of the documents of a batch."""

    nu: np.ndarray  # (B, K)
    logs: np.ndarray  # (B, K): E[log θ]
    weight: np.ndarray  # (B, width): exp(logs − shift), with zeros from K on
    shift: np.ndarray  # (B,)


def serves(rows: Documents) -> bool:
    """Only double precision, in which the loops compute."""
    return bool(np.asarray(rows.carrier).dtype == np.float64)


def read(prior: Mapping[str, Any], rows: Documents) -> Corpus:
    """Documents without their padding, and the priors."""
    times = np.asarray(rows.words.times)
    there = times > 0
    topic, word = np.asarray(prior[TOPIC])[0].copy(), np.ascontiguousarray(np.asarray(prior[WORD]).T)
    return Corpus(
        np.asarray(rows.words.word)[there].astype(np.int64),
        times[there].astype(float),
        np.concatenate([[0], np.cumsum(there.sum(1))]),
        np.asarray(rows.carrier),
        np.ones(len(times)) if rows.weight is None else np.asarray(rows.weight),
        np.ones((1, len(topic)), bool) if rows.allowed_topics is None else np.asarray(rows.allowed_topics, bool),
        topic,
        word,
        word.sum(0),
        (_log_normaliser(topic), _log_normaliser(word.T)),
        np.empty_like(word),
        np.empty_like(word),
    )


def _log_normaliser(nu: np.ndarray) -> float:
    """Σ log Z over rows of Dirichlet distributions with concentrations nu + 1."""
    return float((gammaln(nu + 1).sum(-1) - gammaln((nu + 1).sum(-1))).sum())


def sums(corpus: Corpus, share: Share, nu: Mapping[str, np.ndarray], picked: np.ndarray, most: int, close: float) -> BatchSums:
    """Statistics of words and the bound, after every document of the batch has reached its best q(θ)."""
    batch = batch_of(corpus, picked)
    words, divergence = expected_words(corpus, share, np.ascontiguousarray(nu[WORD].T), batch.used)
    proportions, ratio, bounds = ascended(corpus, share, batch, words, most, close)
    counted(corpus.stats, share, batch, words, proportions, ratio)
    constant = batch.weights @ corpus.carrier[picked] - len(picked) * corpus.constants[0]
    return BatchSums({WORD: corpus.stats.T}, float(bounds.sum() + constant), divergence, {TOPIC: proportions.nu})


def batch_of(corpus: Corpus, picked: np.ndarray) -> Batch:
    """The words of the documents picked."""
    from models.topics.ragged import words_of_batch

    begins = np.concatenate([[0], np.cumsum(np.diff(corpus.starts)[picked])])
    cells, counts = np.empty(begins[-1], np.int64), np.empty(begins[-1])
    num_words = len(corpus.word_prior)
    used, place = np.empty(num_words, np.int64), np.full(num_words, -1)
    number = words_of_batch(corpus.word, corpus.times, corpus.starts, picked, place, cells, counts, used)
    allowed = corpus.allowed[picked if len(corpus.allowed) > 1 else np.zeros_like(picked)]
    return Batch(begins, cells, counts, corpus.weight[picked], allowed, used[:number])


def _width(num_topics: int) -> int:
    return -(-num_topics // LANES) * LANES


def expected_words(corpus: Corpus, share: Share, nu: np.ndarray, used: np.ndarray) -> tuple[Words, float]:
    """E[log β] of words ``used`` given nu (V, K), and −KL of q(β) from the prior."""
    from models.topics.ragged import expected_entries, weights_of_words

    psi, parts = corpus.psi, np.zeros(SHARDS)
    flat = nu.reshape(-1), corpus.word_prior.reshape(-1), psi.reshape(-1)
    ends = np.linspace(0, nu.size, SHARDS + 1).astype(int)
    share(lambda first, end: expected_entries(*flat, ends, parts, first, end), SHARDS)
    K, excess = nu.shape[1], nu.sum(0)
    whole = excess + len(nu)  # sums of concentrations
    psi_of_sums = digamma(whole)
    divergence = parts.sum() - psi_of_sums @ (corpus.word_prior_sums - excess) - gammaln(whole).sum() - corpus.constants[1]
    words = Words(np.empty((len(used), K)), np.zeros((len(used), _width(K))), np.empty(len(used)))
    share(lambda first, end: weights_of_words(used, psi, psi_of_sums, *words, first, end), len(used))
    return words, float(divergence)


def ascended(
    corpus: Corpus, share: Share, batch: Batch, words: Words, most: int, close: float
) -> tuple[Proportions, np.ndarray, np.ndarray]:
    """Q(θ) of all documents, weight · count / norm of their words (C,), and their parts of the bound but constants (B,)."""
    from models.topics.ragged import ascend_documents, bounds_of_documents

    (number, K), given = batch.allowed.shape, (*batch[:-1], corpus.topic_prior)
    proportions = Proportions(np.empty((number, K)), np.empty((number, K)), np.zeros((number, _width(K))), np.empty(number))
    ratio, bounds = np.empty(len(batch.cells)), np.empty(number)

    def some(first: int, end: int) -> None:
        ascend_documents(*given, *words[:2], most, close, *proportions, first, end)
        bounds_of_documents(*given, *words, *proportions, ratio, bounds, first, end)

    share(some, number)
    return proportions, ratio, bounds


def counted(stats: np.ndarray, share: Share, batch: Batch, words: Words, proportions: Proportions, ratio: np.ndarray) -> None:
    """Weighted expected counts by word and topic into ``stats`` (V, K); zeros for words that are not in the batch."""
    from models.topics.ragged import cells_by_word, counts_of_words

    stats[:] = 0.0
    number = len(batch.used)
    starts, order, document = np.zeros(number + 1, np.int64), np.empty_like(batch.cells), np.empty_like(batch.cells)
    cells_by_word(batch.cells, batch.begins, number, starts, order, document)
    places = (batch.used, starts, order, document, batch.counts, batch.weights, batch.allowed)
    given = (words.logs, words.weight, proportions.logs, proportions.weight, ratio, stats)
    share(lambda first, end: counts_of_words(*places, *given, first, end), number)


ASCENT = Ascent(ascend, LocalLoops(serves, read, sums))
