"""Estimates of naive Bayes against scikit-learn's; documents, categories, awkward columns and mistakes."""

import numpy as np
import pandas as pd
import pytest
from naive_emissions import build, table
from scipy import sparse
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

from inference import discriminant, fit, impute, log_likelihood, predict
from models import MODELS, ZooError, load_data
from models.data.documents import documents


def test_laplace_smoothing_is_scikit_learns():
    """Beta(2, 2) at the mode is BernoulliNB's alpha = 1; class shares by a uniform prior are its shares: digits, 10 classes."""
    data = load_data("binary_digits")
    model = MODELS["naive_bayes"](data, prior={"class_probs": {"concentration": 1.0}, "class": {"a": 2.0, "b": 2.0}})
    tree = fit(model, data, method="em")
    peer = BernoulliNB(alpha=1.0).fit(data.x, data.labels)
    np.testing.assert_allclose(tree["point_estimate"]["feature_probs"], np.exp(peer.feature_log_prob_), rtol=1e-10)
    probs = predict(model, tree, data)["probs"]
    np.testing.assert_allclose(probs, peer.predict_proba(data.x), atol=1e-10)
    np.testing.assert_array_equal(probs.argmax("class"), peer.predict(data.x))
    assert int(tree["optimization"]["iterations"].max()) <= 2  # one step; the second finds nothing to gain


@pytest.mark.slow
@pytest.mark.parametrize(
    ("emission", "name", "peer"),
    [("multinomial", "digits", MultinomialNB()), ("categorical", "binary_digits", CategoricalNB())],
)
def test_concentration_two_is_scikit_learns(emission, name, peer):
    """One count more of everything, as alpha = 1 there. (Each column of categories is a family of its own: six will do.)"""
    data = load_data(name, drop_constant=True)
    if emission == "categorical":
        data = load_data(data, columns=list(data.columns[20:26]))
    model = MODELS["naive_bayes"](data, emission=emission, prior="laplace")
    tree = fit(model, data, method="em")
    peer.fit(data.x.astype(int), data.labels)
    if emission == "multinomial":
        np.testing.assert_allclose(tree["point_estimate"]["word_probs"], np.exp(peer.feature_log_prob_), rtol=1e-10)
    else:
        for column, log_probs in zip(data.columns, peer.feature_log_prob_, strict=True):
            np.testing.assert_allclose(tree["point_estimate"][f"probs_{column}"], np.exp(log_probs), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iris", "wine"])
def test_gaussian_maximum_likelihood_is_scikit_learns(name):
    data = load_data(name)
    model = MODELS["naive_bayes"](data, emission="gaussian", prior="flat")
    tree = fit(model, data, method="em")
    peer = GaussianNB(var_smoothing=0.0).fit(data.x, data.labels)
    np.testing.assert_allclose(tree["point_estimate"]["mean"], peer.theta_, rtol=1e-10)
    np.testing.assert_allclose(1 / tree["point_estimate"]["precision"], peer.var_, rtol=1e-10)
    probs = predict(model, tree, data)["probs"]
    np.testing.assert_allclose(probs, peer.predict_proba(data.x), atol=1e-10)
    np.testing.assert_array_equal(probs.argmax("class"), peer.predict(data.x))


def test_poisson_rates_are_class_means():
    data = load_data("digits")
    tree = fit(MODELS["poisson_naive_bayes"](data, prior="flat"), data, method="em")
    means = np.array([data.x[data.labels == c].mean(0) for c in range(10)])
    np.testing.assert_allclose(tree["point_estimate"]["rate"], means, rtol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Documents, categories and mistakes


def test_documents_are_bags_of_words():
    """Sequences are counted; words unknown to the model are left out of a new document; an empty one has the prior's odds."""
    texts = [["win", "gold", "gold"], ["office", "hours"], ["win"], ["office", "toast", "office"]]
    data = load_data(documents(texts), labels=["spam", "ham", "spam", "ham"])
    assert data.columns == ("gold", "hours", "office", "toast", "win")
    model = MODELS["naive_bayes"](data, emission="multinomial")
    tree = fit(model, data, method="em")
    np.testing.assert_allclose(tree["point_estimate"]["word_probs"].sum("word"), 1, rtol=1e-12)
    new = documents([["gold", "unheard", "win"], ["win", "gold"], []])
    probs = predict(model, tree, new)["probs"].values
    np.testing.assert_allclose(probs[0], probs[1], rtol=1e-12)
    np.testing.assert_allclose(probs[2], tree["point_estimate"]["class_probs"], rtol=1e-12)


@pytest.mark.slow
def test_categories_go_by_name():
    """Text columns become categories; a table whose levels come in another order, or lack one, means the same."""
    frame = pd.DataFrame({"planet": ["mars", "earth", "mars", "venus"], "moons": [2, 1, 2, 0], "kind": list("abab")})
    data = load_data(frame, label="kind")
    assert data.categories == (("earth", "mars", "venus"), ())
    model = MODELS["naive_bayes"](data, emission="categorical")
    tree = fit(model, data, method="em")
    assert list(tree["point_estimate"]["level of planet"].values) == ["earth", "mars", "venus"]
    new = load_data(pd.DataFrame({"planet": ["venus", "mars"], "moons": [0, 2]}))
    whole = predict(model, tree, load_data(frame[["planet", "moons"]]))["probs"].values
    np.testing.assert_allclose(predict(model, tree, new)["probs"], whole[[3, 0]], rtol=1e-12)
    with pytest.raises(ZooError, match="column 'planet', row 2: 'pluto' is a level unknown to the model"):
        predict(model, tree, load_data(pd.DataFrame({"planet": ["venus", "pluto"], "moons": [0, 2]})))


@pytest.mark.slow
@pytest.mark.parametrize("column", ["col/our", "size (cm)", "größe"])
def test_columns_of_any_name(column, tmp_path):
    """Names with slashes, spaces and letters of other alphabets: through a fit, and through a file and back."""
    from inference.results import load, save

    frame = pd.DataFrame({column: ["u", "v", "u", "v"], "other": [1000001, 1000002, 1000001, 1000001], "kind": list("abab")})
    data = load_data(frame, label="kind")
    model = MODELS["naive_bayes"](data, emission="categorical")
    tree = fit(model, data, method="em")
    save(tree, tmp_path / "results.nc")
    assert set(load(tmp_path / "results.nc")["point_estimate"].data_vars) == set(tree["point_estimate"].data_vars)
    assert list(tree["point_estimate"]["level of other"].values) == ["1000001", "1000002"]
    assert discriminant(model, tree)["bias"].shape == (2,)


MISTAKES = [
    (lambda: build("bernoulli", load_data([[0, 2], [1, 1]], labels=["a", "b"])), "column 'x1', row 1: the value is 2"),
    (lambda: build("poisson", load_data([[0, -1], [1, 1]], labels=["a", "b"])), "column 'x1', row 1: the value is -1"),
    (lambda: build("multinomial", load_data([[0, 1], [0.5, 1]], labels=["a", "b"])), "column 'x0', row 2: the value is 0.5"),
    (lambda: build("bernoulli", load_data(sparse.csr_array([[0, 3], [1, 1]]), labels=["a", "b"])), "row 1: the value is 3"),
    (lambda: build("normal", table("gaussian")), "emission='normal' is not one of"),
    (lambda: build("poisson", prior="laplace"), "laplace is for probabilities"),
    (lambda: build("poisson", prior="beta(2,2)"), "for emission=bernoulli"),
    (lambda: build("bernoulli", prior="beta(2)"), "is not one of default, flat, laplace"),
    (lambda: build("bernoulli", prior="beta(2,-1)"), "prior b must be above 0"),
    (lambda: build("bernoulli", load_data([[0, 1], [1, 1]], labels=["a", "a"])), "only one class"),
    (lambda: build("bernoulli", load_data([[0, 1], [1, 1]])), "no labels"),
    (lambda: load_data([[0, 1], [1, 1]], labels=["a"]), "got 1 labels for 2 rows"),
    (lambda: build("categorical", load_data(documents([["a"], ["b"]]), labels=["a", "b"])), "not a table of categories"),
    (lambda: build("gaussian", load_data(documents([["a"], ["b"]]), labels=["a", "b"])), "holds documents"),
    (lambda: MODELS["gmm"](load_data(pd.DataFrame({"planet": ["mars", "earth"], "x": [1.0, 2.0]}))), "holds categories"),
    (lambda: documents([[], []]), "contain no tokens"),
]


@pytest.mark.parametrize(("make", "words"), MISTAKES)
def test_mistakes_are_named(make, words):
    with pytest.raises(ZooError, match=words):
        make()


def test_zeros_and_ones_count_where_they_are_observed():
    """By hand: the mode is prior + counts of the observed cells, and a missing cell is 1 with its classes' probabilities."""
    x = np.array([[1, 0], [np.nan, 1], [1, np.nan], [0, 0], [0, np.nan], [np.nan, np.nan], [1, np.nan]], dtype=float)
    data = load_data(x, labels=["a", "a", "a", "b", "b", "b", None])
    model = MODELS["naive_bayes"](data, emission="bernoulli", prior={"class": {"a": 2.0, "b": 3.0}})
    labelled = load_data(x[:6], labels=list("aaabbb"))
    found = fit(model, labelled, "em")["point_estimate"]["feature_probs"].values
    ones, observed = np.array([[2, 1], [0, 0]]), np.array([[2, 2], [2, 1]])
    np.testing.assert_allclose(found, (1 + ones) / (3 + observed), rtol=1e-12)
    sites = {"class_probs": np.array([0.3, 0.7]), "feature_probs": np.array([[0.9, 0.2], [0.4, 0.6]])}
    joint = sites["class_probs"] * sites["feature_probs"][:, 0]
    density = log_likelihood(model, sites, load_data(x[6:], labels=[None]))
    np.testing.assert_allclose(density, np.log(joint.sum()), rtol=1e-12)
    filled = impute(model, sites, load_data(x[6:], labels=[None]), num_draws=2000)
    wanted = joint @ sites["feature_probs"][:, 1] / joint.sum()
    assert float(filled["imputed_mean"][0]) == pytest.approx(wanted, rel=1e-9)
    # Five standard errors of 2,000 draws of a binary cell
    assert abs(float(filled["imputed"].mean()) - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / 2000)
