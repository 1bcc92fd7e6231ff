"""The results of a run as one `xarray.DataTree` in ArviZ's schema: made, saved and loaded."""

import os
import platform
from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from inference.results.triangles import MARK, packed, pair_dim, pair_labels
from inference.runtime.files import RESULTS, read_netcdf, write_netcdf
from models.base import Model, ZooError
from models.errors import exists

ROOT = ("schema", "model", "method", "exit_status")  # attributes that every result has
TABLE = ("observed_data", "constant_data")  # groups that hold the table
KEPT = "kept"  # attribute of a column of the table that the user keeps with the rows
SCHEMA = 3  # of the groups and their dimensions; a file with another one is an error
RECORDED = ("bayes-model-zoo", "numpyro", "jax", "jaxlib", "arviz-base", "arviz-stats", "numpy", "scipy")


def dataset(values: Mapping[str, Any], model: Model, lead: tuple[str, ...] = (), symmetric: Collection[str] = ()) -> xr.Dataset:
    """Arrays with the leading dimensions ``lead`` and then the model's named ones, with their coordinates.

    Of those named in ``symmetric`` the lower triangle is stored (`inference.results.triangles`).
    """
    dim = None if model.symmetry is None else model.symmetry.dim
    moves = {} if dim is None else {"permutation": (dim,), "rotation": (f"raw_{dim}", dim)}
    variables, coords = {}, {}
    for name, value in values.items():
        array = np.asarray(value)
        names = (dict(model.naming.dims) | moves).get(name, ())
        rest = (
            names if len(names) == array.ndim - len(lead) else tuple(f"{name}_dim_{i}" for i in range(array.ndim - len(lead)))
        )
        dims = (*lead, *rest)
        for dim, size in zip(dims, array.shape, strict=True):
            labels = model.naming.coords.get(dim)
            coords[dim] = labels if labels is not None and len(labels) == size else np.arange(size)
        if name not in symmetric:
            variables[name] = xr.Variable(dims, array)
            continue
        pair = pair_dim(dims[-2])
        variables[name] = xr.Variable((*dims[:-2], pair), packed(array), attrs={MARK: list(dims[-2:])})
        coords[pair] = pair_labels(coords[dims[-2]])
    return xr.Dataset(variables, coords=coords)


def values(tree: xr.DataTree, group: str, name: str) -> np.ndarray:
    """One variable of a result as an array."""
    return np.asarray(tree[group].to_dataset()[name].values)


def table_of(tree: xr.DataTree) -> xr.Dataset:
    """The table of a result: ``observed_data``, merged with the rest of the table in ``constant_data``."""
    groups = [tree[group].to_dataset() for group in TABLE if group in tree.children]
    return xr.merge(groups, combine_attrs="override", compat="override", join="outer") if groups else xr.Dataset()


def kept_columns(source: xr.DataArray | xr.Dataset) -> dict[str, np.ndarray]:
    """The columns of the table that the user keeps with the rows."""
    return {str(name): values.values for name, values in source.coords.items() if name != "row" and values.dims == ("row",)}


def environment() -> dict[str, Any]:
    """The environment of a run: versions, platform, devices."""
    import jax

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "devices": [str(device) for device in jax.devices()],
        "packages": packages(),
    }


@cache
def packages() -> dict[str, str]:
    """Package -> version, for the packages that a result depends on; read from disk once."""
    versions = {}
    for package in RECORDED:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def save(tree: xr.DataTree, path: str | Path) -> None:
    """Write a result as netCDF, whole or not at all, with a checksum. Raises `ZooError` where it cannot be written."""
    write_netcdf(path, tree)


def _with_coordinates(tree: xr.DataTree) -> xr.DataTree:
    """Kept columns as coordinates of the rows again: netCDF makes variables of those whose names have a space."""
    for node in tree.subtree:
        labels = [name for name, value in node.data_vars.items() if KEPT in value.attrs]
        if labels:
            node.dataset = node.to_dataset(inherit=False).set_coords(labels)
    return tree


def load(path: str | Path) -> xr.DataTree:
    """Read a result back: a ``results.nc``, or the run folder that holds it.

    Raises `ZooError` where there is none, and for a file that is damaged, cut short, exchanged, or not written by the zoo.
    """
    file = Path(path) / RESULTS if exists(path) and Path(path).is_dir() else Path(path)
    if not (exists(file) and file.is_file()):
        raise ZooError(f"{path}: no {RESULTS} there")
    tree = _with_coordinates(read_netcdf(file))
    missing = [name for name in ROOT if name not in tree.attrs]
    if missing:
        raise ZooError(f"{file} is no result of the zoo: it lacks {', '.join(missing)}")
    if tree.attrs["schema"] != SCHEMA:
        raise ZooError(f"{file} is of another version of the zoo (schema {tree.attrs['schema']}, not {SCHEMA}): run it again")
    return tree
