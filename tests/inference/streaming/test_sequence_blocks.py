"""Sequences in blocks: what is held out, and how many are computed side by side."""

import numpy as np
import pytest

from inference import fit, in_blocks
from inference.streaming.sums import SEQUENCES, chunk_size, mesh_of, on_devices
from models import MODELS, load_data
from models.chains.padding import padded

X = np.random.default_rng(0).normal(size=(60, 1)) + 3 * (np.arange(60)[:, None] // 3 % 2)
DATA = load_data(X)._replace(starts=np.arange(0, 61, 5))


@pytest.mark.slow
def test_held_out_sequences_are_counted_as_sequences():
    """Their mean log density is one of sequences, not of steps."""
    model = MODELS["hmm"](DATA, emission="gaussian", num_states=2)
    tree = fit(model, in_blocks(DATA, held_out=0.3), "em", num_starts=1, max_iter=2)
    assert tree.attrs["held_out_rows"] + tree.attrs["total_weight"] == 12
    assert 0 < tree.attrs["held_out_rows"] < 12


def test_few_sequences_are_not_filled_up_with_copies():
    """One sequence is one; five are eight; more than a chunk are whole chunks."""
    model = MODELS["hmm"](DATA, emission="gaussian", num_states=2)
    for number, size in ((1, 1), (5, 8), (300, SEQUENCES)):
        starts = 5 * np.arange(number + 1)
        rows = padded(model.rows(load_data(np.resize(X, (5 * number, 1)))._replace(starts=starts)))
        assert chunk_size(rows) == size
        filled, weight = on_devices(mesh_of(1), size, rows)
        assert len(weight) == len(filled.length) == -(-number // size) * size
        assert float(weight.sum()) == number
