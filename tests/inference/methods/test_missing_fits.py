"""Rows with missing cells in the methods that climb: every step is the naive one, and the top is the top."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import naive_missing
import numpy as np
import pytest
from identities import climbed
from naive import (
    COVARIANCES,
    SHORT,
    build,
    is_finite,
    log_prior,
    near,
    neighbours_increase,
    random_sites,
    table,
    two_groups,
)
from naive_missing import WHOLE, X, map_step, with_holes
from tracing import counted
from two_stage import assert_standard_normal, beyond, in_blocks, of_student

from inference import fit, posterior_predictive
from inference.engine.sweep import sweep
from inference.methods import cavi, em, hard_em
from models import MODELS, ZooError, load_data

every_covariance = pytest.mark.parametrize("covariance", COVARIANCES)
STEPS = 10


# ---------------------------------------------------------------------------------------------------------------------
# Steps


@pytest.mark.slow
@every_covariance
def test_em_climbs_by_the_textbooks_steps(covariance):
    """Ten steps are ten naive ones (E17, E19); on the way and to the end the log joint never falls (1e-9).

    Rounding grows with the condition of the sums: parameters to 1e-9, the log joint that is reported to 1e-11.
    """
    model, sites = build(X, covariance), random_sites(covariance, 2, WHOLE)
    whole, ten = climbed(model, table(X), sites), climbed(model, table(X), sites, STEPS, 0.0)
    for step in range(STEPS):
        naive = log_prior(covariance, model.hyper, sites) + naive_missing.log_likelihood(covariance, sites, X).sum()
        assert ten.objective[0, step] == pytest.approx(naive, rel=1e-11)
        sites = map_step(covariance, model.hyper, sites, X)
    for name, value in sites.items():
        assert near(ten.sites[name][0], value, rtol=1e-9, atol=1e-11)
    assert whole.converged.all()
    assert neighbours_increase(whole.objective[0], 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("x", [X, WHOLE], ids=["holes", "whole"])
def test_hard_em_gives_every_row_to_one_component(x):
    """Full covariances: three steps are the naive ones with memberships 0 and 1; EM's, which share rows out, are others."""
    sites = random_sites("full", 2, WHOLE)
    model = build(x, "full")
    found = climbed(model, table(x), sites, 3, 0.0, hard_em.FIXED_POINT)
    soft = map_step("full", model.hyper, sites, x)
    for step in range(3):
        r = np.eye(2)[naive_missing.log_local("full", sites, x).argmax(1)]
        sites = map_step("full", model.hyper, sites, x, r)
        assert step > 0 or np.abs(sites["mean"] - soft["mean"]).max() > 1e-3
    for name, value in sites.items():
        assert near(found.sites[name][0], value, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@every_covariance
def test_the_bound_of_cavi_never_falls(covariance):
    """By 1e-9 of it; it is −∞ at a start given as sites, where q(θ) is not known."""
    found = climbed(build(X, covariance), table(X), random_sites(covariance, 2, WHOLE), method=cavi.FIXED_POINT)
    assert found.converged.all()
    assert len(found.criterion[0]) > 3
    assert neighbours_increase(found.criterion[0, 1:], 1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Optima


@cache
def at_the_top() -> Any:
    return fit(build(X, "full"), table(X), method="em", start=random_sites("full", 2, WHOLE), tol=1e-13)


@pytest.mark.slow
def test_map_of_the_program_is_em():
    """A quasi-Newton search on the program, its cells summed out, from the same start: the same log joint to 1e-6."""
    found = fit(build(X, "full"), table(X), method="map", start=random_sites("full", 2, WHOLE))
    top = at_the_top()
    assert float(found["functionals"]["log_joint"]) == pytest.approx(float(top["functionals"]["log_joint"]), rel=1e-6)
    means = [np.sort(tree["point_estimate"]["mean"].values, axis=0) for tree in (found, top)]  # labels are free
    assert near(*means, atol=1e-2)


@pytest.mark.slow
def test_em_is_the_maximum_of_the_marginal_likelihood():
    """Full covariances, two columns, a flat prior: SciPy's BFGS on the naive likelihood, from the same start, ends as high.

    BFGS stops at gradients of 1e-5 by differences, EM at gains of 1e-13: both are 1e-8 or so below the top, and 1e-6 is ample.
    The groups are far enough apart for both to climb the same hill.
    """
    whole = two_groups(40, gap=6.0)
    x, start = with_holes(whole, 0.3), random_sites("full", 2, whole)
    found = climbed(build(x, "full", prior="flat"), table(x), start, 5000, 1e-13)
    assert found.converged.all()
    top = naive_missing.maximum(start, x)
    assert near(found.objective[0][~np.isnan(found.objective[0])][-1], top, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_one_class_known_and_cells_missing_still_iterates(covariance):
    """Every label given, cells missing: the classifier's EM goes on to the top of each class, as mixtures of one component do.

    Tied classes share a precision, so that only their fixed point is checked: one more naive step changes nothing (1e-6, where
    EM has stopped at gains of 1e-13).
    """
    labels = np.array(list("abbaababbbab"))
    data = load_data(X, labels=list(labels))
    model = MODELS["linear_discriminant"](data, covariance=covariance)
    tree = fit(model, data, method="em", tol=1e-13)
    sites = {name.replace("class", "mixture"): value.values for name, value in tree["point_estimate"].data_vars.items()}
    r = np.column_stack([labels == "a", labels == "b"]).astype(float)
    following = map_step(covariance, model.hyper, sites, X, r)
    for name in ("mixture_probs", "mean", "precision"):
        assert near(following[name], sites[name], atol=1e-5)
    assert tree["optimization"]["objective"].sizes["iteration"] > 3


@pytest.mark.slow
def test_hidden_at_random_estimates_stay():
    """One component, 30 % of the cells hidden completely at random, 50 times: the shift of the estimates is noise about 0.

    Student t of 3 means and 6 covariances over as many differences. The estimates of variances are biased by 1/400 − 1/280 of
    themselves at most.
    """
    sets, rows = 50, 400
    factor = np.array([[1.0, 0, 0], [0.8, 0.6, 0], [-0.5, 0.5, 0.7]])
    bias = np.concatenate([np.zeros(3), (1 / 280 - 1 / 400) * np.abs(factor @ factor.T)[np.triu_indices(3)]])
    start = {"mixture_probs": np.ones(1), "mean": np.zeros((1, 3)), "precision": np.eye(3)[None]}

    def drawn(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(sets, rows, 3)) @ factor.T + [1.0, -2.0, 5.0]
        return x, rng.random(x.shape) < 0.3

    x, hidden = drawn(8)
    model = build(np.where(hidden[0], np.nan, x[0]), "full", 1, prior="flat")
    cells = model.rows(table(np.where(hidden[0], np.nan, x[0]))).x

    @jax.jit
    @jax.vmap
    def estimate(x: Any, observed: Any) -> Any:
        hyper, prior = dict(model.hyper), dict(model.prior)
        rows = model.rows(table(WHOLE))._replace(x=cells._replace(value=jnp.where(observed, x, 0), observed=observed))
        key, T = jax.random.PRNGKey(0), model.algebra.natural(hyper, start)
        T = jax.lax.fori_loop(
            0, 60, lambda _, T: sweep(model.algebra, em.FIXED_POINT.updates, hyper, prior, key, T, rows)[0], T
        )
        found = model.algebra.sites(hyper, T)
        return found["mean"][0], jnp.linalg.inv(found["precision"][0])

    def shifts(seed: int) -> np.ndarray:
        x, hidden = drawn(seed)
        full, holed = (jax.tree.map(np.asarray, estimate(x, seen)) for seen in (np.ones_like(hidden), ~hidden))
        assert near(full[0], x.mean(1), atol=1e-10)
        assert near(full[1], [np.cov(each.T, bias=True) for each in x], atol=1e-10)
        return np.concatenate([holed[0] - full[0], (holed[1] - full[1])[:, *np.triu_indices(3)]], axis=1)

    def deviations(seed: int, times: int) -> np.ndarray:
        found = in_blocks(shifts, seed, times)
        assert (np.abs(found).max(0) > 1e-3).all()
        error = found.std(0, ddof=1) / np.sqrt(len(found))
        return of_student(beyond(found.mean(0), bias) / error, len(found) - 1)

    assert_standard_normal(deviations, 8)


# ---------------------------------------------------------------------------------------------------------------------
# Nothing that should not matter does


def test_an_offset_does_not_change_a_fit():
    """1e6 standard deviations on every column, ten iterations: the data keep 1e-10 of their digits, probabilities 1e-6."""
    offset, start = 1e6 * WHOLE.std(axis=0), random_sites("full", 2, WHOLE)
    moved = start | {"mean": start["mean"] + offset}
    here = climbed(build(X, "full"), table(X), start, STEPS, 0.0)
    there = climbed(build(X + offset, "full"), table(X + offset), moved, STEPS, 0.0)
    assert near(there.sites["mean"] - offset, here.sites["mean"], atol=1e-6)
    for name in ("mixture_probs", "precision"):
        assert near(there.sites[name], here.sites[name], rtol=1e-6, atol=1e-6)
    assert near(there.objective, here.objective, rtol=1e-6)


def test_other_holes_compile_nothing():
    """Data of one shape, holes elsewhere, a new model: a second fit traces and compiles nothing."""
    for seed in (5, 6):
        x = with_holes(WHOLE, 0.4, seed)
        with counted() as events:
            tree = fit(build(x, "full"), table(x), method="em", start=random_sites("full", 2, WHOLE), tol=1e-13)
    assert is_finite(tree)
    assert events == []


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("prior", ["default", "flat"])
def test_a_column_without_cells_is_refused(covariance, prior):
    """Also one whose only cells are of rows that weigh nothing; a column with one value in all rows that count likewise."""
    empty = X.copy()
    empty[:, 1] = np.nan
    with pytest.raises(ZooError, match=r"no row has a value in column 'b'.*data\.types\.b=ignore"):
        build(empty, covariance, prior=prior)
    weight = np.isnan(X[:, 1]).astype(float)
    with pytest.raises(ZooError, match="no row with a weight above 0 has a value in column 'b'"):
        build(table(X, weight), covariance, prior=prior)
    if covariance != "unit":
        weight[11] = 1.0
        with pytest.raises(ZooError, match="column 'b' has the same value in every row"):
            build(table(X, weight), covariance, prior=prior)


def test_exact_refuses_latent_cells():
    """Full covariances have no closed form with holes: said of a model built on them, and of one built on complete rows."""
    for built in (X, WHOLE):
        with pytest.raises(ZooError, match=r"missing cells under a covariance matrix.*use method=gibbs or nuts"):
            fit(build(built, "full"), table(X), method="exact")


def test_closed_form_predictive_refuses_latent_cells():
    """In the rows learned from, whose posterior is no conjugate family, and in new ones: never a wrong number."""
    whole, holed = (load_data(x, labels=list("ab" * 6)) for x in (WHOLE, X))
    model = MODELS["linear_discriminant"](whole)
    for learned, new in ((holed, whole), (whole, holed)):
        with pytest.raises(ZooError, match=r"missing cells.*use predict on a result of gibbs or nuts"):
            posterior_predictive(model, learned, new)


def test_gibbs_refuses_weights_on_latent_cells():
    """A row of weight two with missing cells is two rows with cells of their own, also where its label is known."""
    whole, holed = (load_data(x, labels=list("ab" * 6), weight=np.repeat([1.0, 2.0], 6)) for x in (WHOLE, X))
    with pytest.raises(ZooError, match="row 7 of the data weighs 2"):
        fit(MODELS["linear_discriminant"](whole), holed, method="gibbs", **SHORT["gibbs"])
