"""The maximum where all latents are observed: one pass over the rows, and no iteration.

Every row then allows one value of its latent, so that the posterior of the parameters is the conjugate update itself,
nu = prior + Σ_n statistics(x_n, z_n), and its mode is the fixed point of EM from any start. The log joint there is that of the
evaluation that every result has.
"""

import time

import jax
import numpy as np

from inference.convergence.forecast import Forecast
from inference.engine.initialise import finite_latents, latents_observed, sites_at, start_states
from inference.engine.task import Points, Task, timing
from inference.fixed_points.fixed_point import why_no_mode
from models.algebra import at_mode, structures
from models.base import Iteration, Stats


def closed_form(task: Task, tol: float) -> Points | None:
    """The mode of the conjugate posterior, or None where it is not the maximum, or where ``tol=0`` requires iterations.

    It is the maximum if all latents are observed and all parameters are conjugate at once. Iterations start at sites that the
    user gave.
    """
    algebra = task.model.algebra
    if algebra is None or task.start is not None or tol == 0 or structures(algebra.structure) - {"collapsed"} != {"joint"}:
        return None
    if not latents_observed(task.rows) or not finite_latents(algebra, task.hyper, task.prior, task.rows):
        return None
    task.reporter.phase("adding up statistics", None)
    clock = time.perf_counter()
    T, nu, _ = start_states(task, algebra, at_mode, 1)
    sites = jax.tree.map(np.asarray, sites_at(algebra, task.hyper, T))
    seconds = time.perf_counter() - clock
    failure = why_no_mode(algebra, jax.tree.map(lambda leaf: np.asarray(leaf[0]), nu)) if _is_no_point(T) else None
    return Points(
        sites=sites,
        objective=None,
        iterations=np.ones(1, int),
        converged=np.array([failure is None]),
        failure=[failure],
        timing=timing(seconds),
        last=Iteration(sites, sites),
        forecast=Forecast(*np.full((3, 1), np.nan)),
    )


def _is_no_point(T: Stats) -> bool:
    """Whether a parameter is undefined, or a precision infinite; the logarithm of a probability may be −∞."""
    return any(bool((np.isnan(leaf) | (leaf == np.inf)).any()) for leaf in map(np.asarray, jax.tree.leaves(T)))
