"""Where sequences lie: side by side, or those of unequal lengths one after another in lanes, so that little is left empty.

A lane is as long as the longest sequence, or a little longer, and holds as many of the others as fit. A recursion over time
runs along all lanes at once and begins anew with every sequence. What stands in a cell of a lane is time first: (L, R, …).
"""

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import on_host

WASTE = 1.25  # rows for a lane, from which they are packed


@jax.tree_util.register_static
@dataclass(frozen=True)
class Extent:
    """What the compiler has to know of a layout."""

    rows: int  # N
    lanes: int  # R
    steps: int  # L, of a lane
    longest: int  # steps of the longest row

    @property
    def side_by_side(self) -> bool:
        """Whether every row has a lane of its own, that of its number."""
        return self.lanes == self.rows


class Lanes(NamedTuple):
    """Where each of N rows lies."""

    extent: Extent
    length: Array  # (N,)
    lane: Array  # (N,)
    begin: Array  # (N,): the step of the lane at which it begins; those of a lane are in the order of their numbers


class Cells(NamedTuple):
    """What is in the cells (L, R) of lanes."""

    row: Array  # the number of the row, N where there is none
    time: Array  # the step of that row
    there: Array  # whether there is a step
    continues: Array  # and another after it
    first: Array | None  # whether it is the first of its row; None: all of them are in the first cells


def side_by_side(length: Array, longest: int) -> Lanes:
    """Rows of length (N,), each in a lane of its own."""
    number = length.shape[0]
    return Lanes(Extent(number, number, longest, longest), length, jnp.arange(number), jnp.zeros(number, int))


def rounded_up(number: int) -> int:
    """Up to 8 as it is, then the next of four sizes to a doubling, 10, 12, 14, 16, 20, 24, …: at most a quarter more."""
    unit = 2 ** max((number - 1).bit_length() - 3, 0)
    return -(-number // unit) * unit


def packed(lengths: np.ndarray) -> Lanes | None:
    """Lanes for rows of lengths (N,), on the host; None where they may as well lie side by side.

    The longest first, each into the lane that holds least (Graham 1969): as many lanes as steps fill at the length of the
    longest, beyond which a lane goes only by what does not fit. Both are rounded up, so that other rows, as many and of
    another sum of lengths, mostly share a compilation.
    """
    longest, total = int(lengths.max()), int(lengths.sum())
    number = rounded_up(-(-total // longest))
    if number * WASTE > len(lengths):
        return None
    loads = [(0, lane) for lane in range(number)]
    lane = np.zeros(len(lengths), np.int32)
    for row in np.argsort(-lengths, kind="stable"):
        load, place = heapq.heappop(loads)
        lane[row] = place
        heapq.heappush(loads, (load + int(lengths[row]), place))
    begin = np.zeros(len(lengths), np.int32)
    order = np.argsort(lane, kind="stable")  # those of a lane together, in the order of their numbers
    before = np.cumsum(lengths[order]) - lengths[order]
    edges = np.append(True, lane[order][1:] != lane[order][:-1])
    begin[order] = before - np.maximum.accumulate(np.where(edges, before, 0))
    fullest = max(load for load, _ in loads)
    extent = Extent(len(lengths), number, longest if fullest == longest else rounded_up(fullest), longest)
    return Lanes(extent, on_host(lengths.astype(np.int32)), on_host(lane), on_host(begin))


def cells(lanes: Lanes) -> Cells:
    """What is in the cells, by the places of the rows."""
    extent = lanes.extent
    step = jnp.arange(extent.steps)[:, None]
    if extent.side_by_side:
        row = jnp.broadcast_to(jnp.arange(extent.lanes), (extent.steps, extent.lanes))
        length = lanes.length[None, :]
        return Cells(row, step, step < length, step + 1 < length, None)
    mark = jnp.zeros((extent.steps, extent.lanes), int).at[lanes.begin, lanes.lane].set(jnp.arange(1, extent.rows + 1))
    row = jax.lax.cummax(mark, axis=0) - 1
    time, left = step - jnp.asarray(lanes.begin)[row], jnp.asarray(lanes.length)[row]
    there = (row >= 0) & (time < left)
    return Cells(jnp.where(there, row, extent.rows), time, there, there & (time + 1 < left), there & (time == 0))


def by_row(lanes: Lanes, value: Array) -> Array:
    """(N,): the sum over the cells of every row, of values (L, R)."""
    found = cells(lanes)
    if lanes.extent.side_by_side:
        return jnp.where(found.there, value, 0.0).sum(0)
    return jnp.zeros(lanes.extent.rows, value.dtype).at[found.row].add(value, mode="drop")


def of_row(lanes: Lanes, value: Array) -> Array:
    """(L, R) or what broadcasts to it: in every cell the value (N,) of its row, anything where there is none."""
    value = jnp.asarray(value)
    return value[None, :] if lanes.extent.side_by_side else value[cells(lanes).row.clip(max=lanes.extent.rows - 1)]


def firsts(lanes: Lanes, value: Array) -> Array:
    """(N, …): what stands in the first cell of every row, of (L, R, …)."""
    return value[0] if lanes.extent.side_by_side else value[lanes.begin, lanes.lane]


def lasts(lanes: Lanes, value: Array) -> Array:
    """(N, …): what stands in the last cell of every row, of (L, R, …)."""
    return value[lanes.begin + lanes.length - 1, lanes.lane]


def laid_out(lanes: Lanes, value: Array) -> Array:
    """(N, L of the longest, …) -> (L, R, …): anything where there is no step."""
    if lanes.extent.side_by_side:
        return jnp.swapaxes(value, 0, 1)
    found = cells(lanes)
    return jnp.asarray(value)[found.row.clip(max=lanes.extent.rows - 1), found.time.clip(0, lanes.extent.longest - 1)]


def row_by_row(lanes: Lanes, value: Array) -> Array:
    """(L, R, …) -> (N, L of the longest, …): anything beyond the end of a row."""
    if lanes.extent.side_by_side:
        return jnp.swapaxes(value, 0, 1)
    step = lanes.begin[:, None] + jnp.arange(lanes.extent.longest)[None, :]
    return value[step.clip(max=lanes.extent.steps - 1), lanes.lane[:, None]]
