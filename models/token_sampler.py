"""Collapsed Gibbs sampling of topics: which compiled kernel, reproducible chains, several of them on several cores.

A chain is its topics and the state of its random numbers, nothing else: it can be stored and taken up again, and gives the same
result however many threads run. Each token is drawn from its exact conditional (`few_topics`, `many_topics`), so the kernels
differ in speed alone, and the rule between them is one number of topics, measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from models.data import ZooError
from models.tokens import Corpus

FEW = 300  # topics up to which all are computed: `python -m benchmarks latent_dirichlet kernels`


class TopicPrior(NamedTuple):
    """Dirichlet concentrations of topics and words, and which topics a document may have."""

    alpha: np.ndarray  # (K,)
    eta: np.ndarray  # (), the same for every word and topic, or (K, V)
    allowed: np.ndarray | None = None  # (M, K) of bool; None: all of them


class TopicChain(NamedTuple):
    """The topic of every token and the state of the random numbers."""

    topic: np.ndarray  # (T,) int32
    random: np.ndarray  # (4,) uint64


def topic_prior(corpus: Corpus, num_topics: int, alpha: Any, eta: Any, allowed: Any = None) -> TopicPrior:
    """Concentrations in their shapes: ``alpha`` a number or (K,), ``eta`` a number or (K, V), ``allowed`` (M, K) or None.

    Raises `ZooError` for other shapes, concentrations that are not positive and finite, and documents that may have no topic.
    """
    if num_topics < 1:
        raise ZooError(f"num_topics={num_topics}: there must be a topic at least")
    shapes = {"alpha": ((), (num_topics,)), "eta": ((), (num_topics, corpus.num_words))}
    for name, value in {"alpha": np.asarray(alpha, dtype=float), "eta": np.asarray(eta, dtype=float)}.items():
        if value.shape not in shapes[name]:
            raise ZooError(f"{name} has shape {value.shape}; it may be a number or of shape {shapes[name][1]}")
        if not (np.isfinite(value) & (value > 0)).all():
            raise ZooError(f"{name} must be positive everywhere: it is the concentration of a Dirichlet distribution")
    if allowed is not None:
        allowed = np.asarray(allowed, dtype=bool)
        if allowed.shape != (corpus.num_documents, num_topics):
            raise ZooError(f"allowed has shape {allowed.shape}, not {(corpus.num_documents, num_topics)}")
        closed = ~allowed.any(1) & (np.diff(corpus.starts) > 0)
        if closed.any():
            raise ZooError(f"document {closed.argmax()} may have no topic at all")
    wide = np.broadcast_to(np.asarray(alpha, dtype=float), (num_topics,)).copy()
    return TopicPrior(wide, np.asarray(eta, dtype=float), allowed)


def start_chain(corpus: Corpus, prior: TopicPrior, seed: int, chain: int = 0) -> TopicChain:
    """Topics drawn for every token by itself from the prior's means, and random numbers of this seed and chain alone."""
    states, topics = np.random.SeedSequence(seed, spawn_key=(chain,)).spawn(2)
    rng = np.random.default_rng(topics)
    if prior.allowed is None:
        topic = _picked(rng, prior.alpha, len(corpus.word))
    else:
        lengths = np.diff(corpus.starts)
        weights = (np.where(row, prior.alpha, 0.0) for row in prior.allowed)
        rows = [_picked(rng, row, size) for row, size in zip(weights, lengths, strict=True) if size]
        topic = np.concatenate([*rows, np.zeros(0, np.int64)])
    return TopicChain(topic.astype(np.int32), states.generate_state(4, np.uint64))


def _picked(rng: np.random.Generator, weights: np.ndarray, size: int) -> np.ndarray:
    """Places drawn by weight; never one of weight 0."""
    sums = weights.cumsum()
    return np.minimum(np.searchsorted(sums, rng.random(size) * sums[-1], side="right"), np.flatnonzero(weights)[-1])


def kernel_for(prior: TopicPrior) -> str:
    """``many`` above 300 topics where all words have one η, ``few`` otherwise."""
    return "many" if len(prior.alpha) > FEW and prior.eta.ndim == 0 else "few"


def swept(
    corpus: Corpus, prior: TopicPrior, chain: TopicChain, sweeps: int, kernel: str | None = None
) -> tuple[TopicChain, np.ndarray]:
    """The chain after some sweeps, and the weights (K,) from which its last token was last drawn. Releases the GIL.

    Tables of counts are made anew for every call, which costs a tenth of a sweep at most: ask for several sweeps at once.
    """
    from models.few_topics import few_topics
    from models.many_topics import many_topics

    topic, random = chain.topic.copy(), chain.random.copy()
    allowed = np.zeros((0, 0), bool) if prior.allowed is None else prior.allowed
    if (kernel or kernel_for(prior)) == "many":
        if prior.eta.ndim:
            raise ZooError("the kernel for many topics needs one word concentration, a number")
        weights = many_topics(*corpus, topic, prior.alpha, float(prior.eta), allowed, random, sweeps)
    else:
        eta = np.full((1, len(prior.alpha)), prior.eta) if prior.eta.ndim == 0 else np.ascontiguousarray(prior.eta.T)
        total = eta[0] * corpus.num_words if prior.eta.ndim == 0 else prior.eta.sum(1)
        weights = few_topics(*corpus, topic, prior.alpha, eta, total, allowed, random, sweeps)
    return TopicChain(topic, random), weights


def swept_chains(
    corpus: Corpus, prior: TopicPrior, chains: Sequence[TopicChain], sweeps: int, num_threads: int = 1
) -> list[TopicChain]:
    """Every chain after some sweeps, on several threads; the result does not depend on how many."""
    run = partial(swept, corpus, prior, sweeps=sweeps)
    if num_threads == 1 or len(chains) == 1:
        return [run(chain)[0] for chain in chains]
    with ThreadPoolExecutor(num_threads) as pool:
        return [chain for chain, _ in pool.map(run, chains)]
