"""The recursions of `models.chains.forward_backward` in logarithms: several times slower, but without underflow.

They are needed if rescaled probabilities fail: with impossible or nearly impossible transitions, a state that is less likely
than another by a factor of 1e308 may be the only one that explains later observations.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from models.chains.forward_backward import ChainWeights, Steps, divisor, finite


def logsumexp(terms: Array, axis: int) -> Array:
    """Log-sum-exp; −∞ with derivative 0 if all terms are −∞, where JAX's version has derivative NaN."""
    largest = finite(lax.stop_gradient(terms.max(axis)))
    total = jnp.exp(terms - jnp.expand_dims(largest, axis)).sum(axis)
    return jnp.where(total > 0, jnp.log(divisor(total)) + largest, -jnp.inf)


class LogStates(NamedTuple):
    """Results of the forward recursion."""

    state: Array  # (L, R, S): log p(z_t | x_1 … x_t)
    scale: Array  # (L, R): log p(x_t | x_1 … x_{t−1})


class LogWays(NamedTuple):
    """Results of both recursions. log P(z_t = i, z_{t+1} = j | x) = state[t, i] + step[i, j] + after[t, j]."""

    both: Array  # (L, R, S): expected states, not logarithms
    after: Array  # (L, R, S); −∞ if no step follows


def filter_logs(weights: ChainWeights, steps: Steps) -> LogStates:
    """The forward recursion for log α, normalised."""

    def advance(expected: Array, here: tuple[Array, Array | None]) -> tuple[Array, LogStates]:
        emission, first = here
        expected = expected if first is None else jnp.where(first[:, None], start, expected)
        joint = expected + emission
        scale = logsumexp(joint, axis=-1)
        state = joint - finite(scale)[:, None]
        return logsumexp(state[:, :, None] + weights.step[None], axis=1), LogStates(state, scale)

    start = weights.start[None, :]
    return lax.scan(advance, jnp.broadcast_to(start, steps.emission.shape[1:]), (steps.emission, steps.first))[1]


def smooth_logs(weights: ChainWeights, steps: Steps, end: Array) -> tuple[LogStates, LogWays]:
    """Both recursions; ``end`` (L, R) is log Σ_i p(z_T = i | x) stop_i of the sequence in each cell."""

    def back(ahead: Array, here: tuple[Array, ...]) -> tuple[Array, LogWays]:
        state, emission, scale, end, continues = here
        ahead = jnp.where(continues[:, None], ahead, -jnp.inf)
        beta = jnp.where(continues[:, None], logsumexp(weights.step[None] + ahead[:, None, :], axis=2), weights.stop[None, :])
        after = ahead - end[:, None]
        return emission + beta - scale[:, None], LogWays(jnp.exp(state + beta - end[:, None]), after)

    states = filter_logs(weights, steps)
    nothing = jnp.full(steps.emission.shape[1:], -jnp.inf, steps.emission.dtype)
    everything = (states.state, steps.emission, finite(states.scale), finite(end), steps.continues)
    _, ways = lax.scan(back, nothing, everything, reverse=True)
    return states, ways._replace(both=jnp.where(steps.there[..., None], ways.both, 0.0))


def left_out_logs(weights: ChainWeights, steps: Steps) -> Array:
    """(L, R): log p(x_t | all other steps), without division by what step t has, which may be 0; arbitrary in empty cells.

    With c_t(i) = p(z_t = i, x_1 … x_{t−1}) p(x_{t+1} … x_T | z_t = i) it is log Σ_i c_t(i) p(x_t | z_t = i) / Σ_i c_t(i).
    """
    states, ways = smooth_logs(weights, steps, jnp.zeros(steps.there.shape, steps.emission.dtype))
    follows = logsumexp(states.state[:, :, :, None] + weights.step[None, None], axis=2)
    start = jnp.broadcast_to(weights.start, follows.shape[1:])
    before = jnp.concatenate([start[None], follows[:-1]])
    if steps.first is not None:
        before = jnp.where(steps.first[..., None], start[None], before)
    behind = logsumexp(weights.step[None, None] + ways.after[:, :, None, :], axis=3)
    others = before + jnp.where(steps.continues[..., None], behind, weights.stop[None, None])
    return logsumexp(others + steps.emission, axis=-1) - logsumexp(others, axis=-1)
