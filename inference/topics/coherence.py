"""Description and quality of topics: top words, coherence, diagnostics, similar documents, topics of a word.

Figures on a topic are computed from its mean over the draws. They mean nothing if the draws disagree on what the topic is: then
there is a warning in ``attrs["warnings"]``, and `inference.topic_stability` shows which topics are affected. Figures on
documents, such as `similar_documents`, are averaged draw by draw and do not depend on the order of the topics.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import sparse

from inference.identification.relabel import is_label_warning
from inference.results.table import data_of
from inference.topics.access import (
    Topics,
    counts_elsewhere,
    counts_of,
    expected_tokens,
    most_probable,
    new_proportions,
    proportions_of,
    require_document_count,
    topics_of,
)
from inference.topics.stability import disagreement
from models.base import Data, Model, Sites, ZooError
from models.data.arguments import require_whole
from models.reading.load import as_data

MEASURES = ("u_mass", "npmi")
SOME = 5  # words shown per document


def with_label_warnings(frame: pd.DataFrame, source: xr.DataTree | Sites) -> pd.DataFrame:
    """The table, with ``attrs["warnings"]`` if labels differ between draws, or if chains have different topics."""
    stored = str(source.attrs.get("warnings", "")).split("\n") if isinstance(source, xr.DataTree) else []
    warnings = [line for line in [*filter(is_label_warning, stored), disagreement(source)] if line]
    if warnings:
        frame.attrs["warnings"] = "\n".join(warnings)
    return frame


def top_words(model: Model, source: xr.DataTree | Sites, num_words: int = 10) -> pd.DataFrame:
    """The most probable words of every topic.

    ``source`` is a result, or a dict of sites. Returns a DataFrame with ``num_words`` rows per topic and the columns ``topic``,
    ``rank`` (from 1), ``word``, ``probability`` (mean over the draws) and ``sd`` (over the draws; not for a point). Raises
    `ZooError` for a model without topics, or a result of another model.

    >>> data = load_data([["sun", "sea"], ["sea", "sand", "sun"], ["tax", "bank"], ["bank", "tax", "tax"]])
    >>> model = MODELS["latent_dirichlet"](data, num_topics=2)
    >>> top_words(model, fit(model, data, "em"), num_words=3).columns.tolist()
    ['topic', 'rank', 'word', 'probability']
    """
    require_whole("num_words", num_words)
    topics = topics_of(model, source)
    mean = topics.word_probs.mean(0)
    places = most_probable(mean, num_words)
    topic = np.repeat(np.arange(len(places)), places.shape[1])
    columns = {
        "topic": [topics.names[k] for k in topic],
        "rank": np.tile(np.arange(1, places.shape[1] + 1), len(places)),
        "word": [topics.words[v] for v in places.ravel()],
        "probability": mean[topic, places.ravel()],
    }
    if len(topics.word_probs) > 1:
        columns["sd"] = topics.word_probs.std(0, ddof=1)[topic, places.ravel()]
    return with_label_warnings(pd.DataFrame(columns), source)


# ---------------------------------------------------------------------------------------------------------------------
# Coherence


def coherence(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any = None,
    measure: str = "u_mass",
    num_words: int = 10,
    reference: Any = None,
) -> pd.DataFrame:
    """Coherence of topics: how often their most probable words occur in the same documents.

    Returns a DataFrame with one row per topic: ``topic``, ``coherence`` and ``pairs``, the number of word pairs used. Let D(v)
    be the number of documents with word v, D(v, w) that of documents with both, and v_1, v_2, … the ``num_words`` most
    probable words of a topic, the most probable first. ``measure`` is one of

    - ``u_mass``: Σ_{m > l} log ((D(v_m, v_l) + 1) / D(v_l)) (Mimno et al. 2011). A sum; its maximum is 0 or a little above.
    - ``npmi``: the mean of log (p(v, w) / (p(v) p(w))) / −log p(v, w), with p = D / M (Bouma 2009; Aletras and Stevenson 2013;
      Lau, Newman and Baldwin 2014): −1 for words that never occur together, 0 for independent ones, 1 for words that always
      occur together. A pair that is in every document counts 0.

    Each document counts once. Lau et al. use windows of about ten words instead, so their values differ. Documents are counted
    in ``data``, by default those of the fit, or in ``reference``: anything that `models.load_data` reads, such as a larger
    corpus. A pair with a word that is in no document is left out; a topic without pairs has NaN. Raises `ZooError` for an
    unknown ``measure``, a model without topics, a result of another model, or data that is not a corpus.

    >>> data = load_data([["sun", "sea"], ["sea", "sand", "sun"], ["tax", "bank"], ["bank", "tax", "tax"]])
    >>> model = MODELS["latent_dirichlet"](data, num_topics=2)
    >>> coherence(model, fit(model, data, "em"), data, measure="npmi", num_words=2).columns.tolist()
    ['topic', 'coherence', 'pairs']
    """
    if measure not in MEASURES:
        raise ZooError(f"measure={measure!r} is not one of {', '.join(MEASURES)}")
    require_whole("num_words", num_words, 2)
    topics = topics_of(model, source)
    if data is None and reference is None:
        data = _documents_of(source)
    counts = counts_of(model, data) if reference is None else counts_elsewhere(as_data(reference), topics.words)
    value, pairs = coherences(most_probable(topics.word_probs.mean(0), num_words), counts, measure)
    frame = pd.DataFrame({"topic": topics.names, "coherence": value, "pairs": pairs})
    return with_label_warnings(frame, source)


def _documents_of(source: xr.DataTree | Sites) -> Data:
    if not isinstance(source, xr.DataTree):
        raise ZooError("coherence of a dict of sites needs the documents: coherence(model, sites, data)")
    return data_of(source)


def coherences(places: np.ndarray, counts: sparse.csr_array, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """(coherence (K,), pairs (K,)) of words ``places`` (K, n), the most probable first, from counts (M, V)."""
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
    """Normalised pointwise mutual information of two events, from how often each, and both, occur in ``total`` trials."""
    inside = (both > 0) & (both < total)
    p = np.where(inside, both, 1) / total
    ratio = np.log(np.where(inside, p * total / first * total / second, 1)) / np.where(inside, -np.log(p), 1.0)
    return np.where(both == 0, -1.0, np.where(inside, ratio, 0.0))


# ---------------------------------------------------------------------------------------------------------------------
# Diagnostics


def topic_diagnostics(model: Model, source: xr.DataTree | Sites, data: Any, num_words: int = 10) -> pd.DataFrame:
    """Diagnostics that tell good topics from junk, after MALLET's topic diagnostics (Mimno and McCallum).

    Returns a DataFrame with one row per topic, computed from means over the draws. MALLET's names are in parentheses.

    - ``tokens``: expected number of tokens of ``data`` in the topic; ``share``: the same as a share of all tokens
    - ``effective_words``: 1 / Σ p_v² (eff_num_words); ``perplexity``: exp of the entropy of the word probabilities
    - ``exclusivity``: mean of p(v | k) / Σ_j p(v | j) over the ``num_words`` most probable words, 1 if no other topic has
      them. Bischof and Airoldi (2012) also weight it by frequency. Words that no topic has are left out
    - ``corpus_distance``: Kullback-Leibler divergence in nats between the words of the topic's tokens and those of all tokens;
      small for a topic that resembles the whole corpus (corpus_dist)
    - ``uniform_distance``: the same between the word probabilities and the uniform distribution (uniform_dist)
    - ``effective_documents``: exp of the entropy of the documents of its tokens (document_entropy); 1 for a topic of one text
    - ``rank_1_documents``: number of documents in which the topic has more tokens than any other (rank_1_docs)
    - ``coherence``: u_mass of the most probable words, see `coherence`

    A topic without tokens has NaN where a figure is not defined. Raises `ZooError` for a model without topics, a result of
    another model, or other documents than the fitted ones.

    >>> data = load_data([["sun", "sea"], ["sea", "sand", "sun"], ["tax", "bank"], ["bank", "tax", "tax"]])
    >>> model = MODELS["latent_dirichlet"](data, num_topics=2)
    >>> topic_diagnostics(model, fit(model, data, "em"), data, num_words=2).index.tolist()
    [0, 1]
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
    return with_label_warnings(frame, source)


def _shares(counts: np.ndarray, axis: int = 1) -> np.ndarray:
    """Counts divided by their sum along ``axis``; NaN where the sum is 0."""
    total = counts.sum(axis, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), np.nan)


def _mean_and_sd(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean, sd) over the draws (S, …) that are not NaN; NaN for a mean of none and for the sd of fewer than two."""
    there = ~np.isnan(draws)
    number = there.sum(0)
    mean = np.where(number > 0, np.where(there, draws, 0.0).sum(0) / np.maximum(number, 1), np.nan)
    square = (np.where(there, draws - mean, 0.0) ** 2).sum(0)
    return mean, np.where(number > 1, np.sqrt(square / np.maximum(number - 1, 1)), np.nan)


def _entropy(probs: np.ndarray) -> np.ndarray:
    return -(probs * np.log(np.where(probs > 0, probs, 1.0))).sum(1)


def _divergence(probs: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL(p_k ‖ q) for rows p_k (K, V); q must be positive wherever a row is."""
    return (probs * np.log(np.where(probs > 0, probs, 1.0) / np.where(probs > 0, other, 1.0))).sum(1)


# ---------------------------------------------------------------------------------------------------------------------
# Documents and words


def similar_documents(
    model: Model, source: xr.DataTree | Sites, data: Any, document: int, num: int = 10, new: Any = None, seed: int = 0
) -> pd.DataFrame:
    """The ``num`` fitted documents whose topic proportions are most similar to those of one document, the nearest first.

    ``data`` holds the fitted documents, counted from 0. ``document`` is one of them, or one of ``new``, which the fit has not
    seen: its proportions are then drawn as in `inference.predict`, given 200 draws of ``source``, from ``seed``. Returns a
    DataFrame with one row per document:

    - ``document``; ``distance``: the Hellinger distance (½ Σ_k (√θ_dk − √θ_ek)²)^½ between topic proportions, from 0 to 1,
      averaged over the draws, so it does not depend on the order of topics in a draw; ``sd`` over the draws (not for a point)
    - ``tokens``: length of the document; ``words``: its most frequent words

    The proportions of a short document are mostly the prior's. Raises `ZooError` for a document that does not exist, a model
    without topics, or other documents than the fitted ones.

    >>> data = load_data([["sun", "sea"], ["sea", "sand", "sun"], ["tax", "bank"], ["bank", "tax", "tax"]])
    >>> model = MODELS["latent_dirichlet"](data, num_topics=2)
    >>> len(similar_documents(model, fit(model, data, "em"), data, 0))
    3
    """
    require_whole("num", num)
    require_whole("document", document, 0)
    topics, counts = topics_of(model, source), counts_of(model, data)
    theta = proportions_of(topics)
    require_document_count(topics, counts.shape[0])
    theta, others = (theta, theta) if new is None else new_proportions(model, source, new, seed)
    if document >= others.shape[1]:
        raise ZooError(f"document={document}: there are {others.shape[1]}, counted from 0")
    each = np.stack([hellinger(draw, other[document]) for draw, other in zip(theta, others, strict=True)])  # (S, M)
    mean = each.mean(0)
    order = np.argsort(mean, kind="stable")
    order = order[(order != document) | (new is not None)][:num]
    columns = {"document": order, "distance": mean[order]}
    if len(each) > 1:
        columns["sd"] = each.std(0, ddof=1)[order]
    columns |= {
        "tokens": counts.sum(1)[order].astype(int),
        "words": np.array([_frequent(counts, int(d), topics) for d in order], dtype=object),
    }
    return pd.DataFrame(columns)


def hellinger(probs: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Hellinger distances of rows (M, K) from one row (K,): (M,)."""
    return np.sqrt(0.5 * ((np.sqrt(probs) - np.sqrt(other)) ** 2).sum(1))


def _frequent(counts: sparse.csr_array, document: int, topics: Topics) -> str:
    part = slice(counts.indptr[document], counts.indptr[document + 1])
    order = np.lexsort((counts.indices[part], -counts.data[part]))[:SOME]
    return ", ".join(topics.words[v] for v in counts.indices[part][order])


def word_topics(model: Model, source: xr.DataTree | Sites, data: Any, words: str | Sequence[str]) -> pd.DataFrame:
    """The topics of a word, or of several words, the most probable first.

    Returns a DataFrame with one row per word and topic: ``word``, ``rank`` (from 1), ``topic``, ``probability`` p(k | v) and
    its ``sd`` over the draws. p(k | v) ∝ p(v | k) p(k), where p(k) = Σ_d N_d θ_dk / N is the topic distribution of a random
    token of ``data``, averaged over the draws in which some topic has the word. NaN if there are none, such as for a word that
    never occurs under ``prior=flat``. Raises `ZooError` for a word that the model does not know.

    >>> data = load_data([["sun", "sea"], ["sea", "sand", "sun"], ["tax", "bank"], ["bank", "tax", "tax"]])
    >>> model = MODELS["latent_dirichlet"](data, num_topics=2)
    >>> word_topics(model, fit(model, data, "em"), data, ["sun", "tax"]).columns.tolist()
    ['word', 'rank', 'topic', 'probability']
    """
    topics, counts = topics_of(model, source), counts_of(model, data)
    theta = proportions_of(topics)
    require_document_count(topics, counts.shape[0])
    wanted = [words] if isinstance(words, str) else list(words)
    known = {word: v for v, word in enumerate(topics.words)}
    unknown = [word for word in wanted if word not in known]
    if unknown:
        raise ZooError(f"the model has no word {unknown[0]!r}; its words are in the coordinate 'word' of its results")
    length = counts.sum(1) / counts.sum()
    share = np.einsum("d,sdk->sk", length, theta)
    joint = share[:, :, None] * topics.word_probs[:, :, [known[word] for word in wanted]]  # (S, K, words)
    probs = _shares(joint)
    (mean, sd), parts = _mean_and_sd(probs), []
    for place, word in enumerate(wanted):
        order = np.argsort(-mean[:, place], kind="stable")
        columns = {
            "word": [word] * len(order),
            "rank": np.arange(1, len(order) + 1),
            "topic": [topics.names[k] for k in order],
            "probability": mean[order, place],
        }
        if len(probs) > 1:
            columns["sd"] = sd[order, place]
        parts.append(pd.DataFrame(columns))
    return with_label_warnings(pd.concat(parts, ignore_index=True), source)
