"""Parsing the cells of a column: which are missing, which are numbers, and the names of the levels.

A cell is **missing** if it is empty, or if its text, stripped of white space, is one of

| spelling | where |
|---|---|
| ``?`` | everywhere |
| ``NA  N/A  n/a  NaN  nan  null  NULL  None  <NA>  #N/A`` … of pandas | in text files; elsewhere in numeric columns |
| ``-  --  –  .  ..  *  na  n.a.  missing  unknown`` in any case | in numeric columns |

Texts that may be real levels, such as "-" for a rhesus factor or "unknown" in a questionnaire, are levels in a column that has
other words. ``missing=[unknown, -99]`` adds spellings for all columns; with ``missing=[]`` only empty cells are missing.

A column holds **numbers** if all other cells are numbers, and **levels** if at least half of them are not. In between, the
cells that are not numbers are taken for mistakes, and an error names the first one. An error also names the first number with
marks, such as 1,5 or 1.234.567 or 12 % or $4.4M. A minus may be any of the signs that are printed as one (−5), and
``thousands="space"`` is any of the spaces that stand within numbers, as the one that does not break.

The name of a level is the text of the cell, stripped of white space. Whole numbers have no decimal point (1.0 is 1). Levels are
sorted, numbers by size before words. A pandas Categorical declares its levels: they keep their order, and levels without rows
stay, so that the prior gives them probability.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from models.cells.notations import SIZED, SPACES, SURELY_SIZED, WRITTEN, between_thousands, plain_sign, units_for
from models.cells.overrides import proposed
from models.cells.style import Style, cell_name
from models.data.table import BOOLEAN, ZooError

if TYPE_CHECKING:
    import pandas as pd

NEARLY = 0.9  # share of marked numbers from which a column is taken for numbers written with marks


class ParsedColumn(NamedTuple):
    """A parsed column: numbers, or codes into levels, NaN for a missing cell; and the spellings of missing cells."""

    values: np.ndarray  # (N,)
    levels: tuple[str, ...] = ()
    spelled: tuple[tuple[str, int], ...] = ()  # spelling of a missing cell, and how often it occurs


class ColumnWords(NamedTuple):
    """A column as indices into its distinct words, −1 for an empty cell."""

    places: np.ndarray  # (N,)
    names: np.ndarray  # (words,): distinct texts

    def cells(self, chosen: np.ndarray) -> np.ndarray:
        """(N,): which cells hold a word that is ``chosen``, a mask of the words."""
        return np.append(chosen, False)[self.places]

    def values(self, values: np.ndarray) -> np.ndarray:
        """(N,): map one number per word to the cells, NaN for an empty cell."""
        return np.append(values.astype(np.float64), np.nan)[self.places]


def read_cells(column: pd.Series[Any], title: str, style: Style, kind: str = "") -> ParsedColumn:
    """Parse one column of the table ``title``; with ``kind="category"`` every cell is a level.

    With ``kind`` number or count, words for a missing cell among numbers are missing, even if no cell holds a number. With
    ``kind="code"`` every cell is a level, and a number is named by its value: those of a column of numbers elsewhere. With
    ``kind="word"`` every cell is a level that is named as it is written, though all may be true or false.

    Raises `ZooError` naming column, row and value for dates, nested cells, and words among numbers.
    """
    import pandas as pd

    _require_single_numbers(column, title)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _levels(
            _words_of(column, style), style, [cell_name(level, style.thousands) for level in column.dtype.categories]
        )
    if pd.api.types.is_bool_dtype(column) or pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        values = column.astype(object).where(column.notna(), np.nan).to_numpy(dtype=np.float64)
        return ParsedColumn(values, BOOLEAN, _counted({}, np.isnan(values)))
    if pd.api.types.is_numeric_dtype(column) and kind not in ("category", "word"):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return _numbers(values, style, {}, np.isnan(values))
    words = _words_of(column, style)
    if kind in ("category", "word"):
        return _levels(words, style, truth=kind == "category")
    if kind == "code":
        return _codes(words, style)
    return _text(words, title, str(column.name), style, numeric=kind in ("number", "count"))


def label_cells(column: pd.Series[Any], style: Style, words: bool = False) -> pd.Series[Any]:
    """Parse a label column: None for a missing cell; numbers if all others are numbers, unless they are ``words``."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype) or pd.api.types.is_numeric_dtype(column):
        return column
    spelled_words = _words_of(column, style)
    gone = spelled_words.cells(np.isin(spelled_words.names, ("", *style.words)))
    cells_left = column.astype(object).reset_index(drop=True).mask(gone, None)
    if words:
        return cells_left
    numbers = pd.to_numeric(cells_left, errors="coerce")
    return numbers if gone.any() and numbers.notna().equals(cells_left.notna()) else cells_left


def _words_of(column: pd.Series[Any], style: Style) -> ColumnWords:
    import pandas as pd

    places, distinct = pd.factorize(column.astype(object) if column.dtype == object else column)
    return ColumnWords(np.asarray(places), np.array([cell_name(word, style.thousands) for word in distinct], dtype=object))


def _counted(spelled: Mapping[str, int], empty: np.ndarray) -> tuple[tuple[str, int], ...]:
    """Spellings and how often they occur, most frequent first; ``empty`` (N,) marks cells without text."""
    counts = Counter(spelled) + Counter({"": int(empty.sum())})
    return tuple((word or "empty", count) for word, count in counts.most_common())


def _spelled(words: ColumnWords, gone: np.ndarray) -> Counter[str]:
    """How often each word of the mask ``gone`` occurs in the column."""
    counts = np.bincount(words.places[words.places >= 0], minlength=len(words.names))
    counter: Counter[str] = Counter()
    for word, count in zip(words.names[gone], counts[gone], strict=True):
        counter[word] += int(count)
    return counter


def _numbers(values: np.ndarray, style: Style, spelled: Mapping[str, int], empty: np.ndarray) -> ParsedColumn:
    """Numbers, with NaN for numbers that spell a missing cell."""
    counts = dict(spelled)
    for word in style.words:
        gone = values == number_of(word)
        if gone.any():
            values, counts[word] = np.where(gone, np.nan, values), int(gone.sum())
    return ParsedColumn(values, (), _counted(counts, empty))


def number_of(word: str) -> float:
    """Parse a number; NaN if the text is not one."""
    try:
        return float(plain_sign(word))
    except ValueError:
        return np.nan


def plain_number(word: str, style: Style) -> str:
    """A number without the marks of its table, as Python writes it; nothing where marks do not stand between thousands.

    >>> plain_number("1\u202f234,5", Style(decimal=",", thousands=" ")), plain_number("1,5", Style(thousands=","))
    ('1234.5', '')
    """
    marks = SPACES if style.thousands == " " else style.thousands
    whole, point, rest = (word, "", "") if style.decimal in marks else word.partition(style.decimal)
    if any(mark in word for mark in marks):
        if not between_thousands(whole, marks) or any(mark in rest for mark in marks):
            return ""
        whole = "".join(sign for sign in whole if sign not in marks)
    return plain_sign(whole + ("." if point else "") + rest)


def _text(words: ColumnWords, title: str, name: str, style: Style, numeric: bool = False) -> ParsedColumn:
    """Parse words as numbers or as levels; raises `ZooError` for a mistake among numbers. ``numeric``: they are declared."""
    numbers, gone, soft = _as_numbers(words, style)
    slips = np.isnan(numbers) & ~gone & ~soft
    if not slips.any() and (numeric or not np.isnan(numbers).all()):
        return _numbers(words.values(numbers), style, _spelled(words, gone | soft), words.places < 0)
    if slips.any():
        _require_marks_in_place(words, slips, style, title, name)
        _require_few_slips(words, slips, ~np.isnan(numbers), title, name)
    return _levels(words, style)


def _as_numbers(words: ColumnWords, style: Style) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each word: its number, NaN for none; whether it is a missing cell everywhere; and whether only among numbers."""
    import pandas as pd

    gone = np.isin(words.names, ("", *style.words))
    plain = [plain_number(word, style) for word in words.names]
    numbers = pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce").to_numpy(dtype=np.float64)
    numbers = np.where(gone, np.nan, numbers)
    return numbers, gone, np.isnan(numbers) & ~gone & np.isin([word.lower() for word in words.names], style.among_numbers)


def _codes(words: ColumnWords, style: Style) -> ParsedColumn:
    """Levels of a column that holds numbers elsewhere: ``02`` is 2, as it was there."""
    numbers, gone, soft = _as_numbers(words, style)
    names = [word if np.isnan(value) else f"{value:.15g}" for word, value in zip(words.names, numbers, strict=True)]
    names = ["" if missing else name for name, missing in zip(names, gone | soft, strict=True)]
    parsed_levels = _levels(ColumnWords(words.places, np.array(names, dtype=object)), style)
    return parsed_levels._replace(spelled=_counted(_spelled(words, gone | soft), words.places < 0))


def _require_marks_in_place(words: ColumnWords, slips: np.ndarray, style: Style, title: str, name: str) -> None:
    """Raise `ZooError` if all ``slips``, a mask of the words, are numbers with a mark of thousands at another place."""
    if not style.thousands:
        return
    marks = re.compile(f"[{re.escape(SPACES if style.thousands == ' ' else style.thousands)}]")
    bare = [marks.sub("", word).replace(style.decimal, ".") for word in words.names[slips]]
    if all(marks.search(word) for word in words.names[slips]) and not np.isnan([number_of(word) for word in bare]).any():
        row = int(np.flatnonzero(words.cells(slips))[0])
        raise ZooError(
            f"{title}: column {name!r}, row {row + 1}: {words.names[words.places[row]]!r} has the mark of data.thousands where "
            "it does not stand between thousands; correct the cell or the option, or use "
            f"{proposed('types', 'category', name)} if these are levels"
        )


def _require_few_slips(words: ColumnWords, slips: np.ndarray, numbers: np.ndarray, title: str, name: str) -> None:
    """Raise `ZooError` if the ``slips`` are marked numbers, or fewer than the ``numbers``. Both are masks of the words."""
    bad, good = words.cells(slips).sum(), words.cells(numbers).sum()
    signed = [plain_sign(word) for word in words.names]
    sized = any(map(SURELY_SIZED.fullmatch, signed))
    forms = [(form, remedy) for form, remedy in WRITTEN if form is not SIZED or sized]
    written = np.array([any(form.fullmatch(word) for form, _ in forms) for word in signed], dtype=bool) & slips
    marked = words.cells(written).sum()
    as_levels = proposed("types", "category", name)
    if marked >= NEARLY * bad and marked + good >= NEARLY * (bad + good):
        row = int(np.flatnonzero(words.cells(written))[0])
        word = words.names[words.places[row]]
        remedy = next(remedy for form, remedy in forms if form.fullmatch(plain_sign(word)))
        if remedy == "data.units.":
            remedy = units_for(name, word, [one for one, slip in zip(signed, slips, strict=True) if slip], bool(good))
        raise ZooError(
            f"{title}: column {name!r}, row {row + 1}: {word!r} is a number written with a mark: {remedy}; if these are "
            f"levels, use {as_levels}"
        )
    if bad < good:
        row = int(np.flatnonzero(words.cells(slips))[0])
        word = words.names[words.places[row]]
        raise ZooError(
            f"{title}: column {name!r}, row {row + 1}: {word!r} is not a number; correct the cell, or declare it missing "
            f"({proposed('missing', [word])}) or the column categorical ({as_levels})"
        )


def _levels(words: ColumnWords, style: Style, order: list[str] | None = None, truth: bool = True) -> ParsedColumn:
    """Codes into the levels that occur or, if ``order`` declares them, into all declared levels.

    Levels that are all true or false are `BOOLEAN`, in any spelling, unless there is no ``truth`` in the column.
    """
    gone = np.isin(words.names, ("", *style.words))
    names = words.names
    levels: tuple[str, ...]
    if truth and order is None and {word.lower() for word in names[~gone]} in ({"true"}, {"false"}, {"true", "false"}):
        names, levels = np.array([word.capitalize() for word in names], dtype=object), BOOLEAN
    else:
        named = sorted(set(names[~gone]), key=_by_size) if order is None else order
        levels = tuple(name for name in dict.fromkeys(named) if name not in ("", *style.words))
    codes = {level: code for code, level in enumerate(levels)}
    values = np.array([codes.get(name, np.nan) for name in names], dtype=np.float64)
    return ParsedColumn(words.values(np.where(gone, np.nan, values)), levels, _counted(_spelled(words, gone), words.places < 0))


def _by_size(name: str) -> tuple[bool, float, str]:
    """Numbers first, by size, then words."""
    number = number_of(name)
    return np.isnan(number), 0.0 if np.isnan(number) else number, name


def _require_single_numbers(column: pd.Series[Any], title: str) -> None:
    """Raise `ZooError` for dates, complex numbers, and cells with several values."""
    import pandas as pd

    leave = f"leave the column out ({proposed('types', 'ignore', str(column.name))})"
    what = pd.api.types.infer_dtype(column, skipna=True)
    if what in ("datetime64", "datetime", "date", "timedelta64", "timedelta", "time", "period", "interval"):
        as_numbers = (
            f"read them as days by {proposed('dates', 'ymd', str(column.name))}" if "date" in what else "make numbers of them"
        )
        raise ZooError(f"{title}: column {column.name!r} holds dates or times; {as_numbers}, or {leave}")
    if what == "complex":
        raise ZooError(f"{title}: column {column.name!r} holds complex numbers; make one column per part, or {leave}")
    if column.dtype != object:
        return
    several = next((row for row, cell in enumerate(column) if isinstance(cell, list | tuple | dict | set | np.ndarray)), None)
    if several is not None:
        raise ZooError(
            f"{title}: column {column.name!r}, row {several + 1}: the cell holds several values; make one column for each, "
            f"or {leave}"
        )
