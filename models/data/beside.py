"""Columns that are not modelled: weights of the rows, and columns that a result keeps with its rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.data.columns import EXACT, categories_of, cells_of
from models.data.table import BOOLEAN, SEQUENCE_NAME, Data, ZooError, is_sparse, is_table, keep_columns
from models.errors import some_of

TAKEN = {"row", "column", "chain", "draw", "class", "component", "state", "factor", "topic", "start", "read", "note", "level"}
TAKEN |= {"assignment", "probability", "second_assignment", "second_probability"}  # of assignments
OF_STEPS = {"sequence", "step", SEQUENCE_NAME}  # taken where rows are steps


def take_weights(data: Data, column: str) -> Data:
    """Take a column of numbers out of the table as the weights of its rows; raises `ZooError` for the first that is none."""
    place = _place(data, column, "weight")
    values, levels = data.x[:, place], categories_of(data)[place]
    if levels and levels != BOOLEAN:
        raise ZooError(f"{data.name}: the weights in column {column!r} are words ({', '.join(levels[:3])}); give numbers")
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        what = "is missing" if np.isnan(values[row]) else f"is {values[row]:.15g}"
        raise ZooError(f"{data.name}: column {column!r}, row {row + 1}: the weight {what}; give a number of at least 0")
    if not values.any():
        raise ZooError(f"{data.name}: all weights in column {column!r} are 0")
    rest = keep_columns(data, [d for d in range(len(data.columns)) if d != place])
    return rest._replace(weight=values, notes=tuple(note for note in data.notes if note.column != column))


MEANINGS = ("counts", "relative")


def require_meaning(weights: Any, given: bool) -> None:
    """Raise `ZooError` for an unknown meaning of weights, or for one without ``given`` weights."""
    if weights is not None and weights not in MEANINGS:
        raise ZooError(f"weights={weights!r} is not one of {', '.join(MEANINGS)}")
    if weights is not None and not given:
        raise ZooError(
            f"weights={weights} is the meaning of weights, and there are none: name their column by data.weight=<column>"
        )


def weighed(data: Data, meaning: str | None) -> Data:
    """Weights by their meaning: counts unchanged, relative ones with mean 1 over the rows whose weight is above 0.

    Relative weights on any scale then make the same table, and so does a row of weight 0 more or less.

    >>> table = Data("table", np.zeros((3, 1)), ("x",), weight=np.array([0.5, 1.5, 0.0]))
    >>> weighed(table, None).weight, weighed(table, "counts").weight
    (array([0.5, 1.5, 0. ]), array([0.5, 1.5, 0. ]))
    >>> weighed(table._replace(weight=table.weight / 100), None).weight
    array([0.5, 1.5, 0. ])
    """
    assert data.weight is not None
    whole = bool((data.weight == np.floor(data.weight)).all())
    kind = meaning or ("counts" if whole else "relative")
    return data._replace(weight=data.weight * scale_of(data.weight) if kind == "relative" else data.weight, weights=kind)


def scale_of(weight: np.ndarray) -> float:
    """The factor that gives weights (N,) the mean 1 over the rows whose weight is above 0."""
    above = weight[weight > 0]
    largest = above.max()  # the sum of very large weights would be infinite
    return float(1 / ((above / largest).mean() * largest))


def with_kept_columns(data: Data, columns: list[str], known: Mapping[str, Any]) -> Data:
    """Keep columns that are not modelled with the rows; raises `ZooError` for an impossible name.

    ``known`` has the cells of columns that the table no longer has. Those of `SEQUENCE_NAME` exist only if the column that
    names the sequences is kept.
    """
    columns = list(dict.fromkeys(columns))
    taken = TAKEN if data.starts is None else TAKEN | OF_STEPS
    for column in columns:
        if column in taken or "/" in column or not column:
            raise ZooError(f"keep: a result cannot hold a column named {column!r}; rename the column in the table")
    named = [SEQUENCE_NAME] if SEQUENCE_NAME in known else []
    known = dict(data.kept_columns) | dict(known)
    columns_kept = [(column, known[column] if column in known else cells_of(data, column)) for column in [*named, *columns]]
    if absent := [column for column, cells in columns_kept if cells is None]:
        raise ZooError(f"{data.name} has no column {absent[0]!r} to keep; its columns are {some_of(data.columns)}")
    before = [(column, cells) for column, cells in data.kept_columns if column not in dict(columns_kept)]
    return data._replace(kept_columns=(*before, *((column, _plain(cells)) for column, cells in columns_kept)))


def _plain(cells: Any) -> np.ndarray:
    """Cells that netCDF can store: names as text, and numbers as numbers if no cell is a word and no digit is lost."""
    filled = [cell for cell in cells if cell is not None]
    if not all(isinstance(cell, int | float | np.integer | np.floating) for cell in filled):
        return _as_text(cells)
    if any(abs(cell) > EXACT for cell in filled):  # identifiers: a float would make one of two
        return _as_text(cells)
    values = np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    return values.astype(np.int64) if np.isfinite(values).all() and (values == np.floor(values)).all() else values


def _as_text(cells: Any) -> np.ndarray:
    return np.array(["" if cell is None else str(cell) for cell in cells], dtype=str)


def _place(data: Data, column: str, option: str) -> int:
    if not is_table(data) or is_sparse(data.x):
        raise ZooError(f"{data.name} is not a table, so it has no column {option}={column!r}")
    if column not in data.columns:
        raise ZooError(f"{data.name} has no column {column!r} ({option}); its columns are {some_of(data.columns)}")
    if len(data.columns) == 1:
        raise ZooError(f"{data.name} has no other column than {column!r} ({option})")
    return data.columns.index(column)
