"""Samplers against the truth: Geweke's joint-distribution test, and brute-force enumeration of all assignments."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from inference import fit
from inference.evaluate import evaluate
from inference.fitting import as_arrays
from inference.gibbs import step
from inference.sweep import sweep  # noqa: F401 - the kernel under test goes through it
from models import MODELS, load_data
from models.base import add, at_sample

FALSE_ALARM = 1e-4  # of one whole test, over all its comparisons


def bound(comparisons):
    """Two-sided z-value with the test's false-alarm rate after Bonferroni."""
    return norm.isf(FALSE_ALARM / comparisons / 2)


def informative(covariance, num_columns):
    """A prior with finite moments of all test functions."""
    dof = {"full": num_columns + 10.0, "tied": num_columns + 10.0, "diag": 12.0, "spherical": 12.0}[covariance]
    return {
        "component": {"location": 0.0, "strength": 0.5, "dof": dof, "scatter": 8.0},
        "mixture_probs": {"concentration": 3.0},
    }


def moments(algebra, hyper, T, rows):
    """Test functions of θ and x whose expectations both simulators must share."""
    sites = algebra.sites(hyper, T)
    precision = sites["precision"]
    diagonal = jnp.diagonal(precision, axis1=-2, axis2=-1) if precision.shape[-1:] * 2 == precision.shape[-2:] else precision
    return jnp.concatenate([
        jnp.ravel(sites["mean"]),
        jnp.ravel(jnp.log(diagonal)),
        sites["mixture_probs"],
        jnp.sort(sites["mixture_probs"]) ** 2,
        rows.x.mean(0),
        jnp.tanh((rows.x**2).mean(0) / 10),
        jnp.ravel(jnp.tanh(sites["mean"] * rows.x.mean(0)[None, :])),
    ])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_gibbs_passes_geweke(covariance):
    """θ, x drawn forward agree with θ, x from Gibbs sweeps that alternate with fresh data (Geweke 2004).

    z-scores with batch-means standard errors (50 batches of the successive draws); false-alarm rate 1e-4 a test.
    """
    num_rows, num_columns, size = 5, 2, 20_000
    data = load_data(np.random.default_rng(0).normal(size=(num_rows, num_columns)))
    model = MODELS["gmm"](data, num_components=2, covariance=covariance, prior=informative(covariance, num_columns))
    algebra = model.algebra
    hyper, prior = as_arrays((dict(model.hyper), dict(model.prior)))

    def forward(key):
        key_theta, key_x = jax.random.split(key)
        T = at_sample(algebra, key_theta, prior)
        rows = model.simulate(key_x, hyper, algebra.sites(hyper, T), num_rows)
        return T, rows, moments(algebra, hyper, T, rows)

    def successive(state, key):
        T, rows = state
        key_gibbs, key_x = jax.random.split(key)
        T, _, _ = step(algebra, (hyper, prior, rows), key_gibbs, T)
        rows = model.simulate(key_x, hyper, algebra.sites(hyper, T), num_rows)
        return (T, rows), moments(algebra, hyper, T, rows)

    independent = jax.jit(jax.vmap(lambda key: forward(key)[2]))(jax.random.split(jax.random.PRNGKey(1), size))
    T, rows, _ = forward(jax.random.PRNGKey(2))
    chain = jax.jit(lambda keys: jax.lax.scan(successive, (T, rows), keys)[1])(
        jax.random.split(jax.random.PRNGKey(3), 5 * size)
    )
    batches = np.asarray(chain).reshape(50, -1, chain.shape[1]).mean(1)
    error = np.sqrt(np.var(independent, axis=0) / size + batches.var(axis=0, ddof=1) / 50)
    z = (np.mean(independent, axis=0) - batches.mean(0)) / error
    assert np.abs(z).max() < bound(len(z)) * 1.15, z  # Student's t with 49 degrees of freedom in place of the Normal


def brute_force(model, data, num_draws, key):
    """(log evidence, exact posterior draws of the sites): every assignment, its evidence, and θ given it."""
    algebra = model.algebra
    hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), model.rows(data)))
    num_rows, num_columns = data.x.shape
    features = algebra.features(hyper, rows)
    assignments = jax.nn.one_hot(np.array(list(product(range(2), repeat=num_rows))), 2)
    log_z = lambda nu: sum(family.log_partition(nu[name]) for name, family in algebra.families)  # noqa: E731
    nus = jax.vmap(lambda z: add(prior, algebra.statistics(jnp.ones(num_rows), z, features)))(assignments)
    carrier = -0.5 * num_rows * num_columns * np.log(2 * np.pi)
    evidence = np.asarray(jax.vmap(log_z)(nus)) - float(log_z(prior)) + carrier
    total = logsumexp(evidence)
    chosen = np.random.default_rng(0).choice(len(evidence), size=num_draws, p=np.exp(evidence - total))
    picked = jax.tree.map(lambda leaf: leaf[chosen], nus)
    draw = jax.jit(jax.vmap(lambda key, nu: algebra.sites(hyper, at_sample(algebra, key, nu))))
    return total, jax.tree.map(np.asarray, draw(jax.random.split(key, num_draws), picked))


@pytest.fixture(scope="module")
def tiny():
    """Eight rows in two overlapping groups, a model, its exact evidence, and exact draws of its functionals."""
    x = np.random.default_rng(4).normal(size=(8, 2)) + np.repeat([[-1.0, 0.0], [1.5, 1.0]], 4, axis=0)
    data = load_data(x)
    model = MODELS["gmm"](data, num_components=2, covariance="diag", prior=informative("diag", 2))
    log_evidence, draws = brute_force(model, data, 20_000, jax.random.PRNGKey(0))
    hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), model.rows(data)))
    return data, model, log_evidence, evaluate(model, hyper, prior, rows, draws).functionals


@pytest.mark.slow
@pytest.mark.parametrize(("method", "num_samples"), [("gibbs", 10_000), ("nuts", 3_000)])
def test_samplers_agree_with_enumeration(tiny, method, num_samples):
    """Means of the functionals equal the exact posterior's within Monte Carlo error; false-alarm rate 1e-4 a test."""
    import arviz_stats

    data, model, _, exact = tiny
    tree = fit(
        model, data, method=method, num_samples=num_samples, seed=1, **({"target_accept": 0.95} if method == "nuts" else {})
    )
    z = []
    for name in ("log_joint", "log_likelihood", "sorted_probs", "entropy", "co_clustering"):
        values = tree["functionals"].to_dataset()[name]
        error = np.asarray(arviz_stats.mcse(values.to_dataset(name="value"))["value"])
        truth = exact[name]
        z.append(np.ravel((values.mean(("chain", "draw")) - truth.mean(0)) / np.sqrt(error**2 + truth.var(0) / len(truth))))
    scores = np.concatenate(z)
    assert np.abs(scores).max() < bound(len(scores)), scores


def test_elbo_is_monotone_and_below_the_evidence(tiny):
    """CAVI's bound never falls (to 1e-9 of its size) and stays below the enumerated log evidence."""
    data, model, log_evidence, _ = tiny
    tree = fit(model, data, method="cavi", num_samples=10)
    traces = tree["optimization"].to_dataset()["criterion"].values
    gains = np.diff(traces, axis=1)
    assert np.nanmin(gains) > -1e-9 * (1 + np.nanmax(np.abs(traces)))
    assert np.nanmax(traces) < log_evidence
    assert tree.attrs["elbo"] == pytest.approx(np.nanmax(traces), rel=1e-9)


def test_laplace_evidence_is_near_the_truth(tiny):
    """Importance sampling from the Laplace approximation estimates the evidence where k-hat says it may."""
    data, model, log_evidence, _ = tiny
    tree = fit(model, data, method="laplace", num_samples=5000)
    if tree.attrs["pareto_k"] < 0.5:
        assert tree.attrs["log_evidence_importance"] == pytest.approx(log_evidence, abs=0.2 + np.log(2))
    assert tree.attrs["log_evidence_laplace"] < log_evidence + np.log(2)
