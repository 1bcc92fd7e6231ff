"""Calls of a student's function: with copies of the arguments, with what it raises in words, and with its values as arrays."""

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from labs.student.wire import Foreign
from labs.student.words import NOT_WRITTEN, changes, in_a_line, raised_in


class AnswerError(Exception):
    """A function did not answer as it should: the message goes to the student, after the name of the function."""


class NotWrittenError(NotImplementedError):
    """A function in a process of its own is still that of the stub, or calls one that is."""

    def __init__(self, function: str) -> None:
        super().__init__(function)
        self.function = function


def called(
    function: Callable[..., Any], arguments: Mapping[str, Any], fields: tuple[str, ...], name: str = ""
) -> dict[str, np.ndarray]:
    """The values that a function returns, by field. ``name``: of the function that is asked for.

    Raises `AnswerError` where it raises, changes an argument, or returns something else than arrays.
    """
    given = copy.deepcopy(dict(arguments))
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = function(*given.values())
    except NotImplementedError as error:
        raise AnswerError(not_written(error, name)) from error
    except AnswerError:
        raise
    except (Exception, SystemExit) as error:
        raise AnswerError(f"stops with {in_a_line(error)}") from error
    found = as_fields(value, fields)
    for place, before in arguments.items():
        if isinstance(before, np.ndarray) and not np.array_equal(before, given[place], equal_nan=before.dtype.kind == "f"):
            raise AnswerError(changes(place))
    return found


def not_written(error: NotImplementedError, name: str) -> str:
    """``is not written yet``, or ``needs assign, which is not written yet``: the function whose frame raised the error."""
    raised = error.function if isinstance(error, NotWrittenError) else raised_in(error)
    return NOT_WRITTEN if raised in (name, "<lambda>") else f"needs {raised}, which {NOT_WRITTEN}"


def as_fields(value: Any, fields: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Returned values as arrays of numbers, by field. Raises `AnswerError` for anything else."""
    if value is None:
        raise AnswerError("returns nothing: is its return statement missing?")
    if len(fields) == 1:
        return {fields[0]: _as_array(value, "")}
    if not isinstance(value, tuple | list) or len(value) != len(fields):
        number = f"{len(value)} values" if isinstance(value, tuple | list) else "one value"
        raise AnswerError(f"returns {number}, and should return {len(fields)}: {', '.join(fields)}")
    return {name: _as_array(each, name) for name, each in zip(fields, value, strict=True)}


def _as_array(value: Any, name: str) -> np.ndarray:
    """``name``: of one of several values; "" for the only one."""
    returns = f"returns {name} as" if name else "returns"
    found = value if isinstance(value, Foreign) else _numbers(value)
    if isinstance(found, np.ndarray) and found.dtype.kind in "biuf":
        return found.astype(float) if found.dtype.kind == "f" else found.astype(int)
    kind = value.kind if isinstance(value, Foreign) else type(value).__name__
    if found.dtype is None:
        raise AnswerError(f"{returns} something that is no array of numbers: {kind}")
    raise AnswerError(f"{returns} {kind} of {found.dtype}, and it should be numbers")


def _numbers(value: Any) -> np.ndarray | Foreign:
    try:
        return np.asarray(value)
    except (ValueError, TypeError):
        return Foreign(type(value).__name__, None)
