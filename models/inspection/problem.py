"""A problem of a table, with the options of `models.load_data` that are proposed as its remedy."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

BY_COLUMN = ("types", "units", "dates", "merge")  # options with one value per column
SHOWN = 3  # examples of cells in a message


class Remedy(NamedTuple):
    """One proposed option: ``Remedy("units", "kg", "weight")`` is ``units={"weight": "kg"}``."""

    option: str
    value: Any
    column: str | None = None  # for options `BY_COLUMN`


class Problem(NamedTuple):
    """A wrong or doubtful part of a table, its place, and remedies."""

    what: str  # in words, with the first cells
    remedies: tuple[Remedy, ...] = ()  # options that make the table readable; (): the table must be corrected
    advice: str = ""  # the meaning of the remedy, or alternatives
    column: str | None = None  # None: of the table, or of several columns


class ColumnText(NamedTuple):
    """The cells of one column as they are written: distinct texts, without spellings of a missing cell."""

    column: str
    words: tuple[str, ...]
    counts: np.ndarray  # (words,)
    rows: np.ndarray  # (words,): the first row of each, from 0

    def of(self, chosen: np.ndarray) -> "ColumnText":
        """Only the words of a mask (words,)."""
        words = tuple(word for word, wanted in zip(self.words, chosen, strict=True) if wanted)
        return ColumnText(self.column, words, self.counts[chosen], self.rows[chosen])

    def without(self, words: Iterable[str]) -> "ColumnText":
        """All other words."""
        return self.of(~np.isin(self.words, [*words])) if self.words else self

    @property
    def total(self) -> int:
        """How many cells there are."""
        return int(self.counts.sum())

    @property
    def examples(self) -> str:
        """The first words with their rows, and how many other words there are; each may be in several rows."""
        first = np.argsort(self.rows, kind="stable")[:SHOWN]
        listed = ", ".join(f"'{_short(self.words[place])}' (row {self.rows[place] + 1})" for place in first)
        others = len(self.words) - SHOWN
        return listed + (f" and {in_words(others, 'more spelling')}" if others > 0 else "")


def _short(word: str) -> str:
    return word if len(word) <= 30 else f"{word[:29]}…"


def in_words(number: int, what: str = "cell", verb: str = "") -> str:
    """``1 cell``, ``2 cells``; with a verb ``1 cell is``, ``2 cells are``."""
    verbs = {"is": "are", "has": "have"}
    return f"{number} {what}{'' if number == 1 else 's'}" + (f" {verb if number == 1 else verbs[verb]}" if verb else "")


def with_remedies(options: Mapping[str, Any], problems: Iterable[Problem]) -> dict[str, Any]:
    """Options of `load_data` with the proposed ones added; the user's options stay.

    >>> with_remedies({"missing": ["-"]}, [Problem("", (Remedy("missing", ["unknown"]), Remedy("units", "kg", "weight")))])
    {'missing': ['-', 'unknown'], 'units': {'weight': 'kg'}}
    """
    combined: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for remedy in (remedy for problem in problems for remedy in problem.remedies):
        if remedy.option == "missing":
            given = combined.get("missing", [])
            given = list(given) if isinstance(given, list | tuple | set) else [given]
            combined["missing"] = list(dict.fromkeys([*given, *remedy.value]))
        elif remedy.column is not None:
            given = dict(combined.get(remedy.option, {}))
            if remedy.option == "merge":  # levels that several problems are about
                given[remedy.column] = remedy.value | dict(given.get(remedy.column, {}))
            given.setdefault(remedy.column, remedy.value)
            combined[remedy.option] = given
        else:
            combined.setdefault(remedy.option, remedy.value)
    return combined
