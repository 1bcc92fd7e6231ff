"""Corpora as tokens; the joint of words and topics, concentrations learnt from counts, draws given topics."""

import numpy as np
import pytest
from naive import near
from naive_topics import (
    PRIORS,
    log_dirichlet_multinomial,
    log_joint,
    posterior_means,
    random_corpus,
    random_prior,
)
from scipy import optimize, sparse
from two_stage import assert_standard_normal, of_means

from models.data import ZooError
from models.topics.sampling import corpus as tokens
from models.topics.sampling.chains import start_chain
from models.topics.sampling.corpus import (
    corpus_of_counts,
    corpus_of_documents,
    counted,
    fitted_concentration,
    posterior_draws,
    probabilities,
)


@pytest.mark.parametrize("K", [1, 4, 30])
@pytest.mark.parametrize("kind", PRIORS)
def test_log_joint(kind, K):
    """Against one Dirichlet-multinomial a document and a topic; more topics than words, empty documents, unseen words.

    Where a document may have some topics only, its proportions have their prior over all, as in the program.
    """
    rng = np.random.default_rng(K)
    corpus = random_corpus(rng, 5, 12, 9)
    prior = random_prior(rng, kind, corpus, K)
    topic = start_chain(corpus, prior, 0).topic
    found = tokens.log_joint(counted(corpus, topic, K), prior.alpha, prior.eta)
    assert found == pytest.approx(log_joint(corpus, topic, prior), rel=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_matrix, lambda x: sparse.csc_array(x.astype(float))])
def test_corpora_of_counts_and_of_documents_agree(form):
    """Whatever the matrix, its tokens are those of the documents, words in order."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.7, (6, 5))
    counts[2] = 0
    corpus = corpus_of_counts(form(counts))
    wanted = corpus_of_documents([[-1, *np.repeat(np.arange(5), row)] for row in counts], 5)
    for found, expected in zip(corpus, wanted, strict=True):
        assert np.array_equal(found, expected)
    assert (corpus.word.dtype, corpus.starts.dtype) == (np.int32, np.int64)


@pytest.mark.parametrize("cell", [-1, 0.5, np.nan, np.inf])
def test_counts_that_are_none(cell):
    """Negative, fractional or missing counts, named with their document."""
    with pytest.raises(ZooError, match="document 1"):
        corpus_of_counts(np.array([[1.0, 0.0], [2.0, cell]]))
    with pytest.raises(ZooError, match="code 2"):
        corpus_of_documents([[0, 2]], 2)


@pytest.mark.parametrize("symmetric", [True, False])
def test_fitted_concentration_is_the_maximum(symmetric):
    """The likelihood of the rows rises to where its gradient vanishes: that of an optimiser's answer, from the same rows."""
    rng = np.random.default_rng(2)
    counts = np.array([rng.multinomial(rng.integers(40), rng.dirichlet([0.3, 1.0, 2.0, 0.5])) for _ in range(80)])

    def loss(logs):
        return -sum(log_dirichlet_multinomial(row, np.exp(np.broadcast_to(logs, 4))) for row in counts)

    path = [fitted_concentration(counts, 1.0, symmetric, max_iter=n, tol=0.0) for n in (0, 1, 2, 5, 20, 100, 3000)]
    losses = [loss(np.log(point)) for point in path]
    assert (np.diff(losses) < 1e-9).all()
    best = optimize.minimize(loss, np.zeros(1 if symmetric else 4), method="BFGS", options={"gtol": 1e-7})
    assert losses[-1] == pytest.approx(best.fun, abs=1e-7)
    assert near(np.log(path[-1]), np.broadcast_to(best.x, 4), atol=1e-4)


def test_concentrations_of_nothing():
    """No counts: the start. A topic that no document has: the smallest concentration there is."""
    assert (fitted_concentration(np.zeros((3, 2), int), [0.5, 2.0], False) == [0.5, 2.0]).all()
    assert fitted_concentration(np.array([[3, 0], [1, 0]]), 1.0, False)[1] == tokens.SMALLEST


@pytest.mark.parametrize("kind", PRIORS)
def test_draws_have_the_posterior_means(kind):
    """Against the means in closed form, cell by cell."""
    rng = np.random.default_rng(1)
    corpus = random_corpus(rng, 4, 5, 8)
    prior = random_prior(rng, kind, corpus, 3)
    counts = counted(corpus, start_chain(corpus, prior, 0).topic, 3)

    def deviations(seed, times):
        rng, found = np.random.default_rng(seed), []
        draws = [posterior_draws(rng, counts, prior.alpha, prior.eta) for _ in range(2000 * times)]
        for mean, drawn in zip(posterior_means(counts, prior), zip(*draws, strict=True), strict=True):
            drawn = np.exp(drawn)
            assert near(drawn.sum(-1), np.ones(drawn.shape[:2]), rtol=1e-12)
            found.append(of_means(drawn, mean).ravel())
        return np.concatenate(found)

    assert_standard_normal(deviations)


def test_draws_at_tiny_concentrations():
    """Concentrations whose Gamma variables underflow still give probabilities, of finite logarithms."""
    corpus = corpus_of_documents([[], [0]], 3)
    theta, beta = posterior_draws(np.random.default_rng(0), counted(corpus, np.zeros(1, np.int32), 4), 1e-5, 1e-6)
    assert all(np.isfinite(logs).all() and logs.min() < -1000 for logs in (theta, beta))
    theta, beta = probabilities(theta), probabilities(beta)
    assert near(theta.sum(1), np.ones(2), rtol=1e-12)
    assert near(beta.sum(1), np.ones(4), rtol=1e-12)
