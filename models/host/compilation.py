"""Numba for the few loops that run on the host: compiled once, without the interpreter's lock.

Numba itself, a third of a second, is imported where a loop is made: import the file of a loop where it starts.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from models.host.private import is_private

LANES = 8  # doubles in one vector (`models.host.simd`)
# Sums may be reordered, so that a compiler can add several numbers at once; infinities and NaN keep their meaning.
REORDERED = frozenset({"reassoc", "contract", "nsz", "arcp"})


def compiled[F: Callable[..., Any]](function: F) -> F:
    """Machine code that rounds as it is written, stored on disk: next to the file, or in the user's cache folder.

    Where neither can be written, or others can write there, it is compiled afresh in every process.
    """
    return _with_cache(function, {})


def compiled_sums[F: Callable[..., Any]](function: F) -> F:
    """The same of a function whose sums may be added in any order, as those of a matrix product."""
    return _with_cache(function, {"fastmath": set(REORDERED)})


def _with_cache[F: Callable[..., Any]](function: F, options: dict[str, Any]) -> F:
    from numba import njit

    options = {"nogil": True, "error_model": "numpy"} | options
    try:
        function_compiled = njit(cache=True, **options)(function)
        # Numba unpickles the files. Python's bytecode lies next to the source: a user who can write there runs code anyway.
        place = Path(function_compiled.stats.cache_path)
        if place == Path(function.__code__.co_filename).parent / "__pycache__" or is_private(place):
            return cast(F, function_compiled)
    except RuntimeError:  # Numba has no folder to write to
        pass
    return cast(F, njit(**options)(function))
