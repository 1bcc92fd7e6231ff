"""Factor models with relevances: the prior that joins two blocks, what each block sees of the other, order and signs."""

from functools import cache

import jax
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

from inference import fit
from inference.identification.rotation import identify_rotations
from models import MODELS, ZooError, load_data
from models.algebra import log_prior
from models.data import Data
from models.symmetries import Reflection

COLUMNS, FACTORS, ROWS = 6, 3, 50
RNG = np.random.default_rng(4)
LOADING = RNG.normal(size=(COLUMNS, 2)) * [2.0, 1.0]
DATA = Data("table", RNG.normal(size=(ROWS, 2)) @ LOADING.T + RNG.normal(size=(ROWS, COLUMNS)) + 3, tuple("abcdef"))
PRIOR = {"loading": {"loading_strength": 0.7}, "relevance": {"shape": 1.5, "rate": 0.4}}
every_model = pytest.mark.parametrize("name", ["factor_analysis", "ppca"])


def build(name):
    return MODELS[name](DATA, num_factors=FACTORS, prior=PRIOR, relevance=True)


def sites_of(name, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "loading": rng.normal(size=(COLUMNS, FACTORS)),
        "mean": rng.normal(size=COLUMNS) + 3,
        "precision": rng.gamma(3, 0.5, () if name == "ppca" else (COLUMNS,)),
        "relevance": rng.gamma(1.0, 2.0, FACTORS),
    }


@cache
def fitted(name, method, **options):
    return fit(build(name), DATA, method, progress=False, **options)


def point_of(tree):
    return {str(site): np.asarray(value) for site, value in tree["point_estimate"].items()}


def weighted_squares(sites):
    """Σ_d precision_d loading_dl²: (L,)."""
    return (np.asarray(sites["precision"]).reshape(-1, 1) * sites["loading"] ** 2).sum(0)


@every_model
def test_the_log_prior_is_the_programs(name):
    """Algebra and program, the rows left out: the coupling's constant among them."""
    model = build(name)
    rows = model.rows(DATA)

    @jax.jit
    def both(sites):
        T = model.algebra.natural(model.hyper, sites)
        of_program = log_density(handlers.block(model.spec, hide=["x"]), (dict(model.hyper), rows), {}, sites)[0]
        return of_program, log_prior(model.algebra, model.prior, T), model.algebra.sites(model.hyper, T)

    for seed in range(3):
        sites = sites_of(name, seed)
        wanted, found, back = both(sites)
        assert float(found) == pytest.approx(float(wanted), rel=1e-12)
        assert all(np.allclose(value, back[site]) for site, value in sites.items())


@pytest.mark.slow
@every_model
def test_one_step_sees_the_latest_values(name):
    """After an iteration of EM relevances are the mode given the new loadings, those the ridge of the old relevances."""
    sites = sites_of(name)
    found = point_of(fit(build(name), DATA, "em", start=sites, max_iter=1, tol=0, progress=False))
    strength, shape, rate = 0.7, 1.5, 0.4
    order = np.argsort([np.abs(found["relevance"] - value).min() for value in found["relevance"]], kind="stable")
    mode = (shape - 1 + COLUMNS / 2) / (rate + 0.5 * strength * weighted_squares(found))
    np.testing.assert_allclose(found["relevance"][order], mode[order], rtol=1e-10)
    noise = np.broadcast_to(1 / sites["precision"], (COLUMNS,))
    away = DATA.x - sites["mean"]
    precision = np.eye(FACTORS) + (sites["loading"].T / noise) @ sites["loading"]
    z = np.linalg.solve(precision, (sites["loading"].T / noise) @ away.T).T
    whole = np.column_stack([z, np.ones(ROWS)])
    gram = whole.T @ whole
    gram[:-1, :-1] += ROWS * np.linalg.inv(precision)
    prior = build(name).hyper
    gram += np.diag([*(strength * sites["relevance"]), prior["strength"]])
    total = whole.T @ (DATA.x - prior["origin"])
    total[-1] += prior["strength"] * (prior["location"] - prior["origin"])
    wanted = np.linalg.solve(gram, total)[:-1].T
    # The result has its factors in order and with signs of its own.
    np.testing.assert_allclose(found["loading"] @ found["loading"].T, wanted @ wanted.T, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@every_model
def test_em_climbs_to_a_stationary_point_of_the_program(name):
    tree = fitted(name, "em", num_starts=2, tol=1e-14, max_iter=20_000)
    for trace in tree["optimization"]["objective"].values:
        trace = trace[np.isfinite(trace)]
        assert (np.diff(trace) > -1e-11 * np.abs(trace[1:])).all()
    model, sites = build(name), point_of(tree)
    rows = jax.tree.map(jax.numpy.asarray, model.rows(DATA))

    def density(logs):
        """On the logarithms of what is positive, so that gradients are of the size of counts of cells."""
        at = logs | {site: jax.numpy.exp(logs[site]) for site in ("precision", "relevance")}
        return log_density(model.spec, (dict(model.hyper), rows), {}, at)[0]

    at = sites | {site: np.log(sites[site]) for site in ("precision", "relevance")}
    for leaf in jax.tree.leaves(jax.grad(density)(at)):
        # EM stops where an iteration gains 1e-14 of the objective: at most sqrt(1e-14 × 600 × curvature of 100s) of gradient
        assert np.abs(leaf).max() < 2e-2


@pytest.mark.slow
@every_model
def test_the_bound_climbs_and_lies_below_the_evidence(name):
    """ELBO of mean field never falls; the evidence is above it, here by importance sampling from Laplace's draws."""
    tree = fitted(name, "cavi", num_starts=2, max_iter=300)
    for trace in tree["optimization"]["objective"].values:
        trace = trace[np.isfinite(trace)]
        assert (np.diff(trace) > -1e-11 * np.abs(trace[1:])).all()
    evidence = fitted(name, "laplace", num_starts=3).attrs["log_evidence_importance"]
    # One order and one sign of the factors: 2³ 3! modes make the evidence no smaller.
    assert tree.attrs["elbo"] < evidence + np.log(48)


def test_relevances_follow_their_factors():
    """Order and signs that a draw lost come back, and each relevance with its loadings; nothing is rotated."""
    rng = np.random.default_rng(0)
    sites = sites_of("factor_analysis")
    size = 40
    order = np.array([rng.permutation(FACTORS) for _ in range(size)])
    signs = rng.choice([-1.0, 1.0], (size, 1, FACTORS))
    noise = 0.01 * rng.normal(size=(size, COLUMNS, FACTORS))
    loading = np.stack([(sites["loading"] + noise[s])[:, order[s]] for s in range(size)]) * signs
    draws = {"loading": loading, "relevance": np.stack([sites["relevance"][o] for o in order])}
    dims = {"loading": ("feature", "factor"), "relevance": ("factor",)}
    found = identify_rotations(draws, Reflection("factor"), dims, np.ones(1), 0)
    for s in range(size):
        np.testing.assert_allclose(found.sites["relevance"][s], found.sites["relevance"][0], rtol=1e-12)
        assert np.abs(found.sites["loading"][s] - found.sites["loading"][0]).max() < 0.12  # noise of two draws: 0.01 √2 × 6 sd
        assert set(np.round(np.abs(found.moves[s]).ravel(), 12)) <= {0.0, 1.0}
    assert not found.warnings
    assert sorted(found.sites["relevance"][0]) == pytest.approx(sorted(sites["relevance"]))


@pytest.mark.slow
def test_needless_factors_are_switched_off():
    """Of six factors for data of three, three have loadings; relevances of the others are an order of magnitude larger."""
    data = load_data("factors", num_rows=300)
    tree = fit(MODELS["factor_analysis"](data, num_factors=6, relevance=True), data, "em", num_starts=3, progress=False)
    relevance, loading = tree["point_estimate"]["relevance"].values, tree["point_estimate"]["loading"].values
    assert (np.abs(loading).max(0) > 0.3).sum() == 3
    assert sorted(relevance)[3] > 10 * sorted(relevance)[2]


def test_a_prior_needs_a_prior():
    with pytest.raises(ZooError, match="relevance=true is a prior"):
        MODELS["ppca"](DATA, num_factors=2, prior="flat", relevance=True)
    with pytest.raises(ZooError, match="relevance must be true or false"):
        MODELS["ppca"](DATA, num_factors=2, relevance="maybe")
    with pytest.raises(ZooError, match="the blocks are loading"):
        MODELS["ppca"](DATA, num_factors=2, prior={"relevance": {"shape": 2.0}})
