"""The lines above the rows of a text file: titles, a line ``sep=;``, and none, one or several lines of names.

| option | means |
|---|---|
| ``skip=2`` | the first two lines are left out |
| ``header=none`` | no line holds names; the columns are x0, x1, … |
| ``header=2`` | the two lines above the rows hold names (`names_of`) |

Nothing is skipped by default: `oddities_above` describes the first lines.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

import numpy as np

from models.cells.style import DOUBTFUL, MARKS, MISSING
from models.data.column_kinds import DATE
from models.reading.lines.oddity import Oddity

LOOKED_AT = 60  # lines
NUMBER = re.compile(r"[+\-−]?(\d[\d.,]*|[.,]\d+)([eE][+-]?\d+)?")
SEPARATORS = ("semicolon", "tab", "bar")
NEARLY = 0.9  # share of numbers in a column of numbers
MOST_LINES = 3  # of names
NAMED = re.compile(r"[^\W\d_]|[(\[{%°‰€$£]")  # how a name begins
IN_BRACKETS = re.compile(r"[(\[{].*[)\]}]")
UNITS = frozenset((
    "kg", "g", "mg", "µg", "t", "lb", "oz", "m", "km", "cm", "mm", "µm", "nm", "in", "ft", "yd", "mi", "d", "h", "min",
    "s", "ms", "L", "l", "dL", "mL", "µL", "°C", "°F", "K", "%", "‰", "€", "$", "£", "years",
))  # fmt: skip
FAR = 3  # ranges of a column by which a number of its first line may be beyond the others


class Top(NamedTuple):
    """The first lines of a file, as cells without white space around them; blank lines are left out."""

    rows: list[list[str]]
    at: list[int]  # the line of each, from 0; cells with several lines are taken as one


def cells_of(lines: Sequence[str], separator: str, skip: int = 0) -> Top:
    """The cells of lines, behind the first ones; a line that is cut by quotes goes on in the next one."""
    try:
        rows = list(csv.reader((f"{line}\n" for line in lines), delimiter=separator, skipinitialspace=True))
    except csv.Error:  # of a cell beyond any size
        return Top([], [])
    at = [line for line, row in enumerate(rows) if line >= skip and any(cell.strip() for cell in row)]
    return Top([[cell.strip() for cell in rows[line]] for line in at], at)


def names_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """The names of columns from one or several lines: the first line, where it names every column differently; otherwise all.

    A blank cell above others is taken to continue the cell to its left, as where cells were joined in a spreadsheet.

    >>> names_of([["before", "", "after", ""], ["weight", "height", "weight", "height"]])
    ['before weight', 'before height', 'after weight', 'after height']
    """
    width = max(map(len, rows))
    filled = [[*row, *[""] * (width - len(row))] for row in rows]
    if len(rows) == 1 or (all(filled[0]) and len(set(filled[0])) == width):
        return [name or f"Unnamed: {place}" for place, name in enumerate(filled[0])]
    above = [_continued(row) for row in filled[:-1]]
    columns = zip(*above, filled[-1], strict=True)
    joined = [" ".join(dict.fromkeys(part for part in parts if part)) for parts in columns]
    return [name or f"Unnamed: {place}" for place, name in enumerate(joined)]


def _continued(row: Sequence[str]) -> list[str]:
    filled: list[str] = []
    for cell in row:
        filled.append(cell or (filled[-1] if filled else ""))
    return filled


def oddities_above(
    lines: Sequence[str], separator: str | None, usual: str, skip: int | None, header: int | None
) -> list[Oddity]:
    """Oddities of the first lines, unless the user gives ``separator``, ``skip`` and ``header``, which are None if not.

    ``usual`` is the separator by the ending of the file's name.
    """
    if not lines or header is not None:
        return []
    if skip is None and (named_separator := _separator_line(lines, separator)):
        return [named_separator]
    mark = separator or _mark_below(lines, usual)
    top = cells_of(lines, mark, skip or 0)
    if len(top.rows) < 2 or (
        separator is None and len(top.rows[0]) == 1 and any(MARKS[w] in top.rows[0][0] for w in SEPARATORS)
    ):
        return []  # the reader reports that these may be several columns
    if skip is None and (lead := _titles(top)):
        options = {"skip": top.at[lead]} | ({} if mark in (separator, usual) else {"separator": _named(mark)})
        several = f"lines 1 to {top.at[lead]} look" if top.at[lead] > 1 else "line 1 looks"
        what = f"{several} like a title above the table: {_shown(top.rows[0])}"
        return [Oddity(what, options, "data.skip=0 if the names are there")]
    if mark not in (separator, usual):  # the reader reports that the columns are separated by another mark
        return []
    first = f"line {top.at[0] + 1}"
    if _is_row(top.rows[0], top.rows[1:]):
        what = f"{first} looks like a row, not like names of columns: {_shown(top.rows[0])}"
        return [Oddity(what, {"header": "none"}, "data.header=1 if these are names")]
    if number := _more_names(top.rows):
        what = f"{number} lines look like names of columns, not like rows: {_shown(top.rows[1])} in the second"
        return [Oddity(what, {"header": number}, "data.header=1 if this is a row")]
    return []


def _shown(row: Sequence[str]) -> str:
    some = [cell if len(cell) <= 20 else f"{cell[:19]}…" for cell in row if cell][:3]
    return ", ".join(map(repr, some)) + (", …" if len([cell for cell in row if cell]) > len(some) else "")


def _named(mark: str) -> str:
    return next((word for word, sign in MARKS.items() if sign == mark), mark)


def _separator_line(lines: Sequence[str], separator: str | None) -> Oddity | None:
    """The line ``sep=;``, which names the separator for Excel."""
    match = re.fullmatch(r'"?sep=(.)"?[\s,;]*', lines[0].strip("\ufeff \n\r"), re.IGNORECASE)
    if match is None and not re.fullmatch(r"sep=\t?", lines[0].strip("\ufeff\n\r")):
        return None
    mark = "\t" if match is None else match[1]
    options = {"skip": 1} | ({"separator": _named(mark)} if separator is None else {})
    return Oddity(
        f"line 1 names the separator ({lines[0].strip()!r}) and is no part of the table", options, "data.skip=0 if it is"
    )


def _mark_below(lines: Sequence[str], usual: str) -> str:
    """The mark between cells: another than the usual one, if that one stands in most lines below the first, equally often."""
    below = [line for line in lines[1:] if line.strip()]
    for mark in (MARKS[word] for word in SEPARATORS):
        names = next((line for line in below if mark in line), usual)  # the first line with this mark
        number, often = Counter(line.count(mark) for line in below).most_common(1)[0] if below else (0, 0)
        if number and usual not in names and mark not in lines[0] and 2 * often > len(below):
            return mark
    return usual


def _titles(top: Top) -> int:
    """How many of the rows are titles: of one cell, or much narrower than the table, above a line of names."""
    widths = Counter(len(row) for row in top.rows[1:])
    width = min(widths, key=lambda one: (-widths[one], one))
    lead = 0
    for row in top.rows[:-1]:
        alone = sum(map(bool, row)) == 1 and bool(row[0])
        remark = row[0].startswith("#") and len(row) != width
        if not (alone or 2 * len(row) <= width or remark) or width < 2:
            break
        lead += 1
    names = top.rows[lead]
    filled = sum(map(bool, names))
    usual = sorted(sum(map(bool, row)) for row in top.rows[lead + 1 :])
    if not usual or filled < 2 or 2 * filled < usual[len(usual) // 2] or any(map(NUMBER.fullmatch, names)):
        return 0
    return lead


def _column(rows: Sequence[Sequence[str]], place: int) -> list[str]:
    """The filled cells of a column; spellings of a missing cell are left out."""
    cells = (row[place] for row in rows if place < len(row))
    return [cell for cell in cells if not _is_gone(cell)]


def _is_gone(cell: str) -> bool:
    return not cell or cell in MISSING or cell.lower() in DOUBTFUL


def _is_measured(cell: str) -> bool:
    return bool(NUMBER.fullmatch(cell) or DATE.fullmatch(cell))


def _are_measured(cells: Sequence[str]) -> bool:
    return bool(cells) and sum(map(_is_measured, cells)) >= NEARLY * len(cells)


def _is_row(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether the first line looks like the rows below it."""
    columns = [_column(below, place) for place in range(len(first))]
    measured = [place for place, cells in enumerate(columns) if _are_measured(cells)]
    words = [place for place, cells in enumerate(columns) if cells and place not in measured]
    if any(all(cell[0].isdigit() for cell in columns[place]) and not first[place][:1].isdigit() for place in words):
        return False  # a word above quantities, such as 59.4 kg
    again = [place for place in words if first[place] in columns[place]]
    if not measured:
        return bool(words) and 2 * len(again) >= max(len(words), 2 if len(words) > 1 else 1)
    heads = [first[place] for place in measured if not _is_gone(first[place])]
    if 2 * len(heads) < len(measured) or not heads or not all(map(_is_measured, heads)):
        return False
    if any(first[place] and place not in again and 2 * len(set(columns[place])) <= len(columns[place]) for place in words):
        return False  # a word that is none of the levels below it names them
    if any(map(DATE.fullmatch, heads)):
        return all(
            bool(DATE.fullmatch(first[place])) == bool(DATE.fullmatch(columns[place][0])) for place in measured if first[place]
        )
    numbers = [_number(head) for head in heads]
    counted = numbers == list(range(len(numbers))) and any(set(columns[place]) - {"0", "1"} for place in measured)
    if _are_steps(numbers) or (len(numbers) > 1 and counted):  # as pandas numbers columns
        return False
    if len(set(heads)) < len(heads) and len(heads) > 1:
        return True
    within = [_is_within(_number(first[p]), [_number(cell) for cell in columns[p] if NUMBER.fullmatch(cell)]) for p in measured
              if not _is_gone(first[p])]  # fmt: skip
    return 2 * sum(within) >= len(within)


def _number(cell: str) -> float:
    return (
        float("".join(re.findall(r"[\d.eE-]", cell.replace(",", ".").replace("−", "-"))))
        if cell.count(".") + cell.count(",") < 2
        else np.nan
    )


def _are_steps(numbers: Sequence[float]) -> bool:
    """Whether names are numbers that go up or down, such as years, doses or wavelengths."""
    steps = np.diff(numbers)
    if len(steps) < 2 or not ((steps > 0).all() or (steps < 0).all()):
        return False
    return len(steps) >= 3 or bool(np.allclose(steps, steps[0], rtol=1e-6))


def _is_within(number: float, others: Sequence[float]) -> bool:
    """Whether a number is no further from the others than their range."""
    if not others:
        return False
    low, high = min(others), max(others)
    return low - FAR * (high - low) <= number <= high + FAR * (high - low)


def _more_names(rows: Sequence[Sequence[str]]) -> int:
    """How many lines hold names, if several do; otherwise 0."""
    for number in range(min(MOST_LINES, len(rows) - 3), 1, -1):
        if all(_are_names(row, rows[number:]) for row in rows[1:number]):
            return number
    return 0


def _are_names(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a line below the first has words where the rows below it have numbers, or questions where they have levels."""
    columns = [_column(below, place) for place in range(len(row))]
    if any(cell and cell in columns[place] for place, cell in enumerate(row)):
        return False
    measured = [place for place, cells in enumerate(columns) if len(cells) > 1 and _are_measured(cells)]
    if not measured:
        levels = [place for place, cells in enumerate(columns) if len(cells) >= 2 * len(set(cells))]
        long = [row[place].count(" ") + 1 for place in levels if row[place]]
        return len(levels) > 2 and len(long) == len(levels) == len(row) and mean(long) >= 2
    words = [row[place] for place in measured if row[place]]
    if 2 * len(words) < len(measured) or not words or not all(map(NAMED.match, words)) or all(map(_is_gone, words)):
        return False
    units = all(word in UNITS or IN_BRACKETS.fullmatch(word) for word in words)
    return units or len(set(words)) > 1
