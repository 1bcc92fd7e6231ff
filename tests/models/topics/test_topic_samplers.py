"""What every sampler of topics must fulfil: all states, posterior means, the prior that it keeps, and the bars."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from naive_topics import PRIORS, every_state, generated, posterior_means, random_prior, words_of
from release import some
from two_stage import assert_standard_normal, of_batch_means, of_frequencies

from models.topics.sampling.chains import start_chain, swept, topic_prior
from models.topics.sampling.corpus import Corpus, corpus_of_documents, counted
from models.topics.sampling.partially_collapsed import sharded_sweeps, start_sharded


class Sampler(NamedTuple):
    start: Callable[..., Any]  # (corpus, prior, seed) -> chain
    advance: Callable[..., Any]  # (corpus, prior, chain, sweeps) -> chain
    kinds: tuple[str, ...]  # of priors
    all_states: tuple[int, int]  # draws, and how many sweeps apart they count as independent
    means: int  # draws


def of_kernel(kernel, kinds):
    return Sampler(start_chain, lambda *where: swept(*where, kernel)[0], kinds, (12_000, 20), 12_000)


SAMPLERS = {
    "few": of_kernel("few", PRIORS),
    "many": of_kernel("many", tuple(kind for kind in PRIORS if kind != "words")),
    "sharded": Sampler(start_sharded, sharded_sweeps, PRIORS, (2000, 10), 5000),
}
CASES = [(name, kind) for name, sampler in SAMPLERS.items() for kind in sampler.kinds]
WIDE = [(name, kind) for name, kind in CASES if name != "sharded"]  # forty topics are another way of their kernels
every_sampler = pytest.mark.parametrize("name", SAMPLERS)


def drawn(sampler, corpus, prior, draws, apart, seed):
    """Topics (draws, T), after fifty sweeps."""
    chain = sampler.advance(corpus, prior, sampler.start(corpus, prior, seed), 50)
    found = np.empty((draws, len(corpus.word)), np.int32)
    for draw in range(draws):
        chain = sampler.advance(corpus, prior, chain, apart)
        found[draw] = chain.topic
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "documents", "K"),
    [(*case, ((0, 1, 1), (), (2, 0)), 3) for case in CASES]
    + [(*case, ((0, 1),), 40) for case in WIDE if case[1] in ("asymmetric", "allowed")],
)
def test_frequencies_of_all_states(name, kind, documents, K):
    """Every one of K^T states as often as its probability says, by a χ² test; rare states together.

    Draws so far apart count as independent here, where topics hardly stick. With three topics the kernel for many keeps rows,
    with forty lists, and that for few searches in its two ways.
    """
    corpus, sampler = corpus_of_documents(documents, 4), SAMPLERS[name]
    prior = random_prior(np.random.default_rng(5), kind, corpus, K)
    states, probs = every_state(corpus, prior)
    places = {tuple(state): index for index, state in enumerate(states)}
    order, (size, apart) = np.argsort(probs), sampler.all_states
    pooled = (np.cumsum(probs[order] * size) // 20).astype(int)  # groups of at least about twenty expected draws

    def deviations(seed, times):
        draws = drawn(sampler, corpus, prior, size * times, apart, seed)
        found = np.bincount([places[tuple(draw)] for draw in draws], minlength=len(states))
        return of_frequencies(*(np.bincount(pooled, values[order]) for values in (found, probs)))

    assert_standard_normal(deviations)


@pytest.mark.slow
@every_sampler
def test_posterior_means_of_an_enumerated_corpus(name):
    """E[θ | w] over all 2¹² states, functionals free of labels."""
    rng, sampler = np.random.default_rng(3), SAMPLERS[name]
    corpus = corpus_of_documents([rng.integers(4, size=size) for size in (5, 4, 3)], 4)
    prior = topic_prior(corpus, 2, [0.7, 0.4], 0.3)
    states, probs = every_state(corpus, prior)

    def functionals(topic):
        theta, beta = posterior_means(counted(corpus, topic.astype(np.int32), 2), prior)
        return np.array([*theta[:, 0], *(theta @ beta)[:, 0], (theta[:, 0] * theta[:, 1]).sum()])

    wanted = probs @ np.array([functionals(state) for state in states])

    def deviations(seed, times):
        draws = drawn(sampler, corpus, prior, sampler.means * times, 5, seed)
        return of_batch_means([functionals(topic) for topic in draws], wanted)

    assert_standard_normal(deviations)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "K", "V"), some([(*case, 4, 5) for case in CASES] + [(*case, 40, 2) for case in WIDE])
)
def test_geweke(name, kind, K, V):
    """Words drawn given topics and topics given words keep the prior (Geweke, 2004).

    Errors are by batch means; the prior's own draws are independent.
    """
    rng, starts, sampler = np.random.default_rng(11), np.array([0, 6, 6, 10, 13]), SAMPLERS[name]
    prior = random_prior(rng, kind, Corpus(np.zeros(13, np.int32), starts, V), K)
    eta = np.broadcast_to(prior.eta, (K, V))

    def functionals(corpus, topic):
        counts = counted(corpus, topic, K)
        documents, words = (table.astype(float) for table in (counts.document_topic, counts.word_topic))
        squares = [(documents**2).sum(), (words**2).sum(), (counts.total.astype(float) ** 2).sum()]
        return [*squares, documents[0, 0], words[0, 1], (topic[:-1] == topic[1:]).sum(), topic.sum(), (topic % 8).sum()]

    def deviations(seed, times):
        rng = np.random.default_rng(seed)
        fresh = np.array([functionals(*generated(rng, starts, V, prior)) for _ in range(4000 * times)])
        corpus, topic = generated(rng, starts, V, prior)
        chain, kept = sampler.start(corpus, prior, seed)._replace(topic=topic), []
        for _ in range(6000 * times):
            chain = sampler.advance(corpus, prior, chain, 1)
            kept.append(functionals(corpus, chain.topic))
            beta = np.array([rng.dirichlet(row) for row in eta])
            corpus = corpus._replace(word=words_of(rng, chain.topic, beta))
        return of_batch_means(kept, fresh.mean(0), fresh.std(0) / np.sqrt(len(fresh)))

    assert_standard_normal(deviations)


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


@pytest.mark.slow
@every_sampler
def test_bars_are_recovered(name):
    """Each true bar within 0.1 total variation of a topic of its own, averaged over ten states."""
    (corpus, beta), sampler = bars(), SAMPLERS[name]
    prior = topic_prior(corpus, 10, 1.0, 1.0)
    chain, found = sampler.advance(corpus, prior, sampler.start(corpus, prior, 0), 300), 0
    for _ in range(10):
        chain = sampler.advance(corpus, prior, chain, 10)
        found += posterior_means(counted(corpus, chain.topic, 10), prior)[1] / 10
    distance = np.abs(beta[:, None] - found).sum(-1) / 2
    assert (distance.min(1) < 0.1).all()
    assert len(set(distance.argmin(1))) == 10
