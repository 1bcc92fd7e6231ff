"""The lines below the rows of a text file: a row of totals or means, and remarks. ``skip_end=1`` leaves out the last line."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from models.cells.style import Style
from models.data.missing_spellings import number_of, plain_number
from models.reading.lines.oddity import Oddity

if TYPE_CHECKING:
    import pandas as pd

LOOKED_AT = 5  # rows at the end
ENOUGH = 5  # rows whose sum is no chance
TOTAL = re.compile(
    r"(grand |sub)?totals?|totale|sums?|summe|gesamt(summe)?|insgesamt|averages?|means?|mittelwert|durchschnitt|moyenne|somme"
    r"|suma|total general",
    re.IGNORECASE,
)
REMARK = re.compile(r"(source|note|notes|quelle|remark|anmerkung)s?\b.*|\*.*|\S+( \S+){3,}", re.IGNORECASE)


def oddity_below(frame: pd.DataFrame, style: Style, whole: bool = True) -> Oddity | None:
    """An oddity of the last rows, unless ``skip_end`` is given; with all rows (``whole``) sums are compared, too."""
    if style.skip_end is not None or len(frame) < 3 or frame.shape[1] < 2:
        return None
    lines = 0
    while lines < min(LOOKED_AT, len(frame) - 2) and _is_below(frame, lines):
        lines += 1
    kind = "totals or remarks"
    if not lines and whole and _is_sum(frame, style):
        lines, kind = 1, "the sum of all others"
    if not lines:
        return None
    last = [str(cell) for cell in frame.iloc[-lines] if not _is_blank(cell)][:3]
    what = f"the last row looks like {kind}: {', '.join(map(repr, last))}"
    if lines > 1:
        what = f"the last {lines} rows look like {kind}, from {', '.join(map(repr, last))}"
    return Oddity(
        what, {"skip_end": lines}, f"data.skip_end=0 if {'it is a row' if lines == 1 else 'these are rows'} like the others"
    )


def _is_blank(cell: Any) -> bool:
    return cell is None or cell != cell or not str(cell).strip()


def _is_below(frame: pd.DataFrame, lines: int) -> bool:
    """Whether the row above the last ``lines`` is named a total, as no row above it, or is a remark in one cell."""
    row = frame.iloc[-1 - lines]
    filled = [place for place, cell in enumerate(row) if not _is_blank(cell)]
    if not filled or filled[0] > 1:
        return False
    word = str(row.iloc[filled[0]]).strip()
    above = frame.iloc[: -1 - lines, filled[0]]
    if TOTAL.fullmatch(word.rstrip(":")) and len(filled) > 1:
        return not (above.astype(str).str.strip() == word).any()
    alone = filled == [0] and int(frame.iloc[: -1 - lines].notna().sum(axis=1).median()) > 1
    return alone and bool(REMARK.fullmatch(word)) and not _are_remarks(above)


def _are_remarks(cells: pd.Series[Any]) -> bool:
    """Whether the cells above are texts themselves."""
    return any(REMARK.fullmatch(str(cell).strip()) is not None for cell in cells.iloc[-LOOKED_AT:] if not _is_blank(cell))


def _is_sum(frame: pd.DataFrame, style: Style) -> bool:
    """Whether every number of the last row is the sum of those above it, and larger than each."""
    import pandas as pd

    if len(frame) <= ENOUGH:
        return False
    sums = 0
    for place, cell in enumerate(frame.iloc[-1]):
        if _is_blank(cell):
            continue
        last = _parsed(cell, style)
        if np.isnan(last):
            return False
        column = frame.iloc[:-1, place]
        numeric = pd.api.types.is_numeric_dtype(column)
        above = column.to_numpy(float) if numeric else np.array([_parsed(one, style) for one in column.iloc[:2000]])
        above = above[~np.isnan(above)]
        if len(frame) > 2000 and not numeric:
            return False
        if not len(above) or not last > above.max() or not np.isclose(last, above.sum(), rtol=1e-9, atol=0.0):
            return False
        sums += 1
    return sums > 1 or (sums == 1 and _is_blank(frame.iloc[-1, 0]) and not frame.iloc[:-1, 0].isna().any())


def _parsed(cell: Any, style: Style) -> float:
    return number_of(plain_number(str(cell), style))


class WithoutEnd(io.TextIOBase):
    """A text file without its last lines; blank lines do not count."""

    def __init__(self, file: Any, lines: int) -> None:
        self._file, self._lines, self._held = file, lines, ""

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int | None = -1) -> str:
        """Some text, or all of it; "" once only the last lines are left, which are held back."""
        whole = size is None or size < 0
        while part := self._file.read() if whole else self._file.read(size):
            self._held += part
            if begin := self._begin():
                ready, self._held = self._held[:begin], self._held[begin:]
                return ready
        return ""

    def _begin(self) -> int:
        """Where the last lines of the held text begin."""
        end = len(self._held)
        for _ in range(self._lines):
            end = len(self._held[:end].rstrip())
            end = max(self._held.rfind("\n", 0, end), self._held.rfind("\r", 0, end)) + 1
            if not end:
                return 0
        return end
