"""The topic model computed the slow way: from the formula, from all assignments, from the generative story.

And what every sampler of its topics must fulfil: `check_all_states`, `check_means`, `check_geweke`, `check_bars`.
"""

import itertools
from functools import cache

import numpy as np
from scipy import stats
from scipy.special import gammaln

from models.token_sampler import topic_prior
from models.tokens import Corpus, TopicCounts, corpus_of_documents, counted

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
    """A corpus and its topics from the prior, as the model tells it, given that all topics are allowed ones.

    Given that, counts of a document are Dirichlet-multinomial in the α of its topics, whatever that of the others.
    """
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


def check_all_states(corpus, prior, draws):
    """A χ² test, p above 1e-6, of whether every state is drawn as often as its probability says; rare states together."""
    states, probs = every_state(corpus, prior)
    places = {tuple(state): index for index, state in enumerate(states)}
    found = np.bincount([places[tuple(draw)] for draw in draws], minlength=len(states))
    order = np.argsort(probs)
    pooled = (np.cumsum(probs[order] * len(draws)) // 20).astype(int)  # groups of at least about twenty expected draws
    expected, seen = (np.bincount(pooled, values[order]) for values in (probs * len(draws), found))
    assert stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue > 1e-6


def check_means(run):
    """E[θ | w] over all 2¹² states, functionals free of labels, within 5.5 standard errors of batch means: 4e-8 each.

    ``run`` takes a corpus and a prior and returns topics (draws, T).
    """
    rng = np.random.default_rng(3)
    corpus = corpus_of_documents([rng.integers(4, size=size) for size in (5, 4, 3)], 4)
    prior = topic_prior(corpus, 2, [0.7, 0.4], 0.3)
    states, probs = every_state(corpus, prior)

    def functionals(topic):
        theta, beta = posterior_means(counted(corpus, topic.astype(np.int32), 2), prior)
        return np.array([*theta[:, 0], *(theta @ beta)[:, 0], (theta[:, 0] * theta[:, 1]).sum()])

    wanted = probs @ np.array([functionals(state) for state in states])
    found = np.array([functionals(topic) for topic in run(corpus, prior)])
    within(found, wanted, 0.0)


def within(found, wanted, error):
    """Means of a chain (draws, …) within 5.5 standard errors: by forty batch means, and ``error`` of what is wanted."""
    batches = found.reshape(40, len(found) // 40, -1).mean(1)
    error = np.sqrt(batches.var(0, ddof=1) / 40 + error**2)
    assert (np.abs(found.mean(0) - wanted) < 5.5 * error + 1e-12).all()


def check_geweke(kind, K, V, begin, advance):
    """Words drawn given topics and topics given words keep the prior (Geweke, 2004): |z| below 5.5, 4e-8 false alarms each.

    Effective draws by batch means; the prior's own draws are independent. ``begin`` takes corpus, prior and topics and returns
    a chain, ``advance`` takes corpus, prior and chain.
    """
    rng, starts = np.random.default_rng(11), np.array([0, 6, 6, 10, 13])
    prior = random_prior(rng, kind, Corpus(np.zeros(13, np.int32), starts, V), K)
    eta = np.broadcast_to(prior.eta, (K, V))

    def functionals(corpus, topic):
        counts = counted(corpus, topic, K)
        documents, words = (table.astype(float) for table in (counts.document_topic, counts.word_topic))
        squares = [(documents**2).sum(), (words**2).sum(), (counts.total.astype(float) ** 2).sum()]
        return [*squares, documents[0, 0], words[0, 1], (topic[:-1] == topic[1:]).sum(), topic.sum(), (topic % 8).sum()]

    fresh = np.array([functionals(*generated(rng, starts, V, prior)) for _ in range(4000)])
    corpus, topic = generated(rng, starts, V, prior)
    chain, kept = begin(corpus, prior, topic), []
    for _ in range(8000):
        chain = advance(corpus, prior, chain)
        kept.append(functionals(corpus, chain.topic))
        beta = np.array([rng.dirichlet(row) for row in eta])
        corpus = corpus._replace(word=words_of(rng, chain.topic, beta))
    within(np.array(kept), fresh.mean(0), fresh.std(0) / np.sqrt(len(fresh)))


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


def check_bars(begin, advance):
    """Each true bar within 0.1 total variation of a topic of its own, averaged over ten states.

    ``begin`` takes corpus and prior, ``advance`` corpus, prior, chain and sweeps.
    """
    corpus, beta = bars()
    prior = topic_prior(corpus, 10, 1.0, 1.0)
    chain, found = advance(corpus, prior, begin(corpus, prior), 300), 0
    for _ in range(10):
        chain = advance(corpus, prior, chain, 10)
        found += posterior_means(counted(corpus, chain.topic, 10), prior)[1] / 10
    distance = np.abs(beta[:, None] - found).sum(-1) / 2
    assert (distance.min(1) < 0.1).all()
    assert len(set(distance.argmin(1))) == 10
