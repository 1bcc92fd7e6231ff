"""The label column: names, sets of candidates, missing labels, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from models.cells import Style, label_cells, style_of
from models.data import Data, ZooError

if TYPE_CHECKING:
    import pandas as pd


def labelled(data: Data, column: pd.Series[Any], style: Style) -> Data:
    """The data with a column of labels; None or NaN is missing, ``a|b`` a set of candidates. Raises `ZooError`."""
    codes, levels, candidates = _codes(label_cells(column, style), str(column.name), data.name)
    return data._replace(labels=codes, label=str(column.name), levels=levels, candidates=candidates)


def with_labels(data: Data, labels: Any) -> Data:
    """The data with ``labels`` (N,) in place of a label column; None or NaN is missing, ``a|b`` a set of candidates."""
    if labels is None:
        return data
    import pandas as pd

    column = label_cells(pd.Series(labels, name="label").reset_index(drop=True), style_of({}, plain=False))
    if len(column) != data.num_rows:
        raise ZooError(f"labels: {len(column)} of them for {data.num_rows} rows")
    codes, levels, candidates = _codes(column, "label", data.name)
    return data._replace(labels=codes, label="label", levels=levels, candidates=candidates)


def label_column(data: Data) -> Any:
    """The labels by name, ``a|b`` for a set of candidates, None where one is missing: a column of a DataFrame."""
    import pandas as pd

    if data.candidates is not None:
        return ["|".join(level for level, may in zip(data.levels, row, strict=True) if may) or None for row in data.candidates]
    return pd.Categorical.from_codes(np.asarray(data.labels), categories=pd.Index(data.levels))


def _level(cell: Any) -> Any:
    """A label as it is sorted: a text without its margins, whole floats as integers."""
    if isinstance(cell, str):
        return cell.strip()
    return int(cell) if isinstance(cell, float | np.floating) and np.isfinite(cell) and cell == int(cell) else cell


def _codes(column: pd.Series[Any], name: str, title: str) -> tuple[np.ndarray, tuple[str, ...], np.ndarray | None]:
    """(codes, levels, candidates) of a label column; ``a|b`` in a cell is a set of candidates.

    Whole numbers are named without a decimal point, also where missing labels have made floats of them.
    """
    import pandas as pd

    sets = {row: cell.split("|") for row, cell in enumerate(column) if isinstance(cell, str) and "|" in cell}
    if isinstance(column.dtype, pd.CategoricalDtype):
        single = column
    else:
        cells = (None if row in sets or pd.isna(cell) else _level(cell) for row, cell in enumerate(column))
        single = pd.Series(list(cells), dtype=object)
    codes, found = pd.factorize(single, sort=True)
    codes, levels = _by_name(np.asarray(codes), [str(level) for level in found])
    if not sets:
        return codes, levels, None
    candidates = codes[:, None] == np.arange(len(levels))  # a missing label has no candidate
    for row, names in sets.items():
        known = [member.strip() in levels for member in names]
        if not all(known):
            raise ZooError(
                f"{title}: column {name!r}, row {row + 1}: {names[known.index(False)].strip()!r} is a candidate here, "
                f"but no row has it as its label; the labels are {', '.join(levels)}"
            )
        candidates[row] = np.isin(levels, [member.strip() for member in names])
    return codes, levels, candidates


def _by_name(codes: np.ndarray, names: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes (N,), −1 where missing, with levels of one name, as 1 and "1", made one."""
    levels = tuple(dict.fromkeys(names))
    if len(levels) == len(names):
        return codes, levels
    place = np.array([levels.index(name) for name in names] + [-1])
    return place[codes], levels
