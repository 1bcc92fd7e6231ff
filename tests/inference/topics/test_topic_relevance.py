"""Relevance of words, the words that any λ makes relevant, and the map of a result, against loops over the definitions."""

from math import log

import numpy as np
import pytest
import xarray as xr

from inference.results.table import observed_data
from inference.topics.relevance import (
    LISTED,
    MOST_TOPICS,
    STEPS,
    ever_relevant,
    jensen_shannon,
    mapped,
    most_relevant,
    relevance,
    scaled,
    topic_map,
)
from models import ZooError
from models.data.documents import documents

K, V = 3, 200


def random_topics(seed=0):
    """(p(w | t) (K, V), p(w) (V,)), with words that are rare, and some that a topic or the corpus never has."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(V, 0.05), K)
    probs[:, :3] = 0
    probs[1] = np.round(probs[1], 3)  # ties, and zeros
    probs /= probs.sum(1, keepdims=True)
    marginal = rng.dirichlet(np.ones(K)) @ probs
    marginal[5:8] = 0
    return probs, marginal / marginal.sum()


def naive(p, q, weight):
    """The relevance of one word, as Sievert and Shirley (2014) write it."""
    return weight * log(p) + (1 - weight) * log(p / q) if p > 0 and q > 0 else -np.inf


@pytest.mark.parametrize("weight", [0.0, 0.6, 1.0])
def test_relevance_is_that_of_the_definition(weight):
    probs, marginal = random_topics()
    wanted = [[naive(p, q, weight) for p, q in zip(row, marginal, strict=True)] for row in probs]
    np.testing.assert_allclose(relevance(probs, marginal, weight), wanted, rtol=1e-10, atol=1e-10)


def test_the_ends_order_by_probability_and_by_lift():
    probs, marginal = random_topics()
    seen = marginal > 0
    for row in range(K):
        own = np.flatnonzero(seen & (probs[row] > 0))
        for weight, figure in ((1.0, probs[row]), (0.0, probs[row] / np.where(seen, marginal, 1))):
            found = most_relevant(relevance(probs, marginal, weight)[row], V)
            assert set(found) == set(own)
            assert (np.diff(figure[found]) <= 1e-12 * figure[found][:-1]).all()


def test_all_words_that_a_slider_can_show_are_there():
    """On a grid four times as fine every list lies among the words, up to words that lead only between two steps."""
    probs, marginal = random_topics()
    found = ever_relevant(probs, marginal)
    steps = {k: set() for k in range(K)}
    for weight in np.arange(STEPS + 1) / STEPS:
        for k in range(K):
            own = [naive(p, q, weight) for p, q in zip(probs[k], marginal, strict=True)]
            listed = sorted((v for v in range(V) if own[v] > -np.inf), key=lambda v: -own[v])[:LISTED]
            least = own[listed[-1]]
            assert all(own[v] >= least - 1e-9 for v in most_relevant(relevance(probs, marginal, weight)[k]))
            steps[k] |= {v for v in listed if own[v] > least + 1e-9}  # rounding may exchange words of one relevance
    for k in range(K):
        assert steps[k] <= set(found[k])
        assert len(found[k]) < V / 2  # a part of the words alone
    finer = ever_relevant(probs, marginal, steps=4 * STEPS)
    for few, more in zip(found, finer, strict=True):
        assert set(few) <= set(more)
        assert len(more) <= 1.1 * len(few)


def test_relevance_refuses_what_it_cannot_read():
    probs, marginal = random_topics()
    with pytest.raises(ZooError, match="λ"):
        relevance(probs, marginal, 1.5)
    with pytest.raises(ZooError, match="λ"):
        relevance(probs, marginal, float("nan"))
    with pytest.raises(ZooError, match="shape"):
        relevance(probs, marginal[:-1])


def test_points_of_a_plane_are_found_again():
    """Their distances, whatever the axes; for one point and two, too."""
    rng = np.random.default_rng(1)
    for size in (1, 2, 7):
        points = rng.normal(size=(size, 2))
        distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
        found = scaled(distance)
        assert found.points.shape == (size, 2)
        np.testing.assert_allclose(np.linalg.norm(found.points[:, None] - found.points[None], axis=-1), distance, atol=1e-7)
        np.testing.assert_allclose(found.points.mean(0), 0, atol=1e-12)
    assert scaled(1 - np.eye(6)).explained == pytest.approx(2 / 5)  # a simplex: five axes of one length


def result(weight=None, draws=True):
    """(a result of three topics and four documents by hand, its documents)."""
    texts = [["sun", "sea", "sea"], ["tax"], ["sun", "tax", "tax", "tax", "sun"], ["sea"]]
    data = documents(texts)
    data = data if weight is None else data._replace(weight=np.array(weight))
    rng = np.random.default_rng(2)
    lead = (2, 5) if draws else ()
    sites = {
        "word_probs": (rng.dirichlet(np.ones(3), (*lead, K)), ("topic", "word")),
        "topic_probs": (rng.dirichlet(np.ones(K), (*lead, 4)), ("document", "topic")),
    }
    dims = ("chain", "draw") if draws else ()
    coords = {"word": list(data.columns), "topic": ["a", "b", "c"]}
    found = xr.Dataset({name: ((*dims, *own), value) for name, (value, own) in sites.items()}, coords=coords)
    tree = xr.DataTree.from_dict({"posterior" if draws else "point_estimate": found, "observed_data": observed_data(data)})
    return tree, texts, list(data.columns), {name: value for name, (value, _) in sites.items()}


@pytest.mark.parametrize("draws", [True, False])
@pytest.mark.parametrize("weight", [None, [1.0, 0.5, 2.0, 0.0]])
def test_the_map_of_a_result(draws, weight):
    """Shares, counts and p(t | w) token by token, from the means over the draws."""
    tree, texts, words, sites = result(weight, draws)
    probs, mixed = (value.reshape(-1, *value.shape[-2:]).mean(0) for value in (sites["word_probs"], sites["topic_probs"]))
    weights = weight or [1.0] * 4
    tokens = [(d, words.index(word), weights[d]) for d, text in enumerate(texts) for word in text]
    share = sum(w * mixed[d] for d, _, w in tokens) / sum(w for _, _, w in tokens)
    count = [sum(w for _, u, w in tokens if u == v) for v in range(3)]
    found = topic_map(tree)
    order = np.argsort(-share)
    assert found.names == [["a", "b", "c"][k] for k in order]
    np.testing.assert_allclose(found.share, share[order])
    assert found.words == [word for word, number in zip(words, count, strict=True) if number > 0]
    kept = [words.index(word) for word in found.words]
    np.testing.assert_allclose(found.counts, np.array(count)[kept])
    np.testing.assert_allclose(found.probs, probs[order][:, kept])
    joint = share[order, None] * probs[order]
    np.testing.assert_allclose(found.given, (joint / joint.sum(0))[:, kept])
    distance = np.linalg.norm(found.points[:, None] - found.points[None], axis=-1)
    np.testing.assert_allclose(distance, jensen_shannon(probs[order]), atol=1e-7)  # three topics lie in a plane
    assert found.explained == pytest.approx(1.0)
    for k in range(K):
        own = [naive(found.probs[k, v], found.counts[v] / found.tokens, 0.3) for v in range(len(kept))]
        np.testing.assert_array_equal(found.top(k, 0.3), np.argsort(-np.array(own)))


def test_results_without_topics_or_a_corpus_have_no_map():
    tree, *_ = result()
    corpus = tree["observed_data"].to_dataset()
    assert topic_map(xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset()})) is None
    for name in ("word_probs", "topic_probs"):
        less = tree["posterior"].to_dataset().drop_vars(name)
        assert topic_map(xr.DataTree.from_dict({"posterior": less, "observed_data": corpus})) is None


def test_of_many_topics_the_largest():
    """p(t | w) stays that of all topics."""
    rng = np.random.default_rng(3)
    number = MOST_TOPICS + 5
    probs, share = rng.dirichlet(np.ones(4), number), rng.dirichlet(np.ones(number))
    found = mapped([str(k) for k in range(number)], list("abcd"), probs, share, np.array([4.0, 3, 2, 1]))
    assert len(found.names) == MOST_TOPICS
    assert found.topics == number
    assert found.share.min() >= np.sort(share)[5]
    assert (found.given.sum(0) < 1).all()
