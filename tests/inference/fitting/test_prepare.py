"""Arrays on the device are copies of the user's, in the precision in force."""

import jax
import numpy as np

from inference.fitting.prepare import as_arrays, x64


def aligned(values):
    """A copy at an address from which a device could take an array without copying it."""
    memory = np.empty(values.nbytes + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    found = memory[begin : begin + values.nbytes].view(values.dtype).reshape(values.shape)
    found[:] = values
    return found


def test_arrays_do_not_change_with_the_users():
    mine = aligned(np.arange(1000.0))
    with x64(64):
        theirs = as_arrays({"x": mine})["x"]
        jax.block_until_ready(theirs)
        mine[:] = -1
        np.testing.assert_array_equal(theirs, np.arange(1000.0))


def test_floating_point_numbers_have_the_precision_in_force():
    given = {"float": np.ones(2), "single": np.ones(2, np.float32), "bool": np.ones(2, bool), "number": 0.5}
    for precision, wanted in ((64, np.float64), (32, np.float32)):
        with x64(precision):
            found = as_arrays(given)
            assert {name: leaf.dtype for name, leaf in found.items()} == {
                "float": wanted,
                "single": wanted,
                "bool": bool,
                "number": wanted,
            }
            assert not any(leaf.weak_type for leaf in found.values())
