"""A corpus as tokens, what is counted of their topics, and the densities and draws that need no more than counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import digamma, gammaln

from models.data import ZooError

SMALLEST = 1e-8  # a learnt concentration: the likelihood sends that of a topic which no document uses to 0


class Corpus(NamedTuple):
    """T tokens in M documents, one after another: document d is word[starts[d] : starts[d + 1]]; V words."""

    word: np.ndarray  # (T,) int32
    starts: np.ndarray  # (M + 1,) int64
    num_words: int

    @property
    def num_documents(self) -> int:
        """M."""
        return len(self.starts) - 1


class TopicCounts(NamedTuple):
    """Topics of the tokens, and how often each occurs in every document, for every word, and at all."""

    topic: np.ndarray  # (T,) int32
    document_topic: np.ndarray  # (M, K) int32
    word_topic: np.ndarray  # (V, K) int32
    total: np.ndarray  # (K,) int64


def corpus_of_documents(documents: Sequence[Any], num_words: int) -> Corpus:
    """From the codes of every document's words; codes below 0, of unknown words, are left out. A `ZooError` for one ≥ V."""
    known = [codes[codes >= 0] for codes in (np.asarray(document, dtype=np.int64).reshape(-1) for document in documents)]
    word = np.concatenate([*known, np.zeros(0, np.int64)])
    if word.max(initial=-1) >= num_words:
        raise ZooError(f"a word has the code {word.max()}, but there are {num_words} words")
    starts = np.concatenate([[0], np.cumsum([len(codes) for codes in known])])
    return Corpus(word.astype(np.int32), starts.astype(np.int64), num_words)


def corpus_of_counts(counts: Any) -> Corpus:
    """From how often every word occurs in every document (M, V), dense or sparse; a `ZooError` unless whole and ≥ 0."""
    rows = sparse.csr_array(counts, copy=True)
    rows.sum_duplicates()
    often = np.asarray(rows.data)
    whole = np.where(np.isfinite(often), often, -1).astype(np.int64)
    wrong = (whole < 0) | (whole != often)
    if wrong.any():
        place = np.searchsorted(rows.indptr, wrong.argmax(), side="right") - 1
        raise ZooError(f"document {place} has a word {often[wrong][0]} times: counts must be whole numbers, none below 0")
    ends = np.concatenate([[0], np.cumsum(whole)])
    word = np.repeat(rows.indices.astype(np.int32), whole)
    return Corpus(word, ends[rows.indptr].astype(np.int64), int(rows.shape[1]))


def document_of(corpus: Corpus) -> np.ndarray:
    """The document of every token (T,)."""
    return np.repeat(np.arange(corpus.num_documents), np.diff(corpus.starts))


def counted(corpus: Corpus, topic: np.ndarray, num_topics: int) -> TopicCounts:
    """The counts that belong to these topics."""
    from models.few_topics import tallied

    document_topic = np.zeros((corpus.num_documents, num_topics), np.int32)
    word_topic = np.zeros((corpus.num_words, num_topics), np.int32)
    tallied(corpus.word, corpus.starts, topic, document_topic, word_topic)
    return TopicCounts(topic, document_topic, word_topic, word_topic.sum(0, dtype=np.int64))


def recounted(corpus: Corpus, counts: TopicCounts) -> TopicCounts:
    """The counts afresh, by NumPy alone: equal to what was given, if that was right."""
    fresh = TopicCounts(counts.topic, *(np.zeros_like(table) for table in counts[1:]))
    np.add.at(fresh.document_topic, (document_of(corpus), counts.topic), 1)
    np.add.at(fresh.word_topic, (corpus.word, counts.topic), 1)
    np.add.at(fresh.total, counts.topic, 1)
    return fresh


def log_joint(counts: TopicCounts, alpha: Any, eta: Any, allowed: np.ndarray | None = None) -> float:
    """The log of p(w, z | α, η), topic and word probabilities integrated out (Griffiths and Steyvers, 2004, equations 2 and 3).

    ``alpha`` (K,) or a number, ``eta`` a number or (K, V), ``allowed`` (M, K): which topics a document may have.
    """
    size, words = counts.document_topic.shape[1], counts.word_topic.shape[0]
    alpha, eta = np.broadcast_to(alpha, (size,)).astype(float), np.asarray(eta, dtype=float)
    whole = alpha.sum() if allowed is None else np.where(allowed, alpha, 0.0).sum(1)
    documents = _excess(counts.document_topic, alpha) - _rises(counts.document_topic.sum(1), whole)
    spread = words * eta if eta.ndim == 0 else eta.sum(1)
    return float(documents + _excess(counts.word_topic, eta if eta.ndim == 0 else eta.T) - _rises(counts.total, spread))


def _rises(counts: np.ndarray, start: Any) -> float:
    """Σ log Γ(start + count) − log Γ(start)."""
    filled = counts > 0
    start = np.broadcast_to(start, counts.shape)[filled]
    return float((gammaln(start + counts[filled]) - gammaln(start)).sum())


def _excess(counts: np.ndarray, start: np.ndarray) -> float:
    """The same over a table; where all cells start alike, each count that occurs is looked at once."""
    if start.size and (start == start.flat[0]).all():
        often = np.bincount(counts.reshape(-1))
        values = np.flatnonzero(often)
        return float(often[values] @ (gammaln(start.flat[0] + values) - gammaln(start.flat[0])))
    return _rises(counts, start)


def fitted_concentration(
    counts: np.ndarray,
    start: Any,
    symmetric: bool,
    *,
    allowed: np.ndarray | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
) -> np.ndarray:
    """Dirichlet concentrations that make rows of counts (R, C) most probable: Minka's fixed point (2000, equation 55).

    Every iteration raises the likelihood. ``symmetric``: one concentration for all columns. ``allowed`` (R, C): where a row may
    have counts. -> (C,); no concentration falls below 1e-8. Empty rows say nothing: without any count it is the start.
    """
    concentration = np.broadcast_to(start, (counts.shape[1],)).astype(float)
    if not counts.any():
        return concentration
    filled = counts.any(1)
    counts, allowed = counts[filled], None if allowed is None else allowed[filled]
    open_cells = np.ones(1, bool) if allowed is None else allowed
    lengths = counts.sum(1)
    row, column = np.nonzero(counts)
    often = counts[row, column]
    for _ in range(max_iter):
        gains = digamma(often + concentration[column]) - digamma(concentration[column])
        up = concentration * np.bincount(column, gains, len(concentration))
        whole = np.where(open_cells, concentration, 0.0).sum(-1)
        down = np.broadcast_to(digamma(lengths + whole) - digamma(whole), lengths.shape)
        by_column = np.full(len(concentration), down.sum()) if allowed is None else down @ allowed
        if symmetric:  # one number c in the place of every entry: c Σ gains / Σ_k down_k
            new = np.full(len(concentration), up.sum() / by_column.sum())
        else:
            new = np.where(by_column > 0, up / np.where(by_column > 0, by_column, 1.0), concentration)
        new = np.maximum(new, SMALLEST)
        moved = np.abs(new / concentration - 1).max()
        concentration = new
        if moved < tol:
            break
    return concentration


def posterior_means(
    counts: TopicCounts, alpha: Any, eta: Any, allowed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """E[θ | z] (M, K) and E[β | z, w] (K, V)."""
    documents, words = _posterior(counts, alpha, eta, allowed)
    return documents / documents.sum(1, keepdims=True), words / words.sum(1, keepdims=True)


def posterior_draws(
    rng: np.random.Generator, counts: TopicCounts, alpha: Any, eta: Any, allowed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of θ (M, K) and β (K, V) given z and w."""
    documents, words = _posterior(counts, alpha, eta, allowed)
    return _dirichlet(rng, documents), _dirichlet(rng, words)


def _posterior(counts: TopicCounts, alpha: Any, eta: Any, allowed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    prior = np.broadcast_to(np.asarray(alpha, dtype=float), counts.document_topic.shape)
    documents = counts.document_topic + (prior if allowed is None else np.where(allowed, prior, 0.0))
    return documents, counts.word_topic.T + np.asarray(eta, dtype=float)


def _dirichlet(rng: np.random.Generator, concentration: np.ndarray) -> np.ndarray:
    """A draw for every row; entries of concentration 0 are 0. In logarithms: small ones underflow otherwise."""
    with np.errstate(divide="ignore"):  # log Gamma(a) = log Gamma(a + 1) + log(U) / a
        logs = np.log(rng.standard_gamma(concentration + 1)) - rng.standard_exponential(concentration.shape) / concentration
    weights = np.exp(logs - logs.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)
