"""Predictions for rows depend on what has a latent and on its values: one table names the module for each pair.

Every module of the table declares its answers in a ``VIEW``.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from models.algebra import latent_axes
from models.base import Model, Sites
from models.data.table import Data

VIEWS = {  # `models.algebra.latent_axes` -> the module with the ``VIEW``
    ("row", "discrete"): "inference.predictions.classes",
    ("row", "real"): "inference.predictions.scores",
    ("step", "discrete"): "inference.sequences.states",
    ("step", "real"): "inference.sequences.factors",
    ("token", "discrete"): "inference.topics.proportions",
}


class Question(NamedTuple):
    """A question about rows: the arguments of `inference.predictions.predict.predict`, which explains them."""

    model: Model
    source: xr.DataTree | Sites
    data: Any
    seed: int = 0
    num_draws: int = 200
    fitted: bool | np.ndarray | None = None


class LabelledPredictions(NamedTuple):
    """Predictions for M labelled rows, or steps of sequences."""

    probs: np.ndarray  # (M, C)
    wholes: dict[str, Any]  # figures of whole sequences, if rows are steps
    sequence: np.ndarray | None  # (M,): the sequence of each step, if rows are steps


# (model, source, table, the labelled rows or steps (M,), their labels (M,), their weights (M,))
Labelling = Callable[[Model, xr.DataTree | Sites, Data, np.ndarray, np.ndarray, np.ndarray], LabelledPredictions]


def no_warnings(source: Any) -> list[str]:
    """No warnings in addition to those of the fit."""
    return []


def scores_only(model: Model) -> str:
    """Why labels cannot be predicted where latents are numbers."""
    return f"{model.name} has scores, not classes: it predicts no labels"


class View(NamedTuple):
    """The answers for latents of one unit and one kind of values."""

    predict: Callable[[Question], xr.Dataset]  # about rows; missing cells are left to `inference.predictions.imputation`
    # (predictions, how many rows come before them) -> a flat table of them, as `inference.predict` writes it
    lines: Callable[[xr.Dataset, int], pd.DataFrame]
    labelled: Labelling | None = None  # about labels; None where none can be predicted
    why_no_labels: Callable[[Model], str] = scores_only  # the reason, where labelled is None
    warnings: Callable[[Any], list[str]] = no_warnings  # warnings about single components, in addition to those of the fit


def entries(variable: xr.DataArray, name: str) -> dict[str, np.ndarray]:
    """A variable (row, dim) as columns "name[label]", one for each label of its last dimension."""
    labels = variable.coords[variable.dims[-1]].values
    return {f"{name}[{label}]": variable.values[..., place] for place, label in enumerate(labels)}


def row_lines(predictions: xr.Dataset, first: int) -> pd.DataFrame:
    """One line for each row, numbered from 1 after the ``first`` ones, with all its predictions."""
    columns: dict[str, np.ndarray] = {"row": first + 1 + np.arange(predictions.sizes["row"])}
    for name, variable in predictions.data_vars.items():
        columns |= entries(variable, str(name)) if variable.ndim == 2 else {str(name): variable.values}
    return pd.DataFrame(columns)


def view_of(model: Model) -> View:
    """The view of a model's latents, imported only now because it may live in a higher room."""
    view: View = import_module(VIEWS[latent_axes(model)]).VIEW
    return view
