"""Tables one after another as one: the sample of rows that come as tables, in Python."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from inference.streaming.source.blocks import Sampled, Source
from models.base import Data, ZooError
from models.data.documents import Sequences, with_vocabulary
from models.data.table import is_sparse, is_table, take

ALIKE = ("columns", "label", "levels", "categories")  # fields in which tables must agree


class _Part(NamedTuple):
    """Some rows, with their random numbers and their numbers among all rows."""

    data: Data
    random: np.ndarray
    row: np.ndarray


def sample_of(source: Source, size: int, seed: int) -> Sampled:
    """About ``size`` rows, or steps of whole sequences, of a source, without replacement, in their order.

    They are the rows, or sequences, with the smallest random numbers.
    """
    parts: list[_Part] = []
    begin = 0
    for place, block in enumerate(source.read(0, None)):
        data = block.data
        lengths = np.ones(data.num_rows, int) if data.starts is None else np.diff(data.starts)
        number = np.repeat(np.random.default_rng([seed, place]).random(len(lengths)), lengths)
        parts.append(_Part(data._replace(name=source.name), number, np.arange(begin, begin + data.num_rows)))
        begin += data.num_rows
        if sum(len(part.row) for part in parts) > 2 * size:
            parts = [_smallest(parts, size)]
    if not parts:
        raise ZooError(f"{source.name}: there are no rows")
    sample = _smallest(parts, size)
    return Sampled(sample.data, sample.row, whole=False)  # results of single tables have no entries per row


def _smallest(parts: list[_Part], size: int) -> _Part:
    whole = _Part(joined([part.data for part in parts]), *(np.concatenate(leaf) for leaf in list(zip(*parts, strict=True))[1:]))
    if len(whole.row) <= size:
        return whole
    small = whole.random <= np.partition(whole.random, size - 1)[size - 1]
    return _Part(take(whole.data, small), whole.random[small], whole.row[small])


def joined(parts: Sequence[Data]) -> Data:
    """The rows of tables with the same columns, documents by the words of all; raises `ZooError` for other tables."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if all(isinstance(part.x, Sequences) for part in parts):  # each table of documents has another vocabulary
        words = tuple(sorted({word for part in parts for word in part.columns}))
        parts = [with_vocabulary(part, words) for part in parts]
        first = parts[0]
    for number, part in enumerate(parts[1:], 2):
        if other := [name for name in ALIKE if part._asdict()[name] != first._asdict()[name]]:
            raise ZooError(
                f"blocks: block {number} has other {other[0]} than the first one; give a sample of the rows by sample="
            )
    labels, candidates = _rows_of(parts, "labels"), _rows_of(parts, "candidates")
    whole = first._replace(labels=labels, candidates=candidates, weight=_weight_of(parts), notes=(), kept_columns=())
    if not is_table(first):
        ends = np.cumsum(np.concatenate([part.x.lengths for part in parts]))
        return whole._replace(x=Sequences(np.concatenate([part.x.tokens for part in parts]), np.append(0, ends)))
    x = sparse.vstack([part.x for part in parts], "csr") if is_sparse(first.x) else np.concatenate([part.x for part in parts])
    if first.starts is None:
        return whole._replace(x=x)
    begins = np.cumsum([0, *(part.num_rows for part in parts)])
    starts = [np.asarray(part.starts)[:-1] + begin for part, begin in zip(parts, begins, strict=False)]
    return whole._replace(x=x, starts=np.append(np.concatenate(starts), begins[-1]))


def _rows_of(parts: Sequence[Data], name: str) -> np.ndarray | None:
    """A field of the rows of all tables, if they have it."""
    values = [part._asdict()[name] for part in parts]
    return None if values[0] is None else np.concatenate(values)


def _weight_of(parts: Sequence[Data]) -> np.ndarray | None:
    """The weights of the rows of all tables, 1 in tables without, if any has them."""
    if all(part.weight is None for part in parts):
        return None
    return np.concatenate([np.ones(part.num_rows) if part.weight is None else part.weight for part in parts])
