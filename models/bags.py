"""Documents as the rows of a topic model: their distinct words with counts, and their tokens one by one."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse, special

from models.base import Data, on_host
from models.classifier import allowed_classes
from models.data import is_sparse
from models.discrete import DISCRETE
from models.documents import bag_of_words
from models.lanes import Lanes, cells, laid_out, packed, side_by_side
from models.rows import matched
from models.topics import Bags, Cells


class Words(NamedTuple):
    """Words of N documents, cell by cell, padded."""

    word: Array  # (N, L)
    times: Array  # (N, L): how often each; 0 beyond the last
    packing: Lanes | None = None  # where the cells of documents lie together; None: side by side


class Documents(NamedTuple):
    """N documents."""

    words: Words  # the distinct words, each once
    tokens: Words  # one a cell
    own: Array  # (N,): place in ``topic_probs``
    carrier: Array  # (N,): log of the multinomial coefficient
    weight: Array | None = None  # (N,)
    allowed: Array | None = None  # (N, K): topics that a document may have; None: all

    @property
    def whole(self) -> bool:
        """All documents are read at once: their proportions are sums that no other document enters."""
        return True


def check(data: Data) -> None:
    """A `ZooError` for what are no counts of words."""
    DISCRETE["multinomial"].check(bag_of_words(data))


def encoded(data: Data, columns: tuple[str, ...], topics: tuple[str, ...] | None) -> Documents:
    """Documents, or a table of counts, as rows with these words; labels are names of ``topics``, where those are given.

    Words that the columns lack are left out. Raises `ZooError` for a table with other columns.
    """
    bags = bag_of_words(matched(data, columns))
    check(bags)
    found = sparse.csr_array(bags.x if is_sparse(bags.x) else np.asarray(bags.x, np.float64)).copy()
    found.sum_duplicates()
    found.eliminate_zeros()
    count = found.data.astype(np.int64)
    distinct = np.diff(found.indptr)
    each = np.add.reduceat(np.append(count, 0), found.indptr[:-1]) * (distinct > 0) if len(distinct) else distinct
    arranged = special.gammaln(each + 1.0)
    np.subtract.at(arranged, np.repeat(np.arange(len(distinct)), distinct), special.gammaln(count + 1.0))
    allowed = None if topics is None else allowed_classes(data, topics)
    return Documents(
        _padded(found.indices, count, distinct),
        _padded(np.repeat(found.indices, count), np.ones(count.sum(), np.int64), each),
        on_host(np.arange(len(distinct), dtype=np.int32)),
        on_host(arranged),
        None if data.weight is None else on_host(data.weight),
        None if allowed is None else on_host(allowed),
    )


def _padded(word: np.ndarray, count: np.ndarray, lengths: np.ndarray) -> Words:
    """Of cells one document after another; one that is empty has a cell without a count."""
    there = np.arange(max(1, lengths.max(initial=0)))[None, :] < lengths[:, None]
    both = np.zeros((2, *there.shape), np.int32)
    both[:, there] = word, count
    return Words(on_host(both[0]), on_host(both[1]), packed(np.maximum(lengths, 1)))


def bags(rows: Documents) -> Bags:
    """The cells of all documents in one line."""
    return Bags(_flat(rows.words), _flat(rows.tokens), rows.carrier.astype(float))


def _flat(words: Words) -> Cells:
    number, longest = words.word.shape
    lanes = words.packing
    if lanes is None or lanes.extent.rows != number:
        lanes = side_by_side(jnp.full(number, longest), longest)
    place = cells(lanes)
    count = jnp.where(place.there, laid_out(lanes, words.times), 0).astype(float)
    row = jnp.where(count > 0, place.row, number)
    return Cells(row.reshape(-1), laid_out(lanes, words.word).reshape(-1), count.reshape(-1))
