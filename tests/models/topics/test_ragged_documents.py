"""Batches of documents by compiled loops: elementary functions, one document by hand, and unequal documents beside JAX."""

from functools import cache

import numpy as np
import pytest
from naive import equal, near
from numba import njit
from scipy import special

from models import MODELS, Data
from models.host.loops import alone
from models.topics import elementary, minibatch
from models.topics.documents import Documents, Words

K, V = 11, 60
ALPHA, ETA = 0.3, 0.2
LENGTHS = (0, 1, 3, 40, 5, 0, 2, 59, 17, 8)


def each(function):
    """A scalar function in a loop, as the loops call it."""
    scalar = getattr(elementary, function)

    @njit
    def loop(x, first, second):
        for i in range(len(x)):
            if function == "digamma_and_log_gamma":
                first[i], second[i] = scalar(x[i])
            else:
                first[i] = scalar(x[i])

    def of(x):
        first, second = np.empty(len(x)), np.empty(len(x))
        loop(x, first, second)
        return first, second

    return of


POSITIVE = np.concatenate([np.exp(np.random.default_rng(0).uniform(-25, 25, 20_000)), np.arange(1, 40) / 2, [16.0, 1e30]])


def test_psi_and_log_gamma_are_those_of_scipy():
    """To 1e-13 of 1 + their size, where scipy itself rounds. The compiler may round ψ otherwise where it is alone."""
    psi, log_gamma = each("digamma_and_log_gamma")(POSITIVE)
    wanted = special.digamma(POSITIVE), special.gammaln(POSITIVE)
    assert np.max(np.abs(psi - wanted[0]) / (1 + np.abs(wanted[0]))) < 1e-13
    assert np.max(np.abs(log_gamma - wanted[1]) / (1 + np.abs(wanted[1]))) < 1e-13
    assert np.max(np.abs(each("digamma")(POSITIVE)[0] - psi) / (1 + np.abs(psi))) < 1e-14


def test_logarithms_and_exponentials_are_those_of_numpy():
    """Within two units in the last place, of which numpy's own rounding is a half."""
    near_one = 1 + np.random.default_rng(1).uniform(-1, 1, 20_000) * np.repeat(10.0 ** -np.arange(16), 1250)
    eps = np.finfo(float).eps
    for x in (POSITIVE, near_one, np.array([np.sqrt(0.5), 1.0, np.sqrt(2.0), 1e-300, 1e300])):
        assert near(each("log_of")(x)[0], np.log(x), rtol=2 * eps)
    x = -np.random.default_rng(0).uniform(0, 708, 20_000)
    assert near(each("exp_of")(x)[0], np.exp(x), rtol=5e-16)
    assert equal(each("exp_of")(np.array([0.0, -709.0, -1e300, -np.inf]))[0], [1, 0, 0, 0])
    assert np.isnan(each("exp_of")(np.array([np.nan]))[0]).all()


def corpus(kind):
    """(prior, rows) of unequal documents, two of them empty: plain, weighted, few topics allowed, weights that vanish."""
    rng = np.random.default_rng(3)
    word, times = (np.zeros((len(LENGTHS), V), np.int32) for _ in range(2))
    for d, length in enumerate(LENGTHS):
        word[d, :length], times[d, :length] = rng.permutation(V)[:length], rng.integers(1, 5, length)
    words = Words(word, times)
    weight = rng.integers(0, 3, len(LENGTHS)) / 2 if kind == "weighted" else None
    allowed = rng.random((len(LENGTHS), K)) < 0.4 if kind in ("allowed", "vanishing") else None
    if allowed is not None:
        allowed[:, 0] = True
    alpha = 1e-3 if kind == "vanishing" else ALPHA
    prior = {"topic_probs": np.full((len(LENGTHS), K), alpha - 1), "word_probs": np.full((K, V), ETA - 1)}
    return prior, Documents(words, words, np.arange(len(LENGTHS)), rng.normal(size=len(LENGTHS)), weight, allowed)


def begun(kind):
    """Nu of the words: with concentrations near 0 their expected weights underflow."""
    shape, less = (0.02, 0.9989) if kind == "vanishing" else (0.5, 0.8)
    return np.random.default_rng(4).gamma(shape, 1.0, (K, V)) - less


def softmax(logs):
    """(shares, log of their sum) over the last axis, −∞ for what is impossible."""
    norm = special.logsumexp(logs, axis=-1, keepdims=True)
    return np.exp(logs - norm), norm[..., 0]


def expected(nu):
    return special.digamma(nu + 1) - special.digamma((nu + 1).sum(-1, keepdims=True))


def log_normaliser(nu):
    return special.gammaln(nu + 1).sum(-1) - special.gammaln((nu + 1).sum(-1))


def by_hand(prior, rows, nu, picked, most, close):
    """(statistics of words (K, V), bound, divergence of the words, nu of the proportions), document by document."""
    word_logs, statistics, bound, own = expected(nu), np.zeros((K, V)), 0.0, []
    for d in picked:
        there = rows.words.times[d] > 0
        words, times = rows.words.word[d][there], rows.words.times[d][there]
        weight = 1.0 if rows.weight is None else rows.weight[d]
        barred = np.zeros(K) if rows.allowed_topics is None else np.where(rows.allowed_topics[d], 0.0, -np.inf)
        alpha = prior["topic_probs"][d]
        now = alpha + 1
        for _ in range(most):
            shares, _ = softmax(expected(now) + barred + word_logs[:, words].T)
            before, now = now, alpha + weight * (times @ shares)
            if np.abs(now - before).mean() <= close:
                break
        shares, norms = softmax(expected(now) + barred + word_logs[:, words].T)
        np.add.at(statistics.T, words, weight * times[:, None] * shares)
        divergence = expected(now) @ (alpha - now) + log_normaliser(now) - log_normaliser(alpha)
        bound += weight * (rows.carrier[d] + times @ norms) + divergence
        own.append(now)
    eta = prior["word_probs"]
    divergence = (word_logs * (eta - nu)).sum() + (log_normaliser(nu) - log_normaliser(eta)).sum()
    return statistics, bound, divergence, np.array(own)


@cache
def loops(kind, most=7, close=1e-3, share=alone):
    prior, rows = corpus(kind)
    picked = np.random.default_rng(5).permutation(len(LENGTHS))[:8]
    picked[:2] = 0, 5  # the empty ones
    found = minibatch.sums(minibatch.read(prior, rows), share, {"word_probs": begun(kind)}, picked, most, close)
    return found, by_hand(prior, rows, begun(kind), picked, most, close)


@pytest.mark.parametrize("kind", ["plain", "weighted", "allowed", "vanishing"])
@pytest.mark.parametrize(("most", "close"), [(7, 1e-3), (400, 1e-9), (1, 0.0)])
def test_a_batch_is_that_of_the_paper(kind, most, close):
    """Statistics, bound, divergence and proportions of unequal documents: every one stops by its own change."""
    found, (statistics, bound, divergence, own) = loops(kind, most, close)
    assert near(found.own["topic_probs"], own, rtol=1e-9, atol=1e-11)
    assert near(found.stats["word_probs"], statistics, rtol=1e-9, atol=1e-11)
    assert near(found.bound, bound, rtol=1e-11)
    assert near(found.divergence, divergence, rtol=1e-11)


@pytest.mark.parametrize(("kind", "some"), [("vanishing", True), ("plain", False)])
def test_vanishing_weights_are_taken_by_logarithms(kind, some):
    """In the case above some are."""
    prior, rows = corpus(kind)
    read = minibatch.read(prior, rows)
    batch = minibatch.batch_of(read, np.arange(len(LENGTHS)))
    words, _ = minibatch.expected_words(read, alone, np.ascontiguousarray(begun(kind).T), batch.used)
    _, ratio, _ = minibatch.ascended(read, alone, batch, words, 7, 1e-3)
    assert (ratio < 0).any() == some


def test_an_empty_document_keeps_its_prior():
    found, _ = loops("plain")
    assert near(found.own["topic_probs"][:2], np.full((2, K), ALPHA - 1))


@pytest.mark.parametrize("kind", ["plain", "vanishing"])
def test_threads_do_not_change_what_comes_out(kind):
    """Ranges of any size give the same bits."""

    def one_by_one(function, number):
        for i in reversed(range(number)):
            function(i, i + 1)

    found, other = loops(kind)[0], loops(kind, share=one_by_one)[0]
    assert (found.bound, found.divergence) == (other.bound, other.divergence)
    assert equal(found.own["topic_probs"], other.own["topic_probs"])
    assert equal(found.stats["word_probs"], other.stats["word_probs"])


def test_documents_are_read_without_their_padding():
    prior, rows = corpus("plain")
    found = minibatch.read(prior, rows)
    assert len(found.word) == len(found.times) == found.starts[-1] == sum(LENGTHS)
    assert equal(np.diff(found.starts), LENGTHS)


def test_single_precision_is_left_to_jax():
    _, rows = corpus("plain")
    assert minibatch.serves(rows)
    assert not minibatch.serves(rows._replace(carrier=rows.carrier.astype(np.float32)))


def test_the_model_declares_its_loops():
    data = Data("counts", np.eye(3), ("a", "b", "c"))
    model = MODELS["latent_dirichlet"](data, num_topics=2)
    assert model.algebra.structure.ascend.loops.sums is minibatch.sums
