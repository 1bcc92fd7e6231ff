"""Posterior of the local parameters (``Structure.local``) of new rows, as the topic proportions of a new document.

Given a draw of the shared parameters, a new row has a posterior over its local parameters and latents. Blocked Gibbs sweeps
draw from it: latents given parameters, then local parameters given latents, with the shared ones fixed. There are a few sweeps
for each draw of the shared parameters, and each draw starts where the last one ended.
"""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.engine.sweep import Updates, local_step, num_rows
from inference.fitting.prepare import as_arrays
from inference.fixed_points.local_ascent import local_ascent, local_prior, local_update
from inference.results.draws import draws_of, fitted_rows, number_of, thinned
from models.algebra import at_sample, row_name
from models.base import Algebra, Hyper, Model, Pytree, Sites, Stats, ZooError
from models.data.table import Data
from models.rows.row_info import row_info

SWEEPS = 5  # for every draw of the shared parameters
INTERVAL = (0.055, 0.945)


def local_sweep(
    algebra: Algebra,
    updates: Updates,
    hyper: Hyper,
    prior: Mapping[str, Stats],
    key: Array,
    T: Mapping[str, Stats],
    rows: Pytree,
) -> dict[str, Stats]:
    """T after one sweep with the shared parameters fixed; ``prior`` is `local_prior`."""
    key_z, key_own = jax.random.split(key)
    local = local_step(algebra, updates.latents, hyper, key_z, T, rows)
    return {**T, **local_update(algebra, updates, prior, key_own, local.stats)[0]}


@partial(jax.jit, static_argnames=("algebra",))
def _local_draws(
    algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, draws: Sites, key: Array
) -> dict[str, Array]:
    """Local sites (S, N, …) of the rows, one draw for every draw of the shared sites."""
    sample = Updates(at_sample, "sample")
    nu = local_prior(algebra, prior, num_rows(rows))

    def given(sites: Sites, local_nu: Mapping[str, Stats]) -> dict[str, Stats]:
        return {**algebra.natural(hyper, sites), **local_nu}

    def part(T: Mapping[str, Stats]) -> dict[str, Stats]:
        return {name: T[name] for name in algebra.structure.local}

    def one(local_nu: dict[str, Stats], sites: tuple[Array, Sites]) -> tuple[dict[str, Stats], dict[str, Array]]:
        index, at = sites

        def again(sweep: Array, T: dict[str, Stats]) -> dict[str, Stats]:
            return local_sweep(algebra, sample, hyper, nu, jax.random.fold_in(jax.random.fold_in(key, index), sweep), T, rows)

        T = jax.lax.fori_loop(0, SWEEPS, again, given(at, local_nu))
        sites_drawn = algebra.sites(hyper, T)
        return part(T), {name: sites_drawn[name] for name in algebra.structure.local}

    first = jax.tree.map(lambda leaf: leaf[0], draws)
    begun, _ = local_ascent(algebra, hyper, nu, algebra.natural(hyper, first), rows)
    numbers = jnp.arange(jax.tree.leaves(draws)[0].shape[0])
    return jax.lax.scan(one, part(begun), (numbers, draws))[1]


def known_rows(model: Model, source: xr.DataTree | Sites, data: Data, fitted: bool | np.ndarray | None = None) -> np.ndarray:
    """(N,): for which rows the result holds draws of the local parameters: fitted rows, if ``data`` is the result's own table.

    Never where the fit had labels: its local parameters condition on them, and predictions must not. ``fitted`` as in
    `inference.results.draws.fitted_rows`; false means that a row is new. Raises `ZooError` for another ``fitted``, and for true
    where the result has no draws for a row.
    """
    from inference.results.table import data_of

    known = fitted_rows(model, source, data)
    if known.any():
        assert isinstance(source, xr.DataTree)
        known = known & (row_info(model.rows(data_of(source))).allowed_states is None)
    if fitted is None:
        return known
    known_fitted = fitted_rows(model, source, data, fitted)
    if (known_fitted & ~known).any():
        assert model.algebra is not None
        raise ZooError(
            f"fitted: the result holds no draws of {', '.join(model.algebra.structure.local)} of {row_name(model)} "
            f"{int(np.argmax(known_fitted & ~known)) + 1} of these data: leave fitted out"
        )
    return known_fitted


def evenly(size: int, number: int) -> np.ndarray:
    """``number`` places among ``size``, evenly spread; where there are fewer, each several times."""
    return np.arange(number) * size // number


def completed_draws(
    model: Model, source: xr.DataTree | Sites, rows: Pytree, num_draws: int, seed: int, known: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """``num_draws`` draws of all sites, with the local sites of ``rows``, in the precision in force.

    Draws of the shared sites are evenly spread over the result; each serves several times if there are fewer. ``known`` rows
    (N,) keep the result's own draws; if all rows are known, there are at most as many draws as the result has.
    """
    draws = draws_of(model, source)
    if known is not None and known.all():
        return thinned(draws, num_draws)
    chosen = {name: value[evenly(number_of(draws), num_draws)] for name, value in draws.items()}
    hyper, prior, on_device, stacked = as_arrays((dict(model.hyper), dict(model.prior), rows, chosen))
    assert model.algebra is not None
    drawn = _local_draws(model.algebra, hyper, prior, on_device, stacked, jax.random.PRNGKey(seed))
    new = {name: np.array(value) for name, value in drawn.items()}
    for name, value in new.items() if known is not None and known.any() else ():
        value[:, known] = chosen[name][:, known]
    return chosen | new


def summaries_of_local(model: Model, draws: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Mean, standard deviation and 89 % interval of the local sites (S, N, …), row by row."""
    assert model.algebra is not None
    variables: dict[str, object] = {}
    coords: dict[str, object] = {}
    for name in model.algebra.structure.local:
        rest = model.naming.dims[name][1:]
        low, high = np.quantile(draws[name], INTERVAL, axis=0)
        parts = {"": draws[name].mean(0), "_sd": draws[name].std(0), "_eti89_lb": low, "_eti89_ub": high}
        variables |= {f"{name}{suffix}": (("row", *rest), value) for suffix, value in parts.items()}
        coords |= {"row": np.arange(draws[name].shape[1])} | {dim: model.naming.coords[dim] for dim in rest}
    return xr.Dataset(variables, coords=coords)
