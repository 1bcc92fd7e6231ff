"""Rows in files: Parquet, Arrow or text, one file or all of a folder, of which a block is in memory at a time.

Files are read in the order of their names, and each is cut into blocks from its beginning.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from models.base import Data, ZooError
from models.cells.style import Style, style_of
from models.data.missing_spellings import number_of
from models.errors import exists, some_of
from models.reading.blocks import REPAIRS, STYLE, whole_sequences
from models.reading.files import ARROW, PARQUET, TABBED, ending, frames, is_text, refused_tables, require_file
from models.reading.load import load_data
from models.reading.readers import Part, Wanted
from models.reading.repairs import checked_repairs

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (*PARQUET, *ARROW, *TABBED, ".csv", ".txt")
ASIDE = ("label", "weight", "sequence", "text")  # options that name a column outside the model


def files_of(path: str | Path) -> list[Path]:
    """The file, or the tables in the folder in the order of their names; raises `ZooError` where there is none."""
    place = Path(path)
    if not (exists(place) and place.is_dir()):
        require_file(place)
        return [place]
    files = sorted(file for file in place.iterdir() if file.suffix in ENDINGS)
    if not files:
        raise ZooError(f"data={path}: there is no table in this folder, no file that ends in {', '.join(ENDINGS)}")
    if len(endings := sorted({file.suffix for file in files})) > 1:
        raise ZooError(f"data={path}: this folder has tables of several kinds ({', '.join(endings)}); keep one kind in it")
    return files


def cut(
    path: Path, options: Mapping[str, Any], block_rows: int, skip: int = 0, words: Collection[str] = ()
) -> Iterator["pd.DataFrame"]:
    """The frames of one file after its first ``skip`` rows, of ``block_rows`` rows; sequences are whole, and may need more.

    Of a text file the columns of ``words`` are read as text, as are those that `models.load_data` reads as text.
    """
    style = style_at(path, options)
    with refused_tables(path, style):
        if ending(path) in PARQUET:
            parts = _of_parquet(path, wanted_columns(options), block_rows, skip)
        else:
            parts = _after(_in_blocks(frames(path, style, {*as_text(options), *words}, block_rows), block_rows), skip)
        sequence = options.get("sequence")
        yield from (frame for frame in parts if len(frame)) if sequence is None else whole_sequences(parts, sequence, str(path))


def style_at(path: str | Path, options: Mapping[str, Any]) -> Style:
    """The style of the cells of a file, or of the files in a folder."""
    return style_of({key: options[key] for key in STYLE if options.get(key) is not None}, plain=is_text(files_of(path)[0]))


def as_text(options: Mapping[str, Any]) -> set[str]:
    """The columns of a text file that are read as text, as `models.load_data` reads them."""
    aside = [name for name in (options.get("sequence"), *(options.get("keep") or ())) if name is not None]
    types = {name: str(kind) for name, kind in (options.get("types") or {}).items()} | dict.fromkeys(aside, "category")
    repairs = checked_repairs(*(options.get(name) for name in REPAIRS))
    return Wanted(types=types, repairs=repairs, text=options.get("text")).as_text


def wanted_columns(options: Mapping[str, Any]) -> list[str] | None:
    """The columns to read: those requested, and those that options name; None: all."""
    if options.get("columns") is None:
        return None
    return list(dict.fromkeys([*options["columns"], *(options[name] for name in ASIDE if isinstance(options.get(name), str))]))


def _of_parquet(path: Path, columns: list[str] | None, block_rows: int, skip: int) -> Iterator["pd.DataFrame"]:
    """Frames of a Parquet file; row groups before the first row are not read."""
    import pyarrow
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False) as file:  # else it reads all row groups ahead
        if absent := [name for name in columns or () if name not in file.schema_arrow.names]:
            raise ZooError(f"{path} has no column {absent[0]!r}; its columns are {some_of(file.schema_arrow.names)}")
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        group = int(np.searchsorted(np.cumsum(sizes), skip, side="right"))
        skipped = skip - sum(sizes[:group])
        waiting: list[Any] = []
        for batch in file.iter_batches(block_rows, range(group, len(sizes)), columns):
            waiting.append(batch.slice(skipped))
            skipped = max(skipped - batch.num_rows, 0)
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


def _after(parts: Iterator["pd.DataFrame"], skip: int) -> Iterator["pd.DataFrame"]:
    """The frames after the first ``skip`` rows."""
    for frame in parts:
        if skip < len(frame):
            yield frame.iloc[skip:]
        skip = max(skip - len(frame), 0)


class Weighing(NamedTuple):
    """The meaning of the weights of all rows, as `models.data.beside.weighed` decides it for a table in memory."""

    meaning: str
    scale: float  # of every weight


class Known(NamedTuple):
    """Properties of all rows, for reading some of them."""

    hints: Mapping[str, str] = {}  # of the columns, see `models.reading.readers.Wanted`
    weighing: Weighing | None = None  # the meaning of the weights


def table_of(frame: "pd.DataFrame", name: str, options: Mapping[str, Any], style: Style, known: Known) -> Data:
    """Some rows as `models.load_data` reads the whole table; a table of numbers alone is used as it is, which is faster."""
    taken = {key: value for key, value in options.items() if key not in STYLE and value is not None and value is not False}
    numbers_are_missing = any(not np.isnan(number_of(word)) for word in style.words)
    plain = not set(taken) - {"columns"} and not numbers_are_missing and all(dtype.kind in "fiu" for dtype in frame.dtypes)
    columns = taken.get("columns")
    if plain and (columns is None or (columns and set(columns) <= set(frame.columns))):
        chosen = frame if columns is None else frame[list(columns)]
        x = np.ascontiguousarray(chosen.to_numpy(np.float64))
        if not np.isinf(x).any():
            return Data(name, x, tuple(map(str, chosen.columns)))
    part = Part(frame.reset_index(drop=True), name, style, known.hints)
    if known.weighing is None:
        return load_data(part, **taken)
    data = load_data(part, **(taken | {"weights": "counts"}))
    assert data.weight is not None
    return data._replace(weight=data.weight * known.weighing.scale, weights=known.weighing.meaning)
