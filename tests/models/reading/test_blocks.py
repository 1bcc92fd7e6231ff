"""New rows in blocks: the same cells as of the whole table, with the columns and levels of the fitted one."""

import numpy as np
import pandas as pd
import pytest

from models import ZooError, load_data
from models.data.columns import as_typed, layout, typed
from models.reading.blocks import layout_of, read_blocks

FITTED = pd.DataFrame({"size": [1.0, 2.5, 4.0, 3.0], "kind": list("abca"), "moons": [0, 1, 3, 2]})


def new_table(size=23):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "extra": "x",
            "moons": rng.integers(0, 5, size),
            "kind": rng.choice(list("ab"), size),
            "size": rng.normal(size=size).round(3).astype(object),
        }
    )
    frame.loc[5, "size"], frame.loc[8:11, "size"] = "", "unknown"  # a block of words alone is of numbers nonetheless
    return frame


def written(path, frame):
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize("size", [4, 7, 100, None])
def test_blocks_are_the_table(tmp_path, size):
    fitted = typed(load_data(FITTED, types={"moons": "count"}))
    source = written(tmp_path / "new.csv", new_table())
    blocks = list(read_blocks(source, fitted, layout(fitted), {}, size))
    whole = as_typed(load_data(source, columns=["size", "kind", "moons"]), layout(fitted))
    np.testing.assert_array_equal(np.concatenate([block.data.x for block in blocks]), whole.x)
    assert np.isnan(whole.x[:, 0]).sum() == 5
    assert [block.first for block in blocks] == list(range(0, 23, size or 23))
    assert {block.data.categories for block in blocks} == {whole.categories}  # a level that no row has is a level


def test_files_of_arrow_are_read_alike(tmp_path):
    fitted = load_data(FITTED)
    frame = new_table().drop(columns="size").assign(size=1.5)
    found = [
        np.concatenate([b.data.x for b in read_blocks(written(tmp_path / name, frame), fitted, None, {}, 6)])
        for name in ("new.csv", "new.parquet")
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop(columns="kind"), "has no column 'kind'"),
        (lambda frame: frame.assign(kind=["z" if row == 9 else "a" for row in range(23)]), "row 2: 'z' is a level unknown"),
        (lambda frame: frame.assign(size=["tall" if row == 9 else 1.0 for row in range(23)]), "'tall' is not a number"),
        (lambda frame: frame.iloc[:0], "has no rows"),
    ],
)
def test_another_table_is_refused(tmp_path, change, words):
    source = written(tmp_path / "new.csv", change(new_table()))
    with pytest.raises(ZooError, match=words) as raised:
        list(read_blocks(source, load_data(FITTED), None, {}, 8))
    assert ("counted from row 9" in str(raised.value)) == ("row 2" in str(raised.value))


def test_a_level_that_the_model_has_not_seen(tmp_path):
    """An error that names the option, where the model has it; or a missing cell, as the model was told."""
    source = written(tmp_path / "new.csv", new_table().assign(kind=["z" if row == 9 else "a" for row in range(23)]))
    fitted = typed(load_data(FITTED, types={"moons": "count"}))
    with pytest.raises(ZooError, match=r"'z' is a level unknown .* or fit with model.unseen=missing"):
        list(read_blocks(source, fitted, layout(fitted), {}, 8))
    with pytest.raises(ZooError, match=r"'z' is a level unknown .* or leave it empty( \(|$)"):
        list(read_blocks(source, load_data(FITTED), None, {}, 8))
    blocks = read_blocks(source, fitted, layout(fitted), {}, 8, unseen="missing")
    kinds = np.concatenate([block.data.x[:, 1] for block in blocks])
    assert np.flatnonzero(np.isnan(kinds)).tolist() == [9]


def test_sequences_are_not_cut(tmp_path):
    lengths = [3, 1, 6, 2, 5]
    frame = pd.DataFrame({"id": np.repeat(["b", "a", "10", "9", "c"], lengths), "x": np.arange(17.0)})
    source = written(tmp_path / "steps.csv", frame)
    fitted = load_data(source, sequence="id")
    for size in (1, 2, 4, 100):
        blocks = list(read_blocks(source, fitted, None, {"sequence": "id"}, size))
        assert np.concatenate([np.diff(block.data.starts) for block in blocks]).tolist() == lengths
        np.testing.assert_array_equal(np.concatenate([block.data.x for block in blocks]), fitted.x)
        assert len(blocks) > 1 or size == 100
    frame.loc[16, "id"] = "b"
    with pytest.raises(ZooError, match="'b' continues after another one"):
        list(read_blocks(written(tmp_path / "mixed.csv", frame), fitted, None, {"sequence": "id"}, 2))


def test_texts_need_their_column(tmp_path):
    source = written(tmp_path / "mail.csv", pd.DataFrame({"body": ["a b", "b"] * 3}))
    fitted = load_data(["a b", "c"])
    with pytest.raises(ZooError, match="name the column of texts"):
        list(read_blocks(source, fitted, None, {}, 2))
    assert [b.data.num_rows for b in read_blocks(source, fitted, None, {"text": "body"}, 4)] == [4, 2]


def test_a_fitted_table_without_a_layout_has_one():
    assert layout_of(load_data(FITTED), None)[1:] == (("number", "category", "number"), ((), ("a", "b", "c"), ()), ())


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_sequence_that_continues_is_refused_wherever_blocks_end(tmp_path, size):
    frame = pd.DataFrame({"id": list("aabbac"), "x": np.arange(6.0)})
    fitted = load_data(frame.sort_values("id"), sequence="id")
    with pytest.raises(ZooError, match="'a' continues after another one"):
        list(read_blocks(written(tmp_path / "steps.csv", frame), fitted, None, {"sequence": "id"}, size))


def test_a_named_table_is_read_with_the_threshold_of_the_run():
    fitted = load_data("iris", threshold=2.5)
    (block,) = read_blocks("iris", fitted, None, {"threshold": 2.5}, None)
    np.testing.assert_array_equal(block.data.x, fitted.x)
    assert set(np.unique(block.data.x)) == {0, 1}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_kept_columns_are_those_of_the_file(tmp_path, suffix):
    """Letter by letter, whatever a block alone would take them for: long whole numbers beside empty cells, zeros in front."""
    number = pd.array([1, 2, None, 2**53 + 1, *range(19)], dtype="Int64")
    names = [f"{n:03}" for n in range(20)] + ["a", "", "NA"]
    frame = new_table().drop(columns="size").assign(size=1.5, id=names, number=number)
    fitted, source = load_data(FITTED), written(tmp_path / f"new.{suffix}", frame)
    blocks = list(read_blocks(source, fitted, None, {}, 2, keep=["id", "number"], keep_if_there=["extra", "gone"]))
    found = {name: [cell for block in blocks for cell in block.kept_columns[name]] for name in blocks[0].kept_columns}
    expected = ["" if cell is pd.NA else str(cell) for cell in number]
    assert found == {"id": names, "number": expected, "extra": frame["extra"].tolist()}
    with pytest.raises(ZooError, match=r"no column 'idd' to keep \(did you mean id\?\)"):
        list(read_blocks(source, fitted, None, {}, 6, keep=["idd"]))
    with pytest.raises(ZooError, match="iris has no columns to keep"):
        list(read_blocks("iris", load_data("iris"), None, {}, None, keep=["id"]))
