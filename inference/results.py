"""Everything that a run produced -> one `xarray.DataTree` in ArviZ's schema."""

import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from models.base import Model

RECORDED = ("bayes-model-zoo", "numpyro", "jax", "jaxlib", "arviz-base", "arviz-stats", "numpy", "scipy")


def dataset(
    values: Mapping[str, Any], model: Model, lead: tuple[str, ...] = (), attrs: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """Arrays with the leading dimensions ``lead`` and then the model's named ones, with their coordinates."""
    dim = None if model.symmetry is None else model.symmetry.dim
    moves = {} if dim is None else {"permutation": (dim,), "rotation": (f"raw_{dim}", dim)}
    variables, coords = {}, {}
    for name, value in values.items():
        array = np.asarray(value)
        names = (dict(model.dims) | moves).get(name, ())
        rest = (
            names if len(names) == array.ndim - len(lead) else tuple(f"{name}_dim_{i}" for i in range(array.ndim - len(lead)))
        )
        dims = (*lead, *rest)
        variables[name] = (dims, array)
        for dim, size in zip(dims, array.shape, strict=True):
            labels = model.coords.get(dim)
            coords[dim] = labels if labels is not None and len(labels) == size else np.arange(size)
    return xr.Dataset(variables, coords=coords, attrs=dict(attrs or {}))


def values(tree: xr.DataTree, group: str, name: str) -> np.ndarray:
    """One variable of a result as an array."""
    return np.asarray(tree[group].to_dataset()[name].values)


def environment() -> dict[str, Any]:
    """What the run ran on: versions, platform, devices."""
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
    """Package -> version, of those that a result depends on; read from disk once."""
    found = {}
    for package in RECORDED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def save(tree: xr.DataTree, path: Path) -> None:
    """Write netCDF under a temporary name and rename it, so that no half-written file is ever found."""
    temporary = path.with_suffix(".partial")
    tree.to_netcdf(temporary, engine="h5netcdf")
    temporary.replace(path)


def load(path: str | Path) -> xr.DataTree:
    """Read a result back: a ``results.nc``, or the run folder that holds it. Raises `ZooError` where there is none."""
    from models.data import ZooError

    file = Path(path) / "results.nc" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise ZooError(f"{path}: no results.nc there")
    tree = xr.open_datatree(file, engine="h5netcdf")
    tree.load()
    tree.close()
    return tree
