"""Maximum a posteriori: stochastic variational inference with a delta guide, on the NumPyro program.

`AutoDelta` maximises the log joint in the coordinates of the program's sites, without a Jacobian (errata E20), so that the
answer is EM's. Its objective is deterministic: the usual gradient steps are replaced by a quasi-Newton method, which
converges to the last digits.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from numpyro import infer, optim

from inference.engine.initialise import num_starts, start_sites
from inference.engine.program import constrain, constrain_starts, transforms, unconstrain_chains
from inference.engine.quasi_newton import minimise
from inference.engine.sweep import local_step
from inference.engine.task import Points, Task, kinds, timing
from models.algebra import add, at_mode
from models.base import Algebra, Hyper, Iteration, Pytree, Sites, Stats


class Options(NamedTuple):
    """Stop when the log joint gains less than ``tol`` of its gain so far; ``num_starts`` starts, those of ``em``."""

    max_iter: int = 5000
    tol: float = 1e-14
    num_starts: int = 10


class Program(NamedTuple):
    """The static half of a run: the program, and the shapes that a guide is made for."""

    spec: Callable[..., Any]
    shapes: Any  # tree definition and shapes of the rows


@cache
def delta(program: Program) -> infer.SVI:
    """SVI of a program with a delta guide; one object for equal arguments, so that jitted code recognises it."""
    return infer.SVI(program.spec, infer.autoguide.AutoDelta(program.spec), optim.Adam(1e-3), infer.Trace_ELBO())


def loss(program: Program, arrays: tuple[Any, ...], z: Pytree) -> Array:
    """The delta guide's loss, −log p(x, θ), as a function of unconstrained coordinates of the sites."""
    hyper, rows, supports = arrays
    svi = delta(program)
    key = jax.random.PRNGKey(0)  # the objective is deterministic: no draw depends on it
    locations = {f"{name}_auto_loc": value for name, value in constrain(supports, z).items()}
    return svi.loss.loss(key, locations, svi.model, svi.guide, hyper, rows)


def run(task: Task, options: Options) -> Points:
    """Every start to its own maximum; the caller keeps the best and reports all."""
    spec = task.model.spec
    rows = task.condensed
    supports = transforms(spec, task.hyper, rows)
    leaves, structure = jax.tree.flatten(rows)
    program = Program(spec, (structure, tuple(leaf.shape for leaf in leaves)))
    svi = delta(program)
    if svi.guide.prototype_trace is None:
        # On shapes only: the guide learns the sites, and its values are never read, because `loss` gives every location. Run
        # on numbers, NumPyro's initialisation compiles hundreds of single operations.
        jax.eval_shape(svi.init, task.key, task.hyper, rows)
    starts = unconstrain_chains(supports, start_sites(task, num_starts(task, options.num_starts)))
    minima = minimise(loss, program, (task.hyper, rows, supports), starts, options.max_iter, options.tol, task.reporter)
    sites = constrain_starts(supports, minima.points)
    ends = [_end(task, {name: leaf[s] for name, leaf in sites.items()}, value) for s, value in enumerate(minima.values)]
    on_host = {name: np.asarray(value) for name, value in sites.items()}
    later = [after for _, after in ends if after is not None]
    return Points(
        sites=on_host,
        objective=-minima.trace,
        iterations=minima.iterations,
        converged=minima.converged,
        failure=[why for why, _ in ends],
        timing=timing(minima.run_seconds, minima.compile_seconds),
        interrupted=minima.interrupted,
        last=Iteration(on_host, jax.tree.map(lambda *leaves: np.stack(leaves), *later)) if len(later) == len(ends) else None,
    )


def _end(task: Task, sites: Sites, value: float) -> tuple[str | None, Sites | None]:
    """(why a start has found no mode, or None; the sites after one more iteration of EM, or None without such an iteration).

    A start has no mode where its objective is not finite, or where a block has no mode given the expected latents: at a mode of
    the log joint every block of parameters is at its own mode.
    """
    algebra = task.model.algebra
    sound = bool(np.isfinite(value)) and abs(value) <= 1e100
    why = (
        None
        if sound
        else "the log joint is unbounded or not finite: a component collapses. Use prior=default, or fewer components"
    )
    if algebra is None or "joint" not in kinds(algebra.structure):
        return why, None
    nu, after = _iterated(algebra, task.hyper, task.prior, sites, task.condensed)
    reasons = (family.why_no_mode(nu[name]) for name, family in algebra.families)
    return why or next(filter(None, reasons), None), jax.tree.map(np.asarray, after)


@partial(jax.jit, static_argnames=("algebra",))
def _iterated(
    algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], sites: Sites, rows: Pytree
) -> tuple[dict[str, Stats], dict[str, Array]]:
    """(prior + expected statistics at a point, the sites at their mode)."""
    key = jax.random.PRNGKey(0)
    stats = local_step(algebra, "mean", hyper, key, algebra.natural(hyper, sites), rows).stats
    nu = add(dict(prior), stats)
    return nu, algebra.sites(hyper, at_mode(algebra, key, nu))
