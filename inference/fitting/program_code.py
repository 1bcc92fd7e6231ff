"""A user's program as text and arrays, which differ for two programs that compute different things.

The text of JAX's code shows neither the arrays that functions inside it hold, jitted ones and branches, nor what Python
computes behind a callback: the first are collected from every level, the second is identified by its bytecode and by what that
refers to.
"""

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import infer

from inference.engine.program import latent_sites, transforms
from models.base import Hyper, Pytree, ZooError

LIBRARIES = sys.stdlib_module_names | {"jax", "jaxlib", "numpy", "numpyro", "scipy"}  # named, and not looked into


def potential_code(spec: Callable[..., Any], hyper: Hyper, rows: Pytree) -> tuple[str, list[Any]]:
    """The code of a program's density with its arrays and texts. Raises `ZooError` where these cannot be determined."""
    sites = latent_sites(spec, hyper, rows)
    z = {
        name: jnp.zeros(transform.inverse_shape(sites[name].shape)) for name, transform in transforms(spec, hyper, rows).items()
    }
    code = jax.make_jaxpr(lambda z: infer.util.potential_energy(spec, (hyper, rows), {}, z))(z)
    return str(code), list(_constants(code))


def _constants(code: Any) -> Iterator[Any]:
    """The constants of code, and of the code inside it, without those of callbacks that do not enter the density, as prints."""
    yield from getattr(code, "consts", ())
    for equation in code.eqns:
        yield from (value.val for value in equation.invars if hasattr(value, "val"))
        name = str(equation.primitive)
        for value in equation.params.values():
            yield from _inside(value)
        if "callback" in name and not name.startswith("debug"):
            yield from _python(getattr(equation.params["callback"], "callback_func", equation.params["callback"]), [])


def _inside(value: Any) -> Iterator[Any]:
    if hasattr(value, "eqns"):
        yield from _constants(value)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _inside(one)
    elif isinstance(value, np.ndarray | jax.Array):
        yield value


def _python(value: Any, seen: list[Any]) -> Iterator[Any]:
    """A Python function, by its bytecode and by everything that it refers to."""
    if any(value is one for one in seen):
        return
    parts = _parts(value)
    if parts is None:
        raise ZooError(
            f"the program calls Python from inside its density, which uses {type(value).__name__} objects: what these compute "
            "cannot be told, so that draws in a folder could be taken for those of another program; write it in JAX, or in "
            "plain functions and arrays, or call fit without folder="
        )
    yield parts[0]
    seen.append(value)
    for part in parts[1]:
        yield from _python(part, seen)


def _parts(value: Any) -> tuple[Any, list[Any]] | None:
    """(a text or an array that stands for a value, its other parts), or None for a value of unknown kind."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value), []
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return (repr(value), []) if np.asarray(value).dtype == object else (np.asarray(value), [])
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} of {len(value)}", list(value)
    if isinstance(value, set | frozenset):
        return f"set of {len(value)}", sorted(value, key=repr)
    if isinstance(value, dict):
        return f"dict of {len(value)}", [part for pair in value.items() for part in pair]
    if isinstance(value, functools.partial):
        return "partial", [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return "method", [value.__func__, value.__self__]
    if isinstance(value, types.CodeType):
        return f"{value.co_code!r} {value.co_names} {value.co_varnames}", list(value.co_consts)
    if isinstance(value, types.ModuleType):
        return value.__name__, []
    if isinstance(value, np.ufunc) or (hasattr(value, "__qualname__") and _library_of(value) in LIBRARIES):
        return f"{_library_of(value)} {value.__name__}", []
    if isinstance(value, types.FunctionType):
        known = {name: value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__}
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return "function", [value.__code__, value.__defaults__, value.__kwdefaults__, cells, known]
    if hasattr(value, "__wrapped__"):
        return "wrapper", [value.__wrapped__]
    return None


def _library_of(value: Any) -> str:
    return str(getattr(value, "__module__", None)).partition(".")[0]


def _names(code: types.CodeType) -> list[str]:
    """The names that a function looks up, and those inside it."""
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return sorted({*code.co_names, *(name for part in inner for name in _names(part))})
