"""A table as sequences of steps: which rows follow each other in time."""

import numpy as np

from models.data import Data, ZooError, is_sparse, is_table, keep_columns


def in_sequences(data: Data, column: str | None) -> Data:
    """The table as steps of the sequences that a column of it names, which stand together, in order; raises `ZooError`."""
    if column is None:
        return data
    if not is_table(data) or is_sparse(data.x):
        raise ZooError(f"{data.name} is no table of steps, so sequence={column!r} names no column of it")
    if column not in data.columns:
        raise ZooError(f"{data.name} has no column {column!r} to name sequences; its columns are {', '.join(data.columns)}")
    place = data.columns.index(column)
    codes = data.x[:, place]
    if np.isnan(codes).any():
        raise ZooError(f"{data.name}: column {column!r}, row {int(np.argmax(np.isnan(codes))) + 1}: no sequence is named")
    edges = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    again = np.flatnonzero(np.bincount(codes[edges].astype(int)) > 1)
    if len(again):
        second = edges[np.flatnonzero(codes[edges] == again[0])[1]]
        raise ZooError(
            f"{data.name}: column {column!r}, row {second + 1}: sequence {_level_name(data, place, int(again[0]))!r} goes on "
            "after another one; sort the rows so that those of a sequence stand together, in order"
        )
    kept = keep_columns(data, [d for d in range(len(data.columns)) if d != place])
    if not kept.columns:
        raise ZooError(f"{data.name} has no column but {column!r}, which names the sequences")
    return kept._replace(starts=np.append(edges, data.num_rows))


def _level_name(data: Data, place: int, code: int) -> str:
    return data.categories[place][code] if data.categories and data.categories[place] else str(code)
