"""The partially collapsed sampler: its word probabilities, its conditionals, all states, the prior, and its threads."""

import numpy as np
import pytest
from naive import near
from naive_topics import (
    PRIORS,
    document_of,
    log_dirichlet_multinomial,
    random_corpus,
    random_prior,
    recounted,
)
from scipy import special, stats
from two_stage import assert_standard_normal, of_distribution, of_frequencies

from models.data import ZooError
from models.topics.sampling.chains import start_chain, topic_prior
from models.topics.sampling.corpus import corpus_of_documents, counted
from models.topics.sampling.partially_collapsed import (
    SHARDS,
    ShardedChain,
    draw_word_probs,
    sharded_sweeps,
    start_sharded,
    word_rows,
)


def states(number=1, seed=9):
    return np.random.default_rng(seed).integers(2**63, size=(number, 4), dtype=np.uint64)


@pytest.mark.parametrize("shape", [0.002, 0.1, 0.4999, 0.5, 0.98, 1.0, 1.3, 40.0])
def test_gamma_variables(shape):
    """By the Kolmogorov-Smirnov test; where y is tiny, log P(Y < y) is shape log y - log Γ(shape + 1)."""
    from models.topics.sampling.dirichlet_draws import gamma, small_gamma

    def deviations(seed, times):
        state, logs = tuple(states(seed=seed)[0]), np.empty(12_000 * times)
        for place in range(len(logs)):
            *state, last = (gamma if shape >= 1 else small_gamma)(shape, *map(np.uint64, state))
            logs[place] = np.log(last) if shape >= 1 else last
            if shape < 1:
                assert near(state.pop(), np.exp(last), rtol=1e-12)
        tiny = np.exp(shape * logs - special.gammaln(shape + 1))
        uniform = np.where(logs < -40, tiny, special.gammainc(shape, np.exp(np.maximum(logs, -40))))
        return of_distribution(uniform, stats.uniform.cdf)

    assert_standard_normal(deviations, 9)


def word_probs(corpus, prior, topic, random):
    """β (K, V) as a sweep draws it."""
    rows, K = word_rows(corpus, prior), len(prior.alpha)
    draw_word_probs(rows, topic, random)
    assert (rows.table[:, K:] == 0).all()
    return rows.table[:, :K].T.copy()


@pytest.mark.parametrize("kind", ["symmetric", "words"])
def test_word_probabilities_are_dirichlet(kind):
    """Of every topic, one of them without a token: β_k1 and β_k2 / (1 - β_k1) are beta variables."""
    rng = np.random.default_rng(4)
    corpus = corpus_of_documents([rng.integers(6, size=30) for _ in range(4)], 7)
    prior = random_prior(rng, kind, corpus, 4)
    topic = start_chain(corpus, prior, 0).topic
    topic[topic == 2] = 0
    after = counted(corpus, topic, 4).word_topic.T + prior.eta

    def deviations(seed, times):
        random, found = states(SHARDS + 1, seed), []
        draws = np.array([word_probs(corpus, prior, topic, random) for _ in range(2000 * times)])
        assert near(draws.sum(-1), np.ones(draws.shape[:2]), rtol=1e-12)
        for k in range(4):
            whole, (one, two) = after[k].sum(), after[k, 1:3]
            found.append(of_distribution(draws[:, k, 1], stats.beta(one, whole - one).cdf))
            left = draws[:, k].sum(-1, where=np.arange(7) != 1)
            found.append(of_distribution(draws[:, k, 2] / left, stats.beta(two, whole - one - two).cdf))
        return found

    assert_standard_normal(deviations, 9)


def test_word_probabilities_at_tiny_concentrations():
    """Gamma variables that all underflow: a topic without a token still has probabilities, each word in turn nearly all."""
    corpus = corpus_of_documents([[0, 1]], 3)
    prior = topic_prior(corpus, 2, 1.0, 1e-5)

    def deviations(seed, times):
        random = states(SHARDS + 1, seed)
        draws = np.array([word_probs(corpus, prior, np.zeros(2, np.int32), random) for _ in range(600 * times)])
        assert near(draws.sum(-1), np.ones((len(draws), 2)), rtol=1e-12)
        return of_frequencies(np.bincount(draws[:, 1].argmax(1), minlength=3), np.full(3, 1 / 3))

    assert_standard_normal(deviations, 9)


@pytest.mark.parametrize("K", [1, 3, 8, 20, 33])
@pytest.mark.parametrize("kind", PRIORS)
def test_conditionals_are_ratios_of_the_joint(kind, K):
    """The weights from which the last token was drawn against p(w, z | β), whose logarithms are rounded at 1e-14."""
    from models.topics.sampling.conditional_sampler import dense_documents, rows_of

    rng = np.random.default_rng(K)
    for _ in range(4):
        corpus = random_corpus(rng, 6, 9, 40)
        if not len(corpus.word):
            continue
        prior = random_prior(rng, kind, corpus, K)
        topic = start_chain(corpus, prior, 0).topic
        beta = rng.dirichlet(np.full(9, 0.3), K) + 1e-9
        table, width = rows_of(beta.T)
        allowed = np.ones((6, K), bool) if prior.allowed_topics is None else prior.allowed_topics
        mask = np.zeros((0, 0), bool) if prior.allowed_topics is None else allowed
        weights = dense_documents(*corpus[:2], topic, prior.alpha, mask, table, width, states()[0], 0, 6)
        assert allowed[document_of(corpus), topic].all()
        last = document_of(corpus)[-1]
        own, logs = topic[document_of(corpus) == last], np.full(K, -np.inf)
        for k in np.flatnonzero(allowed[last]):
            counts = np.bincount([*own[:-1], k], minlength=K)
            logs[k] = log_dirichlet_multinomial(counts, prior.alpha) + np.log(beta[k, corpus.word[-1]])
        wanted = np.exp(logs - logs.max())
        assert np.abs(weights / weights.sum() - wanted / wanted.sum()).max() < 1e-12


@pytest.mark.parametrize("kind", ["symmetric", "allowed", "words"])
def test_one_seed_is_one_result_on_any_number_of_threads(kind):
    """Sweeps in two calls are those of one, chains differ, and the counts of the topics are those counted afresh."""
    rng = np.random.default_rng(0)
    corpus = random_corpus(rng, 90, 50, 60)
    prior = random_prior(rng, kind, corpus, 7)
    chain = start_sharded(corpus, prior, 4)
    assert (chain.topic != start_sharded(corpus, prior, 4, 1).topic).any()
    wanted = sharded_sweeps(corpus, prior, chain, 6)
    for found in (
        *(sharded_sweeps(corpus, prior, chain, 6, threads) for threads in (2, 3)),
        sharded_sweeps(corpus, prior, sharded_sweeps(corpus, prior, chain, 2, 2), 4),
    ):
        assert all((a == b).all() for a, b in zip(found, wanted, strict=True))
    counts = counted(corpus, wanted.topic, 7)
    assert all((a == b).all() for a, b in zip(counts, recounted(corpus, counts), strict=True))
    assert len({tuple(state) for state in np.concatenate([chain.random, chain.word_random])}) == 2 * SHARDS + 1


@pytest.mark.parametrize("documents", [[], [[]], [[], [0], []], [[0] * 30], [[1, 2, 0]]])
def test_small_corpora(documents):
    """No document, none with a word, one word, one token: sweeps end on two threads, topics are in range."""
    corpus = corpus_of_documents(documents, 3)
    for K in (1, 2, 40):
        prior = topic_prior(corpus, K, 0.1, 0.01)
        chain = sharded_sweeps(corpus, prior, start_sharded(corpus, prior, 1), 3, 2)
        assert isinstance(chain, ShardedChain)
        assert len(chain.topic) == len(corpus.word)
        assert ((chain.topic >= 0) & (chain.topic < K)).all()
    with pytest.raises(ZooError):
        sharded_sweeps(corpus, prior, chain, 1, 0)
