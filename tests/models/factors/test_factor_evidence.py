"""Minka's evidence, the shares of the axes, and other closed forms of factor models."""

import numpy as np
import pytest
from factor_tables import COLUMNS, HOLED, ROWS, WHOLE, covariance_of, table
from sklearn.decomposition._pca import _assess_dimension

from inference import fit
from models import MODELS, ZooError, load_data


def test_minkas_evidence_is_scikit_learns_and_no_matter_of_the_method():
    """But for the constant −N/2 (D log 2π + D), which scikit-learn leaves out; of rows, of their moments and of weights."""
    values = np.linalg.eigvalsh(np.cov(WHOLE.T, bias=True))[::-1]
    constant = -ROWS / 2 * COLUMNS * (np.log(2 * np.pi) + 1)
    twice = table(np.concatenate([WHOLE, 7 * WHOLE]), weight=np.repeat([1.0, 0.0], ROWS))
    for num_factors in range(1, COLUMNS):
        wanted = _assess_dimension(values, num_factors, ROWS) + constant
        for data in (table(WHOLE), twice):
            model = MODELS["ppca"](data, num_factors=num_factors)
            assert model.abilities.approximate_evidence(model.rows(data)) == pytest.approx(wanted, rel=1e-10)
    tree = fit(MODELS["ppca"](table(WHOLE), num_factors=2), table(WHOLE), "em", max_iter=3, num_starts=1)
    assert tree.attrs["log_evidence_approximate"] == pytest.approx(_assess_dimension(values, 2, ROWS) + constant, rel=1e-10)
    assert np.isnan(MODELS["ppca"](table(HOLED), num_factors=2).abilities.approximate_evidence(model.rows(table(HOLED))))


def test_shares_of_the_axes_are_eigenvalues():
    """They sum to the mean communality of all columns, and no rotation changes them."""
    rng = np.random.default_rng(3)
    sites = {"loading": rng.normal(size=(COLUMNS, 3)), "mean": np.zeros(COLUMNS), "precision": rng.gamma(2, 1, COLUMNS)}
    covariance = covariance_of(sites)
    spread = np.sqrt(np.diag(covariance))
    common = covariance - np.diag(1 / sites["precision"])
    wanted = np.sort(np.linalg.eigvalsh(common / np.outer(spread, spread)))[::-1][:3] / COLUMNS
    model = MODELS["factor_analysis"](table(WHOLE), num_factors=3)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for rotation in (np.eye(3), turn):
        found = model.summaries.functionals(model.hyper, sites | {"loading": sites["loading"] @ rotation}, None)
        np.testing.assert_allclose(found["axis_share"], wanted, atol=1e-12)
        assert float(found["axis_share"].sum()) == pytest.approx(float(found["communality"].mean()), rel=1e-12)


def test_the_closed_form_has_an_objective():
    tree = fit(MODELS["ppca"](table(WHOLE), num_factors=2, prior="flat"), table(WHOLE), "exact")
    found = tree["optimization"]["objective"].values[0, 0]
    assert found == pytest.approx(float(tree["functionals"]["log_likelihood"]), rel=1e-12)


def test_rows_of_weight_zero_have_no_units():
    """One that is far away changes neither the prior nor the fit."""
    data = table(WHOLE)
    far = table(np.concatenate([WHOLE, np.full((1, COLUMNS), 1e200)]), weight=np.append(np.ones(ROWS), 0.0))
    for one, other in zip(
        *(MODELS["factor_analysis"](each, num_factors=2).hyper.values() for each in (data, far)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("wrong", [0, 1.5, True])
def test_generators_refuse_what_is_no_number_of_factors(wrong):
    with pytest.raises(ZooError, match="num_factors must be a whole number"):
        load_data("factors", num_factors=wrong)


@pytest.mark.slow
def test_the_posterior_is_near_the_mode_for_many_rows():
    """Gibbs and EM on 3,000 rows: means of functionals are within half a posterior sd of the mode, which is O(1 / √N) of one.

    The constant of that is a few units, of √3000 = 55; Monte Carlo errors are 0.05 sd.
    """
    data = load_data("factors", num_rows=3000, num_columns=6, num_factors=2)
    model = MODELS["factor_analysis"](data, num_factors=2)
    mode = fit(model, data, "em", num_starts=2, tol=1e-13, max_iter=20_000, progress=False)["functionals"].to_dataset()
    draws = fit(model, data, "gibbs", num_warmup=500, num_samples=2000, num_chains=2, progress=False)[
        "functionals"
    ].to_dataset()
    laplace = fit(model, data, "laplace", num_starts=2, progress=False)["functionals"].to_dataset()
    for name in ("communality", "noise", "correlation", "axis_share"):
        mean, sd = draws[name].mean(("chain", "draw")).values, draws[name].std(("chain", "draw")).values
        assert np.abs(mode[name].values - mean).max() < 0.5 * sd.max()
        assert np.abs(laplace[name].mean(("chain", "draw")).values - mean).max() < 0.5 * sd.max()
        assert np.abs(laplace[name].std(("chain", "draw")).values / sd - 1).max() < 0.25


def test_copies_of_a_column_have_no_maximum():
    data = table(np.column_stack([WHOLE, -3 * WHOLE[:, 1] + 2]))
    with pytest.raises(ZooError, match="'x1' and 'x6' are perfectly correlated"):
        MODELS["factor_analysis"](data, num_factors=1, prior="flat")
    assert MODELS["factor_analysis"](data, num_factors=1).name == "factor_analysis"


@pytest.mark.slow
def test_relevances_are_no_parameters_of_the_likelihood():
    """AIC and BIC count what the likelihood sees: loadings up to a rotation, means and noise."""
    sizes = []
    for relevance in (True, False):
        model = MODELS["factor_analysis"](table(WHOLE), num_factors=3, relevance=relevance)
        sizes.append(fit(model, table(WHOLE), "em", num_starts=1, max_iter=2, progress=False).attrs["num_parameters"])
    assert sizes == [3 * COLUMNS - 3 + 2 * COLUMNS] * 2
