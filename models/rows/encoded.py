"""Tables as encoded rows, checked against the columns of a model; and the probe rows of functionals."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from models.base import Data, ZooError
from models.data.documents import Sequences, with_vocabulary
from models.data.table import keep_columns
from models.rows.row_info import RowInfo


class Rows(NamedTuple):
    """Encoded rows: cells x, weights (N,) (None: 1), and allowed values of the latent (N, K) (None: all)."""

    x: Any
    weight: Array | None = None
    allowed_states: Array | None = None

    @property
    def row_info(self) -> RowInfo:
        """Their properties (`models.rows.row_info`)."""
        return RowInfo(self.weight, self.allowed_states, cells=self.x)


def matched(data: Data, columns: tuple[str, ...]) -> Data:
    """Put the columns in the order of the model; raises `ZooError` if they differ."""
    if isinstance(data.x, Sequences):
        return with_vocabulary(data, columns)
    if data.columns != columns and set(data.columns) == set(columns):
        data = keep_columns(data, [data.columns.index(name) for name in columns])
    if data.columns != columns:
        raise ZooError(f"{data.name} has the columns {_some(data.columns)}; the model has {_some(columns)}")
    return data


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def spread(total: int, most: int) -> np.ndarray:
    """At most ``most`` of the indices 0, …, total − 1, evenly spaced from first to last."""
    return np.unique(np.linspace(0, total - 1, min(most, total)).round().astype(int))


def probe_rows(num_rows: int) -> np.ndarray:
    """Indices of up to five evenly spaced rows, whose latents enter the functionals."""
    return spread(num_rows, 5)


def pairs(num_rows: int) -> list[str]:
    """Labels of the pairs of neighbouring probe rows."""
    return [f"rows {i + 1}, {j + 1}" for i, j in pairwise(probe_rows(num_rows))]
