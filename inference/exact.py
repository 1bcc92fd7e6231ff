"""The exact posterior: where latents are observed it is one conjugate update; where they are few, a sum over all of them.

With every label given, q(θ) = p(θ | x, z) is the conjugate family at nu = prior + statistics, and

    log p(x, z) = log p(x, z, θ) − log p(θ | x, z)    at any θ.

With missing labels the posterior is a mixture of such families over all assignments z, each weighed by its p(x, z): enumerated
up to `MOST` of them. Draws are independent, so that R-hat and effective sample size tell of their number only.

A model under a flat prior has no posterior, but may know the maximum of its likelihood in closed form (``Model.maximum``).
"""

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.evaluate import evaluate
from inference.optimise import require_algebra, require_proper, require_single_rows
from inference.outcome import Draws, Points, Task
from inference.start import finite_latents, start_states
from inference.sweep import block_map, local_step, rows_weight
from models.base import Algebra, Hyper, Pytree, Stats, ZooError, add, at_mean, at_sample, inner, log_partition, log_prior

VERBS = ("sample", "observed, or all summed over")  # for the table of methods
MOST = 2**20  # assignments that are enumerated
TOGETHER = 256  # of them at a time
CONTINUOUS = (
    "exact needs latents that labels observe, or that can be enumerated; this model's are continuous and never observed, as "
    "are missing cells under a covariance matrix, or follow each other in time, so that its posterior has no closed form; use "
    "method=gibbs or nuts"
)


class Options(NamedTuple):
    """``num_chains`` × ``num_samples`` independent draws."""

    num_samples: int = 1000
    num_chains: int = 4


def refuses(algebra: Algebra) -> str | None:
    """Why the method means nothing on a model, in words, or None."""
    return None if algebra.latent.discrete else CONTINUOUS


def run(task: Task, options: Options) -> Draws | Points:
    """Independent draws of every site, and the log evidence; or the maximum of the likelihood, where that has a closed form."""
    if task.model.maximum is not None:
        return _maximum(task)
    algebra = require_algebra(task, refuses)
    require_proper(task)
    if not finite_latents(algebra, task.hyper, task.prior, task.rows):
        raise ZooError(f"{task.model.name}: {CONTINUOUS}")
    require_single_rows(task, algebra)
    task.reporter.phase("summing over the latents", None)
    clock = time.perf_counter()
    T = jax.tree.map(lambda leaf: leaf[0], start_states(task, algebra, at_mean, 1)[0])
    allowed = np.asarray(_allowed(algebra, task.hyper, task.rows, T))
    rows, weight, z = _open_rows(task.rows, allowed)
    fixed = _fixed(algebra, task.hyper, task.prior, T, task.rows, jnp.asarray(allowed.sum(1) == 1))
    arrays = (task.hyper, task.prior, T, fixed, rows, weight)
    evidence = np.asarray(_evidences(algebra, *arrays, z), dtype=np.float64)
    size = options.num_chains * options.num_samples
    cumulative = np.cumsum(np.exp(evidence - evidence.max()))
    share = np.asarray(jax.random.uniform(jax.random.fold_in(task.key, 2), (size,)))
    chosen = np.searchsorted(cumulative, share * cumulative[-1], side="right")
    sites = _draws(algebra, *arrays, jax.random.split(jax.random.fold_in(task.key, 1), size), z[chosen])
    shape = (options.num_chains, options.num_samples)
    return Draws(
        {name: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]) for name, leaf in sites.items()},
        {},
        {"compile_seconds": 0.0, "warmup_seconds": 0.0, "run_seconds": time.perf_counter() - clock},
        attrs={"log_evidence": float(evidence.max() + np.log(cumulative[-1]))},
    )


def _maximum(task: Task) -> Points:
    assert task.model.maximum is not None
    clock = time.perf_counter()
    found = task.model.maximum(jax.tree.map(np.asarray, task.condensed))
    sites = {name: np.asarray(leaf)[None] for name, leaf in found.items()}
    one = np.ones(1)
    return Points(
        sites=sites,
        objective=evaluate(task.model, task.hyper, task.prior, task.condensed, sites).log_joint[None],
        iterations=one.astype(int),
        converged=one.astype(bool),
        failure=[None],
        timing={"compile_seconds": 0.0, "warmup_seconds": 0.0, "run_seconds": time.perf_counter() - clock},
    )


class Fixed(NamedTuple):
    """What the rows bring whose latent is observed: nu = prior + statistics, and their log p(x, z | θ) at the point T."""

    nu: Stats
    energy: Array


def _open_rows(rows: Pytree, allowed: np.ndarray) -> tuple[Pytree, Array, np.ndarray]:
    """(the F rows that allow several values, their weights, all assignments (A, F)). Raises `ZooError` for too many.

    Where every latent is observed it is the first row with weight 0, and one assignment.
    """
    choices = allowed.sum(1)
    weight = getattr(rows, "weight", None)
    several = np.flatnonzero((choices > 1) & (True if weight is None else np.asarray(weight) > 0))  # others bring nothing
    bits = float(np.log2(choices[several]).sum())
    if bits > np.log2(MOST):
        raise ZooError(
            f"method=exact sums over all assignments of the {len(several)} rows without a label: there are 2^{bits:.0f}, and "
            f"at most 2^{np.log2(MOST):.0f} can be summed. Give labels or fewer rows, or use gibbs or nuts"
        )
    places = several if len(several) else np.zeros(1, dtype=int)
    some = jax.tree.map(lambda leaf: leaf[places], rows)
    weight = rows_weight(some) if len(several) else jnp.zeros(1)
    if not len(several):
        return some, weight, allowed[:1].argmax(1)[None].astype(np.int8)
    digits = np.stack(np.unravel_index(np.arange(int(choices[several].prod())), choices[several]), axis=1).astype(np.int8)
    values = np.argsort(~allowed[several], axis=1, kind="stable").astype(np.int8)  # the allowed values of every row first
    return some, weight, values[np.arange(len(several))[None, :], digits]


@partial(jax.jit, static_argnames=("algebra",))
def _allowed(algebra: Algebra, hyper: Hyper, rows: Pytree, T: Stats) -> Array:
    """(N, K): the values of a row's latent that have a density at all."""
    natural_parameters = algebra.local(T)
    return block_map(lambda rows: natural_parameters(algebra.features(hyper, rows)) > -jnp.inf, rows)


@partial(jax.jit, static_argnames=("algebra",))
def _fixed(algebra: Algebra, hyper: Hyper, prior: Any, T: Stats, rows: Pytree, observed: Array) -> Fixed:
    """The rows of which one value only is possible: it is the most probable one."""
    counted = rows._replace(weight=jnp.where(observed, rows_weight(rows), 0))
    found = local_step(algebra, "mode", hyper, jax.random.PRNGKey(0), T, counted)
    return Fixed(add(dict(prior), found.stats), found.energy)


def _complete(
    algebra: Algebra, hyper: Hyper, prior: Any, T: Stats, fixed: Fixed, rows: Pytree, weight: Array, z: Array
) -> tuple[Array, Any]:
    """(log p(x, z), nu) at one assignment (F,) of the open rows: log p(x, z, θ) − log p(θ | x, z) at the point T."""
    features = algebra.features(hyper, rows)
    local = algebra.local(T)(features)
    latents = jax.nn.one_hot(z, local.shape[1], dtype=local.dtype)
    nu = add(fixed.nu, algebra.statistics(weight, latents, features))
    energy = fixed.energy + (weight * algebra.latent.energy(latents, local)).sum()
    return energy + log_prior(algebra, prior, T) - inner(T, nu) + log_partition(algebra, nu), nu


@partial(jax.jit, static_argnames=("algebra",))
def _evidences(
    algebra: Algebra, hyper: Hyper, prior: Any, T: Stats, fixed: Fixed, rows: Pytree, weight: Array, z: Array
) -> Array:
    """Log p(x, z) of every assignment (A, F)."""
    one = partial(_complete, algebra, hyper, prior, T, fixed, rows, weight)
    return jax.lax.map(lambda z: one(z)[0], z, batch_size=TOGETHER)


@partial(jax.jit, static_argnames=("algebra",))
def _draws(
    algebra: Algebra, hyper: Hyper, prior: Any, T: Stats, fixed: Fixed, rows: Pytree, weight: Array, keys: Array, z: Array
) -> dict[str, Array]:
    """One draw of the sites from p(θ | x, z) for every key and assignment."""

    def one(pair: tuple[Array, Array]) -> dict[str, Array]:
        key, assignment = pair
        nu = _complete(algebra, hyper, prior, T, fixed, rows, weight, assignment)[1]
        return algebra.sites(hyper, at_sample(algebra, key, nu))

    return jax.lax.map(one, (keys, z))
