"""The result of a fit to rows that are not in memory: parameters of all rows, and a sample of them in place of the data.

There is nothing row by row: neither ``log_likelihood`` nor ``latent``. Log joint and log-likelihood are those of all rows.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax import Array

from inference.convergence.forecast import Forecast
from inference.diagnostics.importance import pareto_k
from inference.engine.initialise import natural_of
from inference.engine.program import num_parameters
from inference.engine.requirements import Support, require_algebra
from inference.engine.row_source import StepSize, Totals
from inference.engine.single_precision import back
from inference.engine.sweep import num_rows
from inference.engine.task import Draws, Points, Task
from inference.fitting.assembly import of_draws, of_points
from inference.fitting.prepare import make_task
from inference.fixed_points.local_ascent import shared_part
from inference.fixed_points.local_blocks import shared_blocks
from inference.identification.symmetry import num_flat
from inference.methods.method import Method, method_named, require_over_blocks
from inference.methods.options import check_option
from inference.results.draws import one_axis
from inference.runtime.programs import cached_jit
from inference.streaming.in_blocks import Blocks
from inference.streaming.passes import Stream
from inference.streaming.source.division import DividedRows
from inference.streaming.source.encoding import encoded_rows
from models.algebra import STRUCTURES, log_prior
from models.base import Algebra, Model, Pytree, Stats, ZooError, on_host

Groups = dict[str, xr.Dataset]

ROW_BY_ROW = ("log_likelihood", "latent")
BLOCKS = Support("a fit over blocks", STRUCTURES - {"cycle"}, remedy="give all rows at once")
OF_ALL_ROWS = ("log_joint", "log_likelihood", "entropy")  # functionals that the sample says nothing about


def require_in_blocks(model: Model, method: Method, blocks: Blocks, options: Any, predictive: bool) -> Any:
    """The options as they hold over blocks; raises `ZooError` for what the model or the method cannot do there."""
    if predictive:
        raise ZooError("predictive=true draws a table like the data, and needs all rows in memory: leave predictive out")
    if model.algebra is None:
        raise ZooError(
            f"{model.name} is a NumPyro program without the algebra that blocks are summed by: give all rows at once"
        )
    over_blocks = require_over_blocks(method, steps=blocks.step_size is not None)
    if (why := BLOCKS.why_not(model.algebra) or over_blocks.support.why_not(model.algebra)) is not None:
        raise ZooError(f"{model.name}: {why}")
    if blocks.devices is not None and not over_blocks.devices:
        raise ZooError(f"devices={blocks.devices}: {method.name} draws on all cores of a process; leave devices out")
    if blocks.devices is not None and model.algebra.structure.local:
        local = ", ".join(model.algebra.structure.local)
        raise ZooError(
            f"devices={blocks.devices}: {local} are found on one device; leave devices out, or share out blocks to processes"
        )
    if blocks.held_out and not over_blocks.held_out:
        raise ZooError(f"held_out={blocks.held_out}: {method.name} scores no rows; leave it out, and ask inference.predict")
    for name in ("batch_size", "delay", "forgetting"):
        if options._asdict().get(name) != method.options._field_defaults.get(name):
            raise ZooError(
                f"{name} is for rows in memory; over blocks a batch is a block: give in_blocks(…, steps=True, block_rows=…)"
            )
    for option in method_named("cavi").described_options():
        if blocks.step_size is not None and option.name in StepSize._fields:
            check_option(option, blocks.step_size._asdict()[option.name])
    for name in ("accelerate", "tol"):
        given, default = options._asdict().get(name), method.options._field_defaults.get(name)
        if blocks.step_size is not None and given != default:
            raise ZooError(f"{name} is for passes over all rows; steps of one block each end after max_iter: leave {name} out")
    return over_blocks.options(options)


def of_streamed(
    task: Task, outcome: Points | Draws, given: DividedRows, held_out: np.ndarray | None, precision: int
) -> tuple[Groups, dict[str, Any]]:
    """Groups and attributes of a result, in double precision, where the task has a sample of the rows.

    It takes a pass, unless the method has evaluated its draws. ``held_out`` (start, iteration) has densities of held-out rows.
    """
    model, sample, source = task.model, given.sample, task.source
    assert isinstance(source, Stream)
    if precision == 32:
        task, outcome = make_task(model, sample, 0, None, task.reporter), back(model, outcome)
    stream = source if given.aside is None else replace(source, aside=encoded_rows(model, given.aside))  # in double precision
    algebra = require_algebra(task)
    if isinstance(outcome, Points):
        final, prior, totals = log_joints(task, stream, algebra, natural_of(algebra, task.hyper, outcome.sites))
        counted: tuple[float, float] | None = _sizes(totals)
        groups, attrs = _of_points(task, outcome, final, prior)
        attrs |= _of_held_out(stream, task, algebra, outcome, attrs["best_start"])
    elif algebra.structure.local:  # the draws have the local parameters of the sample, and are evaluated on it
        counted = _counted(task, stream, algebra, outcome) if outcome.optimization is not None else None
        groups, attrs = of_draws(task, outcome)
        # These would be the sample's. The log joint stays, as it says whether densities are finite, and is that of the sample.
        groups["functionals"] = groups["functionals"].drop_vars(OF_ALL_ROWS[1:], errors="ignore")
    else:
        known = outcome.log_joint is not None  # at all draws but the last of each chain
        wanted = {name: np.asarray(value)[:, -1:] if known else np.asarray(value) for name, value in outcome.sites.items()}
        shape = next(iter(wanted.values())).shape[:2]
        final, _, totals = log_joints(task, stream, algebra, natural_of(algebra, task.hyper, one_axis(wanted)))
        counted, log_joint = _sizes(totals), final.reshape(shape)
        if outcome.log_joint is not None:
            log_joint = np.concatenate([outcome.log_joint[:, :-1], log_joint], axis=1)
        groups, attrs = _of_draws(task, outcome, log_joint)
    if isinstance(outcome, Draws) and stream.aside is not None and held_out is not None:
        trace = held_out[attrs["best_start"]]
        attrs |= {"held_out_rows": num_rows(stream.aside), "held_out_log_density": float(trace[np.isfinite(trace)][-1])}
    whole = "" if stream.source.num_rows is None else f" {stream.source.num_rows}"
    drawn = f"{sample.num_rows} rows drawn from all{whole}"
    rows = drawn if source.numbers is not None else f"the {sample.num_rows} rows of the sample given"
    of = f"{rows} stand for the table: pictures, checks and observed_data are of these"
    attrs["warnings"] = "\n".join(filter(None, [attrs["warnings"], of]))
    attrs |= {"streamed": 1} | ({} if counted is None else {"sample_size": counted[0], "total_weight": counted[1]})
    attrs["num_parameters"] = num_parameters(model.spec, task.hyper, task.rows) - num_flat(model)
    return {name: group for name, group in groups.items() if name not in ROW_BY_ROW}, attrs


def _sizes(totals: Totals) -> tuple[float, float]:
    """(sample size, sum of the weights) of the rows of a pass."""
    return float(totals.size[0]), float(totals.weight[0])


def _counted(task: Task, stream: Stream, algebra: Algebra, outcome: Draws) -> tuple[float, float]:
    """`_sizes` by a pass at the best start of an approximation."""
    assert outcome.optimization is not None
    at_best = {name: leaf[:1] for name, leaf in outcome.optimization.sites.items()}
    return _sizes(log_joints(task, stream, algebra, natural_of(algebra, task.hyper, at_best))[2])


def _of_held_out(stream: Stream, task: Task, algebra: Algebra, found: Points, best: int) -> dict[str, float]:
    """The mean log density of the rows held out, at the best start."""
    if stream.aside is None:
        return {}
    at = {name: leaf[best : best + 1] for name, leaf in found.sites.items()}
    bound = stream.bound_of_held_out(task, algebra, natural_of(algebra, task.hyper, at))
    assert bound is not None
    return {"held_out_rows": num_rows(stream.aside), "held_out_log_density": float(bound[0])}


def _of_points(task: Task, found: Points, final: np.ndarray, log_prior: np.ndarray) -> tuple[Groups, dict[str, Any]]:
    """Those of an optimum; ``final`` (start,) is the log joint over all rows, ``log_prior`` (start,) a part of it."""
    sound = [s for s, why in enumerate(found.failure) if why is None and np.isfinite(final[s])]
    best = max(sound, key=lambda s: float(final[s]), default=0)
    groups, attrs = of_points(task, _at_start(found, best))
    groups["optimization"] = _traces(found, final)
    values = {"log_joint": final[best], "log_likelihood": final[best] - log_prior[best]}
    groups["functionals"] = groups["functionals"].drop_vars(OF_ALL_ROWS, errors="ignore").assign(values)
    failed = [f"start {s}: {why}" for s, why in enumerate(found.failure) if why is not None]
    return groups, attrs | {"best_start": best, "warnings": "\n".join([*failed, *filter(None, [attrs["warnings"]])])}


def _of_draws(task: Task, found: Draws, log_joint: np.ndarray) -> tuple[Groups, dict[str, Any]]:
    """Those of draws; ``log_joint`` (chain, draw) is that over all rows."""
    groups, attrs = of_draws(task, found)
    lead = ("chain", "draw")
    values = {"log_joint": log_joint, "log_likelihood": log_joint - np.asarray(found.log_prior)}
    functionals = groups["functionals"].drop_vars(OF_ALL_ROWS, errors="ignore")
    groups["functionals"] = functionals.assign({name: (lead, leaf) for name, leaf in values.items()})
    stats = {"lp": log_joint}
    if found.log_density is not None:
        stats["log_weight"] = log_joint - found.log_density
        attrs["pareto_k"] = pareto_k(stats["log_weight"].ravel())
    groups["sample_stats"] = groups["sample_stats"].assign({name: (lead, leaf) for name, leaf in stats.items()})
    return groups, attrs


def _at_start(found: Points, start: int) -> Points:
    """One start alone."""

    def one(leaf: np.ndarray) -> np.ndarray:
        return np.asarray(leaf)[start : start + 1]

    last = None if found.last is None else type(found.last)(*({n: one(v) for n, v in part.items()} for part in found.last))
    return found._replace(
        sites={name: one(leaf) for name, leaf in found.sites.items()},
        objective=None if found.objective is None else one(found.objective),
        criterion=None if found.criterion is None else one(found.criterion),
        iterations=one(found.iterations),
        converged=one(found.converged),
        failure=found.failure[start : start + 1],
        last=last,
        forecast=None if found.forecast is None else Forecast(*(one(leaf) for leaf in found.forecast)),
    )


def _traces(found: Points, final: np.ndarray) -> xr.Dataset:
    """The group ``optimization`` of all starts, as `inference.fitting.assembly` makes it."""
    assert found.objective is not None
    by_iteration = {"objective": found.objective, "criterion": found.criterion}
    by_start = {"final_objective": final, "converged": found.converged, "iterations": found.iterations}
    if found.forecast is not None:
        by_start |= found.forecast._asdict()
    variables = {name: (("start", "iteration"), leaf) for name, leaf in by_iteration.items() if leaf is not None}
    coords = {"start": np.arange(len(final)), "iteration": np.arange(found.objective.shape[1])}
    return xr.Dataset(variables | {name: (("start",), leaf) for name, leaf in by_start.items()}, coords=coords)


def log_joints(task: Task, stream: Stream, algebra: Algebra, T: Stats) -> tuple[np.ndarray, np.ndarray, Totals]:
    """(log p(x, θ) over all rows, log p(θ), what was summed) of every start: one pass."""
    T = shared_blocks(algebra, T)
    over = stream.sums(task, algebra, "mean", T)
    try:
        totals = over.whole(T, on_host(jax.random.split(task.key, len(jax.tree.leaves(T)[0]))))
    finally:
        over.close()
    prior = np.asarray(log_priors(shared_part(algebra), shared_blocks(algebra, task.prior), T), np.float64)
    return np.asarray(totals.local.log_partition, np.float64) + prior, prior, totals


@cached_jit(static_argnames=("algebra",))
def log_priors(algebra: Algebra, prior: Pytree, T: Stats) -> Array:
    """Log p(θ) of every start."""
    return jax.vmap(partial(log_prior, algebra, prior))(T)
