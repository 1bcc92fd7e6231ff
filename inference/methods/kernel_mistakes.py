"""Mistakes in the form of a user's kernel, each as one message."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from models.errors import ZooError

NOT_TRACED = (
    jax.errors.TracerArrayConversionError,
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerIntegerConversionError,
)


def of_start(kernel: str, what: str, state: Any) -> Any:
    """The state that ``start`` or ``init`` returns; raises `ZooError` for none."""
    if state is None:
        raise ZooError(f"{what} of {kernel} returns nothing; it returns a state")
    return state


def of_step(kernel: str, result: Any) -> tuple[Any, Mapping[str, Any]]:
    """The state and the parameters that ``step`` returns; raises `ZooError` for anything else than this pair."""
    if not isinstance(result, tuple) or len(result) != 2:
        returned = f"{len(result)} things" if isinstance(result, tuple) else kind_of(result)
        raise ZooError(f"step of {kernel} returns {returned}; it returns two: (state, sites), the new state and a dict by site")
    if not isinstance(result[1], Mapping):
        raise ZooError(f"step of {kernel} returns (state, {kind_of(result[1])}); the second is a dict of parameters by site")
    return result


def kind_of(value: Any) -> str:
    """The type of a value, in words."""
    return "nothing" if value is None else f"a {type(value).__name__}"


@contextmanager
def explained(kernel: str, what: str, compiled: bool) -> Iterator[None]:
    """Errors of usual mistakes as `ZooError`; others pass, with a note on where they come from."""
    try:
        yield
    except ZooError:
        raise
    except Exception as error:  # the kernel is the user's, and may raise anything; unknown errors pass on
        if compiled and _is_numpy_in_jax(error):
            raise ZooError(
                f"{kernel} cannot be compiled: {_first_line(error)}. If it is NumPy, give compiled=False: its key is then a "
                "numpy.random.Generator"
            ) from error
        if not compiled and "read-only" in str(error):
            raise ZooError(f"{kernel} writes into data, which are read-only; let it write into a copy") from error
        if "all input arrays must have the same shape" in str(error):
            raise ZooError(f"{kernel} returns arrays of several shapes after its {what}; every step has one shape") from error
        error.add_note(f"raised in the {what} of {kernel}, a kernel of your own")
        raise


def _is_numpy_in_jax(error: Exception) -> bool:
    """A tracer in NumPy, a method of a Generator called on a JAX key, or an entry written into an array."""
    of_generator = (
        isinstance(error, AttributeError) and isinstance(error.obj, jax.Array) and hasattr(np.random.Generator, str(error.name))
    )
    return isinstance(error, NOT_TRACED) or of_generator or "JAX arrays are immutable" in str(error)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
