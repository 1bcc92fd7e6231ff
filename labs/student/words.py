"""What is said of a student's function: that it is not written, that it changes its arguments, or what it raises and where."""

import traceback
from types import TracebackType

import numpy as np

NOT_WRITTEN = "is not written yet"
READ_ONLY = "read-only"  # how NumPy says that an array must not be written into
SUBMISSION = "<submission>"  # the name that a student's file is compiled under


def raised_in(error: BaseException) -> str:
    """The function that raised an error."""
    return traceback.extract_tb(error.__traceback__)[-1].name


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
