"""Documents 000, 003 and 002 on words: priors and discriminants of naive Bayes, topics (errata E1 to E4, E12, E13, E16)."""

from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any

import numpy as np
from naive_topics import conditional, document_of, log_dirichlet_multinomial
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import beta as beta_distribution
from slopes import mode

from models.topics.sampling.chains import topic_prior
from models.topics.sampling.corpus import Corpus, corpus_of_documents

Array = np.ndarray


def all_rows(columns: int) -> Array:
    """(2^D, D)."""
    return np.array(list(product((0.0, 1.0), repeat=columns)))


def joint(x: Array, class_probs: Array, feature_probs: Array) -> Array:
    """p(x, y) (N, C) of binary rows, cell by cell."""
    found = np.ones((len(x), len(class_probs))) * class_probs
    for (n, c), d in product(np.ndindex(found.shape), range(x.shape[1])):
        found[n, c] *= feature_probs[c, d] if x[n, d] else 1 - feature_probs[c, d]
    return found


def posterior(class_probs: Array, feature_probs: Array) -> Array:
    """Bayes' rule over all 2^D rows: p(y | x) (2^D, C), the judge of discriminants."""
    found = joint(all_rows(feature_probs.shape[1]), class_probs, feature_probs)
    return found / found.sum(1, keepdims=True)


# ---------------------------------------------------------------------------------------------------------------------
# E1, E2: which prior is "Dir(α)", and what it does to words that are in every document


def one_sided_mode(ones: int, size: int, alpha: float) -> float:
    """As printed: the mode of Beta(α, 1)."""
    return (ones + alpha - 1) / (size + alpha - 1)


def symmetric_mode(ones: int, size: int, alpha: float) -> float:
    """Of Beta(α, α), which is Dirichlet(α) for the two values of a word."""
    return (ones + alpha - 1) / (size + 2 * alpha - 2)


def found_mode(ones: int, size: int, alpha: float) -> float:
    """The judge: Dirichlet(α, α) times the likelihood has no slope there."""

    def log_posterior(p: Any) -> Any:
        return (ones + alpha - 1) * np.log(p) + (size - ones + alpha - 1) * np.log(1 - p)

    return mode(log_posterior, 1e-12, 1 - 1e-12)


def printed_log_odds(ones: Array, size: Array, alpha: float) -> Array:
    """(2^N,): b + <w, x>, with counts n_i(1, y) (2, N) and n(y) (2,); n_i(0, y) stands as it is, 0 where it is 0."""
    zeros = size[:, None] - ones
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.log((ones[1] + alpha - 1) / (ones[0] + alpha - 1)) - np.log(zeros[1] / zeros[0])
        bias = np.log(size[1] / size[0])
        bias = bias + np.log(zeros[1] / (size[1] + alpha - 1) * (size[0] + alpha - 1) / zeros[0]).sum()
        return bias + all_rows(ones.shape[1]) @ weight


def right_log_odds(ones: Array, size: Array, alpha: float) -> Array:
    """The same with α − 1 on both sides."""
    zeros = size[:, None] - ones + alpha - 1
    ones = ones + alpha - 1
    weight = np.log(ones[1] / ones[0]) - np.log(zeros[1] / zeros[0])
    smoothed = size + 2 * alpha - 2
    bias = np.log(size[1] / size[0]) + (np.log(zeros[1] / zeros[0]) - np.log(smoothed[1] / smoothed[0])).sum()
    return bias + all_rows(ones.shape[1]) @ weight


def found_log_odds(ones: Array, size: Array, alpha: float) -> Array:
    """The judge: Bayes' rule at the modes that bisection finds."""
    probs = np.array([[found_mode(n, s, alpha) for n in row] for row, s in zip(ones, size, strict=True)])
    found = posterior(size / size.sum(), probs)
    return np.log(found[:, 1] / found[:, 0])


# ---------------------------------------------------------------------------------------------------------------------
# E3, E4, E16: discriminants of more classes, of chains of words, and the numerator of Bayes' rule


def softmax(logs: Array) -> Array:
    return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))


def softmax_posterior(class_probs: Array, feature_probs: Array) -> Array:
    """w_y = log p_y / (1 − p_y), b_y = log π_y + Σ_i log(1 − p_yi)."""
    bias = np.log(class_probs) + np.log(1 - feature_probs).sum(1)
    return softmax(bias + all_rows(feature_probs.shape[1]) @ np.log(feature_probs / (1 - feature_probs)).T)


def posterior_of_present_words(class_probs: Array, feature_probs: Array) -> Array:
    """The tempting one, as for counts of words: π_y times p_yi of the words that are there."""
    return softmax(np.log(class_probs) + all_rows(feature_probs.shape[1]) @ np.log(feature_probs).T)


def printed_posterior(class_probs: Array, feature_probs: Array) -> Array:
    """P(y) within the product over words, in the numerator alone."""
    times = class_probs ** (feature_probs.shape[1] - 1)
    return posterior(class_probs, feature_probs) * times


def right_posterior(class_probs: Array, feature_probs: Array) -> Array:
    x = all_rows(feature_probs.shape[1])[:, None]
    found = np.prod(feature_probs**x * (1 - feature_probs) ** (1 - x), axis=2) * class_probs
    return found / found.sum(1, keepdims=True)


def chain_log_odds(start: Array, step: Array) -> Array:
    """The judge: log p(x | 1) / p(x | 0) of every sequence, one transition after another. P(1 | before) is ``step``."""
    found = []
    for row in all_rows(step.shape[1] + 1).astype(int):
        logs = [np.log(start[y] if row[0] else 1 - start[y]) for y in (0, 1)]
        for i, (before, now) in enumerate(pairwise(row)):
            logs = [log + np.log(p if now else 1 - p) for log, p in zip(logs, step[:, i, before], strict=True)]
        found.append(logs[1] - logs[0])
    return np.array(found)


def linear_in_pairs(start: Array, step: Array) -> Array:
    """Bias and weights of 1, x_i and x_i x_{i−1}, from the transition probabilities."""
    x, one, zero = all_rows(step.shape[1] + 1), np.log(step), np.log(1 - step)
    parts = np.log(1 - start) + x[:, :1] * np.log(start / (1 - start)) + zero[:, :, 0].sum(1)
    parts = parts + x[:, 1:] @ (one - zero)[:, :, 0].T + x[:, :-1] @ (zero[:, :, 1] - zero[:, :, 0]).T
    parts = parts + (x[:, 1:] * x[:, :-1]) @ (one[:, :, 1] - zero[:, :, 1] - one[:, :, 0] + zero[:, :, 0]).T
    return parts[:, 1] - parts[:, 0]


def linear_in_words(start: Array, step: Array) -> Array:
    """The tempting one: the best bias and weights of x alone, by least squares."""
    design = np.column_stack([np.ones(2 ** (step.shape[1] + 1)), all_rows(step.shape[1] + 1)])
    return design @ np.linalg.lstsq(design, chain_log_odds(start, step))[0]


# ---------------------------------------------------------------------------------------------------------------------
# E12: the words of one document, its proportions integrated out


def sum_over_topics(words: tuple[int, ...], beta: Array, alpha: float, document: int) -> float:
    """Σ_z of Dirichlet integrals: right; ``document`` is nobody's index."""
    size, terms = len(beta), []
    for topics in product(range(size), repeat=len(words)):
        counts = np.bincount(topics, minlength=size)
        terms.append(log_dirichlet_multinomial(counts, np.full(size, alpha)) + np.log(beta[list(topics), list(words)]).sum())
    return float(logsumexp(terms))


def printed_integral(words: tuple[int, ...], beta: Array, alpha: float, document: int) -> float:
    """β with the index of the document: Σ_k θ_k = 1 is all that is left of the proportions."""
    return float(np.log(beta[document, list(words)]).sum())


def integrated(words: tuple[int, ...], beta: Array, alpha: float, document: int) -> float:
    """The judge: quadrature over θ, of two topics."""

    def density(share: float) -> float:
        mixed = share * beta[0] + (1 - share) * beta[1]
        return float(beta_distribution(alpha, alpha).pdf(share) * np.prod(mixed[list(words)]))

    return float(np.log(quad(density, 0, 1, epsabs=0, epsrel=1e-12)[0]))


def document_case() -> Mapping[str, Any]:
    topics = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    return {"words": (0, 0, 2, 1, 2), "beta": topics, "alpha": 2.0, "document": 0}


# ---------------------------------------------------------------------------------------------------------------------
# E13: the topic of one token given all others


def counts_without(corpus: Corpus, topic: Array, place: int, size: int) -> tuple[Array, Array]:
    """(n_jk without the token (K,), n_kw without it (V, K)) of the token's document."""
    others, own = np.arange(len(topic)) != place, document_of(corpus)
    words = np.zeros((corpus.num_words, size))
    np.add.at(words, (corpus.word[others], topic[others]), 1)
    return np.bincount(topic[others & (own == own[place])], minlength=size), words


def conditional_of_words(corpus: Corpus, topic: Array, place: int, size: int, alpha: float, eta: float) -> Array:
    """Right: (n_jk + π) (n_kw + γ) / (n_k + V γ), scaled to sum to 1."""
    own, words = counts_without(corpus, topic, place, size)
    found = (own + alpha) * (words[corpus.word[place]] + eta) / (words.sum(0) + corpus.num_words * eta)
    return found / found.sum()


def conditional_without_words(corpus: Corpus, topic: Array, place: int, size: int, alpha: float, eta: float) -> Array:
    """As printed, given z⁻ alone: n_jk + π."""
    found = counts_without(corpus, topic, place, size)[0] + alpha
    return found / found.sum()


def ratios_of_the_joint(corpus: Corpus, topic: Array, place: int, size: int, alpha: float, eta: float) -> Array:
    """The judge: p(w, z) with every topic in this place, scaled."""
    return conditional(corpus, topic, place, topic_prior(corpus, size, alpha, eta))


def token_case() -> Mapping[str, Any]:
    corpus = corpus_of_documents([[0, 1, 1, 2], [2, 3, 3, 0, 1]], 4)
    topic = np.array([0, 1, 1, 2, 2, 0, 0, 1, 2])
    return {"corpus": corpus, "topic": topic, "place": 8, "size": 3, "alpha": 0.7, "eta": 0.3}


def classes_case(number: int) -> Mapping[str, Any]:
    rng = np.random.default_rng(number)
    return {"class_probs": rng.dirichlet(np.full(number, 4.0)), "feature_probs": rng.uniform(0.1, 0.9, (number, 3))}


def chain_case() -> Mapping[str, Any]:
    rng = np.random.default_rng(4)
    return {"start": rng.uniform(0.1, 0.9, 2), "step": rng.uniform(0.1, 0.9, (2, 3, 2))}


def counts_case() -> Mapping[str, Any]:
    """Four documents of class 0, five of class 1; the last word is in all five."""
    return {"ones": np.array([[1, 2, 3], [3, 1, 5]]), "size": np.array([4, 5]), "alpha": 2.0}


ENTRIES = (
    (1, "000", one_sided_mode, symmetric_mode, found_mode, lambda: {"ones": 3, "size": 10, "alpha": 3.0}),
    (2, "000", printed_log_odds, right_log_odds, found_log_odds, counts_case),
    (3, "000", posterior_of_present_words, softmax_posterior, posterior, lambda: classes_case(3)),
    (4, "000", linear_in_words, linear_in_pairs, chain_log_odds, chain_case),
    (12, "002", printed_integral, sum_over_topics, integrated, document_case),
    (13, "002", conditional_without_words, conditional_of_words, ratios_of_the_joint, token_case),
    (16, "003", printed_posterior, right_posterior, posterior, lambda: classes_case(2)),
)
