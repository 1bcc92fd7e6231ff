"""Short texts in place of arrays: tables and their columns."""

import re

import numpy as np
import pandas as pd
import pytest

from models import MODELS, ZooError, load_data
from models.data.representation import SHOWN

TABLE = pd.DataFrame({"size": [1.5, 2.0, np.nan, 8.25], "<b>": ["x", "y", "x", "x"]})


def test_a_table_shows_its_columns():
    text = repr(load_data(TABLE))
    assert "4 rows, 2 columns" in text
    assert re.search(r"size +number +1 missing +1\.5 to 8\.25", text)
    assert re.search(r"<b> +category +x, y", text)


def test_names_are_escaped():
    page = load_data(TABLE)._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<td><b></td>" not in page


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (load_data(np.eye(3), labels=["a", "b", "a"]), "3 rows, 3 columns, labels (a, b)"),
        (load_data([["a", "b"], ["b"]]), "2 sequences, 3 steps"),
        (load_data(np.eye(3))._replace(weight=np.ones(3)), "with weights"),
    ],
)
def test_sizes_in_words(data, words):
    assert words in repr(data).replace("labels label", "labels")


def test_wide_tables_are_cut():
    wide = load_data(np.random.default_rng(0).normal(size=(5, SHOWN + 7)))
    assert "and 7 more columns" in repr(wide)
    assert len(repr(wide).splitlines()) == SHOWN + 2


def test_a_model_shows_its_program_and_prior():
    model = MODELS["gmm"](load_data(np.random.default_rng(0).normal(size=(20, 2))), num_components=2)
    text = repr(model)
    assert "mixture_probs ~ Dirichlet(concentration)" in text
    assert "concentration = 2 in all 2 entries" in text
    assert "errata" not in text
    assert len(text) < 2000


def test_an_unknown_model_is_named():
    with pytest.raises(ZooError, match=r"no model 'gmmm' \(did you mean gmm\?\)"):
        MODELS["gmmm"]
    with pytest.raises(ZooError, match=r"no model 'quantum'; the models are gmm, "):
        MODELS["quantum"]
    assert "quantum" not in MODELS
