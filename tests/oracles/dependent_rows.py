"""Latents of which each row alone has the right law, and two rows depend on each other: by shared or by opposite numbers.

Each takes the verb ``sample`` of a `models.base.Latent` to a wrong one.
"""

import jax
import jax.numpy as jnp
from jax import lax

from models.chains.latent import filtered, natural, path_of
from models.rows.packing import grid


def coupled(values, one, other, antithetic):
    """Values in (0, 1) by row, of which that of ``other`` is that of ``one``, or as far from the other end."""
    return values.at[other].set(1 - values[one] if antithetic else values[one])


def components(one, other, antithetic=False):
    """Components by inverse transform, with one uniform number a row."""

    def sample(key, local):
        numbers = coupled(jax.random.uniform(key, local.shape[:1], local.dtype), one, other, antithetic)
        cumulative = jnp.cumsum(jax.nn.softmax(local, axis=-1), axis=-1)
        code = (cumulative[:, :-1] <= numbers[:, None]).sum(-1)
        return jax.nn.one_hot(code, local.shape[-1], dtype=local.dtype)

    return sample


def scores(right, one, other, antithetic=False):
    """Scores of rows with one precision: what ``other`` is away from its centre is what ``one`` is, or the opposite."""

    def sample(key, local):
        found = right(key, local)
        away = found.mean[one] - local.centre[one]
        return found._replace(mean=found.mean.at[other].set(local.centre[other] + (-away if antithetic else away)))

    return sample


def paths(one, other):
    """Paths by backward sampling: a step of ``other`` is drawn by the number of the next step of ``one``."""

    def sample(key, local):
        known, chain = filtered(local), natural(local)
        continues = grid(chain.packing).continues
        numbers = jax.random.uniform(key, continues.shape)
        numbers = numbers.at[:-1, other].set(numbers[1:, one])

        def back(later, here):
            state, number, continues = here
            weights = state * jnp.where(continues[:, None], jnp.exp(chain.step.T)[later], jnp.exp(chain.stop)[None])
            cumulative = jnp.cumsum(weights, axis=-1)
            earlier = (cumulative[:, :-1] <= number[:, None] * cumulative[:, -1:]).sum(-1)
            return earlier, earlier

        nowhere = jnp.zeros(continues.shape[1], int)
        return path_of(chain, lax.scan(back, nowhere, (known.states.state, numbers, continues), reverse=True)[1])

    return sample
