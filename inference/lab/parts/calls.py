"""Calls of a student's function: with copies of the arguments, with what it raises in words, and with its values as arrays."""

import copy
import traceback
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

NOT_WRITTEN = "is not written yet"
READ_ONLY = "read-only"  # how NumPy says that an array must not be written into
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
            raise AnswerError(changes(place))
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
    if READ_ONLY in text:
        text = _changed(error.__traceback__)
    where = _last_line(error.__traceback__)
    return f"{type(error).__name__}{where}: {text}" if text else f"{type(error).__name__}{where}"


def _changed(trace: TracebackType | None) -> str:
    """``m_step changes its argument x: work on a copy``: NumPy says only that an array, which a run guards, is read-only."""
    frames = [frame for frame, _ in traceback.walk_tb(trace) if frame.f_code.co_filename.startswith(SUBMISSION)]
    for frame in reversed(frames):
        code = frame.f_code
        for name in code.co_varnames[: code.co_argcount]:
            value = frame.f_locals.get(name)
            if isinstance(value, np.ndarray) and not value.flags.writeable:
                return f"`{code.co_name}` {changes(name)}"
    return "an argument is changed: work on a copy of it"


def changes(argument: str) -> str:
    """What is said of a function that writes into one of its arguments."""
    return f"changes its argument {argument}: work on a copy, as {argument}.copy()"


def _last_line(trace: TracebackType | None) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename.startswith(SUBMISSION)]
    return f" in line {lines[-1]}" if lines else ""
