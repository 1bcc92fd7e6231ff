"""`Data`, the table that models read, and functions to take rows and columns of it and to check its cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from models.cells.overrides import proposed
from models.data.representation import data_html, data_text
from models.errors import ZooError as ZooError

SEQUENCE_NAME = "sequence_name"  # the column of `Data.kept_columns` that names the sequences, if the table does
ROWLESS = "there is nothing to report row by row; give new rows, centred at the mean"


class Note(NamedTuple):
    """How one column of a table was read, including columns left out of ``x``; `models.data.columns` has the rules."""

    column: str
    kind: str  # number, count, category or label; or, if left out of x: identifier, constant, empty or ignored
    why: str  # the reason, in words
    spelled: tuple[tuple[str, int], ...] = ()  # how missing cells were written, and how often
    cells: np.ndarray | None = None  # (N,): names, numbers or None, for a column left out, or of names of sequences

    def __repr__(self) -> str:
        """Without the cells: a column that was left out, such as names of patients, is not for every log."""
        return f"Note(column={self.column!r}, kind={self.kind!r}, why={self.why!r}, spelled={self.spelled!r})"


class Data(NamedTuple):
    """A table of N rows and D columns in host memory, with at most one label column; made by `models.load_data`.

    >>> from models import load_data
    >>> data = load_data([[1.0, 5.0], [2.0, float("nan")]], labels=["b", "a"])
    >>> data.num_rows, data.columns, data.levels, data.labels
    (2, ('x0', 'x1'), ('a', 'b'), array([1, 0]))
    """

    name: str  # used in messages
    x: Any  # (N, D) float64, NaN for a missing cell; or a SciPy sparse matrix of counts; or `models.data.documents.Sequences`
    columns: tuple[str, ...]  # names of the D columns; for documents the vocabulary
    labels: np.ndarray | None = None  # (N,) codes into levels; −1 for a missing label or a set of candidates
    label: str | None = None  # name of the label column
    levels: tuple[str, ...] = ()  # names of the classes
    weight: np.ndarray | None = None  # (N,), non-negative; None: 1 for every row
    candidates: np.ndarray | None = None  # (N, levels): which labels a row may have, all False if missing; None: no sets
    categories: tuple[tuple[str, ...], ...] = ()  # per column the levels that x codes, () for numbers; (): only numbers
    kinds: tuple[str, ...] = ()  # per column number, count or category, "" if undecided (see `models.data.columns.typed`)
    notes: tuple[Note, ...] = ()  # how the columns of the source were read
    like: Any = None  # `models.data.columns.Layout` that decides the kinds, for rows taken from a larger table
    moments: bool = False  # True: x stands for a mean and a covariance matrix, not for individual rows
    starts: np.ndarray | None = None  # (sequences + 1,): rows starts[n] … starts[n + 1] − 1 are the steps of sequence n
    kept_columns: tuple[tuple[str, np.ndarray], ...] = ()  # columns (N,) that results keep with their rows, such as identifiers
    remarks: tuple[str, ...] = ()  # remarks of a result on how the rows were read
    weights: str = ""  # the meaning of `weight`: counts or relative (scaled to mean 1); "" where no user gave it

    @property
    def num_rows(self) -> int:
        return int(self.x.shape[0])

    def __repr__(self) -> str:
        return data_text(self)

    def _repr_html_(self) -> str:
        return data_html(self)


def take(data: Data, rows: np.ndarray) -> Data:
    """Select rows by index or mask. If the rows are steps of sequences, only whole sequences may be selected."""
    weight, labels, candidates = (
        None if column is None else column[rows] for column in (data.weight, data.labels, data.candidates)
    )
    notes = tuple(note if note.cells is None else note._replace(cells=note.cells[rows]) for note in data.notes)
    starts = None if data.starts is None else _starts_of(data.starts, rows)
    cells_aside = tuple((name, cells[rows]) for name, cells in data.kept_columns)
    data = data._replace(x=data.x[rows], weight=weight, labels=labels, candidates=candidates)
    return data._replace(notes=notes, starts=starts, kept_columns=cells_aside)


def _starts_of(starts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Start positions of the selected sequences; raises `ZooError` if only a part of a sequence is selected."""
    lengths = np.diff(starts)
    picked = np.arange(starts[-1])[rows]
    sequence = np.repeat(np.arange(len(lengths)), lengths)[picked]
    step = picked - starts[sequence]
    edges = np.flatnonzero(step == 0)
    wanted = np.concatenate([np.arange(lengths[n]) for n in sequence[edges]]) if len(edges) else edges
    if not np.array_equal(step, wanted):
        raise ZooError("steps can be selected only as whole sequences: a part of a sequence is a different sequence")
    return np.append(edges, len(step))


def split(data: Data, test_fraction: float, seed: int) -> tuple[Data, Data | None]:
    """Split at random into (training rows, test rows), in the order of the table; test rows are None if there are none."""
    held_out = held_out_mask(data, test_fraction, seed)
    return (take(data, ~held_out), take(data, held_out)) if held_out.any() else (data, None)


def held_out_mask(data: Data, test_fraction: float, seed: int) -> np.ndarray:
    """(N,): mask of the rows that `split` holds out; raises `ZooError` if no row would be left to fit."""
    if isinstance(test_fraction, bool) or not isinstance(test_fraction, int | float) or not 0 <= test_fraction < 1:
        raise ZooError(f"data.test_fraction must be at least 0 and below 1, got {test_fraction!r}")
    if data.moments and test_fraction:
        raise ZooError(f"{data.name} is a covariance matrix, so no rows can be held out: omit data.test_fraction")
    total = data.num_rows if data.starts is None else len(data.starts) - 1  # of sequences, whole ones
    size = round(test_fraction * total)
    if size == total:
        raise ZooError(f"data.test_fraction={test_fraction} leaves no {'row' if data.starts is None else 'sequence'} to fit")
    held_out = chosen_at_random(total, size, seed)
    return held_out if data.starts is None else np.repeat(held_out, np.diff(data.starts))


def chosen_at_random(total: int, size: int, seed: int) -> np.ndarray:
    """(total,): mask of ``size`` places, drawn by ``seed``."""
    return np.isin(np.arange(total), np.random.default_rng(seed).permutation(total)[:size])


def require_no_categories(data: Data, remedy: str) -> None:
    """Raise `ZooError` that names the categorical columns; levels 0, 1, 2, … or False and True count as numbers."""
    for column, levels in zip(data.columns, data.categories, strict=False):
        if not are_numbers(levels):
            some = ", ".join(levels[:3]) + (", …" if len(levels) > 3 else "")
            others = [
                c for c, names in zip(data.columns, data.categories, strict=True) if c != column and not are_numbers(names)
            ]
            more = f" (and {', '.join(others)})" if others else ""
            raise ZooError(f"{data.name}: column {column!r}{more} holds categories ({some}); {remedy}")


BOOLEAN = ("False", "True")


def are_numbers(levels: tuple[str, ...]) -> bool:
    """Whether codes equal the numbers they stand for: no levels, or False and True, or 0, 1, 2, …"""
    return levels == BOOLEAN or all(level == str(code) for code, level in enumerate(levels))


def is_sparse(x: Any) -> bool:
    """Whether x is a SciPy sparse matrix."""
    return bool(sparse.issparse(x))


def is_table(data: Data) -> bool:
    """Whether x has rows and columns; documents have only rows."""
    return hasattr(data.x, "ndim")


class Cell(NamedTuple):
    """The first of ``number`` cells that match a condition."""

    row: int
    column: str
    value: float
    number: int


def first_cell(data: Data, wanted: Callable[[np.ndarray], np.ndarray]) -> Cell | None:
    """The first cell whose value satisfies ``wanted``, or None. Documents and empty cells of sparse counts are skipped."""
    if not is_table(data):
        return None
    if is_sparse(data.x):
        cells = data.x.tocoo()
        places = np.flatnonzero(wanted(cells.data))
        if not len(places):
            return None
        first = places[np.argmin(cells.row[places])]
        row, column, value = int(cells.row[first]), int(cells.col[first]), float(cells.data[first])
    else:
        places = np.flatnonzero(wanted(data.x))
        if not len(places):
            return None
        row, column = divmod(int(places[0]), data.x.shape[1])
        value = float(data.x[row, column])
    return Cell(row, data.columns[column], value, len(places))


def is_complete(x: Any) -> bool:
    """Whether no cell of numbers (N, D), dense or sparse, is missing: one sum, which settles it in most cases, is fastest."""
    filled = x.data if is_sparse(x) else x
    with np.errstate(over="ignore", invalid="ignore"):
        return not np.isnan(filled.sum()) or not np.isnan(filled).any()


def has_missing_cell(data: Data) -> bool:
    """Whether some cell of a table is missing."""
    return is_table(data) and not is_complete(data.x)


def require_rows(data: Any, why: str) -> None:
    """Raise `ZooError` if only a covariance matrix was given, not rows."""
    if isinstance(data, Data) and data.moments:
        raise ZooError(f"{data.name} gives only a covariance matrix, no individual rows: {why}")


def require_complete(data: Data, reader: str, remedy: str = "fill the cell in or remove the row") -> None:
    """Raise `ZooError` for the first missing cell, if ``reader`` needs complete rows; the message ends with the ``remedy``."""
    cell = first_cell(data, np.isnan) if has_missing_cell(data) else None
    if cell is not None:
        raise ZooError(
            f"{data.name}: column {cell.column!r}, row {cell.row + 1}: the cell is missing ({cell.number} missing in all). "
            f"{reader} needs complete rows: {remedy}"
        )


def require_filled(data: Data) -> None:
    """Raise `ZooError` for the first column without a value in any row of positive weight."""
    if not is_table(data) or is_sparse(data.x) or is_complete(data.x):
        return
    counted = data.x if data.weight is None else data.x[data.weight > 0]
    empty = [column for column, none in zip(data.columns, np.isnan(counted).all(axis=0), strict=True) if none]
    if empty:
        where = "no row has" if data.weight is None else "no row with a weight above 0 has"
        raise ZooError(
            f"{data.name}: {where} a value in column {empty[0]!r}, so nothing can be learned about it; leave it out with "
            f"{proposed('types', 'ignore', empty[0])}"
        )


def keep_columns(data: Data, chosen: list[int]) -> Data:
    """Select columns by index, in the given order."""
    categories = tuple(data.categories[d] for d in chosen) if data.categories else ()
    kinds = tuple(data.kinds[d] for d in chosen) if data.kinds else ()
    names = tuple(data.columns[d] for d in chosen)
    return data._replace(x=data.x[:, chosen], columns=names, categories=categories if any(categories) else (), kinds=kinds)
