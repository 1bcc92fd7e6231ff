"""Texts and lists of tokens as data: what is read, predicted where there is nothing to read, and refused."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import sparse

from inference import fit, log_likelihood, posterior_predictive, predict
from models import MODELS, Data, Model, ZooError, load_data

OPTIONS: dict[str, dict[str, Any]] = {"naive_bayes": {"emission": "multinomial"}, "markov_naive_bayes": {}}
NOTHING = [[[]], [""], [[], []], ["", ""], ([],), load_data(pd.DataFrame({"body": [" ", ""]}), text="body")]
every_model = pytest.mark.parametrize("name", OPTIONS)


@cache
def mail() -> Data:
    return load_data(["win pure gold", "office hours", "gold"], labels=["spam", "ham", "spam"])


@cache
def fitted(name: str) -> tuple[Model, xr.DataTree]:
    model = MODELS[name](mail(), **OPTIONS[name])
    return model, fit(model, mail(), method="em")


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("nothing", NOTHING, ids=[*map(str, NOTHING[:-1]), "column"])
def test_nothing_to_read_has_the_odds_of_the_classes(name, nothing):
    """Also where no row has a token; the log-likelihood of such rows without a label is log 1."""
    model, tree = fitted(name)
    found = predict(model, tree, nothing)
    shares = np.tile(tree["point_estimate"]["class_probs"].values, (found.sizes["row"], 1))
    np.testing.assert_allclose(found["probs"], shares, rtol=1e-12)
    np.testing.assert_allclose(found["log_density"], 0, atol=1e-12)
    sites = {str(site): value.values for site, value in tree["point_estimate"].data_vars.items()}
    np.testing.assert_allclose(log_likelihood(model, sites, nothing), 0, atol=1e-12)
    predictive = posterior_predictive(model, mail(), nothing)["probs"].values
    np.testing.assert_allclose(predictive, np.tile([3 / 7, 4 / 7], (len(shares), 1)), rtol=1e-12)  # (2 + n_c) / (4 + n)


@pytest.mark.slow
@every_model
def test_rows_beside_an_empty_one_are_as_they_are_alone(name):
    model, tree = fitted(name)
    alone, beside = (predict(model, tree, texts)["probs"].values for texts in (["pure gold"], ["", "pure gold"]))
    np.testing.assert_allclose(beside[1], alone[0], rtol=1e-12)


@every_model
def test_no_model_is_built_on_nothing(name):
    with pytest.raises(ZooError, match="contain no tokens"):
        MODELS[name](load_data(["", ""], labels=["x", "y"]), **OPTIONS[name])


MISTAKES = {
    "one text": (lambda: load_data("one bare text"), ["'one bare text'", "neither a file nor", "give texts as a list"]),
    "a long text": (lambda: load_data("gold " * 3000), ["'…", "give texts as a list"]),
    "no rows": (lambda: load_data([]), ["no rows"]),
    "a text among lists": (lambda: load_data(["a text", ["a"]]), ["row 1", "list of tokens", "str", "correct the row"]),
    "nothing among lists": (lambda: load_data([["a"], None]), ["row 2", "list of tokens", "NoneType"]),
    "nothing among texts": (lambda: load_data(["a", None]), ["list of texts", "'a'"]),
    "a label of texts": (lambda: load_data(["a", "b"], label="kind"), ["'kind'", "labels="]),
    "a label of a matrix": (lambda: load_data(sparse.csr_array(np.eye(2)), label="kind"), ["'kind'", "labels="]),
    "columns of texts": (lambda: load_data(["a", "b"], columns=["a"]), ["documents", "columns"]),
    "columns of a data set": (lambda: load_data("python_lines", columns=["a"]), ["python_lines", "documents", "columns"]),
    "constants": (lambda: load_data(["a", "b"], drop_constant=True), ["documents", "drop_constant"]),
    "a table": (lambda: predict(*fitted("naive_bayes"), [[1.0, 2.0]]), ["array", "x0", "gold"]),
    "documents": (lambda: MODELS["gmm"]([[], []]), ["documents", "not a table of numbers"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake):
    make, words = MISTAKES[mistake]
    with pytest.raises(ZooError) as error:
        make()
    assert all(word in str(error.value) for word in words), str(error.value)
    assert len(str(error.value)) < 450


BLANK = {  # texts with blanks among them
    "the first": [None, "gold win", "office hours"],
    "the last": ["gold win", "office hours", None],
    "several": [None, "gold", None, "win win", None],
    "white space": ["gold", "  ", None, "hours"],
    "all but one": [None, None, "gold"],
}


@pytest.mark.parametrize("name", BLANK)
def test_blank_texts_are_kept_or_dropped_as_one_says(name, tmp_path):
    """What is beside a text goes with it, and the result says how many rows there are without."""
    texts = BLANK[name]
    frame = pd.DataFrame({"body": texts, "kind": list("ababa")[: len(texts)], "id": range(100, 100 + len(texts))})
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = [[] if text is None else text.split() for text in texts]
    there = [number for number, row in enumerate(words) if row]
    for source in (frame, tmp_path / "t.csv"):
        with pytest.raises(ZooError, match=r"data.empty=keep .*or data.empty=drop"):
            load_data(source, text="body")
        kept = load_data(source, text="body", label="kind", keep=["id"], empty="keep")
        assert kept.x.lengths.tolist() == [len(row) for row in words]
        assert not kept.remarks
        dropped = load_data(source, text="body", label="kind", keep=["id"], empty="drop")
        assert [[dropped.columns[token] for token in row] for row in np.split(dropped.x.tokens, dropped.x.starts[1:-1])] == [
            words[number] for number in there
        ]
        assert list(map(int, dict(dropped.kept_columns)["id"])) == [100 + number for number in there]
        assert [dropped.levels[code] for code in dropped.labels] == ["ababa"[number] for number in there]
        assert f"{len(texts) - len(there)} of {len(texts)} rows have no text" in dropped.remarks[0]


@pytest.mark.parametrize(
    ("options", "words"), [({"empty": "fill", "text": "body"}, "not one of keep, drop"), ({"empty": "keep"}, "text=")]
)
def test_a_way_to_read_blank_texts_that_is_none(options, words):
    with pytest.raises(ZooError, match=words):
        load_data(pd.DataFrame({"body": ["a", "b"]}), **options)
