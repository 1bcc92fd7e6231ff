"""Every model and covariance type: the program is the spec, and the algebra equals it."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import (
    COVARIANCES,
    Sites,
    build,
    log_likelihood,
    log_local,
    log_prior,
    near,
    random_sites,
    responsibilities,
    table,
    two_groups,
)
from numpyro.infer.util import log_density
from scipy.special import logsumexp

import models.algebra
import models.base
from inference import log_likelihood as zoo_log_likelihood
from inference import predict
from models.algebra import inner
from models.base import Model
from models.emissions.gaussians.gaussian import GAUSSIANS

X = two_groups(12)
COMPONENTS = 3
CELLS = [(covariance, prior) for covariance in COVARIANCES for prior in ("default", "flat")]
every_cell = pytest.mark.parametrize(
    ("covariance", "prior"),
    # A flat prior changes the densities of the sites alone, whatever the covariance: one of them protects a change.
    [pytest.param(*each, marks=pytest.mark.slow if each[1] == "flat" and each[0] != "full" else []) for each in CELLS],
    ids=["-".join(cell) for cell in CELLS],
)
every_covariance = pytest.mark.parametrize("covariance", COVARIANCES)


class Values(NamedTuple):
    """Log densities at one θ and z, by the program and by the algebra."""

    complete: Any  # log p(x, z, θ) of the program
    marginal: Any  # log p(x, θ) of the program
    log_prior: Any  # of the algebra
    local: Any  # (N, K)
    energy: Any  # < z, local >
    log_partition: Any
    product: Any  # < T(θ), prior + statistics(x, z) > − log Z(prior), without the carrier
    back: Any  # sites -> T -> sites
    gradient: Any  # of Σ log_partition(local(T)) with respect to T
    statistics: Any  # of the mean latents


def evaluate(model: Model, x: Any, sites: Any, z: Any, weight: Any = None) -> Values:
    """Both sides of every identity, under the model's own prior."""
    algebra, rows = model.algebra, model.rows(table(x, weight))

    @jax.jit
    def both(hyper: Any, prior: Any, rows: Any, sites: Any, z: Any) -> Values:
        T = algebra.natural(hyper, sites)
        with jax.numpy_rank_promotion("raise"):
            features = algebra.features(hyper, rows)
            local = algebra.local_natural_parameters(T)(features)
            mean = algebra.latent.mean(None, local)
            ones = jnp.ones(len(x)) if weight is None else rows.weight
            nu = models.algebra.add(prior, algebra.statistics(ones, z, features))
            normaliser = sum(family.log_partition(prior[name]) for name, family in algebra.families) if algebra.proper else 0.0
            gradient = jax.grad(
                lambda T: (ones * algebra.latent.log_partition(algebra.local_natural_parameters(T)(features))).sum()
            )(T)
            found = {
                "log_prior": models.algebra.log_prior(algebra, prior, T),
                "local": local,
                "energy": algebra.latent.energy(z, local),
                "log_partition": algebra.latent.log_partition(local),
                "product": inner(T, nu) - normaliser,
                "back": algebra.sites(hyper, T),
                "gradient": gradient,
                "statistics": algebra.statistics(ones, mean, features),
            }
        marginal, _ = log_density(model.spec, (hyper, rows), {"marginal": True}, sites)
        given = sites | {"component": z.argmax(1)}
        complete, _ = log_density(model.spec, (hyper, rows), {"marginal": False}, given)
        return Values(complete=complete, marginal=marginal, **found)

    values = both(dict(model.hyper), dict(model.prior), rows, sites, z)
    return jax.tree.map(np.asarray, values)


class Cell(NamedTuple):
    model: Model
    sites: Sites
    z: np.ndarray
    values: Values


@cache
def cell(covariance: str, prior: str) -> Cell:
    """One evaluation for all tests of a covariance type and a prior."""
    model = build(X, covariance, COMPONENTS, prior=prior)
    sites = random_sites(covariance, COMPONENTS, X)
    z = np.eye(COMPONENTS)[np.random.default_rng(3).integers(COMPONENTS, size=len(X))]
    return Cell(model, sites, z, evaluate(model, X, sites, z))


def agree(left: Any, right: Any, rtol: float) -> bool:
    """Whether two pytrees agree, relative to the largest entry of each leaf."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    pairs = ((np.asarray(a), np.asarray(b)) for a, b in pairs)
    return all(np.abs(a - b).max() <= rtol * max(np.abs(b).max(), 1e-300) for a, b in pairs)


@every_cell
def test_program_equals_algebra_with_latents(covariance, prior):
    """log p(x, z, θ), in both the sweep's form and the contract's < T, ν > form."""
    values = cell(covariance, prior).values
    carrier = -X.size / 2 * np.log(2 * np.pi)
    if covariance == "unit":
        carrier -= 0.5 * ((X - X.mean(0)) ** 2).sum()
    assert values.log_prior + values.energy.sum() == pytest.approx(float(values.complete), rel=1e-10)
    assert values.product + carrier == pytest.approx(float(values.complete), rel=1e-10)


@every_cell
def test_program_marginalises_its_latents(covariance, prior):
    """The marginal program = log-sum over all values of z, row by row."""
    values = cell(covariance, prior).values
    total = values.log_prior + logsumexp(values.local, axis=1).sum()
    assert total == pytest.approx(float(values.marginal), rel=1e-10)
    assert values.log_prior + values.log_partition.sum() == pytest.approx(float(values.marginal), rel=1e-10)


@every_cell
def test_program_is_scipys_mixture(covariance, prior):
    """Densities that share no code with the zoo: SciPy's."""
    found = cell(covariance, prior)
    naive = 0.0 if prior == "flat" else log_prior(covariance, found.model.hyper, found.sites)
    np.testing.assert_allclose(found.values.local, log_local(covariance, found.sites, X), rtol=1e-10)
    assert naive + log_likelihood(covariance, found.sites, X).sum() == pytest.approx(float(found.values.marginal), rel=1e-10)


@every_cell
def test_sites_survive_the_round_trip(covariance, prior):
    found = cell(covariance, prior)
    assert set(found.values.back) == set(found.sites)
    assert all(agree(found.values.back[name], found.sites[name], 1e-12) for name in found.sites)


@every_cell
def test_gradient_of_the_local_log_partition_is_the_statistics(covariance, prior):
    """∂ Σ log Z(local(T)) / ∂T = statistics of the mean latents: E-step and M-step belong together."""
    values = cell(covariance, prior).values
    gradient = values.gradient
    if covariance in {"full", "tied"}:  # the gradient sees both halves of a symmetric matrix
        square = gradient["component"].square
        gradient = gradient | {"component": gradient["component"]._replace(square=(square + np.swapaxes(square, -1, -2)) / 2)}
    assert agree(gradient, values.statistics, 1e-11)


def statistics(model: Model, x: np.ndarray, z: np.ndarray, weight: np.ndarray | None = None) -> Any:
    found = _statistics(
        model.algebra, dict(model.hyper), np.ones(len(x)) if weight is None else weight, z, model.rows(table(x))
    )
    return jax.tree.map(np.asarray, found)


@partial(jax.jit, static_argnums=0)
def _statistics(algebra: Any, hyper: Any, weight: Any, z: Any, rows: Any) -> Any:
    return algebra.statistics(weight, z, algebra.features(hyper, rows))


@every_covariance
def test_statistics_add_up(covariance):
    """Over a split of the rows; and a row of weight two is two rows."""
    found = cell(covariance, "default")
    r = np.random.default_rng(1).dirichlet(np.ones(COMPONENTS), len(X))
    whole = statistics(found.model, X, r)
    halves = [statistics(found.model, X[part], r[part]) for part in (slice(0, 6), slice(6, None))]
    assert agree(jax.tree.map(np.add, *halves), whole, 1e-13)
    weight = np.array([0, 1, 2, 1] * 3)  # as many rows in all, so that nothing more is compiled
    repeated = statistics(found.model, np.repeat(X, weight, 0), np.repeat(r, weight, 0))
    assert agree(statistics(found.model, X, r, weight.astype(float)), repeated, 1e-12)


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_weights_reach_the_program(covariance):
    """Program and algebra, weighted, equal the naive sum over repeated rows."""
    found = cell(covariance, "default")
    weight = np.array([0, 1, 2, 3] * 3)
    values = evaluate(found.model, X, found.sites, found.z, weight.astype(float))
    naive = log_prior(covariance, found.model.hyper, found.sites)
    repeated = log_likelihood(covariance, found.sites, np.repeat(X, weight, 0)).sum()
    assert float(values.marginal) == pytest.approx(naive + repeated, rel=1e-10)
    energies = (log_local(covariance, found.sites, X) * found.z).sum(1)
    assert float(values.complete) == pytest.approx(naive + (weight * energies).sum(), rel=1e-10)


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_log_density_of_expected_parameters(covariance):
    """Under q(θ) the log density is the expectation of its terms, < E[T], (1, 1, x, x xᵀ) >, summed the naive way."""
    found, emission = cell(covariance, "default"), GAUSSIANS[covariance]
    hyper, nu = found.model.hyper, models.algebra.add(dict(found.model.prior), found.values.statistics)["component"]
    T = jax.tree.map(np.asarray, jax.jit(emission.family.mean)(nu))
    x = X - hyper["origin"]
    square = np.broadcast_to(T.square, (COMPONENTS, x.shape[1], x.shape[1]))
    terms = np.einsum("ni,kij,nj->nk", x, square, x) + x @ T.total.reshape(COMPONENTS, -1).T
    naive = terms + (T.strength.reshape(-1) + T.exponent.reshape(-1))[None, :] - x.shape[1] / 2 * np.log(2 * np.pi)
    fast = jax.jit(lambda T, x: emission.likelihood.log_density(T)(emission.likelihood.features(hyper, x)))(T, X)
    np.testing.assert_allclose(fast, naive, rtol=1e-11)


def probs_of(model: Model, sites: Sites, x: np.ndarray) -> np.ndarray:
    return predict(model, sites, table(x))["probs"].values


@every_covariance
def test_responsibilities_are_bayes_rule(covariance):
    """`predict` and `log_likelihood` against SciPy; probabilities are differences of logs of size 100: 1e-11."""
    found = cell(covariance, "default")
    assert near(probs_of(found.model, found.sites, X), responsibilities(covariance, found.sites, X), atol=1e-11)
    likelihoods = zoo_log_likelihood(found.model, found.sites, table(X))
    assert near(likelihoods, log_likelihood(covariance, found.sites, X), rtol=1e-10)


@every_covariance
def test_order_does_not_matter(covariance):
    """Rows, components and (with their parameters) columns permuted: the same numbers, permuted."""
    found = cell(covariance, "default")
    base = probs_of(found.model, found.sites, X)
    rows = np.random.default_rng(0).permutation(len(X))
    assert near(probs_of(found.model, found.sites, X[rows]), base[rows], atol=1e-12)
    labels, shared = np.array([2, 0, 1]), {"precision"} if covariance == "tied" else set()
    switched = {name: value if name in shared else value[labels] for name, value in found.sites.items()}
    assert near(probs_of(found.model, switched, X), base[:, labels], atol=1e-12)
    flipped = found.sites | {"mean": found.sites["mean"][:, ::-1]}
    if covariance in {"full", "tied"}:
        flipped["precision"] = found.sites["precision"][..., ::-1, ::-1]
    elif covariance == "diag":
        flipped["precision"] = found.sites["precision"][:, ::-1]
    other = build(X[:, ::-1], covariance, COMPONENTS)
    assert near(probs_of(other, flipped, X[:, ::-1]), base, atol=1e-11)


@every_covariance
def test_an_offset_costs_nothing(covariance):
    """1e6 added to a column and to its means: responsibilities move by less than 1e-6 (the data keep 1e-10 of their digits)."""
    found = cell(covariance, "default")
    offset = np.array([1e6, 0.0])
    shifted = probs_of(
        build(X + offset, covariance, COMPONENTS), found.sites | {"mean": found.sites["mean"] + offset}, X + offset
    )
    assert np.abs(shifted - probs_of(found.model, found.sites, X)).max() < 1e-6


@pytest.mark.parametrize("covariance", ["full", "tied", "diag"])
def test_units_do_not_matter(covariance):
    """A column in other units, θ with it: the same responsibilities, log densities less log of the unit."""
    found, unit = cell(covariance, "default"), np.array([1e3, 1.0])
    precision = found.sites["precision"] / (unit if covariance == "diag" else np.outer(unit, unit))
    if covariance == "diag":
        precision = precision / unit
    scaled = found.sites | {"mean": found.sites["mean"] * unit, "precision": precision}
    model = build(X * unit, covariance, COMPONENTS)
    assert near(probs_of(model, scaled, X * unit), probs_of(found.model, found.sites, X), atol=1e-10)
    here, there = (zoo_log_likelihood(m, s, table(x)) for m, s, x in ((found.model, found.sites, X), (model, scaled, X * unit)))
    assert near(there, here - np.log(1e3), rtol=1e-10)


def test_default_prior_follows_the_units():
    """Scaled and shifted data get the prior scaled and shifted: location by both, scatter by the square of the unit."""
    here, there = build(X, "full", COMPONENTS).hyper, build(1e3 * X + 7, "full", COMPONENTS).hyper
    np.testing.assert_allclose(there["location"], 1e3 * here["location"] + 7, rtol=1e-12)
    np.testing.assert_allclose(there["scatter"], 1e6 * here["scatter"], rtol=1e-10)
    assert there["strength"] == here["strength"]
