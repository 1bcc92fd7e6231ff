"""Blocked Gibbs sampling (document 002: "sample variables given their Markov blanket"): both updates are ``sample``.

All latents at once given the parameters, then all parameters at once given the latents; block by block where the model's
parameters are conjugate only given each other. A sweep leaves the posterior invariant, and the law of a chain tends to it. A
chain may stay at one mode for longer than any run. R-hat of the functionals shows this only if chains are at different modes.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.engine.driver import Run, drive, sample, vmap_or_call
from inference.engine.initialise import start_points
from inference.engine.requirements import Support, require_algebra, require_proper, require_single_rows
from inference.engine.sweep import Local, Updates, parameter_step, sweep
from inference.engine.task import Draws, Kind, Task
from inference.identification.random_labels import drawn_labellings, require_symmetry
from inference.methods.method import BLOCKS_OF_SHARED, Method, OverBlocks
from inference.methods.options import NumChains, NumSamples, NumWarmup, PermuteComponents
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from models.algebra import at_sample, log_prior
from models.base import Algebra, Pytree, Stats

if TYPE_CHECKING:
    from inference.engine.row_source import Totals

UPDATES = Updates(parameters=at_sample, latents="sample")


class Options(NamedTuple):
    """``num_chains`` chains of ``num_warmup`` sweeps dropped and ``num_samples`` kept.

    ``permute_components`` gives every draw a random labelling (`inference.identification.random_labels`).
    """

    num_warmup: NumWarmup = 1000
    num_samples: NumSamples = 1000
    num_chains: NumChains = 4
    permute_components: PermuteComponents = False


def step(algebra: Algebra, arrays: tuple[Any, ...], key: Array, T: Stats) -> tuple[Stats, Pytree, Array]:
    """One sweep of one chain: (T, record, False), where a record is the sites, their log prior, and a log joint.

    That is the log joint of the parameters that the sweep enters with, which costs nothing.
    """
    hyper, prior, rows = arrays
    following, _, local = sweep(algebra, UPDATES, hyper, prior, key, T, rows)
    return following, _record(algebra, hyper, prior, T, following, local), jnp.zeros((), bool)


def step_from_sums(
    algebra: Algebra, hyper: Pytree, prior: Pytree, key: Array, T: Stats, local: Local
) -> tuple[Stats, Pytree, Array]:
    """`step` of one chain from its local step."""
    following, _ = parameter_step(algebra, UPDATES, key, prior, T, local.stats)
    return following, _record(algebra, hyper, prior, T, following, local), jnp.zeros((), bool)


@cached_jit(static_argnames=("algebra",))
def _chains_from_sums(
    algebra: Algebra, hyper: Pytree, prior: Pytree, keys: Array, T: Stats, local: Local
) -> tuple[Stats, Pytree, Array]:
    return vmap_or_call(partial(step_from_sums, algebra, hyper, prior), keys, T, local)


def _record(algebra: Algebra, hyper: Pytree, prior: Pytree, T: Stats, following: Stats, local: Local) -> Pytree:
    entered = local.log_partition + log_prior(algebra, prior, T)
    return algebra.sites(hyper, following), log_prior(algebra, prior, following), entered


def run(task: Task, options: Options) -> Draws:
    """Draws of every site from every chain."""
    algebra = require_algebra(task, METHOD.support)
    require_proper(task)
    if task.source is None:
        require_single_rows(task, algebra)
    if options.permute_components:
        require_symmetry(task.model)
    state = start_points(task, algebra, options.num_chains)
    key = jax.random.fold_in(task.key, 1)
    iterate = _iterate(task, algebra, state)
    run, timing = sample(iterate, key, state, options.num_warmup, options.num_samples, task, WATCH)
    if run.records is None:
        return Draws(Kind.CHAINS, {}, {}, timing, run.interrupted)
    sites, at_draws, entered = run.records
    if options.permute_components:
        sites = drawn_labellings(task, sites)
    return Draws(Kind.CHAINS, sites, {}, timing, run.interrupted, log_prior=at_draws, log_joint=log_joint_of_draws(entered))


def _iterate(task: Task, algebra: Algebra, state: Stats) -> Callable[..., Run]:
    """The loop over sweeps: over resident rows, or over the source of the rows."""
    if task.source is None:
        return partial(drive, step, algebra, (task.hyper, task.prior, task.rows_on_device))
    hyper, prior = dict(task.hyper), dict(task.prior)

    def check(rows: Pytree) -> None:
        require_single_rows(task._replace(rows=rows), algebra)

    def update(keys: Array, T: Stats, totals: "Totals", held_out: Array | None) -> tuple[Stats, Pytree, Array]:
        return _chains_from_sums(algebra, hyper, prior, keys, T, totals.local)

    sums = task.source.sums(task, algebra, UPDATES.latents, state, check)
    return partial(task.source.iterate, sums, lambda T: T, update)


def log_joint_of_draws(entered: np.ndarray) -> np.ndarray:
    """(chain, draw): a sweep computes the log joint of the parameters that it enters with: those of the draw before.

    No sweep enters with the last draw, whose log joint is NaN.
    """
    return np.concatenate([entered[:, 1:], np.full((len(entered), 1), np.nan)], axis=1)


def _words(record: Pytree) -> str:
    return f"log joint {np.mean(record[2]):.2f}"


WATCH = Watch(_words, newest={"log joint": lambda record: record[2]})


METHOD = Method(
    name="gibbs",
    summary="blocked Gibbs sampling",
    options=Options,
    run=run,
    claim="invariant",
    evidence=("kernel law", "posterior", "predictions", "pipeline"),
    support=Support("gibbs"),
    updates=UPDATES.in_words(),
    may_stay=True,
    over_blocks=OverBlocks(BLOCKS_OF_SHARED),
)
