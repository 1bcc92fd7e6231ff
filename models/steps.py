"""Sequences of steps as the rows of a chain: a table whose rows follow each other in time; stored padded, read in lanes."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from models.base import Data, ZooError, on_host
from models.classifier import allowed_classes
from models.data import require_complete
from models.documents import UNKNOWN, Sequences, with_vocabulary
from models.emissions import Emission
from models.lanes import Lanes, laid_out, packed, side_by_side
from models.latents import cells
from models.rows import matched, spread

SYMBOL = "symbol"  # the one column of a document's steps


class Timed(NamedTuple):
    """N sequences, stored padded to L steps; recursions read them packed where their lengths differ (`models.lanes`)."""

    x: Any  # what the emission reads of every step: leaves (N, L, …)
    length: Array  # (N,)
    seen: Array | None = None  # (N, L): whether a step was observed; None: all were
    weight: Array | None = None  # (N,)
    allowed: Array | None = None  # (N, L, S): the states that a step may have; None: all
    packing: Lanes | None = None  # where the sequences lie together; None: side by side

    @property
    def whole(self) -> bool:
        """Whether all rows have to be read at once: those that lie together have."""
        return self.packing is not None


class Steps(NamedTuple):
    """Sequences one after another: row t of ``table`` is a step, sequence n the steps starts[n] … starts[n + 1] − 1."""

    table: Data
    starts: np.ndarray  # (N + 1,)


def steps_of(data: Data) -> Steps:
    """The steps of documents, of a table with sequences, or of a table that is one; raises `ZooError` for an empty one."""
    if isinstance(data.x, Sequences):
        codes = np.where(data.x.tokens == UNKNOWN, np.nan, data.x.tokens)[:, None]
        table = Data(data.name, codes, (SYMBOL,), categories=(data.columns,), kinds=("category",))
        found = Steps(table, data.x.starts)
    else:
        found = Steps(data, np.array([0, data.num_rows]) if data.starts is None else data.starts)
    lengths = np.diff(found.starts)
    if not len(lengths) or lengths.min() < 1:
        raise ZooError(f"{data.name}: sequence {int(np.argmin(lengths)) + 1 if len(lengths) else 1} has no step; leave it out")
    return found


def timed(data: Data, columns: tuple[str, ...], emission: Emission, states: tuple[str, ...] | None) -> Timed:
    """Sequences as the rows of a model with these columns; raises `ZooError` for what its emission cannot read.

    A step without a single value was not observed. The labels are names of ``states``, where there are any; None: they say
    nothing of states. A token of a document that the model does not know is a step that was not observed.
    """
    if isinstance(data.x, Sequences) and emission.levels:
        data = with_vocabulary(data, emission.levels[0])
    table, starts = steps_of(data)
    table = matched(table, columns)
    filled, seen = filled_in(table, emission)
    lengths = np.diff(starts)
    place = starts[:-1, None] + np.arange(lengths.max())[None, :]
    place = np.where(np.arange(lengths.max())[None, :] < lengths[:, None], place, 0)  # (N, L); beyond the length any step
    x = jax.tree.map(lambda leaf: on_host(np.asarray(leaf)[place]), emission.encode(filled))
    allowed = None if states is None else allowed_classes(table, states)
    return Timed(
        x,
        on_host(lengths.astype(np.int32)),
        None if seen is None else on_host(seen[place]),
        sequence_weight(data, starts),
        None if allowed is None else on_host(allowed[place]),
        packed(lengths),
    )


def lanes_of(rows: Timed) -> Lanes:
    """Where the sequences lie: packed, unless these are some of the rows that were."""
    number, longest = rows_shape(rows)
    if rows.packing is None or rows.packing.extent.rows != number:
        return side_by_side(rows.length, longest)
    return rows.packing


def filled_in(table: Data, emission: Emission) -> tuple[Data, np.ndarray | None]:
    """(the table with the steps that were not observed filled in with any value, which were observed, None for all).

    Raises `ZooError` for a step of which some cells are missing, where the emission needs them.
    """
    missing = np.isnan(table.x)
    empty = missing.all(1)
    partly = missing.any(1) & ~empty
    if partly.any() and (not emission.missing or emission.latent is cells):
        require_complete(table._replace(x=np.where(empty[:, None], 0.0, table.x)), "hmm with this emission")
    if not empty.any():
        return table, None
    # With the step before, which is where a start, that looks for groups of steps, will most often be right.
    before = np.maximum.accumulate(np.where(empty, int((~empty).argmax()), np.arange(len(empty))))
    filled = table.x[before]
    return table._replace(x=np.where(np.isnan(filled) & empty[:, None], 0.0, filled)), ~empty


def sequence_weight(data: Data, starts: np.ndarray) -> Array | None:
    """(N,): one weight a sequence; raises `ZooError` where the steps of one differ."""
    if data.weight is None:
        return None
    if isinstance(data.x, Sequences):
        return on_host(data.weight)
    first = data.weight[starts[:-1]]
    apart = np.repeat(first, np.diff(starts)) != data.weight
    if apart.any():
        raise ZooError(
            f"weight: step {int(np.argmax(apart)) + 1} weighs other than the first of its sequence, which weighs whole"
        )
    return on_host(first)


def one_by_one(x: Any) -> Any:
    """Leaves (N, L, …) as (N L, …), the steps of a row before those of the next."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), x)


def flattened(x: Any, lanes: Lanes) -> Any:
    """Leaves (N, L, …) in lanes, as (L R, …), time first."""
    return jax.tree.map(lambda leaf: (found := laid_out(lanes, leaf)).reshape(-1, *found.shape[2:]), x)


def rows_shape(rows: Timed) -> tuple[int, int]:
    """(N, L)."""
    leaf = jax.tree.leaves(rows.x)[0]
    return int(leaf.shape[0]), int(leaf.shape[1])


def witnesses(starts: np.ndarray) -> list[tuple[int, int]]:
    """Up to five steps, evenly spread over all sequences: (sequence, time)."""
    places = spread(int(starts[-1]), 5)
    row = np.searchsorted(starts, places, side="right") - 1
    return [(int(n), int(place - starts[n])) for n, place in zip(row, places, strict=True)]
