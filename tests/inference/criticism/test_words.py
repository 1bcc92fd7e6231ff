"""Checks of topics on the page: the figures of `topic_check`, topic by topic."""

import numpy as np
import pytest
from six_documents import DATA, TEXTS, K, model, sites

from inference import topic_check
from inference.criticism import words
from inference.criticism.words import ALL, has_word_checks, number_of_tokens, word_checks
from models import MODELS, load_data
from models.data.documents import documents

DRAWS = 40


def test_every_statistic_has_the_figures_of_topic_check():
    """Same draws by the same seed: means, p-values with the corpus as one of them, words and their order."""
    data, source = documents([8 * text for text in TEXTS]), sites()
    built = MODELS["latent_dirichlet"](data, num_topics=K)
    found = word_checks(built, source, data, DRAWS, seed=3)
    check = topic_check(built, source, data, seed=3, num_draws=DRAWS, num_words=len(data.columns))
    assert [one.name for one in found] == [f"topic {name}" for name in check.topics["topic"]]
    for one, (_, topic) in zip(found, check.topics.iterrows(), strict=True):
        assert one.names[0] == ALL
        assert one.observed[0] == pytest.approx(topic["information"], rel=1e-12)
        assert one.replicated[:, 0].mean() == pytest.approx(topic["replicated"], rel=1e-12)
        assert one.p_value == pytest.approx((1 + DRAWS * topic["p_value"]) / (1 + DRAWS), rel=1e-12)
        own = check.words[check.words["topic"] == topic["topic"]].set_index("word")
        assert len(one.names) > 1
        assert [word for word in own.index if word in one.names] == list(one.names[1:])
        np.testing.assert_allclose(one.observed[1:], own.loc[list(one.names[1:]), "information"], rtol=1e-12)
        np.testing.assert_allclose(one.replicated[:, 1:].mean(0), own.loc[list(one.names[1:]), "replicated"], rtol=1e-12)
        assert np.isfinite(one.replicated).all()


def test_only_small_corpora_of_topic_models_are_checked_without_being_asked(monkeypatch):
    tokens = sum(len(text) for text in TEXTS)
    assert number_of_tokens(DATA) == number_of_tokens(documents(TEXTS)) == tokens
    assert number_of_tokens(load_data(np.array([[2, 0, 1], [0, 3, 0]]))) == 6
    assert has_word_checks(model(), DATA)
    monkeypatch.setattr(words, "MOST_TOKENS", tokens - 1)
    assert not has_word_checks(model(), DATA)
    iris = load_data("iris")
    assert not has_word_checks(MODELS["gmm"](iris, num_components=K), iris)
