"""Functionals of hidden Markov models that are invariant to the order of the states, and simulated sequences."""

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
from jax import Array

from models.base import Hyper, Sites
from models.chains.distributions import StatePath
from models.chains.prior import START, TRANSITION, Shape
from models.chains.sequences import Timed
from models.emissions.block import Emission


@cache
def functionals_of(shape: Shape, exchangeable: bool, places: tuple[tuple[int, int], ...]) -> Callable[..., dict[str, Array]]:
    """Cached: equal arguments give the same object, so jitted code is not compiled again."""
    return partial(_functionals, shape, exchangeable, places)


def _functionals(
    shape: Shape, exchangeable: bool, places: tuple[tuple[int, int], ...], hyper: Hyper, sites: Sites, latents: Array
) -> dict[str, Array]:
    """Invariant summaries: probabilities to stay in a state, sorted; the expected length of a sequence; and for neighbouring
    probe rows Σ_i p(z_s = i | x) p(z_t = i | x).
    """
    transition = jnp.asarray(sites[TRANSITION])
    stay = jnp.diagonal(transition)
    summaries = {"stay_probs": -jnp.sort(-stay) if exchangeable else stay}
    if shape.boundary:
        summaries["expected_length"] = _expected_length(jnp.asarray(sites[START]), transition)
    # On data that are shorter than the model's a probe row may be absent.
    probs = jnp.stack([latents[place].at[time].get(mode="fill", fill_value=jnp.nan) for place, (_, time) in enumerate(places)])
    return summaries | ({"co_occurrence": (probs[:-1] * probs[1:]).sum(-1)} if len(places) > 1 else {})


def _expected_length(start: Array, transition: Array) -> Array:
    """E[T] from start (S,) and transitions (S, S + 1); ∞ if a reachable state has no path to the boundary."""
    size = start.shape[0]
    step, stop = transition[:, :size], transition[:, size]
    follows = step > 0
    stops, reached = stop > 0, start > 0
    for _ in range(size):
        stops = stops | (follows & stops[None, :]).any(1)
        reached = reached | (follows & reached[:, None]).any(0)
    ends = (stops | ~reached).all()
    left = jnp.where(ends, jnp.eye(size) - jnp.where(reached[:, None], step, 0.0), jnp.eye(size))
    return jnp.where(ends, start @ jnp.linalg.solve(left, jnp.ones(size)), jnp.inf)


def simulate(
    emission: Emission, shape: Shape, longest: int, key: Array, hyper: Hyper, sites: Sites, num_rows: int, num_steps: int = 0
) -> Timed:
    """Sequences drawn at ``sites``: until the boundary, or ``num_steps`` long; those that have not stopped by then are cut.

    0 steps stand for the longest of the data.
    """
    num_steps = num_steps or longest
    key_state, key_x = jax.random.split(key)
    path = StatePath(sites[START], sites[TRANSITION], jnp.full(num_rows, num_steps), num_steps)
    state, length = path.walk(key_state)
    x = emission.likelihood.draw(key_x, sites, state.reshape(-1))
    return Timed(jax.tree.map(lambda leaf: leaf.reshape(num_rows, num_steps, *leaf.shape[1:]), x), length)
