"""Calls of a student's function: with copies of the arguments, with what it raises in words, and with its values as arrays."""

import copy
import traceback
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

NOT_WRITTEN = "is not written yet"
SUBMISSION = "<submission>"  # the name that a student's file is compiled under


class AnswerError(Exception):
    """A function did not answer as it should: the message goes to the student, after the name of the function."""


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
            raise AnswerError(f"changes its argument {place}: work on a copy, as {place}.copy()")
    return found


def not_written(error: NotImplementedError, name: str) -> str:
    """``is not written yet``, or ``needs assign, which is not written yet``: the function whose frame raised the error."""
    raised = traceback.extract_tb(error.__traceback__)[-1].name
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
    try:
        found = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise AnswerError(f"{returns} something that is no array of numbers: {type(value).__name__}") from error
    if found.dtype.kind not in "biuf":
        raise AnswerError(f"{returns} {type(value).__name__} of {found.dtype}, and it should be numbers")
    return found.astype(float) if found.dtype.kind == "f" else found.astype(int)


def in_a_line(error: BaseException) -> str:
    """``ValueError in line 12: operands could not be broadcast``: the last line of the student's own file."""
    text = " ".join(str(error).split())
    where = _last_line(error.__traceback__)
    return f"{type(error).__name__}{where}: {text}" if text else f"{type(error).__name__}{where}"


def _last_line(trace: TracebackType | None) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename.startswith(SUBMISSION)]
    return f" in line {lines[-1]}" if lines else ""
