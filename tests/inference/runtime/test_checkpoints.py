"""Checkpoints: what no run has written is not gone on from."""

import io

import numpy as np
import pytest

from inference.runtime import files as store
from inference.runtime.checkpoints import restore
from inference.runtime.checkpoints import store as store_checkpoint
from models import ZooError


def checkpoint(path, **changes):
    """A sound checkpoint of 5 steps of 2 chains, with ``changes``, sealed again."""
    state, parts = np.zeros((2, 3)), [{"z": np.arange(10.0).reshape(2, 5)}]
    store_checkpoint(path, 5, 1.0, state, parts)
    if changes:
        with np.load(io.BytesIO(store.read(path))) as file:
            arrays = {name: file[name] for name in file} | {name: np.asarray(value) for name, value in changes.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        store.write(path, buffer.getvalue(), seal=True)
    return state, {"z": 0.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"finished": -5},
        {"finished": 10**9},
        {"finished": np.nan},
        {"finished": 4},
        {"finished": [5, 5]},
        {"seconds": np.nan},
        {"seconds": -1.0},
        {"version": 0},
        {"state_0": np.zeros((3, 3))},
        {"state_0": np.zeros((2, 3), np.float32)},
        {"state_1": np.zeros(2)},
        {"record_0": np.zeros((2, 5, 1))},
        {"record_0": np.zeros((2, 5), int)},
    ],
    ids=str,
)
def test_impossible_checkpoints_are_refused(tmp_path, changes):
    """Sealed or not: what no run has written is not gone on from."""
    path = tmp_path / "checkpoint-sampling-abc.npz"
    state, record = checkpoint(path)
    finished, seconds, found, parts = restore(path, state, record, 10)
    assert (finished, seconds) == (5, 1.0)
    np.testing.assert_array_equal(parts[0]["z"], np.arange(10.0).reshape(2, 5))
    np.testing.assert_array_equal(found, state)
    checkpoint(path, **changes)
    with pytest.raises(ZooError, match=r"checkpoint-sampling-abc\.npz"):
        restore(path, state, record, 10)


def test_a_warm_up_is_no_longer_than_asked_for(tmp_path):
    path = tmp_path / "checkpoint-warmup-abc.npz"
    state = np.zeros((2, 3))
    store_checkpoint(path, 11, 1.0, state, [])
    assert restore(path, state, None, 11)[0] == 11
    with pytest.raises(ZooError, match="11 of 10 steps"):
        restore(path, state, None, 10)


def test_damaged_checkpoints_are_refused(tmp_path):
    """Every byte of it changed, one after the other, and every length."""
    path = tmp_path / "checkpoint-sampling-abc.npz"
    state, record = checkpoint(path)
    content = path.read_bytes()
    for place in range(0, len(content), 13):
        path.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        with pytest.raises(ZooError, match="remove it, and what it held is computed again"):
            restore(path, state, record, 10)
        path.write_bytes(content[:place])
        with pytest.raises(ZooError, match="remove it, and what it held is computed again"):
            restore(path, state, record, 10)
