"""Observations by site: the values of a program's observed sites, and their log-likelihoods.

A model of the zoo observes rows, and ``log_likelihood`` of a result has one variable ``x`` for all observations of a row. A
user's own program keeps the names and shapes of its sites. `by_row` reads both.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from numpyro import distributions as dist

from inference.programs.arguments import Arguments
from inference.programs.tracing import prior_trace
from models.base import Hyper, Model, Pytree

DRAWS = ("chain", "draw")


def observed_values(spec: Callable[..., Any], hyper: Hyper, rows: Pytree) -> dict[str, np.ndarray]:
    """Observed site of a program -> its value."""
    return {
        name: np.asarray(site["value"])
        for name, site in prior_trace(spec, hyper, rows).items()
        if site["type"] == "sample" and site["is_observed"] and not isinstance(site["fn"], dist.Unit)
    }


def site_dims(model: Model, values: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Names of the dimensions of observed sites: the user's, or ``row`` for the first, where all sites have as many rows."""
    first = {np.shape(value)[0] for value in values.values() if np.ndim(value)}
    dims_of = {}
    for name, value in values.items():
        row = "row" if len(first) == 1 else f"{name}_row"
        rest = [f"{name}_dim_{axis}" for axis in range(1, np.ndim(value))]
        dims_of[name] = tuple(model.naming.dims.get(name, ())) or (row, *rest)[: np.ndim(value)]
    return dims_of


def sites_as_observed(
    model: Model,
    values: Mapping[str, np.ndarray],
    dims: Mapping[str, tuple[str, ...]],
    lead: tuple[str, ...] = (),
    thin: int = 1,
) -> xr.Dataset:
    """Arrays of observed sites, or of the first of their dimensions, after ``lead``; draws are every ``thin``-th."""
    variables, coords = {}, {}
    for name, value in values.items():
        names = (*lead, *dims[name][: value.ndim - len(lead)])
        variables[name] = (names, value)
        for dim, size in zip(names, value.shape, strict=True):
            labels = model.naming.coords.get(dim)
            step = thin if dim == "draw" else 1
            coords[dim] = labels if labels is not None and len(labels) == size else np.arange(size) * step
    return xr.Dataset(variables, coords=coords)


def by_row(tree: xr.DataTree) -> xr.DataArray:
    """Log-likelihoods of a result as one array (chain, draw, row), or (row) of a point.

    Sites of a program with equal numbers of rows are added up row by row; others stand one after another.
    """
    parts = []
    for each in tree["log_likelihood"].to_dataset().data_vars.values():
        row_dims = [dim for dim in each.dims if dim not in DRAWS]
        one = each.sum(row_dims[1:]) if row_dims else each.expand_dims("row", -1)
        parts.append(one.rename({row_dims[0]: "row"}) if row_dims and row_dims[0] != "row" else one)
    if len(parts) == 1:
        total = parts[0]
    elif len({part.sizes["row"] for part in parts}) == 1:
        total = sum(parts[1:], parts[0])
    else:
        total = xr.concat([part.drop_vars("row", errors="ignore") for part in parts], dim="row")
    order = [dim for dim in (*DRAWS, "row") if dim in total.dims]
    return total.transpose(*order).rename("x")


def arguments_of(tree: xr.DataTree) -> dict[str, np.ndarray]:
    """The arguments of the program of a result, by name: those of `arguments`."""
    constant, observed = (tree[group].to_dataset() for group in ("constant_data", "observed_data"))
    by_name = {str(name): np.asarray(value) for name, value in constant.data_vars.items()}
    return by_name | {str(name): np.asarray(observed[name]) for name in np.atleast_1d(constant.attrs.get("observed", []))}


def program_data(tree: xr.DataTree) -> Any:
    """The data of the program of a result, in the form in which `arguments` named them: one array, a tuple, or by name."""
    by_name = arguments_of(tree)
    if list(by_name) == ["data"]:
        return by_name["data"]
    if set(by_name) == {str(place) for place in range(len(by_name))}:
        return tuple(by_name[str(place)] for place in range(len(by_name)))
    return Arguments(by_name)


def arguments(data: Any) -> dict[str, Any]:
    """The arrays that a program of the user's is given, by name."""
    leaves = {jax.tree_util.keystr(path) or "data": leaf for path, leaf in jax.tree_util.tree_leaves_with_path(data)}
    return {name.strip("[]'\""): leaf for name, leaf in leaves.items()}
