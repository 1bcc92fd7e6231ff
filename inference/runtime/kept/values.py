"""Structures of numbers, shapes and arrays as text, and back: the values in the file of a stored program.

No pickle: a pickle runs code. A text names classes of this project and of NumPyro alone, and only those that hold
values: named tuples, constraints and transforms.
"""

import importlib
import json
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import Array

from inference.runtime.kept.digests import NotKeptError

FROM = ("models", "inference", "numpyro")  # where a class may be from


def as_text(value: Any) -> bytes:
    """A value as JSON. Raises `NotKeptError` for what has no text here.

    >>> as_text({"z": (1, None)})
    b'["dict", [["z", ["tuple", [1, null]]]]]'
    """
    return json.dumps(_written(value)).encode()


def from_text(text: bytes) -> Any:
    """The value that `as_text` wrote. Raises `ValueError` for any other text.

    >>> from_text(as_text({"z": (1, None)}))
    {'z': (1, None)}
    """
    try:
        return _value(json.loads(text))
    except (ValueError, ArithmeticError, TypeError, LookupError, AttributeError, ImportError, RecursionError) as error:
        raise ValueError(f"no text of a value: {error}") from error


def _written(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return ["float", value.hex()]
    if kind in (tuple, list):
        return [kind.__name__, [_written(each) for each in value]]
    if kind is dict:
        return ["dict", [[_written(name), _written(each)] for name, each in value.items()]]
    if kind is jax.ShapeDtypeStruct and value.sharding is None and isinstance(value.dtype, np.dtype):
        return ["shape", list(value.shape), value.dtype.str, bool(value.weak_type)]
    if isinstance(value, np.ndarray | np.generic | Array) and isinstance(value.dtype, np.dtype) and value.dtype.kind in "biufc":
        content = np.asarray(value)
        name = "jax" if isinstance(value, Array) else "numpy" if kind is np.ndarray else "number"
        return [name, list(content.shape), content.dtype.str, content.tobytes().hex()]
    if _is_named(kind):
        return ["named", *_name(kind), [_written(each) for each in value]]
    if _is_node(kind):
        return ["node", *_name(kind), _written(value.tree_flatten())]
    raise NotKeptError(f"{kind.__module__}.{kind.__qualname__}")


def _value(text: Any) -> Any:
    if text is None or isinstance(text, bool | int | str):
        return text
    if not (isinstance(text, list) and text and text[0] in READ):
        raise ValueError(f"{text!r:.100}")
    return READ[text[0]](*text[1:])


def _array(shape: list[int], dtype: str, content: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(content), dtype).reshape(shape).copy()


def _named(module: str, name: str, fields: list[Any]) -> Any:
    return _class(module, name, _is_named)(*map(_value, fields))


def _node(module: str, name: str, parts: Any) -> Any:
    children, rest = _value(parts)
    return _class(module, name, _is_node).tree_unflatten(rest, children)


READ: dict[str, Callable[..., Any]] = {
    "float": float.fromhex,
    "tuple": lambda parts: tuple(map(_value, parts)),
    "list": lambda parts: [_value(each) for each in parts],
    "dict": lambda pairs: {_value(name): _value(each) for name, each in pairs},
    "shape": lambda shape, dtype, weak: jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype), weak_type=weak),
    "jax": lambda *parts: jax.numpy.asarray(_array(*parts)),
    "numpy": _array,
    "number": lambda *parts: _array(*parts)[()],
    "named": _named,
    "node": _node,
}


def _is_named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and _is_importable(kind)


def _is_node(kind: type) -> bool:
    """The fields of NumPyro's constraints and transforms, by their own flattening."""
    from numpyro import distributions

    return issubclass(kind, distributions.constraints.Constraint | distributions.transforms.Transform) and _is_importable(kind)


def _is_importable(kind: type) -> bool:
    """Whether importing its name gives the same object."""
    module, name = _name(kind)
    return module.partition(".")[0] in FROM and getattr(importlib.import_module(module), name, None) is kind


def _name(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def _class(module: str, name: str, allowed: Callable[[type], bool]) -> Any:
    if module.partition(".")[0] not in FROM:
        raise ValueError(f"{module}.{name} is no class of a stored value")
    loaded = getattr(importlib.import_module(module), name)
    if not (isinstance(loaded, type) and allowed(loaded)):
        raise ValueError(f"{module}.{name} is no class of a stored value")
    return loaded
