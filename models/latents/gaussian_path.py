"""Paths of Gaussian factors: L latents at each of T steps of a sequence, the functions of `models.base.Latent`.

    log p(x, z) = peak − ½ Σ_t |root_tᵀ (e_t − gain_t e_{t+1})|² − ½ T L log 2π,    e_t = z_t − centre_t

Given θ and the sequence a path is Normal with a block-tridiagonal precision. Its block Cholesky decomposition runs forward in
time: root_t is the Cholesky factor of the precision of z_t given z_{t+1} and what was observed up to t. This is the information
form of the Kalman filter (Kalman 1960); gain_t is the gain of the smoother of Rauch, Tung and Striebel (1965). Back in time it
gives means, covariances and draws, the simulation smoother (Carter and Kohn 1994, Frühwirth-Schnatter 1994). As in
`models.latents.gaussian` the peak is made of residuals, which cost no digits. Steps after the end of a sequence are standard
Normal and apart from the others; they have no influence.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import cho_solve, solve_triangular

from models.base import Latent, Reported


class Paths(NamedTuple):
    """Natural parameters of the paths of N sequences."""

    peak: Array  # (N,)
    centre: Array  # (N, T, L)
    root: Array  # (N, T, L, L)
    gain: Array  # (N, T, L, L), 0 at the last step
    length: Array  # (N,)


class Moments(NamedTuple):
    """Paths, expected or drawn."""

    mean: Array  # (N, T, L)
    covariance: Array | None  # (N, T, L, L); None for paths that were drawn
    lagged: Array | None  # (N, T − 1, L, L): of z_{t+1} and z_t
    length: Array  # (N,)


def steps_within(length: Array, number: int) -> Array:
    """(N, T): which of ``number`` steps are within a sequence of ``length`` (N,)."""
    return jnp.arange(number)[None, :] < length[:, None]


def decomposed(precision: Array, link: Array, square: Array, pull: Array, length: Array) -> Paths:
    """The path with log density Σ_t (pull_tᵀ z_t − ½ z_tᵀ precision_t z_t) − ½ |z_1|² − ½ Σ_t E|z_{t+1} − A z_t|² + constant.

    ``precision`` (N, T, L, L) and ``pull`` (N, T, L) are 0 at steps without observation; ``link`` (L, L) is E[A] and ``square``
    E[Aᵀ A]. The peak is 0.
    """
    number, size = pull.shape[1:]
    follows = steps_within(length - 1, number)[..., None, None]
    own = jnp.eye(size, dtype=pull.dtype) + precision + jnp.where(follows, square, 0.0)

    def forward(before: tuple[Array, Array], step: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        own, pull, follows = step
        root = jnp.linalg.cholesky(own - before[0])
        gain = jnp.where(follows, cho_solve((root, True), jnp.broadcast_to(link.T, root.shape)), 0.0)
        middle = cho_solve((root, True), (pull + before[1])[..., None])
        moved = jnp.where(follows, link @ middle, 0.0)[..., 0]
        return (jnp.where(follows, link @ gain, 0.0), moved), (root, gain, middle[..., 0])

    start = jnp.zeros_like(own[:, 0]), jnp.zeros_like(pull[:, 0])
    _, found = lax.scan(forward, start, tuple(jnp.swapaxes(leaf, 0, 1) for leaf in (own, pull, follows)))
    root, gain, middle = (jnp.swapaxes(leaf, 0, 1) for leaf in found)
    return Paths(jnp.zeros(pull.shape[0], pull.dtype), _back(gain, middle), root, gain, length)


def _back(gain: Array, step: Array) -> Array:
    """Sums v_t = step_t + gain_t v_{t+1}, from the last step to the first: (N, T, L)."""

    def backward(after: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        gain, step = now
        found = step + (gain @ after[..., None])[..., 0]
        return found, found

    inputs = jnp.swapaxes(gain, 0, 1), jnp.swapaxes(step, 0, 1)
    return jnp.swapaxes(lax.scan(backward, jnp.zeros_like(step[:, 0]), inputs, reverse=True)[1], 0, 1)


def _log_partition(local: Paths) -> Array:
    diagonal = jnp.log(jnp.diagonal(local.root, axis1=-2, axis2=-1)).sum(-1)
    within = steps_within(local.length, diagonal.shape[1])
    return local.peak - jnp.where(within, diagonal, 0.0).sum(-1)


def _mean(key: Array, local: Paths) -> Moments:
    """The smoother: V_t = (root_t root_tᵀ)⁻¹ + gain_t V_{t+1} gain_tᵀ, and V_{t+1} gain_tᵀ = Cov(z_{t+1}, z_t)."""
    identity = jnp.broadcast_to(jnp.eye(local.root.shape[-1], dtype=local.root.dtype), local.root.shape)
    given_next = cho_solve((local.root, True), identity)

    def backward(after: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        gain, own = now
        lagged = after @ jnp.swapaxes(gain, -1, -2)
        found = own + gain @ lagged
        return found, (found, lagged)

    inputs = jnp.swapaxes(local.gain, 0, 1), jnp.swapaxes(given_next, 0, 1)
    _, found = lax.scan(backward, jnp.zeros_like(given_next[:, 0]), inputs, reverse=True)
    covariance, lagged = (jnp.swapaxes(leaf, 0, 1) for leaf in found)
    return Moments(local.centre, covariance, lagged[:, :-1], local.length)


def _sample(key: Array, local: Paths) -> Moments:
    noise = jax.random.normal(key, local.centre.shape, local.centre.dtype)
    step = solve_triangular(local.root, noise[..., None], lower=True, trans="T")[..., 0]
    return Moments(local.centre + _back(local.gain, step), None, None, local.length)


def _energy(z: Moments, local: Paths) -> Array:
    away = z.mean - local.centre
    following = jnp.concatenate([away[:, 1:], jnp.zeros_like(away[:, :1])], axis=1)
    own = away - jnp.einsum("ntij,ntj->nti", local.gain, following)
    scaled = (jnp.einsum("nti,ntij->ntj", own, local.root) ** 2).sum(-1)
    size = local.length * away.shape[-1]
    spread = 0.0 if z.covariance is None else size  # tr(precision × its inverse)
    within = steps_within(local.length, away.shape[1])
    return local.peak - 0.5 * (jnp.where(within, scaled, 0.0).sum(-1) + spread + size * jnp.log(2 * jnp.pi))


def _reported(z: Moments) -> Array:
    """(N, T, L): NaN after the end of a sequence."""
    return jnp.where(steps_within(z.length, z.mean.shape[1])[..., None], z.mean, jnp.nan)


paths = Latent(
    log_partition=_log_partition,
    mean=_mean,
    mode=None,
    sample=_sample,
    energy=_energy,
    reported=Reported(
        part=_reported,
        spread=lambda z: jnp.zeros_like(z.mean) if z.covariance is None else jnp.diagonal(z.covariance, axis1=-2, axis2=-1),
    ),
    unit="step",
    values="real",
)
