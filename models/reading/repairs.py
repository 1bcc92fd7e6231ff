"""Repairs of single columns that the user declares: one unit, dates as numbers, several spellings of one level.

| option | a cell | becomes |
|---|---|---|
| ``units={"weight": "kg"}`` | ``59.4 kg``, ``140 lb``, ``59.4`` | a number in kg; without a unit it is in kg |
| ``dates={"visit": "dmy"}`` | ``3/1/1970`` | days since 1970-01-01 (`models.cells.dates`) |
| ``merge={"sex": {"F": "female"}}`` | ``F`` | ``female``; other cells stay |
| ``merge={"ticked": {"": "no", "x": "yes"}}`` | an empty one | ``no`` |
| ``merge={"score": {"99": ""}}`` | ``99`` | an empty cell, in this column alone |

Spellings of a missing cell stay missing. A cell that cannot be repaired is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from models.cells.dates import EPOCH, ORDERS, days
from models.cells.style import Style, cell_name
from models.data.arguments import described
from models.data.missing_spellings import number_of, plain_number
from models.errors import ZooError
from models.reading.units import PLAIN, converted, convertible, has_seconds, hours, measures_time, quantity, usual_spelling

if TYPE_CHECKING:
    import pandas as pd

    from models.data.table import Note

SINCE = "days since 1970-01-01"


def date_columns(notes: Iterable[Note]) -> set[str]:
    """The columns whose numbers are dates: days since 1970."""
    return {note.column for note in notes if note.why == SINCE}


def titles(notes: Iterable[Note]) -> dict[str, str]:
    """Column -> its name with its unit, of the columns that were read in a unit.

    >>> from models.data.table import Note
    >>> titles([Note("weight", "number", "in kg"), Note("age", "number")])
    {'weight': 'weight (kg)'}
    """
    return {
        note.column: f"{note.column} ({note.why[3:]})"
        for note in notes
        if note.why.startswith("in ") and note.why != f"in {PLAIN}"
    }


class Repairs(NamedTuple):
    """The user's declarations for single columns."""

    units: Mapping[str, str] = {}
    dates: Mapping[str, str] = {}
    merge: Mapping[str, Mapping[str, str]] = {}

    @property
    def columns(self) -> list[str]:
        """Every column that is repaired."""
        return [*dict.fromkeys([*self.units, *self.dates, *self.merge])]

    @property
    def reasons(self) -> dict[str, str]:
        """Column -> why it holds numbers, in words."""
        return {column: f"in {unit}" for column, unit in self.units.items()} | dict.fromkeys(self.dates, SINCE)

    def without(self, columns: list[str]) -> Repairs:
        """The repairs of all other columns."""
        units = {column: unit for column, unit in self.units.items() if column not in columns}
        dates = {column: order for column, order in self.dates.items() if column not in columns}
        return Repairs(units, dates, {column: levels for column, levels in self.merge.items() if column not in columns})


def checked_repairs(units: Any, dates: Any, merge: Any) -> Repairs:
    """The options of a user; raises `ZooError` for a wrong type, an unknown order of dates, or a column that is both."""
    units = _texts("units", units, "{'weight': 'kg'}")
    dates = _texts("dates", dates, "{'visit': 'dmy'}")
    for column, order in dates.items():
        if order not in ORDERS:
            listed = ", ".join(f"{name} ({words})" for name, words in ORDERS.items())
            raise ZooError(f"dates: {order!r} for column {column!r} is not one of {listed}")
    if both := [column for column in units if column in dates]:
        raise ZooError(f"column {both[0]!r} cannot have both a unit and dates")
    if merge is not None and not isinstance(merge, Mapping):
        raise ZooError(f"merge: expected levels per column, such as {{'sex': {{'F': 'female'}}}}, got {described(merge)}")
    merged = {str(column): _texts(f"merge of {column}", levels, "{'F': 'female'}") for column, levels in (merge or {}).items()}
    for column, levels in merged.items():
        if chained := [level for level in levels.values() if level and levels.get(level, level) != level]:
            raise ZooError(f"merge of {column}: {chained[0]!r} is both a spelling and a level; name the last level of each")
    return Repairs(units, dates, merged)


def _texts(option: str, given: Any, example: str) -> dict[str, str]:
    """A mapping of texts to texts; raises `ZooError`."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(value, str | int | float) for value in given.values()):
        raise ZooError(f"{option}: expected a mapping such as {example}, got {described(given)}")
    return {str(key): str(value) for key, value in given.items()}


def repaired(frame: pd.DataFrame, repairs: Repairs, style: Style, title: str) -> pd.DataFrame:
    """The table with its columns repaired; raises `ZooError` for the first cell that cannot be."""
    frame = frame.copy(deep=False)
    for column, levels in repairs.merge.items():
        frame[column] = _mapped(frame[column], partial(_level, levels), style, blank=levels.get(""))
    for column, unit in repairs.units.items():
        if measures_time(unit):
            _require_one_form(frame[column], f"{title}: column {column!r}")
        frame[column] = _mapped(frame[column], _to_unit(unit, style), style, f"{title}: column {column!r}, row")
    for column, order in repairs.dates.items():
        frame[column] = _days_of(frame[column], order, style, f"{title}: column {column!r}, row")
    return frame


def _require_one_form(column: pd.Series[Any], where: str) -> None:
    """Raises `ZooError` where some times have seconds and others not: 8:05 may then be 8 minutes and 5 seconds."""
    if column.dtype != object and not str(column.dtype).startswith("str"):
        return
    words = [word for word in column.dropna().unique() if isinstance(word, str) and hours(word) is not None]
    with_seconds = [word for word in words if has_seconds(word)]
    others = [word for word in words if not has_seconds(word)]
    if with_seconds and others:
        raise ZooError(
            f"{where}: {others[0]!r} may be hours and minutes, or minutes and seconds, as {with_seconds[0]!r} has both; write "
            "all times of the column alike"
        )


def _level(levels: Mapping[str, str], cell: str) -> str:
    return levels.get(cell, cell)


def _mapped(
    column: pd.Series[Any], change: Callable[[str], Any], style: Style, where: str = "", blank: str | None = None
) -> Any:
    """Every filled cell changed by its text, in which numbers have the marks of the table's ``style``; empty cells ``blank``.

    ``change`` raises `ZooError`, which is completed by the row.
    """
    import pandas as pd

    cells = column.astype(object)
    places, words = pd.factorize(cells)
    texts: list[Any] = []
    for index, word in enumerate(words):
        try:
            text = cell_name(word, style.thousands) if isinstance(word, str) else cell_name(word).replace(".", style.decimal)
            texts.append(change(text))
        except ZooError as error:
            raise ZooError(f"{where} {int(np.argmax(places == index)) + 1}: {error}") from None
    table = np.array([*texts, blank], dtype=object)  # the last is for an empty cell, whose place is −1
    return pd.Series(table[np.asarray(places)].tolist(), index=column.index, name=column.name, dtype="object")


def is_missing(cell: str, style: Style) -> bool:
    """Whether the text of a cell among numbers is a spelling of a missing cell."""
    return cell in ("", *style.words) or cell.lower() in style.among_numbers


def parsed(number: str, style: Style) -> float:
    """A number written with the marks of the table; NaN if it is none."""
    return number_of(plain_number(number, style))


def _to_unit(unit: str, style: Style) -> Callable[[str], str]:
    """A change of ``59,4 kg`` into ``59,4``: the number in ``unit``, with the marks of the table."""

    def change(cell: str) -> str:
        if measures_time(unit) and not is_missing(cell, style) and (time := hours(cell)) is not None:
            return repr(converted(time, "h", usual_spelling(unit))).replace(".", style.decimal)
        split = quantity(cell)
        if split is None or not split.unit or is_missing(cell, style):
            return cell
        value = parsed(split.number, style)
        if np.isnan(value):
            raise ZooError(f"{cell!r} has no number that can be read; correct the cell, or declare it missing (data.missing)")
        if not convertible(split.unit, unit):
            raise ZooError(f"{cell!r} cannot be converted to {unit}; correct the cell, or declare it missing (data.missing)")
        return repr(converted(value, split.unit, usual_spelling(unit))).replace(".", style.decimal)

    return change


def _days_of(column: pd.Series[Any], order: str, style: Style, where: str) -> Any:
    """A column of dates as days; columns that pandas or Arrow know to be dates need no order."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind == "date":
        return column.map(lambda day: np.nan if pd.isna(day) else float(day.toordinal() - EPOCH))
    if kind in ("datetime64", "datetime"):
        times = pd.to_datetime(column, utc=True)  # times without a zone are taken as they stand
        return (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)

    def change(cell: str) -> Any:
        day_number = None if is_missing(cell, style) else days(cell, order)
        if day_number is None and not is_missing(cell, style):
            raise ZooError(f"{cell!r} is not a date with the {ORDERS[order]}; correct the cell, or declare it missing")
        return cell if day_number is None else repr(day_number).replace(".", style.decimal)

    return _mapped(column, change, style, where)
