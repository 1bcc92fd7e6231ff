"""`fit_stream`: `inference.fit` for rows in blocks, over the devices of a process, and over processes."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from inference.engine.driver import one_blas_thread
from inference.engine.requirements import Support
from inference.engine.task import Task
from inference.fitting.assembly import as_tree
from inference.fitting.fingerprint import fingerprint
from inference.fitting.fit import described, evaluated, reporter_of
from inference.fitting.prepare import make_task, require_model, x64
from inference.fixed_points.fixed_point import FixedPoint
from inference.methods import cavi, em, hard_em, stochastic_em
from inference.methods.method import checked_options, method_named
from inference.methods.options import check_checkpoint_seconds, check_flag, check_option, check_seed, described_options
from inference.runtime.checkpoints import require_own_checkpoints
from inference.runtime.files import CHECKPOINT_SECONDS
from inference.runtime.lock import held_or_locked
from inference.runtime.progress import Reporter
from inference.runtime.shadowed import complete_numpyro
from inference.runtime.signals import interruptible
from inference.streaming import topic_chains
from inference.streaming.climbing import climb_blocks
from inference.streaming.gibbs import gibbs_blocks
from inference.streaming.local_blocks import built_on
from inference.streaming.passes import Stream
from inference.streaming.result import Asked, Found, Pace, of_streamed
from inference.streaming.source.blocks import BLOCK_ROWS
from inference.streaming.source.division import Given, divided
from inference.streaming.source.encoding import encoded_rows
from inference.streaming.source.processes import Group
from inference.streaming.stochastic import climb_stochastically
from inference.streaming.variational import cavi_blocks
from models.algebra import STRUCTURES
from models.base import Algebra, Data, Model, ZooError

SUPPORTS = Support("fit_stream", STRUCTURES - {"cycle", "local"}, remedy="use method=cavi or collapsed_gibbs, or inference.fit")
PACE = [option for option in described_options(cavi.Options) if option.name in ("delay", "forgetting")]
OF_CAVI = SUPPORTS._replace(structures=STRUCTURES - {"cycle"}, remedy="use inference.fit")


def fit_stream(
    model: Model,
    rows: Any,
    method: str = "em",
    *,
    seed: int = 0,
    precision: int = 64,
    progress: bool | Reporter = False,
    start: Mapping[str, ArrayLike] | None = None,
    folder: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    devices: int | None = None,
    block_rows: int = BLOCK_ROWS,
    sample: Data | None = None,
    held_out: float = 0.0,
    stochastic: bool = False,
    delay: float = 1.0,
    forgetting: float = 0.7,
    **options: Any,
) -> xr.DataTree:
    """Fit ``model`` to rows that come in blocks, of which a few at a time are in memory.

    ``rows`` are files (`inference.read_stream`), a list of tables, or a function that returns an iterator over tables; or one
    table, whose blocks are shared out; the result has all groups of that of `inference.fit`. ``method`` is em, hard_em,
    stochastic_em, cavi, gibbs or collapsed_gibbs, with its ``options``. Starts are sought on a ``sample`` of the rows, which is
    drawn unless it is given. ``devices`` shares out the rows of a block to so many devices of this process. After
    `inference.join_processes`, processes share out the blocks. A share ``held_out`` of the rows takes no part, and their mean
    log density is reported in every iteration. With ``stochastic``, em and cavi take ``max_iter`` steps of one block each
    (`inference.streaming.stochastic`), of length (``delay`` + step)^−``forgetting``. Other arguments are those of
    `inference.fit`.

    Returns what `inference.fit` returns. For rows that are not one table nothing is kept row by row: there are no groups
    ``log_likelihood`` and ``latent``, and ``observed_data`` is the sample. Topics are fitted by cavi and collapsed_gibbs
    (`inference.streaming.topics`), and have proportions of the sample's documents. Raises `ZooError` for whatever the user can
    mend.

    >>> from models import MODELS, load_data
    >>> tables = [load_data([[0.0], [1.0]]), load_data([[8.0], [9.0]])]
    >>> model = MODELS["gmm"](load_data([[0.0], [1.0], [8.0], [9.0]]), num_components=2)
    >>> tree = fit_stream(model, tables, "em")
    >>> tree["point_estimate"]["mean"].dims
    ('component', 'feature')
    """
    complete_numpyro()
    require_model(model)
    check_flag("stochastic", stochastic)
    for option in PACE:
        check_option(option, {"delay": delay, "forgetting": forgetting}[option.name])
    checked = require_method(method, options, stochastic, model.options)
    _check(model, method, seed, devices, block_rows, held_out, checkpoint_seconds)
    pace = Pace(float(delay), float(forgetting)) if stochastic else None
    clock, group = time.perf_counter(), Group()
    with held_or_locked(folder if group.rank == 0 else None), reporter_of(progress) as reporter, interruptible():
        reporter.phase("reading", None)
        given = divided(model, rows, sample, held_out, seed, block_rows)
        model = built_on(model, given.sample)
        with x64(precision):
            task = make_task(model, given.sample, seed, start, reporter)
            name = f"{method} {pace} {float(held_out)} of {given.source.identity}"
            known = {} if folder is None else {"fingerprint": fingerprint(task, name, seed, precision, checked)}
            if folder is not None:
                task = task._replace(folder=Path(folder), fingerprint=known["fingerprint"])
                task = task._replace(checkpoint_seconds=float(checkpoint_seconds))
                require_own_checkpoints(Path(folder), task.fingerprint)
            aside = None if given.aside is None else encoded_rows(model, given.aside)
            stream = Stream(model, given.source, group, given.held_out, devices, aside, given.whole)
            asked = Asked(given.whole, pace, int(seed), given.numbers)
            with one_blas_thread():  # as in `inference.engine.driver.drive`
                found = OVER_BLOCKS[method].run(task, stream, checked, asked)
        with x64(64):
            groups, attrs = _evaluated(task, stream, found, given, precision)
            attrs = described(model, task, checked._asdict()) | attrs
            attrs |= known | {"seed": int(seed), "precision": precision, "method": method}
            seconds = found.outcome.timing | {"total_seconds": time.perf_counter() - clock}
            return as_tree(model, given.sample, groups, attrs | seconds)


def _check(model: Model, method: str, seed: Any, devices: Any, block_rows: Any, held_out: Any, checkpoint_seconds: Any) -> None:
    """Raises `ZooError` for wrong arguments, and for a model that is not a sum over blocks."""
    if model.algebra is None:
        raise ZooError(f"{model.name} is a NumPyro program without the algebra that blocks are summed by; use inference.fit")
    if (why := OF_CAVI.why_not(model.algebra) or OVER_BLOCKS[method].why_not(model.algebra)) is not None:
        raise ZooError(f"{model.name}: {why}")
    check_seed(seed)
    check_checkpoint_seconds(checkpoint_seconds)
    for name, value in (("devices", devices), ("block_rows", block_rows)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ZooError(f"{name} must be a whole number of at least 1, got {value!r}")
    if isinstance(held_out, bool) or not isinstance(held_out, int | float) or not 0 <= held_out < 1:
        raise ZooError(f"held_out must be at least 0 and below 1, got {held_out!r}")
    OVER_BLOCKS[method].check_shares(devices, held_out)
    if model.algebra.structure.local and devices is not None:
        local = ", ".join(model.algebra.structure.local)
        raise ZooError(
            f"devices={devices}: {local} are found on one device; leave devices out, or share out blocks to processes"
        )


def require_method(method: str, options: Mapping[str, Any], stochastic: bool, of_model: Iterable[str] = ()) -> Any:
    """The method's ``Options``; raises `ZooError` for a method that blocks are no use to, and for options that it lacks."""
    record = method_named(method)
    if method not in OVER_BLOCKS:
        raise ZooError(f"method={method} needs all rows at once; over blocks there are {', '.join(OVER_BLOCKS)}")
    if stochastic and not OVER_BLOCKS[method].by_steps:
        those = " and ".join(name for name, one in OVER_BLOCKS.items() if one.by_steps)
        raise ZooError(
            f"method={method} takes passes over all rows; steps of one block each are for {those}, whose "
            "expected latents of a block stand for those of all rows"
        )
    checked = OVER_BLOCKS[method].options(checked_options(record, options, of_model))
    for name in ("accelerate", "tol"):
        if stochastic and checked._asdict()[name] != record.options._field_defaults[name]:
            raise ZooError(f"{name} is for passes over all rows; steps of one block each end after max_iter: leave {name} out")
    return checked


def _climb(task: Task, stream: Stream, method: FixedPoint, options: Any, tol: float, support: Support, asked: Asked) -> Found:
    """Passes, or steps of one block each, to an optimum."""
    if asked.pace is not None:
        steps = (options.max_iter, options.num_starts, support, asked.seed)
        found = climb_stochastically(task, stream, method, asked.pace, *steps)
        return Found(found.points, found.held_out)
    points, _, trace = climb_blocks(task, stream, method, options.max_iter, tol, options.num_starts, support)
    return Found(points, trace)


def _em(task: Task, stream: Stream, options: em.Options, asked: Asked) -> Found:
    method = em.FIXED_POINT._replace(accelerate=options.accelerate)
    return _climb(task, stream, method, options, options.tol, em.METHOD.support, asked)


def _hard_em(task: Task, stream: Stream, options: hard_em.Options, asked: Asked) -> Found:
    return _climb(task, stream, hard_em.FIXED_POINT, options, options.tol, hard_em.METHOD.support, asked)


def _stochastic_em(task: Task, stream: Stream, options: stochastic_em.Options, asked: Asked) -> Found:
    return _climb(task, stream, stochastic_em.FIXED_POINT, options, 0.0, stochastic_em.METHOD.support, asked)


def _as_they_are(options: Any) -> Any:
    return options


def _any_shares(devices: int | None, held_out: float) -> None:
    """Nothing is refused."""


def _no_scores(devices: int | None, held_out: float) -> None:
    """A `ZooError` for rows that would be left out and never scored."""
    if held_out:
        raise ZooError(f"held_out={held_out}: gibbs scores no rows; leave it out, and ask inference.predict")


class BlockMethod(NamedTuple):
    """A method over blocks."""

    run: Callable[[Task, Stream, Any, Asked], Found]
    why_not: Callable[[Algebra], str | None] = SUPPORTS.why_not  # why the method does not support a model, or None
    options: Callable[[Any], Any] = _as_they_are  # its options as they hold over blocks; raises `ZooError`
    check_shares: Callable[[int | None, float], None] = _any_shares  # raises `ZooError` for devices or held-out rows
    by_steps: bool = False  # whether it takes steps of one block, as expected latents of a block stand for those of all rows


OVER_BLOCKS = {
    "em": BlockMethod(_em, by_steps=True),
    "hard_em": BlockMethod(_hard_em),
    "stochastic_em": BlockMethod(_stochastic_em),
    "cavi": BlockMethod(cavi_blocks, OF_CAVI.why_not, by_steps=True),
    "gibbs": BlockMethod(gibbs_blocks, check_shares=_no_scores),
    "collapsed_gibbs": BlockMethod(
        topic_chains.collapsed_blocks,
        topic_chains.why_not,
        topic_chains.options_over_blocks,
        topic_chains.require_no_share,
    ),
}


def _evaluated(
    task: Task, stream: Stream, found: Found, given: Given, precision: int
) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    """Groups and attributes of a result, in double precision."""
    task.reporter.phase("evaluating", None)
    if given.whole:
        groups, attrs = evaluated(task, found.outcome, given.sample, precision, False)
    else:
        if given.aside is not None:
            stream = stream._replace(aside=encoded_rows(task.model, given.aside))  # in double precision
        groups, attrs = of_streamed(task, stream, found, given.sample, precision)
    if found.held_out is not None:
        trace = found.held_out
        groups["optimization"] = groups["optimization"].assign(held_out_log_density=(("start", "iteration"), trace))
        if given.whole and given.aside is not None:
            last = trace[attrs["best_start"]]
            attrs |= {"held_out_rows": given.aside.num_rows, "held_out_log_density": float(last[np.isfinite(last)][-1])}
    return groups, attrs
