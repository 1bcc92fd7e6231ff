"""Digests of static arguments by content: functions by their code and by what they hold.

Arguments that cannot be identified for certain, such as a function from a user's file, have none.
"""

import functools
import hashlib
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any

import jax
import numpy as np

KNOWN = ("models", "inference", "jax", "jaxlib", "numpyro", "numpy", "builtins", "functools", "operator", "collections")


class NotKeptError(Exception):
    """A static argument without a reliable digest, or a value without a text: the program is not stored."""


def digest(value: Any) -> str:
    """A digest of a static argument by content: functions by code, constants and closures. Raises `NotKeptError`."""
    hashed = hashlib.sha256()
    _add(hashed, value, ())
    return hashed.hexdigest()


def _add(hashed: Any, value: Any, above: tuple[int, ...]) -> None:
    """Feed ``value`` to a hash; ``above`` are the identities of the objects that contain it, which ends circles."""
    if id(value) in above:
        hashed.update(b"circle")
        return
    above = (*above, id(value))
    kind = type(value)
    hashed.update(f"<{kind.__module__}.{kind.__qualname__}>".encode())
    if (
        value is None
        or value is ...
        or isinstance(value, str | bytes | bool | int | float | complex | Enum | np.dtype | slice | range)
    ):
        hashed.update(repr(value).encode())
    elif isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        hashed.update(f"{array.shape} {array.dtype}".encode() + array.tobytes())
    elif isinstance(value, tuple | list):
        hashed.update(str(len(value)).encode())
        for each in value:
            _add(hashed, each, above)
    elif isinstance(value, Mapping):
        hashed.update(str(len(value)).encode())
        for name, each in value.items():
            _add(hashed, name, above)
            _add(hashed, each, above)
    elif isinstance(value, frozenset | set):
        for each in sorted(map(digest, value)):
            hashed.update(each.encode())
    elif isinstance(value, functools.partial):
        _add(hashed, (value.func, value.args, dict(value.keywords)), above)
    elif isinstance(value, types.FunctionType):
        _add_function(hashed, value, above)
    elif isinstance(value, type | types.BuiltinFunctionType | np.ufunc | types.ModuleType):
        hashed.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}".encode())
        _require_known(getattr(value, "__module__", None) or value.__name__)
        if "<locals>" in getattr(value, "__qualname__", ""):  # a class may hold what its function was given
            raise NotKeptError(value.__qualname__)
    elif isinstance(value, types.MethodType):
        _add(hashed, (value.__func__, value.__self__), above)
    elif hasattr(value, "__wrapped__"):  # a jitted or cached function
        _add(hashed, value.__wrapped__, above)
    elif hasattr(value, "__dict__"):
        _require_known(kind.__module__)
        _add(hashed, vars(value), above)
    else:
        raise NotKeptError(f"{kind.__module__}.{kind.__qualname__}")


def _add_function(hashed: Any, function: types.FunctionType, above: tuple[int, ...]) -> None:
    """Module and name, code with its constants, defaults, and the closure of the function."""
    _require_known(function.__module__)
    hashed.update(f"{function.__module__}.{function.__qualname__}".encode())
    _add_code(hashed, function.__code__, above)
    cells = tuple(_content(cell) for cell in function.__closure__ or ())
    _add(hashed, (function.__defaults__, function.__kwdefaults__, cells), above)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _add_code(hashed: Any, code: types.CodeType, above: tuple[int, ...]) -> None:
    hashed.update(code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(hashed, constant, above)
        else:
            _add(hashed, constant, above)


def _require_known(module: str | None) -> None:
    """A `NotKeptError` for code outside this project and the libraries whose versions are part of every key."""
    if (module or "").partition(".")[0] not in KNOWN:
        raise NotKeptError(str(module))
