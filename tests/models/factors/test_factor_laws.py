"""Laws of document 002's factor models: what moves under translation, scaling and rotation; closed forms; scikit-learn."""

import numpy as np
import pytest
from factor_tables import COLUMNS, FACTORS, HOLED, ROWS, WEIGHT, WHOLE, covariance_of, dense, every_model, table
from sklearn.decomposition import PCA, FactorAnalysis

from inference import fit
from models import MODELS, ZooError, load_data


def maximum(name, x, num_factors=FACTORS):
    """(sites, log-likelihood) of the best of four starts: so many iterations that rounding alone is left."""
    data = table(x)
    model = MODELS[name](data, num_factors=num_factors, prior="flat")
    tree = fit(model, data, "em", num_starts=4, max_iter=20_000, tol=0)
    return {str(key): value.values for key, value in tree["point_estimate"].items()}, float(
        tree["functionals"]["log_likelihood"]
    )


@pytest.mark.slow
@every_model
def test_translation_moves_the_mean_alone(name):
    here, value = maximum(name, WHOLE)
    there, moved = maximum(name, WHOLE + 1000.0)
    assert moved == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(there["mean"], here["mean"] + 1000.0, rtol=1e-12)
    np.testing.assert_allclose(covariance_of(there), covariance_of(here), rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_scaling_and_rotation():
    """Scaling a column costs factor analysis −N log|c|, its loadings follow; a rotation costs PPCA nothing; not crosswise."""
    scale = np.array([1.0, 10.0, 0.1, 3.0, 1.0, 0.5])
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(COLUMNS, COLUMNS)))[0]
    values = {name: maximum(name, WHOLE)[1] for name in ("factor_analysis", "ppca")}
    scaled = {name: maximum(name, WHOLE * scale)[1] for name in values}
    turned = {name: maximum(name, WHOLE @ turn)[1] for name in values}
    jacobian = ROWS * np.log(scale).sum()
    assert scaled["factor_analysis"] + jacobian == pytest.approx(values["factor_analysis"], rel=1e-8)
    assert abs(scaled["ppca"] + jacobian - values["ppca"]) > 1
    assert turned["ppca"] == pytest.approx(values["ppca"], rel=1e-8)
    assert abs(turned["factor_analysis"] - values["factor_analysis"]) > 1e-3
    before, after = maximum("factor_analysis", WHOLE)[0], maximum("factor_analysis", WHOLE * scale)[0]
    scaled_back = covariance_of(after) / np.outer(scale, scale)
    np.testing.assert_allclose(scaled_back, covariance_of(before), rtol=1e-8, atol=1e-8)


def test_ppca_is_its_closed_form():
    """Tipping and Bishop (1999): W = U (Λ − σ² I)^½ R, σ² the mean of the eigenvalues left over, divisor N."""
    found, value = maximum("ppca", WHOLE)
    values, vectors = np.linalg.eigh(np.cov(WHOLE.T, bias=True))
    noise = values[:-FACTORS].mean()
    top = vectors[:, -FACTORS:]
    wanted = top @ np.diag(values[-FACTORS:] - noise) @ top.T
    assert 1 / found["precision"] == pytest.approx(noise, rel=1e-8)
    np.testing.assert_allclose(found["loading"] @ found["loading"].T, wanted, rtol=1e-8, atol=1e-8 * np.abs(wanted).max())
    sites = {"loading": top * np.sqrt(values[-FACTORS:] - noise), "mean": WHOLE.mean(0), "precision": 1 / noise}
    assert value == pytest.approx(dense(sites, WHOLE).sum(), rel=1e-8)


def test_ppca_is_scikit_learns_but_for_the_divisor():
    """``noise_variance_`` and ``score`` of PCA divide by N − 1."""
    pca = PCA(FACTORS).fit(WHOLE)
    found, _ = maximum("ppca", WHOLE)
    assert 1 / found["precision"] == pytest.approx(pca.noise_variance_ * (ROWS - 1) / ROWS, rel=1e-8)
    theirs = {
        "loading": pca.components_.T * np.sqrt(pca.explained_variance_ - pca.noise_variance_),
        "mean": pca.mean_,
        "precision": 1 / pca.noise_variance_,
    }
    assert pca.score(WHOLE) == pytest.approx(dense(theirs, WHOLE).mean(), rel=1e-10)


def test_likelihood_of_ppca_is_scikit_learns_but_for_the_divisor():
    """At its maximum tr(Σ⁻¹ S) = D. PCA's Σ is c = N / (N − 1) times ours, so that ours is N D (log c + 1/c − 1) / 2 above."""
    data = load_data("digits")  # constant pixels too
    tree = fit(MODELS["ppca"](data, num_factors=5, prior="flat"), data, "exact")
    pca = PCA(5, svd_solver="full").fit(data.x)
    number, columns = data.x.shape
    ratio = number / (number - 1)
    assert 1 / float(tree["point_estimate"]["precision"]) == pytest.approx(pca.noise_variance_ / ratio, rel=1e-10)
    wanted = number * pca.score(data.x) + number * columns * (np.log(ratio) + 1 / ratio - 1) / 2
    assert float(tree["functionals"]["log_likelihood"]) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "num_factors"), [("wine", 3), ("breast_cancer", 3), ("digits", 5)])
def test_em_reaches_scikit_learns_likelihood(name, num_factors):
    """One maximum from four starts of ours, in raw columns, and three of theirs, in standardised ones: −N Σ log sd is between.

    Theirs take the best loadings of given noise, so that they seek in D dimensions, and a start is noise; in columns of unlike
    units they stop far below. The sizes are free of Heywood cases: 4 factors of wine send noise to 0 for ever.
    A start of ours stops at a gain of 1e-11 of the log-likelihood: for 1e-6 to be left of it, the gains that follow would have
    to shrink by less than 1e-5 an iteration. Theirs stop at 1e-8 in all.
    """
    data = load_data(name, drop_constant=True)
    deviation = data.x.std(0)
    x = (data.x - data.x.mean(0)) / deviation
    rng = np.random.default_rng(0)
    theirs = []
    for _ in range(3):
        first = rng.uniform(0.2, 1, x.shape[1])
        peer = FactorAnalysis(num_factors, tol=1e-8, max_iter=5000, svd_method="lapack", noise_variance_init=first).fit(x)
        theirs.append(len(x) * (peer.score(x) - np.log(deviation).sum()))
    model = MODELS["factor_analysis"](data, num_factors=num_factors, prior="flat")
    tree = fit(model, data, "em", num_starts=4, max_iter=10_000, tol=1e-11)
    ours = tree["optimization"]["final_objective"].values
    assert tree["optimization"]["converged"].values.all()
    np.testing.assert_allclose(ours, max(theirs), rtol=1e-6)
    np.testing.assert_allclose(theirs, max(theirs), rtol=1e-6)
    uniqueness = 1 / tree["point_estimate"]["precision"].values / deviation**2
    assert uniqueness.min() > 1e-3


@pytest.mark.slow
@every_model
def test_em_climbs_and_map_agrees(name):
    data = table(HOLED[~np.isnan(HOLED).all(1)])
    model = MODELS[name](data, num_factors=FACTORS)
    tree = fit(model, data, "em", num_starts=2, tol=1e-14, max_iter=20_000)
    objective = tree["optimization"]["objective"].values[0]
    steps = np.diff(objective[~np.isnan(objective)])
    assert steps.min() > -1e-9 * abs(objective[0])
    other = fit(model, data, "map", num_starts=2)
    assert float(other["functionals"]["log_joint"]) == pytest.approx(float(tree["functionals"]["log_joint"]), rel=1e-8)
    np.testing.assert_allclose(other["functionals"]["communality"], tree["functionals"]["communality"], atol=1e-4)


def test_exact_is_the_closed_form_of_the_maximum():
    """Weights and all: EM from the same rows reaches it, and no point near it is above."""
    data = table(WHOLE, weight=WEIGHT)
    model = MODELS["ppca"](data, num_factors=FACTORS, prior="flat")
    exact = fit(model, data, "exact")
    em = fit(model, data, "em", num_starts=2, max_iter=20_000, tol=1e-14)
    assert float(em["functionals"]["log_likelihood"]) == pytest.approx(float(exact["functionals"]["log_likelihood"]), rel=1e-10)
    np.testing.assert_allclose(em["functionals"]["communality"], exact["functionals"]["communality"], atol=1e-6)
    holed = table(HOLED)
    flat = MODELS["ppca"](holed, prior="flat")
    with pytest.raises(ZooError, match="no closed form if cells are missing"):
        fit(flat, holed, "exact")
    with pytest.raises(ZooError, match="continuous and never observed"):
        fit(MODELS["ppca"](data), data, "exact")


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1e9, 1e-9])
def test_few_rows_stand_for_all_in_any_units(factor):
    """A column in units 1e9 times wider or narrower keeps its covariances: the likelihood shifts by −N log|factor|, no more."""
    x = WHOLE - WHOLE.mean(0)
    scaled = x.copy()
    scaled[:, 3] *= factor
    value = maximum("factor_analysis", x)[1]
    assert maximum("factor_analysis", scaled)[1] + ROWS * np.log(factor) == pytest.approx(value, rel=1e-8)
