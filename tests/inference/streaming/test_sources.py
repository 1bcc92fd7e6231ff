"""How rows are cut into blocks and read ahead."""

import threading

import numpy as np
import pytest
from scipy import sparse

from inference.streaming.source.blocks import Block, InMemory, Source, digest_of
from inference.streaming.source.encoding import HeldOutRows, ReadAhead
from inference.streaming.source.joining import joined, sample_of
from models import MODELS, load_data
from models.base import ZooError


def test_blocks_of_a_table_are_its_rows_once():
    x = np.random.default_rng(0).normal(size=(1000, 2))
    data = load_data(x)
    model = MODELS["gmm"](data)
    for block_rows in (1, 7, 1000, 4000):
        source = InMemory(model, data, block_rows)
        blocks = list(source.read(0, None))
        assert len(blocks) == source.num_blocks == -(-1000 // block_rows)
        np.testing.assert_array_equal(np.concatenate([block.data.x for block in blocks]), x)
        for number, block in enumerate(blocks):
            (again,) = source.read(number, number + 1)
            assert (again.first, again.data.num_rows) == (block.first, block.data.num_rows)


def test_blocks_end_where_sequences_do():
    lengths = np.random.default_rng(0).integers(1, 30, 50)
    data = load_data(np.arange(lengths.sum(), dtype=float)[:, None], lengths=lengths)
    model = MODELS["hmm"](data, num_states=2, emission="gaussian")
    blocks = list(InMemory(model, data, 100).read(0, None))
    assert len(blocks) > 3
    np.testing.assert_array_equal(np.concatenate([np.diff(block.data.starts) for block in blocks]), lengths)
    assert [block.first for block in blocks] == np.cumsum([0, *(len(block.data.starts) - 1 for block in blocks)])[:-1].tolist()


def test_one_sequence_is_one_block():
    data = load_data(np.arange(500.0)[:, None])
    model = MODELS["hmm"](data, num_states=2, emission="gaussian")
    assert InMemory(model, data, 100).num_blocks == 1


def test_held_out_rows_are_a_share_that_the_row_number_decides():
    held_out = HeldOutRows(0.3, seed=5)
    whole = held_out.of(0, 100_000)
    np.testing.assert_array_equal(np.concatenate([held_out.of(0, 777), held_out.of(777, 99_223)]), whole)
    assert abs(whole.mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 100_000)
    other = HeldOutRows(0.3, seed=6).of(0, 100_000)
    assert abs((whole & other).mean() - 0.09) < 5 * np.sqrt(0.09 * 0.91 / 100_000)  # seeds are independent
    assert abs(np.corrcoef(whole[1:], whole[:-1])[0, 1]) < 5 / np.sqrt(100_000)  # and so are neighbours


def test_joined_tables_are_the_table():
    random = np.random.default_rng(0)
    x, labels, weight = random.normal(size=(90, 2)), random.integers(0, 3, 90).astype(str), random.random(90)
    whole = load_data(x, labels=labels, weight=weight)
    source = InMemory(MODELS["linear_discriminant"](whole), whole, 11)
    again = joined([block.data for block in source.read(0, None)])
    for name in ("x", "labels", "weight", "levels", "columns"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    sample = sample_of(source, 20, 0)
    assert sample.data.num_rows == 20
    np.testing.assert_array_equal(sample.data.x, x[sample.numbers])


class Failing(Source):
    """A source whose third block cannot be read."""

    name, num_blocks = "failing", 5

    def __init__(self, data):
        self.data = data

    def read(self, first, last):
        for number in range(first, 5 if last is None else last):
            if number == 2:
                raise ZooError("block 3 is damaged")
            yield Block(self.data, number * self.data.num_rows)


def test_tables_that_differ_anywhere_have_other_digests():
    """In cells, labels, weights, names, or where documents and stored cells lie."""
    x = np.array([[0.0, 1.0], [2.0, 3.0]])
    tables = [
        load_data(x),
        load_data(x + 1),
        load_data(x, labels=["a", "b"]),
        load_data(x, labels=["b", "a"]),
        load_data(x, labels=["a", "c"]),
        load_data(x, weight=np.array([1.0, 2.0])),
        load_data(x, weight=np.array([2.0, 1.0])),
        load_data(sparse.csr_array(np.array([[1.0, 0.0], [0.0, 1.0]]))),
        load_data(sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))),
        load_data(sparse.csr_array(np.array([[1.0, 1.0], [0.0, 0.0]]))),
        load_data(["a b c", "a"]),
        load_data(["a b", "c a"]),
        load_data(["a b d", "a"]),
    ]
    assert len({digest_of(table) for table in tables}) == len(tables)


def test_what_a_reader_raises_comes_to_who_reads():
    data = load_data(np.random.default_rng(0).normal(size=(10, 2)))
    model = MODELS["gmm"](data)
    reader = ReadAhead(model, Failing(data), [(0, None)], HeldOutRows(0.0, 0))
    taken = iter(reader)
    assert [next(taken).number, next(taken).number] == [0, 1]
    with pytest.raises(ZooError, match="block 3 is damaged"):
        next(taken)


def test_a_reader_that_is_closed_ends_its_thread():
    data = load_data(np.random.default_rng(0).normal(size=(10, 2)))
    model = MODELS["gmm"](data)
    before = threading.active_count()
    reader = ReadAhead(model, Failing(data), [(0, 1)] * 1000, HeldOutRows(0.0, 0))
    next(iter(reader))
    assert threading.active_count() == before + 1
    reader.close()
    assert threading.active_count() == before


def test_documents_of_other_vocabularies_are_joined():
    """Tables of documents that were read one by one are the documents read at once, also if some have been joined before."""
    texts = [["pear apple pear", "plum"], ["dog cat", "apple dog"], ["bee"]]
    one, two, three = map(load_data, texts)
    for again in (joined([one, two, three]), joined([joined([one, two]), three])):
        whole = load_data([text for part in texts for text in part])
        assert again.columns == whole.columns
        np.testing.assert_array_equal(again.x.tokens, whole.x.tokens)
        np.testing.assert_array_equal(again.x.starts, whole.x.starts)
