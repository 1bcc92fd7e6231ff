"""Readers of files, DataFrames, arrays, sparse matrices and texts into `models.data.Data`; and `to_frame`, the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from models.cells.style import LINES, MARKS, Style, cell_name, style_of
from models.data.column_kinds import LEFT_OUT
from models.data.columns import EXACT, LOST, categories_of, cells_of, notes_of
from models.data.documents import Sequences, documents, tokenise
from models.data.labels import label_column, labelled
from models.data.missing_spellings import ParsedColumn, read_cells
from models.data.table import Data, Note, ZooError, is_sparse, take
from models.errors import did_you_mean, some_of
from models.reading.files import RARE_IN_NAMES, if_several, is_text, other_separator, read_file, separator_of
from models.reading.repairs import Repairs, repaired

if TYPE_CHECKING:
    import pandas as pd


class Wanted(NamedTuple):
    """Arguments of `models.data.load_data` that concern reading."""

    label: str | None = None
    columns: list[str] | None = None
    text: str | None = None
    unit: str | None = None
    name: str | None = None
    types: Mapping[str, str] = {}
    format: str | None = None
    corpus: Mapping[str, Any] = {}  # options of a format
    repairs: Repairs = Repairs()
    sequence: str | None = None
    keep: tuple[str, ...] = ()
    hints: Mapping[str, str] = {}  # column -> how its cells are read (`read_cells`), where the rows are part of a table
    empty: str | None = None  # keep or drop: rows without a text

    @property
    def as_text(self) -> set[str]:
        """The columns whose cells are always read as text."""
        words = {name for name, kind in self.types.items() if kind in ("category", "identifier", "ignore")}
        return words | set(self.repairs.columns) | ({self.text} if self.text is not None else set())


@dataclass(frozen=True)
class Part:
    """Some rows of a file as they were read, which `models.reading.load.load_data` takes in place of the whole file."""

    frame: pd.DataFrame
    name: str  # of the file or folder
    style: Style
    hints: Mapping[str, str]  # the whole table's hints for its columns, see `Wanted`


def read(source: Any, wanted: Wanted, options: Mapping[str, Any]) -> Data:
    """Read anything but a named data set; ``options`` as for `style_of`. Raises `ZooError` naming file, column, row, value."""
    style_of(options, plain=False)  # raises for unknown options of any source
    if wanted.format is not None:
        return _corpus(source, wanted, options)
    if given := [name for name, value in wanted.corpus.items() if value is not None]:
        raise ZooError(f"{given[0]} needs format=lda_c, uci or texts")
    rows = _token_lists(source, wanted.unit or "word")
    if rows is None and not is_sparse(source):
        return read_table(source, wanted, options)
    if named := [column for column in (wanted.label, wanted.text, *wanted.repairs.columns) if column is not None]:
        raise ZooError(f"there is no column {named[0]!r} in texts, lists or a matrix: labels= takes one label per row")
    if rows is None:
        return read_matrix(source, wanted.columns, wanted.name)
    return _documents(rows, wanted.name or ("texts" if isinstance(source[0], str) else "documents"))


def _corpus(source: Any, wanted: Wanted, options: Mapping[str, Any]) -> Data:
    """Read word counts in a corpus format, which has no named columns."""
    from models.reading.corpus_files import read_corpus

    assert wanted.format is not None
    if wanted.unit is not None:
        words = "words are what the tokeniser of texts finds" if wanted.format == "texts" else "its words are those of the file"
        raise ZooError(f"unit={wanted.unit} does not go with format={wanted.format}: {words}")
    types = {column: kind for column, kind in (wanted.types or {}).items() if column not in wanted.keep}
    options_given = {"label": wanted.label, "columns": wanted.columns, "text": wanted.text, "types": types or None, **options}
    if given := [name for name, value in options_given.items() if value is not None]:
        raise ZooError(
            f"{given[0]} does not go with format={wanted.format}, which has no such columns; labels= takes one per document"
        )
    return read_corpus(source, wanted.format, wanted.corpus, wanted.name)


def _documents(rows: list[Any], name: str) -> Data:
    """Documents may all be empty: a fitted model has a vocabulary for new rows."""
    return documents(rows, None if any(rows) else (), name)


def _token_lists(source: Any, unit: str) -> list[Any] | None:
    """Tokens of each row, if ``source`` is a list of texts or of lists of tokens; otherwise None."""
    if not isinstance(source, list | tuple) or not source:
        return None
    if all(isinstance(row, str) for row in source):
        return [tokenise(row, unit) for row in source]
    are_lists = [isinstance(row, list | tuple) for row in source]
    lists = [row for row, is_list in zip(source, are_lists, strict=True) if is_list]
    if not lists or (any(lists) and not any(isinstance(token, str) for row in lists for token in row)):
        return None
    if not all(are_lists):
        row = are_lists.index(False)
        got = type(source[row]).__name__
        raise ZooError(f"documents, row {row + 1}: expected a list of tokens as in other rows, got {got}; correct the row")
    return lists


def read_table(source: Any, wanted: Wanted, options: Mapping[str, Any]) -> Data:
    """Read a file, a DataFrame or an array: columns of numbers and categories, or one column of texts."""
    if isinstance(source, Part):
        return of_frame(source.frame, source.name, source.style, wanted._replace(hints=source.hints))
    return of_frame(*source_frame(source, wanted, options), wanted)


def _columns_there(names: list[str], named: Sequence[str], title: str, style: Style) -> str:
    """The columns that a table has instead of an absent one; a single one may be divided by another separator.

    The separator is right where the single column is one of the ``named`` ones, and where the mark in its name is the
    separator.
    """
    path = Path(title)
    if is_text(path) and path.suffix and not set(names) & set(named):
        marks = [word for word in (*RARE_IN_NAMES, "comma") if MARKS[word] != separator_of(path, style)]
        if other := other_separator(names, marks):
            return f"it has {if_several(names[0], other)}"
    return f"its columns are {some_of(names)}"


def of_frame(frame: pd.DataFrame, title: str, style: Style, wanted: Wanted) -> Data:
    """Read the cells of a DataFrame, written as ``style`` says; ``title`` names the table in messages."""
    frame = frame.rename(columns=str)
    twice = [str(c) for c in frame.columns[frame.columns.duplicated()]]
    if twice:
        raise ZooError(f"{title} has several columns named {twice[0]!r}: rename them")
    label, text, types = wanted.label, wanted.text, wanted.types
    chosen = wanted.columns
    named = [name for name in (label, text, *(chosen or []), *types, *wanted.repairs.columns) if name is not None]
    if absent := [name for name in named if name not in frame.columns]:
        there = _columns_there(list(frame.columns), named, title, style)
        raise ZooError(f"{title} has no column {absent[0]!r}{did_you_mean(absent[0], frame.columns)}; {there}")
    left_out = [c for c in wanted.repairs.columns if types.get(c) in ("identifier", "ignore")]
    frame = repaired(frame, wanted.repairs.without(left_out), style, title)
    if text is not None:
        return _of_texts(frame, text, title, style, wanted)
    real = [c for c in (frame.columns if chosen is None else chosen) if c != label]
    if not real:
        raise ZooError(f"{title} has no columns to model")
    aside = {c: types[c] for c in real if types.get(c) in ("identifier", "ignore")}
    kinds = {**types, **wanted.hints}
    read = {c: read_cells(frame[c], title, style, kinds.get(c, "")) for c in real if c not in aside}
    x = np.column_stack([cells.values for cells in read.values()]) if read else np.zeros((len(frame), 0))
    categories = tuple(cells.levels for cells in read.values())
    notes = [_note(c, frame[c], c == label, aside.get(c), read.get(c)) for c in frame.columns if c in real or c == label]
    notes = [note._replace(cells=_filled(frame[note.column])) if note.column == wanted.sequence else note for note in notes]
    data = Data(title, x, tuple(read), categories=categories if any(categories) else (), notes=tuple(notes))
    return data if label is None else labelled(data, frame[label], style, wanted.hints.get(label) == "category")


def _of_texts(frame: pd.DataFrame, text: str, title: str, style: Style, wanted: Wanted) -> Data:
    """Documents from a column of texts, with their kept columns and labels."""
    tokens = _tokens(frame[text], title, wanted.unit or "word", wanted.empty)
    data = _documents(tokens, title)
    if wanted.empty == "drop" and not all(tokens):
        filled = np.array([len(row) > 0 for row in tokens])
        if not filled.any():
            raise ZooError(f"{title}: column {text!r}: every text is empty")
        frame, data = frame[filled].reset_index(drop=True), take(data, filled)
        data = data._replace(remarks=(f"{(~filled).sum()} of {len(filled)} rows have no text, and are left out: {NUMBERED}",))
    data = data._replace(kept_columns=tuple((c, _filled(frame[c])) for c in wanted.keep if c in frame))
    words = wanted.hints.get(wanted.label or "") == "category"
    return data if wanted.label is None else labelled(data, frame[wanted.label], style, words)


def _note(name: str, column: pd.Series[Any], is_label: bool, left_out: str | None, cells: ParsedColumn | None) -> Note:
    """The note on a column after reading, before any rules."""
    if cells is not None:
        return Note(name, "category" if cells.levels else "number", LOST if _loses_digits(column, cells) else "", cells.spelled)
    if is_label:
        return Note(name, "label", "named by you")
    return Note(name, "identifier" if left_out == "identifier" else "ignored", "by data.types", cells=_filled(column))


def _loses_digits(column: pd.Series[Any], cells: ParsedColumn) -> bool:
    """Whether whole numbers, written with all their digits, are too large for a float; 6.02e23 is a measurement.

    In a column with missing cells pandas has made floats of them. These have more digits than measurements are written with.
    """
    import pandas as pd

    large = np.abs(cells.values) > EXACT  # False for a missing cell
    if cells.levels or not large.any():
        return False
    if pd.api.types.is_float_dtype(column):
        seen = cells.values[large]
        return bool(column.isna().any() and (seen < 2.0**64).all() and any(float(f"{one:.12g}") != one for one in seen))
    if pd.api.types.is_numeric_dtype(column):
        return True
    return any(cell_name(cell).lstrip("+-").isdecimal() for cell in column[large])


def _filled(column: pd.Series[Any]) -> np.ndarray:
    """The cells as they were given, None for an empty one."""
    return np.asarray(column.astype(object).where(column.notna(), None).to_numpy(dtype=object))


EMPTY = ("keep", "drop")  # rows without a text: documents without words, or left out
NUMBERED = "rows are numbered without them; data.keep adds a column to each"


def _tokens(column: pd.Series[Any], title: str, unit: str, empty: str | None) -> list[list[str]]:
    missing = np.flatnonzero(column.isna())
    if len(missing) and empty is None:
        raise ZooError(
            f"{title}: column {column.name!r}, row {missing[0] + 1}: the text is missing ({len(missing)} in all); fill it in, "
            "or say data.empty=keep (a document without words) or data.empty=drop (its row is left out)"
        )
    return [[] if gone else tokenise(str(text), unit) for text, gone in zip(column, column.isna(), strict=True)]


def to_frame(data: Data) -> pd.DataFrame:
    """Convert to a DataFrame with the columns of the source in their order, including those that were left out.

    Categories are Categoricals, counts Int64, numbers float64, each with its missing value; a set of candidate labels is
    ``a|b``. `load_data` reads the same table back. Raises `ZooError` for documents and sparse counts.
    """
    import pandas as pd

    if isinstance(data.x, Sequences) or is_sparse(data.x):
        raise ZooError(f"{data.name} holds documents or sparse counts, which cannot be a DataFrame")
    columns: dict[str, Any] = {}
    for note in notes_of(data):
        if note.column in data.columns:
            place = data.columns.index(note.column)
            values, levels = data.x[:, place], categories_of(data)[place]
            if levels:
                codes = np.where(np.isnan(values), -1, values).astype(int)
                columns[note.column] = pd.Categorical.from_codes(codes, categories=pd.Index(levels))
            else:
                columns[note.column] = pd.array(values, dtype="Int64") if note.kind == "count" else _whole(values)
        elif note.kind in LEFT_OUT:
            if (cells := cells_of(data, note.column)) is not None:
                columns[note.column] = _whole(cells)
        else:
            columns[note.column] = label_column(data)
    return pd.DataFrame(columns)


def _whole(cells: np.ndarray) -> Any:
    """Complete columns of whole numbers as integers, so that names that are numbers keep their spelling."""
    import pandas as pd

    if cells.dtype == object:
        if not all(isinstance(cell, float) for cell in cells):
            return cells
        cells = cells.astype(np.float64)
    whole = np.isfinite(cells).all() and (cells == np.floor(cells)).all() and (np.abs(cells) < 2**53).all()
    return pd.array(cells, dtype="Int64") if whole else cells


def read_matrix(source: Any, columns: Any, name: str | None) -> Data:
    """Read a SciPy sparse matrix of counts, with columns named by ``columns``."""
    names = [f"x{d}" for d in range(source.shape[1])] if columns is None else [str(c) for c in columns]
    if len(names) != source.shape[1] or len(set(names)) != len(names):
        raise ZooError(f"columns: expected {source.shape[1]} distinct names, one per column of the matrix, got {len(names)}")
    return Data(name or "matrix", sparse.csr_array(source, dtype=np.float64), tuple(names))


def source_frame(source: Any, wanted: Wanted, options: Mapping[str, Any]) -> tuple[pd.DataFrame, str, Style]:
    """(the cells as a DataFrame, name of the table, how its cells are written)."""
    import pandas as pd

    if isinstance(source, str | Path):
        path = Path(source)
        style = style_of(options, plain=is_text(path))
        return read_file(path, style, wanted.as_text), str(source), style
    style = style_of(options, plain=False)
    if given := [name for name in ("separator", *LINES) if style._asdict()[name] is not None]:
        raise ZooError(f"{given[0]} is for text files; this table already has columns")
    if isinstance(source, pd.Series):
        source = source.to_frame("x0" if source.name is None else source.name)
    if isinstance(source, pd.DataFrame):
        return source, wanted.name or "table", style
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return _of_arrow(source), wanted.name or "table", style
    return _frame_of_array(source), wanted.name or "array", style


def _of_arrow(source: Any) -> pd.DataFrame:
    """Read any object with the Arrow interface, such as pyarrow tables and polars DataFrames."""
    import pyarrow

    try:
        return pyarrow.table(source).to_pandas()
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise ZooError(f"data: this {type(source).__name__} cannot be read as a table: {error}") from error


def _frame_of_array(source: Any) -> pd.DataFrame:
    import pandas as pd

    try:
        array = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError) as error:
        listed = isinstance(source, list | tuple | np.ndarray)
        why = f": {error}" if listed else "; functions of inference take (model, result, data), in this order"
        raise ZooError(
            "data: expected the name of a data set, a file, a DataFrame, numbers or a list of texts, not "
            f"{type(source).__name__}{why}"
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ZooError(f"data: an array must have rows and columns, but it has shape {array.shape}")
    return pd.DataFrame(array, columns=[f"x{d}" for d in range(array.shape[1])])
