"""The columns of a table, printed before a run: kind and why, missing cells, values."""

import re
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from models.cells.overrides import proposed
from models.data.column_kinds import LEFT_OUT, kind_of
from models.data.columns import categories_of, cells_of, notes_of
from models.data.table import BOOLEAN, Data, Note, is_sparse
from models.reading.repairs import SINCE

REMEDIES = """\
another kind: data.types.<column>=number|count|category|label|identifier|ignore
another spelling of a missing cell: data.missing=[<spelling>,…]"""
DATES = "{0}: dates are modelled as numbers, so that rows near in time are alike. If they only say when a row was measured: {1}"
WEIGHTS = {
    "counts": "weights: counts, as all are whole or by data.weights; data.weights=relative takes their ratios alone",
    "relative": "weights: relative, scaled to mean 1; data.weights=counts takes them as numbers of rows",
}
SHOWN = 40  # columns printed, besides those that are left out; report.html has all


PIECE = re.compile(r"(?:(?<!\w)'(?:[^']|'\"'\"')*'|\S)+")  # a word, or what the shell reads as one


def folded(text: str, width: int) -> list[str]:
    """Text in lines of ``width`` columns, in which an argument in quotes is never divided: it can be pasted.

    >>> folded("leave it out by 'data.types.body mass=ignore'", 20)
    ['leave it out by', "'data.types.body mass=ignore'"]
    """
    lines = [""]
    for piece in PIECE.findall(text):
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(piece) > width:
            lines.append(piece)
        else:
            lines[-1] += f" {piece}" if lines[-1] else piece
    return lines


class Line(NamedTuple):
    """One column, in words."""

    column: str
    kind: str
    why: str
    missing: str
    holds: str  # levels, or range


def lines(data: Data) -> list[Line]:
    """One line per column of the table, in order, including those left out."""
    return [_line(data, note) for note in notes_of(data)]


def print_columns(data: Data, console: Console) -> None:
    """Print the columns as the model will read them, in 80 characters; for a corpus only its size."""
    if not hasattr(data.x, "ndim"):
        return
    if is_sparse(data.x):
        total = f"{data.num_rows} documents, {len(data.columns)} words, {data.x.sum():.0f} tokens"
        console.print(Text(f"{data.name}: {total}", style="bold"))
        return
    all_lines = lines(data)
    first = [line for line in all_lines if not line.kind.startswith("left out")][:SHOWN]
    shown = [line for line in all_lines if line in first or line.kind.startswith("left out")]
    widths = {"column": 18, "kind": 10, "why": 20, "missing": 12, "holds": 20}
    table = Table(*(Column(name, overflow="fold", max_width=width) for name, width in widths.items()), box=None, pad_edge=False)
    for line in shown:
        table.add_row(*map(Text, line), style="dim" if line.kind.startswith("left out") else "")
    console.print(Text(f"{data.name}: {data.num_rows} rows", style="bold"))
    console.print(table)
    if len(shown) < len(all_lines):
        console.print(f"and {len(all_lines) - len(shown)} more columns", highlight=False)
    if data.weights:
        console.print(WEIGHTS[data.weights], highlight=False, markup=False)
    for note in (note for note in notes_of(data) if note.why == SINCE):
        dates_remark = DATES.format(note.column, proposed("types", "ignore", note.column))
        console.print("\n".join(folded(dates_remark, console.width)), highlight=False, markup=False, soft_wrap=True)
    console.print(REMEDIES, style="dim", highlight=False, markup=False)


def _line(data: Data, note: Note) -> Line:
    column = note.column
    if note.kind == "label":
        codes = np.array([]) if data.labels is None else data.labels
        may = codes if data.candidates is None else np.flatnonzero(data.candidates.any(axis=0))
        return Line(column, "label", note.why, _missing(note, int((codes < 0).sum())), _levels(data.levels, may))
    if note.kind in LEFT_OUT:
        cells = cells_of(data, column)
        missing = "" if cells is None else _missing(note, sum(cell is None for cell in cells))
        return Line(column, f"left out: {note.kind}", note.why, missing, "" if cells is None else _some(_different(cells)))
    place = data.columns.index(column)
    values, levels = data.x[:, place], categories_of(data)[place]
    missing = _missing(note, int(np.isnan(values).sum()))
    return Line(
        column,
        note.kind,
        note.why or _remark_on_kind(data, place),
        missing,
        _levels(levels, values) if levels else _range(values, note.why == SINCE),
    )


def _remark_on_kind(data: Data, place: int) -> str:
    """For a table read without guessing kinds: a remark on a column that the rules would leave out."""
    if data.kinds and data.kinds[place]:
        return ""
    levels = categories_of(data)[place]
    judgement = kind_of(data.columns[place], data.x[:, place], () if levels == BOOLEAN else levels)
    return f"{judgement.kind}? {judgement.why}" if judgement.kind in LEFT_OUT else ""


def _missing(note: Note, number: int) -> str:
    """How many cells are missing, and how they were spelled; counts per spelling only if no row was left out since."""
    if not number:
        return ""
    whole = sum(count for _, count in note.spelled) == number
    written = ", ".join(f"{word} {count}" if whole and len(note.spelled) > 1 else word for word, count in note.spelled)
    return f"{number} ({written})" if written else str(number)


def _range(values: np.ndarray, dates: bool = False) -> str:
    seen = values[~np.isnan(values)]
    if not len(seen):
        return ""
    if dates:
        first, last = (np.datetime64(int(np.floor(day)), "D") for day in (seen.min(), seen.max()))
        return f"{first} to {last}"
    return f"{seen.min():.4g} to {seen.max():.4g}"


def _different(cells: np.ndarray) -> tuple[str, ...]:
    """The first distinct cells, as text."""
    distinct: dict[str, None] = {}
    for cell in cells:
        if cell is not None:
            distinct[f"{cell:.4g}" if isinstance(cell, float) else str(cell)] = None
        if len(distinct) > 6:
            break
    return tuple(distinct)


def _levels(levels: tuple[str, ...], codes: np.ndarray) -> str:
    """The levels, and those that no row has."""
    unused = tuple(level for code, level in enumerate(levels) if not (codes == code).any())
    return _some(levels) + (f"; no row has {_some(unused)}" if unused else "")


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
