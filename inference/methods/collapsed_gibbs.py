"""Collapsed Gibbs sampling (document 002, errata E13; Griffiths and Steyvers 2004): parameters integrated out.

For topic models, and for mixtures, where a sweep ends with a split-merge move (`models.mixtures.collapsed`). Latents are drawn
one by one from p(z_i | z without it, x). Every kept state gives a draw of the parameters from p(θ | x, z), so that the draws
belong to the same posterior as those of all other methods. Chains run on threads, one per core, and each depends only on the
seed and its number. The functionals include the trace of log p(x, z). A large R-hat of it shows that chains disagree. A small
one does not show that they agree, because several modes may have the same height.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import jax
import numpy as np

from inference.engine.driver import num_cores
from inference.engine.initialise import finite_latents
from inference.engine.requirements import Support, require_algebra, require_proper, require_single_rows
from inference.engine.task import Draws, Kind, Task, timing
from inference.methods.method import Method, OverBlocks
from inference.methods.options import NumChains, NumSamples, NumWarmup, Setting
from inference.runtime.loop import Chunk, in_chunks, restore_or_start
from inference.runtime.progress import figure
from models.abilities import Sampler
from models.base import Model, ZooError
from models.rows.row_info import row_info

SETTLING = 0.25  # share of the warm-up before hyperparameters are learnt


class Options(NamedTuple):
    """``num_chains`` chains of ``num_warmup`` sweeps dropped, and then ``num_samples`` states kept, ``thin`` sweeps apart.

    ``learn`` sets the hyperparameters during the warm-up to the values that make the latents most probable, the same for all
    groups ("symmetric") or one per group ("asymmetric"). Draws are then from the posterior under these values (empirical Bayes)
    and leave out the uncertainty about them. With ``integrate`` = "local" only the local parameters are integrated out, and
    the others are drawn in every sweep. That is exact as well and mixes more slowly, but the cores share the rows
    (Magnusson et al. 2018).
    """

    num_warmup: NumWarmup = 500
    num_samples: NumSamples = 250
    num_chains: NumChains = 4
    thin: Annotated[int, Setting("sweeps between two states that are kept")] = 4
    learn: Annotated[
        Literal["none", "symmetric", "asymmetric"],
        Setting("hyperparameters that the warm-up sets: one for all groups, or one per group"),
    ] = "none"
    integrate: Annotated[
        Literal["all", "local"],
        Setting("which parameters: all, or those of single rows, so that cores share the rows; over blocks always local"),
    ] = "all"


class Warm(NamedTuple):
    """The state of a warm-up between two blocks of sweeps."""

    chains: Any  # states of all chains, stacked along a leading axis
    hyper: dict[str, np.ndarray]
    logs: dict[str, np.ndarray]  # sum of the logs of the hyperparameters learnt in the second half
    number: np.ndarray  # number of values in that sum


def run(task: Task, options: Options) -> Draws:
    """Draws of every site from every chain; with learnt hyperparameters also the model under these."""
    require_proper(task)
    algebra = require_algebra(task, METHOD.support)
    if task.source is not None:
        return _over_blocks(task, options)
    require_single_rows(task, algebra)
    assert algebra.structure.collapsed is not None
    if algebra.latent.enumerable and not finite_latents(algebra, task.hyper, task.prior, task.rows):
        raise ZooError(
            f"{task.model.name}: collapsed_gibbs needs rows without missing cells under this covariance; use gibbs or nuts"
        )
    if options.learn != "none" and row_info(task.rows).allowed_states is not None:
        raise ZooError(
            f"learn={options.learn} takes labels for chance: rows may not have some groups, and it would learn that these are "
            "rare; leave learn out, or labelled"
        )
    if options.learn != "none" and options.num_warmup == 0:
        raise ZooError(f"learn={options.learn} learns during the warm-up, of which there is none; give num_warmup=")
    rows = jax.tree.map(np.asarray, task.rows)
    hyper = {name: np.asarray(value, dtype=float) for name, value in task.hyper.items()}
    seed = int(jax.random.bits(jax.random.fold_in(task.key, 1)))
    start = None if task.start is None else {name: np.asarray(value) for name, value in task.start.items()}
    threads = min(num_cores(), options.num_chains)
    build: Callable[..., Sampler] = algebra.structure.collapsed.sampler
    if options.integrate == "local":
        if algebra.structure.collapsed.by_rows is None:
            raise ZooError(f"{task.model.name} has no parameters of single rows; leave integrate=local out")
        build = partial(algebra.structure.collapsed.by_rows, num_threads=max(1, num_cores() // threads))
    sampler = build(hyper, rows)
    if options.learn != "none" and sampler.learnt is None:
        raise ZooError(f"{task.model.name}: its hyperparameters are not learnt; leave learn={options.learn} out")
    chains = stacked([sampler.start(seed, chain, start) for chain in range(options.num_chains)])
    nothing = {name: np.zeros_like(value) for name, value in hyper.items()}
    with ThreadPoolExecutor(threads) as pool:
        warm, warmup_seconds, interrupted = _warm_up(
            task, options, partial(build, rows=rows), pool, Warm(chains, hyper, nothing, np.zeros(()))
        )
        if interrupted:
            return Draws(Kind.CHAINS, {}, {}, timing(0.0, warmup_seconds=warmup_seconds), True)
        final = _settled(warm) if options.learn != "none" else hyper
        sampler = build(final, rows)
        records, run_seconds, interrupted = _draw(task, options, sampler, pool, warm.chains, seed)
    nothing_yet = np.zeros((options.num_chains, 0))
    sites, log_prior, log_joint = records if records is not None else ({}, nothing_yet, nothing_yet)
    learnt = None if options.learn == "none" else with_hyper(task.model, final, options.learn == "asymmetric")
    warnings = () if learnt is None else (_learnt_warning(hyper, final),)
    functionals = {"collapsed_log_joint": log_joint}
    attrs = {"learnt": int(learnt is not None)}
    return Draws(
        Kind.CHAINS,
        sites,
        {},
        timing(run_seconds, warmup_seconds=warmup_seconds),
        interrupted,
        attrs=attrs,
        warnings=warnings,
        functionals=functionals,
        log_prior=log_prior,
        model=learnt,
    )


def with_hyper(model: Model, hyper: Any, distinct: bool) -> Model:
    """The model under other hyperparameters; where these are ``distinct``, its groups are no longer exchangeable."""
    assert model.algebra is not None
    assert model.algebra.structure.collapsed is not None
    prior = model.algebra.structure.collapsed.prior(hyper, model.prior)
    return model._replace(hyper=hyper, prior=prior, symmetry=None if distinct else model.symmetry)


def _warm_up(
    task: Task, options: Options, build: Callable[[Any], Sampler], pool: ThreadPoolExecutor, warm: Warm
) -> tuple[Warm, float, bool]:
    """(the state of the warm-up, seconds, whether it was interrupted)."""
    learning = options.learn != "none"
    current: list[Any] = [warm.hyper, build(warm.hyper)]

    def block(warm: Warm, done: int, sweeps: int) -> tuple[Warm, Any]:
        if current[0] is not warm.hyper:
            current[:] = [warm.hyper, build(warm.hyper)]
        sampler: Sampler = current[1]
        chains = list(pool.map(lambda chain: sampler.advance(chain, sweeps), unstacked(warm.chains)))
        log_joint = np.array([sampler.log_joint(chain) for chain in chains])
        if learning and done + sweeps >= SETTLING * options.num_warmup:
            assert sampler.learnt is not None
            hyper, chains = sampler.learnt(chains, options.learn == "asymmetric")
            second = done + sweeps >= (1 + SETTLING) / 2 * options.num_warmup
            logs = {name: total + second * np.log(hyper[name]) for name, total in warm.logs.items()}
            warm = Warm(warm.chains, hyper, logs, warm.number + second)
        return warm._replace(chains=stacked(chains)), log_joint

    warm, _, seconds, interrupted = _run(task, "warm-up", block, warm, options.num_warmup, options.thin, None)
    return warm, seconds, interrupted


def _draw(
    task: Task, options: Options, sampler: Sampler, pool: ThreadPoolExecutor, chains: Any, seed: int
) -> tuple[Any, float, bool]:
    """(sites, log priors and log joints by (chain, draw), or None; seconds; whether it was interrupted)."""

    def block(chains: Any, done: int, sweeps: int) -> tuple[Any, Any]:
        def one(number: int, chain: Any) -> tuple[Any, dict[str, np.ndarray], float, float]:
            chain = sampler.advance(chain, sweeps)
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 1, done)))
            return chain, *sampler.sites(rng, chain), sampler.log_joint(chain)

        states, sites, log_prior, log_joint = zip(*pool.map(one, range(options.num_chains), unstacked(chains)), strict=True)
        return stacked(states), (stacked(sites), np.array(log_prior), np.array(log_joint))

    like = (*sampler.sites(np.random.default_rng(seed), unstacked(chains)[0]), 0.0)
    total = options.num_samples * options.thin
    _, records, seconds, interrupted = _run(task, "sampling", block, chains, total, options.thin, like)
    return records, seconds, interrupted


def _run(
    task: Task, phase: str, block: Callable[..., tuple[Any, Any]], state: Any, total: int, size: int, like: Any
) -> tuple[Any, Any, float, bool]:
    """Blocks of ``size`` sweeps up to ``total``: (state, records (chain, block, …), seconds, whether it was interrupted).

    Blocks begin at the same sweeps in a resumed run, so that it equals an unbroken one. ``like`` has the structure of one
    record; with None no records are kept.
    """
    checkpoint = task.checkpoint(phase.replace("-", ""), cut=like is not None)
    start = restore_or_start(checkpoint, state, like, total, size)
    task.reporter.phase(phase, total)

    def advance(state: Any, finished: int, most: int) -> Chunk:
        clock = time.perf_counter()
        sweeps = min(size, most)
        state, record = block(state, finished, sweeps)
        records = jax.tree.map(lambda leaf: leaf[:, None], record)
        log_joint = np.asarray(jax.tree.leaves(record)[-1])
        chains = {"log joint": [figure(value) for value in log_joint.tolist()]}
        return Chunk(state, records, sweeps, time.perf_counter() - clock, f"log joint {log_joint.mean():.2f}", chains=chains)

    keep = like is not None
    at, interrupted = in_chunks(advance, start, total, task.reporter, checkpoint, keep)
    return at.state, at.records() if keep else None, at.seconds, interrupted


def _over_blocks(task: Task, options: Options) -> Draws:
    """Draws of the shared parameters, and of the local parameters of the rows of the task."""
    from inference.streaming.passes import Stream
    from inference.streaming.topic_chains import collapsed_chains

    assert isinstance(task.source, Stream)
    return collapsed_chains(task, task.source, options.num_chains, options.num_warmup, options.num_samples, options.thin)


def _options_over_blocks(options: Options) -> Options:
    """The options over blocks, where ``integrate`` is "local"; raises `ZooError` for hyperparameters to learn."""
    if options.learn != "none":
        raise ZooError(f"learn={options.learn} needs all rows at once; leave it out over blocks, or use rows in memory")
    return options._replace(integrate="local")


def _settled(warm: Warm) -> dict[str, np.ndarray]:
    """The hyperparameters learnt: their geometric mean over the second half."""
    return {name: np.exp(total / warm.number) if warm.number else warm.hyper[name] for name, total in warm.logs.items()}


def _learnt_warning(before: Any, after: Any) -> str:
    """A warning with the hyperparameters that were learnt."""
    parts = []
    for name, value in after.items():
        if np.allclose(value, before[name], rtol=1e-12, atol=0):
            parts.append(f"{name} as given")
            continue
        low, high = np.min(value), np.max(value)
        learnt = f"{low:.3g}" if np.isclose(low, high) else f"{low:.3g} to {high:.3g}"
        parts.append(f"{name} {learnt} (given: {np.mean(before[name]):.3g})")
    return "hyperparameters were learnt, and the posterior is that under them: " + ", ".join(parts)


def stacked(states: Sequence[Any]) -> Any:
    """States of several chains as one, along a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *states)


def unstacked(states: Any) -> list[Any]:
    """A list of the states of single chains: the inverse of `stacked`."""
    return [jax.tree.map(lambda leaf, c=c: leaf[c], states) for c in range(len(jax.tree.leaves(states)[0]))]


METHOD = Method(
    name="collapsed_gibbs",
    summary="Gibbs sampling with the parameters integrated out; for topics, and for mixtures, with split-merge moves",
    options=Options,
    run=run,
    claim="invariant",
    evidence=("kernel law", "posterior", "predictions", "pipeline"),
    support=Support("collapsed_gibbs", requires=frozenset({"collapsed"}), remedy="use method=gibbs or nuts"),
    updates=("integrated out, then drawn", "sample, one by one"),
    over_blocks=OverBlocks(
        Support(
            "collapsed_gibbs over blocks",
            requires=frozenset({"collapsed", "local"}),
            remedy="this model has none: use method=gibbs, or rows in memory",
        ),
        devices=False,
        options=_options_over_blocks,
    ),
)
