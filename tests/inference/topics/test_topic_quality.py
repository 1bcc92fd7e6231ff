"""What is said of topics, against sums over words, documents and tokens written out one by one."""

from functools import cache
from math import exp, log, sqrt

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from six_documents import (
    COUNTS,
    DATA,
    TEXTS,
    TRUE,
    WORDS,
    K,
    M,
    V,
    chains,
    drawn,
    flat,
    in_order,
    model,
    naive_tokens,
    near,
    result,
    sites,
)
from two_stage import assert_standard_normal, in_blocks

from inference import (
    coherence,
    fit,
    similar_documents,
    top_words,
    topic_check,
    topic_diagnostics,
    topic_stability,
    word_topics,
)
from inference.identification.relabel import OVERLAP
from inference.topics.access import expected_tokens, topics_of
from inference.topics.coherence import coherences, npmi
from inference.topics.stability import overlap
from models import MODELS, Data, ZooError, load_data
from models.data.documents import documents
from models.datasets.corpora import bar_pictures, bars

# ---------------------------------------------------------------------------------------------------------------------
# Words


def test_top_words_are_the_largest_means():
    found = top_words(model(), drawn(), 3)
    probs = flat("word_probs")
    for k in range(K):
        order = sorted(range(V), key=lambda v: -probs[:, k, v].mean())[:3]
        own = found[found["topic"] == k]
        assert list(own["word"]) == [WORDS[v] for v in order]
        assert list(own["rank"]) == [1, 2, 3]
        assert near(own["probability"], [probs[:, k, v].mean() for v in order])
        assert near(own["sd"], [np.std(probs[:, k, v], ddof=1) for v in order])
    assert "sd" not in top_words(model(), sites())
    assert len(top_words(model(), sites(), 99)) == K * V


@cache
def corpus():
    """Documents of 12 words, some of which always or never meet."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.6, (40, 12)) * (rng.random((40, 12)) < 0.7)
    counts[:, 0] = 1  # in every document
    counts[:, 1] = 2
    counts[:, 3] = np.where(counts[:, 2] > 0, 0, counts[:, 3])  # never with word 2
    return counts.astype(float), rng.dirichlet(np.full(12, 0.7), 4)


def naive_coherence(words, counts, measure):
    """A double loop over the words of one topic, the most probable first."""
    there = counts > 0
    total, values = len(counts), []
    for m in range(1, len(words)):
        for n in range(m):
            both = sum(bool(row[words[m]] and row[words[n]]) for row in there)
            one, other = sum(there[:, words[n]]), sum(there[:, words[m]])
            if measure == "u_mass":
                values.append(log((both + 1) / one))
            elif both in (0, total):
                values.append(-1.0 if both == 0 else 0.0)
            else:
                values.append(log(both * total / (one * other)) / -log(both / total))
    return sum(values) if measure == "u_mass" else sum(values) / len(values)


@pytest.mark.parametrize("measure", ["u_mass", "npmi"])
def test_coherence_is_a_double_loop(measure):
    counts, probs = corpus()
    data = Data("table", counts, tuple("abcdefghijkl"))
    topics = MODELS["latent_dirichlet"](data, num_topics=4)
    found = coherence(topics, {"word_probs": probs, "topic_probs": np.ones((40, 4)) / 4}, data, measure, 5)
    for k, row in enumerate(probs):
        assert found["coherence"][k] == pytest.approx(naive_coherence(np.argsort(-row)[:5], counts, measure), abs=1e-12)
    assert list(found["pairs"]) == [10] * 4


def test_npmi_at_its_ends():
    """Always together 1, never −1, independent 0; in every document 0."""
    assert near(
        npmi(np.array([5.0, 0, 2, 10]), np.array([5.0, 5, 4, 10]), np.array([5.0, 5, 5, 10]), 10), [1, -1, 0, 0], atol=1e-15
    )


@pytest.mark.filterwarnings("ignore")
def test_coherence_is_that_of_gensim():
    """Gensim takes the mean where Mimno et al. take the sum, and adds a tiny number to p(v, w) where they add 1 / M."""
    measures = pytest.importorskip("gensim.topic_coherence.direct_confirmation_measure")
    from gensim.corpora import Dictionary
    from gensim.topic_coherence import probability_estimation, segmentation

    counts, probs = corpus()
    texts = [[str(v) for v in np.repeat(np.arange(12), row.astype(int))] for row in counts]
    dictionary = Dictionary(texts)
    bags = [dictionary.doc2bow(text) for text in texts]
    # NPMI of words that never meet is −1 here, and nearly so in gensim
    topics = [[v for v in np.argsort(-row) if v not in (0, 1, 3)][:5] for row in probs]
    ids = [np.array([dictionary.token2id[str(v)] for v in row]) for row in topics]
    sparse = csr_array(counts)
    before = measures.EPSILON
    try:
        measures.EPSILON = 1 / len(counts)
        pairs = segmentation.s_one_pre(ids)
        theirs = measures.log_conditional_probability(pairs, probability_estimation.p_boolean_document(bags, pairs))
    finally:
        measures.EPSILON = before
    assert near(coherences(np.array(topics), sparse, "u_mass")[0], np.array(theirs) * 10, rtol=1e-10)
    pairs = segmentation.s_one_one(ids)
    theirs = measures.log_ratio_measure(pairs, probability_estimation.p_boolean_document(bags, pairs), normalize=True)
    assert near(coherences(np.array(topics), sparse, "npmi")[0], theirs, atol=1e-9)


def test_a_reference_corpus_may_lack_words():
    """Documents or a table: pairs with a word of no document are left out, and counted."""
    given = sites()
    reference = [list("ab"), list("ba"), list("bzz"), list("d")]
    table = pd.DataFrame([[row.count(word) for word in "zbad"] for row in reference], columns=list("zbad"))
    for other in (reference, documents(reference), table):
        found = coherence(model(), given, DATA, "u_mass", V, other)
        for k, row in enumerate(given["word_probs"]):
            order = [v for v in np.argsort(-row) if WORDS[v] in "abd"]
            counts = np.array([[text.count(word) for word in WORDS] for text in reference])
            assert found["coherence"][k] == pytest.approx(naive_coherence(order, counts, "u_mass"), abs=1e-12)
        assert list(found["pairs"]) == [3] * K
    nothing = coherence(model(), given, DATA, reference=[["z"], ["y"]])
    assert nothing["coherence"].isna().all()


# ---------------------------------------------------------------------------------------------------------------------
# Diagnostics, documents, words


def test_expected_tokens_are_sums_over_tokens_and_draws():
    found = expected_tokens(model(), drawn(), DATA)
    each = [naive_tokens(theta, beta) for theta, beta in zip(flat("topic_probs"), flat("word_probs"), strict=True)]
    assert near(found.document, np.mean([document for document, _ in each], axis=0), atol=1e-12)
    assert near(found.word, np.mean([word for _, word in each], axis=0), atol=1e-12)


def test_diagnostics_are_what_they_say():
    found, given = topic_diagnostics(model(), sites(), DATA, 2), sites()
    document, word = naive_tokens(given["topic_probs"], given["word_probs"])
    beta = given["word_probs"]
    overall = word.sum(0) / word.sum()
    first = [max(range(K), key=lambda k: document[d, k]) for d in range(M) if TEXTS[d]]
    for k, row in found.iterrows():
        p, own = beta[k], word[k] / word[k].sum()
        top = sorted(range(V), key=lambda v: -p[v])[:2]
        assert row["tokens"] == pytest.approx(word[k].sum())
        assert row["share"] == pytest.approx(word[k].sum() / sum(map(len, TEXTS)))
        assert row["effective_words"] == pytest.approx(1 / sum(x * x for x in p))
        assert row["perplexity"] == pytest.approx(exp(-sum(x * log(x) for x in p)))
        assert row["exclusivity"] == pytest.approx(np.mean([p[v] / sum(beta[j, v] for j in range(K)) for v in top]))
        assert row["corpus_distance"] == pytest.approx(sum(own[v] * log(own[v] / overall[v]) for v in range(V)))
        assert row["uniform_distance"] == pytest.approx(sum(x * log(x * V) for x in p))
        held = document[:, k] / document[:, k].sum()
        assert row["effective_documents"] == pytest.approx(exp(-sum(x * log(x) for x in held if x > 0)))
        assert row["rank_1_documents"] == first.count(k)
        assert row["coherence"] == pytest.approx(naive_coherence(top, COUNTS, "u_mass"))


def hellinger(left, right):
    return sqrt(sum((sqrt(a) - sqrt(b)) ** 2 for a, b in zip(left, right, strict=True)) / 2)


def test_similar_documents_are_near_whatever_the_order_of_topics():
    found = similar_documents(model(), drawn(), DATA, 2, 3)
    theta = flat("topic_probs")
    each = np.array([[hellinger(draw[d], draw[2]) for d in range(M)] for draw in theta])
    order = [d for d in np.argsort(each.mean(0)) if d != 2][:3]
    assert list(found["document"]) == order
    assert near(found["distance"], each.mean(0)[order])
    assert near(found["sd"], each.std(0, ddof=1)[order])
    assert list(found["tokens"]) == [len(TEXTS[d]) for d in order]
    assert [words.split(", ")[0] for words in found["words"] if words] == [
        max(sorted(set(TEXTS[d])), key=TEXTS[d].count) for d in order if TEXTS[d]
    ]
    rng = np.random.default_rng(1)
    mixed = np.stack([draw[:, rng.permutation(K)] for draw in theta]).reshape(2, 3, M, K)
    other = result({"topic_probs": mixed, "word_probs": drawn()["posterior"]["word_probs"].values})
    assert near(similar_documents(model(), other, DATA, 2, 3)["distance"], found["distance"])


@pytest.mark.slow
def test_new_documents_are_like_fitted_ones():
    """Where topics have no word in common those of tokens are known, and θ of a new document is Dirichlet(α + n): distances
    are means over 200 such draws, for each of six documents.
    """
    apart = np.array([[0.5, 0.5, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0.5, 0.5]])
    given = {"topic_probs": sites()["topic_probs"], "word_probs": np.maximum(apart, 1e-200)}
    new = documents([list("e"), list("aabcz")])

    def once(seed):
        found = similar_documents(model(), given, DATA, 1, new=new, seed=seed)
        assert sorted(found["document"]) == list(range(M))
        assert found["distance"].is_monotonic_increasing
        return found.sort_values("document")[["distance", "sd"]].to_numpy()[None]

    def deviations(seed, times):
        distance, sd = in_blocks(once, seed, times).mean(0).T
        concentration = np.asarray(model().hyper["topic_concentration"]) + [3, 1, 0]
        theta = np.random.default_rng(seed).dirichlet(concentration, 20_000 * times)
        each = np.sqrt(0.5 * ((np.sqrt(theta[:, None]) - np.sqrt(given["topic_probs"])) ** 2).sum(-1))
        assert near(sd, each.std(0), rtol=0.5)  # 10 standard errors of a Normal's
        return (distance - each.mean(0)) / (each.std(0) * np.sqrt((1 / 200 + 1 / 20_000) / times))

    assert_standard_normal(deviations, 3)
    with pytest.raises(ZooError, match="document=2: there are 2"):
        similar_documents(model(), given, DATA, 2, new=new)


def test_topics_of_a_word_by_bayes_rule():
    found = word_topics(model(), drawn(), DATA, ["b", "e"])
    length = np.array([len(text) for text in TEXTS]) / sum(map(len, TEXTS))
    for word in "be":
        each = []
        for theta, beta in zip(flat("topic_probs"), flat("word_probs"), strict=True):
            joint = [sum(length[d] * theta[d, k] for d in range(M)) * beta[k, WORDS.index(word)] for k in range(K)]
            each.append(np.array(joint) / sum(joint))
        own = found[found["word"] == word].sort_values("topic")
        assert near(own["probability"], np.mean(each, axis=0))
        assert near(own["sd"], np.std(each, axis=0, ddof=1))
    assert found[found["word"] == "b"]["probability"].is_monotonic_decreasing


@pytest.mark.slow
def test_at_a_maximum_of_the_likelihood_topics_of_words_are_those_of_tokens():
    """Under a flat prior p(k) p(v | k) ∝ the tokens of v in k, where EM stands still: its last step moves less than 1e-5."""
    data = documents([text for text in TEXTS if text])
    flat_model = MODELS["latent_dirichlet"](data, num_topics=2, prior="flat")
    tree = fit(flat_model, data, "em", num_starts=1, max_iter=5000, tol=1e-14, progress=False)
    tokens = expected_tokens(flat_model, tree, data).word
    found = word_topics(flat_model, tree, data, list(WORDS)).sort_values(["word", "topic"])
    assert near(found["probability"], (tokens / tokens.sum(0)).T.ravel(), atol=1e-5)


# ---------------------------------------------------------------------------------------------------------------------
# What people give


@cache
def mixture():
    data = load_data("iris")
    return MODELS["gmm"](data, num_components=2), data


def test_models_without_topics_are_refused():
    gmm, data = mixture()
    for ask in (top_words, lambda m, s: coherence(m, s, data), topic_stability, lambda m, s: topic_check(m, s, data)):
        with pytest.raises(ZooError, match="gmm has no topics"):
            ask(gmm, {})


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: top_words(model(), s, 0), "num_words must be a whole number above 0"),
        (lambda s: top_words(model(), {"word_probs": np.ones((2, V)) / V}), "word_probs has shape .2, 5., and that of"),
        (lambda s: top_words(model(), {"mean": np.ones(2)}), "expected the sites topic_probs, word_probs"),
        (lambda s: coherence(model(), s, DATA, "c_v"), "is not one of u_mass, npmi"),
        (lambda s: coherence(model(), s, DATA, num_words=1), "above 1"),
        (lambda s: similar_documents(model(), s, DATA, M), "there are 6, counted from 0"),
        (lambda s: similar_documents(model(), s, DATA, -1), "at least 0"),
        (lambda s: similar_documents(model(), s, documents(TEXTS[:3]), 0), "proportions of 6 documents, but the data has 3"),
        (lambda s: topic_diagnostics(model(), s, documents(TEXTS[:3])), "proportions of 6 documents, but the data has 3"),
        (lambda s: topic_check(model(), s, documents(TEXTS[:3])), "proportions of 6 documents, but the data has 3"),
        (lambda s: topic_check(model(), s, DATA, num_draws=1), "num_draws must be"),
        (lambda s: word_topics(model(), s, DATA, "zebra"), "the model has no word 'zebra'"),
        (lambda s: word_topics(model(), {"word_probs": s["word_probs"]}, DATA, "a"), "no topic proportions"),
    ],
)
def test_slips_are_one_sentence(ask, message):
    with pytest.raises(ZooError, match=message):
        ask(sites())


def test_doubts_about_labels_come_with_the_table():
    draws = {name: leaf.values for name, leaf in drawn()["posterior"].data_vars.items()}
    doubted = result(draws, warnings=f"topics {OVERLAP} 50% of the draws")
    assert OVERLAP in top_words(model(), doubted).attrs["warnings"]
    assert OVERLAP in topic_diagnostics(model(), doubted, DATA).attrs["warnings"]
    assert "chains disagree on topic" in top_words(model(), drawn()).attrs["warnings"]
    agreed = chains(TRUE, TRUE)
    assert "warnings" not in top_words(model(), result(in_order(agreed), agreed)).attrs
    assert "warnings" not in top_words(model(), sites()).attrs


@cache
def of_bars():
    data = bars(200, 60, concentration=0.2, seed=1)
    built = MODELS["latent_dirichlet"](data, word_concentration=0.5, topic_concentration=0.2)
    return built, data, fit(built, data, "gibbs", num_warmup=100, num_samples=10, num_chains=8, seed=1, progress=False)


@pytest.mark.slow
def test_all_of_it_on_a_fit():
    """Draws of a sampler under concentrations below 1: tables of the right size, and every bar is a topic of its own.

    A bar has some 1200 tokens. Were their topics known, its mean would be 0.03 off in total variation: 0.008 by the prior, and
    a hundredth on each of five words by chance. That they are not makes it thrice that, should it cost eight ninths of what is
    known. So 0.2 is wide, while a topic that two bars share is 0.4 or more from both, and the best of ten from the prior 0.64.
    One chain in four stays where two bars share a topic, and rows are less probable. So the chain under which they are most
    probable is looked at.
    """
    built, data, tree = of_bars()
    found = topic_diagnostics(built, tree, data)
    assert found["share"].sum() == pytest.approx(1.0)
    assert found["tokens"].sum() == pytest.approx(200 * 60)
    assert found["rank_1_documents"].sum() == 200
    assert len(topic_check(built, tree, data, num_draws=4).topics) == 10
    assert len(topic_stability(built, tree)) == 10
    likely = int(tree["functionals"]["log_likelihood"].mean("draw").values.argmax())
    own = topics_of(built, tree).word_probs.reshape(8, 10, 10, 25)[likely]  # draws, topics, words
    shared = overlap(own.mean(0), bar_pictures())
    assert sorted(shared.argmax(1)) == list(range(10))
    assert (1 - shared.max(0) < 0.2).all()
