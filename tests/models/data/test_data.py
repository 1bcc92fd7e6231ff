"""Tables: what is read, and what is refused with file, column, row and value."""

import numpy as np
import pandas as pd
import pytest
from naive import build, table
from scipy import sparse
from two_stage import assert_standard_normal, of_counts

from inference import fit
from models import MODELS, Data, ZooError, load_data
from models.data import take
from models.data.classes import empty_groups
from models.datasets.tables import DATASETS, MARTIAN_COVARIANCES, MARTIAN_MEANS, MARTIAN_PROBS

SHAPES = {
    "anaesthetists": (45, 7),
    "raters": (200, 5),
    "bars": (1000, 25),
    "binary_digits": (1797, 64),
    "spam": (400, 32),
    "iris": (150, 4),
    "wine": (178, 13),
    "digits": (1797, 64),
    "breast_cancer": (569, 30),
    "diabetes": (442, 10),
    "martians_survey": (500, 5),
    "martians": (500, 2),
    "blobs": (500, 2),
    "factors": (300, 12),
    "ability": (7, 6),  # weighted rows that stand for 112
    "ice_cream": (33, 1),
    "earthquakes": (107, 1),
    "casino": (300, 1),
    "gauges": (150, 6),
    "letters": (5000, 1),
    "tagger": (1554, 1),
}
UNLABELLED = ("bars", "diabetes", "factors", "ability", "ice_cream", "earthquakes", "anaesthetists", "gauges")


@pytest.fixture
def write(tmp_path):
    """write(text) -> path of a CSV with it."""

    def written(text, name="table.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


def test_lines_of_the_reference():
    """Documents of characters or words, both kinds of lines, each line once, the same for the same seed."""
    data, words = load_data("python_lines", num_rows=300), load_data("python_lines", num_rows=300, unit="word")
    lines = ["".join(data.columns[token] for token in data.x[[n]].tokens) for n in range(300)]
    assert len(set(lines)) == 300
    assert set(data.labels) == {0, 1}
    assert words.x.lengths.sum() < data.x.lengths.sum()
    np.testing.assert_array_equal(data.labels, words.labels)
    np.testing.assert_array_equal(data.x.tokens, load_data("python_lines", num_rows=300).x.tokens)
    shapes = load_data("python_shapes", num_rows=300)
    assert len(shapes.columns) <= 9
    np.testing.assert_array_equal(shapes.x.lengths, data.x.lengths)
    half = take(data, np.arange(300) % 2 == 0)
    assert half.num_rows == 150
    np.testing.assert_array_equal(half.x[[1]].tokens, data.x[[2]].tokens)


@pytest.mark.parametrize("name", sorted(set(DATASETS) - {"python_lines", "python_shapes", "python_topics", "reuters"}))
def test_named_data_sets_load(name):
    data = load_data(name)
    assert data.x.shape == SHAPES[name]
    assert len(set(data.columns)) == data.x.shape[1]
    assert np.isfinite(data.x).all() == (name not in ("martians_survey", "raters"))
    assert set(np.unique(data.labels)) - {-1} == set(range(len(data.levels))) if data.label else name in UNLABELLED


def test_iris_is_scikit_learns():
    from sklearn.datasets import load_iris

    data, theirs = load_data("iris"), load_iris()
    np.testing.assert_array_equal(data.x, theirs["data"])
    np.testing.assert_array_equal(data.labels, theirs["target"])
    assert data.columns == tuple(theirs["feature_names"])
    assert data.levels == tuple(theirs["target_names"])


def test_martians_are_those_of_the_document():
    """Shares, means and (co)variances of every kind, errata E5."""

    def deviations(seed, times):
        data, found = load_data("martians", num_rows=60_000 * times, seed=seed), []
        for kind in range(3):
            rows = data.x[data.labels == kind]
            size, variance = len(rows), MARTIAN_COVARIANCES[kind]
            error = np.sqrt((np.outer(np.diag(variance), np.diag(variance)) + variance**2) / size)
            found.append(of_counts(size, data.num_rows, MARTIAN_PROBS[kind]))
            found += list((rows.mean(0) - MARTIAN_MEANS[kind]) / np.sqrt(np.diag(variance) / size))
            found += list(((np.cov(rows.T) - variance) / error)[np.triu_indices(2)])
        return found

    assert_standard_normal(deviations)


def test_generators_take_options():
    data = load_data("blobs", num_rows=20, num_features=3, num_groups=4, seed=5)
    assert data.x.shape == (20, 3)
    np.testing.assert_array_equal(data.x, load_data("blobs", num_rows=20, num_features=3, num_groups=4, seed=5).x)
    with pytest.raises(ZooError, match=r"rows.*blobs.*num_rows"):
        load_data("blobs", rows=20)


def test_file_frame_and_array_agree(write):
    """One table, three ways in, and Parquet."""
    frame = pd.DataFrame({"height": [1.5, 2.0, -3.0], "width": [4.0, 5.5, 6.0], "kind": ["b", "a", "b"]})
    path = write(frame.to_csv(index=False))
    parquet = path.replace(".csv", ".parquet")
    frame.to_parquet(parquet)
    for source in (path, parquet, frame):
        data = load_data(source, label="kind")
        np.testing.assert_array_equal(data.x, frame[["height", "width"]])
        assert data.columns == ("height", "width")
        assert data.levels == ("a", "b")
        assert list(data.labels) == [1, 0, 1]
    np.testing.assert_array_equal(load_data(frame[["height", "width"]].to_numpy()).x, frame[["height", "width"]])
    assert load_data([1.0, 2.0, 3.0]).x.shape == (3, 1)
    assert load_data(load_data(path, label="kind")).label == "kind"


def test_columns_are_chosen_in_order(write):
    path = write("a,b,c\n1,2,x\n3,4,y\n")
    assert load_data(path, columns=["b", "a"]).x.tolist() == [[2, 1], [4, 3]]
    assert load_data(path, columns="b").columns == ("b",)
    assert load_data("iris", columns=["petal width (cm)"]).x.shape == (150, 1)


def test_missing_cells_and_labels(write):
    """An empty cell is missing, a missing label is −1; a model that needs the cell refuses it with file, column and row."""
    path = write("a,b,kind\n1,2,x\n3,,\n5,6,y\n7,9,x\n")
    data = load_data(path, label="kind")
    assert np.isnan(data.x[1, 1])
    assert np.isnan(data.x).sum() == 1
    assert list(data.labels) == [0, -1, 1, 0]
    with pytest.raises(ZooError, match=r"table\.csv.*'b'.*row 2.*missing"):
        MODELS["logistic_regression"](data)


def test_constant_columns(write):
    """Kept, dropped on request, and refused by covariances that would collapse there."""
    data = load_data(write("a,b\n1,7\n3,7\n5,7\n"))
    assert data.columns == ("a", "b")
    assert load_data(data, drop_constant=True).columns == ("a",)
    with pytest.raises(ZooError, match=r"table\.csv.*'b'.*same value.*drop_constant"):
        build(data, "diag")


MISTAKES = {
    "text": ("a,b\n1,2\n3,oops\n5,6\n", {}, ["table.csv", "'b'", "row 2", "oops", "number"]),
    "threshold": ("a,b\n1,2\n3,4\n", {"threshold": "high"}, ["threshold", "number", "high"]),
    "threshold of text": ("a,b\nx,2\ny,3\n", {"threshold": 1.0}, ["table.csv", "categories"]),
    "infinite": ("a,b\n1,2\n3,inf\n", {}, ["table.csv", "'b'", "row 2", "infinite"]),
    "minus infinite": ("a,b\n-inf,2\n3,4\n", {}, ["table.csv", "'a'", "row 1", "infinite"]),
    "unknown column": ("a,b\n1,2\n", {"columns": ["c"]}, ["table.csv", "'c'", "a, b"]),
    "unknown label": ("a,b\n1,2\n", {"label": "kind"}, ["table.csv", "'kind'", "a, b"]),
    "empty": ("", {}, ["table.csv", "is empty"]),
    "no rows": ("a,b\n", {}, ["table.csv", "no rows"]),
    "only a label": ("kind\nx\n", {"label": "kind"}, ["table.csv", "no columns"]),
    "ragged": ("a,b\n1,2\n1,2,3,4\n", {}, ["table.csv", "line 3 has 4 cells"]),
    "unknown option": ("a,b\n1,2\n", {"rows": 5}, ["rows", "drop_constant"]),
    "all constant": ("a\n1\n1\n", {"drop_constant": True}, ["table.csv", "no columns"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(write, mistake):
    """File, column, row and value, and what to do: all in one message."""
    text, options, words = MISTAKES[mistake]
    with pytest.raises(ZooError) as error:
        load_data(write(text), **options)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere.csv", ["nowhere.csv", "neither a file nor", "iris"]),
        ({"a": 1}, ["numbers", "dict"]),
        (np.zeros((2, 2, 2, 2)), ["rows and columns", "(2, 2, 2, 2)"]),
        (np.array([[1.0, np.inf]]), ["array", "x1", "row 1", "infinite"]),
        (np.zeros((0, 2)), ["no rows"]),
    ],
)
def test_sources_that_are_no_table(source, words):
    with pytest.raises(ZooError) as error:
        load_data(source)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize("weight", [[1.0, 2.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [0.0, 0.0, 0.0]])
def test_weights_that_are_none(weight):
    with pytest.raises(ZooError, match="weight: expected 3 finite, non-negative numbers"):
        load_data(np.arange(6.0).reshape(3, 2), weight=np.array(weight))


@pytest.mark.slow
def test_weighted_fit_is_a_fit_on_repeated_rows():
    """EM with whole-number weights and the prior fixed by numbers ends where repeated rows end."""
    x = np.random.default_rng(0).normal(size=(30, 2)) + 4 * (np.arange(30) % 2)[:, None]
    weight = np.arange(30) % 3 + 1
    prior = {"component": {"location": [0.0, 0.0], "scatter": [1.0, 1.0]}}
    start = {"mixture_probs": np.array([0.5, 0.5]), "mean": x[:2], "precision": np.ones((2, 2))}
    trees = []
    for data in (load_data(table(x), weight=weight), table(np.repeat(x, weight, axis=0))):
        model = build(data, "diag", prior=prior)
        trees.append(fit(model, data, method="em", start=start, max_iter=15, tol=0))
    for name in start:
        np.testing.assert_allclose(trees[0]["point_estimate"][name], trees[1]["point_estimate"][name], rtol=1e-9)
    assert float(trees[0]["functionals"]["log_joint"]) == pytest.approx(float(trees[1]["functionals"]["log_joint"]), rel=1e-10)


def test_other_columns_are_refused():
    """A model built on some columns does not read others."""
    data = load_data("iris")
    other = Data("other", data.x, ("a", "b", "c", "d"))
    with pytest.raises(ZooError, match=r"other has the columns a, b, c, d; the model has sepal"):
        fit(build(data, "diag"), other, method="em")


def test_texts_are_documents(tmp_path):
    """A column of a file, a list of texts, a list of lists of words: the same documents."""
    texts, kinds = ["Win gold!", "office hours", "gold, gold"], ["spam", "ham", "spam"]
    path = tmp_path / "mail.csv"
    pd.DataFrame({"body": texts, "kind": kinds}).to_csv(path, index=False)
    words = [["win", "gold", "!"], ["office", "hours"], ["gold", ",", "gold"]]
    read = [load_data(str(path), text="body", label="kind"), load_data(texts, labels=kinds), load_data(words, labels=kinds)]
    for data in read:
        assert data.columns == ("!", ",", "gold", "hours", "office", "win")
        np.testing.assert_array_equal(data.x.tokens, read[0].x.tokens)
        assert list(np.array(data.levels)[data.labels]) == kinds
    assert load_data(texts, unit="character").x.lengths.tolist() == [9, 12, 10]
    with pytest.raises(ZooError, match=r"row 2: the text is missing \(1 in all\).*data.empty=keep"):
        load_data(pd.DataFrame({"body": ["a", None]}), text="body")
    with pytest.raises(ZooError, match="unit='letter'"):
        load_data(texts, unit="letter")


def test_sparse_counts_are_read():
    x = sparse.csr_array(np.array([[0, 2, 0], [1, 0, 0]]))
    data = load_data(x, columns=["a", "b", "c"], labels=["u", "v"])
    assert data.columns == ("a", "b", "c")
    assert take(data, np.array([1])).x.toarray().tolist() == [[1, 0, 0]]
    assert load_data(x, threshold=1).x.toarray().tolist() == [[0, 1, 0], [0, 0, 0]]
    with pytest.raises(ZooError, match="3 distinct names"):
        load_data(x, columns=["a", "a", "b"])


@pytest.mark.parametrize(("rows", "size", "doubted"), [(4, 5, True), (4, 4, False), (9, 5, False)])
def test_more_groups_than_rows_are_doubted(rows, size, doubted):
    """Some of them have no row, whatever the data; rows of weight 0 are none."""
    frame = pd.DataFrame({"x": np.arange(float(rows)), "y": np.arange(rows) ** 2.0, "times": 1})
    found = empty_groups(load_data(frame.drop(columns="times")), size)
    assert [line.endswith("ask for fewer groups") for line in found] == [True] * doubted
    frame.loc[0, "times"] = 0
    assert bool(empty_groups(load_data(frame, weight="times"), size)) == (size >= rows)
    labelled = load_data(frame.drop(columns="times").assign(label=["a", *["b"] * (rows - 1)]), label="label")
    assert not empty_groups(labelled, size)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_rows": "many"}, "num_rows must be a whole number, such as 500, got 'many'"),
        ({"num_rows": 2.5}, "num_rows must be a whole number"),
        ({"num_rows": True}, "num_rows must be a whole number"),
        ({"separation": "wide"}, "separation must be a number, such as 5.0, got 'wide'"),
        ({"num_row": 5}, r"unknown option 'num_row' of data set blobs \(did you mean num_rows\?\)"),
    ],
)
def test_options_of_a_generator_have_the_type_of_their_defaults(options, words):
    with pytest.raises(ZooError, match=words):
        load_data("blobs", **options)
    assert load_data("blobs", separation=4).num_rows == 500
