"""Blocks as the algebra reads them, each encoded by another thread while the one before is computed."""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.engine.single_precision import in_precision, seen_from_origin
from inference.engine.sweep import num_rows, rows_weight
from inference.streaming.source.blocks import Block, Source
from models.base import Model, Pytree, ZooError
from models.chains.padding import padded
from models.data.table import Data
from models.reading.blocks import counted_from
from models.topics.padding import padded_documents

AHEAD = 2  # encoded blocks in the queue

Spans = Iterable[tuple[int, int | None]]


class EncodedBlock(NamedTuple):
    """A block as the algebra reads it."""

    rows: Pytree  # on the host; they carry weights, 0 for rows that do not count
    first: int  # the number of the first row
    number: int  # of the block


class HeldOutRows:
    """The rows held out: a fixed share of them, by their numbers and the seed."""

    def __init__(self, fraction: float, seed: int) -> None:
        self._fraction, self._seed = fraction, seed

    def of(self, first: int, number: int) -> np.ndarray:
        """(number,): whether the rows from number ``first`` on are held out."""
        if not self._fraction:
            return np.zeros(number, bool)
        return self.of_rows(np.arange(first, first + number))

    def of_rows(self, rows: np.ndarray) -> np.ndarray:
        """(N,): whether the rows of these numbers are held out."""
        of_seed = _mixed(np.array([self._seed], np.uint64))
        return _mixed(rows.astype(np.uint64) ^ of_seed) / 2.0**64 < self._fraction


def _mixed(number: np.ndarray) -> np.ndarray:
    """Whole numbers mapped to pseudorandom ones below 2⁶⁴ (the finaliser of SplitMix64, Steele, Lea and Flood 2014)."""
    x = number + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def encoded(model: Model, block: Block, number: int, held_out: HeldOutRows) -> EncodedBlock:
    """One block, in the precision in force; raises `ZooError` for a cell that the model cannot read."""
    with counted_from(block.first if block.data.starts is None else 0):  # of sequences it does not number rows
        rows = encoded_rows(model, block.data)
    aside = held_out.of(block.first, num_rows(rows))
    if aside.any():
        rows = rows._replace(weight=np.where(aside, 0.0, np.asarray(rows_weight(rows))))
    return EncodedBlock(rows, block.first, number)


def encoded_rows(model: Model, data: Data) -> Pytree:
    """The rows of a table as a task has them: in single precision, as seen from the origin."""
    rows = padded_documents(padded(model.rows(read_as(model, data))))
    if not jax.config.jax_enable_x64:
        rows = seen_from_origin(model, dict(model.hyper), rows, None)[1]
    return in_precision(rows)


def read_as(model: Model, data: Data) -> Data:
    """The table of a block, with kinds and levels of columns from the model."""
    return data if model.reading.layout is None else data._replace(like=model.reading.layout)


class ReadAhead:
    """Encoded blocks of ``spans`` of them (first, last + 1), up to `AHEAD` read and encoded in advance."""

    def __init__(self, model: Model, source: Source, spans: Spans, held_out: HeldOutRows) -> None:
        self._waiting: queue.Queue[Any] = queue.Queue(AHEAD)
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._fill, args=(model, source, spans, held_out, bool(jax.config.jax_enable_x64)), daemon=True
        )
        self._thread.start()

    def _fill(self, model: Model, source: Source, spans: Spans, held_out: HeldOutRows, x64: bool) -> None:
        try:
            with jax.enable_x64(x64):  # a setting of each thread
                for first, last in spans:
                    for number, block in enumerate(source.read(first, last), first):
                        if not self._put(encoded(model, block, number, held_out)):
                            return
            self._put(None)
        except BaseException as error:  # the reader raises it
            self._put(error)

    def _put(self, item: Any) -> bool:
        """Whether the reader took the item before it closed."""
        while not self._closed.is_set():
            try:
                self._waiting.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def __iter__(self) -> Iterator[EncodedBlock]:
        while (item := self._waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()
        self._thread.join()


def require_blocks(source: Source) -> int:
    """The number of blocks; a `ZooError` where it is not known."""
    if source.num_blocks is None:
        raise ZooError(
            "processes share out the blocks of a table or of files, and the number of blocks of an iterable is not known: give "
            "files (inference.read_stream)"
        )
    return source.num_blocks
