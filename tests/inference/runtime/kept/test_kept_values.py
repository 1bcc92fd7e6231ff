"""Values as text: what is read is what was written, and nothing but values."""

import json
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import constraints, transforms

from inference.engine.program import Site
from inference.runtime.kept.digests import NotKeptError
from inference.runtime.kept.values import as_text, from_text
from models.data.table import Data


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"a": (1, [True, -0.0, "ü\n"]), "b": {}},
        {"z": 0, "a": 1},
        float("inf"),
        Site(constraints.independent(constraints.positive, 1), (3, 2), False),
        Site(constraints.interval(-1.5, 2.0), (), True),
        {"simplex": constraints.simplex, "upper": constraints.less_than(np.float64(0.1))},
        constraints.greater_than(np.array([1e-300, 0.1])),
        transforms.AffineTransform(jnp.array([0.1]), 3.0),
    ],
)
def test_what_is_read_is_what_was_written(value):
    found = from_text(as_text(value))
    assert jax.tree.structure(found) == jax.tree.structure(value)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(value), strict=True):
        assert type(one) is type(other)
        np.testing.assert_array_equal(one, other)
    assert as_text(found) == as_text(value)


def test_order_and_shapes_remain():
    assert list(from_text(as_text({"z": 0, ("a", 1): 1}))) == ["z", ("a", 1)]
    shape = jax.eval_shape(lambda: jnp.zeros((2, 3), np.float32))
    assert from_text(as_text((shape,))) == (shape,)


class Own(NamedTuple):
    x: int


@pytest.mark.parametrize("value", [Own(1), object(), {1, 2}, jax.random.key(0), b"bytes", lambda: 1])
def test_other_values_have_no_text(value):
    with pytest.raises(NotKeptError):
        as_text(value)


@pytest.mark.parametrize(
    "text",
    [
        ["named", "subprocess", "CompletedProcess", []],
        ["named", "numpyro.util", "subprocess", []],
        ["named", "inference.runtime.files", "remove", []],
        ["named", Data.__module__, "Data", []],
        ["node", "inference.engine.program", "Site", ["tuple", [["tuple", []], None]]],
        ["node", "numpyro.handlers", "seed", ["tuple", [["tuple", []], None]]],
        ["exec", "1"],
        ["float"],
        ["float", "0x1p99999"],
        ["array"],
        [],
        {"a": 1},
        0.5,
        ["numpy", [2], "<f8", "00"],
        ["shape", [1], "strange", False],
    ],
)
def test_another_text_is_refused(text):
    with pytest.raises(ValueError, match="no text of a value"):
        from_text(json.dumps(text).encode())


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_text_is_refused(content):
    with pytest.raises(ValueError, match="no text of a value"):
        from_text(content)
