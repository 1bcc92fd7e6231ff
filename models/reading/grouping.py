"""Tables whose rows are the steps of sequences."""

import numpy as np

from models.data.columns import cells_of
from models.data.table import Data, ZooError, is_sparse, is_table, keep_columns
from models.errors import some_of


def in_sequences(data: Data, column: str | None) -> Data:
    """Group the rows by a column that names their sequence; raises `ZooError` unless these rows are consecutive."""
    if column is None:
        return data
    if not is_table(data) or is_sparse(data.x):
        raise ZooError(f"{data.name} is not a table of steps, so it has no column sequence={column!r}")
    if column not in data.columns:
        raise ZooError(f"{data.name} has no column {column!r} to name sequences; its columns are {some_of(data.columns)}")
    place = data.columns.index(column)
    codes = data.x[:, place]
    if np.isnan(codes).any():
        raise ZooError(
            f"{data.name}: column {column!r}, row {int(np.argmax(np.isnan(codes))) + 1}: the name of the sequence is missing"
        )
    edges = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    again = np.flatnonzero(np.bincount(codes[edges].astype(int)) > 1)
    if len(again):
        second = edges[np.flatnonzero(codes[edges] == again[0])[1]]
        raise ZooError(
            f"{data.name}: column {column!r}, row {second + 1}: sequence {_level_name(data, place, int(again[0]))!r} "
            "continues after another one; sort the rows so that those of a sequence are consecutive and in order"
        )
    rest = keep_columns(data, [d for d in range(len(data.columns)) if d != place])
    if not rest.columns:
        raise ZooError(f"{data.name} has no other column than {column!r}, which names the sequences")
    return rest._replace(starts=np.append(edges, data.num_rows), notes=tuple(n for n in data.notes if n.column != column))


def names_of_sequences(data: Data, column: str) -> np.ndarray | None:
    """(N,): the name of every row's sequence as the table gives it, not as a level; None if there is no such column."""
    given = next((note.cells for note in data.notes if note.column == column), None)
    return cells_of(data, column) if given is None else given


def _level_name(data: Data, place: int, code: int) -> str:
    return data.categories[place][code] if data.categories and data.categories[place] else str(code)
