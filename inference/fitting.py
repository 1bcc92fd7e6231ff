"""`fit`: one call for every model and method, and the assembly of its result."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from inference import METHODS
from inference.chains import interruptible
from inference.diagnostics import diagnose
from inference.evaluate import Evaluation, evaluate, latents_of_draws, row_count
from inference.outcome import Draws, Points, Task
from inference.program import potential_code, program_model
from inference.progress import Bar, Reporter, Silent
from inference.relabel import Identification, doubts_labels, identify_draws
from inference.results import dataset, environment
from models.base import Data, Model, Pytree, ZooError
from models.data import as_data

SHARED = {"seed": 0, "precision": 64, "progress": False}  # options of every method, with their defaults

PART = 100_000  # rows

# option -> smallest and largest value; all others start at 1
RANGES = {"num_warmup": (0, np.inf), "tol": (0, np.inf), "target_accept": (0.05, 0.999), "max_tree_depth": (1, 15)}


def fit(
    model: Model | Any,
    data: Any,
    method: str = "nuts",
    *,
    seed: int = 0,
    precision: int = 64,
    progress: bool | Reporter = False,
    start: Mapping[str, ArrayLike] | None = None,
    folder: str | Path | None = None,
    symmetry: Any = None,
    dims: Mapping[str, tuple[str, ...]] | None = None,
    coords: Mapping[str, list[Any]] | None = None,
    **options: Any,
) -> xr.DataTree:
    """Infer ``model`` on ``data`` by ``method``.

    ``model`` is a zoo `Model`, or a NumPyro function of ``data`` (with ``symmetry``, ``dims`` and ``coords`` as in
    `inference.program.program_model`). ``start`` gives the sites to start from. ``options`` are those of the method's
    ``Options``: num_warmup, num_samples, num_chains, max_iter, tol, num_starts. Samplers leave checkpoints in ``folder``
    (it must exist), and go on from those that they find there. Returns groups ``posterior`` (identified) and
    ``posterior_raw``, or ``point_estimate``; ``optimization``; ``functionals``; ``log_likelihood``; ``sample_stats``;
    ``latent``; ``observed_data``; ``constant_data``. Raises `ZooError` for whatever the user can mend.
    """
    if not isinstance(model, Model):
        if not callable(model):
            raise ZooError(f"model: expected a Model of the zoo or a NumPyro function, not {type(model).__name__}")
        with x64(precision):
            model = program_model(model, data, symmetry=symmetry, dims=dims, coords=coords)
    if not isinstance(progress, bool) and not callable(getattr(progress, "phase", None)):
        raise ZooError(f"progress must be true or false, got {progress!r}")
    check_seed(seed)
    module = method_module(method)
    checked = checked_options(method, module, options)
    clock = time.perf_counter()
    with x64(precision), reporter_of(progress) as reporter, interruptible():
        task = make_task(model, data, seed, start, reporter)
        if folder is not None and "num_warmup" in checked._fields:
            described = (method, seed, precision, checked._replace(num_samples=0), model.name, dict(model.options))
            task = task._replace(folder=Path(folder), fingerprint=fingerprint(repr(described), task))
        outcome = module.run(task, checked)
        reporter.phase("evaluating", None)
        assemble = _of_points if isinstance(outcome, Points) else _of_draws
        groups, attrs = assemble(task, outcome)
    attrs |= {
        "seed": int(seed),
        "precision": precision,
        "method": method,
        "labels_observed": int(getattr(task.rows, "allowed", None) is not None),
        "options": json.dumps(checked._asdict() | dict(model.options), default=_plain),
    }
    return _tree(model, data, groups, attrs | outcome.timing | {"total_seconds": time.perf_counter() - clock})


def check_seed(seed: Any) -> None:
    """A `ZooError` for what is not a seed."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ZooError(f"seed must be a whole number from 0 to 2³² − 1, got {seed!r}")


def fingerprint(described: str, task: Task) -> str:
    """Twelve characters that change with any option or number of a run, and with the code of a program of the user's."""
    digest = hashlib.sha256(described.encode())
    arrays: Pytree = (task.hyper, task.rows)
    if task.model.algebra is None:
        code, constants = potential_code(task.model.spec, *arrays)
        digest.update(code.encode())
        arrays = (arrays, constants)
    for leaf in jax.tree.leaves(arrays):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()[:12]


def _plain(value: Any) -> Any:
    """Arrays and NumPy numbers as JSON."""
    return np.asarray(value).tolist()


@contextmanager
def x64(precision: int) -> Iterator[None]:
    """Double precision inside, whatever the process is set to; single with ``precision=32``."""
    if precision not in {32, 64}:
        raise ZooError(f"precision={precision!r} is not one of 64, 32")
    with jax.enable_x64(precision == 64):
        yield


@contextmanager
def reporter_of(progress: bool | Reporter) -> Iterator[Reporter]:
    """A live bar for True, nothing for False, or the reporter given."""
    if progress is True:
        with Bar() as bar:
            yield bar
    else:
        yield progress or Silent()


def method_module(method: str) -> Any:
    """The module of a method; a `ZooError` that lists them where there is none."""
    if method not in METHODS:
        raise ZooError(f"method={method!r} is not one of {', '.join(METHODS)}")
    return import_module(METHODS[method])


def checked_options(method: str, module: Any, options: Mapping[str, Any]) -> Any:
    """The method's ``Options`` with the user's values: known names, whole and positive where they count."""
    known = module.Options._fields
    for name, value in options.items():
        if name not in known:
            raise ZooError(f"method={method} has no option {name!r}; it takes {', '.join((*known, *SHARED, 'start'))}")
        default = module.Options._field_defaults[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(default, int) and not whole:
            raise ZooError(f"{name} must be a whole number, got {value!r}")
        low, high = RANGES.get(name, (1, np.inf))
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or np.isinf(value):
            raise ZooError(f"{name} must be at least {low}{'' if np.isinf(high) else f' and at most {high}'}, got {value!r}")
    return module.Options(**options)


def make_task(model: Model, data: Any, seed: int, start: Mapping[str, ArrayLike] | None, reporter: Reporter) -> Task:
    """Model, data and start on the device, in the precision in force."""
    if model.algebra is not None:
        data = as_data(data)
    hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), model.rows(data)))
    return Task(model, hyper, prior, rows, jax.random.PRNGKey(seed), checked_start(model, hyper, rows, start), reporter)


def checked_start(model: Model, hyper: Pytree, rows: Pytree, start: Mapping[str, ArrayLike] | None) -> Any:
    """The user's start, with the names, shapes and support of the program's sites; raises `ZooError`."""
    if start is None:
        return None
    from inference.program import latent_sites

    sites = latent_sites(model.spec, hyper, rows)
    if set(start) != set(sites):
        raise ZooError(f"start has the sites {', '.join(sorted(start))}; the model has {', '.join(sorted(sites))}")
    values = {name: jnp.asarray(start[name], float) for name in sites}
    for name, site in sites.items():
        if values[name].shape != site.shape:
            raise ZooError(f"start: {name} has shape {values[name].shape}; the model's is {site.shape}")
    inside = _inside({name: site.support for name, site in sites.items()}, values)
    for name, site in sites.items():
        if not bool(inside[name]):
            raise ZooError(f"start: {name} is outside its support ({site.support})")
    return values


@jax.jit
def _inside(supports: Mapping[str, Any], values: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    return {name: jnp.all(support(values[name])) for name, support in supports.items()}


def as_arrays(tree: Pytree) -> Pytree:
    """Host arrays on the device: floating point in the precision in force, the rest as it is."""

    def one(leaf: Any) -> Any:
        host = np.asarray(leaf)
        return jnp.asarray(host, float if np.issubdtype(host.dtype, np.floating) else None)

    return jax.tree.map(one, tree)


# ---------------------------------------------------------------------------------------------------------------------
# Assembly


def _of_points(task: Task, points: Points) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    model = task.model
    sound = [s for s, why in enumerate(points.failure) if why is None]
    if not sound:
        raise ZooError(f"no start reached a mode: {points.failure[0]}")
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
    attrs = {"best_start": best, "warnings": "\n".join(warnings), "interrupted": int(points.interrupted)}
    return groups | _latent(model, one), attrs


def _of_draws(task: Task, draws: Draws) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    model = task.model
    if not draws.sites:
        where = f"; resume={task.folder} goes on from there" if task.folder is not None else ""
        raise KeyboardInterrupt(f"interrupted before the first draw was finished{where}")
    shape = next(iter(draws.sites.values())).shape[:2]
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in draws.sites.items()}
    identified = _identify(task, flat)
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
        stats |= {"permutation": stacked(identified.permutation), "relabel_confidence": stacked(identified.confidence)}
        warnings = identified.warnings
    groups |= {
        "functionals": dataset({name: stacked(value) for name, value in at.functionals.items()}, model, lead),
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
    return groups | _latent(model, at), attrs | {"warnings": "\n".join(warnings), "interrupted": int(draws.interrupted)}


def _identify(task: Task, flat: Mapping[str, np.ndarray]) -> Identification | None:
    model = task.model
    if model.symmetry is None:
        return None
    latents = latents_of_draws(model, task.hyper, task.prior, task.rows, flat)
    log_joint = evaluate(model, task.hyper, task.prior, task.rows, flat).log_joint
    rows = row_count(model, task.hyper, task.prior, task.rows, flat)
    return identify_draws(flat, model.symmetry, model.dims, latents, log_joint, rows)


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


def _latent(model: Model, at: Evaluation) -> dict[str, xr.Dataset]:
    if at.latents is None:
        return {}
    probs = at.latents.astype(np.float32, copy=False)
    dim = latent_dim(model)
    # By parts: NumPy copies a read-only array, which a device's is, before it looks for the largest entries.
    decode = np.concatenate([part.argmax(1) for part in np.array_split(probs, 1 + len(probs) // PART)])
    variables = {"responsibilities": (("row", dim), probs), "decode": (("row",), decode)}
    return {
        "latent": xr.Dataset(
            variables, coords={"row": np.arange(len(probs)), dim: model.coords.get(dim, np.arange(probs.shape[1]))}
        )
    }


def require_model(model: Any) -> None:
    """A `ZooError` for what is not a `Model`, such as a program that `fit` alone takes as it is."""
    if not isinstance(model, Model):
        raise ZooError(
            f"model: expected a Model, not {type(model).__name__}; inference.program_model(function, data, symmetry=…) makes "
            "one of a NumPyro function"
        )


def latent_dim(model: Model) -> str:
    """The dimension along which the probabilities of a row's latent lie."""
    if "responsibilities" in model.dims:
        return model.dims["responsibilities"][-1]
    return "component" if model.symmetry is None else model.symmetry.dim


def _tree(model: Model, data: Any, groups: dict[str, xr.Dataset], attrs: dict[str, Any]) -> xr.DataTree:
    if isinstance(data, Data):
        observed = {"x": (("row", "column"), data.x)} | ({} if data.labels is None else {"label": (("row",), data.labels)})
        coords = {"row": np.arange(data.num_rows), "column": list(data.columns)}
        groups["observed_data"] = xr.Dataset(
            observed, coords=coords, attrs={"levels": list(data.levels)} if data.levels else {}
        )
    else:
        leaves = {jax.tree_util.keystr(path) or "data": leaf for path, leaf in jax.tree_util.tree_leaves_with_path(data)}
        groups["observed_data"] = dataset({name.strip("[]'\""): leaf for name, leaf in leaves.items()}, model)
    groups["constant_data"] = dataset(model.hyper, model)
    packages = environment()["packages"]
    attrs |= {
        "model": model.name,
        "data": data.name if isinstance(data, Data) else "program data",
        "inference_library": "bayes-model-zoo",
        "inference_library_version": packages["bayes-model-zoo"],
        "numpyro_version": packages["numpyro"],
        "jax_version": packages["jax"],
    }
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = attrs
    diagnosis = diagnose(tree)
    tree.attrs |= {"exit_status": diagnosis.exit_status, "problems": "\n".join(diagnosis.problems)}
    return tree


def identify(tree: xr.DataTree, model: Model, data: Any) -> xr.DataTree:
    """A copy of a result relabelled again from ``posterior_raw``: ``posterior``, ``latent``, confidences and warnings.

    Raises `ZooError` for a result without raw draws (a point estimate, or a model without symmetry).
    """
    require_model(model)
    if "posterior_raw" not in tree or model.symmetry is None:
        raise ZooError("identify needs a result with posterior_raw: draws of a model whose labels are exchangeable")
    raw = {str(name): np.asarray(value) for name, value in tree["posterior_raw"].to_dataset().data_vars.items()}
    shape = next(iter(raw.values())).shape[:2]
    with x64(64):
        task = make_task(model, data, 0, None, Silent())
        found = _identify(task, {name: value.reshape(-1, *value.shape[2:]) for name, value in raw.items()})
        assert found is not None
        at = evaluate(model, task.hyper, task.prior, task.rows, found.sites, shape[1])
    chosen = {name: value.reshape(*shape, *value.shape[1:]) for name, value in found.sites.items()}
    stats = {"permutation": found.permutation.reshape(*shape, -1), "relabel_confidence": found.confidence.reshape(shape)}
    lead = ("chain", "draw")
    relabelled = tree.copy()
    relabelled["posterior"] = xr.DataTree(dataset(chosen, model, lead))
    old = tree["sample_stats"].to_dataset().drop_vars(["permutation", "relabel_confidence"], errors="ignore")
    relabelled["sample_stats"] = xr.DataTree(old.merge(dataset(stats, model, lead)))
    for name, group in _latent(model, at).items():
        relabelled[name] = xr.DataTree(group)
    others = [line for line in str(tree.attrs.get("warnings", "")).split("\n") if line and not doubts_labels(line)]
    relabelled.attrs = tree.attrs | {"warnings": "\n".join([*found.warnings, *others])}
    return relabelled
