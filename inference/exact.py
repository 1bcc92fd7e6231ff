"""The exact posterior: where latents are observed it is one conjugate update; where they are few, a sum over all of them.

With every label given, q(θ) = p(θ | x, z) is the conjugate family at nu = prior + statistics, and

    log p(x, z) = log p(x, z, θ) − log p(θ | x, z)    at any θ.

With missing labels the posterior is a mixture of such families over all assignments z, each weighed by its p(x, z): enumerated
up to `MOST` of them. Draws are independent, so that R-hat and effective sample size tell of their number only.
"""

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.optimise import require_algebra, require_proper, require_single_rows
from inference.outcome import Draws, Task
from inference.start import start_states
from inference.sweep import local_step, rows_weight
from models.base import Algebra, Hyper, Pytree, Stats, ZooError, add, at_mean, at_sample, inner, log_prior

VERBS = ("sample", "observed, or all summed over")  # for the table of methods
MOST = 2**20  # assignments that are enumerated
TOGETHER = 256  # of them at a time


class Options(NamedTuple):
    """``num_chains`` × ``num_samples`` independent draws."""

    num_samples: int = 1000
    num_chains: int = 4


def refuses(algebra: Algebra) -> str | None:
    """Why the method means nothing on a model, in words, or None."""
    if algebra.latent.discrete:
        return None
    return (
        "exact needs latents that labels observe, or that can be enumerated; this model's are continuous and never observed, "
        "so that its posterior has no closed form; use method=gibbs or nuts"
    )


def run(task: Task, options: Options) -> Draws:
    """Independent draws of every site, and the log evidence."""
    algebra = require_algebra(task, refuses)
    require_proper(task)
    require_single_rows(task, algebra)
    task.reporter.phase("summing over the latents", None)
    clock = time.perf_counter()
    arrays = (task.hyper, task.prior, task.rows)
    T = jax.tree.map(lambda leaf: leaf[0], start_states(task, algebra, at_mean, 1)[0])
    allowed = np.asarray(_allowed(algebra, task.hyper, task.rows, T))
    size = options.num_chains * options.num_samples
    keys = jax.random.split(jax.random.fold_in(task.key, 1), size)
    if (allowed.sum(1) == 1).all():
        log_evidence, sites = _observed(algebra, *arrays, T, keys)
    else:
        z = _assignments(allowed)
        evidence = _evidences(algebra, *arrays, T, z)
        log_evidence = jax.nn.logsumexp(evidence)
        chosen = jax.random.categorical(jax.random.fold_in(task.key, 2), evidence, shape=(size,))
        sites = _draws(algebra, *arrays, T, keys, z[chosen])
    shape = (options.num_chains, options.num_samples)
    return Draws(
        {name: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]) for name, leaf in sites.items()},
        {},
        {"compile_seconds": 0.0, "warmup_seconds": 0.0, "run_seconds": time.perf_counter() - clock},
        attrs={"log_evidence": float(log_evidence)},
    )


def _assignments(allowed: np.ndarray) -> Array:
    """Every assignment of the rows to values that ``allowed`` (N, K) permits: (A, N). Raises `ZooError` for too many."""
    choices = allowed.sum(1)
    bits = float(np.log2(choices).sum())
    if bits > np.log2(MOST):
        raise ZooError(
            f"method=exact sums over all assignments of the {int((choices > 1).sum())} rows without a label: there are "
            f"2^{bits:.0f}, and at most 2^{np.log2(MOST):.0f} can be summed. Give labels or fewer rows, or use gibbs or nuts"
        )
    digits = np.stack(np.unravel_index(np.arange(int(choices.prod())), choices), axis=1)
    values = np.argsort(~allowed, axis=1, kind="stable")  # the allowed values of every row first
    return jnp.asarray(np.take_along_axis(values[None], digits[:, :, None], axis=2)[:, :, 0])


@partial(jax.jit, static_argnames=("algebra",))
def _allowed(algebra: Algebra, hyper: Hyper, rows: Pytree, T: Stats) -> Array:
    """(N, K): the values of a row's latent that have a density at all."""
    return algebra.local(T)(algebra.features(hyper, rows)) > -jnp.inf


def _evidence(algebra: Algebra, prior: Any, T: Stats, nu: Any, energy: Array) -> Array:
    """Log p(x, z) of complete data: ``energy`` is log p(x, z | θ) at the point T, ``nu`` the conjugate update."""
    log_partition = sum(family.log_partition(nu[name]) for name, family in algebra.families)
    return energy + log_prior(algebra, prior, T) - inner(T, nu) + log_partition


@partial(jax.jit, static_argnames=("algebra",))
def _observed(
    algebra: Algebra, hyper: Hyper, prior: Any, rows: Pytree, T: Stats, keys: Array
) -> tuple[Array, dict[str, Array]]:
    """(log evidence, draws) where every row allows one value: the most probable one is it."""
    found = local_step(algebra, "mode", hyper, keys[0], T, rows)
    nu = add(dict(prior), found.stats)
    draws = jax.lax.map(lambda key: algebra.sites(hyper, at_sample(algebra, key, nu)), keys)
    return _evidence(algebra, prior, T, nu, found.energy), draws


def _complete(algebra: Algebra, hyper: Hyper, prior: Any, rows: Pytree, T: Stats, z: Array) -> tuple[Array, Any]:
    """(log p(x, z), nu) at one assignment (N,)."""
    features = algebra.features(hyper, rows)
    local = algebra.local(T)(features)
    weight = rows_weight(rows)
    latents = jax.nn.one_hot(z, local.shape[1], dtype=local.dtype)
    nu = add(dict(prior), algebra.statistics(weight, latents, features))
    return _evidence(algebra, prior, T, nu, (weight * algebra.latent.energy(latents, local)).sum()), nu


@partial(jax.jit, static_argnames=("algebra",))
def _evidences(algebra: Algebra, hyper: Hyper, prior: Any, rows: Pytree, T: Stats, z: Array) -> Array:
    """Log p(x, z) of every assignment (A, N)."""
    return jax.lax.map(lambda one: _complete(algebra, hyper, prior, rows, T, one)[0], z, batch_size=TOGETHER)


@partial(jax.jit, static_argnames=("algebra",))
def _draws(algebra: Algebra, hyper: Hyper, prior: Any, rows: Pytree, T: Stats, keys: Array, z: Array) -> dict[str, Array]:
    """One draw of the sites from p(θ | x, z) for every key and assignment."""

    def one(pair: tuple[Array, Array]) -> dict[str, Array]:
        key, assignment = pair
        nu = _complete(algebra, hyper, prior, rows, T, assignment)[1]
        return algebra.sites(hyper, at_sample(algebra, key, nu))

    return jax.lax.map(one, (keys, z))
