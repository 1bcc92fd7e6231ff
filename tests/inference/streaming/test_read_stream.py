"""Rows in files: each of them in one block, whatever the block begins with, and in the sample at random."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from block_tables import frame
from fit_blocks import fit_blocks
from scipy import stats

from inference import read_stream
from inference.runtime import files
from inference.streaming.source import read_stream as reading
from inference.streaming.source import scan
from models import MODELS, load_data
from models.base import ZooError

NUMBER = 1100


@pytest.fixture(scope="module")
def table():
    return frame(NUMBER)


def written(table, folder, ending):
    """The table in a folder of three files of one kind."""
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(table)), [300, 301])):
        file = folder / f"part{number}{ending}"
        if ending == ".parquet":
            table.iloc[part].to_parquet(file, row_group_size=130)
        elif ending == ".arrow":
            table.iloc[part].reset_index(drop=True).to_feather(file, chunksize=90)
        else:
            table.iloc[part].to_csv(file, index=False)
    return folder


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv"])
@pytest.mark.parametrize("block_rows", [7, 64, 5000])
def test_blocks_from_any_place_are_the_rows(table, tmp_path, ending, block_rows):
    files = read_stream(written(table, tmp_path / "rows", ending), block_rows=block_rows)
    whole = load_data(table)
    random = np.random.default_rng(0)
    for first in {0, *random.integers(0, files.num_blocks, 3).tolist()}:
        last = int(random.integers(first, files.num_blocks)) + 1
        at = None
        for block in files.read(first, last):
            assert at in (None, block.first)
            at = block.first + block.data.num_rows
            assert block.data.num_rows <= block_rows
            np.testing.assert_array_equal(block.data.x[:, :3], whole.x[block.first : at, :3])
            words = [whole.categories[3][int(code)] for code in whole.x[block.first : at, 3]]
            assert [block.data.categories[3][int(code)] for code in block.data.x[:, 3]] == words
        assert at is not None
    assert sum(block.data.num_rows for block in files.read(0, None)) == files.num_rows == NUMBER


def test_a_batch_of_an_arrow_file_is_cut(table, tmp_path):
    """Files that are written at once have one batch, whatever its size."""
    table.to_feather(tmp_path / "a.arrow", chunksize=NUMBER)
    files = read_stream(tmp_path / "a.arrow", block_rows=200)
    assert repr(files).endswith("a.arrow': 1,100 rows in 6 blocks, a sample of 1,100)")
    assert [block.data.num_rows for block in files.read(0, None)] == [200] * 5 + [100]
    assert [block.first for block in files.read(4, None)] == [800, 1000]


def test_numbers_that_are_levels_are_all_known(tmp_path):
    """A code in one row among many, of a column that is declared to hold categories."""
    codes = np.arange(3000) % 3
    codes[2500] = 7
    pd.DataFrame({"k": codes, "x": np.arange(3000.0)}).to_parquet(tmp_path / "a.parquet")
    files = read_stream(tmp_path / "a.parquet", sample_rows=50, block_rows=500, types={"k": "category"})
    assert files.sample.categories[0] == ("0", "1", "2", "7")


def test_sequences_of_two_files_may_have_one_name(tmp_path):
    """Each file numbers its own; the sample holds them apart."""
    for file, lengths in (("a", [3, 4]), ("b", [5, 2])):
        name = np.repeat(["s0", "s1"], lengths)
        order = name if file == "a" else np.repeat(["s1", "s0"], lengths)  # the last of a file is the first of the next
        pd.DataFrame({"s": order, "x": np.arange(len(name), dtype=float)}).to_parquet(tmp_path / f"{file}.parquet")
    files = read_stream(tmp_path, sequence="s")
    assert np.diff(files.sample.starts).tolist() == [3, 4, 5, 2]
    assert files.sampled.whole


def test_other_rows_have_another_identity(tmp_path):
    """Outside the sample, too: a checkpoint is of the rows that it has summed over."""
    x = np.random.default_rng(0).normal(size=(2000, 2))
    found = []
    for place in (None, 7, 1234):
        changed = x.copy()
        if place is not None:
            changed[place] += 1e-9
        pd.DataFrame(changed, columns=["a", "b"]).to_parquet(tmp_path / "a.parquet")
        found.append(read_stream(tmp_path / "a.parquet", sample_rows=20).identity)
    assert len(set(found)) == 3


def test_numbers_are_taken_over_as_load_data_reads_them(tmp_path):
    """The short way for numbers alone gives the same table as the long one."""
    numbers = pd.DataFrame({"a": [1.5, np.nan, 3.0], "b": [1, 2, 3]})
    numbers.to_parquet(tmp_path / "a.parquet")
    for options in ({}, {"columns": ["b", "a"]}):
        (block,) = read_stream(tmp_path / "a.parquet", **options).read(0, None)
        read = load_data(numbers, **options)
        np.testing.assert_array_equal(block.data.x, read.x)
        assert block.data.columns == read.columns


def test_sequences_are_whole(tmp_path):
    lengths = np.random.default_rng(0).integers(1, 40, 60)
    name = np.repeat([f"s{number}" for number in range(60)], lengths)
    table = pd.DataFrame({"s": name, "x": np.arange(len(name), dtype=float)})
    table.to_parquet(tmp_path / "a.parquet", row_group_size=50)
    files = read_stream(tmp_path / "a.parquet", block_rows=100, sequence="s")
    found = [block.data for block in files.read(0, None)]
    assert np.array_equal(np.concatenate([np.diff(data.starts) for data in found]), lengths)
    assert np.array_equal(np.concatenate([data.x[:, 0] for data in found]), table["x"])
    for number, data in enumerate(found):
        (block,) = files.read(number, number + 1)
        np.testing.assert_array_equal(block.data.x, data.x)
    sample = read_stream(tmp_path / "a.parquet", block_rows=100, sequence="s", sample_rows=200).sample
    assert 200 <= sample.num_rows < 240
    assert set(np.diff(sample.starts)) <= set(lengths)


def test_the_sample_is_without_replacement_and_uniform(tmp_path):
    """Each row is in it with the same probability: the counts over seeds, in tenths of the file, are those of a uniform law."""
    pd.DataFrame({"x": np.arange(500.0)}).to_parquet(tmp_path / "a.parquet")
    counts = np.zeros(10)
    for seed in range(40):
        files = read_stream(tmp_path / "a.parquet", block_rows=70, sample_rows=50, seed=seed)
        assert np.array_equal(files.sample.x[:, 0], files.sampled.numbers)
        assert len(set(files.sampled.numbers)) == 50
        counts += np.histogram(files.sampled.numbers, bins=10, range=(0, 500))[0]
    assert stats.chisquare(counts).pvalue > 1e-5  # without replacement the counts vary less than the test allows for


def test_every_word_is_in_the_sample(table, tmp_path):
    """A level that one row in a thousand has: a model that is built on the sample must know it."""
    rare = table.assign(kind=np.where(np.arange(NUMBER) == 987, "rare", table["kind"]), label=np.arange(NUMBER) // 1099)
    files = read_stream(written(rare, tmp_path / "rows", ".csv"), block_rows=100, sample_rows=20, label="label")
    assert "rare" in files.sample.categories[3]
    assert files.sample.levels == ("0", "1")
    assert 20 <= files.sample.num_rows <= 22


def test_files_are_looked_at_once(table, tmp_path, monkeypatch):
    """What was found is left in the folder of the run, and files that have changed since are not taken for the same."""
    rows, run = written(table, tmp_path / "rows", ".parquet"), tmp_path / "run"
    run.mkdir()
    first = read_stream(rows, block_rows=64, folder=run)
    with monkeypatch.context() as patch:
        patch.setattr(reading, "scanned", None)
        again = read_stream(rows, block_rows=64, folder=run)
    np.testing.assert_array_equal(again.sample.x, first.sample.x)
    np.testing.assert_array_equal(again.sampled.numbers, first.sampled.numbers)
    assert again.num_blocks == first.num_blocks
    table.iloc[:50].to_parquet(rows / "part0.parquet")
    with pytest.raises(ZooError, match="these have changed since"):
        read_stream(rows, block_rows=64, folder=run)
    with pytest.raises(ZooError, match="has changed since it was first read"):
        list(first.read(0, None))


@pytest.mark.parametrize("name", ["scan.parquet", "scan.json"])
def test_what_was_found_is_not_taken_damaged(table, tmp_path, name):
    """No flipped bit gives another sample, and no file cut short; without both files, the rows are scanned again."""
    rows, run, rng = written(table, tmp_path / "rows", ".parquet"), tmp_path / "run", np.random.default_rng(0)
    run.mkdir()
    first = read_stream(rows, block_rows=64, folder=run)
    whole = (run / name).read_bytes()
    flipped = [whole[:at] + bytes([whole[at] ^ 1 << rng.integers(8)]) + whole[at + 1 :] for at in rng.choice(len(whole), 40)]
    for content in [*flipped, whole[:-1], whole[: len(whole) // 2], b"", seal_of(b"{}"), seal_of(b"[1]"), seal_of(b"\xff")]:
        (run / name).write_bytes(content)
        with pytest.raises(ZooError, match="scanned again"):
            read_stream(rows, block_rows=64, folder=run)
    for path in run.iterdir():
        path.unlink()
    np.testing.assert_array_equal(read_stream(rows, block_rows=64, folder=run).sample.x, first.sample.x)


def seal_of(content):
    return content + files.MARK + hashlib.sha256(content).hexdigest().encode() + b"\n"


def test_one_sequence_in_a_file_is_not_cut(tmp_path):
    pd.DataFrame({"x": np.arange(300.0)}).to_parquet(tmp_path / "a.parquet")
    files = read_stream(tmp_path / "a.parquet", block_rows=100)
    with pytest.raises(ZooError, match="a single sequence cannot be cut into blocks"):
        fit_blocks(MODELS["hmm"](files.sample, num_states=2, emission="gaussian"), files, "em")


def test_mistakes(table, tmp_path):
    with pytest.raises(ZooError, match="neither a file nor a named data set"):
        read_stream(tmp_path / "absent.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ZooError, match="there is no table in this folder"):
        read_stream(tmp_path / "empty")
    rows = written(table, tmp_path / "rows", ".parquet")
    with pytest.raises(ZooError, match="has no column 'd'"):
        read_stream(rows, columns=["a", "d"])
    table.to_csv(rows / "other.csv")
    with pytest.raises(ZooError, match="tables of several kinds"):
        read_stream(rows)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(ZooError, match="cannot be read as a table"):
        read_stream(tmp_path / "bad.parquet")


def test_a_wrong_cell_is_named_by_its_row_among_all(tmp_path):
    table = pd.DataFrame({"x": np.arange(300.0), "y": 1.0})
    table.loc[222, "x"] = np.inf
    table.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ZooError, match=r"row 23: the value is infinite.*counted from row 201 of the table"):
        list(read_stream(tmp_path / "a.parquet", block_rows=100, sample_rows=10, seed=1).read(0, None))


def with_word(table, row, word):
    return table.assign(x=table["x"].astype(object).where(np.arange(len(table)) != row, word))


def test_a_spelling_of_a_missing_cell_in_one_block(tmp_path):
    """There the numbers are texts. They are no levels, and the sample can be stored and read again."""
    random = np.random.default_rng(0)
    table = pd.DataFrame({"x": np.round(random.normal(size=300), 3), "kind": random.choice(["a", "b"], 300)})
    with_word(table, 250, "NA").to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "run").mkdir()
    files = read_stream(tmp_path / "a.csv", block_rows=100, sample_rows=30, folder=tmp_path / "run")
    assert 30 <= files.sample.num_rows <= 32
    again = read_stream(tmp_path / "a.csv", block_rows=100, sample_rows=30, folder=tmp_path / "run")
    np.testing.assert_array_equal(files.sample.x, again.sample.x)
    read = np.concatenate([block.data.x for block in files.read(0, None)])[:, 0]
    np.testing.assert_array_equal(read, table["x"].where(np.arange(300) != 250).to_numpy())


def test_a_word_among_numbers_is_named_by_file_and_row(tmp_path):
    """Before the fit, though a sample without it would have been read; and it leaves no scan behind."""
    (tmp_path / "run").mkdir()
    (tmp_path / "rows").mkdir()
    table = pd.DataFrame({"x": np.arange(300.0), "y": 1.0})
    table.to_csv(tmp_path / "rows" / "0.csv", index=False)
    with_word(table, 222, "tall").to_csv(tmp_path / "rows" / "1.csv", index=False)
    with pytest.raises(ZooError, match=r"1\.csv: column 'x', row 23: 'tall' is not a number.*from row 201"):
        read_stream(tmp_path / "rows", block_rows=100, sample_rows=10, folder=tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())


def test_numbers_that_are_spelt_out_do_not_hide_a_word(tmp_path, monkeypatch):
    """A block with a word has its numbers as texts: more of them than words are kept."""
    monkeypatch.setattr(scan, "MOST_LEVELS", 20)
    table = pd.DataFrame({"x": np.arange(300.0), "y": 1.0})
    with_word(table, 222, "tall").to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ZooError, match="'tall' is not a number"):
        read_stream(tmp_path / "a.csv", block_rows=100, sample_rows=10)


@pytest.mark.parametrize("odd", [0, 1])
def test_files_of_a_folder_have_the_same_columns(table, tmp_path, odd):
    rows = written(table, tmp_path / "rows", ".parquet")
    column = table.columns[1]
    pd.read_parquet(rows / f"part{odd}.parquet").drop(columns=column).to_parquet(rows / f"part{odd}.parquet")
    with pytest.raises(ZooError, match=rf"part{odd}\.parquet has no column '{column}', which .*part{1 - odd}\.parquet has"):
        read_stream(rows, block_rows=64)
    assert read_stream(rows, block_rows=64, types={column: "ignore"}).num_rows == NUMBER
    others = [name for name in table.columns if name != column]
    assert read_stream(rows, block_rows=64, columns=others).num_rows == NUMBER
