"""Pathfinder (Zhang, Carpenter, Gelman and Vehtari 2022), by BlackJAX: the best Gaussian along a quasi-Newton search.

From each start L-BFGS goes towards a mode. Every point x of its path has a Gaussian N(x + Σ ∇log p(x), Σ), where Σ is the
inverse Hessian that L-BFGS has gathered so far. The best of a path has the largest evidence lower bound (ELBO) by `ELBO_DRAWS`
draws, and lies where the mass is rather than at the mode. The draws are of the best path. Their weights p / q give a Pareto
k-hat: above 0.7 the Gaussian is not good enough. A smaller one does not show that it is.

A path costs some hundred gradients: the fastest look at a posterior on ℝᵈ. How it can mislead: q covers one mode and one
labelling, its tails are Gaussian, and paths may all end at the same of several modes. Where factors may be rotated, q keeps to
some of the rotations, and no k-hat is given.
"""

import time
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.engine.program import constrain_draws, constrain_starts, unravel
from inference.engine.sweep import block_map
from inference.engine.task import Draws, Points, Task, approximation, timing
from inference.methods.advi import bound_and_weights, why_no_weights
from inference.methods.method import Method
from inference.methods.options import NumChains, NumSamples, NumStarts, Setting
from inference.runtime.programs import cached_jit
from inference.unconstrained.density import Density, posterior_on_reals
from models.base import Pytree, ZooError

ELBO_DRAWS = 100  # behind the ELBO of a point of a path
COMPARED = 1000  # draws by which paths are compared
HISTORY = 10  # steps that an inverse Hessian remembers
DRAWS_AT_ONCE = 64  # whose densities are computed at a time


class Options(NamedTuple):
    """The best of ``num_starts`` paths of at most ``max_iter`` steps; ``num_chains`` × ``num_samples`` draws of it."""

    max_iter: Annotated[int, Setting("steps of L-BFGS, at most")] = 100
    num_starts: NumStarts = 8
    num_samples: NumSamples = 1000
    num_chains: NumChains = 4


class Path(NamedTuple):
    """The outcome of one path."""

    best: Pytree  # BlackJAX's state of the Gaussian, with the gradient of log p
    end: Array  # (d,): the last point of the path
    elbos: Array  # (max_iter + 1,): along the path, −∞ after its end
    elbo: Array  # of the best, from `COMPARED` draws of their own


@cached_jit(static_argnames=("density", "max_iter"))
def paths(density: Density, max_iter: int, arrays: tuple[Pytree, Pytree], keys: Array, starts: Array) -> Path:
    """The path from every start (S, d)."""
    from blackjax.vi import pathfinder

    def one(key: Array, start: Array) -> Path:
        of_path, of_bounds, of_best = jax.random.split(key, 3)
        target = density.target(arrays)
        _, info = pathfinder.approximate(of_path, target, start, 1, maxiter=max_iter, maxcor=HISTORY)
        # BlackJAX 1.7 has the gradients of −log p here, and takes them for those of log p: its Gaussians are on the wrong side
        # of a point. So gradients and bounds are computed anew.
        points = info.path._replace(grad_position=jax.lax.map(jax.grad(target), info.path.position))
        of_points = jax.random.split(of_bounds, max_iter + 1)
        bounds = jax.lax.map(lambda each: bound(density, ELBO_DRAWS, arrays, *each), (of_points, points))
        elbos = jnp.where(jnp.isfinite(bounds) & jnp.isfinite(info.path.elbo), bounds, -jnp.inf)
        best = jax.tree.map(lambda leaf: leaf[elbos.argmax()], points)
        last = jnp.where(jnp.isfinite(info.path.elbo), jnp.arange(max_iter + 1), 0).max()
        return Path(best, info.path.position[last], elbos, bound(density, COMPARED, arrays, of_best, best))

    return jax.lax.map(lambda each: one(*each), (keys, starts))


def bound(density: Density, number: int, arrays: tuple[Pytree, Pytree], key: Array, gaussian: Pytree) -> Array:
    """The ELBO of a Gaussian, from ``number`` draws."""
    flat, log_q = drawn(density, number, key, gaussian)
    return (log_densities(density, arrays, flat) - log_q).mean()


@cached_jit(static_argnames=("density", "number"))
def drawn(density: Density, number: int, key: Array, gaussian: Pytree) -> tuple[Array, Array]:
    """(draws (number, d) of a Gaussian, log q of each)."""
    from blackjax.vi import pathfinder

    flat, log_q = pathfinder.sample(key, gaussian, number)
    return flat, log_q


@cached_jit(static_argnames=("density",))
def log_densities(density: Density, arrays: tuple[Pytree, Pytree], flat: Array) -> Array:
    """Log p(x, z), (S,), at points (S, d)."""
    return block_map(jax.vmap(lambda flat: density.log_density(arrays, flat)), flat, DRAWS_AT_ONCE)


def run(task: Task, options: Options) -> Draws:
    """Draws of the best Gaussian, its ELBO with the standard error, and the weights p / q."""
    posterior = posterior_on_reals(task, options.num_starts)
    density, arrays, supports = posterior.density, posterior.arrays, posterior.supports
    task.reporter.phase("finding paths", None)
    of_draws, *keys = np.asarray(jax.random.split(jax.random.fold_in(task.key, 1), options.num_starts + 1))
    clock = time.perf_counter()
    ended: Path = jax.tree.map(np.asarray, paths(density, options.max_iter, arrays, np.stack(keys), posterior.starts))
    seconds = time.perf_counter() - clock
    if not np.isfinite(ended.elbo).any():
        raise ZooError(
            "pathfinder: the evidence lower bound is finite on no path, because the Gaussians reach parameters at which the "
            "data are impossible or the density overflows; check the program and the scale of the data, or use method=nuts"
        )
    best = int(np.where(np.isfinite(ended.elbo), ended.elbo, -np.inf).argmax())
    size = (options.num_chains, options.num_samples)
    end = jax.tree.map(lambda leaf: leaf[best], ended.best)
    flat, log_q = (np.asarray(value) for value in drawn(density, size[0] * size[1], of_draws, end))
    why = why_no_weights(task)

    def weighed(arrays: tuple[Pytree, Pytree]) -> dict[str, Any]:
        ratios = np.asarray(log_densities(density, arrays, flat), np.float64) - log_q
        return bound_and_weights(ratios.reshape(size), best, why)

    def recompute_in_double(double: Task) -> Draws:
        return outcome._replace(**weighed((double.hyper, double.sufficient_rows)))

    draws = constrain_draws(supports, unravel(density.shapes, flat.reshape(*size, -1)))
    middle = constrain_starts(supports, unravel(density.shapes, jnp.asarray(ended.end)))
    outcome = approximation(draws, _points(middle, ended, seconds), recompute_in_double, weighed(arrays))
    return outcome


def _points(middle: dict[str, Array], ended: Path, seconds: float) -> Points:
    """The search: the ELBO of every path by step, last from draws of their own, and the end of the path."""
    elbos = np.where(np.isfinite(ended.elbos), ended.elbos, np.nan)
    steps = np.isfinite(elbos).sum(1)
    return Points(
        sites={name: np.asarray(leaf) for name, leaf in middle.items()},
        objective=np.concatenate([elbos[:, : max(1, steps.max())], ended.elbo[:, None]], axis=1),
        iterations=steps,
        converged=np.isfinite(ended.elbo) & ~np.isfinite(elbos[:, -1]),
        failure=[None if np.isfinite(elbo) else "the evidence lower bound is not finite" for elbo in ended.elbo],
        timing=timing(seconds),
        repeatable=False,
    )


METHOD = Method(
    name="pathfinder",
    summary="the best Gaussian along quasi-Newton paths on the NumPyro program, by BlackJAX; draws from it",
    options=Options,
    run=run,
    claim="approximate",
    evidence=("bias", "predictions"),
)
