"""Documents as rows of a topic model: distinct words with counts, and single tokens."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse, special

from models.base import Data, on_host
from models.data.classes import allowed_classes
from models.data.documents import bag_of_words
from models.data.memory import require_memory
from models.data.table import ZooError, is_sparse
from models.emissions.discrete import multinomial
from models.rows.encoded import matched
from models.rows.packing import Packing, grid, laid_out, packed, side_by_side
from models.rows.row_info import RowInfo
from models.topics.latent import Bags, TokenCells

TOKEN_BYTES, CELL_BYTES = 16, 18  # memory of `encoded` per token, and per padded cell


class Words(NamedTuple):
    """Words of N documents, padded to L cells."""

    word: Array  # (N, L)
    times: Array  # (N, L): counts; 0 for padding
    packing: Packing | None = None  # how the cells are packed; None: side by side


class Documents(NamedTuple):
    """N documents."""

    words: Words  # distinct words with counts
    tokens: Words  # one token per cell
    document: Array  # (N,): index in ``topic_probs``
    carrier: Array  # (N,): log of the multinomial coefficient
    weight: Array | None = None  # (N,)
    allowed_topics: Array | None = None  # (N, K): allowed topics; None: all

    @property
    def row_info(self) -> RowInfo:
        """Documents are not split into batches; each has proportions."""
        return RowInfo(self.weight, self.allowed_topics, local_index=self.document, atomic=True)


def check(data: Data) -> None:
    """Raise `ZooError` unless the table holds counts."""
    multinomial.encoding.check(bag_of_words(data))


def encoded(data: Data, columns: tuple[str, ...], topics: tuple[str, ...] | None) -> Documents:
    """Encode documents, or a table of counts; labels name ``topics``, or are ignored if ``topics`` is None.

    Unknown words of documents are dropped. Raises `ZooError` for a table with other columns.
    """
    bags = bag_of_words(matched(data, columns))
    check(bags)
    counts = sparse.csr_array(bags.x if is_sparse(bags.x) else np.asarray(bags.x, np.float64)).copy()
    counts.sum_duplicates()
    counts.eliminate_zeros()
    count = counts.data.astype(np.int64)
    distinct = np.diff(counts.indptr)
    each = np.add.reduceat(np.append(count, 0), counts.indptr[:-1]) * (distinct > 0) if len(distinct) else distinct
    _require_room(data.name, each, count)
    arranged = special.gammaln(each + 1.0)
    np.subtract.at(arranged, np.repeat(np.arange(len(distinct)), distinct), special.gammaln(count + 1.0))
    allowed_topics = None if topics is None else allowed_classes(data, topics)
    return Documents(
        _padded(counts.indices, count, distinct),
        _padded(np.repeat(counts.indices, count), np.ones(count.sum(), np.int64), each),
        on_host(np.arange(len(distinct), dtype=np.int32)),
        on_host(arranged),
        None if data.weight is None else on_host(data.weight),
        None if allowed_topics is None else on_host(allowed_topics),
    )


def _require_room(name: str, each: np.ndarray, count: np.ndarray) -> None:
    """Raise `ZooError` if the padded tokens do not fit into memory."""
    if count.max(initial=0) > np.iinfo(np.int32).max:
        raise ZooError(
            f"{name}: a word is counted {count.max()} times in one document; at most {np.iinfo(np.int32).max} is supported"
        )
    longest = int(each.max(initial=0))
    require_memory(
        TOKEN_BYTES * float(count.sum()) + CELL_BYTES * float(longest) * len(each),
        f"{name}: its {len(each)} documents, of which the longest has {longest} words,",
    )


def _padded(word: np.ndarray, count: np.ndarray, lengths: np.ndarray) -> Words:
    """Pad concatenated cells; an empty document gets one cell with count 0."""
    there = np.arange(max(1, lengths.max(initial=0)))[None, :] < lengths[:, None]
    both = np.zeros((2, *there.shape), np.int32)
    both[:, there] = word, count
    return Words(on_host(both[0]), on_host(both[1]), packed(np.maximum(lengths, 1)))


def counted(rows: Documents, word: np.ndarray, num_words: int) -> np.ndarray:
    """Count drawn words (S, N, L) of the tokens: (S, N, V)."""
    draw, document, token = np.nonzero(np.broadcast_to(np.asarray(rows.tokens.times) > 0, word.shape))
    counts = np.zeros((*word.shape[:2], num_words))
    np.add.at(counts, (draw, document, word[draw, document, token]), 1)
    return counts


def bags(rows: Documents) -> Bags:
    """The cells of all documents, flattened."""
    return Bags(_flat(rows.words), _flat(rows.tokens), rows.carrier.astype(float))


def _flat(words: Words) -> TokenCells:
    number, longest = words.word.shape
    packing = words.packing
    if packing is None or packing.extent.rows != number:
        packing = side_by_side(jnp.full(number, longest), longest)
    place = grid(packing)
    count = jnp.where(place.there, laid_out(packing, words.times), 0).astype(float)
    row = jnp.where(count > 0, place.row, number)
    return TokenCells(row.reshape(-1), laid_out(packing, words.word).reshape(-1), count.reshape(-1))
