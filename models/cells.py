"""Cells of a column as they are written: which are missing, which are numbers, what the levels of the others are called.

A cell is **missing** where it is empty, or where its whole text, without margins, is one of

| spelling | where |
|---|---|
| ``?`` | everywhere |
| those of pandas: ``NA  N/A  n/a  NaN  nan  null  NULL  None  <NA>  #N/A`` … | in a text file; elsewhere among numbers only |
| ``-  --  –  .  ..  *  na  n.a.  missing  unknown`` in any case | among numbers only: a column whose other cells are numbers |

What may be a level in practice, as − of a rhesus factor or "unknown" of a questionnaire, is a level where the column has other
words. ``missing=[unknown, -99]`` adds spellings, for all columns; with ``missing=[]`` only empty cells are missing.

A column is of **numbers** where all other cells are; of **levels** where at least half of them are not. Between the two it has
slips, and the first one is named; so is the first of numbers that are written with marks, as 1,5 or 1.234.567 or 12 %.
A level is called what the cell says, without margins; a whole number has no decimal point (1.0 is 1), and True and False are
so called. Levels come in the order of their names, numbers among themselves by size, those of a pandas Categorical in its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from models.data import BOOLEAN, ZooError

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("?",)
PANDAS = (
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN",
    "None", "n/a", "nan", "null",
)  # fmt: skip
AMONG_NUMBERS = ("-", "--", "–", "—", ".", "..", "...", "*", "na", "n.a.", "missing", "unknown")
DOUBTFUL = tuple(sorted({*AMONG_NUMBERS, *map(str.lower, PANDAS)}))  # in lower case
MARKS = {"comma": ",", "semicolon": ";", "tab": "\t", "point": ".", "space": " ", "apostrophe": "'", "bar": "|", "none": ""}
NEARLY = 0.9  # the share of cells that makes a column one of numbers written with marks

# How numbers are written that are none to a computer, and what to do about it.
WRITTEN = (
    (re.compile(r"[+-]?(\d*,\d+|\d{1,3}(,\d{3})+(\.\d+)?)"), "data.decimal=comma if 1,5 means 1.5, or data.thousands=comma"),
    (re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?"), "data.thousands=point, and data.decimal=comma"),
    (re.compile(r"[+-]?\d{1,3}([ \u00a0\u202f]\d{3})+([.,]\d+)?"), "data.thousands=space"),
    (re.compile(r"[+-]?\d{1,3}('\d{3})+(\.\d+)?"), "data.thousands=apostrophe"),
    (re.compile(r"[+-]?([€$£] ?[\d.,]+|[\d.,]+ ?[%€$£])"), "the number without its sign, in a corrected table"),
)


class Style(NamedTuple):
    """How a source writes its cells; `style_of` makes it of the options of a user."""

    words: tuple[str, ...] = MISSING  # spellings of a missing cell, beside the empty one
    among_numbers: tuple[str, ...] = DOUBTFUL
    separator: str | None = None  # of the columns of a text file; by default a comma, in .tsv a tab
    decimal: str = "."
    thousands: str = ""


class Cells(NamedTuple):
    """A column read: numbers, or codes into levels, NaN for a missing cell; how those were written, and how often."""

    values: np.ndarray  # (N,)
    levels: tuple[str, ...] = ()
    spelled: tuple[tuple[str, int], ...] = ()


class Words(NamedTuple):
    """A column as the places of its cells in its different words, −1 for an empty one."""

    places: np.ndarray  # (N,)
    names: np.ndarray  # (words,) of text

    def cells(self, chosen: np.ndarray) -> np.ndarray:
        """(N,): whether a cell holds one of the words that are ``chosen``, a mask."""
        return np.append(chosen, False)[self.places]

    def values(self, values: np.ndarray) -> np.ndarray:
        """(N,): a number for every word -> one for every cell, NaN for an empty one."""
        return np.append(values.astype(np.float64), np.nan)[self.places]


OPTIONS = ("missing", "separator", "decimal", "thousands")


def style_of(options: Mapping[str, Any], plain: bool) -> Style:
    """Options of `load_data` as a `Style`; ``plain``: of a text file. Raises `ZooError` for other options and marks."""
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        takes = "label, labels, columns, drop_constant, threshold, text, unit, weight, types, format"
        raise ZooError(f"unknown data option {unknown[0]!r}: a table takes {takes}, {', '.join(OPTIONS)}")
    given = {name: value for name, value in options.items() if value is not None}
    missing = given.pop("missing", None)
    for name, value in given.items():
        mark = MARKS.get(value, value) if isinstance(value, str) else None
        if mark is None or len(mark) > 1 or (not mark and name != "thousands"):
            raise ZooError(f"{name}={value!r} is not one character, or one of {', '.join(MARKS)}")
        given[name] = mark
    usual = (*MISSING, *PANDAS) if plain else MISSING
    if missing is None:
        return Style(words=usual, **given)
    added = missing if isinstance(missing, list | tuple | set) else [missing]
    if not added:
        return Style(words=(), among_numbers=(), **given)
    return Style(words=(*usual, *("null" if word is None else _name(word) for word in added)), **given)


def read_cells(column: pd.Series[Any], title: str, style: Style, kind: str = "") -> Cells:
    """One column of a table called ``title``; ``kind="category"`` makes levels of all its cells.

    Raises `ZooError` naming column, row and value for dates, nested cells, and what is no number among numbers.
    """
    import pandas as pd

    _refuse_others(column, title)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _levels(_words_of(column), style, [_name(level) for level in column.dtype.categories])
    if pd.api.types.is_bool_dtype(column) or pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        values = column.astype(object).where(column.notna(), np.nan).to_numpy(dtype=np.float64)
        return Cells(values, BOOLEAN, _counted({}, np.isnan(values)))
    if pd.api.types.is_numeric_dtype(column) and kind != "category":
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return _numbers(values, style, {}, np.isnan(values))
    words = _words_of(column)
    return _levels(words, style) if kind == "category" else _text(words, title, str(column.name), style)


def label_cells(column: pd.Series[Any], style: Style) -> pd.Series[Any]:
    """A column of labels with None where a cell is missing, and with numbers where a file had them among missing ones."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype) or pd.api.types.is_numeric_dtype(column):
        return column
    words = _words_of(column)
    gone = words.cells(np.isin(words.names, ("", *style.words)))
    kept = column.astype(object).reset_index(drop=True).mask(gone, None)
    numbers = pd.to_numeric(kept, errors="coerce")
    return numbers if gone.any() and numbers.notna().equals(kept.notna()) else kept


def _name(cell: Any) -> str:
    """What a level is called."""
    if isinstance(cell, float | np.floating):
        return f"{cell:.15g}"
    text = str(cell).replace("\0", "").strip()  # netCDF holds no null character
    return text.partition(".")[0] if re.fullmatch(r"[+-]?(0|[1-9]\d*)\.0+", text) else text


def _words_of(column: pd.Series[Any]) -> Words:
    import pandas as pd

    places, found = pd.factorize(column.astype(object) if column.dtype == object else column)
    return Words(np.asarray(places), np.array([_name(word) for word in found], dtype=object))


def _counted(spelled: Mapping[str, int], empty: np.ndarray) -> tuple[tuple[str, int], ...]:
    """Spellings and their numbers, most frequent first; ``empty`` (N,) is true for a cell without any text."""
    counts = Counter(spelled) + Counter({"": int(empty.sum())})
    return tuple((word or "empty", count) for word, count in counts.most_common())


def _spelled(words: Words, gone: np.ndarray) -> Counter[str]:
    """How often each of the words that are ``gone`` stands in the column."""
    counts = np.bincount(words.places[words.places >= 0], minlength=len(words.names))
    found: Counter[str] = Counter()
    for word, count in zip(words.names[gone], counts[gone], strict=True):
        found[word] += int(count)
    return found


def _numbers(values: np.ndarray, style: Style, spelled: Mapping[str, int], empty: np.ndarray) -> Cells:
    """Numbers, without those that stand for a missing cell."""
    found = dict(spelled)
    for word in style.words:
        gone = values == number_of(word)
        if gone.any():
            values, found[word] = np.where(gone, np.nan, values), int(gone.sum())
    return Cells(values, (), _counted(found, empty))


def number_of(word: str) -> float:
    """The number that a text is, NaN for another text."""
    try:
        return float(word)
    except ValueError:
        return np.nan


def _text(words: Words, title: str, name: str, style: Style) -> Cells:
    """Numbers or levels, whichever the words are; raises `ZooError` for a slip among numbers."""
    import pandas as pd

    gone = np.isin(words.names, ("", *style.words))
    plain = [word.replace(style.thousands, "").replace(style.decimal, ".") for word in words.names]
    numbers = pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce").to_numpy(dtype=np.float64)
    numbers = np.where(gone, np.nan, numbers)
    soft = np.isnan(numbers) & ~gone & np.isin([word.lower() for word in words.names], style.among_numbers)
    slips = np.isnan(numbers) & ~gone & ~soft
    if not slips.any() and not np.isnan(numbers).all():
        return _numbers(words.values(numbers), style, _spelled(words, gone | soft), words.places < 0)
    if slips.any():
        _refuse_slips(words, slips, ~np.isnan(numbers), title, name)
    return _levels(words, style)


def _refuse_slips(words: Words, slips: np.ndarray, numbers: np.ndarray, title: str, name: str) -> None:
    """A `ZooError` where ``slips`` are written with marks, or are fewer than the ``numbers``: masks of the words."""
    bad, good = words.cells(slips).sum(), words.cells(numbers).sum()
    written = np.array([any(form.fullmatch(word) for form, _ in WRITTEN) for word in words.names]) & slips
    marked = words.cells(written).sum()
    as_levels = f"data.types.{name}=category"
    if marked >= NEARLY * bad and marked + good >= NEARLY * (bad + good):
        row = int(np.flatnonzero(words.cells(written))[0])
        word = words.names[words.places[row]]
        remedy = next(remedy for form, remedy in WRITTEN if form.fullmatch(word))
        raise ZooError(
            f"{title}: column {name!r}, row {row + 1}: {word!r} is a number written with a mark: {remedy}; if these are "
            f"levels, say {as_levels}"
        )
    if bad < good:
        row = int(np.flatnonzero(words.cells(slips))[0])
        word = words.names[words.places[row]]
        raise ZooError(
            f"{title}: column {name!r}, row {row + 1}: {word!r} is not a number; correct the cell, or say that it is missing "
            f"(data.missing=[{word}]) or that the column has levels ({as_levels})"
        )


def _levels(words: Words, style: Style, order: list[str] | None = None) -> Cells:
    """Codes into the levels that the column has, in ``order`` where there is one."""
    gone = np.isin(words.names, ("", *style.words))
    names = words.names
    levels: tuple[str, ...]
    if order is None and {word.lower() for word in names[~gone]} in ({"true"}, {"false"}, {"true", "false"}):
        names, levels = np.array([word.capitalize() for word in names], dtype=object), BOOLEAN
    else:
        found = set(names[~gone])
        levels = tuple(dict.fromkeys(name for name in (order or sorted(found, key=_by_size)) if name in found))
    codes = {level: code for code, level in enumerate(levels)}
    values = np.array([codes.get(name, np.nan) for name in names], dtype=np.float64)
    return Cells(words.values(np.where(gone, np.nan, values)), levels, _counted(_spelled(words, gone), words.places < 0))


def _by_size(name: str) -> tuple[bool, float, str]:
    """Numbers first, by size, then words."""
    number = number_of(name)
    return np.isnan(number), 0.0 if np.isnan(number) else number, name


def _refuse_others(column: pd.Series[Any], title: str) -> None:
    """A `ZooError` for what is neither numbers nor words: dates, cells of several values, complex numbers."""
    import pandas as pd

    leave = f"leave the column out (data.types.{column.name}=ignore)"
    what = pd.api.types.infer_dtype(column, skipna=True)
    if what in ("datetime64", "datetime", "date", "timedelta64", "timedelta", "time", "period", "interval"):
        raise ZooError(f"{title}: column {column.name!r} holds dates; turn them into numbers, or {leave}")
    if what == "complex":
        raise ZooError(f"{title}: column {column.name!r} holds complex numbers; make a column of each part, or {leave}")
    if column.dtype != object:
        return
    several = next((row for row, cell in enumerate(column) if isinstance(cell, list | tuple | dict | set | np.ndarray)), None)
    if several is not None:
        raise ZooError(
            f"{title}: column {column.name!r}, row {several + 1}: the cell holds several values; make a column of each, "
            f"or {leave}"
        )
