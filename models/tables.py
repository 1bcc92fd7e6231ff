"""Tables read into `models.data.Data`: CSV and Parquet files, DataFrames, arrays, SciPy's sparse matrices, and texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from models.data import Data, ZooError, exists, is_sparse
from models.documents import documents, tokenise

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 80  # characters of a path in a message


def read(
    source: Any, label: str | None, columns: list[str] | str | None, text: str | None, unit: str | None, name: str | None
) -> Data:
    """Whatever is not a named data set; raises `ZooError` naming file, column, row and value."""
    rows = _token_lists(source, unit or "word")
    if rows is None and not is_sparse(source):
        return read_table(source, label, columns, text, unit, name)
    if (wanted := label or text) is not None:
        raise ZooError(f"there is no column {wanted!r} in texts, lists or a matrix: labels= takes one label a row")
    if rows is None:
        return read_matrix(source, columns, name)
    return _documents(rows, name or ("texts" if isinstance(source[0], str) else "documents"))


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


def read_table(
    source: Any, label: str | None, columns: list[str] | str | None, text: str | None, unit: str | None, name: str | None
) -> Data:
    """A file, a DataFrame or an array: columns of numbers and categories, or one of texts."""
    import pandas as pd

    if isinstance(source, str | Path):
        frame, title = _read(Path(source)), str(source)
    elif isinstance(source, pd.DataFrame):
        frame, title = source, name or "table"
    else:
        frame, title = _frame_of_array(source), name or "array"
    frame = frame.rename(columns=str)
    twice = [str(c) for c in frame.columns[frame.columns.duplicated()]]
    if twice:
        raise ZooError(f"{title} has several columns named {twice[0]!r}: rename them")
    chosen = [columns] if isinstance(columns, str) else columns
    for wanted in [label, text, *(chosen or [])]:
        if wanted is not None and wanted not in frame.columns:
            raise ZooError(f"{title} has no column {wanted!r}; its columns are {', '.join(frame.columns)}")
    if text is not None:
        return _labelled(_documents(_tokens(frame[text], title, unit or "word"), title), frame, label)
    real = [c for c in frame.columns if c != label] if chosen is None else [c for c in chosen if c != label]
    if not real:
        raise ZooError(f"{title} has no columns to model")
    read = [_column(frame[c], title) for c in real]
    x = np.column_stack([values for values, _ in read])
    categories = tuple(levels for _, levels in read) if any(levels for _, levels in read) else ()
    return _labelled(Data(title, x, tuple(real), categories=categories), frame, label)


def _labelled(data: Data, frame: pd.DataFrame, label: str | None) -> Data:
    if label is None:
        return data
    codes, levels, candidates = _codes(frame[label], data.name)
    return data._replace(labels=codes, label=label, levels=levels, candidates=candidates)


def _tokens(column: pd.Series[Any], title: str, unit: str) -> list[list[str]]:
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise ZooError(f"{title}: column {column.name!r}, row {missing[0] + 1}: there is no text; fill it in or remove the row")
    return [tokenise(str(text), unit) for text in column]


def read_matrix(source: Any, columns: Any, name: str | None) -> Data:
    """A SciPy sparse matrix of counts, its columns named by ``columns``."""
    names = [f"x{d}" for d in range(source.shape[1])] if columns is None else [str(c) for c in columns]
    if len(names) != source.shape[1] or len(set(names)) != len(names):
        raise ZooError(f"columns: expected {source.shape[1]} different names, one a column of the matrix, got {len(names)}")
    return Data(name or "matrix", sparse.csr_array(source, dtype=np.float64), tuple(names))


def with_labels(data: Data, labels: Any) -> Data:
    """The data with ``labels`` (N,) in place of a label column; None or NaN is missing, ``a|b`` a set of candidates."""
    if labels is None:
        return data
    import pandas as pd

    column = pd.Series(labels, name="label")
    if len(column) != data.num_rows:
        raise ZooError(f"labels: {len(column)} of them for {data.num_rows} rows")
    codes, levels, candidates = _codes(column.reset_index(drop=True), data.name)
    return data._replace(labels=codes, label="label", levels=levels, candidates=candidates)


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    from models.datasets import DATASETS

    if not (exists(path) and path.is_file()):
        shown = str(path) if len(str(path)) <= SHOWN else f"{str(path)[:SHOWN]}…"
        raise ZooError(
            f"data: {shown!r} is neither a file nor a named data set ({', '.join(DATASETS)}); in Python, texts come in a list"
        )
    try:
        if path.suffix in {".parquet", ".pq"}:
            return pd.read_parquet(path)
        header = pd.read_csv(
            path, skipinitialspace=True, header=None, nrows=1, dtype=str
        )  # pandas renames a second "x" to "x.1"
        names = [str(name) for name in header.iloc[0] if not pd.isna(name)]
        twice = [name for index, name in enumerate(names) if name in names[:index]]
        if twice:
            raise ZooError(f"{path} has several columns named {twice[0]!r}: rename them")
        return pd.read_csv(path, skipinitialspace=True)
    except ZooError:
        raise
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, OSError, ImportError, ValueError) as error:
        raise ZooError(f"{path} cannot be read as a table: {str(error).strip()}") from error


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


def _column(column: pd.Series[Any], title: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """(numbers, no levels), or (codes, levels) where at least half of the cells are no numbers; NaN where a cell is missing."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise ZooError(f"{title}: column {column.name!r} holds dates; turn them into numbers, or leave the column out")
    numbers = pd.to_numeric(column, errors="coerce")
    bad = np.flatnonzero(numbers.isna() & ~column.isna())
    if not len(bad):
        return numbers.to_numpy(dtype=np.float64, na_value=np.nan), ()
    if len(bad) < int((~column.isna()).sum()) / 2:
        raise ZooError(
            f"{title}: column {column.name!r}, row {bad[0] + 1}: {column.iloc[bad[0]]!r} is not a number; correct the cell"
        )
    codes, found = pd.factorize(column.astype(str).where(~column.isna(), None), sort=True)
    return np.where(codes < 0, np.nan, codes), tuple(str(level) for level in found)


def _level(cell: Any) -> Any:
    """A label as it is sorted: a text without its margins, whole floats as integers."""
    if isinstance(cell, str):
        return cell.strip()
    return int(cell) if isinstance(cell, float | np.floating) and cell == int(cell) else cell


def _codes(column: pd.Series[Any], title: str) -> tuple[np.ndarray, tuple[str, ...], np.ndarray | None]:
    """(codes, levels, candidates) of a label column; ``a|b`` in a cell is a set of candidates.

    Whole numbers are named without a decimal point, also where missing labels have made floats of them.
    """
    import pandas as pd

    sets = {row: cell.split("|") for row, cell in enumerate(column) if isinstance(cell, str) and "|" in cell}
    if isinstance(column.dtype, pd.CategoricalDtype):
        single = column
    else:
        cells = (None if row in sets or pd.isna(cell) else _level(cell) for row, cell in enumerate(column))
        single = pd.Series(list(cells), dtype=object)
    codes, found = pd.factorize(single, sort=True)
    levels = tuple(str(level) for level in found)
    if not sets:
        return np.asarray(codes), levels, None
    candidates = codes[:, None] == np.arange(len(levels))  # a missing label has no candidate
    for row, names in sets.items():
        known = [name.strip() in levels for name in names]
        if not all(known):
            raise ZooError(
                f"{title}: column {column.name!r}, row {row + 1}: {names[known.index(False)].strip()!r} is a candidate here, "
                f"but no row has it as its label; the labels are {', '.join(levels)}"
            )
        candidates[row] = np.isin(levels, [name.strip() for name in names])
    return np.asarray(codes), levels, candidates
