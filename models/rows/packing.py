"""Packed sequences: sequences of unequal lengths on a grid of steps with little padding.

The grid has R bins of L steps each. Sequences lie side by side, each in a separate bin, or packed: several follow one another
in a bin that is as long as the longest sequence, or slightly longer. A recursion over time runs along all bins at once and
restarts at the first step of each sequence. Arrays over the grid have time first: (L, R, …).
"""

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import on_host

WASTE = 1.25  # rows per bin above which packing is worthwhile


@jax.tree_util.register_static
@dataclass(frozen=True)
class Extent:
    """The sizes of a grid, static under jit."""

    rows: int  # N
    bins: int  # R
    steps: int  # L, steps per bin
    longest: int  # steps of the longest row

    @property
    def side_by_side(self) -> bool:
        """Whether each row has a separate bin: row n lies in bin n."""
        return self.bins == self.rows


class Packing(NamedTuple):
    """The position of each of N rows on the grid."""

    extent: Extent
    length: Array  # (N,)
    bin_index: Array  # (N,)
    begin: Array  # (N,): the step of the bin at which the row begins; rows of a bin are in row order


class Grid(NamedTuple):
    """The contents of the cells (L, R) of the grid."""

    row: Array  # index of the row, N for an empty cell
    time: Array  # step of that row
    there: Array  # whether the cell holds a step
    continues: Array  # whether another step of the same row follows
    first: Array | None  # whether this is the first step of its row; None: rows begin only in the first cells


def side_by_side(length: Array, longest: int) -> Packing:
    """The packing of rows of length (N,) in which each has a separate bin."""
    number = length.shape[0]
    return Packing(Extent(number, number, longest, longest), length, jnp.arange(number), jnp.zeros(number, int))


def rounded_up(number: int) -> int:
    """Round up above 8 to one of four sizes per doubling: 10, 12, 14, 16, 20, 24, …; adds at most a quarter."""
    unit = 2 ** max((number - 1).bit_length() - 3, 0)
    return -(-number // unit) * unit


def packed(lengths: np.ndarray) -> Packing | None:
    """Pack rows of lengths (N,), on the host; None if packing would save little.

    Longest row first, each row goes into the emptiest bin (Graham 1969). The number of bins is the total number of steps
    divided by the longest row; a bin becomes longer than that row only if necessary. Both sizes are rounded up, so that tables
    with the same number of rows and similar lengths share a compilation.
    """
    longest, total = int(lengths.max()), int(lengths.sum())
    number = rounded_up(-(-total // longest))
    if number * WASTE > len(lengths):
        return None
    loads = [(0, place) for place in range(number)]
    bin_index = np.zeros(len(lengths), np.int32)
    for row in np.argsort(-lengths, kind="stable"):
        load, place = heapq.heappop(loads)
        bin_index[row] = place
        heapq.heappush(loads, (load + int(lengths[row]), place))
    begin = np.zeros(len(lengths), np.int32)
    order = np.argsort(bin_index, kind="stable")  # rows of a bin are consecutive, in row order
    before = np.cumsum(lengths[order]) - lengths[order]
    edges = np.append(True, bin_index[order][1:] != bin_index[order][:-1])
    begin[order] = before - np.maximum.accumulate(np.where(edges, before, 0))
    fullest = max(load for load, _ in loads)
    extent = Extent(len(lengths), number, longest if fullest == longest else rounded_up(fullest), longest)
    return Packing(extent, on_host(lengths.astype(np.int32)), on_host(bin_index), on_host(begin))


def grid(packing: Packing) -> Grid:
    """The grid that a packing describes."""
    extent = packing.extent
    step = jnp.arange(extent.steps)[:, None]
    if extent.side_by_side:
        row = jnp.broadcast_to(jnp.arange(extent.bins), (extent.steps, extent.bins))
        length = packing.length[None, :]
        return Grid(row, step, step < length, step + 1 < length, None)
    mark = jnp.zeros((extent.steps, extent.bins), int).at[packing.begin, packing.bin_index].set(jnp.arange(1, extent.rows + 1))
    row = jax.lax.cummax(mark, axis=0) - 1
    time, left = step - jnp.asarray(packing.begin)[row], jnp.asarray(packing.length)[row]
    there = (row >= 0) & (time < left)
    return Grid(jnp.where(there, row, extent.rows), time, there, there & (time + 1 < left), there & (time == 0))


def by_row(packing: Packing, value: Array) -> Array:
    """Sum values (L, R) over the cells of each row: (N,)."""
    cells = grid(packing)
    if packing.extent.side_by_side:
        return jnp.where(cells.there, value, 0.0).sum(0)
    return jnp.zeros(packing.extent.rows, value.dtype).at[cells.row].add(value, mode="drop")


def of_row(packing: Packing, value: Array) -> Array:
    """Spread values (N,) to the cells of their rows: (L, R), or broadcastable to it; arbitrary in empty cells."""
    value = jnp.asarray(value)
    return value[None, :] if packing.extent.side_by_side else value[grid(packing).row.clip(max=packing.extent.rows - 1)]


def firsts(packing: Packing, value: Array) -> Array:
    """The values (L, R, …) in the first cell of each row: (N, …)."""
    return value[0] if packing.extent.side_by_side else value[packing.begin, packing.bin_index]


def lasts(packing: Packing, value: Array) -> Array:
    """The values (L, R, …) in the last cell of each row: (N, …)."""
    return value[packing.begin + packing.length - 1, packing.bin_index]


def laid_out(packing: Packing, value: Array) -> Array:
    """Padded rows (N, longest, …) -> grid (L, R, …), arbitrary in empty cells."""
    if packing.extent.side_by_side:
        return jnp.swapaxes(value, 0, 1)
    cells = grid(packing)
    return jnp.asarray(value)[cells.row.clip(max=packing.extent.rows - 1), cells.time.clip(0, packing.extent.longest - 1)]


def row_by_row(packing: Packing, value: Array) -> Array:
    """Grid (L, R, …) -> padded rows (N, longest, …), arbitrary beyond the end of a row."""
    if packing.extent.side_by_side:
        return jnp.swapaxes(value, 0, 1)
    step = packing.begin[:, None] + jnp.arange(packing.extent.longest)[None, :]
    return value[step.clip(max=packing.extent.steps - 1), packing.bin_index[:, None]]
