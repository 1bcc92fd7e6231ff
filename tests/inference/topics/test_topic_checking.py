"""The posterior predictive check of topics, against sums over tokens written out one by one."""

from math import log, sqrt

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import jensenshannon
from six_documents import (
    DATA,
    TEXTS,
    TRUE,
    WORDS,
    K,
    M,
    V,
    model,
    naive_tokens,
    near,
    sites,
)
from two_stage import assert_standard_normal, of_frequencies

from inference import (
    topic_check,
)
from inference.topics.access import Drawn, topic_sampler, topics_of
from inference.topics.posterior_check import Information, Looked, deviance, information, most_deviant, replicated
from inference.topics.relevance import jensen_shannon, scaled
from models import MODELS
from models.data.documents import documents

# ---------------------------------------------------------------------------------------------------------------------
# Posterior predictive check


def naive_information(tokens, k):
    """(MI, word -> IMI) of the tokens (d, v, topic) of one topic, from the definition."""
    own = [(d, v) for d, v, topic in tokens if topic == k]
    total = len(own)
    count = {pair: own.count(pair) for pair in own}
    row = {d: sum(e == d for e, _ in own) for d, _ in own}
    col = {v: sum(w == v for _, w in own) for _, v in own}
    mi = sum(n / total * log(n * total / (row[d] * col[v])) for (d, v), n in count.items())
    overall = -sum(n / total * log(n / total) for n in row.values())
    parts = {v: overall + sum(n / col[v] * log(n / col[v]) for (_, w), n in count.items() if w == v) for v in col}
    return mi, parts


def test_information_is_its_definition_and_the_sum_of_its_parts():
    rng = np.random.default_rng(5)
    drawn = Drawn(rng.integers(0, 6, 60), rng.integers(0, V, 60), rng.integers(0, 2, 60))  # topic 2 has no tokens
    found = information(drawn, K, V)
    tokens = list(zip(*drawn, strict=True))
    for k in range(2):
        mi, parts = naive_information(tokens, k)
        assert found.topic[k] == pytest.approx(mi, abs=1e-12)
        for v in range(V):
            assert found.word[k, v] == pytest.approx(parts[v], abs=1e-12) if v in parts else np.isnan(found.word[k, v])
    weight = found.tokens[:2] / found.size[:2, None]
    assert near((weight * np.nan_to_num(found.word[:2])).sum(1), found.topic[:2], atol=1e-12)
    assert np.isnan(found.topic[2])


@pytest.mark.slow
def test_topics_of_tokens_are_drawn_as_they_should_be():
    """Shares of topics in a document and of words in a topic, over draws of all tokens of the corpus."""
    given, sampler = sites(), topic_sampler(model(), topics_of(model(), sites()), DATA)
    wanted = naive_tokens(given["topic_probs"], given["word_probs"])

    def deviations(seed, times):
        number, document, word = 2000 * times, np.zeros((M, K)), np.zeros((K, V))
        for place in range(number):
            found = sampler(given, seed + place)
            np.add.at(document, (found.row, found.topic), 1 / number)
            np.add.at(word, (found.topic, found.word), 1 / number)
        words = sorted((d, WORDS.index(token)) for d, text in enumerate(TEXTS) for token in text)
        assert sorted(zip(found.row.tolist(), found.word.tolist(), strict=True)) == words
        # a cell is a sum of independent Bernoulli variables, of variance at most its mean
        pairs = zip((document, word), wanted, strict=True)
        return np.concatenate([((v - w) / np.sqrt(np.maximum(w, 1e-3) / number)).ravel() for v, w in pairs])

    assert_standard_normal(deviations)


def test_words_are_drawn_anew_from_their_topic():
    """χ² of words against the probabilities of their topics; a word of 0 never comes."""

    def deviations(seed, times):
        rng, size = np.random.default_rng(seed), 12_000 * times
        drawn = Drawn(np.zeros(size, int), np.zeros(size, int), rng.integers(0, K, size))
        found = replicated(drawn, TRUE, rng)
        assert (found.row == drawn.row).all()
        assert (found.topic == drawn.topic).all()
        return [of_frequencies(np.bincount(found.word[found.topic == k], minlength=V), TRUE[k]) for k in range(K)]

    assert_standard_normal(deviations, 2)


def simulated(rng, bursts=False):
    """A corpus at true sites; with bursts words of a document are one word of their topic over and over."""
    theta, beta = rng.dirichlet(np.ones(2), 15), np.array([[0.3, 0.3, 0.3, 0.05, 0.05], [0.05, 0.05, 0.1, 0.4, 0.4]])
    rows = []
    for d in range(15):
        z = rng.choice(2, 20, p=theta[d])
        words = [rng.choice(V, p=beta[k]) for k in z]
        once = [rng.choice(V, p=beta[k]) for k in range(2)]
        rows.append([WORDS[once[k] if bursts else v] for k, v in zip(z, words, strict=True)])
    data = documents([*rows, list(WORDS)])
    return data, {"word_probs": beta, "topic_probs": np.vstack([theta, [[0.5, 0.5]]])}


@pytest.mark.slow
def test_the_check_passes_the_model_and_fails_bursts():
    """At the truth data and replicated words are exchangeable, so that p-values have mean ½ and at most the variance 1/12 of a
    uniform, of independent corpora. Bursts are found.
    """

    def deviations(seed, times):
        rng, values = np.random.default_rng(seed), []
        for _ in range(24 * times):
            data, truth = simulated(rng)
            built = MODELS["latent_dirichlet"](data, num_topics=2)
            values.append(topic_check(built, truth, data, num_draws=20, seed=int(rng.integers(1000))).topics["p_value"][0])
        return (np.mean(values) - 0.5) * sqrt(12 * len(values))

    assert_standard_normal(deviations, 11)
    data, truth = simulated(np.random.default_rng(12), bursts=True)
    check = topic_check(MODELS["latent_dirichlet"](data, num_topics=2), truth, data, num_draws=50)
    assert (check.topics["p_value"] == 0).all()
    assert (check.topics["deviance"] > 3).all()
    assert (check.topics["information"] > check.topics["replicated"]).all()
    assert list(check.words.columns[:3]) == ["topic", "rank", "word"]
    assert (check.words.groupby("topic")["deviance"].apply(lambda own: own.is_monotonic_decreasing)).all()
    again = topic_check(MODELS["latent_dirichlet"](data, num_topics=2), truth, data, num_draws=50)
    pd.testing.assert_frame_equal(check.topics, again.topics)


def test_words_with_next_to_no_tokens_are_not_listed():
    """A word in one document of one draw in a hundred deviates as much as one likes; one with tokens in every draw leads."""
    rng, draws = np.random.default_rng(3), 100
    word, tokens = np.full((draws, 1, 2), np.nan), np.zeros((draws, 1, 2))
    word[:, 0, 0], tokens[:, 0, 0] = 1.0, 40.0
    word[:2, 0, 1], tokens[:2, 0, 1] = 3.0, 1.0  # 0.02 expected tokens
    seen = Information(np.ones((draws, 1)), np.full((draws, 1), 1e3), word, tokens)
    looked = Looked(None, np.array([[0, 1]]), seen, seen._replace(word=word - rng.normal(0.5, [0.2, 1e-3], (draws, 1, 2))))
    assert deviance(looked.seen.word, looked.again.word)[0].argmax() == 1
    assert most_deviant(looked, 0, 5).tolist() == [0]


# ---------------------------------------------------------------------------------------------------------------------
# Distances


def test_distances_are_jensen_shannon_and_their_map_keeps_what_lies_in_a_plane():
    rng = np.random.default_rng(0)
    probs = np.vstack([rng.dirichlet(np.ones(5), 4), [[1, 0, 0, 0, 0]]])
    wanted = [[jensenshannon(p, q, base=2) for q in probs] for p in probs]
    assert near(jensen_shannon(probs), wanted, atol=1e-7)  # the root of what rounds to 1e-16
    points = rng.normal(size=(6, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    found = scaled(distance)
    assert near(np.linalg.norm(found.points[:, None] - found.points[None], axis=-1), distance, atol=1e-7)
    assert found.explained == pytest.approx(1.0)
