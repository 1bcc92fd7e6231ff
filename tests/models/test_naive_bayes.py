"""Naive Bayes with every emission: the program is the spec, sparse rows, the discriminant, boundaries of the parameters."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import is_finite
from naive_emissions import (
    EMISSIONS,
    ROWS,
    build,
    every_emission,
    fitted,
    naive_log_density,
    naive_log_prior,
    random_sites,
    table,
)
from numpyro.infer.util import log_density
from scipy import sparse
from scipy.special import logsumexp

import models.algebra
import models.base
from inference import discriminant, fit, log_likelihood, predict
from models import MODELS, Data, Model, ZooError, load_data
from models.algebra import inner
from models.emissions.counts import SparseCounts


@pytest.mark.parametrize(
    ("emission", "prior"),
    # A flat prior changes the densities of the sites alone, whatever the emission: one of them protects a change.
    [
        pytest.param(name, prior, marks=pytest.mark.slow if prior == "flat" and name != "gaussian" else [])
        for name in EMISSIONS
        for prior in ("default", "flat")
    ],
)
def test_program_equals_algebra_equals_scipy(emission, prior):
    """Labels observed, missing and sets; the complete program; < T, ν >; sites there and back; gradient = statistics."""
    model, sites = build(emission, prior=prior), random_sites(emission, np.random.default_rng(1))
    data = table(emission)
    allowed = np.array(models.data.allowed_labels(data))
    density = naive_log_density(emission, sites, data.x)
    local = np.where(allowed, density + np.log(sites["class_probs"]), -np.inf)
    prior_density = naive_log_prior(emission, model.hyper, sites) if prior == "default" else 0.0
    np.testing.assert_allclose(log_likelihood(model, sites, data), logsumexp(local, axis=1), rtol=1e-10)
    rows, algebra, hyper = model.rows(data), model.algebra, dict(model.hyper)

    @jax.jit
    def both(sites, hyper, prior, rows):
        T = algebra.natural(hyper, sites)
        features = algebra.features(hyper, rows)
        z = jax.nn.one_hot(jnp.argmax(rows.allowed_states, axis=1), 3)
        mean = algebra.latent.mean(None, algebra.local_natural_parameters(T)(features))
        ones = jnp.ones(len(mean))
        return {
            "marginal": log_density(model.spec, (hyper, rows), {"marginal": True}, sites)[0],
            "complete": log_density(
                model.spec, (hyper, rows), {"marginal": False}, sites | {"component": jnp.argmax(rows.allowed_states, axis=1)}
            )[0],
            "product": inner(T, models.algebra.add(prior, algebra.statistics(ones, z, features)))
            - (sum(family.log_partition(prior[name]) for name, family in algebra.families) if algebra.proper else 0.0),
            "back": algebra.sites(hyper, T),
            "gradient": jax.grad(lambda T: algebra.latent.log_partition(algebra.local_natural_parameters(T)(features)).sum())(
                T
            ),
            "statistics": algebra.statistics(ones, mean, features),
        }

    found = both(sites, hyper, dict(model.prior), rows)
    assert float(found["marginal"]) == pytest.approx(prior_density + logsumexp(local, axis=1).sum(), rel=1e-10)
    chosen = allowed.argmax(1)
    complete = prior_density + local[np.arange(ROWS), chosen].sum()
    assert float(found["complete"]) == pytest.approx(complete, rel=1e-10)
    carrier = complete - float(found["product"])  # what no parameter enters: the same at any other θ
    other = random_sites(emission, np.random.default_rng(2))
    again = both(other, hyper, dict(model.prior), rows)
    assert float(again["complete"]) - float(again["product"]) == pytest.approx(carrier, rel=1e-9, abs=1e-9)
    assert set(found["back"]) == set(sites)
    for name, value in sites.items():
        np.testing.assert_allclose(found["back"][name], value, rtol=1e-12)
    for left, right in zip(jax.tree.leaves(found["gradient"]), jax.tree.leaves(found["statistics"]), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-11, atol=1e-11)


def program_and_gradient(model: Model, data: Data, sites: dict[str, np.ndarray]):
    """log p(x, θ) of the program, which MAP, Laplace and NUTS run on."""
    density = partial(log_density, model.spec, (dict(model.hyper), model.rows(data)), {"marginal": True})
    return jax.jit(jax.value_and_grad(lambda sites: density(sites)[0]))(sites)


@pytest.mark.slow
@pytest.mark.parametrize("emission", ["bernoulli", "multinomial", "poisson"])
def test_sparse_rows_are_dense_rows(emission):
    """The same estimates, densities and gradients, with rows of no event at all and a word that never occurs."""
    rng = np.random.default_rng(0)
    x = rng.poisson(0.05, (40, 60)) if emission != "bernoulli" else (rng.random((40, 60)) < 0.05).astype(int)
    x[0], x[:, 3] = 0, 0
    labels = list("ab" * 20)
    data = [load_data(source, labels=labels) for source in (x, sparse.csr_array(x))]
    stored = [build(emission, one).rows(one).x for one in data]
    assert [isinstance(getattr(x, "value", x), SparseCounts) for x in stored] == [False, True]
    trees = [fit(build(emission, one), one, method="em") for one in data]
    for name in trees[0]["point_estimate"].data_vars:
        np.testing.assert_allclose(*(tree["point_estimate"][name].values for tree in trees), rtol=1e-12)
    np.testing.assert_allclose(*(tree["log_likelihood"]["x"].values for tree in trees), rtol=1e-12)
    sites = {str(name): value.values for name, value in trees[0]["point_estimate"].data_vars.items()}
    found = [program_and_gradient(build(emission, one), one, sites) for one in data]
    for left, right in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10)  # gradients are sums of counts, here 0: an optimum


def test_default_rates_follow_weights_and_columns():
    """The prior mean of a rate is its column's weighted mean, with half an event for columns without any."""
    x = np.array([[2.0, 0.0], [4.0, 0.0], [9.0, 0.0]])
    weight = np.array([1.0, 2.0, 0.0])
    model = build("poisson", load_data(x, labels=["a", "b", "a"], weight=weight))
    np.testing.assert_allclose(model.hyper["shape"] / model.hyper["inverse_scale"], [10.5 / 3, 0.5 / 3], rtol=1e-12)


def test_default_rates_are_of_the_cells_that_are_observed():
    """With cells missing every column has the mean of its own, by weight, and half an event (errata E19)."""
    x = np.array([[2.0, 0.0], [4.0, np.nan], [9.0, np.nan], [np.nan, np.nan]])
    weight = np.array([3.0, 2.0, 0.0, 1.0])
    rates = []
    for data in (load_data(x, labels=list("abab")), load_data(x, labels=list("abab"), weight=weight)):
        hyper = build("poisson", data).hyper
        rates.append(hyper["shape"] / hyper["inverse_scale"])
    np.testing.assert_allclose(rates, [[15.5 / 3, 0.5], [14.5 / 5, 0.5 / 3]], rtol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Document 000's discriminant, boundaries, and the prior that smooths one side


def log_odds(model: Model, found, data: Data) -> np.ndarray:
    """bias + Σ_f < weight_f, φ_f(x) >: (N, C)."""
    odds = found["bias"].values[None]
    for name, value in model.abilities.discriminant.features(model.rows(data)).items():
        weight = found[f"weight_{name}"].values
        odds = odds + np.asarray(value, float).reshape(len(value), -1) @ weight.reshape(len(weight), -1).T
    return odds


@pytest.mark.slow
@every_emission
def test_discriminant_is_the_log_odds(emission):
    """bias + < weights, φ(x) > = log p(y | x) − log p(reference | x) to 1e-10, at a point and at draws."""
    model, sites = build(emission), random_sites(emission, np.random.default_rng(3))
    data = table(emission)._replace(labels=None, label=None, levels=(), candidates=None)
    logs = np.log(predict(model, sites, data)["probs"].values)
    found = discriminant(model, sites, reference="b")
    np.testing.assert_allclose(log_odds(model, found, data), logs - logs[:, [1]], atol=1e-10)
    draws = discriminant(model, fitted(emission, "exact"))
    assert draws["bias"].dims == ("chain", "draw", "class")
    np.testing.assert_array_equal(draws["bias"].sel({"class": "a"}), 0.0)


def test_count_form_of_the_discriminant():
    """Document 000 2(d): weights log n(1,1) n(0,0) / (n(1,0) n(0,1)), and the bias with (N − 1) log n(0) / n(1)."""
    rng = np.random.default_rng(7)
    y = np.arange(60) % 3 == 0
    x = (rng.random((60, 5)) < np.where(y[:, None], 0.6, 0.35)).astype(float)
    data = load_data(x, labels=list(np.where(y, "1", "0")))
    model = MODELS["naive_bayes"](data, prior="flat")
    found = discriminant(model, fit(model, data, method="em")).sel({"class": "1"})
    count = {(value, label): ((x == value) & (y == label)[:, None]).sum(0) for value in (0, 1) for label in (0, 1)}
    weight = np.log(count[1, 1] * count[0, 0] / (count[1, 0] * count[0, 1]))
    bias = (5 - 1) * np.log((~y).sum() / y.sum()) + np.log(count[0, 1] / count[0, 0]).sum()
    np.testing.assert_allclose(found["weight_x"], weight, atol=1e-13)  # differences of logs below 10
    assert float(found["bias"]) == pytest.approx(bias, rel=1e-10)


def boundary_data() -> Data:
    """Column 0: never seen; 1: in every row; 2: in every row of b only; 3: mixed."""
    x = np.array([[0, 1, 0, 1], [0, 1, 0, 0], [0, 1, 1, 1], [0, 1, 1, 0], [0, 1, 1, 1]])
    return load_data(x, labels=list("aabbb"))


@pytest.mark.slow
def test_words_never_and_always_seen():
    """A proper prior has finite weights and probabilities; maximum likelihood reports its boundary and stays a density."""
    data = boundary_data()
    proper, flat = (MODELS["naive_bayes"](data, prior=prior) for prior in ("default", "flat"))
    tree = fit(proper, data, method="em")
    assert is_finite(tree)
    assert all(np.isfinite(value).all() for value in discriminant(proper, tree).data_vars.values())
    tree = fit(flat, data, method="em")
    assert "6 of 8 entries of feature_probs are 0 or 1" in tree.attrs["warnings"]
    counted = 2 * np.log(2 / 5) + 3 * np.log(3 / 5) + 2 * np.log(1 / 2) + 2 * np.log(2 / 3) + np.log(1 / 3)
    assert float(tree["functionals"]["log_likelihood"]) == pytest.approx(counted, rel=1e-12)
    found = discriminant(flat, tree, reference="b")
    assert "infinite" in found.attrs["warnings"]
    assert (found["weight_x"].sel({"class": "b"}) == 0).all()
    with pytest.raises(ZooError, match="row 1 has density 0 in every class"):
        predict(flat, tree, load_data(np.array([[1, 1, 0, 0]])))


@pytest.mark.slow
def test_one_sided_prior_is_the_documents_with_its_warning():
    """Beta(α, 1): mode (n₁ + α − 1) / (n + α − 1), weights still infinite for words in every row (errata E1, E2)."""
    data, alpha = boundary_data(), 3.0
    model = MODELS["naive_bayes"](data, prior=f"one_sided({alpha})")
    tree = fit(model, data, method="em")
    n = np.array([2, 3])[:, None]
    ones = np.array([data.x[data.labels == c].sum(0) for c in range(2)])
    np.testing.assert_allclose(tree["point_estimate"]["feature_probs"], (ones + alpha - 1) / (n + alpha - 1), rtol=1e-12)
    np.testing.assert_allclose(tree["point_estimate"]["class_probs"], [0.4, 0.6], rtol=1e-12)
    assert "b = 1 does not smooth" in tree.attrs["warnings"]
    assert "infinite" in discriminant(model, tree).attrs["warnings"]
    symmetric = MODELS["naive_bayes"](data, prior="beta(3,3)")
    assert not symmetric.summaries.warnings
    found = fit(symmetric, data, method="em")["point_estimate"]["feature_probs"]
    np.testing.assert_allclose(found, (ones + 2) / (n + 4), rtol=1e-12)
    with pytest.raises(ZooError, match="no interior mode"):
        fit(MODELS["naive_bayes"](data, prior="one_sided(0.5)"), data, method="em")
