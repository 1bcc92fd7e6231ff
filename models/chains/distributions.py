"""NumPyro distributions of state paths and of the observations of a hidden Markov model."""

from math import prod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.chains.latent import Chain, chain, sample_states
from models.distributions.observed import CELLS
from models.rows.packing import Packing, laid_out, side_by_side


class StatePath(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Paths (L,) of N Markov chains of given lengths, padded with 0. ``start`` is (S,), ``transition`` (S, S), or (S, S + 1)
    with the stopping probabilities in its last column.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.independent(constraints.nonnegative_integer, 1)
    pytree_data_fields = ("start", "transition", "length")
    pytree_aux_fields = ("num_steps",)

    def __init__(
        self, start: Array, transition: Array, length: Array, num_steps: int, *, validate_args: bool | None = None
    ) -> None:
        self.start, self.transition, self.length, self.num_steps = start, transition, length, num_steps
        super().__init__(jnp.shape(length), (num_steps,), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """(N,) for paths (N, L)."""
        log_step = jnp.log(self.transition)
        follows = jnp.arange(1, self.num_steps)[None, :] < self.length[:, None]
        steps = jnp.where(follows, log_step[value[:, :-1], value[:, 1:]], 0.0).sum(1)
        log_probs = jnp.log(self.start)[value[:, 0]] + steps
        if self.transition.shape[1] == self.transition.shape[0]:
            return log_probs
        last = jnp.take_along_axis(value, self.length[:, None] - 1, axis=1)[:, 0]
        return log_probs + log_step[last, -1]

    def walk(self, key: Array) -> tuple[Array, Array]:
        """Draw (states (N, L), lengths (N,)) until the boundary, or for at most ``length`` steps."""
        size = self.start.shape[0]

        def step(state: Array, key: Array) -> tuple[Array, Array]:
            following = jax.random.categorical(key, log_step[state])
            return jnp.where(state == size, size, following), jnp.where(state == size, size, following)

        key_first, key_rest = jax.random.split(key)
        # The boundary is an absorbing state.
        log_step = jnp.log(jnp.concatenate([self.transition, jnp.ones((1, self.transition.shape[1]))]))
        first = jax.random.categorical(key_first, jnp.log(self.start), shape=self.length.shape)
        _, rest = jax.lax.scan(step, first, jax.random.split(key_rest, self.num_steps - 1))
        states = jnp.concatenate([first[None], rest]).T
        length = jnp.minimum((states < size).sum(1), self.length)
        return jnp.where(jnp.arange(self.num_steps)[None, :] < length[:, None], states, 0), length

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """(…, N, L): paths conditioned on stopping at their lengths; padded with 0."""
        packing = side_by_side(self.length, self.num_steps)
        local = path_weights(self.start, self.transition, jnp.zeros((self.num_steps, *self.length.shape, 1)), packing)
        there = jnp.arange(self.num_steps)[None, :] < self.length[:, None]
        keys = jax.random.split(key, prod(sample_shape))
        drawn = jax.vmap(lambda key: jnp.where(there, sample_states(key, local).T, 0))(keys)
        return drawn.reshape(*sample_shape, *there.shape)


def path_weights(start: Array, transition: Array, emission: Array, packing: Packing) -> Chain:
    """Natural parameters from probabilities (S,) and (S, S) or (S, S + 1), and emission log densities (L, R, S or 1)."""
    size = start.shape[0]
    log_step = jnp.log(transition)
    stop = log_step[:, size] if log_step.shape[1] > size else jnp.zeros(size)
    emission = jnp.broadcast_to(emission, (*emission.shape[:2], size))
    return Chain(jnp.log(start), log_step[:, :size], stop, emission, packing)


class HiddenMarkov(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Observations (L, …) of N sequences with layout ``packing``; ``components`` is a batch of S emission distributions.

    ``seen`` (N, L) are the observed steps, ``allowed_states`` (N, L, S) their possible states. The states are summed out by the
    forward recursion (`models.chains.latent`), or given as ``state`` (N, L).
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.independent(CELLS, 1)
    pytree_data_fields = ("start", "transition", "components", "packing", "seen", "allowed_states", "state")

    def __init__(
        self,
        start: Array,
        transition: Array,
        components: Any,
        packing: Packing,
        seen: Array,
        allowed_states: Array,
        state: Array | None = None,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.start, self.transition, self.components = start, transition, components
        self.packing, self.seen, self.allowed_states, self.state = packing, seen, allowed_states, state
        super().__init__(jnp.shape(packing.length), (jnp.shape(seen)[1], *components.event_shape), validate_args=validate_args)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """(…, N, L, …): draws given the states, also for unobserved steps and padding."""
        if self.state is None:
            raise NotImplementedError("steps can be drawn only given their states: use marginal=False")
        each = self.components.expand((*sample_shape, *self.allowed_states.shape)).sample(key)  # (…, N, L, S, …)
        axis = each.ndim - 1 - len(self.components.event_shape)
        state = jnp.broadcast_to(self.state, (*sample_shape, *self.state.shape))
        place = state.reshape(*state.shape, *[1] * (each.ndim - state.ndim))
        return jnp.take_along_axis(each, place, axis=axis).squeeze(axis)

    def log_prob(self, value: Any) -> Array:
        """(N,)."""
        density = self.components.log_prob(jnp.asarray(value)[:, :, None, ...])  # (N, L, S)
        density = jnp.where(self.allowed_states, jnp.where(self.seen[..., None], density, 0.0), -jnp.inf)
        if self.state is not None:
            there = jnp.arange(density.shape[1])[None, :] < self.packing.length[:, None]
            return jnp.where(there, jnp.take_along_axis(density, self.state[..., None], axis=2)[..., 0], 0.0).sum(1)
        local = path_weights(self.start, self.transition, laid_out(self.packing, density), self.packing)
        log_density: Array = chain.log_partition(local)
        return log_density
