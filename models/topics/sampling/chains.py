"""Collapsed Gibbs sampling of topics: choice of the compiled kernel, reproducible chains, parallel chains.

A chain consists of its topics and the state of its random number generator. It can be stored and resumed, and the result does
not depend on the number of threads. Both kernels (`models.topics.sampling.dense_sampler.few_topics`,
`models.topics.sampling.sparse_sampler.many_topics`) draw each token from its exact conditional and differ only in speed; the
number of topics decides, by measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from models.errors import ZooError
from models.topics.sampling.corpus import Corpus

FEW = 300  # largest number of topics for the dense kernel: `python -m benchmarks latent_dirichlet kernels`


class TopicPrior(NamedTuple):
    """Dirichlet concentrations of topics and words, and which topics a document may have."""

    alpha: np.ndarray  # (K,)
    eta: np.ndarray  # (), the same for every word and topic, or (K, V)
    allowed_topics: np.ndarray | None = None  # (M, K) of bool; None: all of them


class TopicChain(NamedTuple):
    """The topic of every token and the state of the random numbers."""

    topic: np.ndarray  # (T,) int32
    random: np.ndarray  # (4,) uint64


def topic_prior(corpus: Corpus, num_topics: int, alpha: Any, eta: Any, allowed_topics: Any = None) -> TopicPrior:
    """Concentrations in their shapes: ``alpha`` a number or (K,), ``eta`` a number or (K, V), ``allowed_topics``
    (M, K) or None.

    Raises `ZooError` for wrong shapes, concentrations that are not positive and finite, and documents without allowed topics.
    """
    if num_topics < 1:
        raise ZooError(f"num_topics={num_topics}: there must be at least one topic")
    shapes = {"alpha": ((), (num_topics,)), "eta": ((), (num_topics, corpus.num_words))}
    for name, value in {"alpha": np.asarray(alpha, dtype=float), "eta": np.asarray(eta, dtype=float)}.items():
        if value.shape not in shapes[name]:
            raise ZooError(f"{name} has shape {value.shape}; it may be a number or of shape {shapes[name][1]}")
        if not (np.isfinite(value) & (value > 0)).all():
            raise ZooError(f"{name} must be positive everywhere: it is the concentration of a Dirichlet distribution")
    if allowed_topics is not None:
        allowed_topics = np.asarray(allowed_topics, dtype=bool)
        if allowed_topics.shape != (corpus.num_documents, num_topics):
            raise ZooError(f"allowed_topics has shape {allowed_topics.shape}, not {(corpus.num_documents, num_topics)}")
        closed = ~allowed_topics.any(1) & (np.diff(corpus.starts) > 0)
        if closed.any():
            raise ZooError(f"document {closed.argmax()} has no allowed topic")
    wide = np.broadcast_to(np.asarray(alpha, dtype=float), (num_topics,)).copy()
    return TopicPrior(wide, np.asarray(eta, dtype=float), allowed_topics)


def start_chain(corpus: Corpus, prior: TopicPrior, seed: int, chain: int = 0) -> TopicChain:
    """Draw initial topics from the prior means; random numbers depend only on seed and chain."""
    states, topics = np.random.SeedSequence(seed, spawn_key=(chain,)).spawn(2)
    rng = np.random.default_rng(topics)
    if prior.allowed_topics is None:
        topic = _picked(rng, prior.alpha, len(corpus.word))
    else:
        lengths = np.diff(corpus.starts)
        weights = (np.where(row, prior.alpha, 0.0) for row in prior.allowed_topics)
        rows = [_picked(rng, row, size) for row, size in zip(weights, lengths, strict=True) if size]
        topic = np.concatenate([*rows, np.zeros(0, np.int64)])
    return TopicChain(topic.astype(np.int32), states.generate_state(4, np.uint64))


def _picked(rng: np.random.Generator, weights: np.ndarray, size: int) -> np.ndarray:
    """Draw indices with probability proportional to weight; never one of weight 0."""
    sums = weights.cumsum()
    return np.minimum(np.searchsorted(sums, rng.random(size) * sums[-1], side="right"), np.flatnonzero(weights)[-1])


def kernel_for(prior: TopicPrior) -> str:
    """``many`` above 300 topics if all words have the same η, otherwise ``few``."""
    return "many" if len(prior.alpha) > FEW and prior.eta.ndim == 0 else "few"


def swept(
    corpus: Corpus, prior: TopicPrior, chain: TopicChain, sweeps: int, kernel: str | None = None
) -> tuple[TopicChain, np.ndarray]:
    """The chain after some sweeps, and the weights (K,) from which its last token was last drawn. Releases the GIL.

    Tables of counts are rebuilt in every call, which costs at most a tenth of a sweep: run several sweeps per call.
    """
    from models.topics.sampling.dense_sampler import few_topics
    from models.topics.sampling.sparse_sampler import many_topics

    topic, random = chain.topic.copy(), chain.random.copy()
    allowed_topics = np.zeros((0, 0), bool) if prior.allowed_topics is None else prior.allowed_topics
    if (kernel or kernel_for(prior)) == "many":
        if prior.eta.ndim:
            raise ZooError("the kernel for many topics needs a single word concentration")
        weights = many_topics(*corpus, topic, prior.alpha, float(prior.eta), allowed_topics, random, sweeps)
    else:
        eta = np.full((1, len(prior.alpha)), prior.eta) if prior.eta.ndim == 0 else np.ascontiguousarray(prior.eta.T)
        total = eta[0] * corpus.num_words if prior.eta.ndim == 0 else prior.eta.sum(1)
        weights = few_topics(*corpus, topic, prior.alpha, eta, total, allowed_topics, random, sweeps)
    return TopicChain(topic, random), weights


def swept_chains(
    corpus: Corpus, prior: TopicPrior, chains: Sequence[TopicChain], sweeps: int, num_threads: int = 1
) -> list[TopicChain]:
    """Run sweeps of all chains on several threads; the result does not depend on their number."""
    run = partial(swept, corpus, prior, sweeps=sweeps)
    if num_threads == 1 or len(chains) == 1:
        return [run(chain)[0] for chain in chains]
    with ThreadPoolExecutor(num_threads) as pool:
        return [chain for chain, _ in pool.map(run, chains)]
