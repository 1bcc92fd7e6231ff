"""Quasi-Newton maximisation of a deterministic objective from several starts: SciPy's L-BFGS-B on a jitted gradient."""

import time
from collections.abc import Callable, Hashable
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from inference.chains import interruptible, one_blas_thread
from inference.progress import Reporter
from models.base import Pytree

MEMORY = 30  # pairs kept; the problems are small
GRADIENT = 1e-6  # largest component of the scaled gradient at convergence: ½ 1e-12 from the optimum a coordinate
STALLED = 1e-3  # the same, where the line search finds no lower point: rounding of the objective hides the rest

Objective = Callable[[Any, Pytree, Pytree], Array]  # (static, arrays, point) -> scalar to minimise


class Minimum(NamedTuple):
    """Where one start ended, on the host."""

    point: np.ndarray
    value: float
    settled: bool
    iterations: int


class Minima(NamedTuple):
    """One entry a start."""

    points: Pytree  # stacked along a leading axis
    trace: np.ndarray  # (start, iteration): the objective as it went, NaN after a start stopped
    iterations: np.ndarray
    converged: np.ndarray
    values: np.ndarray  # (start,): the objective at the points
    compile_seconds: float
    run_seconds: float
    interrupted: bool


@partial(jax.jit, static_argnames=("objective", "static", "unravel"))
def _value_and_grad(objective: Objective, static: Hashable, unravel: Any, arrays: Pytree, flat: Array) -> tuple[Array, Array]:
    return jax.value_and_grad(lambda flat: objective(static, arrays, unravel(flat)))(flat)


def minimise(
    objective: Objective,
    static: Hashable,
    arrays: Pytree,
    starts: Pytree,
    max_iter: int,
    tol: float,
    reporter: Reporter,
) -> Minima:
    """Minimise ``objective(static, arrays, point)`` from every start (the leading axis of ``starts``).

    Coordinates are scaled by the curvature at the start, so that neither the path nor the test of the gradient depends on the
    units of the data.

    A start converges when the objective falls by less than ``tol`` (relative), or its gradient vanishes; ``tol=0`` runs on
    until the line search finds no lower point or ``max_iter`` is reached.
    """
    first, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], starts))
    call = partial(_value_and_grad, objective, static, unravel, arrays)
    reporter.phase("compiling", None)
    clock = time.perf_counter()
    jax.block_until_ready((call(first), _curvature(objective, static, unravel, arrays, first)))
    compile_seconds = time.perf_counter() - clock

    flat_starts = np.asarray(jax.vmap(lambda point: ravel_pytree(point)[0])(starts), dtype=np.float64)
    found: list[Minimum] = []
    traces: list[list[float]] = []
    clock = time.perf_counter()
    # The vectors are short: BLAS threads would spin against JAX's for longer than they work.
    with interruptible() as stop, one_blas_thread():
        for s, flat in enumerate(flat_starts):
            if stop.is_set() and found:
                break
            reporter.phase(f"start {s + 1} of {len(flat_starts)}", max_iter)
            trace: list[float] = []
            curvature = np.abs(np.asarray(_curvature(objective, static, unravel, arrays, jnp.asarray(flat, first.dtype))))
            sound = np.isfinite(curvature) & (curvature > 0)
            scale = np.where(sound, 1 / np.sqrt(np.where(sound, curvature, 1.0)), 1.0)
            options: Any = {"maxiter": max_iter, "maxfun": 20 * max_iter, "maxcor": MEMORY, "ftol": tol, "gtol": GRADIENT}
            function: Any = partial(_host, call, scale)
            visit: Any = _visitor(trace, reporter, stop)
            result = minimize(function, flat / scale, jac=True, method="L-BFGS-B", callback=visit, options=options)
            found.append(Minimum(result.x * scale, float(result.fun), _settled(result), int(result.nit)))
            traces.append(trace or [float(result.fun)])  # a start at the optimum takes no iteration
    run_seconds = time.perf_counter() - clock
    longest = max(1, *(len(trace) for trace in traces))
    return Minima(
        points=jax.vmap(unravel)(jnp.asarray(np.stack([minimum.point for minimum in found]), first.dtype)),
        trace=np.array([trace + [np.nan] * (longest - len(trace)) for trace in traces]),
        iterations=np.array([minimum.iterations for minimum in found]),
        converged=np.array([minimum.settled for minimum in found]),
        values=np.array([minimum.value for minimum in found]),
        compile_seconds=compile_seconds,
        run_seconds=run_seconds,
        interrupted=stop.is_set(),
    )


def _visitor(trace: list[float], reporter: Reporter, stop: Event) -> Callable[..., None]:
    def visit(intermediate_result: Any) -> None:  # SciPy looks for an argument of this name
        trace.append(float(intermediate_result.fun))
        reporter.update(len(trace), f"log joint {-trace[-1]:.2f}")
        if stop.is_set():
            raise StopIteration

    return visit


@partial(jax.jit, static_argnames=("objective", "static", "unravel"))
def _curvature(objective: Objective, static: Hashable, unravel: Any, arrays: Pytree, flat: Array) -> Array:
    """The diagonal of the Hessian, one product with a unit vector at a time."""
    gradient = jax.grad(lambda flat: objective(static, arrays, unravel(flat)))

    def entry(index: Array) -> Array:
        unit = jnp.zeros_like(flat).at[index].set(1.0)
        return jax.jvp(gradient, (flat,), (unit,))[1][index]

    return jax.lax.map(entry, jnp.arange(flat.size), batch_size=16)


def _settled(result: Any) -> bool:
    """Converged by its own tests (0), or a line search that failed (2) where the gradient has vanished but for rounding."""
    return bool(result.status == 0 or (result.status == 2 and np.abs(result.jac).max() < STALLED))


def _host(call: Callable[[Array], tuple[Array, Array]], scale: np.ndarray, flat: np.ndarray) -> tuple[float, np.ndarray]:
    """SciPy's line search backs away from a very large value, but not from NaN."""
    value, gradient = call(jnp.asarray(flat * scale, float))
    if not np.isfinite(value):
        return 1e300, np.zeros_like(flat)
    return float(value), np.nan_to_num(np.asarray(gradient, dtype=np.float64) * scale)
