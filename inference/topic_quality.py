"""What topics are and how good they look: words, coherence, diagnostics, documents alike, topics of a word.

What these say of a topic is of its mean over the draws of a result, so that it means nothing where draws do not agree on what a
topic is: then ``attrs["warnings"]`` of a table says so, and `inference.topic_stability` shows which topics are meant. What is
of documents alone, as `similar_documents`, is averaged draw by draw, and does not depend on the order of topics.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import sparse

from inference.relabel import doubts_labels
from inference.topic_agreement import disagreement
from inference.topic_sites import (
    Topics,
    counts_elsewhere,
    counts_of,
    expected_tokens,
    most_probable,
    new_proportions,
    proportions_of,
    require_own,
    require_whole,
    topics_of,
)
from models.base import Model, Sites, ZooError
from models.data import as_data

MEASURES = ("u_mass", "npmi")
SOME = 5  # words that stand for a document


def with_doubts(frame: pd.DataFrame, source: xr.DataTree | Sites) -> pd.DataFrame:
    """The table, with ``attrs["warnings"]`` where labels of the draws, or what chains found, are not the same throughout."""
    said = str(source.attrs.get("warnings", "")).split("\n") if isinstance(source, xr.DataTree) else []
    doubts = [line for line in [*filter(doubts_labels, said), disagreement(source)] if line]
    if doubts:
        frame.attrs["warnings"] = "\n".join(doubts)
    return frame


def top_words(model: Model, source: xr.DataTree | Sites, num_words: int = 10) -> pd.DataFrame:
    """The most probable words of every topic: ``topic``, ``rank`` from 1, ``word``, ``probability``, and its ``sd``.

    By the mean of ``word_probs`` over the draws of a result; ``sd`` is that of the draws, and not there at a point. Raises
    `ZooError` for a model without topics, or a result of another one.
    """
    require_whole("num_words", num_words)
    topics = topics_of(model, source)
    mean = topics.word_probs.mean(0)
    places = most_probable(mean, num_words)
    topic = np.repeat(np.arange(len(places)), places.shape[1])
    found = {
        "topic": [topics.names[k] for k in topic],
        "rank": np.tile(np.arange(1, places.shape[1] + 1), len(places)),
        "word": [topics.words[v] for v in places.ravel()],
        "probability": mean[topic, places.ravel()],
    }
    if len(topics.word_probs) > 1:
        found["sd"] = topics.word_probs.std(0, ddof=1)[topic, places.ravel()]
    return with_doubts(pd.DataFrame(found), source)


# ---------------------------------------------------------------------------------------------------------------------
# Coherence


def coherence(
    model: Model, source: xr.DataTree | Sites, data: Any, measure: str = "u_mass", num_words: int = 10, reference: Any = None
) -> pd.DataFrame:
    """How often the most probable words of a topic stand in the same documents: ``coherence`` and ``pairs``, a row a topic.

    With D(v) the number of documents that hold a word and D(v, w) that of those which hold both, over the pairs of the first
    ``num_words`` words v_1, v_2, … of a topic, the most probable first:

    - ``u_mass``: Σ_{m > l} log ((D(v_m, v_l) + 1) / D(v_l)) (Mimno et al. 2011). A sum; 0 or a little above is the most.
    - ``npmi``: the mean of log (p(v, w) / (p(v) p(w))) / −log p(v, w), with p = D / M (Bouma 2009; Aletras and Stevenson 2013;
      Lau, Newman and Baldwin 2014): −1 where two words never meet, 0 where they are independent, 1 where they always do. A
      pair that stands in every document says nothing: 0.

    Both are by whole documents, of which each counts once; Lau et al. take windows of ten words or so, whose values are others.
    The corpus is ``data``, or ``reference``: anything that `models.load_data` reads, such as a larger corpus. Pairs with a word
    that no document of it holds are left out: ``pairs`` counts the others, and a topic without any has NaN. Raises `ZooError`.
    """
    if measure not in MEASURES:
        raise ZooError(f"measure={measure!r} is not one of {', '.join(MEASURES)}")
    require_whole("num_words", num_words, 2)
    topics = topics_of(model, source)
    counts = counts_of(model, data) if reference is None else counts_elsewhere(as_data(reference), topics.words)
    value, pairs = coherences(most_probable(topics.word_probs.mean(0), num_words), counts, measure)
    frame = pd.DataFrame({"topic": topics.names, "coherence": value, "pairs": pairs})
    return with_doubts(frame, source)


def coherences(places: np.ndarray, counts: sparse.csr_array, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """(coherence (K,), pairs (K,)) of words (K, n), the most probable first, by counts (M, V)."""
    words, compact = np.unique(places, return_inverse=True)
    there: Any = (counts[:, words] > 0).astype(np.float64)
    together = (there.T @ there).toarray()
    each = np.diagonal(together)
    value, pairs = np.full(len(places), np.nan), np.zeros(len(places), int)
    for k, row in enumerate(compact.reshape(places.shape)):
        before, after = np.array(list(combinations(row, 2)), int).reshape(-1, 2).T
        known = (each[before] > 0) & (each[after] > 0)
        before, after = before[known], after[known]
        pairs[k] = len(before)
        if len(before):
            both = together[before, after]
            value[k] = (
                np.log((both + 1) / each[before]).sum()
                if measure == "u_mass"
                else npmi(both, each[before], each[after], counts.shape[0]).mean()
            )
    return value, pairs


def npmi(both: np.ndarray, first: np.ndarray, second: np.ndarray, total: int) -> np.ndarray:
    """Normalised pointwise mutual information of events by how often each, and both, happen in ``total`` trials."""
    inside = (both > 0) & (both < total)
    p = np.where(inside, both, 1) / total
    found = np.log(np.where(inside, p * total / first * total / second, 1)) / np.where(inside, -np.log(p), 1.0)
    return np.where(both == 0, -1.0, np.where(inside, found, 0.0))


# ---------------------------------------------------------------------------------------------------------------------
# Diagnostics


def topic_diagnostics(model: Model, source: xr.DataTree | Sites, data: Any, num_words: int = 10) -> pd.DataFrame:
    """What tells a good topic from junk, a row a topic, after MALLET's topic diagnostics (Mimno and McCallum):

    - ``tokens``: how many of ``data``'s are expected to be of the topic, averaged over draws; ``share`` of them all
    - ``effective_words``: 1 / Σ p_v² (MALLET's eff_num_words); ``perplexity``: exp of the entropy of its words
    - ``exclusivity``: mean over its ``num_words`` most probable words of p(v | k) / Σ_j p(v | j), 1 where no other topic has
      them (MALLET's; Bischof and Airoldi 2012 weigh it with frequency); words that no topic has are left out
    - ``corpus_distance``: Kullback-Leibler divergence, in nats, of the words of its tokens from those of all tokens: small for
      a topic that is like everything (corpus_dist); ``uniform_distance``: of its words from all words alike (uniform_dist)
    - ``effective_documents``: exp of the entropy of the documents of its tokens (document_entropy): few for a topic of one text
    - ``rank_1_documents``: documents with tokens of which it has the most (rank_1_docs)
    - ``coherence``: u_mass of the most probable words (`coherence`)

    Of the means over draws. NaN for what a topic without tokens does not have. Raises `ZooError`.
    """
    require_whole("num_words", num_words, 2)
    topics, counts = topics_of(model, source), counts_of(model, data)
    tokens = expected_tokens(model, source, data)
    probs, size = topics.word_probs.mean(0), tokens.word.sum(1)
    places = most_probable(probs, num_words)
    exclusivity, _ = _mean_and_sd(np.take_along_axis(_shares(probs, 0), places, 1).T)
    entropy = _entropy(probs)
    of_words, overall = _shares(tokens.word), _shares(tokens.word.sum(0)[None])[0]
    nonempty = tokens.document.sum(1) > 0
    first = np.bincount(tokens.document[nonempty].argmax(1), minlength=len(probs))
    frame = pd.DataFrame(
        {
            "topic": topics.names,
            "tokens": size,
            "share": size / size.sum(),
            "effective_words": 1 / (probs**2).sum(1),
            "perplexity": np.exp(entropy),
            "exclusivity": exclusivity,
            "corpus_distance": _divergence(of_words, overall),
            "uniform_distance": np.log(probs.shape[1]) - entropy,
            "effective_documents": np.exp(_entropy(_shares(tokens.document.T))),
            "rank_1_documents": first,
            "coherence": coherences(places, counts, "u_mass")[0],
        }
    )
    return with_doubts(frame, source)


def _shares(counts: np.ndarray, axis: int = 1) -> np.ndarray:
    """Rows (K, n), or what lies along another axis, over their sums; NaN for a row of nothing."""
    total = counts.sum(axis, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), np.nan)


def _mean_and_sd(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over the draws (S, …) that are not NaN; NaN without any, and for the standard deviation of fewer than two."""
    there = ~np.isnan(draws)
    number = there.sum(0)
    mean = np.where(number > 0, np.where(there, draws, 0.0).sum(0) / np.maximum(number, 1), np.nan)
    square = (np.where(there, draws - mean, 0.0) ** 2).sum(0)
    return mean, np.where(number > 1, np.sqrt(square / np.maximum(number - 1, 1)), np.nan)


def _entropy(probs: np.ndarray) -> np.ndarray:
    return -(probs * np.log(np.where(probs > 0, probs, 1.0))).sum(1)


def _divergence(probs: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL(p_k ‖ q) for rows (K, V), where q is positive wherever a row is."""
    return (probs * np.log(np.where(probs > 0, probs, 1.0) / np.where(probs > 0, other, 1.0))).sum(1)


# ---------------------------------------------------------------------------------------------------------------------
# Documents and words


def similar_documents(
    model: Model, source: xr.DataTree | Sites, data: Any, document: int, num: int = 10, new: Any = None, seed: int = 0
) -> pd.DataFrame:
    """The documents of a fit whose topics are most like those of one, the nearest first; documents count from 0.

    ``data`` are those of the fit, and ``document`` is one of them, or with ``new`` one of these, which the fit has not seen:
    its proportions are drawn as by `inference.predict`, for 200 of the draws of ``source``, with random numbers of ``seed``.
    ``distance`` is Hellinger's between topic proportions, (½ Σ_k (√θ_dk − √θ_ek)²)^½ from 0 to 1, averaged over the draws, so
    that it does not depend on the order of topics in a draw. ``sd`` is that of the draws, and not there at a point; ``tokens``
    is how many words a document has, and ``words`` are the most frequent ones. Of a document with few tokens proportions are
    little but the prior. Raises `ZooError`.
    """
    require_whole("num", num)
    require_whole("document", document, 0)
    topics, counts = topics_of(model, source), counts_of(model, data)
    theta = proportions_of(topics)
    require_own(topics, counts.shape[0])
    theta, others = (theta, theta) if new is None else new_proportions(model, source, new, seed)
    if document >= others.shape[1]:
        raise ZooError(f"document={document}: there are {others.shape[1]}, counted from 0")
    each = np.stack([hellinger(draw, other[document]) for draw, other in zip(theta, others, strict=True)])  # (S, M)
    mean = each.mean(0)
    order = np.argsort(mean, kind="stable")
    order = order[(order != document) | (new is not None)][:num]
    found = {"document": order, "distance": mean[order]}
    if len(each) > 1:
        found["sd"] = each.std(0, ddof=1)[order]
    found |= {
        "tokens": counts.sum(1)[order].astype(int),
        "words": np.array([_frequent(counts, int(d), topics) for d in order], dtype=object),
    }
    return pd.DataFrame(found)


def hellinger(probs: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Hellinger's distance of rows (M, K) from one row (K,): (M,)."""
    return np.sqrt(0.5 * ((np.sqrt(probs) - np.sqrt(other)) ** 2).sum(1))


def _frequent(counts: sparse.csr_array, document: int, topics: Topics) -> str:
    part = slice(counts.indptr[document], counts.indptr[document + 1])
    order = np.lexsort((counts.indices[part], -counts.data[part]))[:SOME]
    return ", ".join(topics.words[v] for v in counts.indices[part][order])


def word_topics(model: Model, source: xr.DataTree | Sites, data: Any, words: str | Sequence[str]) -> pd.DataFrame:
    """The topics of a word, the most probable first: ``word``, ``rank``, ``topic``, ``probability`` and its ``sd`` over draws.

    p(k | v) ∝ p(v | k) p(k), where p(k) = Σ_d N_d θ_dk / N is the topic of a token of ``data`` drawn at random; averaged over
    the draws in which some topic has the word. NaN where there are none, as for a word that never occurs under ``prior=flat``.
    Raises `ZooError` for a word that the model does not know.
    """
    topics, counts = topics_of(model, source), counts_of(model, data)
    theta = proportions_of(topics)
    require_own(topics, counts.shape[0])
    wanted = [words] if isinstance(words, str) else list(words)
    known = {word: v for v, word in enumerate(topics.words)}
    unknown = [word for word in wanted if word not in known]
    if unknown:
        raise ZooError(f"{unknown[0]!r} is no word of this model; words are written as its coordinate 'word' has them")
    length = counts.sum(1) / counts.sum()
    share = np.einsum("d,sdk->sk", length, theta)
    joint = share[:, :, None] * topics.word_probs[:, :, [known[word] for word in wanted]]  # (S, K, words)
    probs = _shares(joint)
    (mean, sd), parts = _mean_and_sd(probs), []
    for place, word in enumerate(wanted):
        order = np.argsort(-mean[:, place], kind="stable")
        found = {
            "word": [word] * len(order),
            "rank": np.arange(1, len(order) + 1),
            "topic": [topics.names[k] for k in order],
            "probability": mean[order, place],
        }
        if len(probs) > 1:
            found["sd"] = sd[order, place]
        parts.append(pd.DataFrame(found))
    return with_doubts(pd.concat(parts, ignore_index=True), source)
