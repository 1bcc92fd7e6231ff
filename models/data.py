"""The data container, what is read into it, and what is asked of it: rows, columns, cells that are missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse


class ZooError(ValueError):
    """Something the user can mend: the message says what is wrong, where, and what to do. The shell exits with 2."""


class Note(NamedTuple):
    """What was found of one column of a table, also of one that is not in x; `models.columns` has the rules."""

    column: str
    kind: str  # number, count, category or label; identifier, constant, empty or ignored: left out of x
    why: str  # in words
    spelled: tuple[tuple[str, int], ...] = ()  # how missing cells were written, and how often
    cells: np.ndarray | None = None  # (N,): names, numbers or None, of a column that was left out


class Data(NamedTuple):
    """A table of N rows on the host: columns of numbers or categories, and at most one label column.

    ``x`` is (N, D) float64 with NaN for a missing cell, or a SciPy sparse matrix of counts; where ``categories`` names the
    levels of a column, x holds codes into them (it is empty where all columns are numbers, and so is the entry of a column of
    numbers); ``labels`` is (N,) with codes into ``levels``, −1 for a missing label or a set of candidates, or None;
    ``candidates`` is (N, levels), true where a row's label may be that level, with no entry for a missing label, or None where
    no row has a set; ``weight`` is (N,), non-negative, or None for one each. ``kinds`` are number, count or category, or "" for
    a column of which nobody has said so yet, and () for a table of such: `models.columns.typed` decides. ``notes`` are on the
    columns of the source, in its order, where it had more to say than x does. ``like`` is the `models.columns.Layout` of a
    larger table that these rows are from, which decides in place of the rules. With ``moments`` the rows stand for a mean and a
    covariance, of which no more is known.
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
    kinds: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    like: Any = None
    moments: bool = False
    starts: np.ndarray | None = None  # (sequences + 1,): rows starts[n] … starts[n + 1] − 1 are the steps of sequence n

    @property
    def num_rows(self) -> int:
        return int(self.x.shape[0])


CORPUS = ("vocabulary", "min_documents", "stop_words")  # options of files of counts, and of texts


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
    types: Mapping[str, str] | None = None,
    sequence: str | None = None,
    **options: Any,
) -> Data:
    """Read a named data set, a file, a DataFrame, an array, a SciPy sparse matrix or texts into `Data`.

    A file is CSV, Parquet or Arrow; a DataFrame is pandas' or any that hands its columns over as Arrow does (polars, pyarrow).
    ``label`` names the column that is set aside as the label, and ``labels`` gives one a row where there is no such column;
    classes come in sorted order, or in that of a pandas Categorical, and log-odds are against the first;
    ``columns`` are the columns to keep, in order (for a sparse matrix: their names); ``drop_constant`` leaves out columns with
    a single value; ``threshold`` turns numbers into 1 where they are above it and 0 elsewhere; ``text`` names a column of
    texts, which become documents of the tokens of ``unit`` (word, the default, character or kind), as do a list of texts and a
    list of lists of words; ``weight`` is one non-negative number a row; ``types`` says column by column what it holds: number,
    count, category or label, or identifier or ignore to leave it out; ``sequence`` names the column that says which sequence
    each row is a step of, for models of time (`models.sequences`). Further ``options`` go to the generator of a named data
    set; for a table they are ``missing``, ``separator``, ``decimal`` and ``thousands``, see `models.cells.Style`, and
    ``kind="covariance"`` with ``num_rows`` for a matrix of that divisor in the place of rows, enough for models of factors. A
    corpus is read with ``format`` lda_c, uci or texts and their options, see `models.corpus_files.read_corpus`.
    Raises `ZooError` naming file, column, row and value.
    """
    from models import tables
    from models.columns import checked_types, with_types
    from models.labels import with_labels
    from models.sequences import in_sequences
    from models.simplex import of_covariance

    types, label = checked_types(types, label)
    if sequence is not None:
        types = types | {sequence: "category"}
    if sequence is not None and columns is not None:  # it is read whatever columns are kept, and not kept
        columns = [name for name in ([columns] if isinstance(columns, str) else columns) if name != sequence]
    if isinstance(source, Data):
        if options:
            raise ZooError(f"unknown data option {min(options)!r}: {source.name} has been read already")
        data = source
    elif isinstance(source, str) and tables.is_named(source):
        data = tables.generate(source, options | ({"unit": unit} if unit is not None else {}))
    else:
        kind, size = options.pop("kind", "table"), options.pop("num_rows", None)
        format, corpus = options.pop("format", None), {option: options.pop(option) for option in CORPUS if option in options}
        if kind not in ("table", "covariance"):
            raise ZooError(f"kind={kind!r} is not one of table, covariance")
        if kind == "covariance" and format is not None:
            raise ZooError(f"kind=covariance does not go with format={format}, which holds documents and no covariance matrix")
        wanted = columns if columns is None or sequence is None else [*columns, sequence]
        data = tables.read(source, tables.Wanted(label, wanted, text, unit, name, types, format, corpus), options)
        if kind == "covariance":
            data = of_covariance(data, size)
        elif size is not None:
            raise ZooError("num_rows goes with kind=covariance: a table has its rows")
        if is_table(data):  # other columns that were named are the label, or left out already
            columns, types = None, {column: kind for column, kind in types.items() if column in data.columns}
        label = None
    data = _select(in_sequences(with_types(data, types), sequence), label, columns, drop_constant)
    if data.x.shape[0] == 0:
        raise ZooError(f"{data.name} has no rows")
    if (cell := first_cell(data, np.isinf)) is not None:
        raise ZooError(f"{data.name}: column {cell.column!r}, row {cell.row + 1}: the value is infinite; correct or remove it")
    if threshold is not None or labels is not None or weight is not None or data.categories:
        require_rows(data, "threshold, labels, weight and categories are for rows")
    data = with_labels(_binarised(data, threshold), labels)
    return data._replace(name=name or data.name, weight=_checked_weight(weight, data))


def take(data: Data, rows: np.ndarray) -> Data:
    """Some rows of a table, by index or by mask; of sequences, whole ones only."""
    weight, labels, candidates = (
        None if column is None else column[rows] for column in (data.weight, data.labels, data.candidates)
    )
    notes = tuple(note if note.cells is None else note._replace(cells=note.cells[rows]) for note in data.notes)
    starts = None if data.starts is None else _starts_of(data.starts, rows)
    return data._replace(x=data.x[rows], weight=weight, labels=labels, candidates=candidates, notes=notes, starts=starts)


def _starts_of(starts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Where sequences start among the steps of some of them; raises `ZooError` for a part of one, which is none."""
    lengths = np.diff(starts)
    picked = np.arange(starts[-1])[rows]
    sequence = np.repeat(np.arange(len(lengths)), lengths)[picked]
    step = picked - starts[sequence]
    edges = np.flatnonzero(step == 0)
    wanted = np.concatenate([np.arange(lengths[n]) for n in sequence[edges]]) if len(edges) else edges
    if not np.array_equal(step, wanted):
        raise ZooError("steps can be taken out of a table only by whole sequences: what is left of one would be another")
    return np.append(edges, len(step))


def split(data: Data, test_fraction: float, seed: int) -> tuple[Data, Data | None]:
    """(training rows, test rows or None where ``test_fraction`` is 0), drawn at random by ``seed``, in the table's order."""
    if isinstance(test_fraction, bool) or not isinstance(test_fraction, int | float) or not 0 <= test_fraction < 1:
        raise ZooError(f"data.test_fraction must be at least 0 and below 1, got {test_fraction!r}")
    if data.moments and test_fraction:
        raise ZooError(f"{data.name} is no rows, so none can be held out: leave data.test_fraction out")
    total = data.num_rows if data.starts is None else len(data.starts) - 1  # of sequences, whole ones
    size = round(test_fraction * total)
    if size == total:
        raise ZooError(f"data.test_fraction={test_fraction} leaves no {'row' if data.starts is None else 'sequence'} to fit")
    held_out = np.isin(np.arange(total), np.random.default_rng(seed).permutation(total)[:size])
    held_out = held_out if data.starts is None else np.repeat(held_out, np.diff(data.starts))
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
    """A `ZooError` naming the first column of categories, for models of numbers; codes that are numbers themselves may pass."""
    for column, levels in zip(data.columns, data.categories, strict=False):
        if not are_numbers(levels):
            some = ", ".join(levels[:3]) + (", …" if len(levels) > 3 else "")
            raise ZooError(f"{data.name}: column {column!r} holds categories ({some}); {remedy}")


BOOLEAN = ("False", "True")


def are_numbers(levels: tuple[str, ...]) -> bool:
    """Whether the codes of a column are its numbers: there are no levels, or they are False and True, or 0, 1, 2, …"""
    return levels == BOOLEAN or all(level == str(code) for code, level in enumerate(levels))


def is_sparse(x: Any) -> bool:
    """Whether a table's cells are SciPy's sparse ones."""
    return bool(sparse.issparse(x))


def is_table(data: Data) -> bool:
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
    if not is_table(data):
        return None
    if is_sparse(data.x):
        cells = data.x.tocoo()
        found = np.flatnonzero(wanted(cells.data))
        if not len(found):
            return None
        first = found[np.argmin(cells.row[found])]
        row, column, value = int(cells.row[first]), int(cells.col[first]), float(cells.data[first])
    else:
        found = np.flatnonzero(wanted(data.x))
        if not len(found):
            return None
        row, column = divmod(int(found[0]), data.x.shape[1])
        value = float(data.x[row, column])
    return Cell(row, data.columns[column], value, len(found))


def has_missing_cell(data: Data) -> bool:
    """Whether some cell of a table is missing."""
    return first_cell(data, np.isnan) is not None


def require_rows(data: Any, why: str) -> None:
    """A `ZooError` for moments that stand in the place of rows."""
    if isinstance(data, Data) and data.moments:
        raise ZooError(f"{data.name} is no rows: {why}")


def require_complete(data: Data, reader: str) -> None:
    """A `ZooError` naming the first missing cell, for a ``reader`` that needs them all."""
    cell = first_cell(data, np.isnan)
    if cell is not None:
        raise ZooError(
            f"{data.name}: column {cell.column!r}, row {cell.row + 1}: the cell is missing ({cell.number} missing in all). "
            f"{reader} needs complete rows: fill the cell in or remove the row"
        )


def require_filled(data: Data) -> None:
    """A `ZooError` naming the first column without a value in any row that counts."""
    if not is_table(data) or is_sparse(data.x) or not np.isnan(data.x.sum()):
        return
    counted = data.x if data.weight is None else data.x[data.weight > 0]
    empty = [column for column, none in zip(data.columns, np.isnan(counted).all(axis=0), strict=True) if none]
    if empty:
        where = "no row has" if data.weight is None else "no row with a weight above 0 has"
        raise ZooError(
            f"{data.name}: {where} a value in column {empty[0]!r}, so there is nothing to learn of it; leave it out with "
            f"data.types.{empty[0]}=ignore"
        )


def _binarised(data: Data, threshold: float | None) -> Data:
    if threshold is None:
        return data
    if not is_table(data):
        raise ZooError(f"{data.name} holds documents: threshold is for numbers")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not np.isfinite(threshold):
        raise ZooError(f"threshold must be a number, got {threshold!r}")
    refuse_categories(data, "threshold is for numbers")
    if is_sparse(data.x):
        if threshold < 0:
            raise ZooError("threshold must be 0 or more for sparse counts: their empty cells are 0")
        return data._replace(x=sparse.csr_array(data.x > threshold, dtype=np.float64))
    return data._replace(x=np.where(np.isnan(data.x), np.nan, data.x > threshold), categories=(), kinds=())


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
        from models.columns import as_label

        data = as_label(data, label)
    if not is_table(data) and (columns is not None or drop_constant):
        raise ZooError(f"{data.name} holds documents: columns and drop_constant are for tables")
    if columns is not None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        for wanted in chosen:
            if wanted not in data.columns:
                raise ZooError(f"{data.name} has no column {wanted!r}; its columns are {', '.join(data.columns)}")
        data = keep_columns(data, [data.columns.index(c) for c in chosen])
    if drop_constant:
        data = keep_columns(data, [d for d in range(len(data.columns)) if not _is_constant(data.x[:, [d]])])
    if is_table(data) and not data.columns:
        raise ZooError(f"{data.name} has no columns to model")
    return data


def keep_columns(data: Data, chosen: list[int]) -> Data:
    """Some columns of a table, in a given order."""
    categories = tuple(data.categories[d] for d in chosen) if data.categories else ()
    kinds = tuple(data.kinds[d] for d in chosen) if data.kinds else ()
    names = tuple(data.columns[d] for d in chosen)
    return data._replace(x=data.x[:, chosen], columns=names, categories=categories if any(categories) else (), kinds=kinds)


def _is_constant(column: Any) -> bool:
    values = column.toarray() if is_sparse(column) else column
    return len(np.unique(values[~np.isnan(values)])) <= 1


def _checked_weight(weight: np.ndarray | None, data: Data) -> np.ndarray | None:
    if weight is None:
        return data.weight
    weight = np.asarray(weight, dtype=np.float64)
    if weight.shape != (data.num_rows,) or not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ZooError(f"weight: expected {data.num_rows} finite, non-negative numbers, not all zero, one a row")
    return weight
