"""Topics of tokens by products of weights: equal to logarithms, token by token, also where the products are lost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from scipy.special import logsumexp
from two_stage import assert_standard_normal, in_blocks, of_counts, of_largest

import models.topics.latent
from models.topics.latent import Bags, TokenCells, by_document, by_word, mixed, scaled, topics

DOCUMENTS, WORDS, TOPICS = 6, 5, 3
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(1.0, (DOCUMENTS, WORDS)) * (np.arange(DOCUMENTS) < 5)[:, None]  # the last document is empty
WEIGHT = np.array([1.0, 2.0, 0.0, 0.5, 1.0, 1.0])
CARRIER = np.arange(6.0)


def between(low, high, shape, seed):
    return np.random.default_rng(seed).uniform(low, high, shape)


def parameters(kind):
    """Log weights of topics by document and of words by topic."""
    topic, word = between(-3, 0, (DOCUMENTS, TOPICS), 1), between(-5, 0, (WORDS, TOPICS), 2)
    match kind:
        case "tiny":  # word probabilities of 1e-300, all alike: their scale is all that is small
            word -= 690
        case "apart":  # documents of the first topic, words of the second and third: products of e⁻⁸⁰⁰
            topic[:, 1:] -= 800
            word[1:, 0] -= 800
        case "far":  # topics and words apart by more than a product in any precision can hold
            topic = between(-3e5, 0, topic.shape, 3)
            word = between(-3e5, 0, word.shape, 4)
        case "edge" | "edge of single":  # a product that a number can just hold, and one that it cannot
            topic[:, 1:] += [-706.0, -709.0] if kind == "edge" else [-85.0, -88.0]
            word[1:, 0] -= 2000
            word[:, 1:] /= 10
        case "large":  # log weights need not be of probabilities
            topic += 900
            word += 900
        case "allowed":  # one topic a document, and a word that the second has not
            topic = np.where(np.eye(TOPICS, dtype=bool)[np.arange(DOCUMENTS) % TOPICS], topic, -np.inf)
            word[0, 1] = -np.inf
        case "impossible":  # a word that no topic has
            word[2] = -np.inf
    return topic, word


KINDS = ("plain", "tiny", "apart", "far", "edge", "edge of single", "large", "allowed", "impossible")
every_kind = pytest.mark.parametrize("kind", KINDS)
every_precision = pytest.mark.parametrize("precision", [64, 32])


def cells(padding=3):
    """Distinct words, and tokens; with cells where there is no word at the end."""
    row, word = np.nonzero(COUNTS)
    times = COUNTS[row, word]
    tokens = (np.repeat(row, times), np.repeat(word, times), np.ones(times.sum()))
    fill = (DOCUMENTS, 0, 0)

    def padded(part):
        return TokenCells(*(jnp.asarray(np.append(leaf, [end] * padding)) for leaf, end in zip(part, fill, strict=True)))

    return padded((row, word, times.astype(float))), padded(tokens)


def naive(topic, word):
    """Log p(w | d) of every document and word (N, V), and shares of topics (N, V, K); of a word that is not possible none."""
    logs = topic[:, None, :] + word[None, :, :]
    log_norm = logsumexp(logs, axis=2)
    with np.errstate(invalid="ignore"):
        share = np.exp(logs - log_norm[:, :, None])
    return log_norm, np.where(np.isfinite(log_norm)[:, :, None], share, 0.0)


def local_of(topic, word):
    words, tokens = cells()
    carrier = jnp.asarray(CARRIER, topic.dtype)
    bags = jax.tree.map(lambda leaf: leaf.astype(topic.dtype) if leaf.dtype == float else leaf, Bags(words, tokens, carrier))
    return mixed(scaled(topic), scaled(word), bags)


def found(topic, word):
    local = local_of(topic, word)
    z = topics.mean(None, local)
    words = by_word(z, jnp.asarray(WEIGHT, topic.dtype))
    return topics.log_partition(local), by_document(z), words, topics.energy(z, local), topics.reported.part(z)


@jax.jit
def in_small_blocks(topic, word):
    """`found`, traced where `BLOCK` is small, as in no other test."""
    return found(topic, word)


@jax.jit
def alone(topic, word):
    return found(topic, word)


@jax.jit
def side_by_side(topic, word):
    return jax.vmap(found)(topic, word)


def wanted(topic, word):
    log_norm, share = naive(topic, word)
    count = COUNTS[:, :, None] * share
    energies = np.where(count > 0, count * np.where(count > 0, topic[:, None, :] + word[None, :, :], 0.0), 0.0)
    total = count.sum((1, 2))[:, None]
    return (
        CARRIER + np.where(COUNTS > 0, COUNTS * np.where(COUNTS > 0, log_norm, 0.0), 0.0).sum(1),
        count.sum(1),
        (WEIGHT[:, None, None] * count).sum(0),
        CARRIER + energies.sum((1, 2)),
        np.where(total > 0, count.sum(1) / np.where(total > 0, total, 1), 1 / TOPICS),
    )


@every_precision
@every_kind
def test_verbs_are_those_of_logarithms(kind, precision, monkeypatch):
    """Whatever the weights, in blocks of two cells: ten roundings of the largest logarithm, or of a count."""
    monkeypatch.setattr(models.topics.latent, "BLOCK", 2 * TOPICS)
    with jax.enable_x64(precision == 64):
        dtype = jnp.result_type(float)
        topic, word = (np.asarray(leaf, dtype) for leaf in parameters(kind))
        given = [np.asarray(leaf, float) for leaf in in_small_blocks(topic, word)]
        scale = 1 + max(np.abs(leaf[np.isfinite(leaf)]).max() for leaf in (topic, word))
        rounding = 10 * float(jnp.finfo(dtype).eps)
        # two logarithms far from 0 are rounded when they are added, and shares change by as much
        for index, (value, expected) in enumerate(zip(given, wanted(topic.astype(float), word.astype(float)), strict=True)):
            assert near(value, expected, rtol=rounding, atol=rounding * scale * (scale if index == 3 else 1)), index


@every_kind
def test_chains_side_by_side_are_chains_one_by_one(kind):
    """Those with lost products beside those without."""
    both = [np.stack(pair) for pair in zip(parameters(kind), parameters("plain"), strict=True)]
    together = side_by_side(*both)
    for chain in range(2):
        for value, expected in zip(together, alone(*(leaf[chain] for leaf in both)), strict=True):
            assert near(value[chain], expected, rtol=1e-14, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "tiny", "apart", "edge", "far"])
def test_the_gradient_of_the_log_partition_is_the_expected_counts(kind):
    """Under vmap too, whose loop has none of its own."""

    def value(topic, word):
        return topics.log_partition(local_of(topic, word)).sum()

    topic, word = (jnp.asarray(leaf) for leaf in parameters(kind))
    gradient = jax.vmap(jax.grad(value, (0, 1)))(topic[None], word[None])
    z = topics.mean(None, local_of(topic, word))
    assert near(gradient[0][0], by_document(z), atol=1e-9)
    assert near(gradient[1][0], by_word(z, jnp.ones(DOCUMENTS)), atol=1e-9)


@pytest.mark.slow
@every_precision
@every_kind
def test_draws_have_the_shares_of_logarithms(kind, precision, monkeypatch):
    """No topic of share 0, others as often as their share says, which is known to 1e-5: the largest deviation of all tokens."""
    monkeypatch.setattr(models.topics.latent, "BLOCK", 2**17)
    with jax.enable_x64(precision == 64):
        dtype = jnp.result_type(float)
        topic, word = (np.asarray(leaf, dtype) for leaf in parameters(kind))
        local = local_of(jnp.asarray(topic), jnp.asarray(word))
        likeliest = np.asarray(topics.mode(None, local).topic)
    _, share = naive(topic.astype(float), word.astype(float))
    probs = np.repeat(share.reshape(-1, TOPICS), COUNTS.reshape(-1), axis=0)
    possible = probs.sum(1) > 0

    @jax.jit
    def drawn(seed):
        keys = jax.random.split(jax.random.PRNGKey(seed), 2000)
        return jax.vmap(lambda key: topics.sample(key, local).topic)(keys)

    def deviations(seed, times):
        with jax.enable_x64(precision == 64):
            topic = in_blocks(lambda one: np.asarray(drawn(one)), seed, times)
        count = (topic[:, : len(probs), None] == np.arange(TOPICS)).sum(0)[possible]
        p = probs[possible]
        assert (count[p < 1e-12] == 0).all()
        slack = 1e-5 * (p > 1e-12)
        nearest = np.clip(count / len(topic), np.maximum(p - slack, 0.0), np.minimum(p + slack, 1.0))
        return of_largest(of_counts(count, len(topic), nearest))

    assert_standard_normal(deviations, 1)
    for place, p in enumerate(share[COUNTS > 0]):
        assert p[likeliest[place]] >= p.max() - 1e-4
