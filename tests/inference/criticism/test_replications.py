"""Replicated data against observed data: shares, pairs and p-values by naive counting; what must be flagged, what not."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from inference import plot_predictive_checks, predictive_checks
from inference.criticism.replications import DRAWS, bin_edges, has_replications, replications
from inference.engine.sites import sites_of_model
from inference.fitting.predictive import drawn_rows
from inference.results.draws import draws_of
from models import MODELS, ZooError, load_data
from models.data.documents import documents

RNG = np.random.default_rng(1)
ROWS = 40
APART = np.concatenate([RNG.normal(-4, 1, ROWS // 2), RNG.normal(4, 1, ROWS // 2)])
SEQUENCES = [list("aab"), list("b"), list("baab")]


def gmm(x, mean, precision, size):
    model = MODELS["gmm"](load_data(x), num_components=size, covariance="diag")
    return model, {"mixture_probs": np.ones(size) / size, "mean": np.array(mean), "precision": np.array(precision)}


def hmm(weight):
    data = load_data(documents(SEQUENCES), weight=weight)
    model = MODELS["hmm"](data, num_states=2)
    probs = {"start_probs": [0.5, 0.5], "transition_probs": [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]]}
    return model, data, {name: np.array(value) for name, value in probs.items()} | {"emission_probs": np.full((2, 2), 0.5)}


def test_shares_and_p_values_are_those_of_counting():
    """A column with holes and weights: every share and the p-value from loops over rows and tables."""
    x = RNG.choice([1.0, 2.0, 5.0], (ROWS, 1))
    x[3], weight = np.nan, RNG.integers(1, 4, ROWS).astype(float)
    data = load_data(x, weight=weight)
    model, sites = gmm(data.x, [[2.0]], [[0.5]], 1)
    (found,) = replications(model, sites, data, num_draws=20, seed=3)
    repeated = {name: np.repeat(value, 20, axis=0) for name, value in draws_of(model, sites).items()}
    drawn = drawn_rows(model, repeated, data, 3)["x"][:, :, 0]
    seen, total = ~np.isnan(x[:, 0]), weight[~np.isnan(x[:, 0])].sum()
    assert found.edges is not None
    last = len(found.edges) - 2

    def shares(values):
        counts = Counter()
        for value, own in zip(values[seen], weight[seen], strict=True):
            place = max(b for b in range(-1, last + 1) if b < 0 or value >= found.edges[b])
            counts[min(max(place, 0), last)] += own / total
        return np.array([counts[b] for b in range(last + 1)])

    np.testing.assert_allclose(found.observed, shares(x[:, 0]))
    np.testing.assert_allclose(found.replicated, [shares(table) for table in drawn])
    mean = (found.observed + found.replicated.sum(0)) / 21

    def distance(table):
        return sum((y - m) ** 2 / (m + 1 / total) for y, m in zip(table, mean, strict=True))

    larger = sum(distance(table) >= distance(found.observed) for table in found.replicated)
    assert found.p_value == pytest.approx((1 + larger) / 21)


def test_pairs_stay_within_their_sequence():
    model, data, sites = hmm([1.0, 1.0, 1.0])
    symbols, pairs = replications(model, sites, data, num_draws=20)
    counted = Counter(pair for one in SEQUENCES for pair in pairwise(one))
    expected = [counted[tuple(name.split(" → "))] / counted.total() for name in pairs.names]
    np.testing.assert_allclose(pairs.observed, expected)
    letters = Counter(letter for one in SEQUENCES for letter in one)
    np.testing.assert_allclose(symbols.observed, [letters[name] / letters.total() for name in symbols.names])
    np.testing.assert_allclose(pairs.replicated.sum(1), 1)


def test_what_the_model_cannot_draw_is_flagged_and_what_it_drew_is_not():
    """One normal for two groups far apart has the smallest possible p-value; two normals for the same rows have not."""
    wide = APART.var()
    model, sites = gmm(APART[:, None], [[0.0]], [[1 / wide]], 1)
    assert predictive_checks(model, sites, load_data(APART[:, None]))["p_value"].item() == pytest.approx(1 / (1 + DRAWS))
    model, sites = gmm(APART[:, None], [[-4.0], [4.0]], [[1.0], [1.0]], 2)
    assert predictive_checks(model, sites, load_data(APART[:, None]))["p_value"].item() > 0.05


def test_steps_that_follow_each_other_are_flagged():
    """A slow wave, under states that never last: values fit, their correlation does not."""
    x = np.sin(np.arange(60.0) / 5)[:, None]
    model = MODELS["hmm"](load_data(x), num_states=2, emission="gaussian", boundary=False)
    sites = {"start_probs": np.ones(2) / 2, "transition_probs": np.full((2, 2), 0.5)}
    sites |= {"mean": np.array([[-0.7], [0.7]]), "precision": np.full((2, 1), 10.0)}
    found = predictive_checks(model, sites, load_data(x))
    assert found.loc["x0: successive steps", "p_value"] == pytest.approx(1 / (1 + DRAWS))


LEVELS = RNG.choice([3.0, 7.0, 9.0], (20, 2))
READ_AS_LEVELS = {
    "naive_bayes": lambda: (load_data(LEVELS, labels=list("ab") * 10), {"emission": "categorical"}),
    "annotators": lambda: (load_data(LEVELS), {}),
    "hmm": lambda: (load_data(LEVELS), {"num_states": 2}),
    "mixed_mixture": lambda: (load_data(pd.DataFrame(LEVELS, columns=["a", "b"]), types={"a": "category"}), {}),
}


@pytest.mark.parametrize("name", READ_AS_LEVELS)
def test_drawn_cells_are_cells_of_the_table(name):
    """Numbers that a model reads as levels are drawn as these numbers, not as the codes of the levels."""
    data, options = READ_AS_LEVELS[name]()
    model = MODELS[name](data, **options)
    uniform = {site: np.full(each.shape, 1 / each.shape[-1]) for site, each in sites_of_model(model).items()}
    drawn = drawn_rows(model, draws_of(model, uniform), data, 0)["x"][0]
    if data.categories and data.categories[0]:
        assert set(np.unique(drawn[:, 0])) <= set(range(len(data.categories[0])))
    else:
        assert set(np.unique(drawn[:, 0])) <= {3.0, 7.0, 9.0}


def test_columns_that_the_model_leaves_out_are_not_compared():
    """An identifier stands between the columns; each statistic is of the column of its name."""
    frame = pd.DataFrame({"a": APART, "id": [f"r{n:03d}" for n in range(ROWS)], "b": np.arange(ROWS) % 2})
    data = load_data(frame)
    model = MODELS["mixed_mixture"](data, num_components=1)
    sites = {site: np.full(each.shape, 1.0) for site, each in sites_of_model(model).items()}
    sites |= {name: value / value.shape[-1] for name, value in sites.items() if "probs" in name}
    found = {one.name: one for one in replications(model, sites, data, num_draws=20)}
    assert set(found) == {"a", "b"}
    kept = found["b"]
    levels = kept.names or tuple(str(int(edge + 0.5)) for edge in kept.edges[:-1])
    assert dict(zip(levels, kept.observed, strict=True))["1"] == pytest.approx(0.5)


def test_columns_are_found_by_name():
    """The same table with its columns swapped has the same statistics."""
    frame = pd.DataFrame({"a": APART, "b": RNG.normal(size=ROWS)})
    model = MODELS["gmm"](load_data(frame), num_components=1, covariance="diag")
    sites = {"mixture_probs": np.ones(1), "mean": np.array([[0.0, 0.0]]), "precision": np.array([[0.05, 1.0]])}
    found, swapped = (
        {one.name: one for one in replications(model, sites, load_data(each), num_draws=20)}
        for each in (frame, frame[["b", "a"]])
    )
    for name in ("a", "b"):
        np.testing.assert_allclose(found[name].observed, swapped[name].observed)
        assert found[name].p_value == swapped[name].p_value


def test_a_sequence_counts_by_its_weight():
    """A heavier sequence counts for more in steps and in pairs, observed as drawn."""
    weight = [3.0, 1.0, 2.0]
    model, data, sites = hmm(weight)
    symbols, pairs = replications(model, sites, data, num_draws=20)
    letters, following = Counter(), Counter()
    for one, own in zip(SEQUENCES, weight, strict=True):
        for letter in one:
            letters[letter] += own
        for pair in pairwise(one):
            following[" → ".join(pair)] += own
    np.testing.assert_allclose(symbols.observed, [letters[name] / letters.total() for name in symbols.names])
    np.testing.assert_allclose(pairs.observed, [following[name] / following.total() for name in pairs.names])


@pytest.mark.slow
def test_labels_count_by_their_weight():
    x, weight = np.zeros((4, 1)) + np.arange(4)[:, None], [1.0, 1.0, 1.0, 5.0]
    data = load_data(x, labels=list("aaab"), weight=weight)
    model = MODELS["linear_discriminant"](data)
    sites = {"class_probs": np.array([0.5, 0.5]), "mean": np.array([[1.0], [3.0]]), "precision": np.ones((1, 1))}
    found = {one.name: one for one in replications(model, sites, data, num_draws=20)}
    labels = found["label"]
    assert dict(zip(labels.names, labels.observed, strict=True)) == pytest.approx({"a": 3 / 8, "b": 5 / 8})


def test_many_pairs_are_counted_by_those_observed():
    """Of 40 letters the pairs observed most are shown, the rest is one; nothing is as large as all pairs of letters."""
    letters = [chr(0x100 + k) for k in range(40)]
    text = [letters[k] for k in RNG.integers(0, 40, 300)]
    data = load_data(documents([text]))
    model = MODELS["hmm"](data, num_states=2, boundary=False)
    sites = {site: np.full(each.shape, 1 / each.shape[-1]) for site, each in sites_of_model(model).items()}
    _, pairs = replications(model, sites, data, num_draws=20)
    counted = Counter(pairwise(text))
    assert len(pairs.names) == 16
    assert pairs.names[-1] == "others"
    np.testing.assert_allclose(pairs.observed[:-1], [counted[tuple(name.split(" → "))] / 299 for name in pairs.names[:-1]])
    np.testing.assert_allclose(pairs.observed.sum(), 1)


@pytest.mark.parametrize("digits", [0, 1, None])
def test_rounding_is_no_misfit(digits):
    """Rows that the model drew, rounded: bins end between values, so that the shares of a rounded table are those unrounded."""
    x = np.random.default_rng(5).normal(50, 12, 500)
    rounded = x if digits is None else np.round(x, digits)
    edges = bin_edges(rounded, x[None, :])
    assert edges[0] <= rounded.min()
    assert edges[-1] >= rounded.max()
    np.testing.assert_allclose(np.diff(edges), np.diff(edges)[0])
    if digits is not None:  # no edge is a value that rounding allows, and as many such values lie in every bin
        off = edges * 10**digits % 1
        np.testing.assert_allclose(off, 0.5, atol=1e-6)
        np.testing.assert_array_equal(np.histogram(rounded, edges)[0], np.histogram(x, edges)[0])


def test_levels_that_the_data_lack_are_others():
    """Fitted on three levels, asked about a table with two: what is drawn of the third counts as others."""
    whole = load_data(pd.DataFrame({"kind": list("abc") * 8}))
    model = MODELS["mixed_mixture"](whole, num_components=1)
    sites = {"mixture_probs": np.ones(1), "probs_kind": np.full((1, 3), 1 / 3)}
    (found,) = replications(model, sites, load_data(pd.DataFrame({"kind": list("ab") * 12})), num_draws=20)
    np.testing.assert_allclose(found.observed.sum(), 1)
    np.testing.assert_allclose(found.replicated.sum(1), 1)
    assert dict(zip(found.names, found.observed, strict=True)).get("c", 0.0) == 0


def test_a_regression_draws_no_rows():
    data = load_data(APART[:, None], labels=list("ab") * (ROWS // 2))
    model = MODELS["logistic_regression"](data)
    assert not has_replications(model, data)


def test_dates_and_units_are_told():
    frame = pd.DataFrame({"seen": ["2021-03-01", "2023-05-01"] * 10, "weight": [f"{60 + n} kg" for n in range(20)]})
    data = load_data(frame, dates={"seen": "ymd"}, units={"weight": "kg"})
    model = MODELS["gmm"](data, num_components=1, covariance="diag")
    sites = {"mixture_probs": np.ones(1), "mean": np.array([[18900.0, 70.0]]), "precision": np.array([[1e-5, 0.03]])}
    found = replications(model, sites, data, num_draws=20)
    assert [(one.name, one.is_date) for one in found] == [("seen", True), ("weight (kg)", False)]
    figure = plot_predictive_checks(model, sites, data, num_draws=20)
    figure.draw_without_rendering()
    assert {"2020", "2024"} <= {label.get_text() for label in figure.axes[0].get_xticklabels()}  # where days would be 18,262


def test_models_that_draw_no_such_rows_are_refused():
    data = load_data(documents([list("ab"), list("ba")]))
    model = MODELS["latent_dirichlet"](data, num_topics=2)
    assert not has_replications(model, data)
    with pytest.raises(ZooError, match="draws no rows like those of"):
        predictive_checks(model, {}, data)


def test_the_picture_shows_the_data_and_the_worst_columns():
    model, sites = gmm(APART[:, None], [[0.0]], [[1.0]], 1)
    figure = plot_predictive_checks(model, sites, load_data(APART[:, None]), num_draws=20)
    (found,) = replications(model, sites, load_data(APART[:, None]), num_draws=20)
    band, line = figure.axes[0].patches
    np.testing.assert_allclose(line.get_data().values, found.observed)
    np.testing.assert_allclose(band.get_data().values, np.quantile(found.replicated, 0.945, axis=0))
    assert f"p = {found.p_value:.2f}" in figure.axes[0].get_title()
