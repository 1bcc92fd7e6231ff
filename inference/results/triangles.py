"""Symmetric matrices in a result: the lower triangle is stored, every entry once.

A site whose support is the symmetric matrices, as that of a precision or a correlation matrix, has D (D + 1) / 2 different
entries and not D². Posterior groups store these along one dimension, ``feature_pair`` for a matrix of features by features, so
that summaries and plots of ArviZ show every entry once. `packed` and `whole` are the only two functions that know the order.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpyro import distributions as dist

from inference.engine.program import innermost, latent_sites
from inference.programs.derived import DERIVED
from models.base import Hyper, Pytree, ZooError

SYMMETRIC = (
    dist.constraints.positive_definite,
    dist.constraints.positive_semidefinite,
    dist.constraints.corr_matrix,
)
MARK = "symmetric"  # attribute of a packed variable: the names of the two dimensions of its matrices


def symmetric_sites(spec: Callable[..., Any], hyper: Hyper, rows: Pytree) -> frozenset[str]:
    """The sites of a program that are symmetric matrices along their last two dimensions, by their support."""
    return frozenset(name for name, site in latent_sites(spec, hyper, rows).items() if innermost(site.support) in SYMMETRIC)


def packed(matrix: np.ndarray) -> np.ndarray:
    """(…, D, D) -> (…, D (D + 1) / 2): the lower triangle, row by row."""
    row, column = np.tril_indices(matrix.shape[-1])
    return matrix[..., row, column]


def whole(triangle: np.ndarray) -> np.ndarray:
    """(…, D (D + 1) / 2) -> (…, D, D): the inverse of `packed`."""
    number = triangle.shape[-1]
    size = (int(np.sqrt(8 * number + 1)) - 1) // 2
    row, column = np.tril_indices(size)
    place = np.zeros((size, size), int)
    place[row, column] = place[column, row] = np.arange(number)
    return triangle[..., place]


def pair_dim(dim: str) -> str:
    """The dimension of the entries of a matrix of ``dim`` by ``dim``."""
    return f"{dim}_pair"


def pair_labels(labels: Any) -> list[str]:
    """Names of the entries of `packed`: the row of the matrix, then its column."""
    names = [str(label) for label in labels]
    return [f"{names[row]} × {names[column]}" for row, column in zip(*np.tril_indices(len(names)), strict=True)]


def whole_variable(variables: xr.Dataset, name: str) -> xr.DataArray:
    """A variable of a group with its matrices whole; as it is if it has none."""
    variable = variables[name]
    if MARK not in variable.attrs:
        return variable
    dims = tuple(map(str, np.atleast_1d(variable.attrs[MARK])))
    values = whole(np.asarray(variable.transpose(..., pair_dim(dims[0]))))
    lead = [dim for dim in variable.dims if dim != pair_dim(dims[0])]
    labels = {dim: variables[dim] for dim in (*lead, *dims) if dim in variables.coords}
    attrs = {key: value for key, value in variable.attrs.items() if key != MARK}
    return xr.DataArray(
        values, dims=(*lead, *dims), coords={dim: np.asarray(value) for dim, value in labels.items()}, attrs=attrs
    )


def whole_group(tree: xr.DataTree, group: str) -> xr.Dataset:
    """A group of a result with every matrix whole. Read the sites of a result by this function."""
    stored = tree[group].to_dataset()
    return xr.Dataset({str(name): whole_variable(stored, str(name)) for name in stored.data_vars}, attrs=stored.attrs)


def sites_of(tree: xr.DataTree, group: str) -> dict[str, np.ndarray]:
    """Site -> array in the shape of the program, after the dimensions chain and draw if there are draws."""
    variables = whole_group(tree, group).data_vars
    return {str(name): np.asarray(value) for name, value in variables.items() if DERIVED not in value.attrs}


def full_matrices(tree: xr.DataTree, group: str = "posterior") -> xr.Dataset:
    """The draws of a result with symmetric matrices whole, in the shape that the sites of the program have.

    Results store the lower triangle of a symmetric matrix, so that every entry is summarised once: ``precision`` of a Gaussian
    mixture has the dimensions ``(chain, draw, component, feature_pair)``. Here it is
    ``(chain, draw, component, feature, feature_)``. Raises `ZooError` for a group that the result lacks.

    >>> data = load_data("iris")
    >>> tree = fit(MODELS["gmm"](data, num_components=2), data, "gibbs")
    >>> full_matrices(tree)["precision"].dims
    ('chain', 'draw', 'component', 'feature', 'feature_')
    """
    if not isinstance(tree, xr.DataTree) or group not in tree.children:
        raise ZooError(f"there is no group {group!r} of a result to read matrices from")
    return whole_group(tree, group)
