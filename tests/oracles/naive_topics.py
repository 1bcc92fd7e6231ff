"""The topic model computed the slow way: from the formula, from all assignments, from the generative story."""

import itertools

import numpy as np
from scipy.special import gammaln

from models.topics.sampling.chains import topic_prior
from models.topics.sampling.corpus import Corpus, TopicCounts, corpus_of_documents

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


def document_of(corpus):
    """The document of every token (T,)."""
    return np.repeat(np.arange(corpus.num_documents), np.diff(corpus.starts))


def recounted(corpus, counts):
    """The counts afresh, by NumPy alone: equal to what was given, if that was right."""
    fresh = TopicCounts(counts.topic, *(np.zeros_like(table) for table in counts[1:]))
    np.add.at(fresh.document_topic, (document_of(corpus), counts.topic), 1)
    np.add.at(fresh.word_topic, (corpus.word, counts.topic), 1)
    np.add.at(fresh.total, counts.topic, 1)
    return fresh


def posterior_means(counts, prior):
    """E[θ | z] (M, K) and E[β | z, w] (K, V)."""
    documents, words = counts.document_topic + prior.alpha, counts.word_topic.T + prior.eta
    return documents / documents.sum(1, keepdims=True), words / words.sum(1, keepdims=True)


def log_dirichlet_multinomial(counts, concentration):
    """Log probability of one sequence of outcomes with these counts (C,)."""
    rises = gammaln(concentration + counts) - gammaln(concentration)
    return rises.sum() + gammaln(concentration.sum()) - gammaln(concentration.sum() + counts.sum())


def log_joint(corpus, topic, prior):
    """Log p(w, z): one term a document and one a topic, from counts made token by token. θ may be of any topic."""
    K, V = len(prior.alpha), corpus.num_words
    documents, words = np.zeros((corpus.num_documents, K)), np.zeros((K, V))
    for d, v, k in zip(document_of(corpus), corpus.word, topic, strict=True):
        documents[d, k] += 1
        words[k, v] += 1
    eta = np.broadcast_to(prior.eta, (K, V))
    total = sum(log_dirichlet_multinomial(row, prior.alpha) for row in documents)
    return total + sum(log_dirichlet_multinomial(words[k], eta[k]) for k in range(K))


def conditional(corpus, topic, place, prior):
    """p(z = k | all other topics, w) of one token, by ratios of the joint."""
    logs = np.full(len(prior.alpha), -np.inf)
    for k in range(len(prior.alpha)):
        if prior.allowed_topics is None or prior.allowed_topics[document_of(corpus)[place], k]:
            changed = topic.copy()
            changed[place] = k
            logs[k] = log_joint(corpus, changed, prior)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def every_state(corpus, prior):
    """All topics of all tokens (S, T) and their probabilities given the words (S,)."""
    states = np.array(list(itertools.product(range(len(prior.alpha)), repeat=len(corpus.word))))
    of = document_of(corpus)
    if prior.allowed_topics is not None:
        states = states[prior.allowed_topics[of, states].all(1)]
    logs = np.array([log_joint(corpus, state, prior) for state in states])
    weights = np.exp(logs - logs.max())
    return states, weights / weights.sum()


def generated(rng, starts, num_words, prior):
    """A corpus and its topics from the prior, as the model tells it, given that all topics are allowed ones.

    Given that, counts of a document are Dirichlet-multinomial in the α of its topics, whatever that of the others.
    """
    K = len(prior.alpha)
    beta = np.array([rng.dirichlet(row) for row in np.broadcast_to(prior.eta, (K, num_words))])
    topic = np.zeros(starts[-1], np.int32)
    for d in range(len(starts) - 1):
        own = np.flatnonzero(np.ones(K, bool) if prior.allowed_topics is None else prior.allowed_topics[d])
        size = starts[d + 1] - starts[d]
        topic[starts[d] : starts[d + 1]] = rng.choice(own, size, p=rng.dirichlet(prior.alpha[own]))
    return Corpus(words_of(rng, topic, beta), np.asarray(starts), num_words), topic


def words_of(rng, topic, beta):
    """A word for every topic."""
    places = (beta.cumsum(1)[topic] < rng.random(len(topic))[:, None]).sum(1)
    return np.minimum(places, beta.shape[1] - 1).astype(np.int32)
