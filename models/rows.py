"""A table as the rows that program and algebra read, checked against the columns of a model."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from models.base import Data, ZooError, on_host
from models.data import keep_columns, require_complete, require_filled
from models.documents import Sequences, require_tokens, with_vocabulary
from models.emissions import Emission


class Rows(NamedTuple):
    """What program and algebra read: x (N rows), a weight a row (N,) or None, the values allowed (N, K) or None for all."""

    x: Any
    weight: Array | None = None
    allowed: Array | None = None


def checked(data: Data, columns: tuple[str, ...], emission: Emission, model: str) -> Data:
    """The table with the model's columns, and no missing cell where the block needs them all; raises `ZooError`."""
    data = matched(data, columns)
    if not emission.missing:
        require_complete(data, model)
    return data


def matched(data: Data, columns: tuple[str, ...]) -> Data:
    """The table with the model's columns, in its order; raises `ZooError`."""
    if isinstance(data.x, Sequences):
        return with_vocabulary(data, columns)
    if data.columns != columns and set(data.columns) == set(columns):
        data = keep_columns(data, [data.columns.index(name) for name in columns])
    if data.columns != columns:
        raise ZooError(f"{data.name} has the columns {_some(data.columns)}; the model has {_some(columns)}")
    return data


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def require_rows(data: Data, emission: Emission, wanted: str, size: int) -> None:
    """Whether a mixture of ``size`` components can be made on the table; raises `ZooError`."""
    if data.num_rows < size:
        raise ZooError(f"{data.name} has {data.num_rows} rows, fewer than {wanted}")
    require_filled(data)
    emission.check(data)
    require_tokens(data.name, data.columns)


def encoded(data: Data, emission: Emission, allowed: np.ndarray | None = None) -> Rows:
    """A table on the host as the rows that program and algebra read."""
    weight = None if data.weight is None else on_host(data.weight)
    return Rows(emission.encode(data), weight, None if allowed is None else on_host(allowed))


def spread(total: int, most: int) -> np.ndarray:
    """At most ``most`` of the places 0, …, total − 1, evenly spread from the first to the last."""
    return np.unique(np.linspace(0, total - 1, min(most, total)).round().astype(int))


def witnesses(num_rows: int) -> np.ndarray:
    """Up to five rows, evenly spread."""
    return spread(num_rows, 5)
