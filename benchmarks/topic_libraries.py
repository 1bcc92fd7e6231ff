"""Corpora and libraries of the topic model's benchmarks: each library's collapsed Gibbs sampler behind one face."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from models.topics.sampling.chains import start_chain, swept, topic_prior
from models.topics.sampling.corpus import Corpus, TopicCounts, corpus_of_counts, counted
from models.topics.sampling.partially_collapsed import sharded_sweeps, start_sharded

ALPHA, ETA = 0.1, 0.01


class Run(NamedTuple):
    """A library's chain: sweeps on demand, and the counts it stands at."""

    sweep: Callable[[int], Any]
    counts: Callable[[], TopicCounts]


def reuters() -> Corpus:
    """395 stories of 1987, V = 4258."""
    import lda.datasets

    return corpus_of_counts(lda.datasets.load_reuters())


def generated(
    num_tokens: int = 10_000_000,
    length: int = 200,
    num_words: int = 20_000,
    num_topics: int = 100,
    lengths: np.ndarray | None = None,
) -> Corpus:
    """Documents of one length, or of ``lengths``, from the model itself; the mean of the topics follows Zipf's law.

    Words that never occur go.
    """
    rng = np.random.default_rng(0)
    lengths = np.full(num_tokens // length, length) if lengths is None else lengths
    starts = np.concatenate([[0], np.cumsum(lengths)])
    sums = rng.dirichlet(np.full(num_topics, 0.1), len(lengths)).cumsum(1)
    topic, u = np.empty(starts[-1], np.int32), rng.random(starts[-1])
    for own, first, end in zip(sums, starts[:-1], starts[1:], strict=True):
        topic[first:end] = np.minimum(np.searchsorted(own, u[first:end]), num_topics - 1)
    base, word = 1 / (np.arange(num_words) + 10.0), np.empty(starts[-1], np.int64)
    for k in range(num_topics):
        weights, own_tokens = rng.gamma(0.02 * num_words * base / base.sum() + 1e-3), topic == k
        word[own_tokens] = rng.choice(num_words, own_tokens.sum(), p=weights / weights.sum())
    used, codes = np.unique(word, return_inverse=True)
    return Corpus(codes.astype(np.int32), starts, len(used))


def zoo(corpus: Corpus, num_topics: int, seed: int = 1, kernel: str | None = None) -> Run:
    """The zoo's chain."""
    prior = topic_prior(corpus, num_topics, ALPHA, ETA)
    chain = [start_chain(corpus, prior, seed)]

    def sweep(number: int) -> None:
        chain[0], _ = swept(corpus, prior, chain[0], number, kernel)

    return Run(sweep, lambda: counted(corpus, chain[0].topic, num_topics))


def sharded(corpus: Corpus, num_topics: int, seed: int = 1, num_threads: int = 1) -> Run:
    """The zoo's partially collapsed chain."""
    prior = topic_prior(corpus, num_topics, ALPHA, ETA)
    chain = [start_sharded(corpus, prior, seed)]

    def sweep(number: int) -> None:
        chain[0] = sharded_sweeps(corpus, prior, chain[0], number, num_threads)

    return Run(sweep, lambda: counted(corpus, chain[0].topic, num_topics))


def tomotopy(corpus: Corpus, num_topics: int, seed: int = 1) -> Run:
    """Tomotopy's, with one worker and without its optimisation of hyperparameters."""
    import tomotopy as tp

    model = tp.LDAModel(k=num_topics, alpha=ALPHA, eta=ETA, seed=seed)
    names = np.array([str(v) for v in range(corpus.num_words)], dtype=object)
    for begin, end in zip(corpus.starts[:-1], corpus.starts[1:], strict=True):
        model.add_doc(list(names[corpus.word[begin:end]]))
    model.optim_interval = model.burn_in = 0

    def counts() -> TopicCounts:
        topic = np.concatenate([np.asarray(document.topics) for document in model.docs]).astype(np.int32)
        codes = np.concatenate([np.asarray(document.words) for document in model.docs]).astype(np.int32)
        return counted(corpus._replace(word=codes), topic, num_topics)

    return Run(lambda number: model.train(number, workers=1, parallel=tp.ParallelScheme.NONE), counts)


def lda(corpus: Corpus, num_topics: int, seed: int = 1) -> Run:
    """The package ``lda``, its sweeps without the log-likelihood that it computes between them."""
    from lda import LDA

    logging.getLogger("lda").setLevel(logging.ERROR)
    model = LDA(n_topics=num_topics, alpha=ALPHA, eta=ETA, random_state=seed)
    table = np.zeros((corpus.num_documents, corpus.num_words), np.intc)
    np.add.at(table, (np.repeat(np.arange(corpus.num_documents), np.diff(corpus.starts)), corpus.word), 1)
    model._initialize(table)
    numbers, rng = model._rands.copy(), np.random.default_rng(seed)

    def sweep(number: int) -> None:
        for _ in range(number):
            rng.shuffle(numbers)  # as its own loop does
            model._sample_topics(numbers)

    return Run(sweep, lambda: TopicCounts(np.zeros(0), model.ndz_, model.nzw_.T, model.nz_.astype(np.int64)))


PEERS: Mapping[str, Callable[..., Run]] = {"tomotopy": tomotopy, "lda": lda}
