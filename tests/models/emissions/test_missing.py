"""Missing cells under Gaussian components: program, algebra and statistics, against naive computations row by row."""

from functools import cache
from itertools import product
from typing import Any

import jax
import naive_missing
import numpy as np
import pytest
from identities import Values, agree, values_of
from naive import COVARIANCES, build, log_prior, near, random_sites, table
from naive_missing import LABELS, WHOLE, X, conditional, log_local, moments, responsibilities
from two_stage import assert_standard_normal, in_blocks, of_counts

from inference import log_likelihood, predict
from models import MODELS, load_data
from models.algebra import add, at_mean
from models.base import Model
from models.data import allowed_labels
from models.rows.masks import Cells

every_covariance = pytest.mark.parametrize("covariance", COVARIANCES)
every_matrix = pytest.mark.parametrize("covariance", ["full", "tied"])
SITES = {covariance: random_sites(covariance, 2, WHOLE) for covariance in COVARIANCES}
SEEN = ~np.isnan(X)
Z = np.eye(2)[np.random.default_rng(3).integers(2, size=len(X))]


@cache
def model_of(covariance: str) -> Model:
    return build(X, covariance)


@cache
def values(covariance: str) -> Values:
    """One evaluation for all tests of a covariance type."""
    model = model_of(covariance)
    return values_of(model, model.rows(table(X)), SITES[covariance], Z)


def test_the_table_has_every_kind_of_row():
    assert set(SEEN.sum(1)) == {0, 1, 2, 3}
    assert len({tuple(row) for row in SEEN}) > 5


# ---------------------------------------------------------------------------------------------------------------------
# Program = algebra = SciPy


@every_covariance
def test_density_of_what_is_observed(covariance):
    """log p(x_o, z, θ) and log p(x_o, θ): program and algebra, to 1e-10, and SciPy's Normals of the observed sub-vectors."""
    found, sites = values(covariance), SITES[covariance]
    local, naive = log_local(covariance, sites, X), log_prior(covariance, model_of(covariance).hyper, sites)
    assert near(found.local, local, rtol=1e-10, atol=1e-12)
    assert found.log_prior + found.energy.sum() == pytest.approx(float(found.complete), rel=1e-10)
    assert found.log_prior + found.log_partition.sum() == pytest.approx(float(found.marginal), rel=1e-10)
    assert naive + local[Z == 1].sum() == pytest.approx(float(found.complete), rel=1e-10)
    assert naive + np.logaddexp(*local.T).sum() == pytest.approx(float(found.marginal), rel=1e-10)


@every_covariance
def test_density_is_the_product_with_the_statistics(covariance):
    """< T, statistics > with the missing cells at their conditional law, and its entropy: log p(x_o, z | θ) once more."""
    found = values(covariance)
    carrier = -(X.size if covariance in {"full", "tied"} else SEEN.sum()) / 2 * np.log(2 * np.pi)
    if covariance == "unit":
        carrier -= 0.5 * np.nansum((X - np.nanmean(X, axis=0)) ** 2)
    assert found.product + carrier == pytest.approx(found.energy.sum(), rel=1e-10)


@pytest.mark.slow
@every_matrix
def test_density_of_classes_with_some_labels(covariance):
    """Labels observed, missing and sets beside missing cells: Σ over the classes allowed of π_k p(x_o | k)."""
    data = load_data(X, labels=LABELS)
    model, allowed = MODELS["linear_discriminant"](data, covariance=covariance), allowed_labels(data)
    sites = {name.replace("mixture", "class"): value for name, value in SITES[covariance].items()}
    z = np.eye(2)[(~allowed[:, 0]).astype(int)]
    found = values_of(model, model.rows(data), sites, z)
    local = np.where(allowed, log_local(covariance, SITES[covariance], X), -np.inf)
    naive = log_prior(covariance, model.hyper, SITES[covariance])
    assert near(found.local, local, rtol=1e-10, atol=1e-12)
    assert naive + np.logaddexp(*local.T).sum() == pytest.approx(float(found.marginal), rel=1e-10)
    assert naive + local[z == 1].sum() == pytest.approx(float(found.complete), rel=1e-10)
    assert agree(found.gradient, found.statistics, 1e-11)


def test_weights_count_rows():
    """A row of weight two is two rows, one of weight zero none, in densities and statistics."""
    model, sites, weight = model_of("full"), SITES["full"], np.array([0, 1, 2, 3] * 3)
    found = values_of(model, model.rows(table(X, weight.astype(float))), sites, Z)
    rows = np.repeat(X, weight, 0)
    naive = log_prior("full", model.hyper, sites) + naive_missing.log_likelihood("full", sites, rows).sum()
    assert naive == pytest.approx(float(found.marginal), rel=1e-10)
    total, square = naive_statistics("full", rows)
    block = found.statistics["component"]
    assert near(block.total[:, 0], total, rtol=1e-10, atol=1e-10)
    assert near(block.square, square, rtol=1e-10, atol=1e-10)


@every_covariance
def test_weights_count_rows_of_the_default_prior(covariance):
    """The default prior, and the origin, of weighted rows with missing cells: those of the rows repeated, to rounding."""
    weight = np.array([1, 0, 2, 3] * 3)
    weighted = build(table(X, weight.astype(float)), covariance).hyper
    repeated = build(np.repeat(X, weight, axis=0), covariance).hyper
    assert any(not np.allclose(value, model_of(covariance).hyper[name], rtol=1e-3) for name, value in repeated.items())
    for name, value in repeated.items():
        assert near(weighted[name], value, rtol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Statistics and draws


def naive_statistics(covariance: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ_n r_nk (E[x], E[x xᵀ]) about the model's origin."""
    origin = model_of(covariance).hyper["origin"]
    shifted = SITES[covariance] | {"mean": SITES[covariance]["mean"] - origin}
    return moments(covariance, shifted, responsibilities(covariance, shifted, x - origin), x - origin)


@pytest.mark.slow
@every_covariance
def test_statistics_are_the_gradient(covariance):
    """∂ Σ log Z(local(T)) / ∂T = expected statistics: E-step and M-step belong together. At a point, and at T = E_q[T].

    At the latter the origin is the mean of a posterior that knows little, and nothing in the algebra is a log density of it.
    """
    found, model = values(covariance), model_of(covariance)
    assert agree(found.gradient, found.statistics, 1e-11)
    nu = add(dict(model.prior), found.statistics)
    expected = jax.jit(at_mean, static_argnums=0)(model.algebra, None, nu)
    there = values_of(model, model.rows(table(X)), SITES[covariance], Z, expected)
    assert agree(there.gradient, there.statistics, 1e-11)
    assert not near_equal(there.statistics, found.statistics)


def near_equal(left: Any, right: Any) -> bool:
    return all(np.allclose(a, b, rtol=1e-3) for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True))


@pytest.mark.slow
@every_matrix
def test_statistics_are_conditional_moments(covariance):
    """Textbook conditional means and covariances of the missing cells, row by row."""
    total, square = naive_statistics(covariance, X)
    block, count = values(covariance).statistics["component"], responsibilities(covariance, SITES[covariance], X).sum(0)
    assert near(block.total.reshape(total.shape), total, rtol=1e-10, atol=1e-11)
    assert near(block.square, square if covariance == "full" else square.sum(0), rtol=1e-10, atol=1e-11)
    assert near(block.strength.reshape(-1), count, rtol=1e-11)
    assert near(block.exponent, count if covariance == "full" else count.sum(), rtol=1e-11)


@pytest.mark.parametrize("covariance", ["diag", "spherical", "unit"])
def test_statistics_count_cells(covariance):
    """Each column by its own observed cells (errata E19)."""
    r, block = responsibilities(covariance, SITES[covariance], X), values(covariance).statistics["component"]
    x = np.where(SEEN, X - model_of(covariance).hyper["origin"], 0.0)
    assert near(block.strength.reshape(2, 3), r.T @ SEEN, rtol=1e-11)
    assert near(block.total.reshape(2, 3), r.T @ x, rtol=1e-11, atol=1e-11)
    if covariance != "unit":
        squares, counts = r.T @ x**2, r.T @ SEEN
        assert near(block.square, squares if covariance == "diag" else squares.sum(1), rtol=1e-11)
        assert near(block.exponent, counts if covariance == "diag" else counts.sum(1), rtol=1e-11)


@pytest.mark.slow
@every_matrix
def test_draws_of_missing_cells(covariance):
    """Their first and second moments under every component, against the conditional law; observed cells stay as they are.

    Standard errors are those of the law itself: sd(x) and, of a product, sqrt(S_ii S_jj + S_ij²).
    """
    model, sites, size = model_of(covariance), SITES[covariance], 10_000
    origin, latent = model.hyper["origin"], model.algebra.latent

    @jax.jit
    def draw(seed: Any) -> Any:
        local = model.algebra.local_natural_parameters(model.algebra.natural(model.hyper, sites))(
            model.algebra.features(model.hyper, model.rows(table(X)))
        )
        drawn = jax.vmap(lambda key: latent.sample(key, local))(jax.random.split(jax.random.PRNGKey(seed), size))
        return drawn.component, drawn.centre

    def deviations(seed: int, times: int) -> list[float]:
        component, centre = in_blocks(lambda one: jax.tree.map(np.asarray, draw(one)), seed, times)
        number, scores = len(component), []
        for n, k in product(range(len(X)), range(2)):
            precision = sites["precision"][k] if covariance == "full" else sites["precision"]
            whole, left = conditional(sites["mean"][k], precision, X[n])
            away, seen = centre[:, n, k] + origin - whole, SEEN[n]
            assert np.abs(away[:, seen]).max(initial=0) < 1e-12
            found, spread = away[:, ~seen], left[np.ix_(~seen, ~seen)]
            variance, upper = np.diag(spread), np.triu_indices(len(spread))
            scores += list(found.mean(0) / np.sqrt(variance / number))
            second = np.einsum("si,sj->ij", found, found) / number - spread
            scores += list((second / np.sqrt((np.outer(variance, variance) + spread**2) / number))[upper])
        scores += list(of_counts(component.sum(0), number, responsibilities(covariance, sites, X)).ravel())
        assert len(scores) > 100
        return scores

    assert_standard_normal(deviations)


# ---------------------------------------------------------------------------------------------------------------------
# Rows with no cell and with all of them


@pytest.mark.slow
@every_covariance
def test_a_row_without_cells_tells_nothing(covariance):
    """Its component has the prior probabilities, and its density is 1; the others are as Bayes' rule says."""
    found = predict(model_of(covariance), SITES[covariance], table(X))
    assert near(found["probs"][0], SITES[covariance]["mixture_probs"], atol=1e-13)
    assert near(found["log_density"][0], 0.0, atol=1e-13)
    assert near(found["probs"], responsibilities(covariance, SITES[covariance], X), atol=1e-11)
    likelihoods = log_likelihood(model_of(covariance), SITES[covariance], table(X))
    assert near(likelihoods, naive_missing.log_likelihood(covariance, SITES[covariance], X), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@every_covariance
def test_nothing_missing_is_the_complete_path(covariance):
    """All cells observed, in the form with missing cells: the numbers of complete rows, but for rounding."""
    model, sites = model_of(covariance), SITES[covariance]
    complete = model.rows(table(WHOLE))
    assert not isinstance(complete.x, Cells)
    there = values_of(model, complete._replace(x=Cells(WHOLE, np.ones(WHOLE.shape, bool))), sites, Z)
    here = values_of(model, complete, sites, Z)
    for name in ("complete", "marginal", "local", "energy", "log_partition", "gradient", "statistics"):
        assert agree(getattr(there, name), getattr(here, name), 1e-11)


@pytest.mark.slow
@every_matrix
def test_new_rows_with_holes_for_a_model_of_complete_rows(covariance):
    """Built on complete rows, asked about rows with missing cells: Bayes' rule on what is observed, and the other way round."""
    sites = SITES[covariance]
    found = predict(build(WHOLE, covariance), sites, table(X))
    assert near(found["probs"], responsibilities(covariance, sites, X), atol=1e-11)
    complete = predict(model_of(covariance), sites, table(WHOLE))
    assert near(complete["probs"], responsibilities(covariance, sites, WHOLE), atol=1e-11)


@pytest.mark.slow
@every_matrix
def test_an_offset_costs_nothing(covariance):
    """1e6 standard deviations added to every column and mean: the data keep 1e-10 of their digits, probabilities 1e-6."""
    sites, offset = SITES[covariance], 1e6 * WHOLE.std(axis=0)
    shifted = predict(build(X + offset, covariance), sites | {"mean": sites["mean"] + offset}, table(X + offset))
    assert near(shifted["probs"], responsibilities(covariance, sites, X), atol=1e-6)


@pytest.mark.slow
@every_covariance
def test_order_does_not_matter(covariance):
    """Rows, components and (with their parameters) columns permuted: the same numbers, permuted."""
    sites, base = SITES[covariance], responsibilities(covariance, SITES[covariance], X)
    rows, columns = np.random.default_rng(0).permutation(len(X)), np.array([2, 0, 1])
    assert near(predict(model_of(covariance), sites, table(X[rows]))["probs"], base[rows], atol=1e-11)
    flipped = sites | {"mean": sites["mean"][:, columns]}
    if covariance in {"full", "tied"}:
        flipped["precision"] = sites["precision"][..., columns[:, None], columns]
    elif covariance == "diag":
        flipped["precision"] = sites["precision"][:, columns]
    assert near(predict(build(X[:, columns], covariance), flipped, table(X[:, columns]))["probs"], base, atol=1e-11)
