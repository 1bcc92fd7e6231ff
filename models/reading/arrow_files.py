"""Parquet and Arrow files, read as a whole or by batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def read_arrow(path: Path) -> pd.DataFrame:
    """Read an Arrow (feather) file, or a stream written to disk."""
    import pyarrow

    with pyarrow.OSFile(str(path)) as file:
        return _reader(file).read_all().to_pandas()


def arrow_batches(path: Path) -> Iterator[Any]:
    """The record batches of an Arrow file, or of a stream written to disk."""
    import pyarrow

    with pyarrow.OSFile(str(path)) as file:
        reader = _reader(file)
        if isinstance(reader, pyarrow.ipc.RecordBatchFileReader):
            yield from map(reader.get_batch, range(reader.num_record_batches))
        else:
            yield from reader


def parquet_batches(path: Path, size: int) -> Iterator[Any]:
    """The rows of a Parquet file in batches of ``size`` rows."""
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False) as file:  # by default it would hold all row groups that it has read
        yield from file.iter_batches(size)


def spelt(column: Any) -> list[str | None]:
    """The cells of an Arrow column as texts; None where one is empty."""
    return [None if cell is None else str(cell) for cell in column.to_pylist()]


def _reader(file: Any) -> Any:
    import pyarrow

    magic = file.read(6)
    file.seek(0)
    return pyarrow.ipc.open_file(file) if magic == b"ARROW1" else pyarrow.ipc.open_stream(file)
