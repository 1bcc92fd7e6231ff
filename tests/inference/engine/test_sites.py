"""Sites from outside are checked at every door: names, shapes, support, finite; what holds them is a result or a dict."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr
from naive import build, random_sites, table, two_groups

import inference
from inference.engine.sites import checked_sites, sites_of_model
from models import MODELS, ZooError, load_data
from models.data.documents import documents

X = two_groups(20)
LABELLED = load_data(table(X), labels=["a", "b"] * 10)
DOCUMENTS = documents([list("0120"), list("221102"), list("01")], vocabulary=list("012"))
CHAIN = {
    "start_probs": np.array([0.5, 0.5]),
    "transition_probs": np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]),
    "emission_probs": np.array([[0.6, 0.2, 0.2], [0.2, 0.2, 0.6]]),
}
TOPICS = {"topic_probs": np.full((3, 2), 0.5), "word_probs": CHAIN["emission_probs"]}
CLASSES = {"class_probs": np.array([0.5, 0.5]), "mean": np.array([[0.0, 0.0], [3.0, 3.0]]), "precision": np.eye(2)}


@cache
def models() -> dict[str, Any]:
    return {
        "chain": MODELS["hmm"](DOCUMENTS, num_states=2),
        "topics": MODELS["latent_dirichlet"](DOCUMENTS, num_topics=2),
        "classes": MODELS["linear_discriminant"](LABELLED),
        "mixture": build(X, "full"),
        "factors": MODELS["ppca"](table(X), num_factors=1),
    }


SITES = {
    "chain": CHAIN,
    "topics": TOPICS,
    "classes": CLASSES,
    "mixture": random_sites("full", 2, X),
    "factors": {"loading": np.ones((2, 1)), "mean": np.zeros(2), "precision": np.array(1.0)},
}
BROKEN = {  # the same, of which one is impossible
    "chain": CHAIN | {"transition_probs": 2 * CHAIN["transition_probs"]},
    "topics": TOPICS | {"word_probs": 2 * TOPICS["word_probs"]},
    "classes": CLASSES | {"precision": np.array([[1.0, 2.0], [2.0, 1.0]])},
    "mixture": SITES["mixture"] | {"mean": np.full((2, 2), np.inf)},
    "factors": SITES["factors"] | {"precision": np.array(-1.0)},
}
DATA = {"chain": DOCUMENTS, "topics": DOCUMENTS, "classes": LABELLED, "mixture": table(X), "factors": table(X)}
DOORS: dict[str, tuple[str, Callable[[Any, Any, Any], Any]]] = {
    "predict": ("chain", inference.predict),
    "log_likelihood": ("chain", inference.log_likelihood),
    "decode": ("chain", inference.decode),
    "fit": ("chain", lambda model, sites, data: inference.fit(model, data, "em", start=sites)),
    "plot_transitions": ("chain", lambda model, sites, data: inference.plot_transitions(model, sites)),
    "plot_emissions": ("chain", lambda model, sites, data: inference.plot_emissions(model, sites)),
    "plot_states": ("chain", inference.plot_states),
    "perplexity": ("topics", inference.perplexity),
    "predict documents": ("topics", inference.predict),
    "top_words": ("topics", lambda model, sites, data: inference.top_words(model, sites)),
    "coherence": ("topics", inference.coherence),
    "topic_diagnostics": ("topics", inference.topic_diagnostics),
    "topic_check": ("topics", inference.topic_check),
    "similar_documents": ("topics", lambda model, sites, data: inference.similar_documents(model, sites, data, 0)),
    "word_topics": ("topics", lambda model, sites, data: inference.word_topics(model, sites, data, "1")),
    "plot_topics": ("topics", lambda model, sites, data: inference.plot_topics(model, sites)),
    "plot_topic_map": ("topics", lambda model, sites, data: inference.plot_topic_map(model, sites)),
    "score": ("classes", inference.score),
    "discriminant": ("classes", lambda model, sites, data: inference.discriminant(model, sites)),
    "predict rows": ("mixture", inference.predict),
    "impute": ("mixture", inference.impute),
    "co_clustering": ("mixture", inference.co_clustering),
    "plot_profile": ("mixture", lambda model, sites, data: inference.plot_profile(model, sites)),
    "plot_loadings": ("factors", lambda model, sites, data: inference.plot_loadings(model, sites)),
    "scores": ("factors", inference.predict),
}
CHANGED = {
    "chain": "transition_probs",
    "topics": "word_probs",
    "classes": "precision",
    "mixture": "mean",
    "factors": "precision",
}


@pytest.mark.parametrize("door", DOORS)
def test_impossible_sites_are_refused_at_every_door(door):
    """With the name of the site and what it takes; so are sites of other names and shapes, before anything is computed."""
    kind, call = DOORS[door]
    model, data, name = models()[kind], DATA[kind], CHANGED[kind]
    with pytest.raises(ZooError, match=f"{name} is outside its support: it takes "):
        call(model, BROKEN[kind], data)
    with pytest.raises(ZooError, match=f"expected the sites .*{name}"):
        call(model, {other: value for other, value in SITES[kind].items() if other != name}, data)
    with pytest.raises(ZooError, match=f"{name} has shape .* has shape"):
        call(model, SITES[kind] | {name: np.ones((7, 7, 7))}, data)
    with pytest.raises(ZooError, match=f"{name} must be an array of numbers"):
        call(model, SITES[kind] | {name: "many"}, data)


@pytest.mark.parametrize("kind", SITES)
def test_possible_sites_pass_as_they_are(kind):
    model = models()[kind]
    for rows in (None, model.rows(DATA[kind])):
        found = checked_sites(model, SITES[kind], rows)
        assert all(np.array_equal(found[name], value) for name, value in SITES[kind].items())


@pytest.mark.parametrize("name", [name for name in MODELS if name != "latent_dirichlet"])
def test_sites_are_known_without_rows(name):
    """Names, shapes and supports by simulated rows are those of the program on the data."""
    data = {"hmm": DOCUMENTS, "markov_naive_bayes": DOCUMENTS}.get(name, LABELLED)
    options = {"num_classes": 2} if name == "markov_naive_bayes" else {"num_factors": 1} if name == "ppca" else {}
    if name in ("naive_bayes", "poisson_naive_bayes", "annotators"):
        data = load_data(LABELLED, threshold=0.0)
    if name == "factor_analysis":
        data, options = table(two_groups(20, 3)), {"num_factors": 1}
    model = MODELS[name](data, **options)
    found, wanted = sites_of_model(model), sites_of_model(model, model.rows(data))
    assert {site: (own.shape, str(own.support)) for site, own in found.items()} == {
        site: (own.shape, str(own.support)) for site, own in wanted.items()
    }


def test_maximum_likelihood_on_the_boundary_is_read_but_no_start():
    """A rate of 0 is an estimate of the flat prior, at which densities are known; an optimiser that starts there stays."""
    data = load_data(table(np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])), labels=list("abab"))
    model = MODELS["poisson_naive_bayes"](data)
    sites = {"class_probs": np.array([0.5, 0.5]), "rate": np.array([[0.0, 2.0], [1.5, 0.0]])}
    assert checked_sites(model, sites)["rate"][0, 0] == 0
    with pytest.raises(ZooError, match="start: rate is outside its support: it takes numbers above 0"):
        inference.fit(model, data, "em", start=sites)


@pytest.mark.parametrize("kind", ["factors", "diagonal", "mixed"])
def test_no_other_positive_number_may_be_zero(kind):
    """A precision of 0 has no density; a rate beside it may be 0, in a model of several kinds of columns as well."""
    data, counts = table(X), load_data(np.round(np.abs(X) * 3), types={"x0": "number", "x1": "count"})
    model, sites, zero = {
        "factors": (models()["factors"], SITES["factors"], {"precision": np.array(0.0)}),
        "diagonal": (build(X, "diag"), random_sites("diag", 2, X), {"precision": np.array([[1.0, 0.0], [1.0, 1.0]])}),
        "mixed": (
            MODELS["mixed_mixture"](counts, num_components=2),
            {"mixture_probs": np.full(2, 0.5), "mean": np.ones((2, 1)), "precision": np.ones((2, 1)), "rate": np.ones((2, 1))},
            {"precision": np.zeros((2, 1))},
        ),
    }[kind]
    with pytest.raises(ZooError, match="precision is outside its support: it takes numbers above 0"):
        inference.log_likelihood(model, sites | zero, counts if kind == "mixed" else data)
    if kind == "mixed":
        assert checked_sites(model, sites | {"rate": np.array([[0.0], [1.0]])})["rate"][0] == 0


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_matrices_are_judged_in_units_of_their_diagonal(scale):
    """A matrix whose halves differ by rounding is symmetric, in whatever units the columns are."""
    sites = SITES["mixture"]
    skew = 1e-12 * scale * np.array([[0.0, 1.0], [0.0, 0.0]])
    checked_sites(models()["mixture"], sites | {"precision": scale * sites["precision"] + skew})
    with pytest.raises(ZooError, match="symmetric matrices that are positive definite"):
        checked_sites(models()["mixture"], sites | {"precision": scale * np.array([[[1.0, 0.1], [0.0, 1.0]]] * 2)})


def test_results_of_other_models_are_refused():
    mixture, classes = models()["mixture"], models()["classes"]
    tree = xr.DataTree.from_dict({"/point_estimate": xr.Dataset({"mean": (("class", "column"), np.zeros((2, 2)))})})
    with pytest.raises(ZooError, match="the result has no site class_probs, as linear_discriminant has"):
        inference.predict(classes, tree, LABELLED)
    wide = {name: ((f"{name}_0", *(f"{name}_{d}" for d in range(1, value.ndim))), np.repeat(value, 2, axis=0))
            for name, value in SITES["mixture"].items()}  # fmt: skip
    with pytest.raises(ZooError, match=r"has shape .* the result is one of another model"):
        inference.predict(mixture, xr.DataTree.from_dict({"/point_estimate": xr.Dataset(wide)}), table(X))
    with pytest.raises(ZooError, match="it is no result of a fit"):
        inference.predict(mixture, xr.DataTree(), table(X))


@pytest.mark.parametrize("form", ["group", "dataset"])
def test_a_group_of_a_result_is_as_good_as_a_dict(form):
    """``tree["point_estimate"]`` holds sites by name, as a dict does."""
    wanted = inference.log_likelihood(models()["classes"], CLASSES, LABELLED)
    dims = {name: tuple(f"{name}_{d}" for d in range(value.ndim)) for name, value in CLASSES.items()}
    tree = xr.DataTree.from_dict({"/point_estimate": xr.Dataset({name: (dims[name], CLASSES[name]) for name in CLASSES})})
    group = tree["point_estimate"]
    found = inference.log_likelihood(models()["classes"], group if form == "group" else group.to_dataset(), LABELLED)
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ZooError, match="a dict of arrays by site, got DataTree"):
        inference.log_likelihood(models()["classes"], tree, LABELLED)
