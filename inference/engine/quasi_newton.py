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

from inference.engine.driver import one_blas_thread
from inference.engine.evaluations import Evaluations
from inference.engine.sweep import block_map
from inference.runtime.checkpoints import Checkpoint
from inference.runtime.progress import Reporter
from inference.runtime.signals import interruptible
from models.base import Pytree

MEMORY = 30  # pairs kept; the problems are small
GRADIENT = 1e-6  # largest component of the scaled gradient at convergence: ½ 1e-12 of the objective per coordinate
SMALL = 64  # coordinates up to which a whole Hessian is returned where its diagonal is computed
OFF_LIMITS = 1e300  # stands for an objective that is not finite, or whose gradient is not
STALLED = 3e-3  # the same where the line search finds no lower point, because the objective is rounded: 5e-6 nats

Objective = Callable[[Any, Pytree, Pytree], Array]  # (static, arrays, point) -> scalar to minimise


class Minimum(NamedTuple):
    """The end of one start, on the host."""

    point: np.ndarray
    value: float
    settled: bool
    iterations: int


class Minima(NamedTuple):
    """One entry per start."""

    points: Pytree  # stacked along a leading axis
    trace: np.ndarray  # (start, iteration): the objective by iteration, NaN after a start stopped
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
    checkpoint: Checkpoint | None = None,
    curve: Callable[[Array], Array | np.ndarray] | None = None,
) -> Minima:
    """Minimise ``objective(static, arrays, point)`` from every start (the leading axis of ``starts``).

    Coordinates are scaled by the curvature at the start, so that neither the path nor the test of the gradient depends on the
    units of the data. ``curve`` gives the curvature (d,) at a vector, by a program of the caller; `jnp.ones_like`
    is for coordinates that have no units.

    A start converges when the objective falls by less than ``tol`` times its fall so far (1 at least), or its gradient
    vanishes. With ``tol=0`` it runs until the line search finds no lower point or ``max_iter`` is reached. A run continues from
    its ``checkpoint`` where that file exists, by the evaluations that it holds.
    """
    first, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], starts))
    first = jnp.asarray(np.asarray(first))  # placed as later points are: else every program is compiled twice
    evaluate = partial(_value_and_grad, objective, static, unravel, arrays)
    evaluations = Evaluations(evaluate, first, checkpoint)
    curve = curve or partial(_curvature, objective, static, unravel, arrays)
    reporter.phase("compiling", None)
    clock = time.perf_counter()
    jax.block_until_ready((evaluate(first), curve(first)))
    compile_seconds = time.perf_counter() - clock

    flat_starts = np.asarray(jax.vmap(lambda point: ravel_pytree(point)[0])(starts), dtype=np.float64)
    minima: list[Minimum] = []
    traces: list[list[float]] = []
    clock = time.perf_counter()
    # The vectors are short: BLAS threads would spend more time spinning next to JAX's threads than working.
    with interruptible() as stop, one_blas_thread():
        for s, flat in enumerate(flat_starts):
            if stop.is_set() and minima:
                break
            reporter.phase(f"start {s + 1} of {len(flat_starts)}", max_iter)
            minimum, trace = _from_start(
                evaluations, curve, flat, first.dtype, max_iter, tol, partial(_visitor, reporter, stop)
            )
            minima.append(minimum)
            traces.append(trace)
        last = minima[-1]
        interrupted = stop.is_set() and (len(minima) < len(flat_starts) or not (last.settled or last.iterations >= max_iter))
        stop.heeded |= interrupted
    if interrupted or not all(minimum.settled for minimum in minima):  # otherwise no run continues from here
        evaluations.store()
    run_seconds = evaluations.seconds_before + time.perf_counter() - clock
    longest = max(1, *(len(trace) for trace in traces))
    return Minima(
        points=jax.vmap(unravel)(jnp.asarray(np.stack([minimum.point for minimum in minima]), first.dtype)),
        trace=np.array([trace + [np.nan] * (longest - len(trace)) for trace in traces]),
        iterations=np.array([minimum.iterations for minimum in minima]),
        converged=np.array([minimum.settled for minimum in minima]),
        values=np.array([minimum.value for minimum in minima]),
        compile_seconds=compile_seconds,
        run_seconds=run_seconds,
        interrupted=interrupted,
    )


def value_at(objective: Objective, static: Hashable, arrays: Pytree, point: Pytree) -> float:
    """The objective at one point, by the code that `minimise` has compiled for it."""
    flat, unravel = ravel_pytree(point)
    return float(_value_and_grad(objective, static, unravel, arrays, flat)[0])


def hessian_at(objective: Objective, static: Hashable, arrays: Pytree, point: Pytree) -> np.ndarray:
    """The Hessian (d, d) at one point of at most `SMALL` coordinates, by the code that `minimise` has compiled for it."""
    flat, unravel = ravel_pytree(point)
    if flat.size > SMALL:
        raise ValueError(f"{flat.size} coordinates are more than {SMALL}")
    return np.asarray(_products(objective, static, unravel, arrays, flat), dtype=np.float64)


def _from_start(
    call: Callable[[Array], tuple[Any, Any]],
    curve: Callable[[Array], Array | np.ndarray],
    flat: np.ndarray,
    dtype: Any,
    max_iter: int,
    tol: float,
    visitor: Callable[[list[float], float], Callable[..., None]],
) -> tuple[Minimum, list[float]]:
    """(the end of one start, its objective by iteration), by coordinates scaled with the curvature at the start."""
    trace: list[float] = []
    scale = np.nan_to_num(_units(curve, jnp.asarray(flat, dtype)), nan=1.0)
    options: Any = {"maxiter": max_iter, "maxfun": 20 * max_iter, "maxcor": MEMORY, "ftol": tol, "gtol": GRADIENT}
    first_value = float(call(jnp.asarray(flat, dtype))[0])
    level = first_value if np.isfinite(first_value) else 0.0
    function: Any = partial(_host, call, scale, level)
    visit: Any = visitor(trace, level)
    result = minimize(function, flat / scale, jac=True, method="L-BFGS-B", callback=visit, options=options)
    reached = float(result.fun) + level
    point = result.x * scale
    settled = _settled(result, lambda: _units(curve, jnp.asarray(point, dtype)) / scale)
    # A start at the optimum takes no iteration.
    return Minimum(point, reached, settled, int(result.nit)), trace or [reached]


def _units(curve: Callable[[Array], Array | np.ndarray], point: Array) -> np.ndarray:
    """(d,): 1 / √curvature of each coordinate at a point; NaN where it has none."""
    curvature = np.abs(np.asarray(curve(point)))
    sound = np.isfinite(curvature) & (curvature > 0)
    return 1 / np.sqrt(np.where(sound, curvature, np.nan))


def _visitor(reporter: Reporter, stop: Event, trace: list[float], level: float) -> Callable[..., None]:
    def visit(intermediate_result: Any) -> None:  # SciPy looks for an argument of this name
        trace.append(float(intermediate_result.fun) + level)
        reporter.update(len(trace), f"log joint {-trace[-1]:.2f}", {})
        if stop.is_set():
            raise StopIteration

    return visit


def _curvature(objective: Objective, static: Hashable, unravel: Any, arrays: Pytree, flat: Array) -> np.ndarray:
    """The diagonal of the Hessian (d,) at a vector."""
    products = np.asarray(_products(objective, static, unravel, arrays, flat))
    return np.diagonal(products) if products.ndim == 2 else products


@partial(jax.jit, static_argnames=("objective", "static", "unravel"))
def _products(objective: Objective, static: Hashable, unravel: Any, arrays: Pytree, flat: Array) -> Array:
    return second_derivatives(lambda flat: objective(static, arrays, unravel(flat)), flat)


def second_derivatives(function: Callable[[Array], Array], flat: Array) -> Array:
    """The Hessian (d, d) at a vector, one product with a unit vector at a time; of a large one the diagonal (d,) alone.

    >>> second_derivatives(lambda x: x[0] ** 2 * x[1], jnp.array([1.0, 3.0])).tolist()
    [[6.0, 2.0], [2.0, 0.0]]
    """
    gradient = jax.grad(function)

    def product(index: Array) -> Array:
        unit = jnp.zeros_like(flat).at[index].set(1.0)
        row = jax.jvp(gradient, (flat,), (unit,))[1]
        return row if flat.size <= SMALL else row[index]

    return block_map(jax.vmap(product), jnp.arange(flat.size), 16)


def _settled(result: Any, units: Callable[[], np.ndarray]) -> bool:
    """Whether SciPy's tests have passed (status 0), or its line search failed (2) where the gradient is 0 up to rounding.

    A rounded objective hides the larger a gradient the more it is curved. The curvature may have grown by many orders since the
    start, as where a noise goes to 0. ``units`` are 1 / √curvature at the end, in those of the start; the smaller one counts.
    A start that stayed at a point without a finite gradient has not converged.
    """
    if result.fun >= OFF_LIMITS:
        return False
    if result.status != 2:
        return bool(result.status == 0)
    return bool((np.abs(result.jac) * np.fmin(1, units())).max() < STALLED)


def _host(
    call: Callable[[Array], tuple[Any, Any]], scale: np.ndarray, level: float, flat: np.ndarray
) -> tuple[float, np.ndarray]:
    """(objective − ``level``, its gradient). SciPy's line search backs away from a very large value, but not from NaN.

    A point whose gradient is not finite gets that large value as well: a gradient of 0 alone would look like a mode.
    """
    value, gradient = call(jnp.asarray(flat * scale, float))
    slope = np.asarray(gradient, dtype=np.float64) * scale
    if not (np.isfinite(value) and np.isfinite(slope).all()):
        return OFF_LIMITS, np.zeros_like(flat)
    return float(value) - level, slope
