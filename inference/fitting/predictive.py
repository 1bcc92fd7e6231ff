"""Prior and posterior predictive draws: groups of a result with ``predictive=true``.

    prior                  θ ~ p(θ)                        1000 draws of the program
    prior_predictive       x ~ p(x | θ), of these draws
    posterior_predictive   x ~ p(x | θ_s), at the draws of a result, or at its point estimate
    log_prior              log p(θ_s) by site, which `arviz.psense` needs with log_likelihood; sites that have underflowed
                           are left out with a note

The NumPyro program draws all of them, with its latents as sites and its observed sites drawn anew, on plates of the size of the
data. The draws have the form of ``observed_data``. Rows are complete, also where cells or steps were missing; sequences and
documents are as long as those observed; there are labels where labels are modelled. Weights play no part: every row is drawn
once. An improper prior cannot be drawn from, and its groups are left out.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from numpyro import distributions as dist
from numpyro import handlers

from inference.engine.evaluate import STORED, thinning, underflowed
from inference.engine.program import latent_sites
from inference.engine.requirements import improper_sites
from inference.engine.task import Task
from inference.fitting.prepare import make_task, x64
from inference.programs.running import drawn_anew
from inference.results.draws import number_of, one_axis
from inference.results.observed import DRAWS, observed_values, site_dims, sites_as_observed
from inference.results.table import latent_dim
from inference.results.tree import dataset
from inference.results.triangles import sites_of, symmetric_sites
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Silent
from models.base import Data, Hyper, Model, Pytree, Sites, ZooError
from models.data.columns import categories_of
from models.data.documents import Sequences
from models.data.table import BOOLEAN

MOST_DRAWS = 1000  # from the prior, and of the data at a point estimate
COMPLETE = "rows are drawn complete and once each, on plates of the size of the data; missing cells and weights play no part"
AT_A_POINT = "drawn at the point estimate: the uncertainty of the parameters is left out"
IMPROPER = "predictive=true: the prior of {} is improper and cannot be drawn from, so there is no prior and no prior_predictive"
UNDERFLOWED = "predictive=true: draws of {} are too small for a number, so that log_prior has no density of theirs"
DIMS = {"x": ("row", "column"), "token": ("position",), "label": ("row",)}  # as in observed_data


def require_drawable(task: Task) -> None:
    """A `ZooError`, before anything is computed, for data or a program that cannot be drawn."""
    if task.moments:
        raise ZooError("predictive=true: a covariance has no rows that could be drawn again; leave it out")
    _shapes(task)


def predictive_groups(task: Task, data: Any, groups: Mapping[str, xr.Dataset]) -> tuple[dict[str, xr.Dataset], list[str]]:
    """(the groups at the top of this file, for the sites in ``groups``; notes about them)."""
    names = tuple(latent_sites(task.model.spec, task.hyper, task.rows))
    key_prior, key_posterior = jax.random.split(jax.random.fold_in(task.key, 2**31 - 1))
    number = int(np.clip(STORED // _size(task, data), 1, MOST_DRAWS))
    groups_drawn: dict[str, xr.Dataset] = {}
    notes: list[str] = []
    if improper := improper_sites(task):
        notes.append(IMPROPER.format(", ".join(improper)))
    else:
        drawn = prior_draws(task, key_prior, number)
        symmetric = symmetric_sites(task.model.spec, task.hyper, task.rows)
        groups_drawn["prior"] = dataset({name: drawn[name][None] for name in names}, task.model, DRAWS, symmetric)
        groups_drawn["prior_predictive"] = _in_form(task, data, drawn, 1)
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    if "posterior" not in groups:
        sites = sites_of(tree, "point_estimate")
        log_priors, lost = _log_priors(task, {name: value[None] for name, value in sites.items()})
        groups_drawn["log_prior"] = xr.Dataset({name: value[0] for name, value in log_priors.items()})
        notes += lost
        repeated = {name: np.broadcast_to(value, (number, *value.shape)) for name, value in sites.items()}
        groups_drawn["posterior_predictive"] = _in_form(task, data, _drawn(task, key_posterior, repeated, number), 1)
        groups_drawn["posterior_predictive"].attrs["parameters"] = AT_A_POINT
        return groups_drawn, notes
    sites = sites_of(tree, "posterior")
    chains, draws = next(iter(sites.values())).shape[:2]
    log_priors, lost = _log_priors(task, one_axis(sites))
    notes += lost
    by_draw = {name: value.reshape(chains, draws) for name, value in log_priors.items()}
    groups_drawn["log_prior"] = dataset(by_draw, task.model._replace(naming=task.model.naming._replace(dims={})), DRAWS)
    thin = thinning(chains * draws * _size(task, data))
    some = one_axis({name: value[:, ::thin] for name, value in sites.items()})
    drawn = _drawn(task, key_posterior, some, number_of(some))
    groups_drawn["posterior_predictive"] = _in_form(task, data, drawn, chains, thin)
    return groups_drawn, notes


def drawn_rows(model: Model, draws: Sites, data: Data, seed: int) -> dict[str, np.ndarray]:
    """New rows and their latents at each of S draws of the sites (S, …), on plates of the size of ``data``.

    Rows have the names and the form of ``observed_data`` with a leading axis of draws; latents the names of the program. Raises
    `ZooError` for data that the model cannot read.
    """
    with x64(64):
        task = make_task(model, data, seed, None, Silent())
        drawn = _drawn(task, task.key, draws, number_of(draws))
    return drawn | _of_table(model, task.rows, data, drawn)


def prior_draws(task: Task, key: Array, number: int) -> dict[str, np.ndarray]:
    """θ ~ p(θ) and x ~ p(x | θ): all sites of the program, its latents and its data among them (number, …).

    For a program whose prior is proper (`improper_sites`).
    """
    return _drawn(task, key, {}, number)


# ---------------------------------------------------------------------------------------------------------------------
# Draws


def _everything(spec: Callable[..., Any], hyper: Hyper, rows: Pytree, key: Array, sites: Sites) -> dict[str, Array]:
    """All that the program samples with these sites given, including its latents and its observed sites."""
    program = drawn_anew(handlers.substitute(spec, data=dict(sites)), key)
    trace = handlers.trace(program).get_trace(hyper, rows, marginal=False)
    return {
        name: site["value"]
        for name, site in trace.items()
        if site["type"] == "sample" and name not in sites and not isinstance(site["fn"], dist.Unit)
    }


@cached_jit(static_argnames=("spec",))
def _each(spec: Callable[..., Any], hyper: Hyper, rows: Pytree, keys: Array, draws: Sites) -> dict[str, Array]:
    return jax.lax.map(lambda one: _everything(spec, hyper, rows, *one), (keys, draws))


def _drawn(task: Task, key: Array, draws: Mapping[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    """`_everything` for every one of ``number`` draws of the sites: (S, …)."""
    values_of = _each(task.model.spec, task.hyper, task.rows, jax.random.split(key, number), jax.device_put(dict(draws)))
    return {name: np.asarray(value) for name, value in values_of.items()}


def _shapes(task: Task) -> dict[str, Any]:
    """Shapes of one draw of the latents and of the observed sites."""
    sites = latent_sites(task.model.spec, task.hyper, task.rows).items()
    given = {name: jax.ShapeDtypeStruct(site.shape, jnp.result_type(float)) for name, site in sites}
    return jax.eval_shape(partial(_everything, task.model.spec), task.hyper, task.rows, jax.random.PRNGKey(0), given)


def _size(task: Task, data: Any) -> int:
    """Numbers in one draw of the data and the latents."""
    table = data.num_rows * len(data.columns) if isinstance(data, Data) else 1
    return max(table, sum(math.prod(leaf.shape) for leaf in _shapes(task).values()), 1)


@partial(jax.jit, static_argnames=("spec", "factors"))
def _log_prior_of(spec: Callable[..., Any], factors: bool, hyper: Hyper, rows: Pytree, draws: Sites) -> dict[str, Array]:
    def one(sites: Sites) -> dict[str, Array]:
        seeded = handlers.seed(handlers.substitute(spec, data=dict(sites)), jax.random.PRNGKey(0))
        trace = handlers.trace(seeded).get_trace(hyper, rows, marginal=True)
        return {
            name: (1.0 if site["scale"] is None else site["scale"]) * site["fn"].log_prob(site["value"]).sum()
            for name, site in trace.items()
            if site["type"] == "sample" and (name in sites or (factors and isinstance(site["fn"], dist.Unit)))
        }

    return jax.lax.map(one, draws)


def _log_priors(task: Task, draws: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[str]]:
    """(site -> log density of its prior given the sites before it (S,); notes about them).

    Includes the factors of a user's program. A site is left out if one of its draws has underflowed, as a probability of
    exp(−1000) that is stored as 0: its density there is not that of the draw.
    """
    sites = {name: jnp.asarray(value) for name, value in draws.items()}
    densities = _log_prior_of(task.model.spec, task.model.algebra is None, task.hyper, task.rows, sites)
    lost = [name for name in densities if name in draws and underflowed({name: draws[name]}).any()]
    lost = [name for name in lost if not np.isfinite(densities[name]).all()]
    notes = [UNDERFLOWED.format(", ".join(lost))] if lost else []
    return {name: np.asarray(value) for name, value in densities.items() if name not in lost}, notes


# ---------------------------------------------------------------------------------------------------------------------
# The form of the observed data


def _in_form(task: Task, data: Any, drawn: Mapping[str, np.ndarray], chains: int, thin: int = 1) -> xr.Dataset:
    """Draws (S, …) as data: (chain, draw, …) with the names and dimensions of ``observed_data``."""
    model = task.model
    if isinstance(data, Data):
        values_of, dims = _of_table(model, task.rows, data, drawn), DIMS
    else:
        observed = observed_values(model.spec, task.hyper, task.rows)
        values_of, dims = {name: drawn[name] for name in observed}, site_dims(model, observed)
    stacked = {name: value.reshape(chains, -1, *value.shape[1:]) for name, value in values_of.items()}
    labelled = (
        model._replace(naming=model.naming._replace(coords={"column": columns_of(model, data)}))
        if isinstance(data, Data)
        else model
    )
    return sites_as_observed(labelled, stacked, dims, DRAWS, thin).assign_attrs(drawn=COMPLETE)


def _of_table(model: Model, rows: Pytree, data: Data, drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    values_of = {"x": drawn["x"]} if model.abilities.replicated is None else dict(model.abilities.replicated(rows, drawn))
    if "label" in values_of:  # codes of the data, whose levels may be fewer or in another order
        levels = [str(level) for level in data.levels]
        names = [str(name) for name in model.naming.coords[latent_dim(model)]]
        places = np.array([levels.index(name) if name in levels else -1 for name in names])
        values_of["label"] = places[values_of["label"]]
    if "x" in values_of and isinstance(data.x, Sequences) and values_of["x"].shape[1] == len(data.x.tokens):
        values_of["token"] = values_of.pop("x")[..., 0]
    elif "x" in values_of and not isinstance(data.x, Sequences):
        values_of["x"] = _as_cells(model, data, values_of["x"])
    return values_of


def _as_cells(model: Model, data: Data, drawn: np.ndarray) -> np.ndarray:
    """Drawn rows (S, N, D) with cells like those of the table: codes of its levels, or the numbers that are levels here."""
    if not model.naming.levels:
        return drawn
    cells = np.array(drawn, dtype=np.float64)
    for place, column in enumerate(columns_of(model, data)):
        if levels := model.naming.levels.get(column):
            levels_of_column = categories_of(data)[data.columns.index(column)]
            codes = drawn[..., place].astype(int)
            cells[..., place] = np.array([_cell(code, level, levels_of_column) for code, level in enumerate(levels)])[codes]
    return cells


def _cell(code: int, level: str, levels_of_column: tuple[str, ...]) -> float:
    """The cell of a table for a level of the model; ``levels_of_column`` are those of its column, () for numbers."""
    if levels_of_column:
        return levels_of_column.index(level) if level in levels_of_column else math.nan
    try:
        return code if level in BOOLEAN else float(level)
    except ValueError:  # a column without any cell, whose levels are unknown
        return code


def columns_of(model: Model, data: Data) -> list[str]:
    """Columns in the order in which the model has them."""
    if model.abilities.table is not None:
        return list(model.abilities.table.cells.columns)
    named = (model.naming.coords[dim] for dim in ("feature", "word") if dim in model.naming.coords)
    return next((list(names) for names in named if set(names) == set(data.columns)), list(data.columns))
