"""Collapsed Gibbs sampling of `models.latent_dirichlet`, as `models.abilities.Collapsed`.

`models.topics.sampling.chains` does the sampling; this file translates rows and hyperparameters.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from models.abilities import Collapsed, Sampler
from models.base import Hyper, Sites, Stats
from models.topics.documents import Documents
from models.topics.sampling.chains import TopicChain, TopicPrior, start_chain, swept, topic_prior
from models.topics.sampling.corpus import (
    Corpus,
    TopicCounts,
    counted,
    fitted_concentration,
    log_dirichlet,
    log_joint,
    posterior_draws,
    probabilities,
)
from models.topics.sampling.partially_collapsed import sharded_sweeps, start_sharded

TOPIC, WORD = "topic_probs", "word_probs"
CONCENTRATION = {TOPIC: "topic_concentration", WORD: "word_concentration"}
ROUNDS = 5  # iterations of the fixed point per update of the concentrations


def corpus_of(rows: Documents, num_words: int) -> Corpus:
    """The tokens of documents, concatenated; documents of weight 0 are left out."""
    times = np.asarray(rows.tokens.times)
    if rows.weight is not None:
        times = times * (np.asarray(rows.weight) > 0)[:, None]
    there = times > 0
    starts = np.concatenate([[0], np.cumsum(there.sum(1))])
    return Corpus(np.asarray(rows.tokens.word)[there].astype(np.int32), starts.astype(np.int64), num_words)


def prior_of(hyper: Hyper, rows: Documents, corpus: Corpus) -> TopicPrior:
    """Concentrations for the kernels; equal word concentrations become one number."""
    alpha, eta = (np.asarray(hyper[name], dtype=float) for name in CONCENTRATION.values())
    allowed_topics = None if rows.allowed_topics is None else np.asarray(rows.allowed_topics)
    alike = np.ptp(eta) == 0
    return topic_prior(corpus, len(alpha), alpha, eta.flat[0] if alike else eta, allowed_topics)


def sampler(hyper: Hyper, rows: Documents) -> Sampler:
    """Collapsed Gibbs sampler of the topics of all tokens."""
    corpus, prior = _given(hyper, rows)
    return _sampler(corpus, prior, rows, start_chain, lambda chain, sweeps: swept(corpus, prior, chain, sweeps)[0])


def by_documents(hyper: Hyper, rows: Documents, num_threads: int) -> Sampler:
    """Partially collapsed sampler: only proportions are integrated out (`models.topics.sampling.partially_collapsed`)."""
    corpus, prior = _given(hyper, rows)
    return _sampler(corpus, prior, rows, start_sharded, partial(sharded_sweeps, corpus, prior, num_threads=num_threads))


def _given(hyper: Hyper, rows: Documents) -> tuple[Corpus, TopicPrior]:
    corpus = corpus_of(rows, np.shape(hyper[CONCENTRATION[WORD]])[1])
    return corpus, prior_of(hyper, rows, corpus)


def _sampler(corpus: Corpus, prior: TopicPrior, rows: Documents, begin: Callable[..., Any], advance: Any) -> Sampler:
    carrier = float(np.sum(rows.carrier * (1.0 if rows.weight is None else np.asarray(rows.weight))))
    return Sampler(
        start=partial(_start, corpus, prior, begin),
        advance=advance,
        log_joint=lambda chain: float(carrier) + log_joint(_counts(corpus, prior, chain), prior.alpha, prior.eta),
        latents=lambda chain: np.asarray(chain.topic),
        sites=partial(_sites, corpus, prior),
        learnt=partial(_learnt, corpus, prior),
    )


def _start(
    corpus: Corpus, prior: TopicPrior, begin: Callable[..., Any], seed: int, chain: int, sites: Sites | None = None
) -> Any:
    """Draw initial topics from the prior means, or from the proportions and word probabilities of ``sites``."""
    begun = begin(corpus, prior, seed, chain)
    if sites is None:
        return begun
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chain, 3)))
    topic = np.empty_like(begun.topic)
    proportions, words = np.asarray(sites[TOPIC], float), np.asarray(sites[WORD], float)
    proportions = proportions if prior.allowed_topics is None else np.where(prior.allowed_topics, proportions, 0.0)
    for d, (first, last) in enumerate(zip(corpus.starts[:-1], corpus.starts[1:], strict=True)):
        sums = (proportions[d][:, None] * words[:, corpus.word[first:last]]).cumsum(0)
        drawn = (sums <= rng.random(last - first) * sums[-1]).sum(0)
        topic[first:last] = np.where(sums[-1] > 0, np.minimum(drawn, len(proportions[d]) - 1), begun.topic[first:last])
    return begun._replace(topic=topic)


def _sites(
    corpus: Corpus, prior: TopicPrior, rng: np.random.Generator, chain: TopicChain
) -> tuple[dict[str, np.ndarray], float]:
    """Draw proportions and word probabilities given the topics, which are Dirichlet; and their log prior density.

    Proportions are over all topics, as in the program, even if a document is restricted to some.
    """
    logs = dict(zip((TOPIC, WORD), posterior_draws(rng, _counts(corpus, prior, chain), prior.alpha, prior.eta), strict=True))
    density = log_dirichlet(logs[TOPIC], prior.alpha) + log_dirichlet(logs[WORD], prior.eta)
    return {name: probabilities(value) for name, value in logs.items()}, density


def _counts(corpus: Corpus, prior: TopicPrior, chain: TopicChain) -> TopicCounts:
    return counted(corpus, chain.topic, len(prior.alpha))


def _learnt(
    corpus: Corpus, prior: TopicPrior, chains: Sequence[TopicChain], asymmetric: bool
) -> tuple[dict[str, np.ndarray], list[TopicChain]]:
    """Maximum-likelihood concentrations given the topics of all chains, and the chains with topics in the same order.

    The word concentration is one number, as recommended by Wallach, Mimno and McCallum (2009); it stays as given if words or
    topics differ a priori, as with seeds. With ``asymmetric`` each topic has a concentration, and topics are matched between
    chains, unless the prior distinguishes them. The method takes no labels: it would treat them as random.
    """
    free = prior.eta.ndim == 0 or not np.ptp(prior.eta, axis=0).any()
    chains = _aligned(corpus, len(prior.alpha), chains) if asymmetric and free else list(chains)
    counts = [counted(corpus, chain.topic, len(prior.alpha)) for chain in chains]
    documents = np.concatenate([each.document_topic for each in counts])
    alpha = fitted_concentration(documents, prior.alpha, not asymmetric, max_iter=ROUNDS)
    eta = prior.eta
    if eta.ndim == 0:
        words = np.concatenate([each.word_topic.T for each in counts])
        eta = np.tile(fitted_concentration(words, eta, True, max_iter=ROUNDS), (len(prior.alpha), 1))
    return {CONCENTRATION[TOPIC]: alpha, CONCENTRATION[WORD]: eta}, chains


def _aligned(corpus: Corpus, num_topics: int, chains: Sequence[TopicChain]) -> list[TopicChain]:
    """Reorder the topics of each chain to match the first chain, by the tokens that they share."""
    from scipy.optimize import linear_sum_assignment  # slow to import, and few runs match topics

    chains_aligned = [chains[0]]
    for chain in chains[1:]:
        shared = np.zeros((num_topics, num_topics))
        np.add.at(shared, (chains[0].topic, chain.topic), 1)
        theirs, order = linear_sum_assignment(-shared.T)
        chains_aligned.append(chain._replace(topic=order[np.argsort(theirs)][chain.topic].astype(np.int32)))
    return chains_aligned


def prior_statistics(hyper: Hyper, like: Mapping[str, Stats]) -> dict[str, Stats]:
    """The prior as pseudo-statistics, with the shapes of ``like``."""
    return {name: np.broadcast_to(np.asarray(hyper[CONCENTRATION[name]]) - 1, np.shape(like[name])).copy() for name in like}


COLLAPSED = Collapsed(sampler=sampler, by_rows=by_documents, prior=prior_statistics)
