"""What a fit over blocks is given: the rows, those that starts are sought on, and those held out."""

from typing import Any, NamedTuple

import numpy as np

from inference.streaming.source.blocks import InMemory, Source, source_of
from inference.streaming.source.encoding import HeldOut
from inference.streaming.source.joining import sample_of
from inference.streaming.source.scan import SAMPLE_ROWS
from models.algebra import is_sequential
from models.base import Data, Model, ZooError
from models.data.table import split, take


class Given(NamedTuple):
    """The rows of a fit."""

    source: Source
    sample: Data  # where starts are sought
    aside: Data | None  # some of the rows held out
    held_out: HeldOut  # which rows of the source do not count
    whole: bool  # whether the sample is all of the rows
    numbers: np.ndarray | None = None  # of the rows of the sample among those of the source; None: not known


def divided(model: Model, rows: Any, sample: Data | None, share: float, seed: int, block_rows: int) -> Given:
    """Divide the rows; raises `ZooError` where there are none, or none is left."""
    source = source_of(model, rows, block_rows)
    if isinstance(source, InMemory):
        if sample is not None:
            raise ZooError("sample is for rows in blocks; of one table, starts are sought on all rows: leave sample out")
        train, aside = split(source.data, share, seed)
        own = InMemory(model, train, block_rows)
        return Given(own, train, aside, HeldOut(0.0, seed), True, np.arange(train.num_rows))
    held_out = HeldOut(share, seed)
    if sample is not None:
        if share:
            raise ZooError("held_out scores rows of the sample, whose numbers among all rows must be known: leave sample out")
        return Given(source, sample, None, held_out, whole=False)
    found = source.sampled or sample_of(source, SAMPLE_ROWS, seed)
    if not share:
        return Given(source, found.data, None, held_out, found.whole, found.numbers)
    if is_sequential(model):
        raise ZooError("held_out is for rows, and these are sequences: keep some of them in a file of their own")
    chosen = held_out.of_rows(found.numbers)
    if chosen.all() or not chosen.any():
        raise ZooError(f"held_out={share} leaves no row of the sample {'to score' if not chosen.any() else 'to fit'}")
    kept, aside = take(found.data, ~chosen), take(found.data, chosen)
    return Given(source, kept, aside, held_out, False, found.numbers[~chosen])
