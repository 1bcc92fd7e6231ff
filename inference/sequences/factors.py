"""The view of Gaussian paths: smoothed factors, what is expected of every column at every step, and forecasts.

All are averaged over the draws of a result (`inference.results.draws`), and nothing is drawn. What is expected of a missing
cell follows from all that is observed of its sequence. Forecasts are the same for steps after the end, where all cells are
missing.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr
from jax import Array

from inference.engine.sweep import block_map
from inference.fitting.prepare import as_arrays, require_model, x64
from inference.predictions.views import Question, View, entries
from inference.results.averages import AtDraw, averaged
from inference.results.draws import draws_of, fitted_rows, forget_labels
from models.abilities import Expected
from models.algebra import has_paths, is_sequential
from models.base import Algebra, Hyper, Model, Pytree, Sites, ZooError
from models.chains.padding import padded
from models.chains.sequences import steps_of
from models.data.arguments import require_whole
from models.data.table import Data

Columns = Callable[..., tuple[Expected, ...]]


def predict(asked: Question) -> xr.Dataset:
    """Mean and standard deviation of the factors at every step, and of every column; the log density of every sequence.

    NaN beyond the end of a sequence. See `inference.predictions.predict.predict`.
    """
    model, data = asked.model, forget_labels(asked.model, asked.data)
    require_model(model)
    return _averaged(model, asked.source, data, fitted_rows(model, asked.source, data, asked.fitted))


def forecast(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    num_steps: int = 1,
    fitted: bool | np.ndarray | None = None,
) -> xr.Dataset:
    """The ``num_steps`` steps after the end of every sequence of ``data``, under a result or at a dict of sites.

    Rows are sequences, and steps are counted from 1. ``forecast`` and ``forecast_sd`` (row, step, column) are the mean and the
    standard deviation of the cells, ``factors`` and ``factors_sd`` (row, step, factor) those of the factors. ``fitted`` is that
    of `inference.predict`. Raises `ZooError` for a model whose sequences no factors drive, and for ``num_steps`` below 1.

    >>> data = load_data("gauges")
    >>> model = MODELS["state_space"](data, num_factors=2)
    >>> forecast(model, fit(model, data, "em", num_starts=1), data, num_steps=3)["forecast"].sizes["step"]
    3
    """
    require_model(model)
    if not is_sequential(model) or has_paths(model):
        raise ZooError(f"{model.name} has no factors that go on after the end of a sequence, so it forecasts nothing")
    require_whole("num_steps", num_steps)
    data = forget_labels(model, data)
    given = fitted_rows(model, source, data, fitted)
    lengths = np.diff(steps_of(data).starts)
    found = _averaged(model, source, continued(data, int(num_steps)), given)
    place = lengths[:, None] + np.arange(num_steps)  # (N, steps)
    names = {"reconstruction": "forecast", "reconstruction_sd": "forecast_sd"}
    factors = model.naming.reports
    variables = {
        names.get(name, name): (
            ("row", "step", found[name].dims[-1]),
            found[name].values[np.arange(len(place))[:, None], place],
        )
        for name in ("reconstruction", "reconstruction_sd", factors, f"{factors}_sd")
    }
    kept = {name: found[name].values for name in ("row", "column", model.naming.dims[factors][-1])}
    return xr.Dataset(variables, coords=kept | {"step": 1 + np.arange(num_steps)})


def continued(data: Data, num_steps: int) -> Data:
    """The same sequences, each followed by ``num_steps`` steps without any value."""
    starts = steps_of(data).starts
    lengths = np.diff(starts) + num_steps
    own = np.repeat(starts[1:], num_steps)  # where the new steps go
    weight = None if data.weight is None else np.insert(data.weight, own, np.repeat(data.weight[starts[1:] - 1], num_steps))
    x = np.insert(np.asarray(data.x, dtype=float), own, np.nan, axis=0)
    return data._replace(x=x, starts=np.append(0, np.cumsum(lengths)), weight=weight, notes=(), kept_columns=())


def _averaged(model: Model, source: xr.DataTree | Sites, data: Data, fitted: np.ndarray) -> xr.Dataset:
    assert model.algebra is not None
    assert model.abilities.table is not None
    with x64(64):
        on_host = padded(model.rows(data))
        hyper, rows, draws = as_arrays((dict(model.hyper), on_host, draws_of(model, source)))
        found = _factor_average(model.algebra, model.abilities.table.expected, hyper, rows, draws, fitted)
    log_density, *each = (np.asarray(leaf, dtype=np.float64) for leaf in jax.tree.leaves(found))
    lengths = np.asarray(on_host.length)
    there = np.arange(lengths.max())[None, :] < lengths[:, None]
    mean, sd, column_mean, column_sd = (np.where(there[..., None], leaf[:, : there.shape[1]], np.nan) for leaf in each)
    name, dims = model.naming.reports, model.naming.dims[model.naming.reports]
    steps = (*dims[:2], "column")
    variables = {
        name: (dims, mean),
        f"{name}_sd": (dims, sd),
        "log_density": (dims[:1], log_density),
        "reconstruction": (steps, column_mean),
        "reconstruction_sd": (steps, column_sd),
    }
    coords = {
        "row": np.arange(len(mean)),
        "time": np.arange(1, mean.shape[1] + 1),
        dims[-1]: model.naming.coords[dims[-1]],
        "column": list(model.abilities.table.cells.columns),
    }
    return xr.Dataset(variables, coords=coords)


@partial(jax.jit, static_argnames=("algebra", "expected"))
def _factor_average(
    algebra: Algebra, expected: Columns, hyper: Hyper, rows: Pytree, draws: Sites, fitted: Array
) -> tuple[Array, tuple[tuple[Array, Array], ...]]:
    """Log mean density; mean and standard deviation of the factors, and of the columns: weighted averages over draws."""

    def at(sites: Sites) -> AtDraw:
        natural_parameters = algebra.local_natural_parameters(algebra.natural(hyper, sites))

        def block(rows: Pytree) -> AtDraw:
            local = natural_parameters(algebra.features(hyper, rows))
            z = algebra.latent.mean(jax.random.PRNGKey(0), local)
            assert algebra.latent.reported.spread is not None
            factors = algebra.latent.reported.part(z), algebra.latent.reported.spread(z)
            columns = [(one.mean, one.variance) for one in expected(hyper, sites, rows) if one.variance is not None]  # numbers
            cells = (jnp.stack([mean for mean, _ in columns], axis=-1), jnp.stack([own for _, own in columns], axis=-1))
            return AtDraw(algebra.latent.log_partition(local), uncertain=(factors, cells))

        found: AtDraw = block_map(block, rows)
        return found

    found = averaged(at, draws, fitted)
    return found.log_density, found.uncertain


def lines(found: xr.Dataset, first: int) -> pd.DataFrame:
    """One line for each step: its factors, and what is expected of every column.

    Sequences are numbered from 1, after the ``first`` ones. The log density of a sequence stands in each of its lines.
    """
    name = next(str(one) for one in found.data_vars if f"{one}_sd" in found and one != "reconstruction")
    sequence, time = np.nonzero(~np.isnan(found[name].values).any(-1))
    columns: dict[str, np.ndarray] = {"sequence": first + 1 + sequence, "step": time + 1}
    for variable in (name, f"{name}_sd", "reconstruction", "reconstruction_sd"):
        dim = found[variable].dims[-1]
        steps = xr.DataArray(found[variable].values[sequence, time], {dim: found.coords[dim].values}, ("step", dim))
        columns |= entries(steps, variable)
    return pd.DataFrame(columns | {"log_density": found["log_density"].values[sequence]})


VIEW = View(predict, lines)
