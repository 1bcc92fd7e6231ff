"""Markov naive Bayes: chains of tokens a class, against token-by-token sums; sequences of length 0 and 1."""

from itertools import cycle, pairwise

import jax
import numpy as np
import pytest
from naive import SHORT, is_finite
from naive_markov import FORMS, alphabet, build, every_form, naive, naive_prior, random_sites, rows_of, table, with_labels
from numpyro.infer.util import log_density
from scipy.special import logsumexp

from inference import METHODS, discriminant, fit, log_likelihood, predict
from models import MODELS, Model, ZooError, load_data
from models.data import allowed_labels
from models.data.documents import documents
from models.emissions.markov import Alphabet, concentrations, markov


@every_form
def test_program_equals_algebra_equals_the_sum_over_tokens(form):
    """Marginal and complete program, log-likelihoods, sites there and back; with empty, one-token and half-labelled rows."""
    model, data = build(form), table(form)
    sites = random_sites(model, form)
    allowed = allowed_labels(data)
    density = np.array([[naive(form, sites, row, c) for c in range(2)] for row in rows_of(form)])
    local = np.where(allowed, density + np.log(sites["class_probs"]), -np.inf)
    np.testing.assert_allclose(log_likelihood(model, sites, data), logsumexp(local, axis=1), rtol=1e-10, atol=1e-12)
    rows, hyper = model.rows(data), dict(model.hyper)
    z = allowed.argmax(1)

    @jax.jit
    def both(sites):
        T = model.algebra.natural(hyper, sites)
        marginal = log_density(model.spec, (hyper, rows), {"marginal": True}, sites)[0]
        complete = log_density(model.spec, (hyper, rows), {"marginal": False}, sites | {"component": z})[0]
        algebra = model.algebra.local_natural_parameters(T)(model.algebra.features(hyper, rows))
        return marginal, complete, models_log_prior(model, T), algebra, model.algebra.sites(hyper, T)

    marginal, complete, prior, found, back = both(sites)
    expected = naive_prior(form, model, sites)
    assert float(prior) == pytest.approx(expected, rel=1e-10)
    assert float(marginal) == pytest.approx(expected + logsumexp(local, axis=1).sum(), rel=1e-10)
    assert float(complete) == pytest.approx(expected + local[np.arange(len(z)), z].sum(), rel=1e-10)
    np.testing.assert_allclose(found, local, rtol=1e-10, atol=1e-12)
    for name, value in sites.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-12)


def models_log_prior(model: Model, T):
    from models.algebra import log_prior

    return log_prior(model.algebra, dict(model.prior), T)


# Every form by `map`, which is compared with `em`; every other method on one form (all of them on the default form:
# tests/test_contract.py).
OTHERS = [method for method in METHODS if method not in ("map", "em", "collapsed_gibbs")]


@pytest.mark.slow
@pytest.mark.parametrize(("form", "method"), [*((form, "map") for form in FORMS), *zip(cycle(FORMS), OTHERS)])
def test_every_method_runs(form, method):
    tree = fit(build(form), table(form), method=method, seed=1, **SHORT[method])
    assert is_finite(tree)
    if method == "map":
        em = fit(build(form), table(form), method="em", seed=1, **SHORT["em"])["functionals"]["log_joint"]
        assert float(tree["functionals"]["log_joint"]) == pytest.approx(float(em), rel=1e-6)


def test_maximum_likelihood_counts_transitions():
    """Shares of first tokens and of successors, class by class; rows never left stay undefined and are reported."""
    data = with_labels(documents([list(text) for text in ["abba", "ab", "cacc", "cab"]]), ["x", "x", "y", "y"])
    model = MODELS["markov_naive_bayes"](data, prior="laplace")
    found = fit(model, data, method="em")["point_estimate"]
    transitions = np.zeros((2, 3, 3))
    for text, c in zip(["abba", "ab", "cacc", "cab"], [0, 0, 1, 1], strict=True):
        for before, after in pairwise(text):
            transitions[c, "abc".index(before), "abc".index(after)] += 1
    smoothed = transitions + 1
    np.testing.assert_allclose(found["transition_probs"], smoothed / smoothed.sum(-1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(found["initial_probs"], [[3 / 5, 1 / 5, 1 / 5], [1 / 5, 1 / 5, 3 / 5]], rtol=1e-12)
    with pytest.raises(ZooError, match="undefined, because nothing was counted"):
        fit(MODELS["markov_naive_bayes"](data, prior="flat"), data, method="em")


def test_equal_rows_are_the_bag_of_words():
    """Transitions that forget the token before: the same class probabilities as multinomial naive Bayes (errata E4)."""
    data = table("pairs")
    model, bag = build("pairs"), MODELS["naive_bayes"](data, emission="multinomial")
    words = np.random.default_rng(1).dirichlet([2.0, 2.0, 2.0], 2)
    probs = np.array([0.4, 0.6])
    chain = {"class_probs": probs, "initial_probs": words, "transition_probs": np.repeat(words[:, None], 3, axis=1)}
    left = predict(model, chain, data)["probs"]
    np.testing.assert_allclose(left, predict(bag, {"class_probs": probs, "word_probs": words}, data)["probs"], rtol=1e-10)


@every_form
def test_discriminant_is_the_log_odds(form):
    """Linear in counts of events, or for binary columns in (1, x_i, x_i x_{i−1}): to 1e-10 (errata E4)."""
    model, data = build(form), table(form)
    sites = random_sites(model, form)
    found = discriminant(model, sites)
    odds = found["bias"].values[None]
    for name, value in model.abilities.discriminant.features(model.rows(data)).items():
        weight = found[f"weight_{name}"].values
        odds = odds + np.asarray(value).reshape(len(value), -1) @ weight.reshape(len(weight), -1).T
    logs = np.log(predict(model, sites, data)["probs"].values)
    np.testing.assert_allclose(odds, logs - logs[:, :1], atol=1e-10)
    if form == "positions":
        assert set(found.data_vars) == {"bias", "weight_x", "weight_xx"}


# ---------------------------------------------------------------------------------------------------------------------
# New documents, and mistakes


@pytest.mark.parametrize("form", ["pairs", "seen"])
def test_unknown_tokens_say_nothing(form):
    """A transition from or to a token outside the vocabulary is no event; an empty document has the classes' own odds."""
    model = build(form)
    sites = random_sites(model, form)
    new = documents([list("ab"), list("ab?"), list("ab?a"), list("?"), [], list("?ab"), list("c?ab")])
    probs = predict(model, sites, new)["probs"].values
    np.testing.assert_allclose(probs[1:3], np.tile(probs[0], (2, 1)), rtol=1e-12)
    np.testing.assert_allclose(probs[3:5], np.tile(sites["class_probs"], (2, 1)), rtol=1e-12)
    # Behind an unknown token comes no first token: "?ab" is the transition a → b alone, "c?ab" has c as its first.
    transition = sites["transition_probs"][:, 0, 1] if form == "pairs" else sites["transition_probs"][:, place_of_ab()]
    weights = sites["class_probs"] * transition
    np.testing.assert_allclose(probs[5], weights / weights.sum(), rtol=1e-12)
    weights = weights * sites["initial_probs"][:, 2]
    np.testing.assert_allclose(probs[6], weights / weights.sum(), rtol=1e-12)


def place_of_ab() -> int:
    return [pair % 3 for pair in alphabet("seen").seen if pair // 3 == 0].index(1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MODELS["markov_naive_bayes"](load_data("iris")), "is a table: give documents"),
        (lambda: MODELS["markov_naive_bayes"](load_data("iris"), homogeneous=False), "needs 0 and 1"),
        (lambda: MODELS["markov_naive_bayes"](table("pairs"), homogeneous=False), "holds documents"),
        (lambda: MODELS["markov_naive_bayes"](load_data([[1.0], [0.0]], labels=["a", "b"]), homogeneous=False), "one column"),
        (lambda: MODELS["markov_naive_bayes"](table("pairs"), homogeneous="yes"), "must be true or false"),
        (lambda: build("pairs", prior={"class": {"unseen_concentration": 2}}), "the names in this block are"),
        (lambda: MODELS["markov_naive_bayes"](with_labels(documents([["a"], ["b"]]), ["x", "x"])), "only one class"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ZooError, match=words):
        make()


def test_one_block_for_equal_alphabets():
    """So that jitted code recognises it."""
    assert markov(Alphabet(3)) is markov(Alphabet(3))
    assert concentrations(Alphabet(3), 1.1).keys() == {"initial_concentration", "transition_concentration"}


@pytest.mark.slow
def test_the_unit_of_new_texts_is_the_models():
    """Texts read as words mean nothing to a model of characters, and the other way round: said, not guessed."""
    lines, kinds = ["def f(x): return x", "the quick brown fox jumps"] * 4, ["code", "prose"] * 4
    for unit, other in (("character", "word"), ("word", "character")):
        data = load_data(lines, unit=unit, labels=kinds)
        model = MODELS["markov_naive_bayes"](data)
        tree = fit(model, data, method="em")
        with pytest.raises(ZooError, match=f"read it with unit={unit}"):
            predict(model, tree, load_data(lines, unit=other))
    assert predict(model, tree, load_data(["I"]))["probs"].shape == (1, 2)
