"""Values as messages of JSON and raw numbers: no code can travel in them, as it can in a pickle.

A message is 16 bytes (its length, and that of its JSON), the JSON, and the numbers of the arrays one after the other.
"""

import json
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

LARGEST = 16 * 2**20  # bytes of one message
DEEPEST = 32  # lists in lists
WIDEST = 64  # bits of a whole number outside of an array
HEAD = struct.Struct("<QQ")
NUMBERS, KINDS = "biuf", "biufcUS"  # of values, and of arrays: the grader says which of them are no numbers
DTYPE = re.compile(r"[<>|=]?([biufc]\d{1,2}|[US]\d{1,7})")

Handle = Callable[[Any], int]  # a function -> its number
Function = Callable[[int], Any]  # the number of a function -> what calls it


class WireError(BaseException):
    """A message that `packed` does not write. It is no `Exception`: nobody takes it for an error of a student's function."""


class TooLargeError(Exception):
    """A value that no message holds."""


@dataclass(frozen=True)
class Foreign:
    """A value that is no number, list or array: what it was."""

    kind: str
    dtype: str | None  # of the array that NumPy makes of it; None where it makes none


def packed(value: Any, handle: Handle | None = None) -> bytes:
    """A value as a message. ``handle`` numbers the functions in it; without it they are `Foreign`.

    Raises `TooLargeError`.

    >>> unpacked(packed((1, [2.5, None], "text", np.eye(2))))
    (1, [2.5, None], 'text', array([[1., 0.],
           [0., 1.]]))
    """
    arrays = _Arrays()
    text = json.dumps(_node(value, arrays, handle, 0)).encode()
    numbers = b"".join(array.tobytes() for array in arrays.found)
    if len(text) + len(numbers) > LARGEST:
        raise TooLargeError
    return HEAD.pack(len(text) + len(numbers), len(text)) + text + numbers


class _Arrays:
    """The arrays of a message."""

    def __init__(self) -> None:
        self.found: list[np.ndarray] = []
        self._size = 0

    def add(self, array: np.ndarray) -> None:
        """Raises `TooLargeError` before an array that was broadcast is written out."""
        self._size += array.nbytes
        if self._size > LARGEST:
            raise TooLargeError
        self.found.append(array)


def _node(value: Any, arrays: _Arrays, handle: Handle | None, depth: int) -> Any:
    if value is None or type(value) in (bool, str, float) or (type(value) is int and value.bit_length() < WIDEST):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in NUMBERS and value.dtype.itemsize <= 8:
        return value.item()
    if isinstance(value, tuple | list) and depth < DEEPEST:
        return {"tuple" if isinstance(value, tuple) else "list": [_node(each, arrays, handle, depth + 1) for each in value]}
    if isinstance(value, np.random.Generator) and value.bit_generator.state["bit_generator"] == "PCG64":
        return {"rng": value.bit_generator.state}
    if isinstance(value, Foreign):
        return {"foreign": [value.kind, value.dtype]}
    if handle is not None and callable(value):
        return {"function": handle(value)}
    return _array(value, arrays)


def _array(value: Any, arrays: _Arrays) -> Any:
    try:
        found = np.asarray(value)
    except (ValueError, TypeError):
        return {"foreign": [type(value).__name__, None]}
    if found.dtype.kind not in (KINDS if isinstance(value, np.ndarray) else NUMBERS) or found.dtype.itemsize == 0:
        return {"foreign": [type(value).__name__, str(found.dtype)]}
    arrays.add(found)
    return {"array": [found.dtype.str, list(found.shape), bool(found.flags.writeable)]}


def unpacked(content: bytes, function: Function | None = None) -> Any:
    """The value of a message. Raises `WireError` for anything that `packed` does not write."""
    try:
        size, of_text = HEAD.unpack_from(content)
        rest = memoryview(content)[HEAD.size :]
        if size != len(rest) or of_text > size:
            raise WireError("its length is wrong")
        numbers = _Numbers(rest[of_text:])
        value = _value(json.loads(bytes(rest[:of_text])), numbers, function, 0)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, MemoryError, struct.error) as error:
        raise WireError(f"it cannot be read ({type(error).__name__})") from error
    if len(numbers.left):
        raise WireError("it has more numbers than it says")
    return value


class _Numbers:
    """The numbers of a message that no array has taken yet."""

    def __init__(self, content: memoryview) -> None:
        self.left = content

    def taken(self, dtype: str, shape: list[int], writeable: bool) -> np.ndarray:
        """The next array. Raises `ValueError` where there are too few numbers."""
        if DTYPE.fullmatch(dtype) is None or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(dtype)
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        if size > len(self.left):
            raise ValueError(shape)
        array = np.ndarray(tuple(shape), kind, bytes(self.left[:size])).copy()
        array.flags.writeable = bool(writeable)
        self.left = self.left[size:]
        return array


def _value(node: Any, numbers: _Numbers, function: Function | None, depth: int) -> Any:
    if not isinstance(node, dict):
        if isinstance(node, list) or depth > DEEPEST + 1:
            raise ValueError("a list without a kind")
        return node
    ((kind, content),) = node.items()
    if kind in ("tuple", "list"):
        found = [_value(each, numbers, function, depth + 1) for each in content]
        return tuple(found) if kind == "tuple" else found
    if kind == "array":
        return numbers.taken(*content)
    if kind == "foreign":
        name, dtype = content
        return Foreign(str(name)[:80], None if dtype is None else str(dtype)[:80])
    if kind == "rng":
        rng = np.random.Generator(np.random.PCG64(0))
        rng.bit_generator.state = content
        return rng
    if kind == "function" and function is not None and type(content) is int:
        return function(content)
    raise ValueError(kind)
