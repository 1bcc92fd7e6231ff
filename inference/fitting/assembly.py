"""The outcome of a method -> the groups of one result (design: results as a contract)."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from inference.diagnostics.boundary import on_the_boundary
from inference.diagnostics.checks import as_attributes, problems_of
from inference.diagnostics.importance import pareto_k
from inference.diagnostics.occupancy import occupied_probs
from inference.engine.evaluate import STORED, Evaluation, evaluate, evaluate_in_parts
from inference.engine.task import Draws, Kind, Modes, Points, Task
from inference.identification.by_size import draws_in, evaluation_in, largest_first, sites_in
from inference.identification.invariants import distances
from inference.identification.relabel import Identification
from inference.identification.symmetry import canonical_optima, identified_draws
from inference.programs.derived import DERIVED, derived_shapes, derived_values
from inference.results.draws import one_axis
from inference.results.observed import arguments, observed_values, site_dims, sites_as_observed
from inference.results.table import latent_dim, named_rows, observed_data, split_observed
from inference.results.tree import SCHEMA, dataset, packages
from inference.results.triangles import symmetric_sites
from inference.runtime.hints import can_go_on, hint
from models.algebra import exchanges_labels, is_sequential, reports_probabilities
from models.base import Data, Iteration, Model, ZooError
from models.reading.long_format import doubted_groups, doubted_identifiers

PART = 100_000  # rows


def of_points(task: Task, points: Points) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    model = task.model
    sound = [s for s, why in enumerate(points.failure) if why is None]
    if not sound:
        what = "no start reached a mode" if len(points.failure) > 1 else "there is no mode"
        raise ZooError(f"{what}: {points.failure[0]}")
    points = canonical_optima(model, points)
    final = np.full(len(points.failure), np.nan)
    best, chosen, one = sound[0], {}, None
    evaluated = evaluate if task.resident else evaluate_in_parts
    for s in sound:  # one at a time: they share a compilation, and only the best start's latents are stored
        sites = {name: leaf[s : s + 1] for name, leaf in points.sites.items()}
        at = evaluated(model, task.hyper, task.prior, task.rows, sites)
        final[s] = at.log_joint[0]
        if np.isfinite(final[s]) and (one is None or final[s] > final[best]):
            best, chosen, one = s, sites, at
    if one is None:
        raise ZooError("no start reached a finite log joint; check the scale of the data and the prior")
    last = None if points.last is None else jax.tree.map(lambda leaf: np.asarray(leaf[best : best + 1]), points.last)
    if (order := largest_first(task, one)) is not None:
        one, chosen = evaluation_in(order, one), sites_in(order, model, chosen)
        last = None if last is None else Iteration(*(sites_in(order, model, sites) for sites in last))
    computed, notes = derived(task, chosen, ())
    groups = {
        "point_estimate": dataset({name: leaf[0] for name, leaf in chosen.items()}, model).merge(computed),
        "functionals": dataset({name: value[0] for name, value in one.functionals.items()}, model),
        "log_likelihood": _pointwise(task, one, ()),
        "optimization": _optimization(points, final),
    }
    if points.modes is not None:
        groups["optimization"] = _with_modes(groups["optimization"], points.modes)
    warnings = [*(f"start {s}: {why}" for s, why in enumerate(points.failure) if why is not None), *notes]
    optimum = {name: np.asarray(leaf[0]) for name, leaf in chosen.items()}
    last = jax.tree.map(lambda leaf: leaf[0], last)
    warnings += on_the_boundary(task, optimum, last)
    warnings += (
        [] if model.summaries.warnings_at_optimum is None else model.summaries.warnings_at_optimum(model.hyper, optimum, last)
    )
    attrs = {"best_start": best, "warnings": "\n".join(warnings), "interrupted": int(points.interrupted)}
    attrs["repeatable"] = int(points.repeatable)
    return groups | latent_group(model, one), attrs


def of_draws(task: Task, draws: Draws) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    model = task.model
    if not draws.sites:
        where = f"; {hint(task.folder)}" if task.folder is not None and can_go_on(task.folder) else ""
        raise KeyboardInterrupt(f"interrupted before the first draw was finished{where}")
    shape = next(iter(draws.sites.values())).shape[:2]
    flat = one_axis(draws.sites)
    by_sampler = (draws.log_prior, draws.log_joint)
    log_prior, log_joint = (None if leaf is None else np.asarray(leaf).reshape(-1) for leaf in by_sampler)
    identified, at = relabel_and_evaluate(task, flat, draws.kind, shape[1], log_prior, log_joint)
    lead, symmetric = ("chain", "draw"), symmetric_sites(model.spec, task.hyper, task.rows)

    def stacked(value: np.ndarray) -> np.ndarray:
        return value.reshape(*shape, *value.shape[1:])

    chosen = {name: stacked(value) for name, value in (identified.sites if identified else flat).items()}
    stats = dict(draws.sample_stats) | {"lp": stacked(at.log_joint)}
    attrs = dict(draws.attrs) | {"draws": str(draws.kind)}
    if draws.log_density is not None:
        stats["log_weight"] = stats["lp"] - draws.log_density
    if "log_weight" in stats:
        attrs["pareto_k"] = pareto_k(np.asarray(stats["log_weight"], dtype=np.float64).ravel())
    computed, notes = derived(task, identified.sites if identified else flat, shape)
    groups = {"posterior": dataset(chosen, model, lead, symmetric).merge(computed)}
    warnings: list[str] = []
    if identified is not None:
        groups["posterior_raw"] = dataset(draws.sites, model, lead, symmetric)
        stats |= {identified.name: stacked(identified.moves), "relabel_confidence": stacked(identified.confidence)}
        warnings = identified.warnings
    groups |= {
        "functionals": dataset(
            dict(draws.functionals) | {n: stacked(value) for n, value in at.functionals.items()}, model, lead
        ),
        "log_likelihood": _pointwise(task, at, lead, shape[0]),
        "sample_stats": dataset(stats, model, lead),
    }
    if draws.optimization is not None:
        assert draws.optimization.objective is not None  # approximations are found by iterating
        failed = [why is not None for why in draws.optimization.failure]
        final = np.where(failed, np.nan, _last(draws.optimization.objective))
        groups["optimization"] = _optimization(draws.optimization, final)
        if (modes := draws.optimization.modes) is not None:
            groups["optimization"] = _with_modes(groups["optimization"], modes)
            attrs["modes_covered"] = modes.covered
        else:
            apart = distances(draws.optimization.sites, int(attrs["best_start"]), flat, model.naming.dims, model.symmetry)
            groups["optimization"]["distance"] = ("start", apart)
        attrs["repeatable"] = int(draws.optimization.repeatable)
        warnings += [f"start {s}: {why}" for s, why in enumerate(draws.optimization.failure) if why is not None]
    warnings += [*draws.warnings, *notes, *_infinite(at.log_joint)]
    latent = latent_group(model, at, shape)
    if identified is not None and model.algebra is not None and exchanges_labels(model):
        number = np.arange(1, identified.moves.shape[1] + 1)
        probs = occupied_probs(model.algebra, task.hyper, task.rows, flat, len(number), identified.fewest)
        latent["latent"] = latent["latent"].assign(occupied_probs=("occupied", probs)).assign_coords(occupied=number)
    return groups | latent, attrs | {"warnings": "\n".join(warnings), "interrupted": int(draws.interrupted)}


def relabel_and_evaluate(
    task: Task,
    flat: Mapping[str, np.ndarray],
    kind: Kind,
    chain_length: int,
    log_prior: np.ndarray | None = None,
    log_joint: np.ndarray | None = None,
    criterion: str = "varimax",
) -> tuple[Identification | None, Evaluation]:
    """(draws (S, …) that match one another, the largest component first, or None without a symmetry; the model at them)."""
    identification = identified_draws(task, flat, kind, criterion, log_prior, log_joint)
    sites = flat if identification is None else identification.sites
    at = evaluate(task.model, task.hyper, task.prior, task.rows, sites, chain_length, log_prior)
    if identification is not None and (order := largest_first(task, at)) is not None:
        return draws_in(order, task.model, identification), evaluation_in(order, at)
    return identification, at


def derived(task: Task, flat: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> tuple[xr.Dataset, list[str]]:
    """(named quantities of a user's program, at draws (S, …) of ``shape`` or at a point; notes on those that are too large)."""
    model, arrays = task.model, (task.hyper, task.rows)
    if model.algebra is not None:  # models of the zoo compute their functionals
        return xr.Dataset(), []
    sizes = {name: math.prod(one) for name, one in derived_shapes(model.spec, *arrays).items()}
    number = len(next(iter(flat.values())))
    small = tuple(name for name, size in sizes.items() if size * number <= STORED)
    notes = [
        f"{name}, which the program computes, has {size} entries at each of {number} draws, and is left out: too large to keep"
        for name, size in sizes.items()
        if name not in small
    ]
    if not small:
        return xr.Dataset(), notes
    values_of = derived_values(model.spec, *arrays, flat, small)
    lead = ("chain", "draw") if shape else ()
    stacked = {name: value.reshape(*shape, *value.shape[1:]) if shape else value[0] for name, value in values_of.items()}
    group = dataset(stacked, model, lead)
    for name in small:
        group[name].attrs[DERIVED] = 1
    return group, notes


def _infinite(log_joint: np.ndarray) -> list[str]:
    """A warning where the density of some draws is infinite or NaN."""
    bad = ~np.isfinite(log_joint)
    if not bad.any():
        return []
    kind = ", ".join(map(str, np.unique(log_joint[bad])))
    return [f"log_joint is {kind} in {bad.sum()} of {bad.size} draws: the density at these has no finite logarithm"]


def _pointwise(task: Task, at: Evaluation, lead: tuple[str, ...], num_chains: int = 1) -> xr.Dataset:
    """Log-likelihoods: per row, or of a program by its observed sites."""

    def shaped(values: np.ndarray) -> np.ndarray:
        return values.reshape(num_chains, -1, *values.shape[1:]) if lead else values[0]

    if task.model.algebra is None:
        dims = site_dims(task.model, observed_values(task.model.spec, task.hyper, task.rows))
        return sites_as_observed(task.model, {name: shaped(leaf) for name, leaf in at.by_site.items()}, dims, lead, at.thin)
    return sites_as_observed(task.model, {"x": shaped(at.log_likelihood)}, {"x": ("row",)}, lead, at.thin)


def _optimization(points: Points, final: np.ndarray) -> xr.Dataset:
    """Traces by start and iteration, and the log joint of every start at the sites returned."""
    objective = final[:, None] if points.objective is None else points.objective
    variables: dict[str, Any] = {
        "objective": (("start", "iteration"), objective),
        "final_objective": (("start",), final),
        "converged": (("start",), points.converged),
        "iterations": (("start",), points.iterations),
    }
    if points.forecast is not None:
        variables |= {name: (("start",), value) for name, value in points.forecast._asdict().items()}
    criterion = objective if points.objective is None else points.criterion
    if criterion is not None:
        variables["criterion"] = (("start", "iteration"), criterion)
    coords = {"start": np.arange(len(final)), "iteration": np.arange(objective.shape[1])}
    return xr.Dataset(variables, coords=coords)


def _with_modes(group: xr.Dataset, modes: Modes) -> xr.Dataset:
    """With the mode at which every start ended, and its mass."""
    return group.assign(mode=("start", modes.of_start), log_mass=("start", modes.log_mass))


def _last(traces: np.ndarray) -> np.ndarray:
    """The last number of every trace (start, iteration) before its NaNs."""
    return np.array([trace[~np.isnan(trace)][-1] if not np.isnan(trace).all() else np.nan for trace in traces])


def latent_group(model: Model, at: Evaluation, shape: tuple[int, ...] = ()) -> dict[str, xr.Dataset]:
    """The latents, averaged over the draws; of draws of ``shape`` (chains, draws) also the shares of components in the rows."""
    if at.latents is None:
        return {}
    probs = at.latents.astype(np.float32, copy=False)
    if is_sequential(model):
        return {"latent": _latents_of_steps(model, probs)}
    dim = latent_dim(model)
    coords = {"row": np.arange(len(probs)), dim: model.naming.coords.get(dim, np.arange(probs.shape[1]))}
    if not reports_probabilities(model):
        return {"latent": xr.Dataset({model.naming.reports: (("row", dim), probs)}, coords=coords)}
    # By parts: NumPy copies a read-only array, which a device's is, before it looks for the largest entries.
    decode = np.concatenate([part.argmax(1) for part in np.array_split(probs, 1 + len(probs) // PART)])
    variables = {model.naming.reports: (("row", dim), probs), "decode": (("row",), decode)}
    if shape and at.share is not None:
        variables["share"] = (("chain", "draw", dim), at.share.reshape(*shape, -1))
    return {"latent": xr.Dataset(variables, coords=coords)}


def _latents_of_steps(model: Model, probs: np.ndarray) -> xr.Dataset:
    """Probabilities (N, L, K) of the latents of sequences: NaN, and −1 for the most probable one, beyond their ends.

    Latents that are numbers are NaN there, and none of them is the most probable one.
    """
    dims = model.naming.dims[model.naming.reports]
    sizes = dict(zip(dims, probs.shape, strict=True))
    coords = {dim: model.naming.coords.get(dim, np.arange(size))[:size] for dim, size in sizes.items()}
    # Sequences may be longer than those that the model was built on, and then have more steps than names.
    coords = {dim: names if len(names) == sizes[dim] else np.arange(1, sizes[dim] + 1) for dim, names in coords.items()}
    if not reports_probabilities(model):
        return xr.Dataset({model.naming.reports: (dims, probs)}, coords=coords)
    there = probs.sum(-1) > 0.5
    decode = np.where(there, probs.argmax(-1), -1)
    return xr.Dataset(
        {model.naming.reports: (dims, np.where(there[..., None], probs, np.nan)), "decode": (dims[:-1], decode)}, coords=coords
    )


def as_tree(model: Model, data: Any, groups: dict[str, xr.Dataset], attrs: dict[str, Any]) -> xr.DataTree:
    if isinstance(data, Data):
        table = observed_data(data, model.reading.layout)
        groups["observed_data"], rest = split_observed(model, table, bool(attrs["labels_observed"]))
        groups["constant_data"] = dataset(model.hyper, model).merge(rest)
        groups["constant_data"].attrs["hyperparameters"] = sorted(model.hyper)
        groups = named_rows(groups, data)
        if data.moments:  # the rows stand for moments: nothing holds row by row
            groups = {name: group for name, group in groups.items() if name not in ("log_likelihood", "latent")}
    else:
        observed = observed_values(model.spec, model.hyper, jax.tree.map(jnp.asarray, data))
        groups["observed_data"] = sites_as_observed(model, observed, site_dims(model, observed))
        given = arguments(data)
        others = [name for name, value in given.items() if name not in observed or not np.array_equal(observed[name], value)]
        groups["constant_data"] = dataset({name: given[name] for name in others}, model)
        if others:
            groups["constant_data"].attrs["hyperparameters"] = others
        if same := [name for name in given if name not in others]:
            groups["constant_data"].attrs["observed"] = same
    like, identifiers = model.reading.layout, []
    if isinstance(data, Data):
        identifiers = doubted_identifiers(data) if like is None else doubted_groups(data, like.columns)
    read = data.remarks if isinstance(data, Data) else ()
    versions = packages()
    attrs |= {
        "schema": SCHEMA,
        "model": model.name,
        "density_of": model.naming.density_of,
        "model_warnings": "\n".join(model.summaries.warnings),
        "warnings": "\n".join([*model.summaries.warnings, *read, *identifiers, *filter(None, [attrs.get("warnings", "")])]),
        "data": data.name if isinstance(data, Data) else "program data",
        **({"weights": data.weights} if isinstance(data, Data) and data.weights else {}),
        "inference_library": "bayes-model-zoo",
        "inference_library_version": versions["bayes-model-zoo"],
        "numpyro_version": versions["numpyro"],
        "jax_version": versions["jax"],
    }
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = attrs
    tree.attrs.update(as_attributes(problems_of(tree)))
    return tree
