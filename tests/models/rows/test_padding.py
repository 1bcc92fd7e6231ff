"""Sequences of about one length share a compilation, and nobody sees what they were padded with."""

import numpy as np
import pytest
from naive import near
from naive_chain import build, random_sites, steps
from tracing import counted

from inference import decode, log_likelihood, plot_states, predict
from models import Data, load_data
from models.chains.padding import padded, padded_length


def one(length: int) -> Data:
    """A sequence with missing steps and labels."""
    rng = np.random.default_rng(length)
    x = rng.normal(size=(length, 2))
    x[1::5] = np.nan
    return Data("one", x, ("a", "b"))


def test_sizes_are_few_and_near():
    """Eight at least, and beyond that a quarter more at most: four to a doubling."""
    lengths = np.arange(8, 4097)
    sizes = np.array([padded_length(int(length)) for length in lengths])
    assert (sizes >= lengths).all()
    assert (sizes <= 1.25 * lengths).all()
    assert (np.diff(sizes) >= 0).all()
    assert len(np.unique(sizes)) == 1 + 4 * 9  # nine doublings
    assert {padded_length(length) for length in range(1, 9)} == {8}


def test_other_rows_stay_as_they_are():
    rows = object()
    assert padded(rows) is rows


@pytest.mark.slow
@pytest.mark.parametrize("what", ["predict", "decode", "plot", "log_likelihood"])
def test_another_length_traces_nothing(what):
    """A second sequence, of another length of the same size, with what the first one had."""
    model, sites = build("diag", steps("diag", unseen=True)), random_sites("diag")
    asked = {
        "predict": lambda data: predict(model, sites, data),
        "decode": lambda data: decode(model, sites, data, "k_best", num_paths=3),
        "plot": lambda data: plot_states(model, sites, data),
        "log_likelihood": lambda data: log_likelihood(model, sites, data),
    }[what]
    asked(one(17))
    with counted() as events:
        asked(one(20))
    assert events == []


@pytest.mark.slow
def test_results_are_of_the_true_length():
    """And those of a sequence beside a longer one, which is padded to another size."""
    model, sites = build("diag", steps("diag")), random_sites("diag")
    long, short = one(33), one(11)
    both = long._replace(x=np.concatenate([long.x, short.x]), starts=np.array([0, 33, 44]))
    alone, beside = predict(model, sites, short), predict(model, sites, both)
    assert alone.sizes["time"] == 11
    assert beside.sizes["time"] == 33
    for name, value in alone.data_vars.items():
        other = beside[name].values[1]
        assert near(value.values[0], other[:11] if value.ndim > 1 else other, rtol=1e-11, atol=1e-12)
    assert decode(model, sites, short, "sample", num_paths=2).sizes == {"path": 2, "row": 1, "time": 11}


def test_allowed_states_are_padded_too():
    data = load_data(steps("diag"), labels=["a", "b", None] * 3 + ["a", "b"])
    model = build("diag", data, 3, labelled=True)
    found = log_likelihood(model, random_sites("diag", 3), data)
    assert np.isfinite(found).all()
    rows = padded(model.rows(data))
    assert np.asarray(rows.allowed_states).shape[1] == 8
