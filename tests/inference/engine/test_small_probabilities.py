"""Probabilities that are too small for a number: their densities are taken in logarithms, as they were drawn."""

from functools import cache

import jax
import numpy as np
import pytest
from naive import is_finite, near
from scipy.special import gammaln
from six_documents import COUNTS, DATA, K, M

from inference import fit, identify
from inference.engine.evaluate import evaluate
from inference.methods import cavi, gibbs
from models import MODELS
from models.algebra import at_sample
from models.topics.sampling.corpus import log_dirichlet

ALPHA = 0.002
METHODS = {
    "gibbs": {"num_warmup": 20},
    "cavi": {"num_starts": 2, "max_iter": 50},
    "collapsed_gibbs": {"num_warmup": 20},
}
TOPIC, WORD = "topic_probs", "word_probs"


@cache
def topics():
    return MODELS["latent_dirichlet"](DATA, num_topics=K, topic_concentration=ALPHA, word_concentration=ALPHA)


@cache
def fitted(method):
    return fit(topics(), DATA, method=method, num_samples=50, num_chains=2, **METHODS[method])


def naive_dirichlet(logs):
    """Σ over rows of the log density at α, from logs of probabilities, entry by entry."""
    total = 0.0
    for row in logs:
        total += gammaln(ALPHA * len(row)) - len(row) * gammaln(ALPHA)
        for log in row:
            total += (ALPHA - 1) * log
    return total


def naive_log_joint(T):
    """Of log proportions and log word probabilities, all sums in logarithms."""
    return naive_dirichlet(T[TOPIC]) + naive_dirichlet(T[WORD]) + naive_log_likelihood(T)


def naive_log_likelihood(T):
    """Of words, given log proportions and log word probabilities."""
    total = 0.0
    for d in range(M):
        total += gammaln(COUNTS[d].sum() + 1) - gammaln(COUNTS[d] + 1).sum()
        for v in range(COUNTS.shape[1]):
            total += COUNTS[d, v] * np.logaddexp.reduce(T[TOPIC][d] + T[WORD][:, v])
    return total


def same_as_stored(T, sites):
    """Whether what is stored as zero, or nearly, adds nothing: each word has another topic that is far more probable."""
    stored = {name: np.where(sites[name] < 1e-300, -1e6, T[name]) for name in T}
    return abs(naive_log_likelihood(stored) - naive_log_likelihood(T)) < 1e-9


def of_gibbs(model, rows):
    """(T, sites, their log prior) of 20 sweeps, one after another."""
    T = jax.tree.map(lambda leaf: leaf[0], of_cavi(model, rows)[0])
    found = []
    for index in range(20):
        arrays = (dict(model.hyper), dict(model.prior), rows)
        T, (sites, log_prior, _), _ = jax.jit(gibbs.step, static_argnums=0)(model.algebra, arrays, jax.random.PRNGKey(index), T)
        found.append((T, sites, log_prior))
    return [jax.tree.map(lambda *leaves: np.stack(leaves), *part) for part in zip(*found, strict=True)]


def of_cavi(model, rows):
    """The same of 20 draws from the prior as q."""
    keys = jax.random.split(jax.random.PRNGKey(0), 20)
    prior = dict(model.prior)
    sites, log_prior, _ = cavi.draws(model.algebra, dict(model.hyper), prior, keys, prior)
    return jax.jit(lambda: jax.lax.map(lambda key: at_sample(model.algebra, key, prior), keys))(), sites, log_prior


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [of_gibbs, of_cavi])
def test_the_log_joint_of_draws_is_that_of_their_logarithms(drawn):
    """Also of draws with probabilities below 1e-308, of which there are several; others are evaluated at what is stored."""
    model = topics()
    rows = jax.tree.map(np.asarray, model.rows(DATA))
    T, sites, log_prior = jax.tree.map(np.asarray, drawn(model, rows))
    assert sum((sites[TOPIC][s] == 0).any() for s in range(20)) > 3
    at = evaluate(model, dict(model.hyper), dict(model.prior), rows, sites, at_draws=log_prior)
    of_draws = [{name: leaf[s] for name, leaf in T.items()} for s in range(20)]
    # A draw from the prior may leave a word without its topic
    possible = np.array([same_as_stored(T, {name: sites[name][s] for name in T}) for s, T in enumerate(of_draws)])
    assert possible.sum() > 3
    assert near(log_prior, [naive_dirichlet(T[TOPIC][s]) + naive_dirichlet(T[WORD][s]) for s in range(20)], rtol=1e-10)
    assert near(at.log_joint[possible], np.array([naive_log_joint(T) for T in of_draws])[possible], rtol=1e-10)
    whole = evaluate(model, dict(model.hyper), dict(model.prior), rows, sites).log_joint
    held = ~np.array([(sites[TOPIC][s] < 1e-300).any() or (sites[WORD][s] < 1e-300).any() for s in range(20)])
    np.testing.assert_array_equal(at.log_joint[held], whole[held])


def test_the_density_of_a_dirichlet_in_logarithms():
    logs = np.log(np.random.default_rng(0).dirichlet(np.full(4, 0.5), 3)) - np.array([[0.0], [0.0], [800.0]])
    assert log_dirichlet(logs, ALPHA) == pytest.approx(naive_dirichlet(logs), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_no_infinity_at_tiny_concentrations(method):
    """Functionals of all draws, among them such with probabilities of 0, are finite, and of chains their R-hat and ESS."""
    from inference.diagnostics.summaries import summarise

    tree = fitted(method)
    assert (tree["posterior"][TOPIC].values == 0).any()
    assert is_finite(tree)
    summary = summarise(tree, "functionals")
    assert np.isfinite(summary.loc["log_joint"].astype(float)).all()
    assert ("r_hat" in summary) == (tree.attrs["draws"] == "chains")
    assert "log_joint is" not in tree.attrs["warnings"]


@pytest.mark.slow
def test_log_priors_of_what_has_underflowed_are_left_out():
    """With a note; those of the other sites are there, and finite."""
    tree = fit(topics(), DATA, method="gibbs", num_samples=50, num_chains=2, num_warmup=20, predictive=True)
    lost = {name for name in (TOPIC, WORD) if (tree["posterior"][name].values == 0).any()}
    assert TOPIC in lost
    assert set(tree["log_prior"].data_vars) == {TOPIC, WORD} - lost
    assert all(np.isfinite(value).all() for value in tree["log_prior"].data_vars.values())
    assert f"draws of {', '.join(name for name in (TOPIC, WORD) if name in lost)} are too small" in tree.attrs["warnings"]


@pytest.mark.slow
def test_draws_are_identified_again_by_finite_densities():
    """What is stored is enough to find the draw of the highest density, which the others are compared with."""
    tree = fitted("gibbs")
    again = identify(tree, topics(), DATA)
    for name in (TOPIC, WORD):
        np.testing.assert_array_equal(again["posterior"][name], tree["posterior"][name])
