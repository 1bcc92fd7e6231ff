"""Arguments of the wrong type: one message that names the option and what it takes, never a TypeError of a library."""

import numpy as np
import pandas as pd
import pytest
from naive import build, table, two_groups
from scipy import sparse

from inference import fit, predict
from models import ZooError, load_data

X = two_groups(6)
LABELS = np.array(list("abcabc"))
FRAME = pd.DataFrame(X, columns=["u", "v"]).assign(k=LABELS)
SOURCES = {
    "array": X,
    "frame": FRAME,
    "texts": ["a b", "b c", "c", "a", "b", "c"],
    "sparse": sparse.csr_array(np.eye(6)),
    "named": "iris",
}
OPTIONS = (
    *("label", "columns", "drop_constant", "threshold", "labels", "text", "unit", "weight", "name", "types", "sequence"),
    *("weights", "empty"),
    *(
        "kind",
        "num_rows",
        "format",
        "vocabulary",
        "min_documents",
        "stop_words",
        "missing",
        "separator",
        "decimal",
        "thousands",
    ),
)
ODD = (
    *(5, 2.5, True, np.nan, "k", b"k", LABELS, list(LABELS), tuple("ab"), {"u": 1}, {"u"}, {"u": "number"}, object(), None, []),
    *(np.arange(6.0), [1, 2], [[1]], [[1], [2, 3]], np.zeros((2, 2)), lambda: 0, pd.Series(LABELS), X, pd.Index(["u"])),
)


@pytest.mark.parametrize("option", OPTIONS)
def test_whatever_an_option_is_given_is_read_or_refused(option):
    """Of every kind of source: data, or a `ZooError`; anything else fails the test."""
    for source in SOURCES.values():
        for value in ODD:
            try:
                load_data(source, **{option: value})
            except ZooError as refusal:
                assert len(str(refusal)) < 400


def test_whatever_is_given_as_data_is_read_or_refused():
    odd = (3 + 2j, {1: 2}, [None], [{}], [[]], "", b"", np.array(["a"]), np.zeros((2, 2, 2)), pd.DataFrame(), np.array(5))
    more = (range(3), iter([1]), pd.DataFrame({"a": [{}, 1]}), np.array([[1, "a"]], object), [1, "a"], [["a", 1]], ["a", 5])
    for source in (*ODD, *odd, *more):
        try:
            assert load_data(source).num_rows > 0
        except ZooError as refusal:
            assert len(str(refusal)) > 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label": LABELS}, "label must be the name of a column, got an array of 6 values: labels= takes one label per row"),
        ({"label": list(LABELS)}, "label must be the name of a column, got a list of 6 values: labels="),
        ({"labels": "k"}, "labels: expected one label per row, a list or an array of length 6, got 'k'"),
        ({"labels": X}, "labels: expected one label per row"),
        ({"columns": 2.5}, "columns: expected a list of column names, got 2.5"),
        ({"columns": [True, False]}, "columns: True is not a column name; give names"),
        ({"drop_constant": "yes"}, "drop_constant must be true or false, got 'yes'"),
        ({"weight": ["heavy"] * 6}, "weight: expected 6 finite, non-negative numbers.*got a list of 6 values"),
        ({"name": X}, "name must be text, got an array of 6 values"),
        ({"format": ["uci"]}, "format must be text"),
        ({"sequence": FRAME}, "sequence must be the name of a column, got a DataFrame of 6 values"),
    ],
)
def test_the_message_names_option_and_remedy(options, words):
    with pytest.raises(ZooError, match=words):
        load_data(FRAME, **options)


def test_columns_that_are_numbers_have_their_names():
    """A DataFrame of an array numbers its columns: 0 and "0" are the same name."""
    frame = pd.DataFrame(X).assign(**{"2": LABELS})
    data = load_data(frame, label="2", columns=[1, 0])
    assert (data.columns, data.label) == (("1", "0"), "2")
    np.testing.assert_array_equal(load_data(pd.DataFrame(X), label=1).x[:, 0], X[:, 0])
    np.testing.assert_array_equal(load_data(frame, columns=np.array(["1"])).x, X[:, [1]])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": ["em"]}, "is not one of em, hard_em"),
        ({"method": None}, "NoneType is not one of em"),
        ({"precision": [64]}, "is not one of 64, 32"),
        ({"precision": "64"}, "precision='64' is not one of 64, 32"),
        ({"start": X}, "start: expected a dict of arrays by site, got ndarray"),
        ({"start": {"mean": "left", "mixture_probs": 1}}, "start: mean must be an array of numbers"),
        ({"seed": "1"}, "seed must be a whole number"),
        ({"max_iter": "many"}, "max_iter must be a whole number, got 'many'"),
        ({"num_starts": [3]}, "num_starts must be a whole number"),
        ({"progress": "yes"}, "progress must be true or false"),
        ({"folder": 5}, "folder must be a path"),
    ],
)
def test_fit_names_what_is_wrong(options, words):
    data = table(X)
    with pytest.raises(ZooError, match=words):
        fit(build(X, "unit"), data, **({"method": "em"} | options))


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("runs/mine", {}, "expected a result of a fit or a dict of arrays by site, got str; inference.results.load"),
        (X, {}, "expected a result of a fit or a dict of arrays by site, got ndarray"),
        ({"mean": np.zeros((2, 2)), "mixture_probs": np.full(2, 0.5)}, {"fitted": "no"}, "fitted must be true or false"),
    ],
)
def test_predict_names_what_is_wrong(source, options, words):
    with pytest.raises(ZooError, match=words):
        predict(build(X, "unit"), source, table(X), **options)
