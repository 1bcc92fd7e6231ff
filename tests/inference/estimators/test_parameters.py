"""Estimators before a fit: parameters, tags, and what they refuse. Nothing is compiled."""

import inspect
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from inference import estimators
from inference.estimators import GaussianMixture, HiddenMarkov, LatentDirichlet, MixedMixture, NaiveBayes
from inference.estimators.checks import EXPECTED
from models import MODELS
from models.base import ZooError

ESTIMATORS = [getattr(estimators, name) for name in estimators.__all__ if name != "expected_failed_checks"]
LEFT_OUT = {"data", "name", "labelled", "num_classes"}  # y has the labels, or plays no part
X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.arange(12) % 2


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_the_options_of_the_model(kind):
    build = MODELS[kind.MODEL]
    options = inspect.signature(build.func if isinstance(build, partial) else build).parameters
    expected = {name: option.default for name, option in options.items() if name not in LEFT_OUT}
    assert kind()._options() == expected


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_clones_have_equal_parameters(kind):
    one = kind(method="gibbs", method_options={"num_samples": 7}, random_state=3)
    assert clone(one).get_params() == one.get_params() == kind().set_params(**one.get_params()).get_params()
    assert kind().get_params()["method"] == "em"


def test_tags_follow_the_parameters():
    assert get_tags(GaussianMixture()).input_tags.allow_nan
    assert not get_tags(GaussianMixture(tails="student_t")).input_tags.allow_nan
    assert not get_tags(NaiveBayes(emission="multinomial")).input_tags.allow_nan
    assert get_tags(NaiveBayes(emission="gaussian")).input_tags.allow_nan
    assert get_tags(LatentDirichlet()).input_tags.sparse
    assert get_tags(LatentDirichlet()).input_tags.positive_only


def test_the_table_of_failures_names_estimators():
    assert set(EXPECTED) <= {kind.__name__ for kind in ESTIMATORS}
    assert all(reason for checks in EXPECTED.values() for reason in checks.values())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_nothing_is_said_before_a_fit(kind):
    one = kind()
    asked = dict.fromkeys(("predict", "predict_proba", "transform", "inverse_transform", "score_samples"), (X,))
    for name, arguments in (asked | {"score": (X, Y), "sample": ()}).items():
        if hasattr(one, name):
            with pytest.raises(NotFittedError):
                getattr(one, name)(*arguments)


@pytest.mark.parametrize(
    ("estimator", "x", "y", "message"),
    [
        (GaussianMixture(), np.where(X > 1, np.inf, X), None, "infinity"),
        (GaussianMixture(method="guess"), X, None, "method='guess' is not one of"),
        (GaussianMixture(method_options={"num_start": 1}), X, None, "no option 'num_start'"),
        (GaussianMixture(tails="student_t"), np.where(X > 1, np.nan, X), None, "NaN"),
        (GaussianMixture(covariance="round"), X, None, "covariance='round' is not one of"),
        (MixedMixture(types={"year": "category"}), X, None, "no column 'year'"),
        (NaiveBayes(), X, Y, "Negative values"),
        (NaiveBayes(emission="gaussian"), X, np.zeros(12), "only one class"),
        (NaiveBayes(emission="gaussian", missing_label=0), X, np.zeros(12), "missing_label=0"),
        (NaiveBayes(emission="gaussian"), X, None, "requires y"),
        (NaiveBayes(emission="gaussian"), X, Y[:5], "inconsistent numbers of samples"),
        (HiddenMarkov(emission="gaussian", decoding="best"), X, None, "decoding='best' is not one of"),
        (LatentDirichlet(), np.full((3, 2), 0.5), None, "0.5"),
        (LatentDirichlet(), sparse.csr_array((3, 2)), None, "no tokens"),
    ],
)
def test_mistakes_get_one_message(estimator, x, y, message):
    one = clone(estimator)
    with pytest.raises(ValueError, match=message):
        one.fit(x, y)
    with pytest.raises(NotFittedError):
        one.score(x, y)


@pytest.mark.parametrize("lengths", [[5, 6], [12, 0], [6.0, 6.0], [[6, 6]], 12])
def test_lengths_add_up_to_the_rows(lengths):
    with pytest.raises(ZooError, match="lengths must be whole numbers above 0 that add up to the 12 rows"):
        HiddenMarkov(emission="gaussian").fit(X, lengths=lengths)


def test_the_table_has_the_names_and_labels_of_the_reader():
    """X and y become what `load_data` reads of the same DataFrame with the labels beside it."""
    frame = pd.DataFrame(X, columns=["size", "weight"])
    one = NaiveBayes(emission="gaussian", missing_label=-1)
    table = one._labelled(one._table(one._validated(frame, reset=True), np.arange(12.0)), np.where(Y == 1, 7, -1))
    assert table.columns == ("size", "weight")
    assert table.levels == ("7",)
    np.testing.assert_array_equal(table.labels, np.where(Y == 1, 0, -1))
    np.testing.assert_array_equal(table.x, X)
    np.testing.assert_array_equal(table.weight, np.arange(12.0))
    assert one._table(one._validated(X, reset=True)).columns == ("x0", "x1")
