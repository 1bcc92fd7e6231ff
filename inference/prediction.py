"""What a fitted model says of rows, old or new: log-likelihood, component probabilities, log density."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.evaluate import Static, point, static_of
from inference.fitting import as_arrays, checked_start, latent_dim, require_model, x64
from models.base import Hyper, Model, Pytree, Sites, Stats, ZooError
from models.data import as_data


def log_likelihood(model: Model, sites: Sites, data: Any, precision: int = 64) -> np.ndarray:
    """Log p(x_n | θ) of every row, latents summed out: (N,). ``sites`` is a dict of the program's sites."""
    require_model(model)
    with x64(precision):
        hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), model.rows(data)))
        at = checked_start(model, hyper, rows, sites)
        return np.asarray(_log_likelihood(static_of(model), hyper, prior, rows, at))


@partial(jax.jit, static_argnames=("static",))
def _log_likelihood(static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, sites: Sites) -> Array:
    return point(static, hyper, prior, rows, sites)["log_likelihood"]


def predict(model: Model, source: xr.DataTree | Sites, data: Any, precision: int = 64) -> xr.Dataset:
    """Predict the rows of ``data``, averaged over the draws of a result, or at a dict of sites.

    Returns ``probs`` (row, component) = p(z = k | x), ``assignment`` (row), the most probable component, and ``log_density``
    (row) = log p(x). Averaging is over the posterior: p(z = k | x) = Σ_s p(x, z = k | θ_s) / Σ_s p(x | θ_s).
    Raises `ZooError` for data with other columns than the model's, or a program that hides its latents.
    """
    require_model(model)
    draws = draws_of(source)
    if model.algebra is not None:  # labels of new rows are what is to be predicted
        data = as_data(data)._replace(labels=None, label=None, levels=(), candidates=None)
    with x64(precision):
        hyper, prior, rows, stacked = as_arrays((dict(model.hyper), dict(model.prior), model.rows(data), draws))
        log_joint = np.asarray(_log_average(static_of(model), hyper, prior, rows, stacked), dtype=np.float64)
    log_density = np.logaddexp.reduce(log_joint, axis=1)
    if not np.isfinite(log_density).all():
        raise ZooError(
            f"row {np.flatnonzero(~np.isfinite(log_density))[0] + 1} is so far out that its density is 0 in every draw"
        )
    probs = np.exp(log_joint - log_density[:, None])
    dim = latent_dim(model)
    variables = {
        "probs": (("row", dim), probs),
        "assignment": (("row",), probs.argmax(1)),
        "log_density": (("row",), log_density),
    }
    return xr.Dataset(variables, coords={"row": np.arange(len(probs)), dim: model.coords.get(dim, np.arange(probs.shape[1]))})


@partial(jax.jit, static_argnames=("static",))
def _log_average(static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, draws: Sites) -> Array:
    """Log of the average over draws of p(x_n, z_n = k | θ): (N, K)."""

    def at(sites: Sites) -> Array:
        found = point(static, hyper, prior, rows, sites)
        if found["latents"] is None:
            raise ZooError("this program hides its latents, so there are no component probabilities; use log_likelihood")
        return found["log_likelihood"][:, None] + jnp.log(found["latents"])

    size = jax.tree.leaves(draws)[0].shape[0]
    shape = jax.eval_shape(lambda: at(jax.tree.map(lambda leaf: leaf[0], draws)))
    empty = jnp.full(shape.shape, -jnp.inf, shape.dtype)
    total, _ = jax.lax.scan(lambda total, sites: (jnp.logaddexp(total, at(sites)), None), empty, draws)
    return total - jnp.log(size)


def draws_of(source: xr.DataTree | Sites) -> dict[str, np.ndarray]:
    """The sites of a result, or given ones, with one leading axis of draws."""
    if not isinstance(source, xr.DataTree):
        return {name: np.asarray(value)[None] for name, value in source.items()}
    if "posterior" in source:
        posterior = source["posterior"].to_dataset()
        values = {str(name): np.asarray(value) for name, value in posterior.data_vars.items()}
        return {name: value.reshape(-1, *value.shape[2:]) for name, value in values.items()}
    return {str(name): np.asarray(value)[None] for name, value in source["point_estimate"].to_dataset().data_vars.items()}
