"""The view of Gaussian latents: mean and standard deviation of a row's scores, and the columns expected from them."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.engine.sweep import block_map
from inference.fitting.prepare import as_arrays, require_model, x64
from inference.predictions.views import Question, View, row_lines
from inference.results.averages import AtDraw, averaged
from inference.results.draws import draws_of, fitted_rows, forget_labels
from inference.results.table import latent_dim
from models.abilities import Expected
from models.base import Algebra, Hyper, Pytree, Sites
from models.data.table import ROWLESS, require_rows


def predict(question: Question) -> xr.Dataset:
    """Mean and standard deviation of the scores of every row, its log density, and the reconstruction of its columns.

    Nothing is drawn. See `inference.predictions.predict.predict`.
    """
    model, source, data = question.model, question.source, question.data
    require_model(model)
    assert model.algebra is not None
    assert model.abilities.table is not None
    require_rows(data, ROWLESS)
    data = forget_labels(model, data)
    given = fitted_rows(model, source, data, question.fitted)
    with x64(64):
        on_host = model.rows(data)
        hyper, rows, draws = as_arrays((dict(model.hyper), on_host, draws_of(model, source, on_host)))
        averages = _score_average(model.algebra, model.abilities.table.expected, hyper, rows, draws, given)
    log_density, mean, sd, reconstruction = (np.asarray(leaf, dtype=np.float64) for leaf in averages)
    dim = latent_dim(model)
    variables = {
        model.naming.reports: (("row", dim), mean),
        f"{model.naming.reports}_sd": (("row", dim), sd),
        "log_density": (("row",), log_density),
        "reconstruction": (("row", "column"), reconstruction),
    }
    coords = {"row": np.arange(len(mean)), dim: model.naming.coords[dim], "column": list(model.abilities.table.cells.columns)}
    return xr.Dataset(variables, coords=coords)


@partial(jax.jit, static_argnames=("algebra", "expected"))
def _score_average(
    algebra: Algebra,
    expected: Callable[..., tuple[Expected, ...]],
    hyper: Hyper,
    rows: Pytree,
    draws: Sites,
    fitted: Array,
) -> tuple[Array, Array, Array, Array]:
    """Log mean density, mean and standard deviation of the scores, and expected columns: weighted averages over draws."""

    def at(sites: Sites) -> AtDraw:
        natural_parameters = algebra.local_natural_parameters(algebra.natural(hyper, sites))

        def block(rows: Pytree) -> AtDraw:
            local = natural_parameters(algebra.features(hyper, rows))
            z = algebra.latent.mean(jax.random.PRNGKey(0), local)
            assert algebra.latent.reported.spread is not None
            columns = jnp.stack([column.mean for column in expected(hyper, sites, rows)], axis=1)
            scores = algebra.latent.reported.part(z), algebra.latent.reported.spread(z)
            return AtDraw(algebra.latent.log_partition(local), values=(columns,), uncertain=(scores,))

        result: AtDraw = block_map(block, rows)
        return result

    result = averaged(at, draws, fitted)
    return result.log_density, *result.uncertain[0], result.values[0]


VIEW = View(predict, row_lines)
