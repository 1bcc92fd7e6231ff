"""`fit`: one call for every model and method; what it checks and hands to the method."""

import hashlib
import json
import math
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
from inference.assembly import as_tree, latent_group, of_draws, of_points
from inference.chains import interruptible
from inference.evaluate import evaluate
from inference.outcome import Draws, Points, Task
from inference.program import latent_sites, num_parameters, potential_code, program_model
from inference.progress import Bar, Reporter, Silent
from inference.relabel import doubts_labels
from inference.results import dataset
from inference.sweep import num_rows
from inference.symmetry import identified_draws, num_flat, whatever
from models.base import Model, Pytree, Rotation, ZooError, row_name
from models.data import Data

SHARED = {"seed": 0, "precision": 64, "progress": False}  # options of every method, with their defaults

# option -> smallest and largest value; all others start at 1
MOST_BYTES = 8 * 2**30  # of draws
RANGES = {
    "num_warmup": (0, np.inf),
    "tol": (0, np.inf),
    "target_accept": (0.05, 0.999),
    "max_tree_depth": (1, 15),
    "batch_size": (0, np.inf),
    "delay": (0, np.inf),
    "forgetting": (0.5, 1),
}


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
    if model.algebra is not None and not isinstance(data, Data):
        data = model.read(data)
    check_seed(seed)
    module = method_module(method)
    checked = checked_options(method, module, options)
    clock = time.perf_counter()
    with x64(precision), reporter_of(progress) as reporter, interruptible():
        task = make_task(model, data, seed, start, reporter)
        _require_room(task, checked)
        if folder is not None and "num_warmup" in checked._fields:
            described = (method, seed, precision, checked._replace(num_samples=0), model.name, dict(model.options))
            task = task._replace(folder=Path(folder), fingerprint=fingerprint(repr(described), task))
        outcome = module.run(task, checked)
        if isinstance(outcome, Draws) and outcome.model is not None:
            model = outcome.model
            hyper, prior = as_arrays((dict(model.hyper), dict(model.prior)))
            task = task._replace(model=model, hyper=hyper, prior=prior)
        reporter.phase("evaluating", None)
        assemble = of_points if isinstance(outcome, Points) else of_draws
        groups, attrs = assemble(task, outcome)
        attrs["num_parameters"] = num_parameters(model.spec, task.hyper, task.rows) - num_flat(model)
        if model.approximate_evidence is not None:
            attrs["log_evidence_approximate"] = model.approximate_evidence(jax.tree.map(np.asarray, task.condensed))
    attrs |= {
        "seed": int(seed),
        "precision": precision,
        "method": method,
        "labels_observed": int(getattr(task.rows, "allowed", None) is not None),
        "whatever": whatever(model),
        "row": row_name(model),
        "unit": "" if model.held_out is None else model.held_out.unit,
        "private": "" if model.algebra is None else ", ".join(model.algebra.private),
        "exchangeable": "" if model.symmetry is None else model.symmetry.dim,
        "sample_size": sample_size(model, task.rows) if model.algebra is not None else float("nan"),
        "total_weight": total_weight(task.rows) if model.algebra is not None else float("nan"),
        "options": json.dumps(checked._asdict() | dict(model.options), default=_plain),
    }
    return as_tree(model, data, groups, attrs | outcome.timing | {"total_seconds": time.perf_counter() - clock})


def check_seed(seed: Any) -> None:
    """A `ZooError` for what is not a seed."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ZooError(f"seed must be a whole number from 0 to 2³² − 1, got {seed!r}")


def sample_size(model: Model, rows: Pytree) -> float:
    """What BIC counts: the rows, each by its weight, and of sequences, with a latent at every step, the steps that were seen.

    Of a single sequence the penalty would else be log 1 = 0 whatever the number of parameters.
    """
    if len(model.dims.get(model.reports, ())) < 3:
        return total_weight(rows)
    weight, seen = getattr(rows, "weight", None), getattr(rows, "seen", None)
    length = np.asarray(rows.length)
    if seen is not None:
        length = (np.asarray(seen) & (np.arange(seen.shape[1])[None, :] < length[:, None])).sum(1)
    return float(np.sum(length * (1.0 if weight is None else np.asarray(weight))))


def total_weight(rows: Pytree) -> float:
    """The rows, each by its weight."""
    weight = getattr(rows, "weight", None)
    return float(num_rows(rows) if weight is None else np.asarray(weight).sum())


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
    known, choices = module.Options._fields, getattr(module, "CHOICES", {})
    for name, value in options.items():
        if name not in known:
            raise ZooError(f"method={method} has no option {name!r}; it takes {', '.join((*known, *SHARED, 'start'))}")
        if name in choices:
            if value not in choices[name]:
                raise ZooError(f"{name}={value!r} is not one of {', '.join(choices[name])}")
            continue
        default = module.Options._field_defaults[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(default, int) and not whole:
            raise ZooError(f"{name} must be a whole number, got {value!r}")
        low, high = RANGES.get(name, (1, np.inf))
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or np.isinf(value):
            raise ZooError(f"{name} must be at least {low}{'' if np.isinf(high) else f' and at most {high}'}, got {value!r}")
    return module.Options(**options)


def _require_room(task: Task, options: Any) -> None:
    """A `ZooError` for more draws than memory is likely to hold."""
    if "num_samples" not in options._fields:
        return
    sites = latent_sites(task.model.spec, task.hyper, task.rows).values()
    size = options.num_chains * options.num_samples * sum(8 * math.prod(site.shape) for site in sites)
    if size > MOST_BYTES:
        raise ZooError(
            f"{options.num_chains} × {options.num_samples} draws of all parameters take {size / 2**30:.0f} GiB, and a result "
            f"holds them twice; {MOST_BYTES / 2**30:.0f} are the most: take fewer (num_samples=)"
        )


def make_task(model: Model, data: Any, seed: int, start: Mapping[str, ArrayLike] | None, reporter: Reporter) -> Task:
    """Model, data and start on the device, in the precision in force; raises `ZooError` for moments where rows are needed."""
    if isinstance(data, Data) and data.moments and model.condense is None:
        raise ZooError(f"{data.name} is a covariance and no rows: enough for models of factors, not for {model.name}")
    on_host = model.rows(data)
    _require_own_rows(model, on_host)
    hyper, prior, rows = as_arrays((dict(model.hyper), dict(model.prior), on_host))
    condensed = rows if model.condense is None else as_arrays(model.condense(on_host))
    key = jax.random.PRNGKey(seed)
    task = Task(model, hyper, prior, rows, condensed, key, checked_start(model, hyper, rows, start), reporter)
    return task._replace(moments=isinstance(data, Data) and data.moments)


def _require_own_rows(model: Model, rows: Pytree) -> None:
    """A `ZooError` for other rows than a model was built on whose rows have parameters of their own."""
    for name in () if model.algebra is None else model.algebra.private:
        built, given = len(jax.tree.leaves(model.prior[name])[0]), num_rows(rows)
        if built != given:
            raise ZooError(
                f"{model.name} was built on {built} rows, each with {name} of its own, and these are {given}: build a model on "
                "them, or ask what a fit says of them by inference.predict"
            )


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


def require_model(model: Any) -> None:
    """A `ZooError` for what is not a `Model`, such as a program that `fit` alone takes as it is."""
    if not isinstance(model, Model):
        raise ZooError(
            f"model: expected a Model, not {type(model).__name__}; inference.program_model(function, data, symmetry=…) makes "
            "one of a NumPyro function"
        )


def identify(tree: xr.DataTree, model: Model, data: Any, criterion: str = "varimax") -> xr.DataTree:
    """A copy of a result relabelled again from ``posterior_raw``: ``posterior``, ``latent``, confidences and warnings.

    For factors that may be rotated ``criterion`` is "varimax", "quartimax", or "procrustes" (`inference.rotation`). Raises
    `ZooError` for a result without raw draws (a point estimate, or a model without symmetry).
    """
    require_model(model)
    if "posterior_raw" not in tree or model.symmetry is None:
        raise ZooError("identify needs a result with posterior_raw: draws of a model with exchangeable labels, or of factors")
    if criterion != "varimax" and not isinstance(model.symmetry, Rotation):
        raise ZooError(f"criterion={criterion!r} is for factors that may be rotated; here only {whatever(model)} are free")
    raw = {str(name): np.asarray(value) for name, value in tree["posterior_raw"].to_dataset().data_vars.items()}
    shape = next(iter(raw.values())).shape[:2]
    with x64(64):
        task = make_task(model, data, 0, None, Silent())
        flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in raw.items()}
        found = identified_draws(task, flat, criterion)
        assert found is not None
        at = evaluate(model, task.hyper, task.prior, task.rows, found.sites, shape[1])
    chosen = {name: value.reshape(*shape, *value.shape[1:]) for name, value in found.sites.items()}
    stats = {
        found.name: found.moves.reshape(*shape, *found.moves.shape[1:]),
        "relabel_confidence": found.confidence.reshape(shape),
    }
    lead = ("chain", "draw")
    relabelled = tree.copy()
    relabelled["posterior"] = xr.DataTree(dataset(chosen, model, lead))
    old = tree["sample_stats"].to_dataset().drop_vars(list(stats), errors="ignore")
    relabelled["sample_stats"] = xr.DataTree(old.merge(dataset(stats, model, lead)))
    for name, group in latent_group(model, at).items():
        relabelled[name] = xr.DataTree(group)
    others = [line for line in str(tree.attrs.get("warnings", "")).split("\n") if line and not doubts_labels(line)]
    relabelled.attrs = tree.attrs | {"warnings": "\n".join([*found.warnings, *others])}
    return relabelled
