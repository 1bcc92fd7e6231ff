"""A corpus as tokens, counts of their topics, and densities and draws that depend only on counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import digamma, gammaln

from models.data.memory import require_memory
from models.errors import ZooError

SMALLEST = 1e-8  # lower bound of a learnt concentration; that of an unused topic would converge to 0


class Corpus(NamedTuple):
    """T tokens of M documents, concatenated: document d is word[starts[d] : starts[d + 1]]; V words."""

    word: np.ndarray  # (T,) int32
    starts: np.ndarray  # (M + 1,) int64
    num_words: int

    @property
    def num_documents(self) -> int:
        """M."""
        return len(self.starts) - 1


class TopicCounts(NamedTuple):
    """Topics of the tokens, and their counts by document, by word, and in total."""

    topic: np.ndarray  # (T,) int32
    document_topic: np.ndarray  # (M, K) int32
    word_topic: np.ndarray  # (V, K) int32
    total: np.ndarray  # (K,) int64


def corpus_of_documents(documents: Sequence[Any], num_words: int) -> Corpus:
    """From word codes of each document; negative codes (unknown words) are dropped. Raises `ZooError` for a code ≥ V."""
    known = [codes[codes >= 0] for codes in (np.asarray(document, dtype=np.int64).reshape(-1) for document in documents)]
    word = np.concatenate([*known, np.zeros(0, np.int64)])
    if word.max(initial=-1) >= num_words:
        raise ZooError(f"a word has the code {word.max()}, but there are {num_words} words")
    starts = np.concatenate([[0], np.cumsum([len(codes) for codes in known])])
    return Corpus(word.astype(np.int32), starts.astype(np.int64), num_words)


def corpus_of_counts(counts: Any) -> Corpus:
    """From counts of words by document (M, V), dense or sparse; raises `ZooError` unless these are whole and ≥ 0."""
    rows = sparse.csr_array(counts, copy=True)
    rows.sum_duplicates()
    often = np.asarray(rows.data)
    whole = np.where(np.isfinite(often), often, -1).astype(np.int64)
    wrong = (whole < 0) | (whole != often)
    if wrong.any():
        place = np.searchsorted(rows.indptr, wrong.argmax(), side="right") - 1
        raise ZooError(f"document {place} has a word {often[wrong][0]} times: counts must be whole numbers, none below 0")
    require_memory(8.0 * whole.sum(dtype=float), f"{whole.sum(dtype=float):.3g} words")
    ends = np.concatenate([[0], np.cumsum(whole)])
    word = np.repeat(rows.indices.astype(np.int32), whole)
    return Corpus(word, ends[rows.indptr].astype(np.int64), int(rows.shape[1]))


def counted(corpus: Corpus, topic: np.ndarray, num_topics: int) -> TopicCounts:
    """Count the topics of the tokens."""
    from models.topics.sampling.dense_sampler import tallied

    document_topic = np.zeros((corpus.num_documents, num_topics), np.int32)
    word_topic = np.zeros((corpus.num_words, num_topics), np.int32)
    tallied(corpus.word, corpus.starts, topic, document_topic, word_topic)
    return TopicCounts(topic, document_topic, word_topic, word_topic.sum(0, dtype=np.int64))


def log_joint(counts: TopicCounts, alpha: Any, eta: Any) -> float:
    """The log of p(w, z | α, η), topic and word probabilities integrated out (Griffiths and Steyvers, 2004, equations 2 and 3).

    ``alpha`` (K,) or a number, ``eta`` a number or (K, V). Proportions have their prior over all topics, also in a document
    that may have some only: p(z) is then that of topics which happen to be allowed, as in the program.
    """
    size, words = counts.document_topic.shape[1], counts.word_topic.shape[0]
    alpha, eta = np.broadcast_to(alpha, (size,)).astype(float), np.asarray(eta, dtype=float)
    documents = _excess(counts.document_topic, alpha) - _rises(counts.document_topic.sum(1), alpha.sum())
    spread = words * eta if eta.ndim == 0 else eta.sum(1)
    return float(documents + _excess(counts.word_topic, eta if eta.ndim == 0 else eta.T) - _rises(counts.total, spread))


def _rises(counts: np.ndarray, start: Any) -> float:
    """Σ log Γ(start + count) − log Γ(start)."""
    filled = counts > 0
    start = np.broadcast_to(start, counts.shape)[filled]
    return float((gammaln(start + counts[filled]) - gammaln(start)).sum())


def _excess(counts: np.ndarray, start: np.ndarray) -> float:
    """The same over a table; where all cells start alike, each count that occurs is evaluated once.

    Counts above the number of cells would take a table of their size, and gain nothing.
    """
    alike = start.size > 0 and (start == start.flat[0]).all()
    if alike and counts.max(initial=0) <= counts.size:
        often = np.bincount(counts.reshape(-1))
        values = np.flatnonzero(often)
        return float(often[values] @ (gammaln(start.flat[0] + values) - gammaln(start.flat[0])))
    return _rises(counts, start)


def fitted_concentration(
    counts: np.ndarray, start: Any, symmetric: bool, *, max_iter: int = 100, tol: float = 1e-6
) -> np.ndarray:
    """Dirichlet concentrations that make rows of counts (R, C) most probable: Minka's fixed point (2000, equation 55).

    Every iteration raises the likelihood. ``symmetric``: one concentration for all columns. -> (C,); no concentration falls
    below 1e-8. Empty rows do not count: without any count it is the start.
    """
    concentration = np.broadcast_to(start, (counts.shape[1],)).astype(float)
    if not counts.any():
        return concentration
    counts = counts[counts.any(1)]
    lengths = counts.sum(1)
    row, column = np.nonzero(counts)
    often = counts[row, column]
    for _ in range(max_iter):
        gains = digamma(often + concentration[column]) - digamma(concentration[column])
        up = concentration * np.bincount(column, gains, len(concentration))
        whole = concentration.sum()
        down = (digamma(lengths + whole) - digamma(whole)).sum()
        if symmetric:  # one number in the place of every entry
            up = np.full(len(concentration), up.mean())
        new = np.maximum(up / down, SMALLEST)
        moved = np.abs(new / concentration - 1).max()
        concentration = new
        if moved < tol:
            break
    return concentration


def posterior_draws(rng: np.random.Generator, counts: TopicCounts, alpha: Any, eta: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draws of log θ (M, K) and log β (K, V) given z and w."""
    return _dirichlet(rng, counts.document_topic + np.asarray(alpha)), _dirichlet(rng, counts.word_topic.T + np.asarray(eta))


def _dirichlet(rng: np.random.Generator, concentration: np.ndarray) -> np.ndarray:
    """Logs of a draw for every row, as small ones underflow otherwise: log Gamma(a) = log Gamma(a + 1) + log(U) / a."""
    logs = np.log(rng.standard_gamma(concentration + 1)) - rng.standard_exponential(concentration.shape) / concentration
    away = logs - logs.max(1, keepdims=True)
    return away - np.log(np.exp(away).sum(1, keepdims=True))


def probabilities(logs: np.ndarray) -> np.ndarray:
    """Rows that sum to 1 of logs of probabilities, without the rounding of these; the smallest of all underflow to 0."""
    weights = np.exp(logs - logs.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def log_dirichlet(logs: np.ndarray, concentration: Any) -> float:
    """Σ over rows of the log density of a Dirichlet at probabilities of these logs (R, C)."""
    a = np.broadcast_to(concentration, logs.shape)
    return float(((a - 1) * logs).sum() + (gammaln(a.sum(1)) - gammaln(a).sum(1)).sum())
