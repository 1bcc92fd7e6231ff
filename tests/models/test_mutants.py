"""The wrong formulas of the documents, kept as functions that the identity checks must reject (errata E17, E18, E20)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import build, m_step, table
from scipy import optimize

from models.algebra import add

A, B, BETA, LOCATION = 2.5, 1.3, 0.7, 0.4  # μ | λ ~ N(m, 1/(βλ)), λ ~ Gamma(a, b)
X = np.random.default_rng(0).normal(2.0, 1.5, 12)


def map_mean(x):
    """(β m + N x̄) / (β + N): shared by right and wrong variances."""
    return (BETA * LOCATION + x.sum()) / (BETA + len(x))


def map_variance(x, excess):
    """[2b + N var + β N / (β + N) (x̄ − m)²] / (N + 2a + excess): right in (μ, λ) with excess = −1."""
    size, shrink = len(x), BETA * len(x) / (BETA + len(x))
    return (2 * B + size * x.var() + shrink * (x.mean() - LOCATION) ** 2) / (size + 2 * A + excess)


def log_joint(mean, tau, x):
    """log p(x, μ, λ) up to a constant, term by term."""
    likelihood = (0.5 * jnp.log(tau) - 0.5 * tau * (x - mean) ** 2).sum()
    prior = 0.5 * jnp.log(tau) - 0.5 * BETA * tau * (mean - LOCATION) ** 2 + (A - 1) * jnp.log(tau) - B * tau
    return likelihood + prior


def stationary(mean, variance):
    """Whether the gradient in (μ, λ) vanishes: rounding is 1e-16 of terms of size N."""
    gradient = jax.grad(log_joint, (0, 1))(mean, 1 / variance, X)
    return max(abs(float(part)) for part in gradient) < 1e-10


def test_right_variance_is_stationary():
    assert stationary(map_mean(X), map_variance(X, -1))


@pytest.mark.parametrize("excess", [-3, 1, 3], ids=["eta", "log-lambda", "sigma-squared"])
def test_modes_of_other_coordinates_are_rejected(excess):
    """E17, E20: the modes over η, log λ and σ² carry a Jacobian; over the precision they are not stationary."""
    assert not stationary(map_mean(X), map_variance(X, excess))


@pytest.mark.parametrize(("excess", "jacobian"), [(-1, 0), (1, 1), (3, 2)], ids=["lambda", "log-lambda", "sigma-squared"])
def test_each_denominator_belongs_to_a_jacobian(excess, jacobian):
    """SciPy's maximum of log p + j log λ is at the denominator N + 2a + 2j − 1: the mutants are modes, of other densities."""

    def energy(log_tau):
        tau = np.exp(log_tau)
        return -float(log_joint(map_mean(X), tau, X)) - jacobian * log_tau

    found = optimize.minimize_scalar(energy, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10})
    assert np.exp(-found.x) == pytest.approx(map_variance(X, excess), rel=1e-5)


def test_the_zoo_has_the_right_denominator():
    """One component, one column: the family's mode is the stationary one and none of the mutants."""
    prior = {"component": {"location": LOCATION, "strength": BETA, "dof": 2 * A, "scatter": 2 * B}}
    model = build(X[:, None], "diag", 1, prior=prior)
    features = model.algebra.features(model.hyper, model.rows(table(X[:, None])))
    nu = add(dict(model.prior), model.algebra.statistics(jnp.ones(12), jnp.ones((12, 1)), features))
    families = dict(model.algebra.families)
    sites = model.algebra.sites(model.hyper, {name: family.mode(nu[name]) for name, family in families.items()})
    assert float(sites["mean"][0, 0]) == pytest.approx(map_mean(X), rel=1e-13)
    assert 1 / float(sites["precision"][0, 0]) == pytest.approx(map_variance(X, -1), rel=1e-13)
    assert stationary(sites["mean"][0, 0], 1 / sites["precision"][0, 0])


def document_variance(x):
    """E18, as printed for β = 0: [b + N <x²>] / (2a − 1 + N) − <x>²."""
    return (B + len(x) * (x**2).mean()) / (2 * A - 1 + len(x)) - x.mean() ** 2


def doubled_variance(x):
    """E18 with 2b for b alone: still wrong."""
    return (2 * B + len(x) * (x**2).mean()) / (2 * A - 1 + len(x)) - x.mean() ** 2


def right_variance(x):
    """[2b + N (<x²> − <x>²)] / (N + 2a − 1)."""
    return (2 * B + len(x) * x.var()) / (len(x) + 2 * A - 1)


def is_a_variance(function):
    """Positive, and unchanged when the data are shifted."""
    values = np.array([function(X + offset) for offset in (-100.0, 0.0, 100.0)])
    return bool((values > 0).all() and np.ptp(values) < 1e-9 * abs(values).max())


def test_right_variance_is_a_variance():
    assert is_a_variance(right_variance)


@pytest.mark.parametrize("mutant", [document_variance, doubled_variance])
def test_documents_variance_is_rejected(mutant):
    assert not is_a_variance(mutant)


def test_maximum_likelihood_step_is_shift_invariant():
    """The naive step that other tests rely on passes the same check."""

    def variance(x):
        return 1 / m_step("diag", {}, np.ones((len(x), 1)), x[:, None], learned=False)["precision"][0, 0]

    assert is_a_variance(variance)
