"""Tables that no one should give to the mixed mixture, and the ones that everybody has: holes in any kind of column."""

import numpy as np
import pandas as pd
import pytest
from naive import is_finite, near
from naive_mixed import COLUMNS, KINDS, LABELS, LEVELS, WHOLE, X, build, log_likelihood, log_local, random_sites, survey
from scipy import stats
from tracing import counted

from inference import fit, predict
from inference import log_likelihood as zoo_log_likelihood
from models import MODELS, ZooError, load_data

SITES = random_sites()
FRAME = pd.DataFrame(
    {
        "height": X[:, 0],
        "planet": [None if np.isnan(v) else LEVELS[1][int(v)] for v in X[:, 1]],
        "moons": X[:, 2],
        "weight": X[:, 3],
        "armed": [None if np.isnan(v) else LEVELS[4][int(v)] for v in X[:, 4]],
    }
)
TYPES = dict(zip(COLUMNS, KINDS, strict=True))


def test_a_frame_becomes_the_survey():
    """What a practitioner has, with empty cells: the same rows, kinds and level names as the table made by hand."""
    data = load_data(FRAME, types=TYPES)
    np.testing.assert_array_equal(data.x, X)
    assert (data.columns, data.kinds, data.categories) == (COLUMNS, KINDS, LEVELS)
    likelihoods = zoo_log_likelihood(MODELS["mixed_mixture"](data), SITES, data)
    assert near(likelihoods, log_likelihood(SITES, X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_without_cells(column):
    """Left out by the rules; refused where the user says what it is; and in new rows it is nothing but missing."""
    empty = FRAME.assign(**{column: None})
    data = load_data(empty, types={name: kind for name, kind in TYPES.items() if name != column})
    model = MODELS["mixed_mixture"](data)
    assert column not in model.reading.layout.columns
    assert next(note.kind for note in model.reading.layout.notes if note.column == column) == "empty"
    with pytest.raises(ZooError, match=f"no row has a value in column '{column}'"):
        MODELS["mixed_mixture"](load_data(empty, types=TYPES))
    holed = X.copy()
    holed[:, COLUMNS.index(column)] = np.nan
    wanted = log_local(SITES, holed)
    found = predict(build(), SITES, empty)
    assert near(found["log_density"], np.logaddexp(*wanted.T), rtol=1e-10, atol=1e-12)


def test_cells_of_rows_that_weigh_nothing_do_not_count():
    """A column with cells in such rows only has nothing to learn from: refused, of any kind, before a division by 0."""
    for d, column in enumerate(COLUMNS):
        with pytest.raises(ZooError, match=f"no row with a weight above 0 has a value in column '{column}'"):
            build(survey(weight=np.isnan(X[:, d]).astype(float)))


@pytest.mark.parametrize("kind", ["number", "count", "category"])
def test_columns_of_one_kind(kind):
    """Without the other parts; sites, names of dimensions and densities stay what they are."""
    places = [d for d, own in enumerate(KINDS) if own == kind]
    names = [COLUMNS[d] for d in places]
    data = load_data(FRAME[names], types=dict.fromkeys(names, kind))
    own = {"number": ("mean", "precision"), "count": ("rate",), "category": ("probs_planet", "probs_armed")}[kind]
    sites = {name: SITES[name] for name in ("mixture_probs", *own)}
    model, alone = MODELS["mixed_mixture"](data), np.where(np.isin(np.arange(5), places), X, np.nan)
    assert near(zoo_log_likelihood(model, sites, data), log_likelihood(SITES, alone), rtol=1e-10, atol=1e-12)
    dim = {"number": "numbers", "count": "counts", "category": "categories"}[kind]
    assert model.naming.coords[dim] == names


@pytest.mark.slow
def test_levels_never_seen():
    """In new rows: an error that names the cell, or a missing cell; another word for it is refused when the model is built."""
    new = FRAME.iloc[[1, 2]].assign(planet="moon")
    with pytest.raises(ZooError, match=r"'planet', row 1: 'moon' is a level unknown to the model"):
        predict(build(), SITES, new)
    missing = predict(build(unseen="missing"), SITES, new)
    without = predict(build(), SITES, new.assign(planet=None))
    assert near(missing["probs"], without["probs"], atol=1e-14)
    with pytest.raises(ZooError, match="unseen='ignore' is not one of error, missing"):
        build(unseen="ignore")


@pytest.mark.parametrize(("cell", "what"), [(-1.0, "-1 is not a count"), (1.5, "1.5 is not a count")])
def test_counts_that_are_none(cell, what):
    """Where the model is built, and in new rows; beside missing cells, which are no counts below 0."""
    wrong = FRAME.assign(moons=[np.nan, cell] + [2.0] * 10)
    with pytest.raises(ZooError, match=f"'moons', row 2: {what}"):
        MODELS["mixed_mixture"](load_data(wrong, types=TYPES))
    with pytest.raises(ZooError, match=f"'moons', row 2: {what}"):
        predict(build(), SITES, wrong)


REFUSED = {
    "no label": (lambda: build(labelled=True), "labelled=true, but survey has no label"),
    "labels all missing": (lambda: build(survey(labels=[None] * 12), labelled=True), "labelled=true, but survey has no label"),
    "no such flag": (lambda: build(labelled="yes"), "labelled must be true or false"),
    "no such prior": (lambda: build(prior="weak"), "'weak' is not one of default, flat, document, flat_mean"),
    "no such number": (lambda: build(prior={"component": {"beta": 1}}), r"component\.beta"),
    "prior below 0": (lambda: build(prior={"component": {"strength": -1}}), "strength must be above 0"),
    "sparse": (lambda: MODELS["mixed_mixture"](load_data(["a b", "c"])), "documents or sparse"),
    "constant": (
        lambda: build(survey(np.where(np.isin(np.arange(5), 0) & ~np.isnan(X), 7.0, X))), "'height' has the same value"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    function, message = REFUSED[case]
    with pytest.raises(ZooError, match=message):
        function()


@pytest.mark.slow
def test_labels_are_not_asked_of_new_rows():
    """A labelled model predicts rows whose labels are there, missing, or of no class at all."""
    model = build(survey(labels=LABELS), labelled=True)
    wanted = predict(model, SITES, survey())
    assert near(predict(model, SITES, survey(labels=LABELS))["probs"], wanted["probs"], atol=1e-14)
    assert list(wanted["component"].values) == ["a", "b"]
    with pytest.raises(ZooError, match="has the label 'c'; the model knows a, b"):
        model.rows(survey(labels=["c", "a"] * 6))


@pytest.mark.slow
def test_other_holes_compile_nothing():
    """Data of one shape with holes elsewhere and a new model: a second fit traces and compiles nothing; and it is sound."""
    for x in (X, np.where(np.roll(np.isnan(X), 1, axis=0), np.nan, WHOLE)):
        with counted() as events:
            tree = fit(build(survey(x)), survey(x), method="em", start=SITES)
    assert is_finite(tree)
    assert events == []
    assert tree["point_estimate"]["mean"].dims == ("component", "numbers")
    assert list(tree["point_estimate"]["rate"]["counts"].values) == ["moons"]
    assert list(tree["point_estimate"]["probs_planet"]["level of planet"].values) == list(LEVELS[1])


# ---------------------------------------------------------------------------------------------------------------------
# Naive Bayes has columns of one kind


@pytest.mark.slow
def test_naive_bayes_with_missing_cells():
    """Poisson and categorical columns with holes; a code that is missing is no level of its own."""
    counts = np.where(np.isnan(X[:, [2, 2]]), np.nan, X[:, [2, 2]] + [0, 1])
    data = load_data(counts, labels=list("ab" * 6))
    rate = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = predict(MODELS["naive_bayes"](data, emission="poisson"), {"class_probs": [0.5, 0.5], "rate": rate}, data)
    cells = np.array([[np.nansum(stats.poisson(rate[k]).logpmf(row)) for k in range(2)] for row in counts])
    assert near(found["log_density"], np.logaddexp(*cells.T) + np.log(0.5), rtol=1e-10, atol=1e-12)
    codes = MODELS["naive_bayes"](load_data(X[:, [1, 4]], labels=list("ab" * 6)), emission="categorical")
    assert [codes.naming.coords[f"level of x{d}"] for d in range(2)] == [["0", "1", "2"], ["0", "1"]]
    binary = load_data(X[:, [4]], labels=list("ab" * 6))
    probabilities = np.array([[0.2], [0.7]])
    sites = {"class_probs": [0.5, 0.5], "feature_probs": probabilities}
    found = predict(MODELS["naive_bayes"](binary, emission="bernoulli"), sites, binary)
    binary_cells = [[np.nansum(stats.bernoulli(p[0]).logpmf(row)) for p in probabilities] for row in X[:, [4]]]
    assert near(found["log_density"], np.logaddexp(*np.transpose(binary_cells)) + np.log(0.5), rtol=1e-10, atol=1e-12)
