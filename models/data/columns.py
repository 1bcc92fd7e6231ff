"""Kinds of columns: from the user, from the rules of `models.data.column_kinds`, and for new rows from a model's layout.

A model with columns of several kinds calls `typed`, keeps the `layout`, and reads new rows with `as_typed`. Models of numbers,
such as `models.gmm`, do not apply the rules: they use every numeric column, including those that the rules would take for codes
or identifiers. The user's options for a column (``types``, ``columns``, ``drop_constant``) hold for every model.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from models.cells.dates import orders_of
from models.cells.overrides import proposed
from models.data.column_kinds import LEFT_OUT, TYPES, ColumnKind, kind_of
from models.data.documents import Sequences
from models.data.missing_spellings import number_of
from models.data.table import BOOLEAN, Data, Note, ZooError, is_sparse, keep_columns
from models.errors import did_you_mean, some_of

EXACT = 2**53  # whole numbers up to here are floats without loss
LOST = "numbers above 2^53 lose digits"
MOMENTS = {"date": "dates", "time": "times"}
LEAVE = (("leave them out by", "ignore"), ("take them as levels by", "category"))  # other options for dates


class Layout(NamedTuple):
    """The columns as a model reads them. Hashable, as it holds only names."""

    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]  # levels of each column, () for numbers and counts
    notes: tuple[Note, ...] = ()  # on all columns of the table that the model was built from, without cells


class Converted(NamedTuple):
    """One column converted to its kind: numbers, or codes into levels."""

    values: np.ndarray  # (N,)
    levels: tuple[str, ...]
    kind: ColumnKind


# ---------------------------------------------------------------------------------------------------------------------
# Kinds given by the user


def checked_types(types: Any, label: str | None) -> tuple[dict[str, str], str | None]:
    """(column -> one of `TYPES`, the label); ``types={"kind": "label"}`` is ``label="kind"``. Raises `ZooError`."""
    if types is not None and not isinstance(types, Mapping):
        raise ZooError(f"types={types!r}: expected a kind per column, such as {{'year': 'category'}}")
    kinds = {str(column): str(kind) for column, kind in (types or {}).items()}
    for column, kind in kinds.items():
        if kind not in TYPES:
            raise ZooError(f"types: {kind!r} for column {column!r} is not one of {', '.join(TYPES)}")
    labels = {column for column, kind in kinds.items() if kind == "label"} | ({label} if label is not None else set())
    if len(labels) > 1:
        raise ZooError(f"several columns are named as the label: {', '.join(sorted(labels))}")
    if label is not None and kinds.get(label, "label") != "label":
        raise ZooError(f"column {label!r} is the label, so it cannot have type {kinds[label]}")
    return kinds, next(iter(labels), None)


def with_types(data: Data, types: Mapping[str, str], why: Mapping[str, str] | None = None) -> Data:
    """Apply the user's kinds, with reasons for some; raises `ZooError` for an unknown column, or a cell not of its kind."""
    kinds = {column: kind for column, kind in types.items() if kind != "label"}
    if not kinds:
        return data
    _raise_no_table(data)
    for column in kinds:
        if column not in data.columns:
            raise ZooError(f"{data.name} has no column {column!r}; its columns are {some_of(data.columns)}")
    out = {"identifier": ColumnKind("identifier", "by data.types"), "ignore": ColumnKind("ignored", "by data.types")}
    places = {data.columns.index(column): kind for column, kind in kinds.items() if kind not in out}
    data = _with(data, {d: Converted(*_as_kind(data, d, kind), _given(data, d, kind, why)) for d, kind in places.items()})
    return _without(data, {column: out[kind] for column, kind in kinds.items() if kind in out})


def _given(data: Data, place: int, kind: str, why: Mapping[str, str] | None) -> ColumnKind:
    return ColumnKind(kind, (why or {}).get(data.columns[place], "by you"))


def as_label(data: Data, name: str) -> Data:
    """Make a categorical column the label, replacing any other; raises `ZooError` if there is no such column."""
    place = data.columns.index(name) if name in data.columns else -1
    if place < 0 or not categories_of(data)[place]:
        has = f"its label is {data.label!r}" if data.label is not None else "it has no label"
        known = [column for column, levels in zip(data.columns, categories_of(data), strict=True) if levels]
        near = did_you_mean(name, [*known, *([] if data.label is None else [data.label])])
        raise ZooError(f"{data.name} has no label {name!r}{near}; {has}")
    codes, levels = data.x[:, place], data.categories[place]
    rest = keep_columns(data, [d for d in range(len(data.columns)) if d != place])
    notes = tuple(note._replace(why="named by you") if note.column == name else note for note in data.notes)
    labels = np.where(np.isnan(codes), -1, codes).astype(int)
    return rest._replace(labels=labels, label=name, levels=levels, candidates=None, notes=notes)


# ---------------------------------------------------------------------------------------------------------------------
# Kinds by the rules


def typed(data: Data) -> Data:
    """Decide the kind of each column by the rules, unless the user has given it.

    Categorical columns then hold codes. Columns that are left out are listed in ``notes`` with the reason. Raises `ZooError`
    for documents, sparse counts, dates, and if no column is left.
    """
    _raise_no_table(data)
    if data.like is not None:
        return as_typed(data, data.like)
    kinds = data.kinds or ("",) * len(data.columns)
    if all(kinds):
        return data
    levels = categories_of(data)
    open_places = [d for d, kind in enumerate(kinds) if not kind]
    lost = {note.column for note in data.notes if note.why == LOST}
    verdicts = {d: kind_of(data.columns[d], data.x[:, d], levels[d]) for d in open_places}
    verdicts |= {d: ColumnKind("identifier", LOST) for d in open_places if data.columns[d] in lost}
    for d, one in verdicts.items():
        if one.kind in MOMENTS:
            column = data.columns[d]
            reads = [("dates", order) for order in orders_of(levels[d])] if one.kind == "date" else [("units", "h")]
            ways = [f"read them as numbers by {proposed(option, value, column)}" for option, value in reads]
            ways += [f"{word} {proposed('types', kind, column)}" for word, kind in LEAVE]
            raise ZooError(f"{data.name}: column {column!r} holds {MOMENTS[one.kind]} ({one.why}); {', or '.join(ways)}")
    out = {data.columns[d]: one for d, one in verdicts.items() if one.kind in LEFT_OUT}
    modelled = {d: one for d, one in verdicts.items() if one.kind not in LEFT_OUT}
    data = _without(_with(data, {d: Converted(*_as_kind(data, d, one.kind), one) for d, one in modelled.items()}), out)
    if not data.columns:
        reasons = ", ".join(f"{column}: {one.kind}" for column, one in out.items())
        raise ZooError(f"{data.name} has no columns to model ({reasons}); set a kind with data.types.<column>=<kind>")
    return data


# ---------------------------------------------------------------------------------------------------------------------
# New rows for a model


def layout(data: Data) -> Layout:
    """The layout of a `typed` table, which a model keeps to read new rows."""
    notes = tuple(note._replace(cells=None, spelled=()) for note in notes_of(data))
    return Layout(data.columns, data.kinds, categories_of(data), notes)


def as_typed(data: Data, like: Layout, unseen: str = "error", remedy: str = ". Correct the cell, or leave it empty") -> Data:
    """Convert rows to the columns, kinds and level codes of ``like``; columns are matched by name.

    Other columns are dropped. A level that ``like`` lacks is an error or, with ``unseen="missing"``, a missing cell.
    Raises `ZooError` for an absent column, and for the first cell that is not of the kind of its column.
    """
    if unseen not in ("error", "missing"):
        raise ZooError(f"unseen={unseen!r} is not one of error, missing")
    _raise_no_table(data)
    if (data.columns, data.kinds, categories_of(data)) == like[:3]:
        return data
    absent = [column for column in like.columns if column not in data.columns]
    if absent:
        raise ZooError(f"{data.name} has no column {absent[0]!r}, which the model needs; it has {some_of(data.columns)}")
    places = [data.columns.index(column) for column in like.columns]
    read = [
        recoded(data, d, levels, remedy, unseen) if kind == "category" else _as_kind(data, d, kind)[0]
        for d, kind, levels in zip(places, like.kinds, like.categories, strict=True)
    ]
    spelled = {note.column: note.spelled for note in data.notes}
    notes = tuple(
        note._replace(
            spelled=spelled.get(note.column, ()), cells=cells_of(data, note.column) if note.kind in LEFT_OUT else None
        )
        for note in like.notes
    )
    categories = like.categories if any(like.categories) else ()
    return data._replace(
        x=np.column_stack(read), columns=like.columns, categories=categories, kinds=like.kinds, notes=notes, like=None
    )


def recoded(data: Data, place: int, levels: tuple[str, ...], remedy: str, unseen: str = "error") -> np.ndarray:
    """(N,): the cells of one column as codes into ``levels``, matched by name; NaN for a missing cell.

    An unknown level raises a `ZooError` whose message ends in ``remedy`` or, with ``unseen="missing"``, is a missing cell.
    """
    codes, levels_here = _as_kind(data, place, "category")
    known = {level: code for code, level in enumerate(levels)}
    known |= {"0": 0, "1": 1} if levels == BOOLEAN else {}
    matched_codes = _at(np.array([known.get(level, -1) for level in levels_here], dtype=np.float64), codes)
    if (matched_codes < 0).any() and unseen == "error":
        row = int(np.flatnonzero(matched_codes < 0)[0])
        raise ZooError(
            f"{data.name}: column {data.columns[place]!r}, row {row + 1}: {levels_here[int(codes[row])]!r} is a level unknown "
            f"to the model, which has {', '.join(levels)}{remedy}"
        )
    return np.where(matched_codes < 0, np.nan, matched_codes)


# ---------------------------------------------------------------------------------------------------------------------
# Columns one by one


def categories_of(data: Data) -> tuple[tuple[str, ...], ...]:
    """The levels of each column, () for a column without levels."""
    return data.categories or ((),) * len(data.columns)


def notes_of(data: Data) -> tuple[Note, ...]:
    """One note per column: those made by reading, and a plain note for every other column."""
    kinds = data.kinds or ("",) * len(data.columns)
    seen = {
        column: kind or ("category" if levels else "number")
        for column, kind, levels in zip(data.columns, kinds, categories_of(data), strict=True)
    }
    if data.label is not None:
        seen.setdefault(data.label, "label")
    known = [note for note in data.notes if note.kind in LEFT_OUT or note.column in seen]
    rest = [Note(column, kind, "") for column, kind in seen.items() if column not in {note.column for note in known}]
    return (*(note._replace(kind=seen.get(note.column, note.kind)) for note in known), *rest)


def cells_of(data: Data, column: str) -> np.ndarray | None:
    """(N,): names or numbers of a column, also if it was left out; None for a missing cell, or if there is no such column."""
    if column not in data.columns:
        return next((note.cells for note in data.notes if note.column == column), None)
    place = data.columns.index(column)
    values, levels = data.x[:, place], categories_of(data)[place]
    named = _at(np.array(levels, dtype=object), values, None) if levels else values.astype(object)
    named[np.isnan(values)] = None
    return named


def _at(table: np.ndarray, codes: np.ndarray, missing: Any = np.nan) -> np.ndarray:
    """(N,): entries of ``table`` at codes, ``missing`` for a code that is NaN."""
    return np.append(table, np.array([missing], dtype=table.dtype))[np.where(np.isnan(codes), -1, codes).astype(int)]


def _as_kind(data: Data, place: int, kind: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """(values, levels) of a column read as ``kind``; raises `ZooError` for the first cell that is not of this kind."""
    values, names = data.x[:, place], categories_of(data)[place]
    filled = ~np.isnan(values)
    if kind == "category":
        if names:
            return values, names
        different, codes = np.unique(values[filled], return_inverse=True)
        coded = np.full(len(values), np.nan)
        coded[filled] = codes
        return coded, tuple(f"{value:.15g}" for value in different)
    numbers = _at(np.array([number_of(level) for level in names]), values) if names and names != BOOLEAN else values
    _raise_first_cell(data, place, np.isnan(numbers) & filled, "is not a number")
    if kind == "count":
        _raise_first_cell(data, place, (numbers < 0) | (numbers != np.floor(numbers)) & filled, "is not a count")
    return numbers, ()


def _raise_first_cell(data: Data, place: int, wrong: np.ndarray, what: str) -> None:
    if wrong.any():
        row, column = int(np.flatnonzero(wrong)[0]), data.columns[place]
        levels_here = categories_of(data)[place]
        cell = repr(levels_here[int(data.x[row, place])]) if levels_here else f"{data.x[row, place]:.15g}"
        raise ZooError(f"{data.name}: column {column!r}, row {row + 1}: {cell} {what}; correct the cell, or give another type")


def _with(data: Data, readings: Mapping[int, Converted]) -> Data:
    """Replace columns by their readings."""
    if not readings:
        return data
    x, categories, kinds = data.x.copy(), list(categories_of(data)), list(data.kinds or ("",) * len(data.columns))
    for place, reading in readings.items():
        x[:, place], categories[place], kinds[place] = reading.values, reading.levels, reading.kind.kind
    judged = {data.columns[place]: reading.kind for place, reading in readings.items()}
    notes = (
        n._replace(kind=judged[n.column].kind, why=judged[n.column].why) if n.column in judged else n for n in notes_of(data)
    )
    named = tuple(categories) if any(categories) else ()
    return data._replace(x=x, categories=named, kinds=tuple(kinds), notes=tuple(notes))


def _without(data: Data, out: Mapping[str, ColumnKind]) -> Data:
    """Drop columns; their cells stay in the notes."""
    if not out:
        return data
    notes = [
        n._replace(kind=out[n.column].kind, why=out[n.column].why, cells=cells_of(data, n.column)) if n.column in out else n
        for n in notes_of(data)
    ]
    return keep_columns(data, [d for d, c in enumerate(data.columns) if c not in out])._replace(notes=tuple(notes))


def _raise_no_table(data: Data) -> None:
    if isinstance(data.x, Sequences) or is_sparse(data.x):
        raise ZooError(f"{data.name} holds documents or sparse counts, which have no columns of different kinds")
