"""Logistic regression on columns with one value in every row: their weights keep their prior, and nothing else changes."""

from typing import Any

import numpy as np
import pytest
from naive import SHORT, is_finite
from scipy import stats
from two_stage import assert_standard_normal, of_distribution

from inference import fit, learning_curve, predict
from models import MODELS, Data, ZooError, load_data

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)) * [1.0, 3.0] + [0.0, 5.0]
LABELS = list("abcabbcaab" * 4)
CONSTANT = 0.1  # its mean over 40 rows is not 0.1 to the last digit


def table(size: int = 3, weight: Any = None) -> Data:
    """Columns u and v, and a constant one between them."""
    x = np.column_stack([X[:, 0], np.full(40, CONSTANT), X[:, 1]])
    labels = [label if label < "abc"[size - 1] else "abc"[size - 1] for label in LABELS]
    return load_data(x, labels=labels, weight=weight)._replace(columns=("u", "same", "v"))


def without(data: Data) -> Data:
    return load_data(data, columns=["u", "v"])


@pytest.mark.slow
@pytest.mark.parametrize(("method", "size"), [("em", 2), ("map", 3), ("laplace", 2), ("gibbs", 3), ("nuts", 2)])
def test_every_method_runs_and_names_the_column(method, size):
    model = MODELS["logistic_regression"](table(size))
    assert float(model.hyper["weight_scale"][1]) == 2.5
    tree = fit(model, table(size), method=method, seed=1, **SHORT[method])
    assert is_finite(tree)
    assert "'same' has one value in every row" in tree.attrs["warnings"]
    assert "drop_constant" in tree.attrs["warnings"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_a_maximum_is_that_without_the_column(size):
    """The mode of its weight is the prior's, 0; the other coefficients and the probabilities are as they are without it."""
    data = table(size)
    model, less = MODELS["logistic_regression"](data), MODELS["logistic_regression"](without(data))
    left, right = fit(model, data, method="em", tol=1e-15), fit(less, without(data), method="em", tol=1e-15)
    np.testing.assert_array_equal(left["point_estimate"]["weight"].sel(feature="same"), 0)
    kept = left["point_estimate"]["weight"].sel(feature=["u", "v"])
    np.testing.assert_allclose(kept, right["point_estimate"]["weight"], atol=1e-6)
    assert float(left["functionals"]["log_likelihood"]) == pytest.approx(
        float(right["functionals"]["log_likelihood"]), rel=1e-10
    )
    prior = (size - 1) * stats.norm(0, 2.5).logpdf(0)
    gap = float(left["functionals"]["log_joint"]) - float(right["functionals"]["log_joint"])
    assert gap == pytest.approx(prior, rel=1e-9)


@pytest.mark.slow
def test_cavi_has_the_prior_as_its_posterior():
    """q of the weight is the prior exactly, so that the bound is the same and draws have its law (Kolmogorov-Smirnov)."""
    data = table(2)
    less = fit(MODELS["logistic_regression"](without(data)), without(data), method="cavi", tol=1e-15)

    def deviations(seed: int, times: int) -> Any:
        model = MODELS["logistic_regression"](data)
        tree = fit(model, data, method="cavi", tol=1e-15, num_samples=1000 * times, seed=seed)
        assert tree.attrs["elbo"] == pytest.approx(less.attrs["elbo"], rel=1e-9)
        return of_distribution(tree["posterior"]["weight"].sel(feature="same").values.ravel(), stats.norm(0, 2.5).cdf)

    assert_standard_normal(deviations)


@pytest.mark.slow
def test_new_rows_with_another_value_are_uncertain():
    """Under draws of the prior weight, a value far off says nothing sure: probabilities go towards their average over signs."""
    data = table(2)
    model = MODELS["logistic_regression"](data)
    tree = fit(model, data, method="gibbs", num_warmup=50, num_samples=500)
    new = X[:5].mean(0)
    rows = np.array([[new[0], CONSTANT, new[1]], [new[0], CONSTANT + 100.0, new[1]]])
    probs = predict(model, tree, Data("new", rows, data.columns))["probs"].values
    weight = tree["posterior"]["weight"].sel(feature="same").values.ravel()
    assert probs[1, 1] == pytest.approx((weight > 0).mean(), abs=0.05)  # |100 weight| is below 10 for 3 % of the prior


@pytest.mark.slow
def test_rows_of_weight_zero_do_not_vary_a_column():
    """What varies only where nothing counts is constant; training sets of a learning curve are such."""
    x = np.column_stack([X[:, 0], np.where(np.arange(40) < 30, CONSTANT, 7.0)])
    weight = (np.arange(40) < 30).astype(float)
    data = load_data(x, labels=LABELS, weight=weight)
    model = MODELS["logistic_regression"](data)
    assert "'x1'" in model.summaries.warnings[0]
    np.testing.assert_array_equal(fit(model, data, method="em")["point_estimate"]["weight"][:, 1], 0)
    x[:, 1] = np.where(np.arange(40) > 0, CONSTANT, 7.0)
    curve = learning_curve({"logistic": MODELS["logistic_regression"]}, load_data(x, labels=LABELS), [12, 20], seeds=[0, 1])
    assert np.isfinite(curve["log_loss"]).all()


def test_a_flat_prior_refuses_it():
    with pytest.raises(ZooError, match=r"'same' has the same value.*prior=flat.*drop_constant=true, or use a proper prior"):
        MODELS["logistic_regression"](table(), prior="flat")
    assert MODELS["logistic_regression"](without(table())).summaries.warnings == ()


def test_digits_run_as_they_are():
    """Three of the 64 pixels never vary."""
    digits = load_data("digits")
    model = MODELS["logistic_regression"](digits)
    assert model.summaries.warnings[0].startswith("'pixel_0_0', 'pixel_4_0', 'pixel_4_7' have one value in every row:")
    assert all(np.isfinite(value).all() for value in model.hyper.values())
