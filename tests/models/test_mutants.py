"""The modes of document 004 in the zoo are stationary, the mutants of `errata_columns` are not (errata E17, E18, E20)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from errata_columns import (
    BETA,
    LOCATION,
    A,
    B,
    document_variance,
    doubled_variance,
    found_mode,
    log_joint,
    map_mean,
    map_variance,
    right_variance,
)
from naive import build, m_step, table
from slopes import gradient

from models.algebra import add

X = np.random.default_rng(0).normal(2.0, 1.5, 12)
PRIOR = (A, B, BETA, LOCATION)
MEAN = map_mean(X, BETA, LOCATION)


def stationary(mean, variance):
    """Whether the gradient in (μ, λ) vanishes: rounding is 1e-16 of terms of size N."""
    parts = (
        gradient(lambda at: log_joint(at, 1 / variance, X, *PRIOR), mean),
        gradient(lambda at: log_joint(mean, at, X, *PRIOR), 1 / variance),
    )
    return max(abs(part) for part in parts) < 1e-10


def test_right_variance_is_stationary():
    assert stationary(MEAN, map_variance(X, *PRIOR))


@pytest.mark.parametrize("excess", [-3, 1, 3], ids=["eta", "log-lambda", "sigma-squared"])
def test_modes_of_other_coordinates_are_rejected(excess):
    """E17, E20: the modes over η, log λ and σ² carry a Jacobian; over the precision they are not stationary."""
    assert not stationary(MEAN, map_variance(X, *PRIOR, excess))


@pytest.mark.parametrize(("excess", "jacobian"), [(-1, 0), (1, 1), (3, 2)], ids=["lambda", "log-lambda", "sigma-squared"])
def test_each_denominator_belongs_to_a_jacobian(excess, jacobian):
    """The mode of log p + j log λ is at the denominator N + 2a + 2j − 1: the mutants are modes, of other densities."""
    found = found_mode(X, *PRIOR, jacobian)
    assert found == pytest.approx([MEAN, map_variance(X, *PRIOR, excess)], rel=1e-12)


def test_the_zoo_has_the_right_denominator():
    """One component, one column: the family's mode is the stationary one and none of the mutants."""
    prior = {"component": {"location": LOCATION, "strength": BETA, "dof": 2 * A, "scatter": 2 * B}}
    model = build(X[:, None], "diag", 1, prior=prior)

    @jax.jit
    def updated(rows, z):
        nu = add(dict(model.prior), model.algebra.statistics(jnp.ones(12), z, model.algebra.features(model.hyper, rows)))
        families = dict(model.algebra.families)
        return model.algebra.sites(model.hyper, {name: family.mode(nu[name]) for name, family in families.items()})

    sites = updated(model.rows(table(X[:, None])), np.ones((12, 1)))
    assert float(sites["mean"][0, 0]) == pytest.approx(MEAN, rel=1e-13)
    assert 1 / float(sites["precision"][0, 0]) == pytest.approx(map_variance(X, *PRIOR), rel=1e-13)
    assert stationary(float(sites["mean"][0, 0]), 1 / float(sites["precision"][0, 0]))


def is_a_variance(function):
    """Positive, and unchanged when the data are shifted."""
    values = np.array([function(X + offset) for offset in (-100.0, 0.0, 100.0)])
    return bool((values > 0).all() and np.ptp(values) < 1e-9 * abs(values).max())


def test_right_variance_is_a_variance():
    assert is_a_variance(partial(right_variance, a=A, b=B))


@pytest.mark.parametrize("mutant", [document_variance, doubled_variance])
def test_documents_variance_is_rejected(mutant):
    assert not is_a_variance(partial(mutant, a=A, b=B))


def test_maximum_likelihood_step_is_shift_invariant():
    """The naive step that other tests rely on passes the same check."""

    def variance(x):
        return 1 / m_step("diag", {}, np.ones((len(x), 1)), x[:, None], learned=False)["precision"][0, 0]

    assert is_a_variance(variance)
