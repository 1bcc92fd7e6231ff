"""The rows of a fit over blocks, divided: all of them, the sample for starts, and the rows held out."""

from typing import Any, NamedTuple

import numpy as np

from inference.streaming.source.blocks import InMemory, Source, source_of
from inference.streaming.source.encoding import HeldOutRows
from inference.streaming.source.joining import sample_of
from inference.streaming.source.scan import SAMPLE_ROWS
from models.algebra import is_sequential
from models.base import Data, Model, ZooError
from models.data.table import split, take


class DividedRows(NamedTuple):
    """The rows of a fit, and the parts of them."""

    source: Source
    sample: Data  # of the rows, for starts
    aside: Data | None  # some of the rows held out
    held_out: HeldOutRows  # which rows of the source do not count
    whole: bool  # whether the sample is all of the rows
    numbers: np.ndarray | None = None  # of the rows of the sample among those of the source; None: not known


def divided(model: Model, rows: Any, sample: Data | None, share: float, seed: int, block_rows: int) -> DividedRows:
    """Divide the rows; raises `ZooError` where there are none, or none is left."""
    source = source_of(model, rows, block_rows)
    if isinstance(source, InMemory):
        if sample is not None:
            raise ZooError("sample is for rows in blocks; of one table, methods start from all rows: leave sample out")
        train, aside = split(source.data, share, seed)
        in_memory = InMemory(model, train, block_rows)
        return DividedRows(in_memory, train, aside, HeldOutRows(0.0, seed), True, np.arange(train.num_rows))
    held_out = HeldOutRows(share, seed)
    if sample is not None:
        if share:
            raise ZooError("held_out scores rows of the sample, whose numbers among all rows must be known: leave sample out")
        return DividedRows(source, sample, None, held_out, whole=False)
    sampled = source.sampled or sample_of(source, SAMPLE_ROWS, seed)
    if not share:
        return DividedRows(source, sampled.data, None, held_out, sampled.whole, sampled.numbers)
    if is_sequential(model):
        raise ZooError("held_out is for rows, and these are sequences: keep some of them in another file")
    chosen = held_out.of_rows(sampled.numbers)
    if chosen.all() or not chosen.any():
        raise ZooError(f"held_out={share} leaves no row of the sample {'to score' if not chosen.any() else 'to fit'}")
    kept, aside = take(sampled.data, ~chosen), take(sampled.data, chosen)
    return DividedRows(source, kept, aside, held_out, False, sampled.numbers[~chosen])
