"""The rows of a new table for a fitted model, in blocks: a table of any length needs memory for one block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from models.cells.style import LINES, style_of
from models.data.columns import Layout, as_typed, categories_of
from models.data.documents import Sequences
from models.data.missing_spellings import number_of
from models.data.table import BOOLEAN, SEQUENCE_NAME, Data, ZooError, is_sparse, is_table, take
from models.errors import did_you_mean, some_of
from models.reading.corpus_files import FILE
from models.reading.files import frames, is_text, require_file
from models.reading.generated import is_named
from models.reading.load import UNSEEN, load_data
from models.reading.readers import Wanted, of_frame
from models.reading.repairs import checked_repairs

if TYPE_CHECKING:
    import pandas as pd

STYLE = ("missing", "separator", "decimal", "thousands", "encoding", *LINES)  # how cells are written
REPAIRS = ("units", "dates", "merge")  # of single columns
READING = (
    *STYLE,
    *REPAIRS,
    "text",
    "unit",
    "empty",
    "sequence",
    "threshold",
    "format",
    "vocabulary",
)  # options that new rows take from a run


class RowBlock(NamedTuple):
    """Some rows of a new table."""

    data: Data
    first: int  # row of the whole table, from 0, that the block begins with
    kept_columns: Mapping[str, list[str]] = {}  # columns that are kept with the rows, as they are written


def read_blocks(
    source: str,
    fitted: Data,
    layout: Layout | None,
    options: Mapping[str, Any],
    size: int | None,
    keep: Sequence[str] = (),
    keep_if_there: Sequence[str] = (),
    unseen: str = "error",
) -> Iterator[RowBlock]:
    """The rows of ``source`` in blocks of ``size`` rows or somewhat more, read with the columns of the ``fitted`` table.

    Columns are matched by name, others are left out; levels are those of the fitted table, or of the model's ``layout``.
    Another level of a model with a layout is an error or, with ``unseen="missing"``, a missing cell. ``options`` are those of
    `models.reading.load.load_data` in `READING`, and the ``types`` of the run: a column whose levels are numbers was read as
    numbers unless these declare it otherwise, so that ``02`` is 2. Each block has the columns of ``keep`` as texts, which the
    table must have, and those of ``keep_if_there`` that it has. Sequences are never cut: with ``size=None`` the table is one
    block, as of a table that is one sequence. A table in a text, Parquet or Arrow file is read block by block, anything else as
    a whole. Raises `ZooError` for an absent column, an unknown level, and a cell of another kind.
    """
    given = {name: value for name, value in options.items() if value is not None}
    declared = given.pop("types", {})
    if is_named(source) or "format" in given:
        if set(keep) - {FILE}:
            raise ZooError(
                f"data.keep: {source} has no columns to keep; of a folder of texts data.keep=[{FILE}] keeps the names"
            )
        data = _in_memory(source, given, {*keep, *keep_if_there})
        if is_table(data) and not is_sparse(data.x) and is_table(fitted) and not is_sparse(fitted.x):
            data = _like(data, fitted, layout, unseen)
        yield from _slices(data, size)
        return
    require_file(Path(source))
    require_texts(source, fitted, given)
    like = None if isinstance(fitted.x, Sequences) else layout_of(fitted, layout)
    types = {} if like is None else _types(like, given.get("sequence"), "threshold" in given)
    style = style_of({name: given[name] for name in STYLE if name in given}, plain=is_text(Path(source)))
    wanted = Wanted(text=given.get("text"), unit=given.get("unit"), empty=_empty(given))
    if like is not None:
        hints = {} if "threshold" in given else _hints_of(like, declared)
        wanted = _wanted(types, given)._replace(hints=hints)
    parts = frames(Path(source), style, wanted.as_text, size or 2**31, {*keep, *keep_if_there})
    if given.get("sequence") is not None:
        parts = whole_sequences(parts, str(given["sequence"]), source)
    first = 0
    for frame in parts:
        if len(frame) == 0:
            continue
        with counted_from(first):
            data = _of_frame(frame.reset_index(drop=True), source, style, like, wanted, given)
            data = data if like is None else _like(data, fitted, layout, unseen)
        columns_aside = _kept_cells(frame, [*keep, *(name for name in keep_if_there if name in frame)], source)
        if given.get("sequence") in {*keep, *keep_if_there}:
            columns_aside = {SEQUENCE_NAME: _kept_cells(frame, [given["sequence"]], source)[given["sequence"]]} | columns_aside
        yield RowBlock(data, first, columns_aside)
        first += len(frame)
    if not first:
        raise ZooError(f"{source} has no rows")


def _kept_cells(frame: pd.DataFrame, keep: Sequence[str], source: str) -> dict[str, list[str]]:
    """The cells of columns that are kept, as texts; raises `ZooError` for a column that the table lacks."""
    if absent := [name for name in keep if name not in frame]:
        near = did_you_mean(absent[0], list(map(str, frame)))
        raise ZooError(f"{source} has no column {absent[0]!r} to keep{near} (data.keep)")
    return {name: frame[name].astype(object).where(frame[name].notna(), "").astype(str).tolist() for name in keep}


@contextmanager
def counted_from(first: int) -> Iterator[None]:
    """Messages about rows of a block name its beginning in the table: after ``first`` rows."""
    try:
        yield
    except ZooError as error:
        if not first:
            raise
        raise ZooError(f"{error} (rows are counted from row {first + 1} of the table)") from error


def layout_of(fitted: Data, layout: Layout | None) -> Layout:
    """The columns that new rows must have: those of a model's layout, or else of the fitted table."""
    if layout is not None:
        return layout
    levels = categories_of(fitted)
    return Layout(fitted.columns, tuple("category" if level_names else "number" for level_names in levels), levels)


def require_texts(source: str, fitted: Data, given: Mapping[str, Any]) -> None:
    """Raises `ZooError` where a model of documents is given a table without a column of texts."""
    if isinstance(fitted.x, Sequences) and "text" not in given:
        raise ZooError(f"{source}: this run is of documents; name the column of texts by data.text=, or say data.format=")


def _types(like: Layout, sequence: str | None, binarised: bool) -> dict[str, str]:
    """How the cells of each column are read: as numbers, too, where these become levels by the threshold."""
    levels = dict(zip(like.columns, like.categories, strict=True))
    types = {name: "category" if level_names and not binarised else "number" for name, level_names in levels.items()}
    return types | ({} if sequence is None else {sequence: "category"})


def _hints_of(like: Layout, declared: Mapping[str, str]) -> dict[str, str]:
    """How the columns of levels are read: those that are numbers by their values, unless the user has declared the column."""
    known = {name: levels for name, levels in zip(like.columns, like.categories, strict=True) if levels and levels != BOOLEAN}
    codes = {name for name, levels in known.items() if name not in declared and all(map(_is_value, levels))}
    return {name: "code" if name in codes else "word" for name in known}


def _is_value(level: str) -> bool:
    """Whether a level is the name of a number, as a table of numbers has it."""
    return f"{number_of(level):.15g}" == level != "nan"


def _wanted(types: Mapping[str, str], given: Mapping[str, Any]) -> Wanted:
    """The columns to read, with the repairs of those among them that the run declared."""
    repairs = checked_repairs(*(given.get(name) for name in REPAIRS))
    others = [column for column in repairs.columns if column not in types]
    return Wanted(columns=list(types), types=dict(types), repairs=repairs.without(others))


def _of_frame(
    frame: pd.DataFrame, source: str, style: Any, like: Layout | None, wanted: Wanted, given: Mapping[str, Any]
) -> Data:
    data = of_frame(frame, source, style, wanted)
    if like is None:
        return data
    return load_data(data, types=wanted.types, sequence=given.get("sequence"), threshold=given.get("threshold"))


def _empty(given: Mapping[str, Any]) -> str | None:
    """Texts that are missing are read as documents without words even if they are to be dropped: rows keep their numbers."""
    return None if given.get("empty") is None else "keep"


def _like(data: Data, fitted: Data, layout: Layout | None, unseen: str) -> Data:
    """Rows with the columns and levels of the model's layout, or else of the fitted table."""
    return as_typed(data, layout_of(fitted, None)) if layout is None else as_typed(data, layout, unseen, UNSEEN)


def _in_memory(source: str, given: Mapping[str, Any], keep: set[str]) -> Data:
    """A corpus, with the names of its files if they are kept, or a named data set."""
    taken = {"threshold"} if is_named(source) else set(given)
    files = [FILE] if FILE in keep and Path(source).is_dir() else None
    return load_data(source, keep=files, **{name: value for name, value in given.items() if name in taken})


def _slices(data: Data, size: int | None) -> Iterator[RowBlock]:
    """The rows of a table in memory; sequences are never cut."""
    edges = np.arange(data.num_rows + 1) if data.starts is None else np.asarray(data.starts)
    first = 0
    while first < data.num_rows:
        wanted = data.num_rows if size is None else min(first + size, data.num_rows)
        last = int(edges[np.searchsorted(edges, wanted)])
        part = take(data, np.arange(first, last))
        yield RowBlock(part, first, {name: cells.astype(str).tolist() for name, cells in part.kept_columns})
        first = last


def whole_sequences(parts: Iterator[pd.DataFrame], column: str, source: str) -> Iterator[pd.DataFrame]:
    """The same rows, in frames that end where a sequence does; raises `ZooError` for one that continues after another."""
    held: list[pd.DataFrame] = []  # the rows of a sequence that may go on
    seen: dict[str, None] = {}  # names of the sequences so far, the last of which may go on
    for part in parts:
        if column not in part:
            raise ZooError(f"{source} has no column {column!r} to name sequences; its columns are {some_of(part)}")
        names = part[column].astype(str).to_numpy()
        begins = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
        goes_on = names[0] == next(reversed(seen), None)
        new = names[begins[1:] if goes_on else begins].tolist()
        _add_new(new, seen, column, source)
        last = int(begins[-1])
        if new:  # the sequence held has ended
            if ended := [*held, *([part.iloc[:last]] if last else [])]:
                yield _joined(ended)
            held = [part.iloc[last:]]
        else:
            held.append(part)
    if held:
        yield _joined(held)


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return frames[0] if len(frames) == 1 else pd.concat(frames)


def _add_new(new: list[str], seen: dict[str, None], column: str, source: str) -> None:
    """Adds sequences to those ``seen``; raises `ZooError` for one that has been there before another one."""
    for name in new:
        if name in seen:
            raise ZooError(
                f"{source}: column {column!r}: sequence {name!r} continues after another one; sort the rows so that those of "
                "a sequence are consecutive and in order"
            )
        seen[name] = None
