"""The data container, and tables read into it: CSV and Parquet files, DataFrames and arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse


class ZooError(ValueError):
    """Something the user can mend: the message says what is wrong, where, and what to do. The shell exits with 2."""


class Data(NamedTuple):
    """A table of N rows on the host: columns of numbers or categories, and at most one label column.

    ``x`` is (N, D) float64 with NaN for a missing cell, or a SciPy sparse matrix of counts; where ``categories`` names the
    levels of a column, x holds codes into them (it is empty where all columns are numbers, and so is the entry of a column of
    numbers); ``labels`` is (N,) with codes into ``levels``, −1 for a missing label or a set of candidates, or None;
    ``candidates`` is (N, levels), true where a row's label may be that level, with no entry for a missing label, or None where
    no row has a set; ``weight`` is (N,), non-negative, or None for one each.
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
    text: str | None = None,
    unit: str | None = None,
    weight: np.ndarray | None = None,
    name: str | None = None,
    **options: Any,
) -> Data:
    """Read a named data set, a CSV or Parquet file, a DataFrame, an array, a SciPy sparse matrix or texts into `Data`.

    ``label`` names the column that is set aside as the label, and ``labels`` gives one a row where there is no such column;
    classes come in sorted order, or in that of a pandas Categorical, and log-odds are against the first;
    ``columns`` are the columns to keep, in order (for a sparse matrix: their names); ``drop_constant`` leaves out columns with
    a single value; ``threshold`` turns numbers into 1 where they are above it and 0 elsewhere; ``text`` names a column of
    texts, which become documents of the tokens of ``unit`` (word, the default, character or kind), as do a list of texts and a
    list of lists of words; ``weight`` is one non-negative number a row. Further ``options`` go to the generator of a named data
    set.
    Raises `ZooError` naming file, column, row and value.
    """
    from models import tables
    from models.datasets import DATASETS

    if isinstance(source, Data):
        data = source
    elif isinstance(source, str) and source in DATASETS:
        known = _known_options(source, DATASETS[source], options | ({"unit": unit} if unit is not None else {}))
        try:
            data = DATASETS[source](**known)
        except (TypeError, ValueError) as error:
            given = ", ".join(f"{key}={value}" for key, value in known.items())
            raise ZooError(f"data set {source} cannot be made with {given}: {error}") from error
    else:
        if options:
            takes = "label, labels, columns, drop_constant, threshold, text, unit and weight"
            raise ZooError(f"unknown data option {sorted(options)[0]!r}: a table takes {takes}")
        data = tables.read(source, label, columns, text, unit, name)
        columns, label = None if _is_table(data) else columns, None
    data = _select(data, label, columns, drop_constant)
    if data.x.shape[0] == 0:
        raise ZooError(f"{data.name} has no rows")
    if (cell := first_cell(data, np.isinf)) is not None:
        raise ZooError(f"{data.name}: column {cell.column!r}, row {cell.row + 1}: the value is infinite; correct or remove it")
    data = tables.with_labels(_binarised(data, threshold), labels)
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


def refuse_categories(data: Data, remedy: str) -> None:
    """A `ZooError` naming the first column of categories, for models of numbers."""
    for column, levels in zip(data.columns, data.categories, strict=False):
        if levels:
            some = ", ".join(levels[:3]) + (", …" if len(levels) > 3 else "")
            raise ZooError(f"{data.name}: column {column!r} holds categories ({some}); {remedy}")


def is_sparse(x: Any) -> bool:
    """Whether a table's cells are SciPy's sparse ones."""
    return bool(sparse.issparse(x))


def _is_table(data: Data) -> bool:
    """Whether x has rows and columns: documents have rows only."""
    return hasattr(data.x, "ndim")


class Cell(NamedTuple):
    """A cell that was looked for: the first of ``number`` such."""

    row: int
    column: str
    value: float
    number: int


def first_cell(data: Data, wanted: Callable[[np.ndarray], np.ndarray]) -> Cell | None:
    """The first cell for which ``wanted`` is true of its value, or None; documents, and empty cells of counts, have none."""
    if not _is_table(data):
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


def has_missing_cell(data: Data) -> bool:
    """Whether some cell of a table is missing."""
    return first_cell(data, np.isnan) is not None


def require_complete(data: Data, reader: str) -> None:
    """A `ZooError` naming the first missing cell, for a ``reader`` that needs them all."""
    cell = first_cell(data, np.isnan)
    if cell is not None:
        raise ZooError(
            f"{data.name}: column {cell.column!r}, row {cell.row + 1}: the cell is missing ({cell.number} missing in all). "
            f"{reader} needs complete rows: fill the cell in or remove the row"
        )


def _binarised(data: Data, threshold: float | None) -> Data:
    if threshold is None:
        return data
    if not _is_table(data):
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


def allowed_labels(data: Data) -> np.ndarray:
    """(N, levels): true where a row's label may be that level; a missing one may be any."""
    labels = np.full(data.num_rows, -1) if data.labels is None else data.labels
    known = labels[:, None] == np.arange(len(data.levels)) if data.candidates is None else data.candidates
    return np.where(missing_labels(data)[:, None], True, known)


def missing_labels(data: Data) -> np.ndarray:
    """(N,): whether nothing is known of a row's label; a set of candidates is something."""
    labels = np.full(data.num_rows, -1) if data.labels is None else data.labels
    return (labels < 0) & (True if data.candidates is None else ~data.candidates.any(axis=1))


def _select(data: Data, label: str | None, columns: list[str] | str | None, drop_constant: bool) -> Data:
    """Keep ``columns`` of a data set already read, and its label only under its own name."""
    if label is not None and label != data.label:
        raise ZooError(f"{data.name} has no label {label!r}; its label is {data.label!r}")
    if not _is_table(data) and (columns is not None or drop_constant):
        raise ZooError(f"{data.name} holds documents: columns and drop_constant are for tables")
    if columns is not None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        for wanted in chosen:
            if wanted not in data.columns:
                raise ZooError(f"{data.name} has no column {wanted!r}; its columns are {', '.join(data.columns)}")
        data = keep_columns(data, [data.columns.index(c) for c in chosen])
    if drop_constant:
        data = keep_columns(data, [d for d in range(len(data.columns)) if not _is_constant(data.x[:, [d]])])
    if _is_table(data) and not data.columns:
        raise ZooError(f"{data.name} has no columns to model")
    return data


def keep_columns(data: Data, chosen: list[int]) -> Data:
    """Some columns of a table, in a given order."""
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
