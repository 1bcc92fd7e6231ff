"""Collapsed Gibbs sampling of topics: each kernel against the joint, against all states, and against the prior it samples."""

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
    """Concentrations of all sizes; ``large``: α far above η V, where a token more may lower its topic's weight."""
    alpha = {"symmetric": 0.3, "large": 50.0}.get(kind, rng.gamma(1.0, size=K) + 0.01)
    eta = rng.gamma(1.0, size=(K, corpus.num_words)) + 0.01 if kind == "words" else {"large": 0.001}.get(kind, 0.05)
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
