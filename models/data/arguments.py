"""Checks of the arguments of `models.data.load_data`: a wrong type gives a message that names the remedy."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from models.data.table import Data
from models.errors import MOST, ZooError

NAMED = (str, int, np.integer)  # types of column names; a DataFrame made from an array numbers its columns
REMEDIES = {"label": ": labels= takes one label per row"}


def column_name(option: str, value: Any) -> str | None:
    """The name of a column as text; raises `ZooError` if ``value`` is not a name."""
    if value is not None and not _is_name(value):
        raise ZooError(f"{option} must be the name of a column, got {described(value)}{REMEDIES.get(option, '')}")
    return None if value is None else str(value)


def _is_name(value: Any) -> bool:
    return isinstance(value, NAMED) and not isinstance(value, bool)


def column_names(value: Any, option: str = "columns") -> list[str] | None:
    """The names of one or several columns as text; raises `ZooError`."""
    if value is None:
        return None
    if _is_name(value):
        return [str(value)]
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise ZooError(f"{option}: expected a list of column names, got {described(value)}")
    names = list(value)
    for name in names:
        if not _is_name(name):
            raise ZooError(
                f"{option}: {described(name)} is not a column name; give names, such as {option}=['height', 'weight']"
            )
    return [str(name) for name in names]


def require_texts(**options: Any) -> None:
    """Raise `ZooError` for an option that is neither text nor None."""
    for option, value in options.items():
        if value is not None and not isinstance(value, str):
            raise ZooError(f"{option} must be text, got {described(value)}")


def require_whole(option: str, value: Any, least: int = 1) -> None:
    """Raise `ZooError` unless ``value`` is a whole number of at least ``least``; True and False do not count."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        which = f"above {least - 1}" if least > 0 else "of at least 0"
        raise ZooError(f"{option} must be a whole number {which}, got {described(value)}")
    if value > MOST:
        raise ZooError(f"{option} must be a whole number of at most {MOST}, got {described(value)}")


def require_flag(option: str, value: Any) -> None:
    """Raise `ZooError` unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ZooError(f"{option} must be true or false, got {described(value)}")


def checked_weight(weight: Any, data: Data) -> np.ndarray | None:
    """Weights (N,) of the rows; None means those of the table. Raises `ZooError`."""
    if weight is None:
        return data.weight
    expected = f"weight: expected {data.num_rows} finite, non-negative numbers, one per row, not all zero"
    try:
        weight = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ZooError(f"{expected}, got {described(weight)}") from error
    if weight.shape != (data.num_rows,) or not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ZooError(expected)
    return np.asarray(weight)


def described(value: Any) -> str:
    """A value for a message: the value itself if it is short, otherwise its type and size."""
    if value is None or isinstance(value, bool | int | float | np.generic) or (isinstance(value, str) and len(value) <= 40):
        return repr(value)
    kind = "an array" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    try:
        return f"{kind} of {len(value)} values"
    except TypeError:  # it has no length
        return kind
