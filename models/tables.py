"""Tables read into `models.data.Data`: files, DataFrames, arrays, SciPy's sparse matrices, and texts; and written back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from models.cells import Cells, Style, read_cells, style_of
from models.columns import categories_of, cells_of, notes_of
from models.data import Data, Note, ZooError, exists, is_sparse
from models.documents import Sequences, documents, tokenise
from models.kinds import LEFT_OUT
from models.labels import label_column, labelled

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 80  # characters of a path in a message
PARQUET, ARROW, TABBED = (".parquet", ".pq"), (".arrow", ".feather", ".ipc", ".arrows"), (".tsv", ".tab")


class Wanted(NamedTuple):
    """What is asked of a source: arguments of `models.data.load_data`."""

    label: str | None = None
    columns: list[str] | str | None = None
    text: str | None = None
    unit: str | None = None
    name: str | None = None
    types: Mapping[str, str] = {}
    format: str | None = None
    corpus: Mapping[str, Any] = {}  # options of a format


def is_named(source: str) -> bool:
    """Whether there is a data set of this name."""
    from models.datasets import DATASETS

    return source in DATASETS


def generate(name: str, options: dict[str, Any]) -> Data:
    """A named data set, with the options of its generator; raises `ZooError` for an option that it does not take."""
    import inspect

    from models.datasets import DATASETS

    known = list(inspect.signature(DATASETS[name]).parameters)
    unknown = sorted(set(options) - set(known))
    if unknown:
        takes = ", ".join(known) if known else "none of its own"
        raise ZooError(f"unknown option {unknown[0]!r} of data set {name}: it takes {takes}")
    try:
        return DATASETS[name](**options)
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{key}={value}" for key, value in options.items())
        raise ZooError(f"data set {name} cannot be made with {given}: {error}") from error


def read(source: Any, wanted: Wanted, options: Mapping[str, Any]) -> Data:
    """Whatever is not a named data set; ``options`` as for `style_of`. Raises `ZooError` naming file, column, row and value."""
    style_of(options, plain=False)  # refuses what is no option, whatever the source
    if wanted.format is not None:
        return _corpus(source, wanted, options)
    if given := [name for name, value in wanted.corpus.items() if value is not None]:
        raise ZooError(f"{given[0]} goes with format=lda_c, uci or texts")
    rows = _token_lists(source, wanted.unit or "word")
    if rows is None and not is_sparse(source):
        return read_table(source, wanted, options)
    if (column := wanted.label or wanted.text) is not None:
        raise ZooError(f"there is no column {column!r} in texts, lists or a matrix: labels= takes one label a row")
    if rows is None:
        return read_matrix(source, wanted.columns, wanted.name)
    return _documents(rows, wanted.name or ("texts" if isinstance(source[0], str) else "documents"))


def _corpus(source: Any, wanted: Wanted, options: Mapping[str, Any]) -> Data:
    """Counts of words in files of a format of their own, which have no columns to name."""
    from models.corpus_files import read_corpus

    assert wanted.format is not None
    if wanted.unit is not None:
        words = "words are what the tokeniser of texts finds" if wanted.format == "texts" else "its words are those of the file"
        raise ZooError(f"unit={wanted.unit} does not go with format={wanted.format}: {words}")
    asked = {"label": wanted.label, "columns": wanted.columns, "text": wanted.text, "types": wanted.types or None, **options}
    if given := [name for name, value in asked.items() if value is not None]:
        raise ZooError(
            f"{given[0]} does not go with format={wanted.format}, which has no such columns; labels= takes one a document"
        )
    return read_corpus(source, wanted.format, wanted.corpus, wanted.name)


def _documents(rows: list[Any], name: str) -> Data:
    """Also rows without a single token: a model has a vocabulary of its own, and can say what it thinks of them."""
    return documents(rows, None if any(rows) else (), name)


def _token_lists(source: Any, unit: str) -> list[Any] | None:
    """The rows of a list of texts, or of a list of lists of which a member is a text or all are empty; else None."""
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
        raise ZooError(f"documents, row {row + 1}: expected a list of tokens, which other rows are, got {got}; mend the row")
    return lists


def read_table(source: Any, wanted: Wanted, options: Mapping[str, Any]) -> Data:
    """A file, a DataFrame or an array: columns of numbers and categories, or one of texts."""
    frame, title, style = _frame(source, wanted, options)
    frame = frame.rename(columns=str)
    twice = [str(c) for c in frame.columns[frame.columns.duplicated()]]
    if twice:
        raise ZooError(f"{title} has several columns named {twice[0]!r}: rename them")
    label, text, types = wanted.label, wanted.text, wanted.types
    chosen = [wanted.columns] if isinstance(wanted.columns, str) else wanted.columns
    for name in [label, text, *(chosen or []), *types]:
        if name is not None and name not in frame.columns:
            raise ZooError(f"{title} has no column {name!r}; its columns are {', '.join(frame.columns)}")
    if text is not None:
        data = _documents(_tokens(frame[text], title, wanted.unit or "word"), title)
        return data if label is None else labelled(data, frame[label], style)
    real = [c for c in (frame.columns if chosen is None else chosen) if c != label]
    if not real:
        raise ZooError(f"{title} has no columns to model")
    aside = {c: types[c] for c in real if types.get(c) in ("identifier", "ignore")}
    read = {c: read_cells(frame[c], title, style, types.get(c, "")) for c in real if c not in aside}
    x = np.column_stack([cells.values for cells in read.values()]) if read else np.zeros((len(frame), 0))
    categories = tuple(cells.levels for cells in read.values())
    notes = [_note(c, frame[c], c == label, aside.get(c), read.get(c)) for c in frame.columns if c in real or c == label]
    data = Data(title, x, tuple(read), categories=categories if any(categories) else (), notes=tuple(notes))
    return data if label is None else labelled(data, frame[label], style)


def _note(name: str, column: pd.Series[Any], is_label: bool, left_out: str | None, cells: Cells | None) -> Note:
    """What reading alone has to say of a column."""
    if cells is not None:
        return Note(name, "category" if cells.levels else "number", "", cells.spelled)
    if is_label:
        return Note(name, "label", "named by you")
    filled = column.astype(object).where(column.notna(), None).to_numpy(dtype=object)
    return Note(name, "identifier" if left_out == "identifier" else "ignored", "left out by you", cells=filled)


def _tokens(column: pd.Series[Any], title: str, unit: str) -> list[list[str]]:
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise ZooError(f"{title}: column {column.name!r}, row {missing[0] + 1}: there is no text; fill it in or remove the row")
    return [tokenise(str(text), unit) for text in column]


def to_frame(data: Data) -> pd.DataFrame:
    """The table in its own terms: a DataFrame with the columns in the order of the source, also those that were left out.

    Categories are Categoricals of level names, counts are Int64, numbers float64, each with its missing value; a label with
    several candidates is ``a|b``. `load_data` of it is the same table. Raises `ZooError` for documents and sparse counts.
    """
    import pandas as pd

    if isinstance(data.x, Sequences) or is_sparse(data.x):
        raise ZooError(f"{data.name} holds documents or sparse counts, which are no table")
    found: dict[str, Any] = {}
    for note in notes_of(data):
        if note.column in data.columns:
            place = data.columns.index(note.column)
            values, levels = data.x[:, place], categories_of(data)[place]
            if levels:
                codes = np.where(np.isnan(values), -1, values).astype(int)
                found[note.column] = pd.Categorical.from_codes(codes, categories=pd.Index(levels))
            else:
                found[note.column] = pd.array(values, dtype="Int64") if note.kind == "count" else _whole(values)
        elif note.kind in LEFT_OUT:
            if (cells := cells_of(data, note.column)) is not None:
                found[note.column] = _whole(cells)
        else:
            found[note.column] = label_column(data)
    return pd.DataFrame(found)


def _whole(cells: np.ndarray) -> Any:
    """Whole numbers without a hole as integers, as a file had them: names that are numbers must not change their looks."""
    import pandas as pd

    if cells.dtype == object:
        if not all(isinstance(cell, float) for cell in cells):
            return cells
        cells = cells.astype(np.float64)
    whole = np.isfinite(cells).all() and (cells == np.floor(cells)).all() and (np.abs(cells) < 2**53).all()
    return pd.array(cells, dtype="Int64") if whole else cells


def read_matrix(source: Any, columns: Any, name: str | None) -> Data:
    """A SciPy sparse matrix of counts, its columns named by ``columns``."""
    names = [f"x{d}" for d in range(source.shape[1])] if columns is None else [str(c) for c in columns]
    if len(names) != source.shape[1] or len(set(names)) != len(names):
        raise ZooError(f"columns: expected {source.shape[1]} different names, one a column of the matrix, got {len(names)}")
    return Data(name or "matrix", sparse.csr_array(source, dtype=np.float64), tuple(names))


def _frame(source: Any, wanted: Wanted, options: Mapping[str, Any]) -> tuple[pd.DataFrame, str, Style]:
    """(the cells as a DataFrame, what the table is called, how its cells are written)."""
    import pandas as pd

    if isinstance(source, str | Path):
        path = Path(source)
        style = style_of(options, plain=path.suffix not in (*PARQUET, *ARROW))
        return _read(path, style, wanted.types), str(source), style
    style = style_of(options, plain=False)
    if style.separator is not None:
        raise ZooError("separator is for text files: this table has columns already")
    if isinstance(source, pd.Series):
        source = source.to_frame("x0" if source.name is None else source.name)
    if isinstance(source, pd.DataFrame):
        return source, wanted.name or "table", style
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return _of_arrow(source), wanted.name or "table", style
    return _frame_of_array(source), wanted.name or "array", style


def _of_arrow(source: Any) -> pd.DataFrame:
    """Whatever hands its columns over as Arrow does: tables of pyarrow, DataFrames of polars and others."""
    import pyarrow

    try:
        return pyarrow.table(source).to_pandas()
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise ZooError(f"data: this {type(source).__name__} cannot be read as a table: {error}") from error


def _read(path: Path, style: Style, types: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    from models.datasets import DATASETS

    if exists(path) and path.is_dir():
        raise ZooError(f"{path} is a folder: data.format=texts reads its files as texts, a document each")
    if not (exists(path) and path.is_file()):
        shown = str(path) if len(str(path)) <= SHOWN else f"{str(path)[:SHOWN]}…"
        raise ZooError(
            f"data: {shown!r} is neither a file nor a named data set ({', '.join(DATASETS)}); in Python, texts come in a list"
        )
    try:
        if path.suffix in PARQUET:
            return pd.read_parquet(path)
        if path.suffix in ARROW:
            return _read_arrow(path)
        return _read_text(path, style, types)
    except ZooError:
        raise
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, OSError, ImportError, ValueError) as error:
        raise ZooError(f"{path} cannot be read as a table: {str(error).strip()}") from error


def _read_arrow(path: Path) -> pd.DataFrame:
    """An Arrow file, which feather is too, or a stream written to disk."""
    import pyarrow

    with pyarrow.OSFile(str(path)) as file:
        magic = file.read(6)
        file.seek(0)
        reader = pyarrow.ipc.open_file(file) if magic == b"ARROW1" else pyarrow.ipc.open_stream(file)
        return reader.read_all().to_pandas()


def _read_text(path: Path, style: Style, types: Mapping[str, str]) -> pd.DataFrame:
    """A CSV file: its numbers as numbers, and everything else, also what stands for a missing cell, as text."""
    import warnings

    import pandas as pd

    separator = style.separator or ("\t" if path.suffix in TABBED else ",")
    # Without a header of its own pandas renames a second "x" to "x.1".
    header = pd.read_csv(path, sep=separator, skipinitialspace=True, header=None, nrows=1, dtype=str)
    names = [str(name) for name in header.iloc[0] if not pd.isna(name)]
    twice = [name for index, name in enumerate(names) if name in names[:index]]
    if twice:
        raise ZooError(f"{path} has several columns named {twice[0]!r}: rename them")
    other = next((word for word, mark in {"semicolon": ";", "tab": "\t", "bar": "|"}.items() if mark in "".join(names)), None)
    if len(names) == 1 and other is not None and style.separator is None:
        raise ZooError(f"{path} has one column, {names[0]!r}: if that is several, say data.separator={other}")
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return pd.read_csv(
                path,
                sep=separator,
                skipinitialspace=True,
                keep_default_na=False,
                na_values=[""],
                index_col=False,  # else the first column would be lost where every row ends in a separator
                low_memory=False,  # in parts, one column could be read as numbers here and as text there
                decimal=style.decimal,
                thousands=style.thousands or None,
                dtype={name: str for name, kind in types.items() if kind in ("category", "identifier", "ignore")},
            )
        except pd.errors.ParserWarning as warning:
            raise ZooError(f"{path}: the rows have more cells than the header has names: name every column") from warning


def _frame_of_array(source: Any) -> pd.DataFrame:
    import pandas as pd

    try:
        array = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ZooError(
            "data: expected a named data set, a file, a DataFrame, numbers or a list of texts, not "
            f"{type(source).__name__}: {error}"
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ZooError(f"data: an array must have rows and columns, but it has shape {array.shape}")
    return pd.DataFrame(array, columns=[f"x{d}" for d in range(array.shape[1])])
