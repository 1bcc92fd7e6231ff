"""Collapsed Gibbs sampling of topics: each kernel against the joint, against all states, and against the prior it samples."""

import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from naive_topics import conditional, every_state, generated, log_joint, words_of
from scipy import stats

from models.data import ZooError
from models.token_sampler import TopicChain, kernel_for, start_chain, swept, swept_chains, topic_prior
from models.tokens import Corpus, corpus_of_counts, corpus_of_documents, counted, document_of, posterior_means, recounted

KERNELS = ("few", "many")
PRIORS = ("symmetric", "asymmetric", "large", "allowed", "words")


def random_corpus(rng, num_documents, num_words, longest):
    return corpus_of_documents([rng.integers(num_words, size=rng.integers(longest)) for _ in range(num_documents)], num_words)


def random_prior(rng, kind, corpus, K):
    """Concentrations of all sizes; ``large``: α far above V η, where a token more may lower the weight of its topic."""
    alpha = {"symmetric": 0.3, "large": 50.0}.get(kind, rng.gamma(1.0, size=K) + 0.01)
    eta = rng.gamma(1.0, size=(K, corpus.num_words)) + 0.01 if kind == "words" else {"large": 0.5}.get(kind, 0.05)
    allowed = rng.random((corpus.num_documents, K)) < 0.5 if kind == "allowed" else None
    if allowed is not None:
        allowed[np.arange(len(allowed)), rng.integers(K, size=len(allowed))] = True
    return topic_prior(corpus, K, alpha, eta, allowed)


CASES = [(kernel, kind) for kernel in KERNELS for kind in PRIORS if (kernel, kind) != ("many", "words")]


@pytest.mark.parametrize("K", [1, 3, 8, 20, 33, 70])
@pytest.mark.parametrize(("kernel", "kind"), CASES)
def test_conditionals_are_ratios_of_the_joint(kernel, kind, K):
    """The weights from which a kernel drew the last token, after sweeps to a random state; and its topics count right.

    Ratios of the joint come from logarithms near −1000, rounded at 1e-13, and exponentials of their differences.
    """
    rng = np.random.default_rng(K)
    for repeat in range(4):
        corpus = random_corpus(rng, 6, 9, 40)
        if not len(corpus.word):
            continue
        prior = random_prior(rng, kind, corpus, K)
        chain, weights = swept(corpus, prior, start_chain(corpus, prior, repeat), 1 + repeat, kernel)
        assert np.abs(weights / weights.sum() - conditional(corpus, chain.topic, len(corpus.word) - 1, prior)).max() < 1e-12
        if prior.allowed is not None:
            assert prior.allowed[document_of(corpus), chain.topic].all()
        counts = counted(corpus, chain.topic, K)
        for found, fresh in zip(counts, recounted(corpus, counts), strict=True):
            assert (found == fresh).all()


def run(corpus, prior, kernel, draws, between=1, seed=0):
    """Topics (draws, T), ``between`` sweeps apart, after fifty."""
    chain, _ = swept(corpus, prior, start_chain(corpus, prior, seed), 50, kernel)
    found = np.empty((draws, len(corpus.word)), np.int32)
    for draw in range(draws):
        chain, _ = swept(corpus, prior, chain, between, kernel)
        found[draw] = chain.topic
    return found


SMALL = [(kernel, kind, ((0, 1, 1), (), (2, 0)), 3) for kernel, kind in CASES]
WIDE = [(kernel, kind, ((0, 1),), 40) for kernel, kind in CASES if kind in ("asymmetric", "allowed")]


@pytest.mark.parametrize(("kernel", "kind", "documents", "K"), SMALL + WIDE)
def test_frequencies_of_all_states(kernel, kind, documents, K):
    """Every one of K^T states as often as its probability says: a χ² test of draws twenty sweeps apart, p above 1e-6.

    Draws so far apart count as independent here, where topics hardly stick; rare states are taken together. With three topics
    `many_topics` keeps rows, with forty lists, and `few_topics` searches in its two ways.
    """
    corpus = corpus_of_documents(documents, 4)
    prior = random_prior(np.random.default_rng(5), kind, corpus, K)
    states, probs = every_state(corpus, prior)
    places = {tuple(state): index for index, state in enumerate(states)}
    draws = run(corpus, prior, kernel, 20_000, between=20)
    found = np.bincount([places[tuple(draw)] for draw in draws], minlength=len(states))
    order = np.argsort(probs)
    pooled = np.cumsum(probs[order] * len(draws)) // 20  # groups of at least about twenty expected draws
    expected, seen = (np.bincount(pooled.astype(int), values[order]) for values in (probs * len(draws), found))
    used = expected > 0
    assert stats.chisquare(seen[used], expected[used]).pvalue > 1e-6


@pytest.mark.parametrize("kernel", KERNELS)
def test_posterior_means_of_an_enumerated_corpus(kernel):
    """E[θ | w] over all 2¹² states, functionals free of labels, within 5.5 standard errors of batch means: 4e-8 each."""
    rng = np.random.default_rng(3)
    corpus = corpus_of_documents([rng.integers(4, size=size) for size in (5, 4, 3)], 4)
    prior = topic_prior(corpus, 2, [0.7, 0.4], 0.3)
    states, probs = every_state(corpus, prior)

    def functionals(topic):
        theta, beta = posterior_means(counted(corpus, topic.astype(np.int32), 2), prior.alpha, prior.eta)
        return np.array([*theta[:, 0], *(theta @ beta)[:, 0], (theta[:, 0] * theta[:, 1]).sum()])

    wanted = probs @ np.array([functionals(state) for state in states])
    found = np.array([functionals(topic) for topic in run(corpus, prior, kernel, 20_000, between=5)])
    batches = found.reshape(40, 500, -1).mean(1)
    assert (np.abs(found.mean(0) - wanted) < 5.5 * batches.std(0, ddof=1) / np.sqrt(40)).all()


@pytest.mark.parametrize("K", [4, 40])
@pytest.mark.parametrize(("kernel", "kind"), CASES)
def test_geweke(kernel, kind, K):
    """Words drawn given topics and topics given words keep the prior: eight functionals, |z| below 5.5, 4e-8 false alarms each.

    Effective draws by batch means; the prior's own draws are independent. With forty topics `many_topics` has lists and rows.
    """
    rng = np.random.default_rng(11)
    starts, V = np.array([0, 6, 6, 10, 13]), 5 if K == 4 else 2
    prior = random_prior(rng, kind, Corpus(np.zeros(13, np.int32), starts, V), K)
    eta = np.broadcast_to(prior.eta, (K, V))

    def functionals(corpus, topic):
        counts = counted(corpus, topic, K)
        documents, words = (table.astype(float) for table in (counts.document_topic, counts.word_topic))
        squares = [(documents**2).sum(), (words**2).sum(), (counts.total.astype(float) ** 2).sum()]
        return [*squares, documents[0, 0], words[0, 1], (topic[:-1] == topic[1:]).sum(), topic.sum(), (topic % 8).sum()]

    fresh = np.array([functionals(*generated(rng, starts, V, prior)) for _ in range(4000)])
    corpus, topic = generated(rng, starts, V, prior)
    chain, kept = TopicChain(topic, start_chain(corpus, prior, 0).random), []
    for _ in range(8000):
        chain, _ = swept(corpus, prior, chain, 1, kernel)
        kept.append(functionals(corpus, chain.topic))
        beta = np.array([rng.dirichlet(row) for row in eta])
        corpus = corpus._replace(word=words_of(rng, chain.topic, beta))
    kept = np.array(kept)
    batches = kept.reshape(40, 200, -1).mean(1)
    error = np.sqrt(batches.var(0, ddof=1) / 40 + fresh.var(0) / len(fresh))
    assert (np.abs(kept.mean(0) - fresh.mean(0)) < 5.5 * error + 1e-12).all()


@pytest.mark.parametrize("K", [7, 310])
def test_one_seed_is_one_result_on_any_number_of_threads(K):
    """Chains differ from one another; sweeps in two calls are those of one."""
    rng = np.random.default_rng(0)
    corpus = random_corpus(rng, 30, 50, 60)
    prior = topic_prior(corpus, K, 0.1, 0.05)
    chains = [start_chain(corpus, prior, 4, chain) for chain in range(3)]
    assert kernel_for(prior) == ("few" if K == 7 else "many")
    one, two = (swept_chains(corpus, prior, chains, 6, threads) for threads in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert (a.topic == b.topic).all()
        assert (a.random == b.random).all()
    assert (one[0].topic != one[1].topic).any()
    if K == 7:  # that for many topics may keep a word's topics another way in the second call, and adds in another order
        split = swept_chains(corpus, prior, swept_chains(corpus, prior, chains, 2), 4)
        assert all((a.topic == b.topic).all() for a, b in zip(one, split, strict=True))


@cache
def bars():
    """1000 documents of 100 words about ten bars of 5 × 5 pictures (Griffiths and Steyvers, 2004)."""
    rng = np.random.default_rng(0)
    pictures = np.zeros((10, 5, 5))
    for line in range(5):
        pictures[line, line, :] = pictures[5 + line, :, line] = 0.2
    beta = pictures.reshape(10, 25)
    topic = np.concatenate([rng.choice(10, 100, p=rng.dirichlet(np.ones(10))) for _ in range(1000)])
    return Corpus(words_of(rng, topic, beta), np.arange(1001) * 100, 25), beta


@pytest.mark.parametrize("kernel", KERNELS)
def test_bars_are_recovered(kernel):
    """Each true bar within 0.1 total variation of a topic of its own, averaged over ten states."""
    corpus, beta = bars()
    prior = topic_prior(corpus, 10, 1.0, 1.0)
    chain, _ = swept(corpus, prior, start_chain(corpus, prior, 0), 300, kernel)
    found = 0
    for _ in range(10):
        chain, _ = swept(corpus, prior, chain, 10, kernel)
        found += posterior_means(counted(corpus, chain.topic, 10), prior.alpha, prior.eta)[1] / 10
    distance = np.abs(beta[:, None] - found).sum(-1) / 2
    assert (distance.min(1) < 0.1).all()
    assert len(set(distance.argmin(1))) == 10


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("documents", [[], [[]], [[], [0], []], [[0] * 30], [[1, 2, 0]]])
def test_small_corpora(kernel, documents):
    """No document, none with a word, one word, one token: sweeps end, counts are right, the joint is the naive one."""
    corpus = corpus_of_documents(documents, 3)
    for K in (1, 2, 40):
        prior = topic_prior(corpus, K, 0.1, 0.01)
        chain, _ = swept(corpus, prior, start_chain(corpus, prior, 1), 3, kernel)
        counts = counted(corpus, chain.topic, K)
        assert counts.total.sum() == len(corpus.word)
        if len(corpus.word):
            assert (chain.topic >= 0).all()
            assert (chain.topic < K).all()
            assert log_joint(corpus, chain.topic, prior) <= 0


def test_refusals():
    """What the sampler cannot take, in one message each."""
    corpus = corpus_of_counts(np.ones((2, 3)))
    for wrong in ({"alpha": 0.0}, {"alpha": [1.0]}, {"eta": -1.0}, {"eta": np.ones((3, 2))}, {"num_topics": 0}):
        with pytest.raises(ZooError):
            topic_prior(corpus, **({"num_topics": 2, "alpha": 1.0, "eta": 1.0} | wrong))
    for allowed in (np.ones((2, 3)), np.zeros((2, 2))):
        with pytest.raises(ZooError):
            topic_prior(corpus, 2, 1.0, 1.0, allowed)
    prior = topic_prior(corpus, 2, 1.0, np.ones((2, 3)))
    with pytest.raises(ZooError, match="number"):
        swept(corpus, prior, start_chain(corpus, prior, 0), 1, "many")


def test_compiled_where_no_folder_can_be_written(monkeypatch):
    """Numba refuses to cache then; the function is compiled all the same. Nothing of it is imported before it is needed."""
    from numba.core.caching import CompileResultCacheImpl

    from models.vectors import compiled

    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    assert compiled(lambda x: x + 1)(1) == 2
    code = "import models, models.token_sampler, models.tokens, sys; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
