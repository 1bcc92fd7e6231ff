"""The map of topics on a page: words that tell a topic from the others, distances of topics, and points in the plane.

The relevance of a word to a topic is that of LDAvis (Sievert and Shirley 2014): λ log p(w | t) + (1 − λ) log p(w | t) / p(w).
With λ = 1 it is the probability of the word in the topic, which favours words that are frequent everywhere; with λ = 0 it is
how much more frequent the word is there than in the corpus, which favours rare words. They recommend λ = 0.6.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

from inference.results.table import data_of
from inference.results.tree import table_of
from inference.topics.access import OF_DOCUMENTS, counts_in
from inference.topics.stability import topic_site
from models.errors import ZooError

LISTED = 30  # words of a topic
STEPS = 100  # of λ from 0 to 1, as the slider of a page goes
USUAL = 0.6  # λ
MOST_TOPICS = 50  # on a map: the largest


def relevance(probs: np.ndarray, marginal: np.ndarray, weight: float = USUAL) -> np.ndarray:
    """λ log p(w | t) + (1 − λ) log p(w | t) / p(w) of every word to every topic, (K, V) (Sievert and Shirley 2014).

    ``probs`` (K, V) is p(w | t), ``marginal`` (V,) is p(w), ``weight`` is λ. A word that the topic or the corpus never has gets
    −∞. Raises `ZooError` for a λ outside 0 to 1, or shapes that do not fit.

    >>> relevance(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0.8, 0.2]), 0.0).argmax(1)  # the first is common everywhere
    array([1, 0])
    """
    if not 0 <= weight <= 1:
        raise ZooError(f"the weight λ of a relevance must be from 0 to 1, got {weight!r}: give a number between them")
    if probs.ndim != 2 or marginal.shape != probs.shape[1:]:
        raise ZooError(
            f"probabilities of words have shape {probs.shape}, and those of the corpus {marginal.shape}: give (K, V) and (V,)"
        )
    with np.errstate(divide="ignore"):
        log, log_marginal = np.log(probs), np.log(marginal)
    known = (marginal > 0) & (probs > 0)
    return np.where(known, log - (1 - weight) * np.where(marginal > 0, log_marginal, 0.0), -np.inf)


def most_relevant(relevances: np.ndarray, number: int = LISTED) -> np.ndarray:
    """The places of the largest of (V,) relevances, at most ``number``, the largest first, ties in their order; none of −∞.

    >>> most_relevant(np.array([1.0, 3.0, -np.inf, 3.0]), 3)
    array([1, 3, 0])
    """
    places = np.flatnonzero(relevances > -np.inf)
    if len(places) > number:  # whole sorts of a vocabulary, at every λ, take long
        least = np.partition(relevances[places], -number)[-number]
        places = places[relevances[places] >= least]
    return places[np.argsort(-relevances[places], kind="stable")][:number]


def ever_relevant(probs: np.ndarray, marginal: np.ndarray, number: int = LISTED, steps: int = STEPS) -> list[np.ndarray]:
    """For each of K topics, the places of the words that some λ = 0, 1/steps, …, 1 puts among its ``number`` most relevant.

    ``probs`` is (K, V) and ``marginal`` (V,), as in `relevance`; places are in ascending order.

    >>> [places.tolist() for places in ever_relevant(np.array([[0.5, 0.1, 0.4]]), np.array([0.8, 0.1, 0.1]), number=1)]
    [[0, 2]]
    """
    places_of: list[set[int]] = [set() for _ in probs]
    for weight in np.arange(steps + 1) / steps:
        for places, row in zip(places_of, relevance(probs, marginal, float(weight)), strict=True):
            places.update(most_relevant(row, number).tolist())
    return [np.array(sorted(places), dtype=int) for places in places_of]


# ---------------------------------------------------------------------------------------------------------------------
# Distances


def jensen_shannon(probs: np.ndarray) -> np.ndarray:
    """The root of the Jensen-Shannon divergence, base 2, of every two rows (K, V): (K, K), a metric from 0 to 1.

    >>> jensen_shannon(np.eye(2)).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    entropy = -_x_log_x(probs).sum(1)
    between = np.stack([-_x_log_x((row + probs) / 2).sum(1) for row in probs])
    return np.sqrt(np.maximum(between - (entropy[:, None] + entropy) / 2, 0.0) / np.log(2))


def _x_log_x(values: np.ndarray) -> np.ndarray:
    return values * np.log(np.where(values > 0, values, 1.0))


class ScaledPoints(NamedTuple):
    """Points in the plane for distances."""

    points: np.ndarray  # (K, 2)
    explained: float  # Σ of the squared distances of the points over that of the given ones: at most 1


def scaled(distance: np.ndarray) -> ScaledPoints:
    """Classical multidimensional scaling (Torgerson 1952) of (K, K) distances to the plane, each axis with a fixed sign.

    >>> scaled(np.array([[0.0, 2.0], [2.0, 0.0]])).points[:, 0].tolist()
    [1.0, -1.0]
    """
    size = len(distance)
    centre = np.eye(size) - 1 / size
    inner = -0.5 * centre @ distance**2 @ centre
    value, vector = np.linalg.eigh(inner)
    value, vector = value[::-1][:2], vector[:, ::-1][:, :2]
    points = vector * np.sqrt(np.maximum(value, 0.0))
    points *= np.where(points[np.abs(points).argmax(0), np.arange(points.shape[1])] < 0, -1.0, 1.0)
    points = np.column_stack([points, np.zeros((size, 2 - points.shape[1]))])
    total = np.trace(inner)
    return ScaledPoints(points, float((points**2).sum() / total) if total > 0 else 1.0)


# ---------------------------------------------------------------------------------------------------------------------
# The map of a result


class TopicMap(NamedTuple):
    """The K largest topics of a result on a map, the largest first, and the W words that some λ makes relevant to one."""

    names: list[str]  # K
    share: np.ndarray  # (K,): p(t), the share of the corpus
    points: np.ndarray  # (K, 2)
    explained: float  # the share of the squared distances of all topics that the plane keeps
    words: list[str]  # W
    counts: np.ndarray  # (W,): how often a word is in the corpus
    probs: np.ndarray  # (K, W): p(w | t)
    given: np.ndarray  # (K, W): p(t | w)
    ever: list[np.ndarray]  # K times the places of the words that are relevant at some λ
    tokens: float  # of the corpus
    topics: int  # of the model, at least K

    def top(self, topic: int, weight: float = USUAL) -> np.ndarray:
        """The places of the most relevant words of the topic at place ``topic``, the most relevant first."""
        ever = self.ever[topic]
        relevances = relevance(self.probs[topic : topic + 1, ever], self.counts[ever] / self.tokens, weight)[0]
        return ever[most_relevant(relevances)]


def topic_map(tree: xr.DataTree) -> TopicMap | None:
    """The map of the topics of a result; None for a result without topics, topic proportions of documents, or a corpus.

    Probabilities are means over the draws. A document counts by its number of words times its weight. The distances are roots
    of Jensen-Shannon divergences, which lie in a Euclidean space, unlike the divergences; classical scaling squares them again.
    """
    site = topic_site(tree)
    if site is None or "column" not in table_of(tree).coords:
        return None
    sites = tree["posterior" if "posterior" in tree else "point_estimate"].to_dataset()
    mixed = next((each for each in sites.data_vars.values() if each.dims[-2:] == OF_DOCUMENTS), None)
    if mixed is None:
        return None
    probs, proportions = (np.asarray(each.mean(each.dims[:-2]), np.float64) for each in (sites[site], mixed))
    words = [str(word) for word in sites["word"].values]
    data = data_of(tree)
    counts = counts_in(data, tuple(words))
    weight = np.ones(counts.shape[0]) if data.weight is None else np.asarray(data.weight, np.float64)
    length, count = weight * counts.sum(1), weight @ counts
    if not count.sum() > 0:
        return None
    return mapped([str(name) for name in sites["topic"].values], words, probs, length @ proportions / length.sum(), count)


def mapped(names: list[str], words: list[str], probs: np.ndarray, share: np.ndarray, count: np.ndarray) -> TopicMap:
    """The map of topics with p(w | t) (K, V), p(t) (K,) and the counts (V,) of the words in the corpus.

    >>> topics = mapped(["a", "b"], ["sun", "tax"], np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.4, 0.6]), np.array([5, 5]))
    >>> topics.names, [topics.words[place] for place in topics.top(0)]
    (['b', 'a'], ['tax', 'sun'])
    """
    order = np.argsort(-share, kind="stable")[:MOST_TOPICS]
    joint = share[:, None] * probs
    given = joint / np.where(joint.sum(0) > 0, joint.sum(0), 1.0)
    ever = ever_relevant(probs[order], count / count.sum())
    union = np.unique(np.concatenate(ever))
    points, shown = scaled(jensen_shannon(probs))
    return TopicMap(
        [names[k] for k in order],
        share[order],
        points[order],
        shown,
        [words[v] for v in union],
        count[union],
        probs[np.ix_(order, union)],
        given[np.ix_(order, union)],
        [np.searchsorted(union, places) for places in ever],
        float(count.sum()),
        len(names),
    )
