"""Padding of sequences to a few standard lengths, so that data of similar lengths share a compilation.

Packed sequences (`models.rows.packing`) cannot share one; if they are few, they are laid side by side instead.
"""

from typing import Any

import jax
import numpy as np

from models.chains.sequences import Timed, rows_shape
from models.rows.packing import rounded_up

FEWEST = 8  # steps: the smallest padded length
MANY = 100_000  # cells, side by side, above which computing the padding takes longer than compiling


def padded_length(length: int) -> int:
    """The next of four sizes per doubling, at least 8."""
    return rounded_up(max(length, FEWEST))


def padded(rows: Any) -> Any:
    """Pad sequences with steps that are ignored; other rows are returned unchanged."""
    if not isinstance(rows, Timed) or (rows.row_info.atomic and np.prod(rows_shape(rows)) > MANY):
        return rows
    length = rows_shape(rows)[1]
    more = padded_length(length) - length

    def longer(leaf: Any) -> np.ndarray:
        host = np.asarray(leaf)
        return np.pad(host, [(0, 0), (0, more), *[(0, 0)] * (host.ndim - 2)], mode="edge")

    by_step = {"x": rows.x, "seen": rows.seen, "allowed_states": rows.allowed_states}
    return rows._replace(**jax.tree.map(longer, by_step), packing=None)
