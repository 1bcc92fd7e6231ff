"""Results side by side: which of their figures compare."""

from functools import cache

import numpy as np
import pytest
import xarray as xr
from rich.console import Console

from inference import compare, fit
from inference.comparing import print_comparison
from models import MODELS, Data, Model, load_data
from models.documents import documents

LABELS = list("abc" * 8)
X = np.random.default_rng(0).integers(0, 2, (24, 3))


@cache
def table() -> Data:
    return load_data(X + 0.1 * np.random.default_rng(1).normal(size=X.shape), labels=LABELS)


@cache
def fitted(name: str, **options: str) -> xr.DataTree:
    return fit(MODELS[name](table(), **options), table(), method="em", num_starts=1)


def gaussian_bayes() -> xr.DataTree:
    return fitted("naive_bayes", emission="gaussian")


@pytest.mark.parametrize(
    ("make", "explained"),
    [
        (lambda: MODELS["gmm"](table()), "columns"),
        (lambda: MODELS["linear_discriminant"](table()), "columns and class"),
        (lambda: MODELS["linear_discriminant"](table()._replace(labels=None), num_classes=2), "columns"),
        (lambda: MODELS["logistic_regression"](table()), "class given columns"),
        (lambda: MODELS["naive_bayes"](table(), emission="gaussian"), "columns and class"),
        (lambda: MODELS["naive_bayes"](load_data(X, labels=LABELS)), "binary columns and class"),
        (lambda: MODELS["markov_naive_bayes"](load_data(X, labels=LABELS), homogeneous=False), "binary columns and class"),
        (lambda: MODELS["naive_bayes"](load_data(X, labels=LABELS), emission="poisson"), "counts and class"),
        (lambda: MODELS["naive_bayes"](load_data(X, labels=LABELS), emission="categorical"), "categories and class"),
        (lambda: MODELS["naive_bayes"](words(), emission="multinomial"), "counts given their sum and class"),
        (lambda: MODELS["markov_naive_bayes"](words()), "sequences given their lengths and class"),
    ],
)
def test_models_say_what_they_explain(make, explained):
    model: Model = make()
    assert model.explains == explained


def words() -> Data:
    return load_data(documents([["a", "b"], ["b"]]), labels=["x", "y"])


def test_elpd_and_evidence_of_two_models_of_one_thing_compare(capsys):
    """Both are densities of columns and class: no warning about that, and no distances between two posteriors."""
    assert fitted("linear_discriminant").attrs["explains"] == "columns and class"
    found = compare({"linear": fitted("linear_discriminant"), "naive": gaussian_bayes()})
    assert found.comparable
    assert not found.one_model
    assert found.reference is None
    print_comparison(found, Console(width=80))
    printed = capsys.readouterr().out
    assert "explain the same" in printed
    assert "compare within" not in printed
    assert not compare({"linear": fitted("linear_discriminant"), "logistic": fitted("logistic_regression")}).comparable


def without_word(tree: xr.DataTree) -> xr.DataTree:
    """As results were stored before models said what they explain."""
    old = tree.copy()
    old.attrs = {name: value for name, value in tree.attrs.items() if name != "explains"}
    return old


def test_results_stored_before_are_taken_by_name_and_emission():
    old, new = without_word(gaussian_bayes()), gaussian_bayes()
    assert compare({"old": old, "new": new}).one_model
    bernoulli = fit(MODELS["naive_bayes"](table()._replace(x=X)), table()._replace(x=X), method="em")
    poisson = fit(MODELS["naive_bayes"](table()._replace(x=X), emission="poisson"), table()._replace(x=X), method="em")
    for trees in ((bernoulli, poisson), (without_word(bernoulli), without_word(poisson))):
        assert not compare(dict(zip("lr", trees, strict=True))).comparable
    assert not compare({"linear": without_word(fitted("linear_discriminant")), "naive": new}).comparable
