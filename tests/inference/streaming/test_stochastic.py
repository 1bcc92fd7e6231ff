"""Stochastic approximation: unbiased steps, the fixed points of the sweeps, and the step itself against NumPy."""

import numpy as np
import pytest
from block_tables import groups, largest_gap
from fit_blocks import fit_blocks

from inference import fit
from models import MODELS, load_data
from models.base import ZooError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows():
    return groups(8000)[0]


def test_one_step_of_a_labelled_table(rows):
    """Of naive Bayes with labels by hand: nu moves by ρ from the start to prior + M × the counts of the block."""
    data = load_data((rows > 0).astype(float)[:60], labels=(np.arange(60) % 2).astype(str))
    model = MODELS["naive_bayes"](data)
    tree = fit_blocks(model, data, "em", steps=True, block_rows=60, max_iter=1, delay=0.0)
    whole = fit(model, data, "em")  # a step of length 1 with all rows in the block is the sweep
    assert largest_gap(tree, whole) < 1e-12


@pytest.mark.parametrize("method", ["em", "cavi"])
def test_steps_come_near_the_sweeps(rows, method):
    """With 320 steps ρ is 0.018 at the end. An average over 1 / ρ blocks of 500 rows is one over 28,000 rows: 0.01 of a width.

    The limit is five times that, and a twentieth of the distance between groups.
    """
    data = load_data(rows)
    model = MODELS["gmm"](data, num_components=3, covariance="diag")
    whole = fit(model, data, method, num_starts=3, **({"num_samples": 2000} if method == "cavi" else {}))
    tree = fit_blocks(model, data, method, steps=True, block_rows=500, max_iter=320, num_starts=3)
    if method == "em":
        assert largest_gap(tree, whole) < 0.05
    else:
        mean, wanted = (one["posterior"]["mean"].mean(("chain", "draw")) for one in (tree, whole))
        assert float(abs(mean - wanted).max()) < 0.1
    trace = tree["optimization"]["criterion"].values
    assert trace.shape[1] == 321
    assert tree["optimization"].attrs == {}
    assert np.nanmax(trace[:, -1]) <= np.nanmax(whole["optimization"]["criterion"].values) + 1e-6  # nothing beats the optimum


def test_stops_and_goes_on_with_the_same_steps(rows, tmp_path, monkeypatch):
    data = load_data(rows)
    model = MODELS["gmm"](data, num_components=3, covariance="diag")
    options = {"steps": True, "block_rows": 500, "num_starts": 2}
    whole = fit_blocks(model, data, "em", max_iter=40, **options)
    monkeypatch.setattr("inference.minibatches.by_blocks.CHUNK_SECONDS", 0.0)
    monkeypatch.setattr("inference.runtime.checkpoints.CheckpointTimer.is_due", lambda self: True)
    fit_blocks(model, data, "em", max_iter=13, folder=tmp_path, **options)
    for file in tmp_path.glob("checkpoint-*"):  # of a shorter run: max_iter is not part of what a checkpoint depends on
        assert file.stat().st_size
    tree = fit_blocks(model, data, "em", max_iter=40, folder=tmp_path, **options)
    np.testing.assert_array_equal(tree["optimization"]["criterion"], whole["optimization"]["criterion"])


def test_mistakes(rows):
    data = load_data(rows[:100])
    model = MODELS["gmm"](data, num_components=2)
    with pytest.raises(ZooError, match="the number of blocks of an iterable is not known"):
        fit_blocks(model, lambda: iter([data]), "em", steps=True)
    start = {name: value.values for name, value in fit(model, data, "em", num_starts=1)["point_estimate"].data_vars.items()}
    with pytest.raises(ZooError, match="move distributions and no points"):
        fit_blocks(model, data, "em", steps=True, start=start)
