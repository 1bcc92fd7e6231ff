"""Predictions of a fitted model for fitted or new rows: log-likelihood, component probabilities, log density."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax import Array

from inference.engine.evaluate import Static, point, static_of
from inference.engine.sites import checked_sites
from inference.fitting.prepare import as_arrays, require_model, x64
from inference.identification.relabel import is_label_warning
from inference.predictions.imputation import impute
from inference.predictions.views import Question, view_of
from inference.results.draws import forget_labels
from inference.results.table import named_rows
from models.base import Hyper, Model, Pytree, Sites, Stats
from models.chains.padding import padded
from models.data.table import ROWLESS, Data, has_missing_cell, require_rows


def log_likelihood(model: Model, sites: Sites, data: Any) -> np.ndarray:
    """Log p(x_n | θ) of every row, latents summed out: (N,). ``sites`` is a dict of the program's sites.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm_simple"](data, num_components=2)
    >>> sites = {"mean": [[5.0, 3.4, 1.5, 0.2], [6.3, 2.9, 4.9, 1.7]]}
    >>> log_likelihood(model, sites, data).shape
    (150,)
    """
    require_model(model)
    require_rows(data, ROWLESS)
    with x64(64):
        on_host = padded(model.rows(data))
        hyper, prior, rows, at = as_arrays(
            (dict(model.hyper), dict(model.prior), on_host, checked_sites(model, sites, on_host))
        )
        return np.asarray(_log_likelihood(static_of(model), hyper, prior, rows, at))


@partial(jax.jit, static_argnames=("static",))
def _log_likelihood(static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, sites: Sites) -> Array:
    return point(static, hyper, prior, rows, sites)["log_likelihood"]


def predict(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    seed: int = 0,
    num_draws: int = 200,
    fitted: bool | np.ndarray | None = None,
) -> xr.Dataset:
    """Predict the rows of ``data``, averaged over the draws of a result, or at a dict of sites.

    Returns ``probs`` (row, component) = p(z = k | x), ``assignment`` (row), the most probable component, and ``log_density``
    (row) = log p(x). Averaging is over the posterior, in which new rows weight the draws by p(x | θ_s) and fitted rows weight
    all draws equally (`inference.results.draws`). ``fitted`` marks the rows that are fitted; by default all are if ``data`` is
    the whole table of the fit, not a part of it. Densities are those of a new row in any case.

    - A model of factors has ``scores`` and ``scores_sd`` (row, factor) instead, and their ``reconstruction`` (row, column).
    - A model of sequences has the variables of `inference.sequences.decoding.states` for every step.
    - Where rows have local parameters, such as topic proportions, these replace ``probs``: posterior means, ``_sd``,
      ``_eti89_lb`` and ``_eti89_ub``, from ``num_draws`` draws by ``seed``. Fitted rows have the draws of the result. New rows
      have draws by Gibbs sampling given the shared parameters, whose draws all count equally, because p(x | θ_s) has no closed
      form. The log density, with the local parameters integrated out, is an estimate.
    - Where cells are missing, the result includes `inference.predictions.imputation.impute`, from ``num_draws`` draws by
      ``seed``; ``num_draws=0`` leaves it out, and is an error where rows have local parameters.

    Where the draws do not tell labels or factors apart, there is a warning in ``attrs["warnings"]``. The labels of ``data`` are
    ignored. Raises `ZooError` for data with other columns than the model's, and for a program that hides its latents.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=2)
    >>> tree = fit(model, data, "gibbs")
    >>> predict(model, tree, data)["probs"].values[[0, 100]].round(2)
    array([[0., 1.],
           [1., 0.]])
    """
    predicted = without_cells(model, source, data, seed, num_draws, fitted)
    if num_draws == 0 or model.abilities.table is None or not has_missing_cell(model.read(data)):
        return predicted
    return predicted.merge(impute(model, source, forget_labels(model, data), num_draws, seed, fitted))


def without_cells(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    seed: int = 0,
    num_draws: int = 200,
    fitted: bool | np.ndarray | None = None,
) -> xr.Dataset:
    """`predict` without missing cells. The view of the model's latents answers."""
    require_model(model)
    view = view_of(model)
    predicted = view.predict(Question(model, source, data, seed, num_draws, fitted))
    if isinstance(data, Data):
        predicted = named_rows({"": predicted}, data)[""]
    stored = str(source.attrs.get("warnings", "")).split("\n") if isinstance(source, xr.DataTree) else []
    warnings = [line for line in stored if is_label_warning(line)]  # labels do not tell components apart
    warnings += view.warnings(source)
    return predicted.assign_attrs(warnings="\n".join(warnings)) if warnings else predicted
