"""Rows with parameters of their own (``Algebra.private``), as topic proportions of a document: those of rows not fitted.

Given the shared parameters of a draw, a new row has a posterior over its own parameters and latents. Blocked Gibbs sweeps
draw from it: latents given parameters, the row's own parameters given latents, the shared ones staying. Draws of the shared
parameters follow one another, each with a few sweeps, so that the row's own are a chain whose target moves with them.
"""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.fitting import as_arrays
from inference.prediction import draws_of, forget_labels
from inference.settle import own_prior, own_update, settled
from inference.sweep import Verbs, local_step, num_rows
from models.base import Algebra, Hyper, Model, Pytree, Sites, Stats, at_sample
from models.data import Data
from models.rows import spread

SWEEPS = 5  # for every draw of the shared parameters
INTERVAL = (0.055, 0.945)


def own_sweep(
    algebra: Algebra, verbs: Verbs, hyper: Hyper, prior: Mapping[str, Stats], key: Array, T: Mapping[str, Stats], rows: Pytree
) -> dict[str, Stats]:
    """T after one sweep in which the shared parameters stay; ``prior`` is `own_prior`."""
    key_z, key_own = jax.random.split(key)
    local = local_step(algebra, verbs.latents, hyper, key_z, T, rows)
    return {**T, **own_update(algebra, verbs, prior, key_own, local.stats)[0]}


@partial(jax.jit, static_argnames=("algebra",))
def _own_draws(
    algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, draws: Sites, key: Array
) -> dict[str, Array]:
    """Private sites (S, N, …) of the rows, one for every draw of all sites."""
    sample = Verbs(at_sample, "sample")
    own = own_prior(algebra, prior, num_rows(rows))

    def given(sites: Sites, private: Mapping[str, Stats]) -> dict[str, Stats]:
        return {**algebra.natural(hyper, sites), **private}

    def part(T: Mapping[str, Stats]) -> dict[str, Stats]:
        return {name: T[name] for name in algebra.private}

    def one(private: dict[str, Stats], sites: tuple[Array, Sites]) -> tuple[dict[str, Stats], dict[str, Array]]:
        index, at = sites

        def again(sweep: Array, T: dict[str, Stats]) -> dict[str, Stats]:
            return own_sweep(algebra, sample, hyper, own, jax.random.fold_in(jax.random.fold_in(key, index), sweep), T, rows)

        T = jax.lax.fori_loop(0, SWEEPS, again, given(at, private))
        found = algebra.sites(hyper, T)
        return part(T), {name: found[name] for name in algebra.private}

    first = jax.tree.map(lambda leaf: leaf[0], draws)
    begun, _ = settled(algebra, hyper, own, algebra.natural(hyper, first), rows)
    numbers = jnp.arange(jax.tree.leaves(draws)[0].shape[0])
    return jax.lax.scan(one, part(begun), (numbers, draws))[1]


def is_fitted(model: Model, source: xr.DataTree | Sites, data: Data) -> bool:
    """Whether the draws are of the posterior of these very rows, in this order."""
    from inference.assembly import data_of

    if not (isinstance(source, xr.DataTree) and "posterior" in source and "observed_data" in source):
        return False
    if getattr(model.rows(data_of(source)), "allowed", None) is not None:  # drawn given labels, which are not looked at here
        return False
    theirs, given = (jax.tree.leaves(model.rows(forget_labels(model, table))) for table in (data_of(source), data))
    return len(theirs) == len(given) and all(map(np.array_equal, theirs, given))


def evenly(size: int, number: int) -> np.ndarray:
    """``number`` places among ``size``, evenly spread; where there are fewer, each several times."""
    return np.arange(number) * size // number


def completed_draws(
    model: Model, source: xr.DataTree | Sites, rows: Pytree, num_draws: int, seed: int, fitted: bool = False
) -> dict[str, np.ndarray]:
    """``num_draws`` draws of all sites, the private ones being those of ``rows``, in the precision in force.

    Draws are taken evenly spread from the result; of a point, or of fewer draws, each serves several times. With ``fitted``
    they are the result's own, as many as there are.
    """
    draws = draws_of(source)
    size = len(next(iter(draws.values())))
    if fitted:
        return {name: value[spread(size, num_draws)] for name, value in draws.items()}
    chosen = {name: value[evenly(size, num_draws)] for name, value in draws.items()}
    hyper, prior, on_device, stacked = as_arrays((dict(model.hyper), dict(model.prior), rows, chosen))
    assert model.algebra is not None
    found = _own_draws(model.algebra, hyper, prior, on_device, stacked, jax.random.PRNGKey(seed))
    return chosen | {name: np.asarray(value) for name, value in found.items()}


def own_parameters(model: Model, draws: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Mean, standard deviation and the interval of 89 % of the private sites (S, N, …) of every row."""
    assert model.algebra is not None
    variables: dict[str, object] = {}
    coords: dict[str, object] = {}
    for name in model.algebra.private:
        rest = model.dims[name][1:]
        low, high = np.quantile(draws[name], INTERVAL, axis=0)
        parts = {"": draws[name].mean(0), "_sd": draws[name].std(0), "_eti89_lb": low, "_eti89_ub": high}
        variables |= {f"{name}{suffix}": (("row", *rest), value) for suffix, value in parts.items()}
        coords |= {"row": np.arange(draws[name].shape[1])} | {dim: model.coords[dim] for dim in rest}
    return xr.Dataset(variables, coords=coords)
