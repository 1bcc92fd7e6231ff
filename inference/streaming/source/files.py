"""Rows in files: Parquet, Arrow or text, one file or all of a folder, of which a block is in memory at a time.

Files are read in the order of their names, and each is cut into blocks from its beginning.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from models.base import Data, ZooError
from models.data.missing_spellings import style_of
from models.errors import exists
from models.reading.blocks import STYLE, whole_sequences
from models.reading.files import ARROW, PARQUET, TABBED, frames, is_text, refused_tables, require_file
from models.reading.load import load_data

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (*PARQUET, *ARROW, *TABBED, ".csv", ".txt")
ASIDE = ("label", "weight", "sequence", "text")  # options that name a column beside those modelled


def files_of(path: str | Path) -> list[Path]:
    """The file, or the tables in the folder in the order of their names; raises `ZooError` where there is none."""
    given = Path(path)
    if not (exists(given) and given.is_dir()):
        require_file(given)
        return [given]
    found = sorted(file for file in given.iterdir() if file.suffix in ENDINGS)
    if not found:
        raise ZooError(f"data={path}: there is no table in this folder, no file that ends in {', '.join(ENDINGS)}")
    if len(endings := sorted({file.suffix for file in found})) > 1:
        raise ZooError(f"data={path}: this folder has tables of several kinds ({', '.join(endings)}); keep one kind in it")
    return found


def cut(path: Path, options: Mapping[str, Any], block_rows: int, skip: int = 0) -> Iterator["pd.DataFrame"]:
    """The frames of one file behind its first ``skip`` rows, of ``block_rows`` rows; sequences are whole, and may need more."""
    style = style_of({key: options[key] for key in STYLE if options.get(key) is not None}, plain=is_text(path))
    with refused_tables(path, style):
        if path.suffix in PARQUET:
            parts = _of_parquet(path, wanted_columns(options), block_rows, skip)
        else:
            kinds = options.get("types") or {}
            words = [name for name, kind in kinds.items() if kind in ("category", "identifier", "ignore")]
            parts = _behind(_in_blocks(frames(path, style, words, block_rows), block_rows), skip)
        sequence = options.get("sequence")
        yield from (frame for frame in parts if len(frame)) if sequence is None else whole_sequences(parts, sequence, str(path))


def wanted_columns(options: Mapping[str, Any]) -> list[str] | None:
    """The columns to read: those asked for, and those that options name; None: all."""
    if options.get("columns") is None:
        return None
    return list(dict.fromkeys([*options["columns"], *(options[name] for name in ASIDE if isinstance(options.get(name), str))]))


def _of_parquet(path: Path, columns: list[str] | None, block_rows: int, skip: int) -> Iterator["pd.DataFrame"]:
    """Frames of a Parquet file; row groups before the first row are not read."""
    import pyarrow
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False) as file:  # by itself it would read all row groups ahead
        if absent := [name for name in columns or () if name not in file.schema_arrow.names]:
            raise ZooError(f"{path} has no column {absent[0]!r}; its columns are {', '.join(file.schema_arrow.names)}")
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        group = int(np.searchsorted(np.cumsum(sizes), skip, side="right"))
        behind = skip - sum(sizes[:group])
        waiting: list[Any] = []
        for batch in file.iter_batches(block_rows, range(group, len(sizes)), columns):
            waiting.append(batch.slice(behind))
            behind = max(behind - batch.num_rows, 0)
            table = pyarrow.Table.from_batches(waiting)
            while table.num_rows >= block_rows:
                yield table.slice(0, block_rows).to_pandas()
                table = table.slice(block_rows)
            waiting = table.to_batches()
        if sum(batch.num_rows for batch in waiting):
            yield pyarrow.Table.from_batches(waiting).to_pandas()


def _in_blocks(parts: Iterator["pd.DataFrame"], block_rows: int) -> Iterator["pd.DataFrame"]:
    """Frames of at most ``block_rows`` rows: batches of an Arrow file may be larger."""
    for frame in parts:
        yield from (frame.iloc[begin : begin + block_rows] for begin in range(0, len(frame), block_rows))


def _behind(parts: Iterator["pd.DataFrame"], skip: int) -> Iterator["pd.DataFrame"]:
    """The frames behind the first ``skip`` rows."""
    for frame in parts:
        if skip < len(frame):
            yield frame.iloc[skip:]
        skip = max(skip - len(frame), 0)


class Weighing(NamedTuple):
    """What the weights of all rows mean, as `models.data.beside.weighed` decides of a table in memory."""

    meaning: str
    scale: float  # of every weight


def table_of(frame: "pd.DataFrame", name: str, options: Mapping[str, Any], weighing: Weighing | None = None) -> Data:
    """Some rows as `models.load_data` reads them; numbers alone are taken over as they are, which is faster.

    ``weighing`` is what the weights mean of all rows, of which these are some.
    """
    taken = {key: value for key, value in options.items() if key not in STYLE and value is not None and value is not False}
    if not set(taken) - {"columns"} and all(dtype.kind in "fiu" for dtype in frame.dtypes):
        chosen = frame if "columns" not in taken else frame[list(taken["columns"])]
        x = np.ascontiguousarray(chosen.to_numpy(np.float64))
        if not np.isinf(x).any():
            return Data(name, x, tuple(map(str, chosen.columns)))
    if weighing is None:
        return load_data(frame.reset_index(drop=True), name=name, **taken)
    data = load_data(frame.reset_index(drop=True), name=name, **(taken | {"weights": "counts"}))
    assert data.weight is not None
    return data._replace(weight=data.weight * weighing.scale, weights=weighing.meaning)
