"""Words that no topic has, in a point or in some draws: averages leave them out, without a warning of 0 / 0."""

import numpy as np
import pandas as pd
import pytest
from six_documents import COUNTS, DATA, WORDS, K, M, V, drawn, flat, model, near, result, sites

from inference.topics.coherence import coherence, topic_diagnostics, word_topics
from models import MODELS, ZooError, load_data


@pytest.mark.filterwarnings("error")
def test_a_word_that_no_topic_has():
    """Under a flat prior a word that never occurs: it has no topic, and says nothing of how exclusive topics are."""
    counts = np.column_stack([COUNTS, np.zeros(M)])
    data = load_data(pd.DataFrame(counts, columns=[*WORDS, "z"]))
    six = MODELS["latent_dirichlet"](data, num_topics=K, prior="flat")
    point = sites() | {"word_probs": np.column_stack([sites()["word_probs"], np.zeros(K)])}
    found = word_topics(six, point, data, ["a", "z"])
    assert near(found[found["word"] == "a"]["probability"].sum(), 1)
    assert found[found["word"] == "z"]["probability"].isna().all()
    beta = sites()["word_probs"]
    exclusive = [np.mean([beta[k, v] / sum(beta[j, v] for j in range(K)) for v in range(V)]) for k in range(K)]
    assert near(topic_diagnostics(six, point, data, V + 1)["exclusivity"], exclusive)


@pytest.mark.filterwarnings("error")
def test_a_word_that_no_topic_has_in_some_draws():
    """As by underflow under a small concentration: averages are over the other draws."""
    draws = {name: drawn()["posterior"][name].values.copy() for name in ("topic_probs", "word_probs")}
    draws["word_probs"][0, 0, :, 1] = 0.0
    found = word_topics(model(), result(draws), DATA, WORDS[1]).sort_values("topic")
    length = COUNTS.sum(1) / COUNTS.sum()
    each = []
    for theta, beta in list(zip(flat("topic_probs"), flat("word_probs"), strict=True))[1:]:
        weight = np.array([sum(length[d] * theta[d, k] for d in range(M)) * beta[k, 1] for k in range(K)])
        each.append(weight / weight.sum())
    assert near(found["probability"], np.mean(each, axis=0))
    assert near(found["sd"], np.std(each, axis=0, ddof=1))


def test_coherence_without_documents():
    with pytest.raises(ZooError, match="dict of sites needs the documents"):
        coherence(model(), sites())
