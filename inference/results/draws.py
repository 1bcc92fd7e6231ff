"""The draws of a result over which predictions are averaged, and how much each draw counts for a row.

**New rows weight draws by their density.** Draws θ_s come from p(θ | data). A prediction for a new row x conditions on the data
and on x, so that posterior draws are reweighted by p(x | θ_s):

    p(z | x, data) = Σ_s p(x | θ_s) p(z | x, θ_s) / Σ_s p(x | θ_s)

Every new row has its own weights. **Fitted rows weight all draws equally**: the draws already condition on these rows, and a
density would count them twice. Rows are fitted if their table is the whole table of the result, in the same order. Rows of any
other table are new, even of a part of it, unless ``fitted`` is given. Rows of weight 0 were not fitted.

**Labels.** A row whose label was fitted, but is ignored in the prediction, weights all draws equally: Σ_s p(z | x, θ_s) / S.
The parameters have seen the label, as those of any classifier have seen the labels of its training rows; only rows held out
have honest probabilities. A label that the fit did not have makes a row new: it weights by p(x, label | θ_s).
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.engine.sites import checked_sites, sites_of_model
from inference.engine.sweep import num_rows
from inference.results.observed import arguments, arguments_of
from inference.results.table import data_of
from inference.results.triangles import sites_of
from models.base import Model, Pytree, Sites, ZooError
from models.data.table import Data
from models.rows.encoded import spread
from models.rows.row_info import row_info


def forget_labels(model: Model, data: Any) -> Data:
    """A table without its labels, which are to be predicted."""
    return model.read(data)._replace(labels=None, label=None, levels=(), candidates=None)


def draws_of(model: Model, source: xr.DataTree | Sites, rows: Pytree = None) -> dict[str, np.ndarray]:
    """The sites of a result, or given ones, with one leading axis of draws.

    Raises `ZooError` for sites that are not the model's (`inference.engine.sites.checked_sites`). The sites of a user's program
    depend on its ``rows``.
    """
    if not isinstance(source, xr.DataTree):
        shared = model.algebra is None or not model.algebra.structure.local  # sites with an entry per row are those of the fit
        sites = checked_sites(model, source, rows if shared else None)
        return {name: value[None] for name, value in sites.items()}
    group = next((name for name in ("posterior", "point_estimate") if name in source), None)
    if group is None:
        raise ZooError("this tree has no posterior and no point_estimate: it is no result of a fit")
    sites = sites_of(source, group)
    stacked = {name: value[None] for name, value in sites.items()} if group == "point_estimate" else one_axis(sites)
    if model.algebra is not None:
        _require_same_sites(model, stacked)
    return stacked


def one_axis(sites: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Sites (chain, draw, …) as (S, …), chain after chain."""
    return {name: value.reshape(-1, *value.shape[2:]) for name, value in sites.items()}


def number_of(draws: Mapping[str, Any]) -> int:
    """S, the number of draws along the leading axis of every site."""
    return len(next(iter(draws.values())))


def thinned(draws: Mapping[str, np.ndarray], most: int) -> dict[str, np.ndarray]:
    """At most ``most`` of the draws (S, …), evenly spread from the first to the last."""
    chosen = spread(number_of(draws), most)
    return {name: value[chosen] for name, value in draws.items()}


def _require_same_sites(model: Model, draws: Mapping[str, np.ndarray]) -> None:
    """A `ZooError` for a result of another model, with other sites or other shapes."""
    assert model.algebra is not None
    for name, site in sites_of_model(model).items():
        if name not in draws:
            raise ZooError(f"the result has no site {name}, as {model.name} has: it is one of another model")
        skipped = 1 if name in model.algebra.structure.local else 0
        if draws[name].shape[1 + skipped :] != site.shape[skipped:]:
            raise ZooError(
                f"{name} of the result has shape {draws[name].shape[1:]}, and that of this {model.name} {site.shape}: the "
                "result is one of another model, or of other data"
            )


# ---------------------------------------------------------------------------------------------------------------------
# How much a draw counts


def fitted_rows(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    fitted: bool | np.ndarray | None = None,
    encoded: Pytree = None,
) -> np.ndarray:
    """(N,): whether the draws condition on each row. ``fitted`` is the answer, for all rows or by row; None: compare tables.

    Rows of models of time are sequences. ``encoded`` are the rows of ``data`` where the caller has them; they are counted.
    Raises `ZooError` for another ``fitted``.
    """
    drawn = isinstance(source, xr.DataTree) and "posterior" in source and "observed_data" in source
    rows = _unweighted_rows(model, data) if encoded is None or (drawn and fitted is None) else encoded
    number = num_rows(rows)
    if fitted is not None:
        flags = np.asarray(fitted)
        if flags.dtype != bool or flags.shape not in ((), (number,)):
            raise ZooError(f"fitted must be true or false, or {number} of these, one per row, got {fitted!r}")
        return np.broadcast_to(flags, number)
    if not drawn:
        return np.zeros(number, bool)
    assert isinstance(source, xr.DataTree)
    if model.algebra is None:
        theirs, given = arguments_of(source), arguments(rows)
        same = set(given) == set(theirs) and all(
            np.array_equal(theirs[name], np.asarray(leaf), equal_nan=True) for name, leaf in given.items()
        )
        return np.full(number, same)
    source_table = data_of(source)
    labels = row_info(rows).allowed_states is not None
    try:
        theirs = _unweighted_rows(model, source_table if labels else forget_labels(model, source_table))
        weight = row_info(model.rows(source_table)).weight
    except ZooError:  # a table that this model cannot read is another one
        return np.zeros(number, bool)
    if not _are_equal(theirs, rows):
        return np.zeros(number, bool)
    return np.ones(number, bool) if weight is None else np.asarray(weight) > 0


def _unweighted_rows(model: Model, data: Any) -> Pytree:
    return model.rows(data if model.algebra is None else model.read(data)._replace(weight=None))


def _are_equal(left: Pytree, right: Pytree) -> bool:
    (ours, structure), (theirs, other) = map(jax.tree.flatten, (left, right))
    alike: bool = structure == other  # type: ignore[operator]  # JAX types no equality of trees
    return alike and all(map(np.array_equal, ours, theirs))


def log_weight(fitted: Array, log_density: Array) -> Array:
    """Log weights (…, N) of draws with log densities (…, N): 0 for fitted rows (N,), unless the density itself is 0."""
    return jnp.where(fitted & (log_density > -jnp.inf), 0.0, log_density)


def chosen_draws(log_weights: Array, number: int, offset: Array) -> Array:
    """(number, N): draws chosen by their log weights (S, N), by systematic resampling with ``offset`` in [0, 1).

    Draw s is chosen number · weight_s times, rounded up or down; with equal weights all rows have the same draws.
    """
    shares = jax.nn.softmax(log_weights, axis=0)
    edges = jnp.cumsum(shares, axis=0)
    wanted = (jnp.arange(number) + offset) / number
    places = jax.vmap(lambda edge: jnp.searchsorted(edge / edge[-1], wanted, side="right"), in_axes=1, out_axes=1)(edges)
    return jnp.minimum(places, len(log_weights) - 1)
