"""Sequences given as arrays: a list with one array per sequence, or one array with the lengths of its sequences.

| source | is |
|---|---|
| a list of arrays (T,) of integers | documents, whose tokens are the integers |
| a list of arrays (T, D), or one array (N, T, D) | a table of steps, with a column for each of the D numbers |
| an array (ΣT, D) or a table, with ``lengths`` (N,) | a table of steps |
| an array (ΣT,) of integers, with ``lengths`` (N,) | documents |
"""

from itertools import pairwise
from typing import Any

import numpy as np

from models.data.arguments import described
from models.data.documents import joined
from models.data.table import Data, ZooError, is_table


def as_sequences(source: Any, lengths: Any) -> tuple[Any, np.ndarray | None]:
    """(source, starts): lists of arrays and 3-d arrays as one array with its starts; other sources unchanged, without starts.

    >>> as_sequences([np.zeros((2, 1)), np.ones((1, 1))], None)[1]
    array([0, 2, 3])
    """
    parts = _parts(source)
    if parts is None:
        return source, None
    if lengths is not None:
        raise ZooError("lengths is for one array that holds all sequences; this source has one array for each sequence already")
    for number, part in enumerate(parts, 1):
        if not len(part):
            raise ZooError(f"sequence {number} has no steps; leave it out")
        if part.shape[1:] != parts[0].shape[1:]:
            raise ZooError(
                f"sequence {number} is an array of shape {part.shape}, but sequence 1 of shape {parts[0].shape}: all need as "
                "many columns"
            )
    return np.concatenate(parts), np.cumsum([0, *map(len, parts)])


def _parts(source: Any) -> list[np.ndarray] | None:
    """One array per sequence: all (T,) of integers or all (T, D); None for any other source."""
    if isinstance(source, np.ndarray) and source.ndim == 3 and source.dtype != object:
        return list(source)
    if not isinstance(source, list | tuple) or not source or not all(hasattr(part, "__array__") for part in source):
        return None
    parts = [np.asarray(part) for part in source]
    if all(part.ndim == 2 for part in parts) or all(_are_symbols(part) for part in parts):
        return parts
    return None


def _are_symbols(part: np.ndarray) -> bool:
    return part.ndim == 1 and np.issubdtype(part.dtype, np.integer)


def starts_of(lengths: Any, total: int) -> np.ndarray:
    """(N + 1,): where sequences of these lengths start; raises `ZooError` unless they sum to ``total``."""
    try:
        given = np.asarray(lengths)
        whole = given.ndim == 1 and np.issubdtype(given.dtype, np.integer) and len(given) > 0
    except (TypeError, ValueError):  # ragged
        whole = False
    if not whole or (given < 1).any():
        raise ZooError(f"lengths: expected whole numbers above 0, one per sequence, got {described(lengths)}")
    if given.sum() != total:
        raise ZooError(f"lengths: the sequences have {given.sum()} steps in all, but the table has {total} rows")
    return np.append(0, np.cumsum(given))


def symbols(tokens: np.ndarray, starts: np.ndarray, name: str) -> Data:
    """Documents of integers (ΣT,): the vocabulary are the integers that occur, in order of size."""
    distinct, codes = np.unique(tokens, return_inverse=True)
    rows = [codes[first:last] for first, last in pairwise(starts)]
    return Data(name, joined(rows), tuple(map(str, distinct)))


def with_starts(data: Data, starts: np.ndarray) -> Data:
    """Group the rows of a table into sequences; raises `ZooError` for documents, and for a table of sequences."""
    if not is_table(data) or data.starts is not None:
        raise ZooError(f"{data.name} holds sequences or documents already: lengths is for a table with a row per step")
    return data._replace(starts=starts)


def is_symbols(source: Any) -> bool:
    """Whether a source is one array (ΣT,) of integers."""
    return isinstance(source, np.ndarray) and _are_symbols(source)
