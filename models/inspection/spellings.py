"""One spelling of a missing cell in several columns: of numbers, dates and words. It holds for the whole table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.cells.style import Style
from models.inspection.levels import may_be_missing
from models.inspection.marks import is_date
from models.inspection.problem import ColumnText, Problem, Remedy
from models.reading.repairs import is_missing
from models.reading.units import quantity


def shared_spellings(columns: Sequence[ColumnText], style: Style) -> list[Problem]:
    """Words in several columns that are no value of any: each with how often every column has it.

    A word among numbers or dates is no value. Among words it is none if it is a known spelling, as ``k.A.``, or if most columns
    of numbers have it.
    """
    slips: dict[str, list[str]] = {}  # word -> columns of numbers that have it
    measured = 0
    for column in columns:
        wrong = _slips(column, style)
        measured += wrong is not None
        for word in wrong or ():
            slips.setdefault(word, []).append(column.column)
    problems = []
    for word, among in slips.items():
        counts = {one.column: int(one.counts[one.words.index(word)]) for one in columns if word in one.words}
        words_too = len(counts) > len(among)
        spelled = may_be_missing(word, ()) or (len(among) > 1 and (not words_too or 2 * len(among) > measured))
        if len(counts) > 1 and spelled:
            listed = ", ".join(f"{name} {count}" for name, count in counts.items())
            advice = "count it as missing in all columns; leave this out if it is an answer"
            problems.append(Problem(f"'{word}' may be a missing cell: {listed} cells", (Remedy("missing", [word]),), advice))
    return problems


def _slips(column: ColumnText, style: Style) -> list[str] | None:
    """The words among numbers or dates that are neither; None for a column of words."""
    filled = column.of(np.array([not is_missing(word, style) for word in column.words], dtype=bool))
    fits = np.array([quantity(word) is not None or is_date(word) for word in filled.words], dtype=bool)
    if 2 * filled.of(fits).total <= filled.total:
        return None
    return list(filled.of(~fits).words)
