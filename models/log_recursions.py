"""The recursions of `models.recursions` in logarithms: several times slower, and nothing is too small for them.

They are for chains that rescaled probabilities fail: with steps that are impossible, or nearly, a state that is less likely
than another by a factor of 1e308 may alone explain what comes later.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from models.recursions import Steps, Weights, divisor, finite


def logsumexp(terms: Array, axis: int) -> Array:
    """−∞ where all terms are, and then of derivative 0: that of the library's is no number, also forward."""
    largest = finite(lax.stop_gradient(terms.max(axis)))
    total = jnp.exp(terms - jnp.expand_dims(largest, axis)).sum(axis)
    return jnp.where(total > 0, jnp.log(divisor(total)) + largest, -jnp.inf)


class LogStates(NamedTuple):
    """What the way forward brings."""

    state: Array  # (L, R, S): log p(z_t | x_1 … x_t)
    scale: Array  # (L, R): log p(x_t | x_1 … x_{t−1})


class LogWays(NamedTuple):
    """What both directions bring: log p(z_t = i, z_{t+1} = j | x) = before[t, i] + step[i, j] + after[t, j]."""

    both: Array  # (L, R, S): expected states, no logarithms
    after: Array  # (L, R, S); −∞ where nothing follows


def filter_logs(weights: Weights, steps: Steps) -> LogStates:
    """The forward recursion: log α, of log sum 0."""

    def advance(expected: Array, here: tuple[Array, Array | None]) -> tuple[Array, LogStates]:
        emission, first = here
        expected = expected if first is None else jnp.where(first[:, None], start, expected)
        joint = expected + emission
        scale = logsumexp(joint, axis=-1)
        state = joint - finite(scale)[:, None]
        return logsumexp(state[:, :, None] + weights.step[None], axis=1), LogStates(state, scale)

    start = weights.start[None, :]
    return lax.scan(advance, jnp.broadcast_to(start, steps.emission.shape[1:]), (steps.emission, steps.first))[1]


def smooth_logs(weights: Weights, steps: Steps, end: Array) -> tuple[LogStates, LogWays]:
    """Both recursions; ``end`` (L, R) is the log of what the sequence of a cell is worth at its end."""

    def back(ahead: Array, here: tuple[Array, ...]) -> tuple[Array, LogWays]:
        state, emission, scale, end, continues = here
        ahead = jnp.where(continues[:, None], ahead, -jnp.inf)
        beta = jnp.where(continues[:, None], logsumexp(weights.step[None] + ahead[:, None, :], axis=2), weights.stop[None, :])
        after = ahead - end[:, None]
        return emission + beta - scale[:, None], LogWays(jnp.exp(state + beta - end[:, None]), after)

    found = filter_logs(weights, steps)
    nothing = jnp.full(steps.emission.shape[1:], -jnp.inf, steps.emission.dtype)
    everything = (found.state, steps.emission, finite(found.scale), finite(end), steps.continues)
    _, ways = lax.scan(back, nothing, everything, reverse=True)
    return found, ways._replace(both=jnp.where(steps.there[..., None], ways.both, 0.0))
