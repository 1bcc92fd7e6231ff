"""Fitted estimators say what `inference` says of the same model, and work inside scikit-learn's tools."""

import pickle
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from release import RELEASE
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from two_stage import assert_standard_normal, of_means

from inference import fit, log_likelihood, perplexity, predict
from inference.estimators import PPCA, GaussianMixture, HiddenMarkov, LatentDirichlet, MixedMixture, NaiveBayes
from inference.results.triangles import sites_of
from models import MODELS, load_data

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]

RNG = np.random.default_rng(0)
GROUP = np.arange(24) // 4 % 2  # four steps of one group, then four of the other
X = RNG.normal(size=(24, 3)) + 5 * GROUP[:, None]
Y = np.array(["no", "yes"])[GROUP]
PARTLY = np.where(np.arange(24) % 3 == 0, "?", Y)  # labels of which a third are missing
LENGTHS = [8, 16]
STARTS = {"num_starts": 2}
DRAWS = {"num_warmup": 20, "num_samples": 15, "num_chains": 2}


@cache
def fitted(name: str) -> Any:
    if name == "nb":
        return NaiveBayes(emission="gaussian", method="gibbs", method_options=DRAWS, missing_label="?").fit(X, PARTLY)
    if name == "hmm":
        return HiddenMarkov(emission="gaussian", method_options=STARTS).fit(X, lengths=LENGTHS)
    return {"gmm": GaussianMixture, "ppca": PPCA}[name](method_options=STARTS).fit(X)


def direct(name: str) -> Any:
    """(model, result, data) by the functions of `inference` alone."""
    data, model, options = load_data(X), {"gmm": "gmm", "ppca": "ppca"}.get(name, ""), {"method": "em", **STARTS}
    if name == "nb":
        data = load_data(X, labels=[None if label == "?" else label for label in PARTLY])
        built = MODELS["naive_bayes"](data, emission="gaussian")
        return built, fit(built, data, "gibbs", **DRAWS), data
    if name == "hmm":
        sequence = np.repeat(["a", "b"], LENGTHS)
        frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(sequence=sequence)
        data = load_data(frame, sequence="sequence")
        built = MODELS["hmm"](data, emission="gaussian")
        return built, fit(built, data, **options), data
    built = MODELS[model](data)
    return built, fit(built, data, **options), data


def said(one: Any, name: str) -> dict[str, np.ndarray]:
    """All that an estimator says of X."""
    extra = {"lengths": LENGTHS} if name == "hmm" else {}
    asked = ("predict_proba", "score_samples") if name != "ppca" else ("transform", "score_samples")
    return {each: getattr(one, each)(X, **extra) for each in asked}


@pytest.mark.parametrize("name", ["gmm", "nb", "ppca", "hmm"])
def test_an_estimator_says_what_inference_says(name):
    model, tree, data = direct(name)
    found = predict(model, tree, data, num_draws=0, fitted=False)
    told = said(fitted(name), name)
    there = found["assignment"].values >= 0 if name == "hmm" else slice(None)
    names = {"predict_proba": "probs", "transform": "scores", "score_samples": "log_density"}
    for each, value in told.items():
        variable = "step_log_density" if name == "hmm" and each == "score_samples" else names[each]
        np.testing.assert_allclose(value, found[variable].values[there], rtol=1e-9)


@pytest.mark.parametrize("name", ["gmm", "ppca", "hmm"])
def test_densities_at_a_point_are_those_of_log_likelihood(name):
    one = fitted(name)
    model, tree, data = direct(name)
    log_density = log_likelihood(model, sites_of(tree, "point_estimate"), data)
    if name == "hmm":  # of sequences, with their ends
        assert one.score(X, lengths=LENGTHS) == pytest.approx(log_density.sum() / len(X), rel=1e-12)
    else:
        np.testing.assert_allclose(one.score_samples(X), log_density, rtol=1e-12)
        assert one.score(X) == pytest.approx(log_density.mean(), rel=1e-12)


@pytest.mark.parametrize("name", ["gmm", "nb", "ppca", "hmm"])
def test_pickles_and_clones_say_the_same_bit_by_bit(name):
    one = fitted(name)
    again = pickle.loads(pickle.dumps(one))
    other = clone(one)
    other = other.fit(X, lengths=LENGTHS) if name == "hmm" else other.fit(X, PARTLY)
    for each, value in said(one, name).items():
        np.testing.assert_array_equal(said(again, name)[each], value)
        np.testing.assert_array_equal(said(other, name)[each], value)


def test_labels_of_a_clusterer_are_its_predictions():
    one = fitted("gmm")
    np.testing.assert_array_equal(one.labels_, one.predict(X))
    np.testing.assert_array_equal(one.labels_, one.predict_proba(X).argmax(1))
    assert len(set(zip(one.labels_, Y, strict=True))) == 2  # the groups, under some names


def test_a_classifier_knows_its_classes():
    one = fitted("nb")
    np.testing.assert_array_equal(one.classes_, ["no", "yes"])
    np.testing.assert_array_equal(one.predict(X), one.classes_[one.predict_proba(X).argmax(1)])
    np.testing.assert_allclose(np.exp(one.predict_log_proba(X)), one.predict_proba(X), rtol=1e-12)
    assert one.score(X, Y) == np.mean(one.predict(X) == Y)


def test_sequences_do_not_know_of_one_another():
    one = fitted("hmm")
    first, second = X[: LENGTHS[0]], X[LENGTHS[0] :]
    for method in (one.predict, one.predict_proba, one.score_samples):
        apart = np.concatenate([method(first), method(second)])
        np.testing.assert_allclose(method(X, lengths=LENGTHS), apart, rtol=1e-9)


def test_scores_lead_back_to_the_expected_columns():
    one = fitted("ppca")
    model, tree, data = direct("ppca")
    expected = predict(model, tree, data, num_draws=0, fitted=False)["reconstruction"].values
    np.testing.assert_allclose(one.inverse_transform(one.transform(X)), expected, rtol=1e-9)


def test_a_pipeline_keeps_names():
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(24) + 100)
    line = make_pipeline(StandardScaler(), PPCA(method_options=STARTS)).set_output(transform="pandas")
    found = line.fit_transform(frame)
    assert list(found.columns) == list(line.get_feature_names_out()) == ["ppca0", "ppca1"]
    assert list(found.index) == list(frame.index)
    np.testing.assert_array_equal(line[-1].feature_names_in_, frame.columns)
    assert list(line[-1].result_["point_estimate"]["feature"].values) == ["a", "b", "c"]
    np.testing.assert_allclose(found, PPCA(method_options=STARTS).fit_transform(StandardScaler().fit_transform(X)), rtol=1e-9)


def test_grid_search_finds_the_number_of_components():
    search = GridSearchCV(GaussianMixture(method_options=STARTS, covariance="spherical"), {"num_components": [1, 2]}, cv=2)
    search.fit(X)
    assert search.best_params_ == {"num_components": 2}
    scores = cross_val_score(clone(search.best_estimator_), X, cv=2)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"][1], scores.mean())
    np.testing.assert_allclose(search.score(X), search.best_estimator_.score_samples(X).mean())


def test_words_and_missing_cells():
    """A row without any cell has density 1, and belongs to each component with its share; rows drawn are rows."""
    frame = pd.DataFrame({"size": X[:, 0], "kind": np.where(GROUP, "moth", "ant"), "legs": RNG.poisson(3 + 4 * GROUP)})
    frame.loc[3, ["size", "kind"]] = None
    one = MixedMixture(types={"legs": "count"}, method_options=STARTS).fit(frame)
    empty = pd.DataFrame({"size": [np.nan], "kind": [None], "legs": [np.nan]})
    np.testing.assert_allclose(one.score_samples(empty), 0.0, atol=1e-12)
    np.testing.assert_allclose(one.predict_proba(empty)[0], one.result_["point_estimate"]["mixture_probs"], rtol=1e-9)
    rows, component = one.sample(5)
    assert list(rows.columns) == list(frame.columns)
    assert set(rows["kind"]) <= {"ant", "moth"}
    assert set(component) <= {0, 1}
    assert np.isfinite(one.score_samples(rows)).all()
    with pytest.raises(ValueError, match="'bee' is a level unknown to the model"):
        one.predict(frame.replace("moth", "bee"))


def test_sampled_rows_have_the_moments_of_the_mixture():
    one = clone(fitted("gmm")).fit(X)
    point = one.result_["point_estimate"]
    weights, means = point["mixture_probs"].values, point["mean"].values

    def deviations(seed, times):
        rows, component = one.set_params(random_state=seed).sample(200 * times)
        return np.concatenate([of_means(rows, weights @ means), of_means(component[:, None], weights[1:])])

    assert_standard_normal(deviations)


def test_a_sampled_sequence_has_steps_and_states():
    steps, states = fitted("hmm").sample(11)
    assert steps.shape == (11, 3)
    assert states.shape == (11,)
    mean = fitted("hmm").result_["point_estimate"]["mean"].values
    assert np.abs(steps - mean[states]).max() < np.abs(steps - mean[1 - states]).max()


@pytest.mark.skipif(not RELEASE, reason="compiles for long: set RELEASE=1")
def test_topics():
    """Sparse counts and dense ones are the same documents."""
    counts = RNG.poisson(np.where(GROUP[:, None] == np.arange(4) % 2, 4.0, 0.3))
    one = LatentDirichlet(num_topics=2, method_options=STARTS).fit(counts)
    shares = one.transform(counts)
    np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-9)
    np.testing.assert_array_equal(clone(one).fit(sparse.csr_array(counts)).transform(sparse.csr_array(counts)), shares)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).transform(counts), shares)
    assert (shares.argmax(1) == shares.argmax(1)[0]).tolist() == (GROUP[0] == GROUP).tolist()
    assert one.perplexity(counts) == float(perplexity(one.model_, one.result_, counts)["perplexity"])
    assert list(one.get_feature_names_out()) == ["latentdirichlet0", "latentdirichlet1"]
