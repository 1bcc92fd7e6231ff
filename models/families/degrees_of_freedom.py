"""The shape h > 0 of factors u ~ Gamma(h, h), which have mean 1, given these factors: a family.

    T(h) = (g(h), h, log h),    g(h) = h log h − log Γ(h) − h
    nu   = (Σ r, Σ r (E[log u] − E[u] + 1), 0) + prior        prior of h ~ Gamma(shape, rate): (0, −rate, shape − 1)

`inverse_dispersion` is h itself, of negative binomial counts. `degrees_of_freedom` is ν = 2h, of Student-t tails: the prior of
ν ~ Gamma(shape, rate) is (0, −2 rate, shape − 1).

The density exp <T, nu> is log-concave in h, since g″(h) = 1/h − ψ′(h) < 0. It has no closed form, but h is one number: the
mode is a bisection, moments are a quadrature about it, and draws are by rejection (Devroye 1986, section VII.2).

g and log u − u + 1 are small where the tails are nearly Gaussian, so that large ν cost no digits.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import digamma, gammaln

from models.base import Family

NODES = 256  # of the quadrature
HALVINGS = 60  # of the interval that holds the mode: to the last digit
SERIES = 20.0  # h from which Stirling's series is exact to rounding
MOST_TRIES = 1000  # of the rejection, which accepts one in four: never reached but with numbers that are not finite
GAUSSIAN, POINT = 1e6, 1e-3  # h at a maximum of the likelihood beyond which there is no maximum, only a limit


class TailStats(NamedTuple):
    """Statistics of factors, and natural parameters of h: one entry per component, (K,), or per component and column."""

    factors: Array  # how many: of log p(u | h) = g(h) + h (log u − u + 1) − log u
    half: Array  # of h; below 0, as log u − u + 1 is
    log_half: Array  # of log h


def normaliser(half: Array) -> Array:
    """g(h) = h log h − log Γ(h) − h, which is ½ log (h / 2π) − 1 / (12 h) + … for large h."""
    large = jnp.maximum(half, SERIES)
    series = 0.5 * jnp.log(large / (2 * jnp.pi)) - 1 / (12 * large) + 1 / (360 * large**3) - 1 / (1260 * large**5)
    small = jnp.minimum(half, SERIES)
    return jnp.where(half > SERIES, series, small * jnp.log(small) - gammaln(small) - small)


def log_ratio(rate: Array, half: Array, count: Array) -> Array:
    """Log (h + rate) − log (h + count), to all digits where rate and count are close, and where they are far apart."""
    excess = (rate - count) / (half + count)
    near = excess > -0.5
    return jnp.where(near, jnp.log1p(jnp.where(near, excess, 0.0)), jnp.log(half + rate) - jnp.log(half + count))


def _rise(half: Array) -> Array:
    """H g′(h) = h (log h − ψ(h)), which falls from 1 to ½."""
    large = jnp.maximum(half, SERIES)
    series = 0.5 + 1 / (12 * large) - 1 / (120 * large**3) + 1 / (252 * large**5)
    small = jnp.minimum(half, SERIES)
    return jnp.where(half > SERIES, series, small * (jnp.log(small) - digamma(small)))


def point(half: Array) -> TailStats:
    """T(h) at h = ``half``."""
    return TailStats(normaliser(half), half, jnp.log(half))


def _log_density(nu: TailStats, log_half: Array) -> Array:
    """< T, nu > at h = exp(``log_half``): the last axes are those of nu."""
    T = point(jnp.exp(log_half))
    return nu.factors * T.factors + nu.half * T.half + nu.log_half * T.log_half


def _slope(nu: TailStats, log_half: Array) -> Array:
    """The derivative of < T, nu > in log h, which falls from positive to negative at the mode."""
    half = jnp.exp(log_half)
    return nu.factors * _rise(half) + nu.half * half + nu.log_half


def _log_mode(nu: TailStats) -> Array:
    """Log h at the maximum of < T, nu >, by bisection between two numbers that ½ < h g′(h) < 1 gives."""
    decay = jnp.maximum(-nu.half, jnp.finfo(nu.half.dtype).tiny)
    low = jnp.log(0.5 * nu.factors + nu.log_half) - jnp.log(decay)
    high = jnp.log(nu.factors + nu.log_half) - jnp.log(decay)

    def halve(step: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        rises = _slope(nu, middle) > 0
        return jnp.where(rises, middle, low), jnp.where(rises, high, middle)

    low, high = jax.lax.fori_loop(0, HALVINGS, halve, (low, high))
    return jax.lax.stop_gradient(0.5 * (low + high))


def _nodes(nu: TailStats) -> tuple[Array, Array]:
    """(nodes of log h, log of the weighted density there), (NODES, …): the trapezoidal rule about the mode of log h.

    In log h the density falls as h^(factors + log_half + 1) on the left of its mode, and faster on the right.
    """
    in_log = jax.lax.stop_gradient(nu._replace(log_half=nu.log_half + 1))  # the Jacobian of log h
    mode = _log_mode(in_log)
    _, bend = jax.jvp(lambda place: _slope(in_log, place), (mode,), (jnp.ones_like(mode),))
    width = 1 / jnp.sqrt(-bend)
    low = mode - 8 * width - 40 / (in_log.factors + in_log.log_half)
    high = mode + 10 * width
    place = jnp.linspace(0.0, 1.0, NODES, dtype=mode.dtype).reshape(-1, *[1] * mode.ndim)
    width_of_rule = (high - low)[None]
    nodes = low[None] + place * width_of_rule
    log_density = _log_density(jax.tree.map(lambda leaf: leaf[None], nu), nodes)
    return nodes, log_density + nodes + jnp.log(width_of_rule / (NODES - 1))


def _log_partitions(nu: TailStats) -> Array:
    """(…): log ∫ exp <T(h), nu> dh."""
    log_partitions: Array = jax.nn.logsumexp(_nodes(nu)[1], axis=0)
    return log_partitions


def _mean(nu: TailStats) -> TailStats:
    nodes, logs = _nodes(nu)
    weight = jax.nn.softmax(logs, axis=0)
    return TailStats(*((weight * leaf).sum(0) for leaf in point(jnp.exp(nodes))))


def _sample(key: Array, nu: TailStats) -> TailStats:
    """Rejection in h from min(1, exp(1 − |h − mode| peak)), with peak the density at the mode; NaN where nu is not finite."""
    mode = jnp.exp(_log_mode(nu))
    top = _log_density(nu, jnp.log(mode))
    peak = jnp.exp(top - _log_partitions(nu))

    def try_again(state: tuple[Array, Array, Array, int]) -> tuple[Array, Array, Array, int]:
        key, half, accepted, tries = state
        key, key_side, key_place, key_height = jax.random.split(key, 4)
        # Half of the envelope's area is flat, |h − mode| < 1 / peak, and half lies in the two exponential tails beyond.
        flat = jax.random.uniform(key_side, half.shape, half.dtype, -2.0, 2.0)
        beyond = 1 + jax.random.exponential(key_place, half.shape, half.dtype)
        away = jnp.where(jnp.abs(flat) < 1, flat, jnp.sign(flat) * beyond)
        proposed = mode + away / peak
        inside = jnp.where(proposed > 0, proposed, mode)
        height = jnp.log(jax.random.uniform(key_height, half.shape, half.dtype, jnp.finfo(half.dtype).tiny))
        height = height + jnp.minimum(0.0, 1 - jnp.abs(away))
        taken = (proposed > 0) & (height < _log_density(nu, jnp.log(inside)) - top) & ~accepted
        return key, jnp.where(taken, inside, half), accepted | taken, tries + 1

    start = (key, jnp.full_like(mode, jnp.nan), ~jnp.isfinite(mode + peak), 0)
    _, half, _, _ = jax.lax.while_loop(lambda state: ~state[2].all() & (state[3] < MOST_TRIES), try_again, start)
    return point(half)


class Ends(NamedTuple):
    """What is said where there is no maximum of the likelihood."""

    name: str  # of the parameter, in words
    unbounded: str  # where it grows without bound
    collapsed: str  # where it falls to 0


def _why_no_mode(ends: Ends, nu: TailStats) -> str | None:
    """Without a prior h runs off where the factors do not differ, and falls to 0 where they differ without bound."""
    factors, half, log_half = (np.asarray(leaf) for leaf in nu)
    if ((factors <= 0) & (log_half <= 0)).any():
        cells = "a component has no observed cell of a column"
        return f"{cells}, so its {ends.name} are undefined. Use a proper prior, or fewer components"
    if ((factors + log_half) >= GAUSSIAN * -half).any():
        return ends.unbounded
    if ((factors + log_half) <= POINT * -half).any():
        return ends.collapsed
    return None


def _log_partition_of_degrees(nu: TailStats) -> Array:
    """The log partition in ν = 2h, where dν = 2 dh."""
    return (jnp.log(2.0) + _log_partitions(nu)).sum()


degrees_of_freedom = Family(
    log_partition=_log_partition_of_degrees,
    mean=_mean,
    mode=lambda nu: point(jnp.exp(_log_mode(nu))),
    sample=_sample,
    why_no_mode=partial(
        _why_no_mode,
        Ends(
            "degrees of freedom",
            "the likelihood grows with the degrees of freedom without bound: the tails of a component are no heavier than "
            "Gaussian ones. Use the default prior, tails=gaussian, or a number of degrees_of_freedom",
            "the degrees of freedom of a component fall to 0: it collapses on a row, where the likelihood has no bound. Use "
            "the default prior, fewer components, or a number of degrees_of_freedom",
        ),
    ),
)

inverse_dispersion = degrees_of_freedom._replace(
    log_partition=lambda nu: _log_partitions(nu).sum(),
    why_no_mode=partial(
        _why_no_mode,
        Ends(
            "inverse dispersions",
            "the likelihood grows with the inverse dispersion without bound: the counts of a component vary no more than "
            "Poisson ones. Use the default prior, or a Poisson block in place of the negative binomial one",
            "the inverse dispersion of a component falls to 0: hardly any of its counts is above 0. Use the default prior, or "
            "fewer components",
        ),
    ),
)
