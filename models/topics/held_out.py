"""Predictive scores of held-out documents under the topic model, as `models.abilities.HeldOut`."""

from collections.abc import Mapping

import numpy as np
from scipy.special import gammaln, logsumexp

from models.abilities import HeldOut
from models.base import Data, Hyper, on_host
from models.data.documents import bag_of_words
from models.topics.collapsed import CONCENTRATION, TOPIC, WORD, corpus_of
from models.topics.documents import Documents, Words
from models.topics.left_to_right import left_to_right


def tokens(rows: Documents) -> np.ndarray:
    """(N,): number of tokens of each document."""
    return np.asarray(rows.words.times).sum(1)


def total(data: Data) -> float:
    """Number of tokens of all documents, including unknown words."""
    return float(bag_of_words(data).x.sum())


def log_probability(
    hyper: Hyper, draws: Mapping[str, np.ndarray], rows: Documents, particles: int, seed: int, num_threads: int = 1
) -> np.ndarray:
    """(N,): log of the mean over draws of p(x_d | β), proportions summed out by `models.topics.left_to_right`.

    This is the probability of ordered words, without the multinomial coefficient. Labels and weights are ignored.
    """
    words = np.asarray(draws[WORD], dtype=float)
    corpus = corpus_of(rows._replace(weight=None), words.shape[2])
    alpha = np.asarray(hyper.get(CONCENTRATION[TOPIC], 1.0), dtype=float)  # a flat prior is a Dirichlet with concentration 1
    seeds = np.random.SeedSequence(seed).generate_state(len(words))
    each = [
        left_to_right(corpus, beta, alpha, particles, int(one), num_threads=num_threads)
        for beta, one in zip(words, seeds, strict=True)
    ]
    log_mean: np.ndarray = logsumexp(each, axis=0) - np.log(len(words))
    return log_mean


def orders(rows: Documents) -> np.ndarray:
    """(N,): log multinomial coefficients, which turn probabilities of ordered words into those of counts."""
    return np.asarray(rows.carrier)


def halves(seed: int, rows: Documents) -> tuple[Documents, Documents]:
    """Split the tokens of each document at random into two halves; an odd token goes to the first."""
    rng = np.random.default_rng(seed)
    word, times = np.asarray(rows.words.word), np.asarray(rows.words.times)
    first = np.stack([rng.multivariate_hypergeometric(row, row.sum() - row.sum() // 2) for row in times])
    return _with_times(rows, word, first), _with_times(rows, word, times - first)


def _with_times(rows: Documents, word: np.ndarray, times: np.ndarray) -> Documents:
    """The same documents with other counts of their words."""
    number, length = times.sum(1), int(max(1, times.sum(1).max(initial=0)))
    there = np.arange(length)[None, :] < number[:, None]
    single = np.zeros(there.shape, np.int32)
    single[there] = np.repeat(word.ravel(), times.ravel())
    carrier = gammaln(number + 1.0) - gammaln(times + 1.0).sum(1)
    tokens = Words(on_host(single), on_host(there.astype(np.int32)))
    return rows._replace(words=Words(on_host(word), on_host(times.astype(np.int32))), tokens=tokens, carrier=on_host(carrier))


def completion(draws: Mapping[str, np.ndarray], rows: Documents) -> np.ndarray:
    """(N,): Σ over the tokens of a document of the log of their probability Σ_k θ_dk β_kw, averaged over draws of both.

    As usual for document completion, the average is taken for each token, not for the whole document.
    """
    word, times = np.asarray(rows.words.word), np.asarray(rows.words.times)
    mean = np.zeros(word.shape)
    for topic, words in zip(draws[TOPIC], draws[WORD], strict=True):
        for document, row in enumerate(word):  # one document at a time, to save memory
            mean[document] += topic[document] @ words[:, row]
    with np.errstate(divide="ignore"):
        logs = np.log(mean / len(draws[TOPIC]))
    return np.where(times > 0, times * np.where(times > 0, logs, 0.0), 0.0).sum(1)


HELD_OUT = HeldOut(
    unit="token",
    number=tokens,
    total=total,
    log_probability=log_probability,
    orders=orders,
    halves=halves,
    completion=completion,
)
