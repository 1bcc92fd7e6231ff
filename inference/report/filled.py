"""A table with its missing cells filled in, written as the table itself is written."""

import datetime
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.predictions.imputation import completed_table
from models.base import Model
from models.data.columns import categories_of
from models.data.missing_spellings import style_of
from models.data.table import Data
from models.reading.blocks import STYLE
from models.reading.dates import EPOCH
from models.reading.files import is_text, text_options
from models.reading.readers import to_frame
from models.reading.units import quantity

MOST_DECIMALS = 6  # in a column of more decimals, or of none that can be counted, all digits are written


class Written(NamedTuple):
    """A table as text."""

    cells: pd.DataFrame  # of texts
    separator: str
    decimal: str
    units: Mapping[str, str] = {}  # column -> the unit of what is filled in
    dates: frozenset[str] = frozenset()  # columns of dates


def as_written(config: Mapping[str, Any], data: Data) -> Written:
    """The cells of the table of a run: those of its text file, letter by letter, or as `pandas` writes them."""
    said = config["data"]
    if said["name"] != "file" or said["format"] is not None or not is_text(Path(said["path"])):
        return Written(_texts(to_frame(data)), ",", ".")
    path = Path(said["path"])
    style = style_of({name: said[name] for name in STYLE if said[name] is not None}, plain=True)
    options = text_options(path, style, {}) | {"dtype": str, "na_filter": False, "thousands": None}
    cells = pd.read_csv(path, **options)
    return Written(cells, str(options["sep"]), style.decimal, said["units"] or {}, frozenset(said["dates"] or {}))


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Whole numbers are written without a point, also beside missing cells."""
    for name in frame:
        if pd.api.types.is_float_dtype(frame[name]) and _are_whole(frame[name].to_numpy(dtype=float)):
            frame[name] = frame[name].astype("Int64")
    return pd.read_csv(io.StringIO(str(frame.to_csv(index=False))), dtype=str, na_filter=False)


def _are_whole(values: np.ndarray) -> bool:
    seen = values[~np.isnan(values)]
    return bool((seen == np.floor(seen)).all() and (np.abs(seen) < 2**53).all())


def filled_in(model: Model, imputed: xr.Dataset, data: Data, written: Written) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(the table as text with its missing cells filled in; 1 where a cell was filled in, elsewhere 0).

    A number has as many decimals as the other cells of its column have at most: none in a column of whole numbers. In a column
    with a declared unit it has that unit; a date has its year in front. Cells that are there stay as they are. A column of True
    and False that the model takes as numbers comes as numbers.
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
        elif kind == "number":
            table.loc[here, name] = _cells(completed[name].to_numpy(dtype=float)[here], given, name, written)
        else:
            table.loc[here, name] = completed[name].iloc[here].astype(str).to_numpy()
    return table, mask


def _cells(values: np.ndarray, given: "pd.Series[Any]", name: str, written: Written) -> list[str]:
    """Numbers (C,) as the cells of their column: dates, numbers with a unit, or bare numbers."""
    if name in written.dates:
        return [datetime.date.fromordinal(EPOCH + int(np.floor(value))).isoformat() for value in values]
    if name in written.units:
        parts = [quantity(text) for text in given]
        bare = pd.Series([text if part is None else part.number for text, part in zip(given, parts, strict=True)], dtype=str)
        return [f"{text} {written.units[name]}" for text in numbers(values, bare, written.decimal)]
    return numbers(values, given, written.decimal)


def numbers(values: np.ndarray, given: "pd.Series[Any]", decimal: str) -> list[str]:
    """Numbers (C,) with as many decimals as the ``given`` texts of their column have at most."""
    parts = given.str.strip().str.partition(decimal)
    countable = bool(given.str.fullmatch(rf"\s*[+-]?[\d' ]*(?:\{decimal}\d*)?\s*").all())
    most = int(parts[2].str.len().max()) if countable and len(parts) else MOST_DECIMALS + 1
    texts = [f"{value:.{most}f}" if most <= MOST_DECIMALS else repr(float(value)) for value in values]
    return [text.replace(".", decimal) for text in texts]
