"""Do the words of a topic depend on the document, against the model? A posterior predictive check (Mimno and Blei 2011).

In a topic model, the words of a topic do not depend on the document. Draw a topic for every token, and let N(d, v, k) be the
number of tokens of word v in document d with topic k. The mutual information of words and documents within topic k,

    MI_k = Σ_d Σ_v N(d, v | k) / N(k) log (N(d, v | k) N(k) / (N(d | k) N(v | k))) = Σ_v N(v | k) / N(k) IMI_kv,
    IMI_kv = H(D | k) − H(D | v, k),                                                                      in nats,

is above 0 by chance alone. Replicated corpora, whose words are drawn from the model given the same topics, show by how much.
The contribution of a word, its instantaneous mutual information IMI, is large for words that occur in only a few of the
topic's documents.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.results.draws import draws_of
from inference.topics.access import Drawn, Topics, most_probable, topic_sampler, topics_of
from inference.topics.coherence import with_label_warnings
from models.base import Model, Sites, ZooError
from models.data.arguments import require_whole
from models.rows.encoded import spread

AMONG = 50  # most probable words per topic that are checked one by one
LEAST = (
    5  # expected tokens of a word in a topic, from which it is listed: of fewer, chance decides whether they share a document
)


class Information(NamedTuple):
    """Mutual information of words and documents within each topic, in nats."""

    topic: np.ndarray  # (K,): MI; NaN without tokens
    size: np.ndarray  # (K,): N(k)
    word: np.ndarray  # (K, V): IMI; NaN without tokens
    tokens: np.ndarray  # (K, V): N(v, k)


def _of_words(of_all: Information, places: np.ndarray) -> Information:
    """Only some words of every topic (K, n)."""
    return of_all._replace(word=np.take_along_axis(of_all.word, places, 1), tokens=np.take_along_axis(of_all.tokens, places, 1))


def information(drawn: Drawn, num_topics: int, num_words: int) -> Information:
    """Mutual information of words and documents within topics, in all and per word."""
    documents = int(drawn.row.max(initial=0)) + 1
    key = (drawn.topic.astype(np.int64) * num_words + drawn.word) * documents + drawn.row
    cells, count = np.unique(key, return_counts=True)
    pair, row = np.divmod(cells, documents)  # of topic and word; document
    by_word = np.bincount(pair, weights=count, minlength=num_topics * num_words).reshape(num_topics, num_words)
    topic = pair // num_words
    by_row = np.bincount(topic * documents + row, weights=count, minlength=num_topics * documents)
    total = by_word.sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):  # NaN for a topic, or a word in it, without tokens
        entropy = np.log(total) - _sum_log(by_row.reshape(num_topics, documents)).sum(1) / total
        given = np.log(by_word) - np.bincount(pair, _sum_log(count), num_topics * num_words).reshape(by_word.shape) / by_word
        word = entropy[:, None] - given
        return Information(np.where(by_word > 0, by_word * word, 0.0).sum(1) / total, total, word, by_word)


def _sum_log(count: np.ndarray) -> np.ndarray:
    return count * np.log(np.maximum(count, 1))


def replicated(drawn: Drawn, word_probs: np.ndarray, rng: np.random.Generator) -> Drawn:
    """Tokens with the same topics and documents, but words drawn from ``word_probs`` (K, V)."""
    word = np.empty_like(drawn.word)
    for k, probs in enumerate(word_probs):
        places = np.flatnonzero(drawn.topic == k)
        edges = np.cumsum(probs)
        word[places] = np.searchsorted(edges, rng.random(len(places)) * edges[-1], side="right").clip(0, len(probs) - 1)
    return drawn._replace(word=word)


class TopicCheck(NamedTuple):
    """The tables of a check."""

    topics: pd.DataFrame
    words: pd.DataFrame


def topic_check(
    model: Model, source: xr.DataTree | Sites, data: Any, seed: int = 0, num_draws: int = 100, num_words: int = 10
) -> TopicCheck:
    """Do words within a topic depend on the document more than under the model? (Mimno and Blei 2011)

    At each of ``num_draws`` draws of a result (or repeatedly at a point), a topic is drawn for every token given its word and
    document, and a replicated word is drawn given this topic. Returns two DataFrames:

    - ``topics``, one row per topic: ``tokens``; ``information``: mean MI of the data, in nats; ``replicated``: mean MI of the
      replicated words; ``deviance``: mean difference of the two, in standard deviations of this difference over the draws;
      ``p_value``: the share of draws in which the replicated MI is at least that of the data
    - ``words``, for each topic the ``num_words`` words that deviate most, among those of its `AMONG` most probable ones of
      which it has at least `LEAST` expected tokens: ``topic``, ``rank``, ``word``, ``tokens``, ``information`` (IMI),
      ``replicated``, ``deviance``

    The p-values are posterior predictive: under a true model they are not uniform but closer to ½, because the data were used
    to fit it. A small p-value is evidence against the model; a large one is little evidence for it. Words come in bursts, so
    most topics of real texts fail clearly: look at which fail worst, and by which words. Raises `ZooError` for a model without
    topics, other documents than the fitted ones, or documents without tokens.

    >>> data = load_data([["sun", "sea"], ["sea", "sand", "sun"], ["tax", "bank"], ["bank", "tax", "tax"]])
    >>> model = MODELS["latent_dirichlet"](data, num_topics=2)
    >>> check = topic_check(model, fit(model, data, "collapsed_gibbs"), data, num_words=2)
    >>> check.topics.columns.tolist()
    ['topic', 'tokens', 'information', 'replicated', 'deviance', 'p_value']
    """
    require_whole("num_words", num_words, 1)
    looked = information_of_draws(model, source, data, seed, num_draws)
    tables = _by_topic(looked.topics.names, looked.seen, looked.again), _by_word(looked, num_words)
    return TopicCheck(*(with_label_warnings(table, source) for table in tables))


class Looked(NamedTuple):
    """The two sides of a check over S draws: topics and the places (K, n) of the words looked at, then their information."""

    topics: Topics
    among: np.ndarray
    seen: Information  # of the corpus; every field has a leading axis of draws
    again: Information  # of the replicated words


def information_of_draws(model: Model, source: xr.DataTree | Sites, data: Any, seed: int, num_draws: int) -> Looked:
    """Information in the corpus and in a replicated one at each of ``num_draws`` draws, repeatedly if there are fewer."""
    require_whole("num_draws", num_draws, 2)
    require_whole("seed", seed, 0)
    topics, draws = topics_of(model, source), draws_of(model, source)
    sample, rng = topic_sampler(model, topics, data), np.random.default_rng(seed)
    size = len(topics.word_probs)
    chosen = spread(size, num_draws)
    K, V = topics.word_probs.shape[1:]
    among, pairs = most_probable(topics.word_probs.mean(0), AMONG), []
    for number in range(num_draws):
        place = chosen[number % len(chosen)]
        drawn = sample({name: leaf[place] for name, leaf in draws.items()}, int(rng.integers(2**31)))
        if not len(drawn.row):
            raise ZooError("these documents have no tokens")
        pair = drawn, replicated(drawn, topics.word_probs[place], rng)
        pairs.append([_of_words(information(each, K, V), among) for each in pair])
    seen, again = (Information(*map(np.stack, zip(*side, strict=True))) for side in zip(*pairs, strict=True))
    return Looked(topics, among, seen, again)


def _by_topic(names: list[Any], seen: Information, again: Information) -> pd.DataFrame:
    there = np.isfinite(seen.topic).any(0)
    least = np.where(np.isfinite(seen.topic), again.topic >= seen.topic, np.nan)
    return pd.DataFrame(
        {
            "topic": names,
            "tokens": seen.size.mean(0),
            "information": mean_there(seen.topic),
            "replicated": mean_there(again.topic),
            "deviance": deviance(seen.topic, again.topic),
            "p_value": np.where(there, mean_there(least), np.nan),
        }
    )


def _by_word(looked: Looked, number: int) -> pd.DataFrame:
    topics, among, seen, again = looked
    mean, other, apart = mean_there(seen.word), mean_there(again.word), deviance(seen.word, again.word)
    tokens = seen.tokens.mean(0)
    rows = [
        (name, rank, topics.words[among[k, v]], tokens[k, v], mean[k, v], other[k, v], apart[k, v])
        for k, name in enumerate(topics.names)
        for rank, v in enumerate(most_deviant(looked, k, number), start=1)
    ]
    return pd.DataFrame(rows, columns=["topic", "rank", "word", "tokens", "information", "replicated", "deviance"])


def most_deviant(looked: Looked, topic: int, number: int) -> np.ndarray:
    """Places, among the words looked at, of the ``number`` words of a topic that deviate most, of `LEAST` tokens or more."""
    apart = deviance(looked.seen.word[:, topic], looked.again.word[:, topic])
    known = np.flatnonzero(np.isfinite(apart) & (looked.seen.tokens[:, topic].mean(0) >= LEAST))
    return known[np.argsort(-apart[known], kind="stable")][:number]


def mean_there(each: np.ndarray) -> np.ndarray:
    """Mean over the draws that are not NaN; NaN if there are none."""
    there = np.isfinite(each)
    number = there.sum(0)
    return np.where(number > 0, np.where(there, each, 0.0).sum(0) / np.maximum(number, 1), np.nan)


def deviance(seen: np.ndarray, again: np.ndarray) -> np.ndarray:
    """Mean difference over its standard deviation across draws, the leading axis; NaN if it does not vary."""
    difference = seen - again
    mean = mean_there(difference)
    sd = np.sqrt(mean_there((difference - mean) ** 2))
    return np.where(sd > 0, mean / np.where(sd > 0, sd, 1.0), np.nan)
