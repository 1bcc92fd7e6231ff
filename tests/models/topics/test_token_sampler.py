"""Collapsed Gibbs sampling of topics: each kernel against the joint, against all states, and against the prior it samples."""

import subprocess
import sys

import numpy as np
import pytest
from naive_topics import (
    PRIORS,
    conditional,
    document_of,
    log_joint,
    random_corpus,
    random_prior,
    recounted,
)

from models.data import ZooError
from models.topics.sampling.chains import kernel_for, start_chain, swept, swept_chains, topic_prior
from models.topics.sampling.corpus import corpus_of_counts, corpus_of_documents, counted

KERNELS = ("few", "many")
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
        if prior.allowed_topics is not None:
            assert prior.allowed_topics[document_of(corpus), chain.topic].all()
        counts = counted(corpus, chain.topic, K)
        for found, fresh in zip(counts, recounted(corpus, counts), strict=True):
            assert (found == fresh).all()


SMALL = [(kernel, kind, ((0, 1, 1), (), (2, 0)), 3) for kernel, kind in CASES]
WIDE = [(kernel, kind, ((0, 1),), 40) for kernel, kind in CASES if kind in ("asymmetric", "allowed")]


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
    with pytest.raises(ZooError, match="single word concentration"):
        swept(corpus, prior, start_chain(corpus, prior, 0), 1, "many")


def test_compiled_where_no_folder_can_be_written(monkeypatch):
    """Numba refuses to cache then; the function is compiled all the same. Nothing of it is imported before it is needed."""
    from numba.core.caching import CompileResultCacheImpl

    from models.host.compilation import compiled

    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    assert compiled(lambda x: x + 1)(1) == 2
    code = "import models, models.topics.sampling.chains, models.topics.sampling.corpus, sys; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_topics_of_every_block_are_drawn_alike():
    """A document of words that occur once: its topics come from sums over blocks of 32 topics, which follow every token.

    All topics are alike, so that half of the tokens have one of the last 32 topics. Were topics drawn once for all from a
    Dirichlet(1), that share would be Beta(32, 32), with a deviation of 0.062. Here it is smaller, as a topic with many tokens
    becomes less likely for further words. The mean of 20 chains is within five deviations.
    """
    K, length = 64, 300
    corpus = corpus_of_documents([list(range(length))], length)
    prior = topic_prior(corpus, K, 1.0, 1.0)
    chains = [swept(corpus, prior, start_chain(corpus, prior, 0, chain), 2, "many")[0] for chain in range(20)]
    share = np.mean([chain.topic >= K // 2 for chain in chains])
    assert abs(share - 0.5) < 5 * 0.062 / np.sqrt(20)
