"""The error that the user can correct, and what its messages are made of.

Imports the standard library alone: a refused argument is told before NumPy has loaded.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class ZooError(ValueError):
    """An error that the user can correct: the message says what is wrong, where, and what to do. The shell exits with 2.

    >>> from models import load_data
    >>> load_data([[1.0], [float("inf")]])
    Traceback (most recent call last):
        ...
    models.errors.ZooError: array: column 'x0', row 2: the value is infinite; correct or remove it
    """


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    """`` (did you mean <the nearest known word>?)``, or nothing where no word is near.

    >>> did_you_mean("num_component", ["num_components", "prior"])
    ' (did you mean num_components?)'
    """
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean {prefix}{near[0]}?)" if near else ""


def exists(path: str | Path) -> bool:
    """Whether the file or folder exists; False for text that cannot be a path, such as a very long one."""
    try:
        return Path(path).exists()
    except OSError:
        return False
