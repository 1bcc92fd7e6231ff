"""Groups of rows: which rows belong together, under any labels, and which have an uncertain component."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from inference.engine.evaluate import latents_of_draws, row_count
from inference.fitting.prepare import as_arrays, require_model, x64
from inference.results.draws import draws_of, thinned
from models.algebra import is_sequential
from models.base import Model, Sites, ZooError
from models.data.arguments import require_whole
from models.rows.encoded import spread

SHOWN = 300  # rows, evenly spread, of a co-clustering matrix
AVERAGED = 200  # draws that it is averaged over
SURE = 0.9  # a row below this probability of its component is uncertain


def co_clustering(model: Model, source: xr.DataTree | Sites, data: Any, max_rows: int = SHOWN) -> xr.DataArray:
    """P(z_i = z_j | x) of fitted rows i and j, (n, n), averaged over draws; labels do not matter.

    Of at most ``max_rows`` evenly spread rows, whose numbers (from 0) are the coordinates ``row`` and ``other``; the attribute
    ``num_rows`` counts them all. Raises `ZooError` for a program that hides its latents.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=2)
    >>> together = co_clustering(model, fit(model, data, "gibbs"), data)
    >>> together.sel(row=0, other=[1, 100]).values.round(2)
    array([1., 0.])
    """
    require_model(model)
    if is_sequential(model):
        raise ZooError(f"the states of {model.name} depend on each other: their probabilities do not determine which are equal")
    require_whole("max_rows", max_rows, 2)
    some = thinned(draws_of(model, source), AVERAGED)
    with x64(64):
        hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), model.rows(data)))
        latents = latents_of_draws(model, hyper, prior, rows, some, max_rows)
        total = row_count(model, hyper, prior, rows, some)
    if latents is None:
        raise ZooError("this program hides its latents, so nothing is known of rows that belong together")
    probs = np.einsum("sik,sjk->ij", latents, latents, optimize=True).astype(np.float64) / len(latents)
    np.fill_diagonal(probs, 1.0)
    coords = dict.fromkeys(("row", "other"), spread(total, max_rows))
    return xr.DataArray(probs, dims=("row", "other"), coords=coords, name="co_clustering", attrs={"num_rows": total})


def uncertain_rows(tree: xr.DataTree, below: float = SURE) -> pd.DataFrame:
    """Rows whose most probable component has a probability under ``below``, the least certain first.

    The index is the row, from 0; the columns are its ``component`` (or class) and ``probability``, the runner-up's, and the
    columns of the table that the user keeps (``load_data(..., keep=)``). Raises `ZooError` for a result without latents.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=3)
    >>> uncertain_rows(fit(model, data, "em")).columns.tolist()
    ['component', 'probability', 'runner-up', 'its probability']
    """
    if "latent" not in tree or "responsibilities" not in tree["latent"]:
        raise ZooError("this result has no probabilities of components")
    latent = tree["latent"]["responsibilities"]
    probs, names = np.asarray(latent), np.asarray(latent.coords[latent.dims[1]]).astype(str)
    if probs.shape[1] < 2:
        probs, names = np.column_stack([probs, np.zeros(len(probs))]), np.append(names, "")
    rows = np.flatnonzero(probs.max(1) < below)
    rows = rows[np.argsort(probs[rows].max(1), kind="stable")]
    order = np.argsort(-probs[rows], axis=1, kind="stable")[:, :2]
    sizes = np.take_along_axis(probs[rows], order, 1).astype(float)
    return pd.DataFrame(
        {
            str(latent.dims[1]): names[order[:, 0]],
            "probability": sizes[:, 0],
            "runner-up": names[order[:, 1]],
            "its probability": sizes[:, 1],
        }
        | {str(name): np.asarray(one)[rows] for name, one in latent.coords.items() if one.dims == ("row",) and name != "row"},
        index=pd.Index(rows, name="row"),
    )
