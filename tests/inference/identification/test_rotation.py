"""Rotations of factors: criteria at their maximum, draws turned onto one another, the posterior left as it was."""

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from scipy.stats import ortho_group

from inference import fit, identify, plot_loadings, predict, program_model, rotate
from inference.identification import rotation
from inference.identification.rotation import identify_rotations, ordered, promax, simple
from models import MODELS, ZooError
from models.data import Data
from models.symmetries import Rotation

RNG = np.random.default_rng(1)
SIMPLE = np.kron(np.eye(3), np.ones((4, 1))) * np.array([3.0, 2.0, 1.0])  # every column on one factor
DIMS = {"loading": ("feature", "factor"), "mean": ("feature",)}
TURNS = ortho_group(3, seed=2).rvs(200)
ROWS = RNG.normal(size=(300, 2)) @ np.array([[2, 2, 2, 0.2, 0, 0], [0, 0.3, 0, 1.5, 1.5, 1.5]]) + RNG.normal(size=(300, 6))
TABLE = Data("rows", ROWS, tuple("abcdef"))


def orthomax(loading, gamma):
    return ((loading**4).sum(0) - gamma * (loading**2).sum(0) ** 2 / len(loading)).sum()


@pytest.mark.parametrize(("criterion", "gamma"), [("varimax", 1.0), ("quartimax", 0.0)])
def test_rotations_are_stationary_maxima(criterion, gamma):
    """No small turn of two factors gains, by more than the second order of rounding; and the rotation is one."""
    loading = RNG.normal(size=(9, 4))
    turned = rotate(loading, criterion)
    np.testing.assert_allclose(turned @ turned.T, loading @ loading.T, atol=1e-12)
    best = orthomax(turned, gamma)
    for i in range(4):
        for j in range(i):
            for angle in (-1e-3, 1e-3):
                turn = np.eye(4)
                turn[[i, j], [i, j]], turn[i, j], turn[j, i] = np.cos(angle), np.sin(angle), -np.sin(angle)
                assert orthomax(turned @ turn, gamma) < best + 1e-9 * best


@pytest.mark.parametrize("criterion", ["varimax", "quartimax"])
def test_a_simple_structure_is_found_from_any_rotation(criterion):
    """And its factors come in the order of what they explain, with positive sums."""
    np.testing.assert_allclose(rotate(SIMPLE @ TURNS, criterion), np.broadcast_to(SIMPLE, (200, 12, 3)), atol=1e-6)


def test_promax_allows_factors_to_be_correlated():
    """Loadings on oblique factors, times the factors' correlations, make the same covariance; correlations are found."""
    correlation = np.array([[1.0, 0.5], [0.5, 1.0]])
    pattern = np.array([[1.0, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    loading = pattern @ np.linalg.cholesky(correlation)
    found = promax(loading)
    np.testing.assert_allclose(found.loading @ found.correlation @ found.loading.T, loading @ loading.T, atol=1e-10)
    np.testing.assert_allclose(np.diag(found.correlation), 1.0)
    assert found.correlation[0, 1] > 0.3
    assert np.abs(found.loading[pattern == 0]).max() < np.abs(rotate(loading)[pattern == 0]).max()
    np.testing.assert_allclose(rotate(loading, "promax"), found.loading)


def test_unknown_criteria_are_refused():
    with pytest.raises(ZooError, match="criterion='oblimin' is not one of varimax, quartimax, promax"):
        rotate(SIMPLE, "oblimin")


@pytest.mark.parametrize("criterion", ["varimax", "procrustes"])
def test_draws_are_turned_onto_one_another(criterion):
    """Noisy copies of one loading in all rotations, reflections among them: afterwards as near as before they were turned."""
    noisy = SIMPLE + 0.1 * RNG.normal(size=(200, 12, 3))
    sites = {"loading": noisy @ TURNS, "mean": RNG.normal(size=(200, 12))}
    found = identify_rotations(sites, Rotation("factor"), DIMS, np.ones(1), 0, criterion)
    turned = found.sites["loading"]
    np.testing.assert_allclose(turned @ np.swapaxes(turned, 1, 2), noisy @ np.swapaxes(noisy, 1, 2), atol=1e-10)
    np.testing.assert_allclose(turned, sites["loading"] @ found.moves, atol=1e-12)
    np.testing.assert_array_equal(found.sites["mean"], sites["mean"])
    assert turned.std(0).max() < 0.15
    assert not found.warnings
    assert found.confidence.min() > 0.99
    np.testing.assert_allclose(turned.mean(0), SIMPLE, atol=0.1)


def test_units_of_the_columns_do_not_matter():
    """Loadings are compared in standard deviations: rescaled columns are turned alike."""
    scale = 10.0 ** RNG.integers(-3, 4, 12)
    noisy = (SIMPLE + 0.1 * RNG.normal(size=(200, 12, 3))) @ TURNS
    one = identify_rotations({"loading": noisy}, Rotation("factor"), DIMS, np.ones(12), 0)
    other = identify_rotations({"loading": noisy * scale[:, None]}, Rotation("factor"), DIMS, scale, 0)
    np.testing.assert_allclose(one.moves, other.moves, atol=1e-8)


def test_factors_that_cannot_be_told_apart_are_said_to_be():
    """Loadings without a structure, as spread as they are large."""
    draws = RNG.normal(size=(200, 8, 3))
    found = identify_rotations({"loading": draws}, Rotation("factor"), DIMS, np.ones(1), 0)
    assert "cannot be told apart" in found.warnings[0]


def test_order_and_signs_are_conventions():
    loading = RNG.normal(size=(7, 3))
    turned = loading @ ordered(loading, simple(loading))
    assert (turned.sum(0) > 0).all()
    assert (np.diff((turned**2).sum(0)) <= 0).all()


@pytest.mark.slow
def test_chains_agree_after_rotation():
    """Gibbs in arbitrary rotations: R-hat of the loadings before and after, and the log joint of every draw as it was."""
    model = MODELS["factor_analysis"](TABLE, num_factors=2)
    tree = fit(model, TABLE, "gibbs", num_warmup=300, num_samples=300, num_chains=3)
    raw, turned = (tree[group]["loading"].values for group in ("posterior_raw", "posterior"))
    np.testing.assert_allclose(turned @ np.swapaxes(turned, -1, -2), raw @ np.swapaxes(raw, -1, -2), atol=1e-10)
    assert tree["sample_stats"]["rotation"].shape == (3, 300, 2, 2)
    assert turned.std((0, 1)).max() < 0.3
    again = identify(tree, model, TABLE, "procrustes")
    np.testing.assert_allclose(again["posterior"]["loading"].values.mean((0, 1)), turned.mean((0, 1)), atol=0.15)


@pytest.mark.slow
def test_optima_are_rotated_for_reading():
    """Of equal starts up to a rotation one result; the log joint is that of the start's own optimum."""
    model = MODELS["factor_analysis"](TABLE, num_factors=2)
    trees = [fit(model, TABLE, "em", num_starts=1, seed=seed, tol=1e-14, max_iter=5000) for seed in (0, 1)]
    loadings = [tree["point_estimate"]["loading"].values for tree in trees]
    np.testing.assert_allclose(*loadings, atol=1e-4)
    again = rotate(loadings[0] / ROWS.std(0)[:, None]) * ROWS.std(0)[:, None]
    np.testing.assert_allclose(loadings[0], again, atol=1e-4)  # iterations stop at 1e-8, at a rate that may be 0.9999
    scores = trees[0]["latent"]["scores"]
    assert scores.dims == ("row", "factor")


@pytest.mark.slow
def test_evidence_of_rotated_modes():
    """Laplace across the orbit: importance sampling agrees with a million draws of the prior.

    Both are noisy: 4000 weights with k-hat below 0.7, and an average known to 0.03; 0.2 is more than five of their errors.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2)) @ np.array([[2.5, -1.5], [1.2, 2.2]]) + rng.normal(size=(40, 2))

    def program(x):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([2, 2]).to_event(2))
        with numpyro.plate("row", 40):
            numpyro.sample("x", dist.MultivariateNormal(jnp.zeros(2), w @ w.T + jnp.eye(2)), obs=x)

    model = program_model(program, x, symmetry=Rotation("factor"), dims={"w": ("feature", "factor")}, coords={"factor": [0, 1]})
    tree = fit(model, x, "laplace")
    w = rng.normal(size=(1_000_000, 2, 2))
    covariance = w @ np.swapaxes(w, 1, 2) + np.eye(2)
    energy = np.linalg.slogdet(covariance)[1] + 2 * np.log(2 * np.pi)
    logs = -20 * energy - 0.5 * np.einsum("sij,ji->s", np.linalg.inv(covariance), x.T @ x)
    wanted = logs.max() + np.log(np.exp(logs - logs.max()).mean())
    assert abs(tree.attrs["log_evidence_importance"] - wanted) < 0.2
    assert abs(tree.attrs["log_evidence_laplace"] - wanted) < 0.3


def test_a_saddle_is_left():
    """Two factors of simple structure turned by 45 degrees: the criterion's gradient is 0 there, and its least value."""
    simple_form = np.kron(np.eye(2), np.ones((3, 1)))
    turned = simple_form @ np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    found = np.abs(rotate(turned))
    assert sorted(found.max(1)) == pytest.approx(np.ones(6), abs=1e-6)
    assert found.min(1) == pytest.approx(np.zeros(6), abs=1e-6)


def test_the_picture_of_loadings_has_a_panel_a_factor(tmp_path):
    data = Data("rows", np.random.default_rng(1).normal(size=(40, 50)), tuple(f"x{d}" for d in range(50)))
    model = MODELS["factor_analysis"](data, num_factors=3)
    rng = np.random.default_rng(0)
    sites = {"loading": rng.normal(size=(50, 3)), "mean": np.zeros(50), "precision": np.ones(50)}
    figure = plot_loadings(model, sites, tmp_path / "loadings.png")
    assert [axis.get_title() for axis in figure.axes] == ["factor 1", "factor 2", "factor 3"]
    assert "40 of 50 columns" in figure.get_suptitle()
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    standard = np.abs(sites["loading"] / model.hyper["spread"][:, None])
    kept = sorted(range(50), key=lambda d: -standard[d].max())[:40]
    assert shown == [f"x{d}" for d in sorted(kept, key=lambda d: (standard[d].argmax(), -standard[d].max()))]
    with pytest.raises(ZooError, match="has no factors"):
        plot_loadings(MODELS["gmm"](data, num_components=2), {}, None)


@pytest.mark.slow
def test_predictions_say_where_factors_are_not_told_apart(monkeypatch):
    """Pure noise under three factors: scores on single factors are not to be read, if few draws may be unsure.

    About 4 to 8 % are here, and 5 % are tolerated elsewhere.
    """
    monkeypatch.setattr(rotation, "TOLERATED", 0.01)
    data = Data("noise", np.random.default_rng(1).normal(size=(30, 8)), tuple("abcdefgh"))
    model = MODELS["factor_analysis"](data, num_factors=3)
    tree = fit(model, data, "gibbs", num_warmup=20, num_samples=60, num_chains=2)
    assert "cannot be told apart" in predict(model, tree, data).attrs["warnings"]
    assert tree.attrs["whatever"] == "the rotation of the factors"


def test_promax_is_the_published_formula():
    """Loadings of both signs, by Hendrickson and White's steps: a regression of powers, scaled to factors of variance 1."""
    loading = np.random.default_rng(3).normal(size=(10, 3))
    start = rotate(loading)
    turned = np.linalg.inv(start.T @ start) @ start.T @ (start * np.abs(start) ** 3)
    turned = turned @ np.diag(np.sqrt(np.diag(np.linalg.inv(turned.T @ turned))))
    found = promax(loading)
    np.testing.assert_allclose(found.loading, start @ turned, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.correlation, np.linalg.inv(turned.T @ turned), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(np.diag(found.correlation), 1, rtol=1e-10)


def test_loadings_that_cannot_be_rotated_are_refused():
    loading = np.random.default_rng(3).normal(size=(6, 3))
    loading[:, 2] = 0
    with pytest.raises(ZooError, match="promax needs factors that are apart"):
        rotate(loading, "promax")
    for wrong in (np.ones(3), np.full((3, 2), np.nan)):
        with pytest.raises(ZooError, match="finite numbers"):
            rotate(wrong)
