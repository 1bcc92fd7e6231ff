"""Tables in files: text (CSV), Parquet and Arrow, read as a whole or in frames of some rows at a time."""

from __future__ import annotations

import csv
import lzma
import re
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from models.cells.style import LINES, MARKS, Style, style_of
from models.errors import ZooError, did_you_mean, exists
from models.reading.arrow_files import arrow_batches, parquet_batches, read_arrow, spelt
from models.reading.lines.above import LOOKED_AT, cells_of, names_of, oddities_above
from models.reading.lines.below import WithoutEnd, oddity_below
from models.reading.lines.encodings import likely_encoding

if TYPE_CHECKING:
    import pandas as pd

    from models.reading.lines.oddity import Oddity

UNPACKING = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError)  # of a packed file that is not whole
PACKED = (".gz", ".bz2", ".xz", ".zip", ".tar", ".zst")
ARRAYS = (".npy", ".npz")
TAIL = 1000  # rows at the end of a table that is read in blocks, which are looked at together
JSON = (".json", ".jsonl", ".ndjson")
SHOWN = 80  # characters of a path in a message
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
PARQUET, ARROW, TABBED = (".parquet", ".pq"), (".arrow", ".feather", ".ipc", ".arrows"), (".tsv", ".tab")


def _files_in_folder(path: Path) -> list[str]:
    """Names of the files in the folder of a path; none where the folder cannot be read."""
    try:
        return [file.name for file in path.parent.iterdir() if file.is_file()]
    except OSError:
        return []


def ending(path: Path) -> str:
    """The ending of a file's name in small letters, without that of a packed file.

    >>> ending(Path("table.TSV.gz")), ending(Path("table.gz"))
    ('.tsv', '')
    """
    names = [name.lower() for name in path.suffixes]
    while names and names[-1] in PACKED:
        names.pop()
    return names[-1] if names else ""


def is_text(path: Path) -> bool:
    """Whether a file is read as text, by the ending of its name."""
    return ending(path) not in (*PARQUET, *ARROW)


def read_file(path: Path, style: Style, as_text: Collection[str]) -> pd.DataFrame:
    """The table in a text file (CSV), a Parquet or an Arrow file; raises `ZooError` for a file that holds none."""
    import pandas as pd

    require_file(path)
    if not is_text(path) and (given := [name for name in LINES if style._asdict()[name] is not None]):
        raise ZooError(f"{given[0]} is for text files; {path} has columns with names already")
    with refused_tables(path, style):
        if ending(path) in PARQUET:
            return pd.read_parquet(path)
        if ending(path) in ARROW:
            return read_arrow(path)
        return _read_text(path, style, as_text)


def require_file(path: Path) -> None:
    """Raises `ZooError` for a path that is no file."""
    from models.datasets.tables import DATASETS

    if path.suffix.lower() in SPREADSHEETS:
        raise ZooError(f"{path} is a spreadsheet: save it as CSV, or in Python give load_data what pandas.read_excel reads")
    if path.suffix.lower() in ARRAYS:
        raise ZooError(f"{path} holds arrays of NumPy: save one as CSV, or in Python give load_data what numpy.load reads")
    if ending(path) in JSON:
        raise ZooError(f"{path} holds JSON: save it as CSV, or in Python give load_data what pandas.read_json reads")
    if not is_text(path) and path.suffix.lower() in PACKED:
        raise ZooError(f"{path} is packed: unpack it, as a {ending(path)} file is read only as it is")
    if exists(path) and path.is_dir():
        raise ZooError(f"{path} is a folder: data.format=texts reads each of its files as a document")
    if not (exists(path) and path.is_file()):
        shown = str(path) if len(str(path)) <= SHOWN else f"…{str(path)[-SHOWN:]}"  # its end names the file
        near = did_you_mean(shown, DATASETS) or did_you_mean(path.name, _files_in_folder(path))
        raise ZooError(
            f"data: {shown!r} is neither a file nor a named data set{near} "
            f"({', '.join(DATASETS)}); in Python, give texts as a list"
        )


@contextmanager
def refused_tables(path: Path, style: Style) -> Iterator[None]:
    """A context that raises `ZooError` for a file that pandas or Arrow cannot read as a table."""
    import pandas as pd

    try:
        yield
    except ZooError:
        raise
    except UnicodeDecodeError as error:
        likely = (path.suffix.lower() not in PACKED and likely_encoding(path.read_bytes())) or "cp1252"
        raise ZooError(f"{path} is not written in {style.encoding} ({error.reason}); try data.encoding={likely}") from error
    except UNPACKING as error:
        raise ZooError(f"{path} cannot be unpacked ({error}): it is damaged or cut short; get it again") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, OSError, ImportError, ValueError) as error:
        raise ZooError(no_table(path, error)) from error
    except RuntimeError as error:  # of an archive with a password, or packed in a way that Python does not know
        if path.suffix.lower() not in PACKED:
            raise
        raise ZooError(f"{path} cannot be unpacked: {error}") from error


def unpacked(path: Path) -> bytes:
    """All bytes of a text file, which pandas unpacks as it does where it reads the table."""
    from pandas.io.common import get_handle  # type: ignore[import-not-found]  # not in the stubs

    with get_handle(path, "rb", compression="infer", is_text=False) as reader_input:
        return bytes(reader_input.handle.read())


def no_table(path: Path, error: Exception) -> str:
    """Why pandas or Arrow cannot read a file as a table, in words."""
    message = str(error).strip()
    widths = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message)
    if widths is not None:
        expected, line, seen = widths.groups()
        quotes = "a cell that holds the separator needs quotes"
        return f"{path}: line {line} has {seen} cells, and the lines before have {expected}; {quotes}"
    return f"{path} is empty" if message == "No columns to parse from file" else f"{path} cannot be read as a table: {message}"


def _read_text(path: Path, style: Style, as_text: Collection[str]) -> pd.DataFrame:
    """Read a CSV file: numbers as numbers, everything else as text, including spellings of missing cells."""
    import pandas as pd

    options = text_options(path, style, as_text)
    with wide_rows_as_errors(path), reader_input(path, style) as file:
        frame = pd.read_csv(file, **options)
    if doubtful := oddity_below(frame, style):
        raise ZooError(f"{path}: {doubtful.message}")
    return frame


@contextmanager
def reader_input(path: Path, style: Style) -> Iterator[Any]:
    """The input of pandas: the file, or its text without the lines below the table."""
    if not style.skip_end:
        yield path
        return
    from pandas.io.common import get_handle  # the function with which pandas opens packed files

    with get_handle(path, "r", encoding=style.encoding, compression="infer") as packed:
        yield WithoutEnd(packed.handle, style.skip_end)


def first_lines(path: Path, style: Style) -> list[str]:
    """The first lines of a text file, also of a packed one."""
    import pandas as pd

    if style.encoding == "utf-8" and path.suffix.lower() not in PACKED:
        with path.open("rb") as file:
            start = file.read(4096)
        if b"\0" in start and (likely := likely_encoding(start)):
            raise ZooError(f"{path} is not written in utf-8; try data.encoding={likely}")
    plain: dict[str, Any] = {"names": ["line"], "dtype": str, "na_filter": False, "skip_blank_lines": False}
    lines = pd.read_csv(path, sep="\1", quoting=csv.QUOTE_NONE, nrows=LOOKED_AT, encoding=style.encoding, **plain)
    return [str(line) for line in lines["line"]]


RARE_IN_NAMES = ("semicolon", "tab", "bar")  # separators that are seldom part of a name; commas often are


def other_separator(names: Sequence[str], among: Collection[str] = RARE_IN_NAMES) -> str:
    """The separator that may divide a header with one name: the most frequent mark in it; "" for any other header.

    >>> other_separator(["a;b;c|d"]), other_separator(["weight, kg"]), other_separator(["a;b", "c"])
    ('semicolon', '', '')
    """
    marks = {word: names[0].count(MARKS[word]) for word in among} if len(names) == 1 else {}
    best = max(marks, key=lambda word: marks[word], default="")
    return best if marks.get(best) else ""


def if_several(name: str, separator: str) -> str:
    """The remark on a table with one column that may be several."""
    return f"one column, {name!r}: if these are several columns, use data.separator={separator}"


def separator_of(path: Path, style: Style) -> str:
    """The mark between the cells of a text file: the user's option, or by the ending of its name."""
    return style.separator or ("\t" if ending(path) in TABBED else ",")


class Marks(NamedTuple):
    """The marks of a table in a text file: between its cells, and in its numbers."""

    separator: str = ","
    decimal: str = "."


CSV = Marks()


def marks_of(source: Any, options: Mapping[str, Any]) -> Marks:
    """The marks of the table that ``source`` names, read with ``options``; those of CSV where it is no text file.

    >>> marks_of("table.csv", {"separator": "semicolon", "decimal": "comma"})
    Marks(separator=';', decimal=',')
    """
    path = Path(str(source))
    if not is_text(path) or options.get("format") is not None:
        return CSV
    style = style_of({name: options[name] for name in ("separator", "decimal") if options.get(name) is not None}, plain=True)
    return Marks(separator_of(path, style), style.decimal)


def oddities_of(path: Path, style: Style) -> list[Oddity]:
    """Oddities of the first lines of a text file, which the reader would take for something else."""
    lines = first_lines(path, style)
    usual = separator_of(path, style._replace(separator=None))
    return oddities_above(lines, style.separator, usual, style.skip, style.header)


def names_in(path: Path, style: Style) -> list[str]:
    """The names of the columns, without those that are blank; read apart, as pandas renames a second "x" to "x.1"."""
    import pandas as pd

    separator = separator_of(path, style)
    if style.header is not None and style.header > 1:
        return names_of(cells_of(first_lines(path, style), separator, style.skip or 0).rows[: style.header])
    options: dict[str, Any] = {"sep": separator, "skipinitialspace": True, "encoding": style.encoding}
    first = pd.read_csv(path, header=None, nrows=1, dtype=str, skiprows=style.skip or 0, **options)
    if style.header == 0:
        return [f"x{place}" for place in range(first.shape[1])]
    return [str(name) for name in first.iloc[0] if not pd.isna(name)]


def _head_options(path: Path, style: Style, names: list[str]) -> dict[str, Any]:
    """How pandas finds the first row; nothing for an ordinary file."""
    if style.header in (None, 1):
        return {"skiprows": style.skip} if style.skip else {}
    behind = style.skip or 0
    if style.header:
        behind = cells_of(first_lines(path, style), separator_of(path, style), behind).at[: style.header][-1] + 1
    return {"skiprows": behind, "header": None, "names": names}


def text_options(path: Path, style: Style, as_text: Collection[str]) -> dict[str, Any]:
    """How pandas reads a text file: options of `pandas.read_csv`. Raises `ZooError` for a header that cannot be meant."""
    if doubtful := oddities_of(path, style):
        raise ZooError(f"{path}: {doubtful[0].message}")
    names = names_in(path, style)
    twice = [name for index, name in enumerate(names) if name in names[:index]]
    if twice:
        raise ZooError(f"{path} has several columns named {twice[0]!r}: rename them")
    if style.separator is None and (other := other_separator(names)):
        raise ZooError(f"{path} has {if_several(names[0], other)}")
    return head_and_marks(path, style, names) | {"dtype": str if style.thousands else dict.fromkeys(as_text, str)}


def head_and_marks(path: Path, style: Style, names: list[str] | None = None) -> dict[str, Any]:
    """How pandas reads a text file whose ``names`` are right, without the kinds of its columns."""
    return {
        "sep": separator_of(path, style),
        "skipinitialspace": True,
        "keep_default_na": False,
        "na_values": [""],
        "index_col": False,  # otherwise the first column is lost if every row ends in a separator
        "low_memory": False,  # otherwise a column could be read partly as numbers and partly as text
        "decimal": style.decimal,
        "thousands": None,  # pandas drops such marks wherever they stand, and would read 1,5 as 15: cells stay texts
        "encoding": style.encoding,
        **_head_options(path, style, names_in(path, style) if names is None else names),
    }


@contextmanager
def wide_rows_as_errors(path: Path) -> Iterator[None]:
    """A context that raises `ZooError` where pandas only warns: for rows that are wider than the header."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            yield
        except pd.errors.ParserWarning as warning:
            raise ZooError(f"{path}: rows have more cells than the header has names; name every column") from warning


def frames(
    path: Path, style: Style, as_text: Collection[str], size: int, texts: Collection[str] = ()
) -> Iterator[pd.DataFrame]:
    """The rows of `read_file` in frames of ``size`` rows; an Arrow file is read by its own record batches.

    Rows are numbered through the whole file. Kinds of cells are found frame by frame: name the columns of words in ``as_text``.
    ``kept_columns`` come as the texts of the file: an Arrow integer in a column with empty cells stays one.
    """
    require_file(path)
    with refused_tables(path, style):
        if is_text(path):
            yield from _text_frames(path, style, {*as_text, *texts}, size)
            return
        first = 0
        for batch in parquet_batches(path, size) if ending(path) in PARQUET else arrow_batches(path):
            frame = batch.to_pandas()
            for name in texts:
                if name in frame:
                    frame[name] = spelt(batch.column(name))
            frame.index = range(first, first + len(frame))
            first += len(frame)
            yield frame


def _text_frames(path: Path, style: Style, as_text: Collection[str], size: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    options, last = text_options(path, style, as_text), None
    with reader_input(path, style) as file, pd.read_csv(file, chunksize=size, **options) as reader:
        while True:
            with wide_rows_as_errors(path):
                frame = next(reader, None)
            if frame is None:
                break
            last = frame.iloc[-TAIL:] if last is None else pd.concat([last, frame.iloc[-TAIL:]]).iloc[-TAIL:]
            yield frame
    if last is not None and (doubtful := oddity_below(last, style, whole=False)):
        raise ZooError(f"{path}: {doubtful.message}")
