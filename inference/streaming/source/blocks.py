"""Sources of rows, block by block: a table in memory, tables one after another, or files (`read_stream`).

A source can be read again from any block on. Blocks are numbered, and random numbers depend on the number of the block, so that
draws do not depend on the process that computes a block.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from models.algebra import is_sequential
from models.base import Data, Model, ZooError
from models.data.table import is_sparse, is_table, take

BLOCK_ROWS = 2**18  # of a block by default: 16 MiB of eight columns


class Block(NamedTuple):
    """Some consecutive rows."""

    data: Data
    first: int  # the number of its first row: of the first sequence, of a model of sequences


class Sampled(NamedTuple):
    """Rows drawn from all."""

    data: Data
    numbers: np.ndarray  # of its rows, or steps, among all
    whole: bool  # whether these are all


class Source(ABC):
    """Rows in blocks."""

    name: str
    num_blocks: int | None = None  # None: known only after all have been read, so that processes cannot share them out
    num_rows: int | None = None  # of all blocks; None: as above
    identity: str = ""  # a text that differs from that of other blocks, for checkpoints
    sampled: Sampled | None = None  # where the source has scanned all rows already

    @abstractmethod
    def read(self, first: int, last: int | None) -> Iterator[Block]:
        """Blocks number ``first`` up to ``last`` − 1; None: to the end."""

    def require_taken_by(self, model: Model) -> None:  # noqa: B027  most sources are for every model
        """Raises `ZooError` for a model whose rows these blocks would cut."""


class InMemory(Source):
    """The rows of one table in blocks of at most ``block_rows``; of sequences, whole ones with about so many steps."""

    def __init__(self, model: Model, data: Data, block_rows: int) -> None:
        self.name, self.data = data.name, data
        self._edges = edges_of(model, data, block_rows)
        self.num_blocks, self.num_rows = len(self._edges) - 1, data.num_rows
        self.identity = f"{data.num_rows} rows by {block_rows}"

    def read(self, first: int, last: int | None) -> Iterator[Block]:
        """As `Source.read`."""
        assert self.num_blocks is not None
        starts = self.data.starts
        for number in range(first, self.num_blocks if last is None else last):
            begin, end = int(self._edges[number]), int(self._edges[number + 1])
            whole = begin == 0 and end == self.data.num_rows
            row = begin if starts is None else int(np.searchsorted(starts, begin))
            yield Block(self.data if whole else take(self.data, slice(begin, end)), row)  # type: ignore[arg-type]  # no copy


def edges_of(model: Model, data: Data, block_rows: int) -> np.ndarray:
    """The edges of blocks: rows 0 … N − 1, cut at multiples of ``block_rows`` or at the next end of a sequence."""
    if data.starts is None:
        one_sequence = is_sequential(model) and is_table(data)
        return np.append(0 if one_sequence else np.arange(0, data.num_rows, block_rows), data.num_rows)
    ends = data.starts[1:]
    edges = [0]
    while edges[-1] < ends[-1]:
        edges.append(int(ends[np.searchsorted(ends, min(edges[-1] + block_rows, ends[-1]))]))
    return np.array(edges)


class Tables(Source):
    """Tables one after another, each of them a block."""

    def __init__(self, model: Model, tables: Sequence[Any]) -> None:
        self.name, self._tables = "blocks", [_table(model, table, number) for number, table in enumerate(tables)]
        self.num_blocks, self.num_rows = len(self._tables), sum(table.num_rows for table in self._tables)
        self.identity = f"{list(map(_num_rows, self._tables))} {[digest_of(table) for table in self._tables]}"
        self._first = np.cumsum([0, *map(_num_rows, self._tables)])

    def read(self, first: int, last: int | None) -> Iterator[Block]:
        """As `Source.read`."""
        for number in range(first, len(self._tables) if last is None else last):
            yield Block(self._tables[number], int(self._first[number]))


class Iterated(Source):
    """Tables one after another, from a function that returns a new iterator for every pass."""

    def __init__(self, model: Model, tables: Callable[[], Iterable[Any]]) -> None:
        self.name, self._model, self._tables = "blocks", model, tables
        for block in self.read(0, 1):
            self.identity = digest_of(block.data)

    def read(self, first: int, last: int | None) -> Iterator[Block]:
        """As `Source.read`."""
        row = 0
        for number, unread in enumerate(self._tables()):
            if last is not None and number >= last:
                return
            table = _table(self._model, unread, number)
            if number >= first:
                yield Block(table, row)
            row += _num_rows(table)


def digest_of(table: Data) -> str:
    """A short text that tells tables apart by their cells, labels, weights, sequences and the names of columns and levels."""
    x = table.x
    cells = (x.data, x.indices, x.indptr) if is_sparse(x) else (x,) if is_table(table) else (x.tokens, x.starts)
    digest = hashlib.sha256(repr((table.columns, table.levels, table.categories)).encode())
    for part in (*cells, table.labels, table.weight, table.candidates, table.starts):
        digest.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
        digest.update(b";")
    return digest.hexdigest()[:16]


def _table(model: Model, table: Any, number: int) -> Data:
    """A table with the number of its block in its name; of steps, one sequence if it names none. Raises `ZooError`."""
    if not isinstance(table, Data):
        raise ZooError(f"blocks: block {number + 1} is {type(table).__name__}; give models.load_data(block) instead")
    if table.weights == "relative":
        raise ZooError(
            f"blocks: block {number + 1} has relative weights, which were scaled to mean 1 in this block alone: scale those of "
            'all blocks alike, and give models.load_data(block, weight=..., weights="counts")'
        )
    if is_sequential(model) and is_table(table) and table.starts is None:
        table = table._replace(starts=np.array([0, table.num_rows]))
    return table._replace(name=f"{table.name}, block {number + 1}")


def _num_rows(table: Data) -> int:
    """Rows of the model: of steps, sequences."""
    return table.num_rows if table.starts is None else len(table.starts) - 1


def source_of(model: Model, rows: Any, block_rows: int) -> Source:
    """The argument of `inference.in_blocks` as a source; raises `ZooError` for data without rows."""
    if isinstance(rows, Data):
        if rows.moments:
            raise ZooError(f"{rows.name} is a covariance and no rows: give it to inference.fit as it is")
        return InMemory(model, rows, block_rows)
    if isinstance(rows, Source):
        rows.require_taken_by(model)
        return rows
    if isinstance(rows, Iterator):
        raise ZooError(
            "rows: every pass reads the blocks from the beginning, and an iterator can be read once: give a list of tables, or "
            "a function that returns a new iterator"
        )
    if isinstance(rows, list | tuple) and rows and isinstance(rows[0], Data):
        return Tables(model, rows)
    return Iterated(model, rows) if callable(rows) else InMemory(model, model.read(rows), block_rows)
