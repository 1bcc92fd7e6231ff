"""The table of a result: how it is stored, and how it is read back."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy import sparse

from inference.results.tree import KEPT, TABLE, table_of
from models.base import Data, Model, ZooError
from models.data.columns import Layout, as_typed
from models.data.documents import Sequences
from models.data.table import SEQUENCE_NAME, Note, is_sparse

CELLS = ("x", "token", "count")  # variables of a table with what stands in its cells


def latent_dim(model: Model) -> str:
    """The dimension of the latents that a result reports per row: classes of probabilities, or factors of scores."""
    if model.naming.reports in model.naming.dims:
        return model.naming.dims[model.naming.reports][-1]
    return "component" if model.symmetry is None else model.symmetry.dim


def observed_data(data: Data, like: Layout | None = None) -> xr.Dataset:
    """The table as it was read, with its weights; sparse counts as (row, column, count) of the filled cells.

    ``like`` are the columns that a model with kinds of columns reads. `data_of` reads all of it back. Levels and notes, of
    which there may be very many, are variables: netCDF limits the size of attributes.
    """
    coords: dict[str, Any] = {"row": np.arange(data.num_rows), "column": list(data.columns)}
    if isinstance(data.x, Sequences):
        observed: dict[str, Any] = {"token": (("position",), data.x.tokens), "start": (("row_edge",), data.x.starts)}
    elif is_sparse(data.x):
        cells = data.x.tocoo()
        variables = {"cell_row": cells.row, "cell_column": cells.col, "count": cells.data}
        observed = {name: (("cell",), values) for name, values in variables.items()}
    else:
        observed = {"x": (("row", "column"), data.x)} | _stored_levels("level", data.categories)
    if data.starts is not None:
        observed["sequence_start"] = (("row_edge",), data.starts)
    coords |= kept_coordinates(data)
    parts = {"label": data.labels, "weight": data.weight, "candidate": data.candidates}
    observed |= {name: (("row", "class")[: part.ndim], part) for name, part in parts.items() if part is not None}
    notes = data.notes
    if like is not None:
        notes = as_typed(data, like, "missing").notes
        observed |= {"read_column": (("read",), list(like.columns)), "read_kind": (("read",), list(like.kinds))}
        observed |= _stored_levels("read_level", like.categories)
    if data.kinds:
        observed["kind"] = (("column",), list(data.kinds))
    for field in ("column", "kind", "why") if notes else ():
        observed[f"note_{field}"] = (("note",), [getattr(note, field) for note in notes])
    if notes:
        observed["note_spelled"] = (("note",), [json.dumps(note.spelled) for note in notes])
    attrs = {"name": data.name, "label": data.label, "levels": list(data.levels), "moments": int(data.moments)}
    attrs["weights"] = data.weights
    return xr.Dataset(observed, coords=coords, attrs={name: value for name, value in attrs.items() if value})


def kept_coordinates(data: Data) -> dict[str, Any]:
    """The columns that the user keeps with the rows, as coordinates of the rows with the attribute `KEPT`."""
    return {name: (("row",), cells, {KEPT: 1}) for name, cells in data.kept_columns}


def named_rows(groups: dict[str, xr.Dataset], data: Data) -> dict[str, xr.Dataset]:
    """Groups of a result, with the kept columns as coordinates of every variable by row of the table.

    The rows of a table of sequences are steps; variables by sequence have the names of the sequences as coordinates. Parameters
    of single documents have no such coordinate: ArviZ cannot summarise them with one.
    """
    columns = kept_coordinates(data)
    if data.starts is not None:
        first = data.starts[:-1]
        columns = {name: (dims, cells[first], attrs) for name, (dims, cells, attrs) in columns.items() if name == SEQUENCE_NAME}
    named = [name for name, group in groups.items() if columns and "row" in group.sizes and name not in TABLE]
    return {name: group.assign_coords(columns) if name in named else group for name, group in groups.items()}


def split_observed(model: Model, table: xr.Dataset, labels_observed: bool) -> tuple[xr.Dataset, xr.Dataset]:
    """A table as (what the model observes of it, the rest): ArviZ compares the first with what the model predicts."""
    wanted = {name for name in CELLS if "x" in model.naming.observes} | ({"label"} if labels_observed else set())
    observed = [str(name) for name in table.data_vars if name in wanted]
    return table[observed], table.drop_vars(observed)  # the rest keeps all names of columns


def data_of(tree: xr.DataTree) -> Data:
    """The table that the model of a result read; raises `ZooError` where there was none."""
    table = table_of(tree)
    if "column" not in table.coords:
        raise ZooError("this result is of a program, whose data are arrays and no table")
    value = {str(name): np.asarray(table[name]) for name in table.data_vars}
    columns = tuple(map(str, table["column"].values))
    if "token" in value:
        x: Any = Sequences(value["token"], value["start"])
    elif "count" in value:
        shape = (table.sizes["row"], len(columns))
        x = sparse.csr_array((value["count"], (value["cell_row"], value["cell_column"])), shape=shape)
    else:
        x = value["x"]
    categories = _read_levels(value, "level", len(columns))
    stored = zip(*(value.get(f"note_{field}", ()) for field in ("column", "kind", "why", "spelled")), strict=True)
    notes = tuple(
        Note(str(column), str(kind), str(why), tuple((word, count) for word, count in json.loads(str(spelled))))
        for column, kind, why, spelled in stored
    )
    data = Data(
        name=str(table.attrs["name"]),
        x=x,
        columns=columns,
        labels=value.get("label"),
        label=table.attrs.get("label"),
        levels=tuple(map(str, np.atleast_1d(table.attrs.get("levels", ())))),
        weight=value.get("weight"),
        candidates=value.get("candidate"),
        categories=categories if any(categories) else (),
        kinds=tuple(map(str, value.get("kind", ()))),
        notes=notes,
        starts=value.get("sequence_start"),
        moments=bool(table.attrs.get("moments", 0)),
        weights=str(table.attrs.get("weights", "")),
        kept_columns=tuple(
            (str(name), np.asarray(one)) for name, one in table.coords.items() if one.dims == ("row",) and name != "row"
        ),
    )
    if "read_column" not in value:
        return data
    names, kinds = (tuple(map(str, value[f"read_{part}"])) for part in ("column", "kind"))
    return as_typed(data, Layout(names, kinds, _read_levels(value, "read_level", len(names)), notes), "missing")


def _stored_levels(name: str, categories: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """The levels of all columns one after another, each with the place of its column."""
    places = [(place, level) for place, levels in enumerate(categories) for level in levels]
    if not places:
        return {}
    column, level = zip(*places, strict=True)
    return {f"{name}_column": ((name,), list(column)), f"{name}_name": ((name,), list(level))}


def _read_levels(value: Mapping[str, np.ndarray], name: str, num_columns: int) -> tuple[tuple[str, ...], ...]:
    levels: list[list[str]] = [[] for _ in range(num_columns)]
    for place, level in zip(value.get(f"{name}_column", ()), value.get(f"{name}_name", ()), strict=True):
        levels[place].append(str(level))
    return tuple(map(tuple, levels))
