"""Sequences as the rows of a chain: stored padded, read in packed bins."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from models.base import Data, ZooError, on_host
from models.data.classes import allowed_classes
from models.data.documents import UNKNOWN, Sequences, with_vocabulary
from models.data.table import require_complete
from models.emissions.block import Emission
from models.rows.encoded import matched, spread
from models.rows.packing import Packing, laid_out, packed, side_by_side
from models.rows.row_info import RowInfo

SYMBOL = "symbol"  # the only column if steps are tokens of documents


class Timed(NamedTuple):
    """N sequences, stored padded to L steps; recursions read them packed where their lengths differ (`models.rows.packing`)."""

    x: Any  # encoded steps for the emission: leaves (N, L, …)
    length: Array  # (N,)
    seen: Array | None = None  # (N, L): observed steps; None: all
    weight: Array | None = None  # (N,)
    allowed_states: Array | None = None  # (N, L, S): allowed states of each step; None: all
    packing: Packing | None = None  # how the sequences are packed; None: side by side

    @property
    def row_info(self) -> RowInfo:
        """Packed sequences must not be split into batches."""
        atomic = self.packing is not None
        return RowInfo(self.weight, self.allowed_states, length=self.length, seen=self.seen, atomic=atomic, cells=self.x)


class Steps(NamedTuple):
    """Concatenated sequences: rows of ``table`` are steps, sequence n has the steps starts[n] … starts[n + 1] − 1."""

    table: Data
    starts: np.ndarray  # (N + 1,)


def steps_of(data: Data) -> Steps:
    """The steps of documents, or of a table of one or several sequences; raises `ZooError` for an empty sequence."""
    if isinstance(data.x, Sequences):
        codes = np.where(data.x.tokens == UNKNOWN, np.nan, data.x.tokens)[:, None]
        table = Data(data.name, codes, (SYMBOL,), categories=(data.columns,), kinds=("category",))
        steps = Steps(table, data.x.starts)
    else:
        steps = Steps(data, np.array([0, data.num_rows]) if data.starts is None else data.starts)
    lengths = np.diff(steps.starts)
    if not len(lengths) or lengths.min() < 1:
        raise ZooError(f"{data.name}: sequence {int(np.argmin(lengths)) + 1 if len(lengths) else 1} has no steps; leave it out")
    return steps


def timed(data: Data, columns: tuple[str, ...], emission: Emission, states: tuple[str, ...] | None) -> Timed:
    """Encode sequences for a model with these columns; raises `ZooError` for values that its emission cannot read.

    A step without any value, or with a token unknown to the model, is unobserved. Labels name ``states``; they are ignored if
    ``states`` is None.
    """
    if isinstance(data.x, Sequences) and emission.naming.levels:
        data = with_vocabulary(data, emission.naming.levels[0])
    table, starts = steps_of(data)
    table = matched(table, columns)
    filled, seen = filled_in(table, emission)
    lengths, place = padded_places(starts)
    x = jax.tree.map(lambda leaf: on_host(np.asarray(leaf)[place]), emission.encoding.encode(filled))
    allowed_states = None if states is None else allowed_classes(table, states)
    return Timed(
        x,
        on_host(lengths),
        None if seen is None else on_host(seen[place]),
        sequence_weight(data, starts),
        None if allowed_states is None else on_host(allowed_states[place]),
        packed(lengths),
    )


def padded_places(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(lengths (N,) of sequences, the row of each of their steps (N, L)); any row beyond the end of a sequence."""
    lengths = np.diff(starts)
    step = np.arange(lengths.max())[None, :]
    return lengths.astype(np.int32), np.where(step < lengths[:, None], starts[:-1, None] + step, 0)


def packing_of(rows: Timed) -> Packing:
    """The packing of the sequences; side by side if these are a part of the packed rows."""
    number, longest = rows_shape(rows)
    if rows.packing is None or rows.packing.extent.rows != number:
        return side_by_side(rows.length, longest)
    return rows.packing


def filled_in(table: Data, emission: Emission) -> tuple[Data, np.ndarray | None]:
    """(the table with unobserved steps filled in, mask of the observed steps or None for all).

    Raises `ZooError` for partly missing steps, if the emission needs complete ones.
    """
    missing = np.isnan(table.x)
    empty = missing.all(1)
    partly = missing.any(1) & ~empty
    if partly.any() and not (emission.encoding.missing or emission.encoding.summed_out):
        some = table._replace(x=np.where(empty[:, None], 0.0, table.x))
        require_complete(some, "hmm with this emission", emission.encoding.remedy)
    if not empty.any():
        return table, None
    # Repeat the previous step: its group is the best guess when a fit is initialised.
    before = np.maximum.accumulate(np.where(empty, int((~empty).argmax()), np.arange(len(empty))))
    filled = table.x[before]
    return table._replace(x=np.where(np.isnan(filled) & empty[:, None], 0.0, filled)), ~empty


def sequence_weight(data: Data, starts: np.ndarray) -> Array | None:
    """(N,): one weight per sequence; raises `ZooError` if the steps of a sequence have different weights."""
    if data.weight is None:
        return None
    if isinstance(data.x, Sequences):
        return on_host(data.weight)
    first = data.weight[starts[:-1]]
    apart = np.repeat(first, np.diff(starts)) != data.weight
    if apart.any():
        raise ZooError(f"weight: step {int(np.argmax(apart)) + 1} has another weight than the first step of its sequence")
    return on_host(first)


def one_by_one(x: Any) -> Any:
    """Reshape leaves (N, L, …) to (N L, …)."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), x)


def flattened(x: Any, packing: Packing) -> Any:
    """Leaves (N, L, …) -> (L R, …) on the grid, time first."""
    return jax.tree.map(lambda leaf: (on_grid := laid_out(packing, leaf)).reshape(-1, *on_grid.shape[2:]), x)


def rows_shape(rows: Timed) -> tuple[int, int]:
    """(N, L)."""
    leaf = jax.tree.leaves(rows.x)[0]
    return int(leaf.shape[0]), int(leaf.shape[1])


def probe_steps(starts: np.ndarray) -> list[tuple[int, int]]:
    """Up to five steps (sequence, time), evenly spaced over all sequences."""
    places = spread(int(starts[-1]), 5)
    row = np.searchsorted(starts, places, side="right") - 1
    return [(int(n), int(place - starts[n])) for n, place in zip(row, places, strict=True)]
