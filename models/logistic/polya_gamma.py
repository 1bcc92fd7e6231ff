"""Pólya-Gamma augmentation (Polson, Scott and Windle 2013): the latents of `models.logistic_regression`.

With ψ the log-odds of one class against the others, y in {0, 1} and ω ~ PG(1, 0),

    p(y | ψ) = exp(y ψ) / (1 + exp ψ) = ½ exp((y − ½) ψ) E[exp(−½ ω ψ²)]

Given ω the log-likelihood is quadratic in ψ, and given ψ the posterior of ω is PG(1, |ψ|). The latents of a row are its
label, one-hot over C classes, and one ω for each of the B log-odds that are updated. They depend only on E[ψ] and E[ψ²]:

    log Σ_z exp(local) = log Σ_{y ∈ A} exp(logits_y) − log 2 cosh(½ √E[ψ²])

At a point this is log p(y ∈ A | ψ), under q(θ) the bound of Jaakkola and Jordan (2000).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import log_ndtr, ndtri

from models.base import Latent, Reported
from models.latents.categorical import categorical

SERIES = 1e-6  # E[ψ²] below which Taylor series are used, exact up to rounding


class LogOdds(NamedTuple):
    """Natural parameters of the label and the variables ω of each row."""

    logits: Array  # (N, C): unnormalised log probabilities of the label, −inf where not allowed
    square: Array  # (N, B): E[ψ²]
    offset: Array  # (N, B): log-sum-exp of the other classes; ψ = xᵀβ − offset
    seen: Array  # (N,): whether the label excludes a class; otherwise log Σ_y p(y) = 0 for all θ


class Augmented(NamedTuple):
    """Label (N, C) and ω (N, B), drawn or expected; ``offset`` as in the natural parameters."""

    label: Array
    omega: Array
    offset: Array


def log_two_cosh(square: Array) -> Array:
    """Log 2 cosh(½ √s), differentiable also at s = 0."""
    small = square < SERIES
    c = jnp.sqrt(jnp.where(small, 1.0, square))
    return jnp.where(small, jnp.log(2.0) + square / 8 - square**2 / 192, c / 2 + jnp.log1p(jnp.exp(-c)))


def expected_omega(square: Array) -> Array:
    """E[ω] = tanh(c/2) / 2c of PG(1, c), c² = ``square``: twice the derivative of `log_two_cosh`."""
    small = square < SERIES
    c = jnp.sqrt(jnp.where(small, 1.0, square))
    return jnp.where(small, 0.25 - square / 48, jnp.tanh(c / 2) / (2 * c))


def _log_partition(local: LogOdds) -> Array:
    return jnp.where(local.seen, categorical.log_partition(local.logits) - log_two_cosh(local.square[:, 0]), 0.0)


def _mean(key: Array, local: LogOdds) -> Augmented:
    return Augmented(categorical.mean(key, local.logits), expected_omega(local.square), local.offset)


def _sample(key: Array, local: LogOdds) -> Augmented:
    key_label, key_omega = jax.random.split(key)
    omega = draw(key_omega, jnp.sqrt(jnp.maximum(local.square, 0)))
    return Augmented(categorical.sample(key_label, local.logits), omega, local.offset)


def _energy(z: Augmented, local: LogOdds) -> Array:
    return categorical.energy(z.label, local.logits) - 0.5 * (z.omega * local.square).sum(-1)


def _entropy(z: Augmented, local: LogOdds) -> Array:
    assert categorical.reported.entropy is not None
    return categorical.reported.entropy(z.label, local.logits)


# No mode: with the mode of ω the M-step would not increase log p(y, θ).
REPORTED = Reported(lambda z: z.label, _entropy)
polya_gamma = Latent(_log_partition, _mean, None, _sample, _energy, REPORTED, values="discrete")


# ---------------------------------------------------------------------------------------------------------------------
# Draws

SWITCH = 0.64  # point at which the density switches between the two series of Devroye (2009)


class _Proposals(NamedTuple):
    round: Array
    x: Array
    right: Array  # whether the proposal comes from the tail beyond SWITCH; unchanged until this branch succeeds
    done: Array


def draw(key: Array, c: Array) -> Array:
    """Exact draws of PG(1, c), c ≥ 0, of the shape of ``c``: a quarter of Devroye's J*(1, c/2), by rejection.

    Proposals come from an exponential beyond `SWITCH` and an inverse Gaussian below it; an alternating series decides on each
    (Polson, Scott and Windle 2013, algorithm 1). All entries are proposed in parallel until the last one is accepted.
    """
    z = c / 2
    rate = jnp.pi**2 / 8 + z**2 / 2
    log_right = jnp.log(jnp.pi / (2 * rate)) - rate * SWITCH
    root = SWITCH**0.5
    below = jnp.logaddexp(log_ndtr((SWITCH * z - 1) / root), 2 * z + log_ndtr(-(SWITCH * z + 1) / root))
    prob_right = jax.nn.sigmoid(log_right - (jnp.log(2.0) - z + below))

    def body(state: _Proposals) -> _Proposals:
        keys = jax.random.split(jax.random.fold_in(key, state.round), 4)
        branch, proposed = (jax.random.uniform(k, z.shape, z.dtype) for k in keys[:2])
        tail = SWITCH + jax.random.exponential(keys[2], z.shape, z.dtype) / rate
        head, valid = _inverse_gaussian(keys[3], z)
        x = jnp.where(state.right, tail, head)
        valid = state.right | valid
        accepted = valid & _accept(proposed, x)
        return _Proposals(
            state.round + 1,
            jnp.where(state.done, state.x, x),
            jnp.where(valid, branch < prob_right, state.right),
            state.done | accepted,
        )

    first = jax.random.uniform(jax.random.fold_in(key, 0), z.shape, z.dtype) < prob_right
    state = _Proposals(jnp.ones((), jnp.int32), jnp.ones_like(z), first, jnp.zeros(z.shape, bool))
    return lax.while_loop(lambda state: ~state.done.all(), body, state).x / 4


def _inverse_gaussian(key: Array, z: Array) -> tuple[Array, Array]:
    """Propose an inverse Gaussian with mean 1/z and shape 1, truncated to (0, SWITCH): (x, whether it is valid)."""
    key_normal, *keys = jax.random.split(key, 3)
    u, v = (jax.random.uniform(k, z.shape, z.dtype) for k in keys)
    normal = jax.random.normal(key_normal, z.shape, z.dtype)
    # Mean beyond the truncation: 1/χ² truncated by inverting its distribution, thinned by exp(−z² x / 2).
    least = jnp.finfo(z.dtype).tiny
    edge = jnp.exp(log_ndtr(jnp.asarray(-(SWITCH**-0.5), z.dtype)))
    levy = 1 / ndtri(jnp.maximum(edge * v, least)) ** 2
    # Mean inside: the whole inverse Gaussian (Michael, Schucany and Haas 1976), accepted where it is small enough.
    mean = 1 / jnp.maximum(z, 1 / SWITCH)
    w = mean * normal**2
    smaller = mean / (1 + w / 2 + jnp.sqrt(w + w**2 / 4))
    whole = jnp.where(u <= mean / (mean + smaller), smaller, mean**2 / smaller)
    far = z < 1 / SWITCH
    return jnp.where(far, levy, whole), jnp.where(far, u <= jnp.exp(-0.5 * z**2 * levy), whole <= SWITCH)


def _accept(u: Array, x: Array) -> Array:
    """Whether u a₀(x) lies below the alternating sum Σ (−1)ⁿ aₙ(x), its terms relative to the first."""
    exponent = jnp.where(x > SWITCH, jnp.pi**2 * x / 2, 2 / x)

    def term(n: Array) -> Array:
        return (2 * n + 1) * jnp.exp(-(n**2 + n) * exponent)

    def body(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        n, total, undecided, accepted = state
        total = total - term(n)
        inside = undecided & (u <= total)  # odd partial sums are lower bounds, even ones upper bounds
        undecided = undecided & ~inside
        total = total + term(n + 1)
        return n + 2, total, undecided & (u <= total), accepted | inside

    shape = x.shape
    state = (jnp.ones((), x.dtype), jnp.ones_like(x), jnp.ones(shape, bool), jnp.zeros(shape, bool))
    return lax.while_loop(lambda state: state[2].any(), body, state)[3]
