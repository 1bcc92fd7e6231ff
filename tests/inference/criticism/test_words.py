"""Checks of topics on the page: the figures of `topic_check`, topic by topic."""

import numpy as np
import pytest
from six_documents import DATA, TEXTS, K, model, sites

from inference import topic_check
from inference.criticism import words
from inference.criticism.words import ALL, has_word_checks, number_of_tokens, word_checks
from inference.plots.predictive_checks import draw_checks
from inference.topics.access import Topics
from inference.topics.posterior_check import LEAST, Information, Looked
from models import MODELS, load_data
from models.data.documents import documents

DRAWS = 40


def test_every_statistic_has_the_figures_of_topic_check():
    """Same draws by the same seed: means, p-values with the corpus as one of them, words and their order."""
    data, source = documents([8 * text for text in TEXTS]), sites()
    built = MODELS["latent_dirichlet"](data, num_topics=K)
    found = word_checks(built, source, data, DRAWS, seed=3)
    check = topic_check(built, source, data, seed=3, num_draws=DRAWS, num_words=words.WORDS)
    assert [one.name for one in found] == [f"topic {name}" for name in check.topics["topic"]]
    for one, (_, topic) in zip(found, check.topics.iterrows(), strict=True):
        own = check.words[check.words["topic"] == topic["topic"]]
        assert one.names == (ALL, *own["word"])
        np.testing.assert_allclose(one.observed, [topic["information"], *own["information"]], rtol=1e-12)
        np.testing.assert_allclose(np.nanmean(one.replicated, 0), [topic["replicated"], *own["replicated"]], rtol=1e-12)
        assert one.p_value == pytest.approx((1 + DRAWS * topic["p_value"]) / (1 + DRAWS), rel=1e-12)


def test_draws_without_tokens_of_a_topic_do_not_count(monkeypatch):
    """A topic is left out only where no draw has tokens of it, a word where it has too few of them."""

    def looked(*_):
        topic = np.array([[0.2, np.nan, np.nan], [0.4, np.nan, 0.1], [0.6, np.nan, 0.3]])
        word = np.full((3, 3, 2), np.nan)
        word[:, 0, 0] = [1.0, np.nan, 2.0]
        word[:2, 0, 1] = [5.0, 7.0]
        tokens = np.full((3, 3, 2), float(LEAST))
        tokens[2, 0, 1] = LEAST - 1  # the mean is below
        seen = Information(topic, np.ones((3, 3)), word, tokens)
        again = seen._replace(
            topic=topic - np.array([[0.1], [-0.1], [0.1]]), word=word / np.array([2.0, 1.0, 3.0])[:, None, None]
        )
        names = Topics(["a", "b", "c"], ["x", "y"], np.ones((1, 3, 2)) / 2, None)
        return Looked(names, np.tile([0, 1], (3, 1)), seen, again)

    monkeypatch.setattr(words, "information_of_draws", looked)
    first, third = word_checks(model(), None, None, 3)
    assert (first.name, first.names, third.name, third.names) == ("topic a", (ALL, "x"), "topic c", (ALL,))
    assert first.observed.tolist() == pytest.approx([0.4, 1.5])
    assert third.observed.tolist() == pytest.approx([0.2])
    assert (first.p_value, third.p_value) == (2 / 4, 2 / 3)
    draw_checks("model", [first, third])


def test_only_small_corpora_of_topic_models_are_checked_without_being_asked(monkeypatch):
    tokens = sum(len(text) for text in TEXTS)
    assert number_of_tokens(DATA) == number_of_tokens(documents(TEXTS)) == tokens
    assert number_of_tokens(load_data(np.array([[2, 0, 1], [0, 3, 0]]))) == 6
    assert has_word_checks(model(), DATA)
    work = tokens + K * (len(DATA.columns) + DATA.num_rows) / 4
    monkeypatch.setattr(words, "MOST_WORK", work)
    assert has_word_checks(model(), DATA)
    monkeypatch.setattr(words, "MOST_WORK", work - 0.01)
    assert not has_word_checks(model(), DATA)
    iris = load_data("iris")
    assert not has_word_checks(MODELS["gmm"](iris, num_components=K), iris)
