"""Logarithms of many Gamma draws at once, exact, by rejection (Marsaglia and Tsang 2000).

With d = a − 1/3, x ~ N(0, 1), y = x / √(9d) and u uniform, d (1 + y)³ is a draw of shape a ≥ 1 if y > −1 and

    log u < x²/2 + d − d (1 + y)³ + 3d log(1 + y) = 3d (log(1 + y) − y + y²/2 − y³/3)

For a ≥ 1 at least 95 % of proposals are accepted. All entries are proposed together; of many, rejected ones are collected and
proposed again in blocks. Up to `SMALLEST` entries are all proposed again each time: that loop has one copy of the proposal, and
compiles in half the time. JAX's own sampler runs a loop per entry, which takes about ten times as long for a hundred thousand
of them. JAX's sampler has gradients, and this one has none.
Below a = 1 a draw is that of a + 1 times U^(1/a) (section 6 of the paper), in logarithms to avoid underflow.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax

AGAIN = 1 / 16  # size of a block that is proposed again, relative to all entries: slightly above the rejection rate
SMALLEST = 64
NEAR = 1 / 16  # largest |y| for the series: its terms beyond y^11 are below 1e-9 of the first
TERMS = range(4, 12)


def log_gamma(key: Array, shape: Array) -> Array:
    """Independent log draws from Gamma(shape, 1), one for each entry of ``shape``; NaN for negative entries."""
    flat = shape.reshape(-1)
    key_draws, key_boost = jax.random.split(key)
    small = flat < 1
    raised = jnp.where(small, flat + 1, flat)
    draws = _all_again(key_draws, raised) if flat.shape[0] <= SMALLEST else _some_again(key_draws, raised)
    uniform = 1 - jax.random.uniform(key_boost, flat.shape, flat.dtype)
    draws = jnp.where(small, draws + jnp.log(uniform) / jnp.where(small, flat, 1.0), draws)
    return jnp.where(flat >= 0, draws, jnp.nan).reshape(shape.shape)


def _all_again(key: Array, shape: Array) -> Array:
    """Log draws of shapes (N,) ≥ 1: all are proposed until all are accepted, and each keeps the first that was."""

    def turn(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, draws, open_draws = state
        some, again = _proposed(jax.random.fold_in(key, count), shape)
        return count + 1, jnp.where(open_draws, some, draws), open_draws & again

    start = (jnp.zeros((), jnp.int32), jnp.zeros_like(shape), jnp.ones(shape.shape, bool))
    return lax.while_loop(lambda state: state[2].any(), turn, start)[1]


def _some_again(key: Array, shape: Array) -> Array:
    """Log draws of shapes (N,) ≥ 1: those that were not accepted are proposed again in blocks."""
    number = shape.shape[0]
    block = max(SMALLEST, int(number * AGAIN))
    key_first, key_again = jax.random.split(key)

    def turn(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, draws, open_draws = state
        place = jnp.nonzero(open_draws, size=block, fill_value=number)[0]
        some, again = _proposed(jax.random.fold_in(key_again, count), shape.at[place].get(mode="fill", fill_value=1.0))
        return count + 1, draws.at[place].set(some, mode="drop"), open_draws.at[place].set(again, mode="drop")

    start = (jnp.zeros((), jnp.int32), *_proposed(key_first, shape))
    return lax.while_loop(lambda state: state[2].any(), turn, start)[1]


def _proposed(key: Array, shape: Array) -> tuple[Array, Array]:
    """(log draws, whether they are rejected); NaN is not rejected, so that the loop ends."""
    key_normal, key_uniform = jax.random.split(key)
    x = jax.random.normal(key_normal, shape.shape, shape.dtype)
    d = shape - 1 / 3
    y = x / jnp.sqrt(9 * d)
    inside = jnp.where(y > -1, y, 0.0)
    level = jnp.log(jax.random.uniform(key_uniform, shape.shape, shape.dtype))
    return jnp.log(d) + 3 * jnp.log1p(inside), (y <= -1) | (level >= 3 * d * _remainder(inside))


def _remainder(y: Array) -> Array:
    """log(1 + y) − y + y²/2 − y³/3, accurate also where these terms nearly cancel."""
    series = sum(((-1) ** (n + 1) * y ** (n - 4) / n for n in TERMS), jnp.zeros_like(y)) * y**4
    return jnp.where(jnp.abs(y) < NEAR, series, jnp.log1p(y) - y + y**2 / 2 - y**3 / 3)
