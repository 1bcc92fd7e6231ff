"""The sweep and the methods that climb: blocks, monotone objectives, fixed points, and what they are the limit of."""

from functools import cache, partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from naive import (
    COVARIANCES,
    Sites,
    build,
    log_likelihood,
    log_prior,
    m_step,
    map_step,
    near,
    neighbours_increase,
    random_sites,
    responsibilities,
    table,
    two_groups,
)
from sklearn.mixture import GaussianMixture

import inference.engine.sweep
from inference import fit
from inference.engine.sweep import block_map, block_size, block_sum
from inference.methods import gibbs
from models.algebra import add

X = two_groups(40)
every_covariance = pytest.mark.parametrize("covariance", COVARIANCES)
# The slow tier fits all of them, for MAP beside EM: there the others cost nothing.
covariances = pytest.mark.parametrize(
    "covariance", [pytest.param(name, marks=[] if name in ("full", "spherical") else pytest.mark.slow) for name in COVARIANCES]
)


def sites_of(tree: xr.DataTree) -> Sites:
    return {str(name): value.values for name, value in tree["point_estimate"].data_vars.items()}


def trace_of(tree: xr.DataTree, name: str = "objective") -> np.ndarray:
    return tree["optimization"][name].values[0]


# ---------------------------------------------------------------------------------------------------------------------
# Blocks


@pytest.mark.parametrize("num_rows", [1, 4, 5, 8, 13])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_sum_and_map_every_row_once(monkeypatch, num_rows, weighted):
    """Blocks of four, whatever is left over: what one block of all rows gives. A function of its own, so nothing is cached."""
    from models.rows.encoded import Rows

    monkeypatch.setattr(inference.engine.sweep, "BLOCK", 4)
    x = np.arange(2.0 * num_rows).reshape(num_rows, 2) ** 2
    weight = np.arange(1.0, num_rows + 1) if weighted else None

    @jax.jit
    def both(key, rows):
        total = block_sum(lambda key, rows, weight: (weight.sum(), weight @ rows.x), key, rows)
        return *total, block_map(lambda rows: 3 * rows.x.sum(1), rows)

    number, summed, mapped = both(jax.random.PRNGKey(0), Rows(x, weight))
    ones = np.ones(num_rows) if weight is None else weight
    assert float(number) == ones.sum()
    np.testing.assert_allclose(summed, ones @ x, rtol=1e-14)
    np.testing.assert_array_equal(mapped, 3 * x.sum(1))


def test_the_block_is_larger_on_an_accelerator(monkeypatch):
    """There a block is one launch, and no cache has to hold it."""
    assert block_size() == inference.engine.sweep.BLOCK
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert block_size() == inference.engine.sweep.BLOCK_ON_ACCELERATOR > inference.engine.sweep.BLOCK


def test_blocks_draw_with_keys_of_their_own(monkeypatch):
    """Rows that are alike get draws that differ from block to block."""
    monkeypatch.setattr(inference.engine.sweep, "BLOCK", 4)

    def draw(key: Any, rows: Any, weight: Any) -> Any:
        return jnp.where(weight > 0, jax.random.uniform(key, (4,)), 0.0) ** jnp.arange(1.0, 5.0)

    drawn = jax.jit(lambda key, rows: block_sum(draw, key, rows))  # traced here, with blocks of four
    sums = [np.asarray(drawn(jax.random.PRNGKey(0), np.zeros(size))) for size in (8, 12)]
    second_block = sums[1] - sums[0]
    assert not np.allclose(second_block, sums[0] / 2)


def test_a_sweep_uses_no_key_twice():
    """Latents and every block of parameters have keys of their own: JAX raises where one is used again.

    The log prior that a sweep records is that of the parameters it drew.
    """
    model = build(X, "diag")
    rows = model.rows(table(X))
    T = jax.jit(model.algebra.natural)(model.hyper, random_sites("diag", 2, X))
    with jax.debug_key_reuse(True):
        after = jax.jit(partial(gibbs.step, model.algebra, (model.hyper, model.prior, rows)))(jax.random.key(0), T)
    assert set(after[0]) == set(T)
    assert near(after[1][1], log_prior("diag", model.hyper, jax.tree.map(np.asarray, after[1][0])), rtol=1e-9)


def test_many_blocks_are_one_fit():
    """5000 rows take three blocks; a naive step over all rows gives the same parameters, and the mapped densities agree."""
    x = two_groups(5000)
    model, start = build(x, "diag"), random_sites("diag", 2, x)
    tree = fit(model, table(x), method="em", start=start, max_iter=1, tol=0)
    after = responsibilities("diag", start, x)
    assert near(tree["point_estimate"]["mixture_probs"], (after.sum(0) + 1) / (5000 + 2), rtol=1e-10)
    assert near(tree["log_likelihood"]["x"], log_likelihood("diag", sites_of(tree), x), rtol=1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# EM and MAP


@cache
def em(covariance: str) -> xr.DataTree:
    return fit(build(X, covariance), table(X), method="em", start=random_sites(covariance, 2, X))


@covariances
def test_em_is_monotone_and_reports_the_programs_log_joint(covariance):
    """The trace never falls (1e-9), ends where SciPy's densities put the sites returned, and starts at the start."""
    tree, hyper = em(covariance), build(X, covariance).hyper
    trace = trace_of(tree)
    assert neighbours_increase(trace, 1e-9)
    final, start = sites_of(tree), random_sites(covariance, 2, X)
    for sites, reported in ((final, tree["functionals"]["log_joint"]), (start, trace[0])):
        naive = log_prior(covariance, hyper, sites) + log_likelihood(covariance, sites, X).sum()
        assert float(reported) == pytest.approx(naive, rel=1e-11)
    assert float(tree["optimization"]["final_objective"][0]) == float(tree["functionals"]["log_joint"])
    assert bool(tree["optimization"]["converged"][0])


@pytest.mark.slow
@every_covariance
def test_map_of_the_program_is_em(covariance):
    """The search on the program, from the same start: the same log joint to 1e-6 relative (EM stops at gains of 1e-10)."""
    found = fit(build(X, covariance), table(X), method="map", start=random_sites(covariance, 2, X))
    log_joint = float(found["functionals"]["log_joint"])
    assert log_joint == pytest.approx(float(em(covariance)["functionals"]["log_joint"]), rel=1e-6)
    means = [np.sort(tree["point_estimate"]["mean"].values, axis=0) for tree in (found, em(covariance))]  # labels are free
    np.testing.assert_allclose(*means, atol=1e-2)


def test_map_does_not_mind_units():
    """Columns of sizes 1e4 and 1e-3, far from 0: the quasi-Newton search still ends where EM does."""
    x = two_groups(40) * np.array([1e4, 1e-3]) + np.array([1e6, 0.0])
    trees = [fit(build(x, "diag"), table(x), method=method, start=random_start(x)) for method in ("em", "map")]
    log_joints = [float(tree["functionals"]["log_joint"]) for tree in trees]
    assert log_joints[1] == pytest.approx(log_joints[0], rel=1e-6)


def random_start(x: np.ndarray) -> Sites:
    """Two rows as means, and the columns' own precisions."""
    return {"mixture_probs": np.full(2, 0.5), "mean": x[[0, 1]], "precision": np.tile(1 / x.var(axis=0), (2, 1))}


@covariances
def test_ten_steps_from_a_start_are_ten_naive_steps(covariance):
    """Textbook MAP-EM in NumPy (errata E17), ten times; rounding grows with the condition of the sums: 1e-9."""
    model, sites = build(X, covariance), random_sites(covariance, 2, X)
    tree = fit(model, table(X), method="em", start=sites, max_iter=10, tol=0)
    for _ in range(10):
        sites = map_step(covariance, model.hyper, sites, X)
    assert int(tree["optimization"]["iterations"][0]) == 10
    for name, value in sites.items():
        np.testing.assert_allclose(tree["point_estimate"][name], value, rtol=1e-9)


@pytest.mark.slow
def test_simple_mixture_has_the_documents_update():
    """Document 002: mu_k = Σ r x / (1 + Σ r), with uniform weights."""
    model = build(X, "unit", weights="uniform")
    start = random_sites("unit", 2, X, weights="uniform")
    tree = fit(model, table(X), method="em", start=start, max_iter=1, tol=0)
    r = responsibilities("unit", start, X)
    assert near(tree["point_estimate"]["mean"], r.T @ X / (1 + r.sum(0))[:, None], rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_flat_prior_is_scikit_learn(covariance):
    """The same start and number of iterations as GaussianMixture without regularisation: log-likelihoods to 1e-9 a row."""
    x, size = two_groups(300, 3), 7
    r = np.random.default_rng(4).dirichlet(np.ones(3), len(x))
    start = m_step(covariance, {}, r, x, learned=True)
    tree = fit(build(x, covariance, 3, prior="flat"), table(x), method="em", start=start, max_iter=size, tol=0)
    theirs = GaussianMixture(
        3, covariance_type=covariance, reg_covar=0, max_iter=size, tol=0, weights_init=start["mixture_probs"],
        means_init=start["mean"], precisions_init=start["precision"],
    )  # fmt: skip
    with pytest.warns(match="did not converge"):
        theirs.fit(x)
    assert near(tree["log_likelihood"]["x"], theirs.score_samples(x), atol=1e-9)


def test_an_offset_does_not_change_a_fit():
    """1e6 added to a column, twenty iterations: responsibilities move by less than 1e-6."""
    offset = np.array([1e6, 0.0])
    start = random_sites("full", 2, X)
    options = {"method": "em", "max_iter": 20, "tol": 0}
    here = fit(build(X, "full"), table(X), start=start, **options)
    there = fit(build(X + offset, "full"), table(X + offset), start=start | {"mean": start["mean"] + offset}, **options)
    assert np.abs(here["latent"]["responsibilities"].values - there["latent"]["responsibilities"].values).max() < 1e-6


CLOSE = two_groups(40, gap=2.0)  # four components of it have several maxima


def test_best_start_is_kept_and_all_are_reported():
    tree = fit(build(CLOSE, "diag", 4), table(CLOSE), method="em", num_starts=5)
    finals = tree["optimization"]["final_objective"].values
    assert len(finals) == 5
    assert float(tree["functionals"]["log_joint"]) == finals.max()
    assert int(tree.attrs["best_start"]) == finals.argmax()


# ---------------------------------------------------------------------------------------------------------------------
# Hard EM


@cache
def hard(covariance: str) -> xr.DataTree:
    return fit(build(X, covariance), table(X), method="hard_em", start=random_sites(covariance, 2, X))


@pytest.mark.parametrize("covariance", ["full", "spherical"])
def test_hard_em_climbs_the_complete_data_log_joint(covariance):
    """Monotone in log p(x, z, θ), and still reports the marginal log joint."""
    tree = hard(covariance)
    assert neighbours_increase(trace_of(tree, "criterion"), 1e-9)
    sites, hyper = sites_of(tree), build(X, covariance).hyper
    naive = log_prior(covariance, hyper, sites) + log_likelihood(covariance, sites, X).sum()
    assert float(tree["functionals"]["log_joint"]) == pytest.approx(naive, rel=1e-11)


def test_hard_em_is_k_means():
    """Unit covariances, uniform weights and hardly any prior: Lloyd's iterations, step by step."""
    x = two_groups(80, 3, gap=1.5)
    prior = {"component": {"strength": 1e-12}}
    model = build(x, "unit", 3, weights="uniform", prior=prior)
    centres = x[:3].copy()
    for size in (1, 2, 5):
        tree = fit(model, table(x), method="hard_em", start={"mean": x[:3]}, max_iter=size, tol=0)
        centres = x[:3].copy()
        for _ in range(size):
            nearest = ((x[:, None] - centres) ** 2).sum(-1).argmin(1)
            centres = np.array([x[nearest == k].mean(0) for k in range(3)])
        assert near(tree["point_estimate"]["mean"], centres, atol=1e-10)


def test_stochastic_em_keeps_the_best_that_it_visited():
    tree = fit(build(CLOSE, "diag", 4), table(CLOSE), method="stochastic_em", num_starts=5, max_iter=50)
    best = np.nanmax(tree["optimization"]["objective"].values)
    assert float(tree["functionals"]["log_joint"]) == pytest.approx(best, rel=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# CAVI


def exact_evidence(model: Any, x: np.ndarray) -> float:
    """log p(x) = log Σ over all K^N assignments of p(x, z) = exp(log Z(prior + stats) − log Z(prior)) (2π)^(−ND/2)."""
    algebra, prior = model.algebra, dict(model.prior)
    assignments = np.array(list(product(range(2), repeat=len(x))))

    def log_partition(nu: Any) -> Any:
        return sum(family.log_partition(nu[name]) for name, family in algebra.families)

    def one(z: Any) -> Any:
        features = algebra.features(model.hyper, model.rows(table(x)))
        return log_partition(add(prior, algebra.statistics(jnp.ones(len(x)), z, features)))

    values = jax.jit(partial(jax.lax.map, one, batch_size=64))(jnp.eye(2)[assignments])
    return float(jax.nn.logsumexp(values) - log_partition(prior)) - x.size / 2 * np.log(2 * np.pi)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_elbo_is_monotone_and_below_the_exact_evidence(covariance):
    """2^9 assignments enumerated. The bound is strict, and within 5 nats: mean field loses log 2 for the labels and some."""
    x = two_groups(9)
    model = build(x, covariance)
    tree = fit(model, table(x), method="cavi", num_starts=4, num_samples=10)
    traces = tree["optimization"]["criterion"].values
    assert all(neighbours_increase(trace, 1e-9) for trace in traces)
    evidence = exact_evidence(model, x)
    assert evidence - 5 < tree.attrs["elbo"] < evidence
    assert tree.attrs["elbo"] == pytest.approx(np.nanmax(traces), rel=1e-9)


@pytest.mark.slow
def test_elbo_is_the_evidence_where_nothing_is_latent():
    """One component: q is the posterior itself, and the bound touches the exact evidence."""
    x = two_groups(9)
    model = build(x, "full", 1)
    tree = fit(model, table(x), method="cavi", num_starts=1, num_samples=10)
    nu = add(
        dict(model.prior),
        model.algebra.statistics(jnp.ones(9), jnp.ones((9, 1)), model.algebra.features(model.hyper, model.rows(table(x)))),
    )
    families = dict(model.algebra.families)
    exact = sum(float(families[name].log_partition(nu[name]) - families[name].log_partition(model.prior[name])) for name in nu)
    assert tree.attrs["elbo"] == pytest.approx(exact - x.size / 2 * np.log(2 * np.pi), rel=1e-10)
