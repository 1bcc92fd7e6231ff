"""Tables that are written in parts, as CSV or Parquet by the ending of their name: whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.runtime.pieces import in_pieces
from models.reading.files import Marks

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def in_tables(path: Path, marks: Marks, words: Sequence[str] = ()) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Yields the function that writes the next rows; without any there is no file. CSV has the ``marks``.

    The columns of ``words`` may hold numbers and words; Parquet has them as texts.
    """
    with in_pieces(path) as write_piece:
        if path.suffix != ".parquet":
            yield _CSV(write_piece, marks).write
            return
        table = _Parquet(write_piece, words)
        try:
            yield table.write
        except BaseException:
            table.abandon()
            raise
        table.close()


class _CSV:
    """With the marks of another table, so that one program opens both."""

    def __init__(self, write_piece: Callable[[bytes], None], marks: Marks) -> None:
        self._write_piece, self._marks, self._begun = write_piece, marks, False

    def write(self, frame: pd.DataFrame) -> None:
        from inference.report.numbers import in_digits

        text = in_digits(frame, self._marks.decimal).to_csv(index=False, header=not self._begun, sep=self._marks.separator)
        self._write_piece(str(text).encode())
        self._begun = True


class _Parquet:
    """A row group for each part; the types of the columns are those of the first."""

    def __init__(self, write_piece: Callable[[bytes], None], words: Sequence[str]) -> None:
        self._sink, self._words = _Sink(write_piece), words
        self._writer: Any = None

    def write(self, frame: pd.DataFrame) -> None:
        import pyarrow
        from pyarrow import parquet

        frame = frame.astype(dict.fromkeys(self._words, "string"))
        if self._writer is None:
            schema = pyarrow.Schema.from_pandas(frame, preserve_index=False)
            kinds = [(field.name, pyarrow.string() if field.type == pyarrow.null() else field.type) for field in schema]
            self._writer = parquet.ParquetWriter(pyarrow.PythonFile(self._sink, "w"), pyarrow.schema(kinds))
        self._writer.write_table(pyarrow.Table.from_pandas(frame, schema=self._writer.schema, preserve_index=False))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def abandon(self) -> None:
        """Let the writer end silently: its file is gone."""
        self._sink.abandoned = True
        self.close()


class _Sink:
    """A file, as pyarrow asks for one, whose bytes are handed on."""

    def __init__(self, write_piece: Callable[[bytes], None]) -> None:
        self._write_piece, self._written = write_piece, 0
        self.closed = self.abandoned = False

    def write(self, content: Any) -> int:
        if not self.abandoned:
            self._write_piece(bytes(content))
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        self.closed = True
