"""Weights and labels of documents, and random numbers of tokens: one document after another, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
from naive import equal, near
from scipy import stats
from scipy.special import digamma

import models.topics.latent
from models.topics import held_out
from models.topics.collapsed import _aligned, _sites
from models.topics.documents import Documents, Words
from models.topics.latent import Bags, Hard, TokenCells, by_word, mixed, scaled, topics
from models.topics.local_variational import _turn
from models.topics.sampling.chains import TopicChain, start_chain, swept, topic_prior
from models.topics.sampling.corpus import corpus_of_documents

RNG = np.random.default_rng(0)
ROW, WORD = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 1, 0, 2, 2])
TOPIC = np.array([0, 1, 1, 0, 0, 1])
TOKENS = TokenCells(jnp.asarray(ROW), jnp.asarray(WORD), jnp.ones(6))
WEIGHT = np.array([2.0, 0.0, 0.5])


def local_of(tokens, documents):
    """Natural parameters that say nothing: every topic is as probable as any other."""
    return mixed(scaled(jnp.zeros((documents, 2))), scaled(jnp.zeros((3, 2))), Bags(tokens, tokens, jnp.zeros(documents)))


def test_drawn_topics_of_a_document_count_as_often_as_it_weighs():
    """Σ over the tokens of the weight of their document, token by token."""
    wanted = np.zeros((3, 2))
    np.add.at(wanted, (WORD, TOPIC), WEIGHT[ROW])
    assert equal(by_word(Hard(jnp.asarray(TOPIC), TOKENS, local_of(TOKENS, 3)), jnp.asarray(WEIGHT)), wanted)


def test_blocks_of_tokens_have_random_numbers_of_their_own(monkeypatch):
    """Sixty-four tokens alike in two blocks: with one key both halves are one, otherwise once in 2³²."""
    monkeypatch.setattr(models.topics.latent, "BLOCK", 2 * 32)
    tokens = TokenCells(jnp.zeros(64, int), jnp.zeros(64, int), jnp.ones(64))
    drawn = np.asarray(topics.sample(jax.random.PRNGKey(0), local_of(tokens, 1)).topic)
    assert (drawn[:32] != drawn[32:]).any()


def test_an_update_of_proportions_counts_weights_and_obeys_labels():
    """nu + 1 = α + weight Σ_v n_v p(k | v), where a topic that a label rules out has p = 0: document by document."""
    word, times = np.array([[0, 1], [2, 0]]), np.array([[3.0, 1.0], [2.0, 0.0]])
    logs, alpha, gamma = RNG.normal(size=(3, 3)), np.array([[0.5, 1.5, 2.5]] * 2), RNG.gamma(2.0, size=(2, 3))
    weight, allowed = np.array([2.0, 0.5]), np.array([[True, False, True], [True, True, True]])
    turn = _turn(
        scaled(jnp.asarray(logs)), jnp.asarray(word), jnp.asarray(times), alpha - 1, weight[:, None], jnp.asarray(allowed)
    )
    expected = digamma(gamma) - digamma(gamma.sum(1, keepdims=True))
    wanted = alpha.copy()
    for d in range(2):
        for v, count in zip(word[d], times[d], strict=True):
            share = np.exp(expected[d] + logs[v]) * allowed[d]
            wanted[d] += weight[d] * count * share / share.sum()
    assert near(turn(jnp.asarray(gamma - 1)) + 1, wanted, rtol=1e-12)


def test_held_out_probabilities_are_averaged_as_probabilities():
    """With one token a document, p(w) = mean over draws of Σ_k α_k / Σ α β_kw, whatever the particles."""
    alpha, beta = np.array([0.5, 1.5]), RNG.dirichlet(np.ones(3), (4, 2))
    one = Words(np.array([[0], [2]]), np.ones((2, 1), np.int32))
    rows = Documents(one, one, document=np.arange(2), carrier=np.zeros(2))
    found = held_out.log_probability({"topic_concentration": alpha}, {"word_probs": beta}, rows, 1, seed=0)
    assert near(found, np.log(np.mean(alpha / alpha.sum() @ beta, axis=0))[[0, 2]], rtol=1e-12)


def test_a_draw_given_topics_reports_the_log_prior_of_all_its_parameters():
    """SciPy's Dirichlet densities of the proportions and of the words of every topic."""
    corpus = corpus_of_documents([[0, 1, 1], [2, 0]], 3)
    prior = topic_prior(corpus, 2, [0.7, 2.0], 1.3)
    sites, density = _sites(corpus, prior, np.random.default_rng(0), start_chain(corpus, prior, 0))
    wanted = sum(stats.dirichlet([0.7, 2.0]).logpdf(row) for row in sites["topic_probs"])
    assert near(density, wanted + sum(stats.dirichlet(np.full(3, 1.3)).logpdf(row) for row in sites["word_probs"]), rtol=1e-9)


def test_topics_of_chains_are_matched_whatever_their_order():
    """A chain with the topics of the first under a permutation that is not its own inverse becomes the first."""
    corpus = corpus_of_documents([[0, 1, 2, 0, 1, 2]], 3)
    topic = np.array([0, 1, 2, 0, 1, 1], np.int32)
    chains = [TopicChain(each.astype(np.int32), np.zeros(4, np.uint64)) for each in (topic, np.array([1, 2, 0])[topic])]
    assert equal(_aligned(corpus, 3, chains)[1].topic, topic)


def test_no_block_of_topics_is_preferred():
    """Words that occur once leave all to the prior, and topics of two blocks are alike: half of the tokens are in each.

    The share of a Pólya urn of α = 5 a topic, which spreads more, has a standard deviation of 0.04: five of them.
    """
    corpus = corpus_of_documents([list(range(400))], 400)
    prior = topic_prior(corpus, 64, 5.0, 1.0)
    topic = swept(corpus, prior, start_chain(corpus, prior, 0), 1, "many")[0].topic
    assert abs((topic < 32).mean() - 0.5) < 0.2
