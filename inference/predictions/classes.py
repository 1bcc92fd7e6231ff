"""The view of categorical latents: probabilities of a row's classes, averaged over draws."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import pandas as pd
import xarray as xr
from jax import Array

from inference.engine.evaluate import Static, draws_at_once, point, static_of
from inference.engine.sweep import block_size
from inference.fitting.prepare import as_arrays, require_model, x64
from inference.predictions.views import LabelledPredictions, Question, View, entries
from inference.results.averages import AtDraw, averaged
from inference.results.draws import draws_of, fitted_rows, forget_labels
from inference.results.table import latent_dim
from models.base import Hyper, Model, Pytree, Sites, Stats, ZooError
from models.data.table import Data


def predict(question: Question) -> xr.Dataset:
    """`inference.predictions.predict.predict` of rows whose latents are classes; nothing is drawn."""
    return probabilities(question.model, question.source, question.data, question.fitted)


def probabilities(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    fitted: bool | np.ndarray | None = None,
) -> xr.Dataset:
    """Probabilities p(z = k | x) of every row, decisions and log densities, averaged over the draws of ``source``.

    Raises `ZooError` for a program that hides its latents, and for a row of density 0.
    """
    require_model(model)
    if model.algebra is not None:
        data = forget_labels(model, data)
    on_host = model.rows(data)
    draws, given = draws_of(model, source, on_host), fitted_rows(model, source, data, fitted, on_host)
    with x64(64):
        hyper, prior, rows, stacked = as_arrays((dict(model.hyper), dict(model.prior), on_host, draws))
        averages = _average(static_of(model), hyper, prior, rows, stacked, given)
        log_density, probs = (np.asarray(leaf, dtype=np.float64) for leaf in averages)
    return as_predictions(model, log_density, probs)


def labelled(
    model: Model, source: xr.DataTree | Sites, table: Data, rows: np.ndarray, truth: np.ndarray, weight: np.ndarray
) -> LabelledPredictions:
    """Probabilities of the classes of the labelled ``rows``; ``truth`` and ``weight`` (M,) belong to these rows."""
    return LabelledPredictions(probabilities(model, source, table)["probs"].values[rows], {}, None)


def lines(predictions: xr.Dataset, first: int) -> pd.DataFrame:
    """One line for each row: its class, the probability of this class, all probabilities, and the log density.

    Rows are numbered from 1, after the ``first`` ones.
    """
    probs = predictions["probs"]
    return pd.DataFrame(
        {
            "row": first + 1 + np.arange(len(probs)),
            "assignment": np.asarray(probs.coords[probs.dims[-1]].values)[predictions["assignment"].values],
            "probability": probs.values.max(1),
            **entries(probs, "probs"),
            "log_density": predictions["log_density"].values,
        }
    )


VIEW = View(predict, lines, labelled)


def as_predictions(model: Model, log_density: np.ndarray, probs: np.ndarray) -> xr.Dataset:
    """Log p(x_n) (N,) and class probabilities (N, K), with decisions; raises `ZooError` for a density of 0."""
    require_possible(log_density)
    probs = probs / probs.sum(axis=1, keepdims=True)
    dim = latent_dim(model)
    variables = {
        "probs": (("row", dim), probs),
        "assignment": (("row",), probs.argmax(1)),
        "log_density": (("row",), log_density),
    }
    return xr.Dataset(
        variables, coords={"row": np.arange(len(probs)), dim: model.naming.coords.get(dim, np.arange(probs.shape[1]))}
    )


def require_possible(log_density: np.ndarray, places: np.ndarray | None = None) -> None:
    """A `ZooError` for a row of density 0, given log densities (N,); ``places`` (N,) are the rows' numbers in a table."""
    impossible = np.flatnonzero(~np.isfinite(log_density))
    if len(impossible):
        row = int(impossible[0]) if places is None else int(places[impossible[0]])
        raise ZooError(
            f"row {row + 1} has density 0 in every class: it is against a probability of 0 or 1 (as of a word never seen, "
            "under prior=flat: a prior with concentration above 1 has none), or far out"
        )


@partial(jax.jit, static_argnames=("static",))
def _average(
    static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, draws: Sites, fitted: Array
) -> tuple[Array, Array]:
    """(log of the average over draws of p(x_n | θ) (N,), weighted average of p(z_n = k | x_n, θ) (N, K))."""
    group = draws_at_once(static, draws, rows)

    def at(sites: Sites) -> AtDraw:
        result = point(static, hyper, prior, rows, sites, size=block_size() // group)
        if result["latents"] is None:
            raise ZooError(
                "predict: this program has no component probabilities, as it observes no mixture. fit(…, predictive=True) "
                "draws what it observes, and at new data numpyro.infer.Predictive(program, draws, batch_ndims=2) does, "
                "with draws = {name: value.values for name, value in tree['posterior'].items()}; log_likelihood has densities"
            )
        return AtDraw(result["log_likelihood"], values=(result["latents"],))

    result = averaged(at, draws, fitted, group)
    return result.log_density, result.values[0]
