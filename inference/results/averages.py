"""One average over the draws of a result: of densities, of values, and of values that are uncertain at every draw.

Averages are taken draw by draw, so that memory does not grow with the number of draws. `inference.results.draws` has the
weights of draws.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from inference.engine.evaluate import in_groups
from inference.results.draws import log_weight
from models.base import Pytree, Sites


class AtDraw(NamedTuple):
    """Quantities of N rows at one draw of the parameters."""

    log_density: Array  # (N,): log p(x_n | θ_s), by which draws are weighted for new rows
    values: tuple[Array, ...] = ()  # (N, …) each
    uncertain: tuple[tuple[Array, Array], ...] = ()  # (mean, variance) of each, (N, …)
    log_values: tuple[Array, ...] = ()  # (N, …) each: densities in logarithms, for which all draws count alike
    by_draw: Pytree = None  # returned draw by draw


class Averages(NamedTuple):
    """Averages over all draws."""

    log_density: Array  # (N,): log of the mean of p(x_n | θ_s) over the draws
    values: tuple[Array, ...]  # weighted means
    uncertain: tuple[tuple[Array, Array], ...]  # (mean, standard deviation within and between draws) of each
    log_values: tuple[Array, ...]  # logs of the means
    by_draw: Pytree  # (S, …)


class _Moments(NamedTuple):
    """Weighted mean of an uncertain value so far, and its variance by the law of total variance."""

    mean: Array
    between: Array  # variance of the means
    within: Array  # mean of the variances


class _Sums(NamedTuple):
    """The sums so far."""

    density: Array  # (N,): log Σ p(x | θ_s)
    weight: Array  # (N,): log of the sum of the weights
    values: tuple[Array, ...]
    uncertain: tuple[_Moments, ...]
    log_values: tuple[Array, ...]


def averaged(at: Callable[[Sites], AtDraw], draws: Sites, fitted: Array, group: int | None = None) -> Averages:
    """The quantities that ``at`` returns, averaged over the draws (S, …) row by row.

    Fitted rows (N,) weight all draws equally, new rows by their density. With ``group``, so many draws are evaluated side by
    side, a divisor of their number; ``by_draw`` must be None then. An example, under `jax.jit`:

        averaged(lambda sites: AtDraw(log_density(sites), values=(probs(sites),)), draws, fitted).values[0]
    """

    def one(sums: _Sums, now: AtDraw) -> tuple[_Sums, Pytree]:
        weight = log_weight(fitted, now.log_density)
        total = jnp.logaddexp(sums.weight, weight)
        share = jnp.where(total > -jnp.inf, jnp.exp(weight - total), 0.0)
        following = _Sums(
            density=jnp.logaddexp(sums.density, now.log_density),
            weight=total,
            values=tuple(_moved(mean, share, value) for mean, value in zip(sums.values, now.values, strict=True)),
            uncertain=tuple(_moments(sum_, share, *value) for sum_, value in zip(sums.uncertain, now.uncertain, strict=True)),
            log_values=tuple(map(jnp.logaddexp, sums.log_values, now.log_values)),
        )
        return following, now.by_draw

    def some(sums: _Sums, sites: Sites) -> tuple[_Sums, None]:
        return jax.lax.scan(one, sums, jax.vmap(at)(sites))[0], None

    start = _nothing(jax.eval_shape(lambda: at(jax.tree.map(lambda leaf: leaf[0], draws))))
    if group is None:
        sums, stored = jax.lax.scan(lambda sums, sites: one(sums, at(sites)), start, draws)
    else:
        sums, stored = jax.lax.scan(some, start, in_groups(draws, group))
    log_number = jnp.log(jax.tree.leaves(draws)[0].shape[0])
    return Averages(
        sums.density - log_number,
        sums.values,
        tuple((value.mean, jnp.sqrt(value.between + value.within)) for value in sums.uncertain),
        tuple(total - log_number for total in sums.log_values),
        stored,
    )


def _nothing(shapes: Any) -> _Sums:
    """Sums over no draw, with the shapes of the quantities at one draw."""

    def zeros(shape: Any) -> Array:
        return jnp.zeros(shape.shape, shape.dtype)

    def no_density(shape: Any) -> Array:
        return jnp.full(shape.shape, -jnp.inf, shape.dtype)

    return _Sums(
        density=no_density(shapes.log_density),
        weight=no_density(shapes.log_density),
        values=tuple(map(zeros, shapes.values)),
        uncertain=tuple(_Moments(zeros(mean), zeros(mean), zeros(variance)) for mean, variance in shapes.uncertain),
        log_values=tuple(map(no_density, shapes.log_values)),
    )


def _moved(mean: Array, share: Array, value: Array) -> Array:
    """The average (N, …) after one more draw's ``value`` with this share (N,); a share of 0 leaves it as it is."""
    share = share.reshape(-1, *[1] * (mean.ndim - 1))
    return mean + jnp.where(share > 0, share * (value - mean), 0.0)


def _moments(sums: _Moments, share: Array, mean: Array, variance: Array) -> _Moments:
    """The moments with one more draw's mean and variance."""
    apart = (1 - share).reshape(-1, *[1] * (mean.ndim - 1))
    between = apart * _moved(sums.between, share, sums.between + (mean - sums.mean) ** 2)
    return _Moments(_moved(sums.mean, share, mean), between, _moved(sums.within, share, variance))
