"""The two proposals of bridge sampling, fitted to one half of the draws of a posterior, and the log ratios p* / q of the other.

**Conjugate** (Frühwirth-Schnatter 2004, section 3.3). Let all parameters be conjugate given the latents. For draws θ_m of the
first half draw latents z_m given θ_m, and take the mean of the conditional posteriors:

    q(θ) = (1 / M) Σ_m p(θ | x, z_m),    p(θ | x, z_m) = exp(⟨T(θ), nu_m⟩ − log Z(nu_m)),    nu_m = prior + statistics(x, z_m)

It has the tails of the posterior, several modes if that has some, and an empty component that follows the prior. Where latents
are known, as for one component or with all labels, q is the posterior, and the evidence has no error. Densities are in the
coordinates of the program's sites.

**Warp** (Meng and Schilling 2002; Gronau, Wagenmakers, Heck and Matzke 2019), for any program. On ℝᵈ let m and L Lᵀ be mean and
covariance of the first half. As the normaliser of p* is that of

    p*_III(u) = |L| (p*(m + L u) + p*(m − L u)) / 2

the proposal is Normal(0, I) for u: mean and covariance match, and neither side is skew.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.linalg import solve_triangular

from inference.engine.evaluate import evaluate
from inference.engine.program import constrain_draws, log_jacobians, ravel_chains, transforms, unconstrain_chains, unravel
from inference.engine.sweep import local_step
from inference.engine.task import Task
from inference.evidence.images import Draws, Image
from inference.evidence.two_samples import Ratios
from inference.results.draws import number_of, thinned
from inference.runtime.programs import cached_jit
from models.algebra import add, at_sample, log_partition, structures
from models.base import Algebra, Hyper, Pytree, Sites, Stats, ZooError

CONDITIONALS = 1000  # of the conjugate proposal
AT_ONCE = 512  # draws whose densities under all conditionals are computed together
LEAST_DRAWS = 4  # draws per dimension of a covariance


class Halves(NamedTuple):
    """Draws (S, …) in the image, which fit the proposal; those that enter the bridge, and in how many chains they are."""

    first: Draws
    second: Draws
    num_chains: int


def is_conjugate(task: Task) -> bool:
    """Whether the conditional posterior of all parameters given the latents is in the model's families."""
    algebra = task.model.algebra
    if algebra is None or task.moments or not algebra.families:
        return False
    return "joint" in structures(algebra.structure) and not algebra.structure.local


# ---------------------------------------------------------------------------------------------------------------------
# Conjugate


def conjugate_ratios(task: Task, image: Image, halves: Halves, number: int) -> Ratios:
    """Log p* / q at the second half and at ``number`` draws of the mean of conditional posteriors."""
    algebra, arrays = task.model.algebra, (task.hyper, task.prior)
    assert algebra is not None
    keys = jax.random.split(task.key, 3)
    some = thinned(halves.first, CONDITIONALS)
    size = number_of(some)
    nu = _conditionals(algebra, *arrays, task.rows_on_device, jax.random.split(keys[0], size), _on_device(some))
    chosen = jax.random.randint(keys[1], (number,), 0, size)
    proposed = jax.tree.map(np.asarray, _drawn(algebra, task.hyper, nu, chosen, jax.random.split(keys[2], number)))
    ratios = [
        _log_density(task, image, draws) - _log_mean_density(algebra, task.hyper, nu, draws)
        for draws in (halves.second, proposed)
    ]
    return Ratios(ratios[0].reshape(halves.num_chains, -1), ratios[1])


@cached_jit(static_argnames=("algebra",))
def _conditionals(algebra: Algebra, hyper: Hyper, prior: Any, rows: Pytree, keys: Array, draws: Sites) -> Stats:
    """(M, …): nu of the conditional posterior given latents drawn at each of M points."""

    def one(inputs: tuple[Array, Sites]) -> Stats:
        key, sites = inputs
        T = algebra.natural(hyper, sites)
        return add(dict(prior), local_step(algebra, "sample", hyper, key, T, rows).stats)

    return jax.lax.map(one, (keys, draws))


@cached_jit(static_argnames=("algebra",))
def _drawn(algebra: Algebra, hyper: Hyper, nu: Stats, chosen: Array, keys: Array) -> Sites:
    """(R, …): sites of one draw from each of the conditionals ``chosen`` (R,)."""

    def one(inputs: tuple[Array, Array]) -> Sites:
        index, key = inputs
        return algebra.sites(hyper, at_sample(algebra, key, jax.tree.map(lambda leaf: leaf[index], nu)))

    return jax.lax.map(one, (chosen, keys))


def _log_mean_density(algebra: Algebra, hyper: Hyper, nu: Stats, draws: Draws) -> np.ndarray:
    """(S,): log q at draws, in parts of `AT_ONCE`."""
    parts = [
        _log_mean_density_at(
            algebra, hyper, nu, _on_device({name: value[first : first + AT_ONCE] for name, value in draws.items()})
        )
        for first in range(0, number_of(draws), AT_ONCE)
    ]
    return np.concatenate([np.asarray(part) for part in parts])


@cached_jit(static_argnames=("algebra",))
def _log_mean_density_at(algebra: Algebra, hyper: Hyper, nu: Stats, draws: Sites) -> Array:
    T = _as_rows({name: leaf for name, leaf in jax.vmap(partial(algebra.natural, hyper))(draws).items() if name in nu})
    finite = jnp.where(-jnp.inf == T, jnp.finfo(T.dtype).min, T)  # so that 0 · (−∞) = 0, as in `models.algebra.inner`
    normalisers = jax.lax.map(partial(log_partition, algebra), nu)
    return jax.nn.logsumexp(finite @ _as_rows(nu).T - normalisers, axis=1) - jnp.log(len(normalisers))


def _as_rows(stats: Stats) -> Array:
    """(S, P): statistics (S, …) with all their entries in one row."""
    leaves = jax.tree.leaves(stats)
    return jnp.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def _log_density(task: Task, image: Image, draws: Draws) -> np.ndarray:
    """(S,): log p*(θ) = log p(x, θ) inside of the image in the coordinates of the sites, −∞ outside."""
    log_joint = evaluate(task.model, task.hyper, task.prior, task.rows, draws).log_joint
    return np.where(image.holds(draws) & ~np.isnan(log_joint), log_joint, -np.inf)


def _on_device(draws: Draws) -> dict[str, Array]:
    return {name: jax.device_put(value) for name, value in draws.items()}


# ---------------------------------------------------------------------------------------------------------------------
# Warp


def warp_ratios(task: Task, image: Image, halves: Halves, number: int) -> Ratios:
    """Log p*_III / Normal(0, I) at the second half and at ``number`` draws. Raises `ZooError` for too few draws."""
    supports = transforms(task.model.spec, task.hyper, task.sufficient_rows)
    shapes, first = ravel_chains(unconstrain_chains(supports, _on_device(halves.first)))
    _, second = ravel_chains(unconstrain_chains(supports, _on_device(halves.second)))
    size = first.shape[1]
    if len(first) < LEAST_DRAWS * size:
        raise ZooError(
            f"{task.model.name} has {size} dimensions, and the covariance of a proposal needs {LEAST_DRAWS} draws for each in "
            f"one half of the draws, where there are {len(first)}; take more draws (num_samples=)"
        )
    mean, factor = first.mean(0), np.linalg.cholesky(np.cov(first.T).reshape(size, size))
    drawn = np.random.default_rng(np.asarray(jax.random.key_data(task.key))).standard_normal((number, size))

    def log_density(flat: np.ndarray) -> np.ndarray:
        z = unravel(shapes, flat[None])
        sites = {name: np.asarray(value)[0] for name, value in constrain_draws(supports, z).items()}
        return _log_density(task, image, sites) + np.asarray(log_jacobians(supports, z))[0]

    def log_ratio(u: np.ndarray) -> np.ndarray:
        both = [log_density(mean + sign * (u @ factor.T)) for sign in (1.0, -1.0)]
        normal = -((u**2).sum(1) + size * np.log(2 * np.pi)) / 2
        return np.logaddexp(*both) - np.log(2) + np.log(np.diagonal(factor)).sum() - normal

    whitened = solve_triangular(factor, (second - mean).T, lower=True).T
    return Ratios(log_ratio(whitened).reshape(halves.num_chains, -1), log_ratio(drawn))
