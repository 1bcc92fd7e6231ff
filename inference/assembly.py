"""What a method brought back -> the groups of one result (design: results as a contract)."""

import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from numpyro import distributions as dist
from scipy import sparse

from inference.diagnostics import diagnose
from inference.evaluate import Evaluation, evaluate
from inference.occupancy import occupied_probs
from inference.outcome import Draws, Points, Task
from inference.program import latent_sites
from inference.results import dataset, packages
from inference.symmetry import identified_draws, in_one_form
from models.base import Data, Model, Permutation, ZooError, reports_probabilities, row_name
from models.columns import Layout, as_typed
from models.data import Note, is_sparse
from models.documents import Sequences

PART = 100_000  # rows
EDGE = 1e-100  # a probability or rate below it has run off to 0


def of_points(task: Task, points: Points) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    model = task.model
    sound = [s for s, why in enumerate(points.failure) if why is None]
    if not sound:
        what = "no start reached a mode" if len(points.failure) > 1 else "there is no mode"
        raise ZooError(f"{what}: {points.failure[0]}")
    points = in_one_form(model, points)
    final = np.full(len(points.failure), np.nan)
    best, chosen, one = sound[0], {}, None
    for s in sound:  # one at a time: they share a compilation, and only the best start's latents are kept
        sites = {name: leaf[s : s + 1] for name, leaf in points.sites.items()}
        at = evaluate(model, task.hyper, task.prior, task.rows, sites)
        final[s] = at.log_joint[0]
        if np.isfinite(final[s]) and (one is None or final[s] > final[best]):
            best, chosen, one = s, sites, at
    if one is None:
        raise ZooError("no start reached a finite log joint; check the scale of the data and the prior")
    groups = {
        "point_estimate": dataset({name: leaf[0] for name, leaf in chosen.items()}, model),
        "functionals": dataset({name: value[0] for name, value in one.functionals.items()}, model),
        "log_likelihood": _pointwise(one.log_likelihood[0], ()),
        "optimization": _optimization(points, final),
    }
    warnings = [f"start {s}: {why}" for s, why in enumerate(points.failure) if why is not None]
    optimum = {name: np.asarray(leaf[0]) for name, leaf in chosen.items()}
    warnings += on_the_boundary(task, optimum)
    warnings += [] if model.doubts is None else model.doubts(model.hyper, optimum)
    attrs = {"best_start": best, "warnings": "\n".join(warnings), "interrupted": int(points.interrupted)}
    return groups | latent_group(model, one), attrs


def on_the_boundary(task: Task, sites: Mapping[str, np.ndarray]) -> list[str]:
    """A line for every site with probabilities of 0 or 1, or rates of 0, at an optimum."""
    lines = []
    for name, site in latent_sites(task.model.spec, task.hyper, task.rows).items():
        support = site.support
        while hasattr(support, "base_constraint"):  # of independent sites
            support = support.base_constraint
        value = np.asarray(sites[name])
        remedy = "concentration above 1"
        if support in (dist.constraints.simplex, dist.constraints.unit_interval):
            value = np.where(value <= EDGE, 0.0, value)
            there = (value == 0) | (value >= 1)
        elif support in (dist.constraints.positive, dist.constraints.nonnegative):
            there, remedy = value <= 0, "shape above 1"
        else:
            continue
        if there.any():
            values = " or ".join(f"{edge:g}" for edge in np.unique(value[there]))
            lines.append(
                f"the maximum lies on the boundary: {there.sum()} of {there.size} entries of {name} are {values}. A "
                f"{row_name(task.model)} against one has density 0; a prior with {remedy} keeps away from it"
            )
    return lines


def of_draws(task: Task, draws: Draws) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    model = task.model
    if not draws.sites:
        where = f"; resume={task.folder} goes on from there" if task.folder is not None else ""
        raise KeyboardInterrupt(f"interrupted before the first draw was finished{where}")
    shape = next(iter(draws.sites.values())).shape[:2]
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in draws.sites.items()}
    identified = identified_draws(task, flat)
    at = evaluate(model, task.hyper, task.prior, task.rows, identified.sites if identified else flat, shape[1])
    lead = ("chain", "draw")

    def stacked(value: np.ndarray) -> np.ndarray:
        return value.reshape(*shape, *value.shape[1:])

    chosen = {name: stacked(value) for name, value in (identified.sites if identified else flat).items()}
    stats = dict(draws.sample_stats) | {"lp": stacked(at.log_joint)}
    groups = {"posterior": dataset(chosen, model, lead)}
    warnings: list[str] = []
    if identified is not None:
        groups["posterior_raw"] = dataset(draws.sites, model, lead)
        stats |= {identified.name: stacked(identified.moves), "relabel_confidence": stacked(identified.confidence)}
        warnings = identified.warnings
    groups |= {
        "functionals": dataset(
            dict(draws.functionals) | {n: stacked(value) for n, value in at.functionals.items()}, model, lead
        ),
        "log_likelihood": _pointwise(at.log_likelihood.reshape(shape[0], -1, at.log_likelihood.shape[1]), lead, at.thin),
        "sample_stats": dataset(stats, model, lead),
    }
    attrs = dict(draws.attrs)
    if draws.optimization is not None:
        failed = [why is not None for why in draws.optimization.failure]
        final = np.where(failed, np.nan, _last(draws.optimization.objective))
        groups["optimization"] = _optimization(draws.optimization, final)
        warnings += [f"start {s}: {why}" for s, why in enumerate(draws.optimization.failure) if why is not None]
    warnings += draws.warnings
    latent = latent_group(model, at)
    if identified is not None and model.algebra is not None and isinstance(model.symmetry, Permutation):
        number = np.arange(1, identified.moves.shape[1] + 1)
        probs = occupied_probs(model.algebra, task.hyper, task.rows, flat, len(number), identified.fewest)
        latent["latent"] = latent["latent"].assign(occupied_probs=("occupied", probs)).assign_coords(occupied=number)
    return groups | latent, attrs | {"warnings": "\n".join(warnings), "interrupted": int(draws.interrupted)}


def _pointwise(values: np.ndarray, lead: tuple[str, ...], thin: int = 1) -> xr.Dataset:
    dims = (*lead, "row")
    coords = {dim: np.arange(size) * (thin if dim == "draw" else 1) for dim, size in zip(dims, values.shape, strict=True)}
    return xr.Dataset({"x": (dims, values)}, coords=coords)


def _optimization(points: Points, final: np.ndarray) -> xr.Dataset:
    """Traces by start and iteration, and where every start ended: its log joint at the sites returned."""
    variables: dict[str, Any] = {
        "objective": (("start", "iteration"), points.objective),
        "final_objective": (("start",), final),
        "converged": (("start",), points.converged),
        "iterations": (("start",), points.iterations),
    }
    if points.criterion is not None:
        variables["criterion"] = (("start", "iteration"), points.criterion)
    coords = {"start": np.arange(len(final)), "iteration": np.arange(points.objective.shape[1])}
    return xr.Dataset(variables, coords=coords)


def _last(traces: np.ndarray) -> np.ndarray:
    """The last number of every trace (start, iteration) that ends in NaN."""
    return np.array([trace[~np.isnan(trace)][-1] if not np.isnan(trace).all() else np.nan for trace in traces])


def latent_group(model: Model, at: Evaluation) -> dict[str, xr.Dataset]:
    if at.latents is None:
        return {}
    probs = at.latents.astype(np.float32, copy=False)
    dim = latent_dim(model)
    coords = {"row": np.arange(len(probs)), dim: model.coords.get(dim, np.arange(probs.shape[1]))}
    if not reports_probabilities(model):
        return {"latent": xr.Dataset({model.reports: (("row", dim), probs)}, coords=coords)}
    if probs.ndim > 2:
        return {"latent": _latents_of_steps(model, probs)}
    # By parts: NumPy copies a read-only array, which a device's is, before it looks for the largest entries.
    decode = np.concatenate([part.argmax(1) for part in np.array_split(probs, 1 + len(probs) // PART)])
    return {"latent": xr.Dataset({model.reports: (("row", dim), probs), "decode": (("row",), decode)}, coords=coords)}


def _latents_of_steps(model: Model, probs: np.ndarray) -> xr.Dataset:
    """Probabilities (N, L, K) of the latents of sequences: NaN, and −1 for the most probable one, beyond their ends."""
    dims = model.dims[model.reports]
    there = probs.sum(-1) > 0.5
    sizes = dict(zip(dims, probs.shape, strict=True))
    coords = {dim: model.coords.get(dim, np.arange(size))[:size] for dim, size in sizes.items()}
    # Sequences that are longer than any that the model was built on have more steps than names.
    coords = {dim: names if len(names) == sizes[dim] else np.arange(1, sizes[dim] + 1) for dim, names in coords.items()}
    decode = np.where(there, probs.argmax(-1), -1)
    return xr.Dataset(
        {model.reports: (dims, np.where(there[..., None], probs, np.nan)), "decode": (dims[:-1], decode)}, coords=coords
    )


def latent_dim(model: Model) -> str:
    """The dimension along which what is reported of a row's latent lies: probabilities, or scores."""
    if model.reports in model.dims:
        return model.dims[model.reports][-1]
    return "component" if model.symmetry is None else model.symmetry.dim


def observed_data(data: Data, like: Layout | None = None) -> xr.Dataset:
    """The table as it was read, with its weights; sparse counts as (row, column, count) of the filled cells.

    ``like`` is what a model with kinds of columns reads of it. `data_of` reads all of it back. Levels and notes, of which there
    may be very many, are variables: netCDF limits the size of attributes.
    """
    coords: dict[str, Any] = {"row": np.arange(data.num_rows), "column": list(data.columns)}
    if isinstance(data.x, Sequences):
        observed: dict[str, Any] = {"token": (("position",), data.x.tokens), "start": (("row_edge",), data.x.starts)}
    elif is_sparse(data.x):
        cells = data.x.tocoo()
        variables = {"cell_row": cells.row, "cell_column": cells.col, "count": cells.data}
        observed = {name: (("cell",), values) for name, values in variables.items()}
    else:
        observed = {"x": (("row", "column"), data.x)} | _stored_levels("level", data.categories)
    if data.starts is not None:
        observed["sequence_start"] = (("row_edge",), data.starts)
    parts = {"label": data.labels, "weight": data.weight, "candidate": data.candidates}
    observed |= {name: (("row", "class")[: part.ndim], part) for name, part in parts.items() if part is not None}
    notes = data.notes
    if like is not None:
        notes = as_typed(data, like, "missing").notes
        observed |= {"read_column": (("read",), list(like.columns)), "read_kind": (("read",), list(like.kinds))}
        observed |= _stored_levels("read_level", like.categories)
    if data.kinds:
        observed["kind"] = (("column",), list(data.kinds))
    for field in ("column", "kind", "why") if notes else ():
        observed[f"note_{field}"] = (("note",), [getattr(note, field) for note in notes])
    if notes:
        observed["note_spelled"] = (("note",), [json.dumps(note.spelled) for note in notes])
    attrs = {"name": data.name, "label": data.label, "levels": list(data.levels), "moments": int(data.moments)}
    return xr.Dataset(observed, coords=coords, attrs={name: value for name, value in attrs.items() if value})


def data_of(tree: xr.DataTree) -> Data:
    """The table that a result was made from, as the model read it; raises `ZooError` where there was none."""
    found = tree["observed_data"].to_dataset() if "observed_data" in tree else xr.Dataset()
    if "column" not in found.coords:
        raise ZooError("this result is of a program, whose data are arrays and no table")
    value = {str(name): np.asarray(found[name]) for name in found.data_vars}
    columns = tuple(map(str, found["column"].values))
    if "token" in value:
        x: Any = Sequences(value["token"], value["start"])
    elif "count" in value:
        shape = (found.sizes["row"], len(columns))
        x = sparse.csr_array((value["count"], (value["cell_row"], value["cell_column"])), shape=shape)
    else:
        x = value["x"]
    categories = _read_levels(value, "level", len(columns))
    stored = zip(*(value.get(f"note_{field}", ()) for field in ("column", "kind", "why", "spelled")), strict=True)
    notes = tuple(
        Note(str(column), str(kind), str(why), tuple((word, count) for word, count in json.loads(str(spelled))))
        for column, kind, why, spelled in stored
    )
    data = Data(
        name=str(found.attrs["name"]),
        x=x,
        columns=columns,
        labels=value.get("label"),
        label=found.attrs.get("label"),
        levels=tuple(map(str, np.atleast_1d(found.attrs.get("levels", ())))),
        weight=value.get("weight"),
        candidates=value.get("candidate"),
        categories=categories if any(categories) else (),
        kinds=tuple(map(str, value.get("kind", ()))),
        notes=notes,
        starts=value.get("sequence_start"),
        moments=bool(found.attrs.get("moments", 0)),
    )
    if "read_column" not in value:
        return data
    names, kinds = (tuple(map(str, value[f"read_{part}"])) for part in ("column", "kind"))
    return as_typed(data, Layout(names, kinds, _read_levels(value, "read_level", len(names)), notes), "missing")


def _stored_levels(name: str, categories: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """The levels of all columns one after another, each with the place of its column."""
    places = [(place, level) for place, levels in enumerate(categories) for level in levels]
    if not places:
        return {}
    column, level = zip(*places, strict=True)
    return {f"{name}_column": ((name,), list(column)), f"{name}_name": ((name,), list(level))}


def _read_levels(value: Mapping[str, np.ndarray], name: str, num_columns: int) -> tuple[tuple[str, ...], ...]:
    levels: list[list[str]] = [[] for _ in range(num_columns)]
    for place, level in zip(value.get(f"{name}_column", ()), value.get(f"{name}_name", ()), strict=True):
        levels[place].append(str(level))
    return tuple(map(tuple, levels))


def as_tree(model: Model, data: Any, groups: dict[str, xr.Dataset], attrs: dict[str, Any]) -> xr.DataTree:
    if isinstance(data, Data):
        groups["observed_data"] = observed_data(data, model.layout)
        if data.moments:  # what holds row by row would be of rows that are none
            groups = {name: group for name, group in groups.items() if name not in ("log_likelihood", "latent")}
    else:
        leaves = {jax.tree_util.keystr(path) or "data": leaf for path, leaf in jax.tree_util.tree_leaves_with_path(data)}
        groups["observed_data"] = dataset({name.strip("[]'\""): leaf for name, leaf in leaves.items()}, model)
    groups["constant_data"] = dataset(model.hyper, model)
    versions = packages()
    attrs |= {
        "model": model.name,
        "explains": model.explains,
        "model_warnings": "\n".join(model.warnings),
        "warnings": "\n".join([*model.warnings, *filter(None, [attrs.get("warnings", "")])]),
        "data": data.name if isinstance(data, Data) else "program data",
        "inference_library": "bayes-model-zoo",
        "inference_library_version": versions["bayes-model-zoo"],
        "numpyro_version": versions["numpyro"],
        "jax_version": versions["jax"],
    }
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = attrs
    diagnosis = diagnose(tree)
    tree.attrs |= {"exit_status": diagnosis.exit_status, "problems": "\n".join(diagnosis.problems)}
    return tree
