"""Labels: reading names, sets of candidates and missing labels, and writing them back."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from models.cells.style import Style, style_of
from models.data.arguments import described
from models.data.missing_spellings import label_cells
from models.data.table import Data, ZooError

if TYPE_CHECKING:
    import pandas as pd


def labelled(data: Data, column: pd.Series[Any], style: Style, words: bool = False) -> Data:
    """Add a label column; None or NaN is missing, ``a|b`` a set of candidates. Raises `ZooError`.

    Its labels are ``words``, though they may be numbers, if other rows of the table have words.
    """
    codes, levels, candidates = _codes(label_cells(column, style, words), str(column.name), data.name)
    return data._replace(labels=codes, label=str(column.name), levels=levels, candidates=candidates)


def with_labels(data: Data, labels: Any) -> Data:
    """Add ``labels`` (N,), replacing any label column; None or NaN is missing, ``a|b`` a set of candidates."""
    if labels is None:
        return data
    import pandas as pd

    if isinstance(labels, Mapping | Set) or not _is_row_of_cells(labels):
        raise ZooError(
            f"labels: expected one label per row, a list or an array of length {data.num_rows}, got {described(labels)}"
        )
    column = label_cells(pd.Series(labels, name="label").reset_index(drop=True), style_of({}, plain=False))
    if len(column) != data.num_rows:
        raise ZooError(f"labels: got {len(column)} labels for {data.num_rows} rows")
    codes, levels, candidates = _codes(column, "label", data.name)
    return data._replace(labels=codes, label="label", levels=levels, candidates=candidates)


def _is_row_of_cells(labels: Any) -> bool:
    import pandas as pd

    cells = np.asarray(labels, dtype=object)
    return cells.ndim == 1 and all(map(pd.api.types.is_scalar, cells))


def label_column(data: Data) -> Any:
    """The labels as a column of a DataFrame: names, ``a|b`` for a set of candidates, None if missing."""
    import pandas as pd

    if data.candidates is not None:
        return ["|".join(level for level, may in zip(data.levels, row, strict=True) if may) or None for row in data.candidates]
    return pd.Categorical.from_codes(np.asarray(data.labels), categories=pd.Index(data.levels))


def _level(cell: Any) -> Any:
    """A label as it is sorted: text stripped of white space, whole floats as integers."""
    if isinstance(cell, str):
        return cell.strip()
    return int(cell) if isinstance(cell, float | np.floating) and np.isfinite(cell) and cell == int(cell) else cell


def _codes(column: pd.Series[Any], name: str, title: str) -> tuple[np.ndarray, tuple[str, ...], np.ndarray | None]:
    """(codes, levels, candidates) of a label column; ``a|b`` in a cell is a set of candidates.

    Whole numbers are named without a decimal point, even if missing labels have turned them into floats. The levels of a pandas
    Categorical are all that it declares, in its order.
    """
    import pandas as pd

    sets = {row: cell.split("|") for row, cell in enumerate(column) if isinstance(cell, str) and "|" in cell}
    if isinstance(column.dtype, pd.CategoricalDtype):
        declared = [level for level in column.dtype.categories if not (isinstance(level, str) and "|" in level)]
        single = column.cat.set_categories(declared).cat  # a set of candidates is no level
        codes, categories = np.asarray(single.codes, dtype=np.int64), single.categories
    else:
        cells = (None if row in sets or pd.isna(cell) else _level(cell) for row, cell in enumerate(column))
        codes, categories = pd.factorize(pd.Series(list(cells), dtype=object), sort=True)
    codes, levels = _by_name(np.asarray(codes), [str(level) for level in categories])
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
    """Merge levels with the same name, such as 1 and "1"; codes (N,) are −1 if missing."""
    levels = tuple(dict.fromkeys(names))
    if len(levels) == len(names):
        return codes, levels
    place = np.array([levels.index(name) for name in names] + [-1])
    return place[codes], levels
