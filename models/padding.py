"""Lengths to which sequences are padded, so that those of about one length share a compilation.

Sequences that lie together (`models.lanes`) share none, and are laid side by side for it where they are not many.
"""

from typing import Any

import jax
import numpy as np

from models.lanes import rounded_up
from models.steps import Timed, rows_shape

FEWEST = 8  # steps: shorter sequences are all padded to that
MANY = 100_000  # cells, side by side, from which to compute what is not there takes longer than to compile


def padded_length(length: int) -> int:
    """The next of four sizes to a doubling, 8 at least."""
    return rounded_up(max(length, FEWEST))


def padded(rows: Any) -> Any:
    """Sequences with steps beyond their ends, which nobody looks at; whatever else a model reads stays as it is."""
    if not isinstance(rows, Timed) or (rows.whole and np.prod(rows_shape(rows)) > MANY):
        return rows
    length = rows_shape(rows)[1]
    more = padded_length(length) - length

    def longer(leaf: Any) -> np.ndarray:
        host = np.asarray(leaf)
        return np.pad(host, [(0, 0), (0, more), *[(0, 0)] * (host.ndim - 2)], mode="edge")

    by_step = {"x": rows.x, "seen": rows.seen, "allowed": rows.allowed}
    return rows._replace(**jax.tree.map(longer, by_step), packing=None)
