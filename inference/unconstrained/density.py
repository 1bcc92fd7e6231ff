"""The posterior of a program as a log density on ℝᵈ, where its chains start, and their draws as sites."""

from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from inference.engine.driver import Run
from inference.engine.initialise import start_sites
from inference.engine.program import (
    Shapes,
    constrain_draws,
    log_jacobians,
    potential,
    ravel_chains,
    transforms,
    unconstrain_chains,
    unravel,
)
from inference.engine.requirements import require_proper
from inference.engine.task import Draws, Kind, Task
from inference.identification.random_labels import drawn_labellings, require_symmetry
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from models.base import Pytree

FLAT = 1e-4  # curvature relative to the largest: standard deviations a hundred times apart
SETTLED = 100  # iterations in which adaptation replaces a curvature far from the mode; after 20 it still makes divergences
DENSE = 64  # dimensions up to which a mass matrix is dense


class Density(NamedTuple):
    """The static half of a posterior on ℝᵈ: the program, and the shapes of its sites there. Equal densities share programs."""

    spec: Callable[..., Any]
    shapes: Shapes

    @property
    def size(self) -> int:
        """The number d of dimensions."""
        return sum(int(np.prod(shape, dtype=int)) for _, shape in self.shapes)

    def target(self, arrays: tuple[Pytree, Pytree]) -> Callable[[Array], Array]:
        """`log_density` as a function of the vector alone."""
        return partial(self.log_density, arrays)

    def log_density(self, arrays: tuple[Pytree, Pytree], flat: Array) -> Array:
        """Log p(x, z) at a vector (d,), up to a constant in z; −∞ where it or its gradient is too large to compute with."""
        return -bounded(lambda flat: potential(self.spec, *arrays, unravel(self.shapes, flat)))(flat)


class Posterior(NamedTuple):
    """The posterior of a task on ℝᵈ, and where its chains start."""

    density: Density
    arrays: tuple[Pytree, Pytree]  # hyperparameters and rows, on the device
    supports: Mapping[str, Any]  # site -> transform from ℝᵈ
    starts: np.ndarray  # (chain, d)
    path_seconds: float = 0.0  # that the search for the starts took
    warnings: tuple[str, ...] = ()  # about the starts


def posterior_on_reals(task: Task, num_chains: int, permute_components: bool = False) -> Posterior:
    """The posterior of a task; chains start overdispersed, from the points that all samplers on the program share.

    Raises `ZooError` for an improper prior, for ``permute_components`` without exchangeable components, and where no start
    has a finite log density.
    """
    require_proper(task)
    if permute_components:
        require_symmetry(task.model)
    arrays = (task.hyper, task.sufficient_rows)
    task.reporter.phase("starting chains", None)
    supports = transforms(task.model.spec, *arrays)
    shapes, starts = ravel_chains(unconstrain_chains(supports, start_sites(task, num_chains)))
    return Posterior(Density(task.model.spec, shapes), arrays, supports, starts)


def watch_of(**more: str) -> Watch:
    """The figures of chains on ℝᵈ while they run; ``more`` are columns with the statistic that each shows."""
    figures: dict[str, Callable[[Any], np.ndarray]] = {
        "log joint on ℝᵈ": lambda record: -record["potential"],
        "step size": itemgetter("step_size"),
    }
    return Watch(
        lambda record: f"log joint on ℝᵈ {-np.mean(record['potential']):.2f}",
        newest=figures | {column: itemgetter(statistic) for column, statistic in more.items()},
        totals={"divergent": itemgetter("diverging")},
    )


def draws_of_chains(
    task: Task, supports: Mapping[str, Any], run: Run, timing: dict[str, float], permute_components: bool
) -> Draws:
    """The draws of a run whose records have ``z``, sites on ℝᵈ (chain, draw, …), ``potential`` there, and statistics."""
    if run.records is None:
        return Draws(Kind.CHAINS, {}, {}, timing, interrupted=True)
    records = dict(run.records)
    z = records.pop("z")
    sites = jax.tree.map(np.asarray, constrain_draws(supports, z))
    log_joint = -np.asarray(records.pop("potential")) - np.asarray(log_jacobians(supports, z))
    if permute_components:
        sites = drawn_labellings(task, sites)
    return Draws(Kind.CHAINS, sites, records, timing, run.interrupted, log_joint=log_joint)


def draws_from_starts(
    task: Task, posterior: Posterior, run: Run, timing: Mapping[str, float], permute_components: bool
) -> Draws:
    """`draws_of_chains` with what the starts cost, as a part of the warm-up, and the warnings about them."""
    seconds = {**timing, "warmup_seconds": timing["warmup_seconds"] + posterior.path_seconds}
    draws = draws_of_chains(task, posterior.supports, run, seconds, permute_components)
    return draws._replace(warnings=posterior.warnings)


def bounded(potential: Callable[[Pytree], Array]) -> Callable[[Pytree], Array]:
    """``potential`` of a point, where it and its gradient are numbers that can be squared; +∞ with a gradient of 0 elsewhere.

    A gradient beyond that makes a momentum whose kinetic energy overflows to −∞, and NumPyro accepts the point for certain. At
    +∞ a trajectory diverges and ends. The bound is the cube root of the largest number: 6e102 in double precision.
    """

    def forward(z: Pytree) -> tuple[Array, Pytree]:
        energy, gradient = jax.value_and_grad(potential)(z)
        largest = jnp.cbrt(jnp.finfo(energy.dtype).max)
        sound = jnp.stack([(jnp.abs(leaf) < largest).all() for leaf in (energy, *jax.tree.leaves(gradient))]).all()
        return jnp.where(sound, energy, jnp.inf), jax.tree.map(lambda leaf: jnp.where(sound, leaf, 0.0), gradient)

    @jax.custom_vjp
    def value(z: Pytree) -> Array:
        return forward(z)[0]

    value.defvjp(forward, lambda gradient, weight: (jax.tree.map(lambda leaf: weight * leaf, gradient),))
    return value


def curvature_metric(potential: Callable[[Pytree], Array], z: Pytree) -> Array:
    """(D, D): inverse mass matrix to begin with, the inverse of the curvature of ``potential`` at ``z``.

    Where the curvature is negative its size counts, and no direction counts as flatter than `FLAT` times the steepest. Trees of
    the first hundred iterations would otherwise be deep where scales differ, as those of means and precisions do. Gradients are
    differenced one direction after the other: second derivatives take longer to compile, and memory for all directions at once.
    They see no detail finer than their step, 6e-6 of a coordinate or of 1: enough to begin with. Where the curvature is not
    finite, the identity remains.
    """
    point, shaped = ravel_pytree(z)
    gradient = jax.grad(lambda point: potential(shaped(point)))
    width = jnp.cbrt(jnp.finfo(point.dtype).eps) * jnp.maximum(1.0, jnp.abs(point))
    above, below = jnp.split(jax.lax.map(gradient, point + jnp.concatenate([jnp.diag(width), -jnp.diag(width)])), 2)
    curvature = (above - below) / (2 * width[:, None])
    values, vectors = jnp.linalg.eigh((curvature + curvature.T) / 2)
    sizes = jnp.maximum(jnp.abs(values), FLAT * jnp.abs(values).max())
    metric = (vectors / sizes) @ vectors.T
    return jnp.where(jnp.isfinite(metric).all(), metric, jnp.eye(len(point)))


def begins_with_curvature(density: Density, num_warmup: int) -> bool:
    """Whether chains begin with the curvature at their start: it is a matrix, and a short warm-up does not replace it."""
    return density.size <= DENSE and num_warmup >= SETTLED


@cached_jit(static_argnames=("density",))
def curvature_metrics(density: Density, arrays: tuple[Pytree, Pytree], starts: Array) -> Array:
    """(chain, d, d): the inverse mass matrix of every chain to begin with, `curvature_metric` at its start (chain, d)."""
    return jax.lax.map(partial(curvature_metric, lambda flat: -density.log_density(arrays, flat)), starts)
