"""The topic model computed the slow way: from the formula, from all assignments, from the generative story."""

import itertools

import numpy as np
from scipy.special import gammaln

from models.tokens import Corpus, document_of


def log_dirichlet_multinomial(counts, concentration):
    """Log probability of one sequence of outcomes with these counts (C,); outcomes of concentration 0 never occur."""
    open_cells = concentration > 0
    counts, concentration = counts[open_cells], concentration[open_cells]
    rises = gammaln(concentration + counts) - gammaln(concentration)
    return rises.sum() + gammaln(concentration.sum()) - gammaln(concentration.sum() + counts.sum())


def log_joint(corpus, topic, prior):
    """Log p(w, z): one term a document and one a topic, from counts made token by token."""
    K, V = len(prior.alpha), corpus.num_words
    documents, words = np.zeros((corpus.num_documents, K)), np.zeros((K, V))
    for d, v, k in zip(document_of(corpus), corpus.word, topic, strict=True):
        documents[d, k] += 1
        words[k, v] += 1
    allowed = np.ones_like(documents, dtype=bool) if prior.allowed is None else prior.allowed
    eta = np.broadcast_to(prior.eta, (K, V))
    total = sum(
        log_dirichlet_multinomial(row, np.where(allowed[d], prior.alpha, 0.0)) for d, row in enumerate(documents) if row.any()
    )
    return total + sum(log_dirichlet_multinomial(words[k], eta[k]) for k in range(K))


def conditional(corpus, topic, place, prior):
    """p(z = k | all other topics, w) of one token, by ratios of the joint."""
    logs = np.full(len(prior.alpha), -np.inf)
    for k in range(len(prior.alpha)):
        if prior.allowed is None or prior.allowed[document_of(corpus)[place], k]:
            changed = topic.copy()
            changed[place] = k
            logs[k] = log_joint(corpus, changed, prior)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def every_state(corpus, prior):
    """All topics of all tokens (S, T) and their probabilities given the words (S,)."""
    states = np.array(list(itertools.product(range(len(prior.alpha)), repeat=len(corpus.word))))
    of = document_of(corpus)
    if prior.allowed is not None:
        states = states[prior.allowed[of, states].all(1)]
    logs = np.array([log_joint(corpus, state, prior) for state in states])
    weights = np.exp(logs - logs.max())
    return states, weights / weights.sum()


def generated(rng, starts, num_words, prior):
    """A corpus and its topics from the prior, as the model tells it."""
    K = len(prior.alpha)
    beta = np.array([rng.dirichlet(row) for row in np.broadcast_to(prior.eta, (K, num_words))])
    topic = np.zeros(starts[-1], np.int32)
    for d in range(len(starts) - 1):
        own = np.flatnonzero(np.ones(K, bool) if prior.allowed is None else prior.allowed[d])
        size = starts[d + 1] - starts[d]
        topic[starts[d] : starts[d + 1]] = rng.choice(own, size, p=rng.dirichlet(prior.alpha[own]))
    return Corpus(words_of(rng, topic, beta), np.asarray(starts), num_words), topic


def words_of(rng, topic, beta):
    """A word for every topic."""
    places = (beta.cumsum(1)[topic] < rng.random(len(topic))[:, None]).sum(1)
    return np.minimum(places, beta.shape[1] - 1).astype(np.int32)
