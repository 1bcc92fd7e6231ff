"""The data container, and tables read into it: CSV and Parquet files, DataFrames and arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    import pandas as pd


class ZooError(ValueError):
    """Something the user can mend: the message says what is wrong, where, and what to do. The shell exits with 2."""


# What `pandas` reads as a missing cell by default ("", NA, NaN, null, None, …) is missing here too.


class Data(NamedTuple):
    """A table of N rows on the host: columns of numbers or categories, and at most one label column.

    ``x`` is (N, D) float64 with NaN for a missing cell, or a SciPy sparse matrix of counts; where ``categories`` names the
    levels of a column, x holds codes into them (it is empty where all columns are numbers, and so is the entry of a column of
    numbers); ``labels`` is (N,) with codes into ``levels``, −1 for a missing
    label or a set of candidates, or None; ``candidates`` is (N, levels), true where a row's label may be that level, or None
    where no row has a set; ``weight`` is (N,), non-negative, or None for one each.
    """

    name: str
    x: Any
    columns: tuple[str, ...]
    labels: np.ndarray | None = None
    label: str | None = None
    levels: tuple[str, ...] = ()
    weight: np.ndarray | None = None
    candidates: np.ndarray | None = None
    categories: tuple[tuple[str, ...], ...] = ()

    @property
    def num_rows(self) -> int:
        return int(self.x.shape[0])


def load_data(
    source: Any,
    *,
    label: str | None = None,
    columns: list[str] | str | None = None,
    drop_constant: bool = False,
    threshold: float | None = None,
    labels: Any = None,
    weight: np.ndarray | None = None,
    name: str | None = None,
    **options: Any,
) -> Data:
    """Read a named data set, a CSV or Parquet file, a DataFrame, an array or a SciPy sparse matrix into `Data`.

    ``label`` names the column that is set aside as the label, and ``labels`` gives one a row where there is no such column;
    ``columns`` are the columns to keep, in order (for a sparse matrix: their names); ``drop_constant`` leaves out columns with
    a single value; ``threshold`` turns numbers into 1 where they are above it and 0 elsewhere; ``weight`` is one non-negative
    number a row. Further ``options`` go to the generator of a named data set. Raises `ZooError` naming file, column, row and
    value.
    """
    from models.datasets import DATASETS

    if isinstance(source, Data):
        data = source
    elif isinstance(source, str) and source in DATASETS:
        known = _known_options(source, DATASETS[source], options)
        try:
            data = DATASETS[source](**known)
        except (TypeError, ValueError) as error:
            given = ", ".join(f"{key}={value}" for key, value in known.items())
            raise ZooError(f"data set {source} cannot be made with {given}: {error}") from error
    else:
        if options:
            raise ZooError(f"unknown data option {sorted(options)[0]!r}: a table takes label, columns and drop_constant")
        data = _matrix(source, columns, name) if is_sparse(source) else _table(source, label, columns, name)
        columns = label = None
    data = _select(data, label, columns, drop_constant)
    if data.x.shape[0] == 0:
        raise ZooError(f"{data.name} has no rows")
    if (cell := first_cell(data, np.isinf)) is not None:
        raise ZooError(f"{data.name}: column {cell.column!r}, row {cell.row + 1}: the value is infinite; correct or remove it")
    data = _labelled(_binarised(data, threshold), labels)
    return data._replace(name=name or data.name, weight=_checked_weight(weight, data))


def take(data: Data, rows: np.ndarray) -> Data:
    """Some rows of a table, by index or by mask."""
    weight, labels, candidates = (
        None if column is None else column[rows] for column in (data.weight, data.labels, data.candidates)
    )
    return data._replace(x=data.x[rows], weight=weight, labels=labels, candidates=candidates)


def split(data: Data, test_fraction: float, seed: int) -> tuple[Data, Data | None]:
    """(training rows, test rows or None where ``test_fraction`` is 0), drawn at random by ``seed``, in the table's order."""
    if isinstance(test_fraction, bool) or not isinstance(test_fraction, int | float) or not 0 <= test_fraction < 1:
        raise ZooError(f"data.test_fraction must be at least 0 and below 1, got {test_fraction!r}")
    size = round(test_fraction * data.num_rows)
    if size == data.num_rows:
        raise ZooError(f"data.test_fraction={test_fraction} leaves no row of {data.name} to fit")
    held_out = np.isin(np.arange(data.num_rows), np.random.default_rng(seed).permutation(data.num_rows)[:size])
    return (take(data, ~held_out), take(data, held_out)) if size else (data, None)


def exists(path: str | Path) -> bool:
    """Whether there is such a file or folder; no for a text that cannot be a path, such as one that is too long."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def as_data(source: Any) -> Data:
    """`Data` as it is, and whatever else `load_data` reads."""
    return source if isinstance(source, Data) else load_data(source)


def is_sparse(x: Any) -> bool:
    """Whether a table's cells are SciPy's sparse ones."""
    return bool(sparse.issparse(x))


class Cell(NamedTuple):
    """A cell that was looked for: the first of ``number`` such."""

    row: int
    column: str
    value: float
    number: int


def first_cell(data: Data, wanted: Callable[[np.ndarray], np.ndarray]) -> Cell | None:
    """The first cell for which ``wanted`` is true of its value, or None; documents, and empty cells of counts, have none."""
    if not hasattr(data.x, "ndim"):
        return None
    if is_sparse(data.x):
        cells = data.x.tocoo()
        found = np.flatnonzero(wanted(cells.data))
        if not len(found):
            return None
        first = found[np.argmin(cells.row[found])]
        row, column, value = int(cells.row[first]), int(cells.col[first]), float(cells.data[first])
    else:
        mask = wanted(data.x)
        found = np.flatnonzero(mask)
        if not len(found):
            return None
        row, column = divmod(int(found[0]), data.x.shape[1])
        value = float(data.x[row, column])
    return Cell(row, data.columns[column], value, len(found))


def missing_cell(data: Data) -> str | None:
    """Where the first missing cell is, in words, or None."""
    cell = first_cell(data, np.isnan)
    if cell is None:
        return None
    return f"{data.name}: column {cell.column!r}, row {cell.row + 1}: the cell is missing ({cell.number} missing in all)"


def _binarised(data: Data, threshold: float | None) -> Data:
    if threshold is None:
        return data
    if not hasattr(data.x, "ndim"):
        raise ZooError(f"{data.name} holds documents: threshold is for numbers")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not np.isfinite(threshold):
        raise ZooError(f"threshold must be a number, got {threshold!r}")
    if any(data.categories):
        raise ZooError(f"{data.name} has columns of categories: threshold is for numbers")
    if is_sparse(data.x):
        if threshold < 0:
            raise ZooError("threshold must be 0 or more for sparse counts: their empty cells are 0")
        return data._replace(x=sparse.csr_array(data.x > threshold, dtype=np.float64))
    return data._replace(x=np.where(np.isnan(data.x), np.nan, data.x > threshold))


def _table(source: Any, label: str | None, columns: list[str] | str | None, name: str | None) -> Data:
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
    for wanted in [label, *(chosen or [])]:
        if wanted is not None and wanted not in frame.columns:
            raise ZooError(f"{title} has no column {wanted!r}; its columns are {', '.join(frame.columns)}")
    real = [c for c in frame.columns if c != label] if chosen is None else [c for c in chosen if c != label]
    if not real:
        raise ZooError(f"{title} has no columns to model")
    read = [_column(frame[c], title) for c in real]
    x = np.column_stack([values for values, _ in read])
    categories = tuple(levels for _, levels in read) if any(levels for _, levels in read) else ()
    if label is None:
        return Data(title, x, tuple(real), categories=categories)
    codes, levels, candidates = _codes(frame[label], title)
    return Data(title, x, tuple(real), codes, label, levels, candidates=candidates, categories=categories)


def _matrix(source: Any, columns: Any, name: str | None) -> Data:
    names = [f"x{d}" for d in range(source.shape[1])] if columns is None else [str(c) for c in columns]
    if len(names) != source.shape[1] or len(set(names)) != len(names):
        raise ZooError(f"columns: expected {source.shape[1]} different names, one a column of the matrix, got {len(names)}")
    return Data(name or "matrix", sparse.csr_array(source, dtype=np.float64), tuple(names))


def _labelled(data: Data, labels: Any) -> Data:
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
        raise ZooError(f"data: {str(path)!r} is neither a file nor a named data set ({', '.join(DATASETS)})")
    try:
        return pd.read_parquet(path) if path.suffix in {".parquet", ".pq"} else pd.read_csv(path, skipinitialspace=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, OSError, ImportError, ValueError) as error:
        raise ZooError(f"{path} cannot be read as a table: {str(error).strip()}") from error


def _frame_of_array(source: Any) -> pd.DataFrame:
    import pandas as pd

    try:
        array = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ZooError(
            f"data: expected a named data set, a file, a DataFrame or numbers, not {type(source).__name__}: {error}"
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


def _codes(column: pd.Series[Any], title: str) -> tuple[np.ndarray, tuple[str, ...], np.ndarray | None]:
    """(codes, levels, candidates) of a label column; ``a|b`` in a cell is a set of candidates."""
    import pandas as pd

    sets = {row: cell.split("|") for row, cell in enumerate(column) if isinstance(cell, str) and "|" in cell}
    single = column.copy()
    single.iloc[list(sets)] = None
    codes, found = pd.factorize(single, sort=True)
    levels = tuple(str(level) for level in found)
    if not sets:
        return np.asarray(codes), levels, None
    candidates = np.where(codes[:, None] >= 0, codes[:, None] == np.arange(len(levels)), True)
    for row, names in sets.items():
        known = [name.strip() in levels for name in names]
        if not all(known):
            raise ZooError(
                f"{title}: column {column.name!r}, row {row + 1}: {names[known.index(False)].strip()!r} is a candidate here, "
                f"but no row has it as its label; the labels are {', '.join(levels)}"
            )
        candidates[row] = np.isin(levels, [name.strip() for name in names])
    return np.asarray(codes), levels, candidates


def allowed_labels(data: Data) -> np.ndarray:
    """(N, levels): true where a row's label may be that level; a missing one may be any."""
    if data.candidates is not None:
        return data.candidates
    labels = np.full(data.num_rows, -1) if data.labels is None else data.labels
    return np.where(labels[:, None] >= 0, labels[:, None] == np.arange(len(data.levels)), True)


def _select(data: Data, label: str | None, columns: list[str] | str | None, drop_constant: bool) -> Data:
    """Keep ``columns`` of a data set already read, and its label only under its own name."""
    if label is not None and label != data.label:
        raise ZooError(f"{data.name} has no label {label!r}; its label is {data.label!r}")
    if columns is not None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        for wanted in chosen:
            if wanted not in data.columns:
                raise ZooError(f"{data.name} has no column {wanted!r}; its columns are {', '.join(data.columns)}")
        data = _keep(data, [data.columns.index(c) for c in chosen])
    if drop_constant:
        data = _keep(data, [d for d in range(len(data.columns)) if not _is_constant(data.x[:, [d]])])
    if not data.columns:
        raise ZooError(f"{data.name} has no columns to model")
    return data


def _keep(data: Data, chosen: list[int]) -> Data:
    categories = tuple(data.categories[d] for d in chosen) if data.categories else ()
    return data._replace(x=data.x[:, chosen], columns=tuple(data.columns[d] for d in chosen), categories=categories)


def _is_constant(column: Any) -> bool:
    values = column.toarray() if is_sparse(column) else column
    return len(np.unique(values[~np.isnan(values)])) <= 1


def _known_options(name: str, loader: Any, options: dict[str, Any]) -> dict[str, Any]:
    import inspect

    known = list(inspect.signature(loader).parameters)
    unknown = sorted(set(options) - set(known))
    if unknown:
        takes = ", ".join(known) if known else "none of its own"
        raise ZooError(f"unknown option {unknown[0]!r} of data set {name}: it takes {takes}")
    return options


def _checked_weight(weight: np.ndarray | None, data: Data) -> np.ndarray | None:
    if weight is None:
        return data.weight
    weight = np.asarray(weight, dtype=np.float64)
    if weight.shape != (data.num_rows,) or not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ZooError(f"weight: expected {data.num_rows} finite, non-negative numbers, not all zero, one a row")
    return weight
