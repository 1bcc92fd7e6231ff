"""Collapsed Gibbs sampling (document 002, errata E13; Griffiths and Steyvers 2004): parameters integrated out.

Latents are drawn one by one from p(z_i | z without it, x). A kept state gives a draw of the parameters from p(θ | x, z), so
that the draws are of the same posterior as those of every other method. Chains run on threads, one a core, and each depends on
the seed and its number alone. The trace of log p(x, z) stands among the functionals: a large R-hat of it says that chains
disagree; a small one does not say that they agree, as modes may be of one height.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.chains import interruptible, num_cores, refuse_strangers, restore, store
from inference.optimise import require_algebra, require_proper, require_single_rows
from inference.outcome import Draws, Task
from models.base import Algebra, Model, Pytree, Sampler, ZooError

VERBS = ("integrated out, then drawn", "sample, one by one")  # for the table of methods
CHOICES = {"learn": ("none", "symmetric", "asymmetric"), "integrate": ("all", "private")}
CHECKPOINT_SECONDS = 30.0
SETTLING = 0.25  # of the warm-up before hyperparameters are learnt


class Options(NamedTuple):
    """``num_chains`` chains of ``num_warmup`` sweeps dropped, and then ``num_samples`` states kept, ``thin`` sweeps apart.

    ``learn`` sets hyperparameters during the warm-up to where they make the latents most probable, all groups alike
    ("symmetric") or each by itself; draws are then of the posterior under these (empirical Bayes), too sure of itself by the
    doubt about them. With ``integrate`` = "private" only the parameters that rows have of their own are integrated out and the
    others drawn, sweep by sweep: exact as well, slower to mix, and rows are shared out to the cores (Magnusson et al. 2018).
    """

    num_warmup: int = 500
    num_samples: int = 250
    num_chains: int = 4
    thin: int = 4
    learn: str = "none"
    integrate: str = "all"


class Warm(NamedTuple):
    """What a warm-up carries from one block of sweeps to the next."""

    chains: Any  # states of all chains, stacked along a leading axis
    hyper: dict[str, np.ndarray]
    logs: dict[str, np.ndarray]  # log hyperparameters summed over the second half of what was learnt
    number: np.ndarray  # of what is in the sum


def refuses(algebra: Algebra) -> str | None:
    """Why the method means nothing on a model, in words, or None."""
    if algebra.collapsed is not None:
        return None
    return (
        "collapsed_gibbs needs parameters that somebody integrated out on paper, as those of the topic model under a proper "
        "prior; use method=gibbs or nuts"
    )


def run(task: Task, options: Options) -> Draws:
    """Draws of every site from every chain; with hyperparameters learnt, also the model that they are of."""
    require_proper(task)
    algebra = require_algebra(task, refuses)
    require_single_rows(task, algebra)
    assert algebra.collapsed is not None
    if options.learn != "none" and getattr(task.rows, "allowed", None) is not None:
        raise ZooError(
            f"learn={options.learn} takes labels, by which rows are not allowed some groups, for chance, and would learn that "
            "the others are hardly ever met; leave learn out, or labelled"
        )
    if options.learn != "none" and options.num_warmup == 0:
        raise ZooError(f"learn={options.learn} learns during the warm-up, of which there is none; give num_warmup=")
    rows = jax.tree.map(np.asarray, task.rows)
    hyper = {name: np.asarray(value, dtype=float) for name, value in task.hyper.items()}
    seed = int(jax.random.bits(jax.random.fold_in(task.key, 1)))
    started = None if task.start is None else {name: np.asarray(value) for name, value in task.start.items()}
    threads = min(num_cores(), options.num_chains)
    build: Callable[..., Sampler] = algebra.collapsed.sampler
    if options.integrate == "private":
        build = partial(algebra.collapsed.by_rows, num_threads=max(1, num_cores() // threads))
    sampler = build(hyper, rows)
    chains = stacked([sampler.start(seed, chain, started) for chain in range(options.num_chains)])
    nothing = {name: np.zeros_like(value) for name, value in hyper.items()}
    with ThreadPoolExecutor(threads) as pool:
        warm, warmup_seconds, interrupted = _warm_up(
            task, options, partial(build, rows=rows), pool, Warm(chains, hyper, nothing, np.zeros(()))
        )
        timing = {"compile_seconds": 0.0, "warmup_seconds": warmup_seconds, "run_seconds": 0.0}
        if interrupted:
            return Draws({}, {}, timing, True)
        final = _settled(warm) if options.learn != "none" else hyper
        sampler = build(final, rows)
        records, timing["run_seconds"], interrupted = _draw(task, options, sampler, pool, warm.chains, seed)
    sites, log_joint = records if records is not None else ({}, np.zeros((options.num_chains, 0)))
    learnt = None if options.learn == "none" else with_hyper(task.model, final, options.learn == "asymmetric")
    warnings = () if learnt is None else (_said(hyper, final),)
    found = {"collapsed_log_joint": log_joint}
    attrs = {"learnt": int(learnt is not None)}
    return Draws(sites, {}, timing, interrupted, attrs=attrs, warnings=warnings, functionals=found, model=learnt)


def with_hyper(model: Model, hyper: Any, distinct: bool) -> Model:
    """The model under other hyperparameters; its groups are no longer exchangeable where these are ``distinct``."""
    assert model.algebra is not None
    assert model.algebra.collapsed is not None
    prior = model.algebra.collapsed.prior(hyper, model.prior)
    return model._replace(hyper=hyper, prior=prior, symmetry=None if distinct else model.symmetry)


def _warm_up(
    task: Task, options: Options, build: Callable[[Any], Sampler], pool: ThreadPoolExecutor, warm: Warm
) -> tuple[Warm, float, bool]:
    """(where the chains are, seconds, whether it was interrupted)."""
    learning = options.learn != "none"
    current: list[Any] = [warm.hyper, build(warm.hyper)]

    def block(warm: Warm, done: int, sweeps: int) -> tuple[Warm, Any]:
        if current[0] is not warm.hyper:
            current[:] = [warm.hyper, build(warm.hyper)]
        sampler: Sampler = current[1]
        chains = list(pool.map(lambda chain: sampler.advance(chain, sweeps), apart(warm.chains)))
        log_joint = np.array([sampler.log_joint(chain) for chain in chains])
        if learning and done + sweeps >= SETTLING * options.num_warmup:
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
    """(sites and log joints by (chain, draw), or None; seconds; whether it was interrupted)."""

    def block(chains: Any, done: int, sweeps: int) -> tuple[Any, Any]:
        def one(number: int, chain: Any) -> tuple[Any, dict[str, np.ndarray], float]:
            chain = sampler.advance(chain, sweeps)
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 1, done)))
            return chain, sampler.sites(rng, chain), sampler.log_joint(chain)

        states, sites, log_joint = zip(*pool.map(one, range(options.num_chains), apart(chains)), strict=True)
        return stacked(states), (stacked(sites), np.array(log_joint))

    like = (sampler.sites(np.random.default_rng(seed), apart(chains)[0]), 0.0)
    total = options.num_samples * options.thin
    _, records, seconds, interrupted = _run(task, "sampling", block, chains, total, options.thin, like)
    return records, seconds, interrupted


def _run(
    task: Task, phase: str, block: Callable[..., tuple[Any, Any]], state: Any, total: int, size: int, like: Any
) -> tuple[Any, Any, float, bool]:
    """Blocks of ``size`` sweeps up to ``total``: (state, records (chain, block, …), seconds, whether it was interrupted).

    Blocks begin at the same sweeps whatever was interrupted, so that a resumed run equals an unbroken one. Records are kept
    where there is one to have the structure of, ``like``.
    """
    checkpoint = task.checkpoint(phase.replace("-", ""))
    finished, seconds, parts = 0, 0.0, list[Pytree]()
    if checkpoint is not None:
        refuse_strangers(checkpoint)
        if checkpoint.is_file():
            finished, seconds, state, parts = restore(checkpoint, state, like, None if like is None else -(-total // size))
    task.reporter.phase(phase, total)
    saved = time.perf_counter()
    with interruptible() as stop:
        while finished < total and not (stop.is_set() and (parts or like is None)):
            clock = time.perf_counter()
            sweeps = min(size, total - finished)
            state, record = block(state, finished, sweeps)
            parts = [] if like is None else [*parts, jax.tree.map(lambda leaf: leaf[:, None], record)]
            finished, seconds = finished + sweeps, seconds + time.perf_counter() - clock
            task.reporter.update(finished, f"log joint {np.mean(jax.tree.leaves(record)[-1]):.2f}")
            if checkpoint is not None and time.perf_counter() - saved > CHECKPOINT_SECONDS:
                store(checkpoint, finished, seconds, state, parts)
                saved = time.perf_counter()
    if checkpoint is not None:
        store(checkpoint, finished, seconds, state, parts)
    records = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts) if parts else None
    return state, records, seconds, stop.is_set()


def _settled(warm: Warm) -> dict[str, np.ndarray]:
    """What was learnt: the geometric mean over the second half."""
    return {name: np.exp(total / warm.number) if warm.number else warm.hyper[name] for name, total in warm.logs.items()}


def _said(before: Any, after: Any) -> str:
    """What was learnt, in words."""
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


def apart(states: Any) -> list[Any]:
    """The states of every chain by itself."""
    return [jax.tree.map(lambda leaf, c=c: leaf[c], states) for c in range(len(jax.tree.leaves(states)[0]))]
