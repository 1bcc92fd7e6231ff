"""A table with its missing cells filled in, written as the table itself is written."""

import datetime
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.predictions.imputation import completed_table
from models.base import Model
from models.cells.dates import EPOCH, like
from models.cells.notations import SPACES, plain_sign
from models.cells.style import Style, cell_name, style_of
from models.data.columns import categories_of
from models.data.table import Data
from models.reading.blocks import STYLE
from models.reading.files import is_text, reader_input, text_options
from models.reading.readers import to_frame
from models.reading.repairs import is_missing
from models.reading.units import PLAIN, SIGNS, converted, has_seconds, hours, money_unit, quantity, usual_spelling

MOST_DECIMALS = 6  # in a column of more decimals, or of none that can be counted, all digits are written


class WrittenTable(NamedTuple):
    """A table as text."""

    cells: pd.DataFrame  # of texts
    separator: str = ","
    style: Style = Style()
    units: Mapping[str, str] = {}  # column -> the unit of filled-in values
    dates: Mapping[str, str] = {}  # column of dates -> their order

    @property
    def decimal(self) -> str:
        """The mark before decimals."""
        return self.style.decimal


def as_written(config: Mapping[str, Any], data: Data) -> WrittenTable:
    """The cells of the table of a run: those of its text file, letter by letter, or as `pandas` writes them."""
    section = config["data"]
    if section["name"] != "file" or section["format"] is not None or not is_text(Path(section["path"])):
        return WrittenTable(_texts(to_frame(data)))
    path = Path(section["path"])
    style = style_of({name: section[name] for name in STYLE if section.get(name) is not None}, plain=True)
    options = text_options(path, style, {}) | {"dtype": str, "na_filter": False, "thousands": None}
    with reader_input(path, style) as file:
        cells = pd.read_csv(file, **options)
    return WrittenTable(cells, str(options["sep"]), style, section["units"] or {}, section["dates"] or {})


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Whole numbers are written without a point, also in columns with missing cells."""
    for name in frame:
        if pd.api.types.is_float_dtype(frame[name]) and _are_whole(frame[name].to_numpy(dtype=float)):
            frame[name] = frame[name].astype("Int64")
    return pd.read_csv(io.StringIO(str(frame.to_csv(index=False))), dtype=str, na_filter=False)


def _are_whole(values: np.ndarray) -> bool:
    seen = values[~np.isnan(values)]
    return bool((seen == np.floor(seen)).all() and (np.abs(seen) < 2**53).all())


def filled_in(model: Model, imputed: xr.Dataset, data: Data, written: WrittenTable) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(the table as text with its missing cells filled in; 1 where a cell was filled in, elsewhere 0).

    A number has as many decimals as the other cells of its column have at most: none in a column of whole numbers. It has the
    marks of its column between thousands and before decimals. In a column with a declared unit it has that unit, and a date is
    written as most dates of its column. Cells that are there stay as they are. A column of True and False that the model takes
    as numbers comes as numbers.
    """
    assert model.abilities.table is not None
    completed, source = completed_table(model, imputed, data), model.read(data)
    table, mask = written.cells.copy(), pd.DataFrame(0, index=written.cells.index, columns=written.cells.columns)
    assert len(table) == len(completed)
    row, of = imputed["cell_row"].values, imputed["cell_column"].values
    levels = dict(zip(source.columns, categories_of(source), strict=True))
    for name, kind in zip(model.abilities.table.cells.columns, model.abilities.table.cells.kinds, strict=True):
        here = row[of == name]
        if not len(here):
            continue
        mask.loc[here, name] = 1
        given = table[name].drop(here)
        if kind == "number" and levels[name]:
            table[name] = [f"{value:.15g}" for value in completed[name]]
        elif kind in ("number", "count"):
            values = completed[name].to_numpy(dtype=float)[here]
            table.loc[here, name] = _cells(values, given, name, written, whole=kind == "count")
        else:
            named = [(cell_name(text, written.style.thousands), text) for text in given[::-1]]
            spelt = dict(named) | {name.lower(): text for name, text in named}
            filled = completed[name].iloc[here].astype(str)
            table.loc[here, name] = [spelt.get(level, spelt.get(level.lower(), level)) for level in filled]
    return table, mask


def _cells(values: np.ndarray, given: "pd.Series[Any]", name: str, written: WrittenTable, whole: bool) -> list[str]:
    """Numbers (C,) as the cells of their column: dates, times, numbers with a unit, or bare numbers."""
    seen = given[[not is_missing(cell_name(text, written.style.thousands), written.style) for text in given]].str.strip()
    if name in written.dates:
        return _dates(values, seen, written.dates[name])
    if name not in written.units:
        return numbers(values, seen, written.style, whole)
    if len(seen) and all(hours(text) is not None for text in seen):
        return _times(converted(values, written.units[name], "h"), seen)
    unit = _unit_in(seen, written.units[name])
    before, after = _around(seen, unit)
    parts = [quantity(text) for text in seen]
    bare = pd.Series([text if part is None else part.number for text, part in zip(seen, parts, strict=True)], dtype=str)
    return [f"{before}{text}{after}" for text in numbers(converted(values, written.units[name], unit), bare, written.style)]


def _times(values: np.ndarray, seen: "pd.Series[Any]") -> list[str]:
    """Hours (C,) as 8:05 or 08:05, with seconds where their column has them."""
    digits, seconds = 2 if seen.str.contains(r"^0\d:").any() else 1, has_seconds(seen.iloc[0])
    whole = np.maximum(np.round(values * (3600 if seconds else 60)), 0).astype(int)
    minutes = whole // 60 if seconds else whole
    ends = [f":{one % 60:02d}" for one in whole] if seconds else [""] * len(whole)
    return [f"{one // 60:0{digits}d}:{one % 60:02d}{end}" for one, end in zip(minutes, ends, strict=True)]


def _unit_in(seen: "pd.Series[Any]", unit: str) -> str:
    """The unit to write a number in: the declared one, or of 4.4M and $350K the most frequent mark of the column."""
    if money_unit(usual_spelling(unit)) is None:
        return unit
    units = pd.Series([part.unit if (part := quantity(text)) is not None and part.unit else unit for text in seen], dtype=str)
    return unit if units.empty else str(units.mode()[0])


def _dates(values: np.ndarray, seen: "pd.Series[Any]", order: str) -> list[str]:
    """Days (C,) in the most frequent notation of the dates of their column."""
    if seen.empty:
        return [datetime.date.fromordinal(EPOCH + int(np.floor(value))).isoformat() for value in values]
    shapes = seen.str.replace(r"\d+", "0", regex=True).str.replace(r"[^\W\d_]+", "a", regex=True)
    template = seen[shapes == shapes.mode()[0]].iloc[0]
    padded = bool(seen.str.contains(r"(?<!\d)0\d(?!\d)").any())
    return [like(value, template, order, padded) for value in values]


def _around(seen: "pd.Series[Any]", unit: str) -> tuple[str, str]:
    """The text before and after a number in ``unit``, as in the first cell of the column in that unit: ``$``, `` kg``."""
    if unit == PLAIN:
        return "", ""
    for text in seen:
        part = quantity(text)
        if part is not None and part.unit and usual_spelling(part.unit) == usual_spelling(unit):
            number = text[1:] if part.number.startswith("-") and not text.startswith(part.unit[0]) else text
            before, _, after = number.partition(part.number.lstrip("-"))
            return before, after
    return ("", f" {unit}") if unit not in SIGNS else (unit, "")


def numbers(values: np.ndarray, given: "pd.Series[Any]", style: Style, whole: bool = False) -> list[str]:
    """Numbers (C,) as the ``given`` texts of their column: as many decimals as these have at most, or none, and their marks."""
    thousands = _thousands_in(given, style)
    bare = given.str.strip().map(plain_sign).str.replace(f"[{re.escape(thousands)}]", "", regex=True) if thousands else given
    bare = bare.str.strip().map(plain_sign)
    parts = bare.str.partition(style.decimal)
    countable = bool(bare.str.fullmatch(rf"[+-]?[\d' ]*(?:\{style.decimal}\d*)?").all())
    most = int(parts[2].str.len().max()) if countable and len(parts) else MOST_DECIMALS + 1
    most = 0 if whole else most
    group = "," if thousands else ""
    texts = [f"{value:{group}.{most}f}" if most <= MOST_DECIMALS else repr(float(value)) for value in values]
    marks = str.maketrans({",": thousands[:1], ".": style.decimal, "-": _minus_in(given)})
    return [text if "e" in text else text.translate(marks) for text in texts]


def _thousands_in(given: "pd.Series[Any]", style: Style) -> str:
    """The marks that stand between thousands, the one of the column first; "" where it has none."""
    marks = SPACES if style.thousands == " " else style.thousands
    used = [mark for mark in marks if given.str.contains(rf"\d{re.escape(mark)}\d").any()]
    return "".join([*used, *(mark for mark in marks if mark not in used)]) if used else ""


def _minus_in(given: "pd.Series[Any]") -> str:
    """The sign in front of negative numbers of a column."""
    signs = [text[0] for text in given if text and plain_sign(text) != text]
    return signs[0] if signs else "-"
