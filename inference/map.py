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
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoDelta
from numpyro.optim import Adam

from inference.outcome import Points, Task
from inference.program import constrain, constrain_starts, transforms, unconstrain_chains
from inference.quasi_newton import minimise
from inference.start import num_starts, start_sites
from inference.sweep import local_step
from models.base import Algebra, Hyper, Pytree, Sites, Stats, add


class Options(NamedTuple):
    """Stop when the log joint gains less than ``tol``, relative; ``num_starts`` starts, the same as those of ``em``."""

    max_iter: int = 5000
    tol: float = 1e-14
    num_starts: int = 10


class Program(NamedTuple):
    """The static half of a run: the program, and the shapes that a guide is made for."""

    spec: Callable[..., Any]
    shapes: Any  # tree definition and shapes of the rows


@cache
def delta(program: Program) -> SVI:
    """SVI of a program with a delta guide; one object for equal arguments, so that jitted code recognises it."""
    return SVI(program.spec, AutoDelta(program.spec), Adam(1e-3), Trace_ELBO())


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
    return Points(
        sites={name: np.asarray(value) for name, value in sites.items()},
        objective=-minima.trace,
        iterations=minima.iterations,
        converged=minima.converged,
        failure=[
            _no_mode(task, {name: leaf[s] for name, leaf in sites.items()}, value) for s, value in enumerate(minima.values)
        ],
        timing={"compile_seconds": minima.compile_seconds, "warmup_seconds": 0.0, "run_seconds": minima.run_seconds},
        interrupted=minima.interrupted,
    )


def _no_mode(task: Task, sites: Sites, value: float) -> str | None:
    """Why a start has found no mode, in words, or None: its objective is not finite, or no mode of a block is where it ended.

    The second is EM's own question: at a mode of the log joint every block of parameters is at its mode given expected latents.
    """
    if not np.isfinite(value) or abs(value) > 1e100:
        return "the log joint is unbounded or not finite: a component collapses. Use prior=default, or fewer components"
    algebra = task.model.algebra
    if algebra is None or algebra.cycle or algebra.coupling is not None:
        return None
    nu = _nu(algebra, task.hyper, task.prior, sites, task.condensed)
    return next((why for name, family in algebra.families if (why := family.defect(nu[name]))), None)


@partial(jax.jit, static_argnames=("algebra",))
def _nu(algebra: Algebra, hyper: Hyper, prior: Mapping[str, Stats], sites: Sites, rows: Pytree) -> dict[str, Stats]:
    """Prior + expected statistics at a point."""
    return add(
        dict(prior), local_step(algebra, "mean", hyper, jax.random.PRNGKey(0), algebra.natural(hyper, sites), rows).stats
    )
