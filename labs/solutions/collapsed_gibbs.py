# mypy: allow-untyped-defs
"""Collapsed Gibbs sampling for topics: the topic of every token is drawn, with all probabilities integrated out.

theta_d ~ Dirichlet(α, …, α) over K topics for each document,  beta_k ~ Dirichlet(γ, …, γ) over V words for each topic,
topic_i ~ Categorical(theta_{doc_i}),  word_i ~ Categorical(beta_{topic_i})

Token i is word_i in document doc_i; doc, word and topic are arrays of whole numbers from 0, of one length.
"""

import numpy as np


def count(doc, word, topic, num_docs, num_words, num_topics):
    """How many tokens of each document are in each topic, and how many tokens of each word.

    Returns (in_doc (num_docs, K), of_word (K, num_words)).

    >>> in_doc, of_word = count(np.array([0, 0, 1]), np.array([2, 2, 0]), np.array([1, 1, 0]), 2, 3, 2)
    >>> np.array_equal(in_doc, [[0, 2], [1, 0]]), np.array_equal(of_word, [[1, 0, 0], [0, 0, 2]])
    (True, True)
    """
    in_doc = np.zeros((num_docs, num_topics), int)
    of_word = np.zeros((num_topics, num_words), int)
    np.add.at(in_doc, (doc, topic), 1)
    np.add.at(of_word, (topic, word), 1)
    return in_doc, of_word


def token_probs(i, doc, word, topic, num_words, num_topics, alpha, gamma):
    """p(topic_i = k | the topics of all other tokens, all words). Sums to 1.

    With counts of all tokens *but i*: in_doc_k in the document of i, of_word_k of the word of i, size_k of the topic,

        p_k ∝ (in_doc_k + α) (of_word_k + γ) / (size_k + V γ)

    i: a place in the arrays. Returns (K,).

    >>> found = token_probs(0, np.array([0, 0]), np.array([1, 1]), np.array([0, 1]), 2, 2, 1.0, 1.0)
    >>> np.allclose(found, [3 / 11, 8 / 11])
    True
    """
    others = np.arange(len(doc)) != i
    in_doc = np.bincount(topic[others & (doc == doc[i])], minlength=num_topics)
    of_word = np.bincount(topic[others & (word == word[i])], minlength=num_topics)
    size = np.bincount(topic[others], minlength=num_topics)
    weights = (in_doc + alpha) * (of_word + gamma) / (size + num_words * gamma)
    return weights / weights.sum()


def sweep(rng, doc, word, topic, num_words, num_topics, alpha, gamma):
    """Draw the topic of every token in turn, each from its `token_probs` given the newest topics of all others.

    rng: a `numpy.random.Generator`. Returns the new topics, as a new array.

    >>> found = sweep(np.random.default_rng(0), np.array([0, 0]), np.array([1, 1]), np.array([0, 0]), 2, 1, 1.0, 1.0)
    >>> np.array_equal(found, [0, 0])
    True
    """
    topic = topic.copy()
    for i in range(len(topic)):
        probs = token_probs(i, doc, word, topic, num_words, num_topics, alpha, gamma)
        topic[i] = (rng.random() > probs.cumsum()[:-1]).sum()
    return topic


def topic_words(of_word, gamma):
    """The posterior mean of beta given the topics: (of_word_kv + γ) / (size_k + V γ), size_k = Σ_v of_word_kv.

    of_word: (K, V). Returns (K, V); every row sums to 1.

    >>> np.allclose(topic_words(np.array([[1, 0], [0, 0]]), 1.0), [[0.667, 0.333], [0.5, 0.5]], atol=0.001)
    True
    """
    return (of_word + gamma) / (of_word.sum(1, keepdims=True) + of_word.shape[1] * gamma)
