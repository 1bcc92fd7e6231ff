"""Rows that a fit reads in blocks: `in_blocks` has the options, and the fit opens them for a model."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from inference.engine.row_source import StepSize
from inference.streaming.passes import Stream
from inference.streaming.source.blocks import BLOCK_ROWS, Source
from inference.streaming.source.division import DividedRows, divided
from inference.streaming.source.encoding import encoded_rows
from inference.streaming.source.processes import Group
from models.base import Data, Model, ZooError


@dataclass(frozen=True)
class Blocks:
    """Rows in blocks, as `in_blocks` makes them."""

    rows: Any
    block_rows: int = BLOCK_ROWS
    devices: int | None = None
    sample: Data | None = None
    held_out: float = 0.0
    step_size: StepSize | None = None  # of steps of one block each; None: passes over all rows

    def opened(self, model: Model, seed: int) -> DividedRows:
        """The rows as ``model`` reads them, the sample for starts, and the rows held out."""
        return divided(model, self.rows, self.sample, self.held_out, seed, self.block_rows)

    def identity(self, rows: DividedRows) -> str:
        """A text that differs between fits to other rows or with other steps; model, method and seed are not in it."""
        return f"{self.step_size} {float(self.held_out)} of {rows.source.identity}"


def in_blocks(
    rows: Any,
    *,
    block_rows: int = BLOCK_ROWS,
    devices: int | None = None,
    sample: Data | None = None,
    held_out: float = 0.0,
    steps: bool = False,
    delay: float = 1.0,
    forgetting: float = 0.7,
) -> Blocks:
    """Rows for `inference.fit` of which a few blocks at a time are in memory.

    ``rows`` are files (`inference.read_stream`), a list of tables, or a function that returns an iterator over tables; or one
    table, which is cut into blocks of ``block_rows``. ``devices`` shares out the rows of a block to so many devices of this
    process. After `inference.join_processes`, processes share out the blocks. Methods start from a ``sample`` of the rows,
    which is drawn unless it is given. A share ``held_out`` of the rows takes no part, and their mean log density is reported in
    every iteration. With ``steps``, em and cavi take ``max_iter`` steps of one block each (`inference.minibatches.by_blocks`),
    of length (``delay`` + step)^−``forgetting``. Raises `ZooError` for values out of range, and `inference.fit` for lengths of
    steps that do not get shorter.

    >>> from models import load_data
    >>> in_blocks([load_data([[0.0], [1.0]]), load_data([[8.0], [9.0]])], held_out=0.1).held_out
    0.1
    """
    sizes: dict[str, Any] = {"devices": devices, "block_rows": block_rows}
    for name, value in sizes.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1):
            raise ZooError(f"{name} must be a whole number of at least 1, got {value!r}")
    if isinstance(held_out, bool) or not isinstance(held_out, int | float) or not 0 <= held_out < 1:
        raise ZooError(f"held_out must be at least 0 and below 1, got {held_out!r}")
    if not isinstance(steps, bool):
        raise ZooError(f"steps must be true or false, got {steps!r}")
    if not steps and StepSize(delay, forgetting) != StepSize():
        raise ZooError("delay and forgetting set the lengths of steps: give steps=True (in the shell data.stream=steps)")
    step_size = StepSize(delay, forgetting) if steps else None
    return Blocks(rows, block_rows, devices, sample, float(held_out), step_size)


def blocks_of(data: Any) -> Blocks | None:
    """The argument of a fit as rows in blocks, or None for a table in memory."""
    if isinstance(data, Source):
        return in_blocks(data)
    return data if isinstance(data, Blocks) else None


def stream_of(model: Model, blocks: Blocks, rows: DividedRows, seed: int) -> Stream:
    """The source of the rows of a task, in the precision in force, shared by the processes of `Group`."""
    aside = None if rows.aside is None else encoded_rows(model, rows.aside)
    return Stream(
        model, rows.source, Group(), rows.held_out, blocks.devices, aside, rows.whole, seed, rows.numbers, blocks.step_size
    )


def writes(blocks: Blocks | None) -> bool:
    """Whether this process writes to the folder of a fit: of several that share out blocks, the first does."""
    return blocks is None or Group().rank == 0
