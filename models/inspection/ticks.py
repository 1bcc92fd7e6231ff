"""Columns that are ticked or blank, such as the answers to a question of which several apply: a blank means no."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from models.cells.style import cell_name
from models.data.missing_spellings import ParsedColumn
from models.data.table import BOOLEAN
from models.inspection.problem import Problem, Remedy, in_words

MARKS = ("x", "✓", "✔", "☑", "☒", "✗", "✘", "√")  # which mean only yes
YES = ("1", "yes", "y", "true", "ja", "j", "wahr", "oui", "vrai", "sí", "si", "sì", "checked", "ticked", "selected", "on",
       "chosen", "quoted", "mentioned", "genannt", "angekreuzt", "ausgewählt", "coché")  # fmt: skip
BLOCK = 3  # adjacent columns from which any words are ticks


class Ticked(NamedTuple):
    """A column with one word, and blank cells."""

    column: str
    place: int
    word: str
    marks: np.ndarray  # (N,): which cells are ticked


def tick_problems(cells: Mapping[str, ParsedColumn], spared: Collection[str | None]) -> list[Problem]:
    """Columns of ticks, with the levels that their blanks are read as; columns that are ``spared`` stay as they are."""
    all_ticked = [
        ticked for place, (name, one) in enumerate(cells.items()) if name not in spared if (ticked := _of(name, place, one))
    ]
    all_ticked = [one for one in all_ticked if _is_tick(one, all_ticked)]
    if not all_ticked:
        return []
    none = int((~np.any([one.marks for one in all_ticked], axis=0)).sum())
    listed = ", ".join(f"{one.column} ('{one.word}' {one.marks.sum()} times)" for one in all_ticked)
    advice = "read a blank as no"
    advice += f"; {in_words(none, 'row', 'has')} no tick: leave this out if they did not answer" if none else ""
    remedies = tuple(Remedy("merge", _levels(one.word), one.column) for one in all_ticked)
    column = all_ticked[0].column if len(all_ticked) == 1 else None
    what = f"ticked or blank: {listed}"
    return [Problem(what, remedies, advice, column)]


def _of(name: str, place: int, one: ParsedColumn) -> Ticked | None:
    seen = one.values[~np.isnan(one.values)]
    if not len(seen) or len(np.unique(seen)) > 1 or not dict(one.spelled).get("empty"):
        return None
    if one.levels == BOOLEAN and not seen[0]:
        return None
    return Ticked(name, place, one.levels[int(seen[0])] if one.levels else cell_name(float(seen[0])), ~np.isnan(one.values))


def _is_tick(one: Ticked, ticked: list[Ticked]) -> bool:
    """Whether a word means yes: by itself, or as other columns with one word are there."""
    word = one.word.lower()
    others = [other for other in ticked if other is not one]
    if word in MARKS:
        return True
    if word in YES:
        return any(other.word.lower() == word for other in others)
    if word.replace(".", "").replace("-", "").isdigit():
        return False
    near = {other.place - one.place for other in others}
    in_block = any(set(range(start, start + BLOCK)) - {0} <= near for start in range(1 - BLOCK, 1))
    named = word in one.column.lower() and any(other.word.lower() in other.column.lower() for other in others)
    return in_block or named


def _levels(word: str) -> dict[str, str]:
    """The levels that the cells are read as: no and yes, 0 and 1, or True and False."""
    lower = word.lower()
    if lower in ("1", "true", "yes"):
        return {"": {"1": "0", "true": "False", "yes": "no"}[lower]}
    return {"": "no", word: "yes"}
