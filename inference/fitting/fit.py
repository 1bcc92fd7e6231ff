"""`fit`: one call for every model and method."""

import inspect
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from inference.diagnostics.unfinished import LEFT_OUT
from inference.engine.program import num_parameters
from inference.engine.single_precision import back
from inference.engine.sweep import num_rows
from inference.engine.task import Draws, Points, Task, kind_of
from inference.fitting.assembly import as_tree, derived, latent_group, of_draws, of_points, relabel_and_evaluate
from inference.fitting.completion import options_of_fit
from inference.fitting.fingerprint import fingerprint
from inference.fitting.modes import with_remark
from inference.fitting.predictive import predictive_groups, require_drawable
from inference.fitting.prepare import as_arrays, make_task, require_model, x64
from inference.fitting.roughness import roughness, task_from_origin
from inference.fitting.streamed import of_streamed, require_in_blocks
from inference.fixed_points.local_blocks import with_local_priors
from inference.identification.invariants import declared
from inference.identification.relabel import is_label_warning
from inference.identification.symmetry import num_flat
from inference.methods.method import Method, checked_options, method_named
from inference.methods.options import check_checkpoint_seconds, check_flag, check_seed
from inference.methods.user_kernel import MarkovKernel, method_or_kernel
from inference.programs.arguments import as_arguments, name_of, takes_by_name
from inference.programs.model import program_model
from inference.results.draws import one_axis
from inference.results.tree import dataset, values
from inference.results.triangles import sites_of, symmetric_sites
from inference.row_sums.sizes import require_room, sample_size, total_weight
from inference.runtime.checkpoints import require_own_checkpoints
from inference.runtime.files import CHECKPOINT_SECONDS
from inference.runtime.lock import held_or_locked
from inference.runtime.progress import Bar, Reporter, Silent
from inference.runtime.shadowed import complete_numpyro
from inference.runtime.signals import interruptible
from inference.streaming.in_blocks import blocks_of, stream_of, writes
from inference.streaming.source.division import DividedRows
from models.algebra import row_name
from models.base import Model, ZooError
from models.data.table import Data
from models.errors import did_you_mean
from models.rows.row_info import row_info


def fit(
    model: Model | Any,
    data: Any,
    method: str | MarkovKernel = "nuts",
    *,
    seed: int = 0,
    precision: int = 64,
    progress: bool | Reporter = False,
    predictive: bool = False,
    start: Mapping[str, ArrayLike] | None = None,
    folder: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    symmetry: Any = None,
    dims: Mapping[str, tuple[str, ...]] | None = None,
    coords: Mapping[str, list[Any]] | None = None,
    **options: Any,
) -> xr.DataTree:
    """Infer ``model`` on ``data`` by ``method``.

    ``model`` is a zoo `Model`, or a NumPyro function. ``data`` is then its only argument, or a tuple of its first arguments;
    others follow by name, as in ``fit(program, x, y=y)``, unless an option has the same name. ``symmetry``, ``dims`` and
    ``coords`` are as in `inference.programs.model.program_model`. ``method`` is a name, or a user's kernel with
    ``init(key, data)`` and ``step(key, state, data)`` (`inference.methods.user_kernel`). ``start`` gives the sites to start
    from. ``options`` are those of the method's ``Options``, such as num_samples or max_iter. A run leaves checkpoints in
    ``folder`` (it must exist, and is locked meanwhile) every ``checkpoint_seconds``, and goes on from those that are there.
    Returns groups
    ``posterior`` (identified) and ``posterior_raw``, or ``point_estimate``; ``optimization``; ``functionals``;
    ``log_likelihood``; ``sample_stats``; ``latent``; ``observed_data``; ``constant_data``. With ``predictive`` the program
    draws data: ``prior``, ``prior_predictive``, ``posterior_predictive``, ``log_prior`` (`inference.fitting.predictive`).
    Raises `ZooError` for anything that the user can correct.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=2)
    >>> tree = fit(model, data, "gibbs")
    >>> tree["posterior"]["mean"].dims
    ('chain', 'draw', 'component', 'feature')
    """
    complete_numpyro()
    chosen = method_or_kernel(method, start=start, folder=folder)
    blocks, given = blocks_of(data), None
    if blocks is None:
        options, named = data_by_name(model, chosen, options)
        model, data = modelled(model, data, precision, symmetry, dims, coords, named)
    else:
        require_model(model)
    _check_arguments(seed, progress, predictive, folder)
    check_checkpoint_seconds(checkpoint_seconds)
    checked = checked_options(chosen, options, model.options)
    if blocks is not None:
        checked = require_in_blocks(model, chosen, blocks, checked, predictive)
    clock = time.perf_counter()
    with held_or_locked(folder if writes(blocks) else None), reporter_of(progress) as reporter, interruptible():
        if blocks is not None:
            reporter.phase("reading", None)
            given = blocks.opened(model, seed)
            model, data = with_local_priors(model, given.sample), given.sample
        with x64(precision):
            task = make_task(model, data, seed, start, reporter)
            if blocks is not None and given is not None:
                task = task._replace(source=stream_of(model, blocks, given, seed))
            if "num_samples" in checked._fields:
                require_room(task, checked)
            if predictive:
                require_drawable(task)
            known = {}
            if folder is not None:
                name = chosen.name if blocks is None or given is None else f"{chosen.name} {blocks.identity(given)}"
                known = {"fingerprint": fingerprint(task, name, seed, precision, checked)}
                task = task._replace(folder=Path(folder), fingerprint=known["fingerprint"])
                task = task._replace(checkpoint_seconds=float(checkpoint_seconds))
                require_own_checkpoints(Path(folder), task.fingerprint)
            outcome = chosen.run(task, checked)
        with x64(64):
            if given is None:
                groups, attrs = evaluated(task, outcome, data, precision, predictive)
            else:
                groups, attrs = _evaluated_over_blocks(task, outcome, given, precision)
    model = model if not isinstance(outcome, Draws) or outcome.model is None else outcome.model
    attrs = described(model, task, checked._asdict()) | attrs
    attrs |= known | {"seed": int(seed), "precision": precision, "method": chosen.name}
    with x64(64):
        tree = as_tree(model, data, groups, attrs | outcome.timing | {"total_seconds": time.perf_counter() - clock})
    return with_remark(model, tree)


fit.__signature__ = options_of_fit(fit)  # type: ignore[attr-defined]  # notebooks complete keywords from it


def _check_arguments(seed: Any, progress: Any, predictive: Any, folder: Any) -> None:
    """A `ZooError` for an argument of `fit` of another type."""
    if not isinstance(progress, bool) and not callable(getattr(progress, "phase", None)):
        raise ZooError(f"progress must be true or false, got {progress!r}")
    if folder is not None and not isinstance(folder, str | Path):
        raise ZooError(f"folder must be a path, got {type(folder).__name__}")
    check_flag("predictive", predictive)
    check_seed(seed)


def described(model: Model, task: Task, options: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that describe a result: the input of diagnostics, tables and reports, which have no model."""
    return {
        "labels_observed": int(row_info(task.rows).allowed_states is not None),
        "whatever": "" if model.symmetry is None else model.symmetry.in_words(),
        "row": row_name(model),
        "unit": "" if model.abilities.held_out is None else model.abilities.held_out.unit,
        "local_blocks": "" if model.algebra is None else ", ".join(model.algebra.structure.local),
        "exchangeable": "" if model.symmetry is None else model.symmetry.dim,
        "symmetry": declared(model.symmetry),
        "sample_size": sample_size(model, task.rows) if model.algebra is not None else float("nan"),
        "total_weight": total_weight(task.rows) if model.algebra is not None else float("nan"),
        "options": json.dumps(dict(options) | dict(model.options), default=_plain),
    }


def evaluated(
    task: Task, outcome: Points | Draws, data: Any, precision: int, predictive: bool
) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    """Groups and attributes of a result, in double precision after a run in any precision, so that results compare."""
    task.reporter.phase("evaluating", None)
    model, single, seen = task.model, task, outcome
    if precision == 32:
        task = make_task(model, data, 0, None, task.reporter)._replace(folder=task.folder)
        if isinstance(outcome, Draws) and outcome.recompute_in_double is not None:
            outcome = outcome.recompute_in_double(task_from_origin(task, data))
        outcome = back(model, outcome)
    if isinstance(outcome, Draws) and outcome.model is not None:
        model = outcome.model
        hyper, prior = as_arrays((dict(model.hyper), dict(model.prior)))
        task = task._replace(model=model, hyper=hyper, prior=prior)
    groups, attrs = of_points(task, outcome) if isinstance(outcome, Points) else of_draws(task, outcome)
    if precision == 32:
        attrs |= roughness(single, task, seen, attrs.get("best_start", 0))
    if predictive and _is_stopping(outcome):
        attrs |= {LEFT_OUT: "predictive", "interrupted": 1}
    elif predictive:
        task.reporter.phase("drawing data", None)
        drawn, notes = predictive_groups(task, data, groups)
        groups |= drawn
        attrs["warnings"] = "\n".join(filter(None, [attrs.get("warnings", ""), *notes]))
    attrs["num_parameters"] = num_parameters(model.spec, task.hyper, task.rows) - num_flat(model)
    if model.abilities.approximate_evidence is not None:
        attrs["log_evidence_approximate"] = model.abilities.approximate_evidence(jax.tree.map(np.asarray, task.sufficient_rows))
    return groups, attrs


def _evaluated_over_blocks(
    task: Task, outcome: Points | Draws, given: DividedRows, precision: int
) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    """Groups and attributes of a result of rows in blocks: as `evaluated` where the task has all of them."""
    optimization = outcome if isinstance(outcome, Points) else outcome.optimization
    held_out = None if optimization is None else optimization.held_out
    if given.whole:
        groups, attrs = evaluated(task, outcome, given.sample, precision, False)
    else:
        task.reporter.phase("evaluating", None)
        groups, attrs = of_streamed(task, outcome, given, held_out, precision)
    if held_out is not None:
        groups["optimization"] = groups["optimization"].assign(held_out_log_density=(("start", "iteration"), held_out))
        if given.whole and given.aside is not None:
            last = held_out[attrs["best_start"]]
            number = num_rows(task.model.rows(given.aside))
            attrs |= {"held_out_rows": number, "held_out_log_density": float(last[np.isfinite(last)][-1])}
    return groups, attrs


def _is_stopping(outcome: Points | Draws) -> bool:
    """Whether Ctrl-C has come, be it after the last step: then the run leaves out slow output."""
    with interruptible() as stop:
        stop.heeded |= stop.is_set()
        return outcome.interrupted or stop.is_set()


def fingerprint_of(
    model: Model | Any,
    data: Any,
    method: str,
    *,
    seed: int = 0,
    precision: int = 64,
    symmetry: Any = None,
    dims: Mapping[str, tuple[str, ...]] | None = None,
    coords: Mapping[str, list[Any]] | None = None,
    **options: Any,
) -> str:
    """The attribute ``fingerprint`` that `fit` gives a result of these arguments that is written to a folder."""
    record = method_named(method)
    options, named = data_by_name(model, record, options)
    model, data = modelled(model, data, precision, symmetry, dims, coords, named)
    checked = checked_options(record, options)
    with x64(precision):
        return fingerprint(make_task(model, data, seed, None, Silent()), method, seed, precision, checked)


def modelled(
    model: Model | Any,
    data: Any,
    precision: int,
    symmetry: Any,
    dims: Mapping[str, tuple[str, ...]] | None,
    coords: Mapping[str, list[Any]] | None,
    named: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Model, Any]:
    """(a model, made of a NumPyro function if it is one; the data as the model reads them, those in ``named`` by name)."""
    if not isinstance(model, Model):
        if not callable(model):
            raise ZooError(f"model: expected a Model of the zoo or a NumPyro function, not {type(model).__name__}")
        data = as_arguments(model, data, named) if named else data
        with x64(precision):
            model = program_model(model, data, symmetry=symmetry, dims=dims, coords=coords)
    if model.algebra is not None and not isinstance(data, Data):
        data = model.read(data)
    return model, data if model.algebra is not None else model.rows(data)


def data_by_name(model: Any, method: Method, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(options of the method, data of a NumPyro function by the names of its arguments); a `ZooError` for any other name."""
    if isinstance(model, Model) or not callable(model):
        return dict(options), {}
    accepted, arguments = method.options._fields, inspect.signature(model).parameters
    named = {option: value for option, value in options.items() if option not in accepted}
    for option, value in named.items():
        if not takes_by_name(model, option):
            try:
                checked_options(method, {option: value})
            except ZooError as error:
                hint = did_you_mean(option, arguments)
                raise ZooError(f"{error}; the program {name_of(model)} takes {', '.join(arguments)}{hint}") from None
    return {option: value for option, value in options.items() if option in accepted}, named


def _plain(value: Any) -> Any:
    """Arrays and NumPy numbers as JSON."""
    return np.asarray(value).tolist()


@contextmanager
def reporter_of(progress: bool | Reporter) -> Iterator[Reporter]:
    """A live bar for True, nothing for False, or the reporter given."""
    if progress is True:
        with Bar() as bar:
            yield bar
    else:
        yield progress or Silent()


def identify(tree: xr.DataTree, model: Model, data: Any, criterion: str = "varimax") -> xr.DataTree:
    """A copy of a result relabelled again from ``posterior_raw``: ``posterior``, ``latent``, confidences and warnings.

    For factors that may be rotated ``criterion`` is "varimax", "quartimax", or "procrustes"
    (`inference.identification.rotation`). Raises `ZooError` for a result without raw draws (a point estimate, or a model
    without symmetry).

    >>> data = load_data("factors")
    >>> model = MODELS["factor_analysis"](data, num_factors=2)
    >>> tree = fit(model, data, "gibbs", num_samples=200)
    >>> identify(tree, model, data, criterion="quartimax")["posterior"]["loading"].dims
    ('chain', 'draw', 'feature', 'factor')
    """
    require_model(model)
    if "posterior_raw" not in tree or model.symmetry is None:
        raise ZooError("identify needs a result with posterior_raw: draws of a model with exchangeable labels, or of factors")
    if criterion != "varimax" and not model.symmetry.is_continuous:
        raise ZooError(
            f"criterion={criterion!r} is for factors that may be rotated; here only {model.symmetry.in_words()} are free"
        )
    raw = sites_of(tree, "posterior_raw")
    shape = next(iter(raw.values())).shape[:2]
    with x64(64):
        task = make_task(model, data, 0, None, Silent())
        log_joint = values(tree, "functionals", "log_joint").reshape(-1)
        log_prior = log_joint - values(tree, "functionals", "log_likelihood").reshape(-1)
        identification, at = relabel_and_evaluate(task, one_axis(raw), kind_of(tree), shape[1], log_prior, log_joint, criterion)
        assert identification is not None
        computed, _ = derived(task, identification.sites, shape)
    chosen = {name: value.reshape(*shape, *value.shape[1:]) for name, value in identification.sites.items()}
    stats = {
        identification.name: identification.moves.reshape(*shape, *identification.moves.shape[1:]),
        "relabel_confidence": identification.confidence.reshape(shape),
    }
    lead = ("chain", "draw")
    relabelled = tree.copy()
    symmetric = symmetric_sites(model.spec, task.hyper, task.rows)
    relabelled["posterior"] = xr.DataTree(dataset(chosen, model, lead, symmetric).merge(computed))
    old = tree["sample_stats"].to_dataset().drop_vars(list(stats), errors="ignore")
    relabelled["sample_stats"] = xr.DataTree(old.merge(dataset(stats, model, lead)))
    for name, group in latent_group(model, at, shape).items():
        relabelled[name] = xr.DataTree(group)
    others = [line for line in str(tree.attrs.get("warnings", "")).split("\n") if line and not is_label_warning(line)]
    relabelled.attrs = tree.attrs | {"warnings": "\n".join([*identification.warnings, *others])}
    return relabelled
