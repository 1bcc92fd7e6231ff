"""The delta guide of ``map``: its loss, and a search for its least value by NumPyro's SVI.

A delta guide puts all of q(θ) on one point. The negative ELBO is then −log p(x, θ), in the coordinates of the sites and
without noise. `SVI.run` takes the steps, by Adam (Kingma and Ba 2015, algorithm 1) of optax.

Adam alone does not arrive. Its step length does not depend on the size of the gradient, so that it circles the mode at about
its rate, and it takes every coordinate by itself. Two settings let it arrive:

- The coordinates are in units of the curvature (`units_of`), where the Hessian is about the identity near a mode.
- Adam's ε, which is added to the root of the mean squared gradient, is its rate. The step of a gradient g of constant sign is
  rate · g / (|g| + rate): the rate where g is large, and g itself where it is small, the step of Newton's method.

A window of steps counts if the loss does not rise. The rate falls where it gains nothing.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpyro import infer, optim

from inference.engine.driver import Run, drive
from inference.engine.program import constrain
from inference.engine.quasi_newton import SMALL, STALLED, Minima, second_derivatives
from inference.engine.task import Task
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from models.base import Pytree, on_host

WINDOW = 50  # steps of Adam between two looks at the loss
MEAN, SQUARE = 0.9, 0.9  # Adam's β₁ and β₂: its sums forget the way to a point within a window
FALL = 0.1  # factor of the rate after a window without gain
LEAST = 1e-8  # rate below which a start ends
FLAT = 1e-8  # least curvature, as a share of the largest
CLOSE = 1e-8  # largest slope at convergence, per standard deviation of the Gaussian at the mode
ROUNDING = 8  # units in the last place of the loss that are no gain


class DeltaProgram(NamedTuple):
    """The static half of a run: the program, and the shapes that a guide is made for."""

    spec: Callable[..., Any]
    shapes: Any  # tree definition and shapes of the rows


class Climber(NamedTuple):
    """State of one start."""

    z: dict[str, Array]  # sites on ℝ: the lowest end of a window
    units: Array  # (d,) of more than `SMALL` coordinates; fewer have new ones in every window
    rate: Array  # of Adam
    loss: Array  # at z
    slope: Array  # its largest slope, in units of the curvature
    done: Array


class WindowRecord(NamedTuple):
    loss: Array
    done: Array  # whether the start was done before


@cache
def delta(program: DeltaProgram) -> infer.SVI:
    """NumPyro's loss of a program with a delta guide; one object for equal arguments, so that jitted code recognises it."""
    return infer.SVI(program.spec, infer.autoguide.AutoDelta(program.spec), optim.Adam(1e-3), infer.Trace_ELBO())


def loss(program: DeltaProgram, arrays: tuple[Any, ...], z: Pytree) -> Array:
    """The delta guide's loss, −log p(x, θ), as a function of unconstrained coordinates of the sites."""
    hyper, rows, supports = arrays
    svi = delta(program)
    key = jax.random.PRNGKey(0)  # the objective is deterministic: no draw depends on it
    return svi.loss.loss(key, locations(constrain(supports, z)), svi.model, svi.guide, hyper, rows)


def locations(sites: Pytree) -> dict[str, Array]:
    """Values by site -> by the names that `AutoDelta` gives its parameters.

    >>> locations({"mean": 0.0})
    {'mean_auto_loc': 0.0}
    """
    return {f"{name}_auto_loc": value for name, value in sites.items()}


def units_of(curvature: Array) -> Array:
    """A root U of the inverse curvature, UUᵀ = |H|⁻¹, of a Hessian H (d, d) or of its diagonal (d,); shaped as that.

    Directions that curve down count by the size of their curvature, and none as flatter than `FLAT` times the steepest. Where
    the curvature is not finite, the unit is 1.

    >>> units_of(jnp.array([4.0, -0.25])).tolist()
    [0.5, 2.0]
    """
    if curvature.ndim == 1:
        size = jnp.abs(curvature)
        return jax.lax.rsqrt(jnp.where(jnp.isfinite(size) & (size > 0), size, 1.0))
    sound = jnp.isfinite(curvature).all() & (curvature != 0).any()
    values, vectors = jnp.linalg.eigh(jnp.where(sound, curvature, jnp.eye(len(curvature), dtype=curvature.dtype)))
    sizes = jnp.abs(values)
    return vectors * jax.lax.rsqrt(jnp.maximum(sizes, FLAT * sizes.max()))


def adam(rate: Array, units: Array) -> Any:
    """Adam as an optax transformation of all parameters as one vector, on coordinates u, of which θ = U u: slopes Uᵀg."""
    import optax

    transposed, product = (units.T, jnp.matmul) if units.ndim == 2 else (units, jnp.multiply)
    scaled = optax.adam(rate, b1=MEAN, b2=SQUARE, eps=rate)

    def init(parameters: Pytree) -> Any:
        return scaled.init(ravel_pytree(parameters)[0])

    def update(gradient: Pytree, state: Any, parameters: Pytree | None = None) -> tuple[Pytree, Any]:
        flat, unravel = ravel_pytree(gradient)
        move, state = scaled.update(product(transposed, flat), state)
        return unravel(product(units, move)), state

    return optax.GradientTransformation(init, update)


def step(program: DeltaProgram, arrays: tuple[Any, ...], key: Array, state: Climber) -> tuple[Climber, WindowRecord, Array]:
    """`WINDOW` steps of SVI of one start; it stays where the loss rises, and Adam's rate falls where it gains nothing."""
    hyper, rows, supports, tol = arrays
    start, unravel = ravel_pytree(locations(state.z))
    energy = partial(_energy, program, (hyper, rows, supports), unravel)
    units = units_of(second_derivatives(energy, start)) if start.size <= SMALL else state.units

    svi = infer.SVI(program.spec, delta(program).guide, adam(state.rate, units), infer.Trace_ELBO())
    begun = svi.init(key, hyper, rows, init_params=locations(constrain(supports, state.z)))
    begun = begun._replace(optim_state=svi.optim.init(unravel(start)))  # z itself: its digits survive no way there and back
    ran = svi.run(key, WINDOW, hyper, rows, progress_bar=False, stable_update=True, init_state=begun)
    end = svi.optim.get_params(ran.state.optim_state)

    before = ran.losses[0]
    after, gradient = jax.value_and_grad(energy)(ravel_pytree(end)[0])
    slope = jnp.abs(units.T @ gradient if units.ndim == 2 else units * gradient).max()
    little = jnp.maximum(tol, ROUNDING * jnp.finfo(after.dtype).eps) * jnp.abs(before)
    counts = (after <= before + little) & jnp.isfinite(slope)
    gains = counts & (after < before - little)
    reached = state._replace(z=_sites_of(end), loss=after, slope=slope)
    kept = jax.tree.map(lambda new, old: jnp.where(counts, new, old), reached, state._replace(loss=before))
    rate = jnp.where(gains, state.rate, FALL * state.rate)
    following = kept._replace(rate=rate, done=(kept.slope < CLOSE) | (rate < LEAST))
    following = jax.tree.map(lambda new, old: jnp.where(state.done, old, new), following, state)
    return following, WindowRecord(following.loss, state.done), following.done


def _energy(program: DeltaProgram, arrays: tuple[Any, ...], unravel: Callable[[Array], Pytree], flat: Array) -> Array:
    return loss(program, arrays, _sites_of(unravel(flat)))


def _sites_of(parameters: Pytree) -> dict[str, Array]:
    """The values of `locations` by site again."""
    return {name.removesuffix("_auto_loc"): value for name, value in parameters.items()}


@cached_jit(static_argnames=("program",))
def first_units(program: DeltaProgram, arrays: tuple[Any, ...], z: Pytree) -> Array:
    """(start, d): `units_of` the diagonal of the Hessian at every start, one after the other."""

    def one(z: Pytree) -> Array:
        flat, unravel = ravel_pytree(locations(z))
        return units_of(second_derivatives(partial(_energy, program, arrays, unravel), flat))

    return jax.lax.map(one, z)


def minimise_by_svi(
    task: Task, program: DeltaProgram, arrays: tuple[Any, ...], starts: Pytree, max_iter: int, tol: float, rate: float
) -> Minima:
    """The loss, minimised from every start (the leading axis of ``starts``) by at most ``max_iter`` steps of SVI.

    ``rate`` is Adam's first, in units of the curvature. It falls where a window of `WINDOW` steps gains less than ``tol`` times
    the loss. A start converges when its slope vanishes, or when its rate has fallen to `LEAST` where the slope is 0 up to
    rounding (`inference.engine.quasi_newton.STALLED`).
    """
    number = len(jax.tree.leaves(starts)[0])
    size = sum(leaf[0].size for leaf in jax.tree.leaves(starts))
    dtype = jax.tree.leaves(starts)[0].dtype
    units = first_units(program, arrays, starts) if size > SMALL else np.ones((number, size), dtype)
    full = partial(np.full, number, dtype=dtype)
    unknown, no = on_host(full(np.inf)), on_host(np.zeros(number, bool))
    states = Climber(jax.tree.map(np.asarray, starts), on_host(units), on_host(full(rate)), unknown, unknown, no)
    ran = drive(
        step,
        program,
        (*arrays, jnp.asarray(tol, dtype)),
        task.key,
        states,
        -(-max_iter // WINDOW),
        task.reporter,
        "climbing",
        watch=Watch(_words),
        checkpoint=task.checkpoint("windows"),
    )
    return _minima(ran)


def _minima(ran: Run) -> Minima:
    """The ends of all starts, as a quasi-Newton search gives them, with the loss by window."""
    state: Climber = ran.state
    stopped = np.asarray(ran.records.done)
    longest = int((~stopped).sum(1).max())  # the driver may finish its chunk
    slope = np.asarray(state.slope)
    return Minima(
        points=state.z,
        trace=np.where(stopped, np.nan, np.asarray(ran.records.loss))[:, :longest],
        iterations=WINDOW * (~stopped).sum(1),
        converged=(slope < CLOSE) | (np.asarray(state.done) & (slope < STALLED)),
        values=np.asarray(state.loss, dtype=np.float64),
        compile_seconds=ran.compile_seconds,
        run_seconds=ran.run_seconds,
        interrupted=ran.interrupted,
    )


def _words(record: WindowRecord) -> str:
    finite = np.asarray(record.loss)[np.isfinite(record.loss)]
    return f"log joint {-finite.min():.2f}" if len(finite) else "the log joint is not finite"
