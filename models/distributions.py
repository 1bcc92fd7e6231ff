"""Distributions that the programs need and NumPyro lacks."""

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln, xlogy
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.chain import Chain, chain, sample_states
from models.lanes import Lanes, laid_out, side_by_side


class WordCounts(dist.Distribution):  # type: ignore[misc]
    """Multinomial counts (V,) of a document of any given length: NumPyro's with ``total_count`` read off the value."""

    arg_constraints: ClassVar = {"probs": constraints.simplex}
    support = constraints.independent(constraints.nonnegative_integer, 1)
    pytree_data_fields = ("probs",)

    def __init__(self, probs: Array, *, validate_args: bool | None = None) -> None:
        self.probs = probs
        super().__init__(jnp.shape(probs)[:-1], jnp.shape(probs)[-1:], validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Log p(counts | their sum), with the multinomial coefficient: batch shape."""
        value = jnp.asarray(value, jnp.result_type(float))
        return gammaln(value.sum(-1) + 1) + (xlogy(value, self.probs) - gammaln(value + 1)).sum(-1)


class TopicWords(dist.Distribution):  # type: ignore[misc]
    """Words (L,) of N documents, each so many times as ``count`` (N, L) says: mixtures of the words of K topics.

    ``topic`` (N, K) are the proportions of every document, ``word`` (K, V) the words of every topic; ``state`` (N, L), the
    topic of every word, is summed out where it is not given. ``carrier`` (N,) is the log of the multinomial coefficient.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.independent(constraints.nonnegative_integer, 1)
    pytree_data_fields = ("topic", "word", "count", "carrier", "state")

    def __init__(
        self,
        topic: Array,
        word: Array,
        count: Array,
        carrier: Array,
        state: Array | None = None,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.topic, self.word, self.count, self.carrier, self.state = topic, word, count, carrier, state
        super().__init__(jnp.shape(topic)[:-1], jnp.shape(count)[-1:], validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """(N,)."""
        value = jnp.asarray(value)
        if self.state is None:  # of documents × words, not of documents × words × topics
            probs = jnp.take_along_axis(self.topic @ self.word, value, axis=1)
        else:
            possible = jnp.take_along_axis(self.topic, self.state, axis=1) > 0
            probs = jnp.where(possible, self.word[self.state, value], 0.0)
        seen = self.count > 0
        logs = jnp.where(seen, self.count * jnp.log(jnp.where(seen, probs, 1.0)), 0.0)
        return self.carrier + logs.sum(-1)


class EventSequence(dist.Distribution):  # type: ignore[misc]
    """Events one after another, each with its log probability given what came before: log_probs (…, E).

    A value is (L,) numbers of events from 1 to E, 0 for none: for a Markov chain the first token, then pairs of tokens
    (`models.transitions`). The length is given, so that an empty sequence has probability 1.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.independent(constraints.nonnegative_integer, 1)
    pytree_data_fields = ("log_probs",)

    def __init__(self, log_probs: Array, *, validate_args: bool | None = None) -> None:
        self.log_probs = log_probs
        super().__init__(jnp.shape(log_probs)[:-1], (1,), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Σ_i log_probs[value_i]: (…, K) for values (…, 1, L) and a batch of K."""
        nothing = jnp.zeros((1, self.log_probs.shape[0]))
        table = jnp.concatenate([nothing, self.log_probs.T])
        return table[jnp.asarray(value)].sum((-3, -2))


class Categories(dist.Distribution):  # type: ignore[misc]
    """Codes (D,) of independent categorical columns, whose numbers of levels may differ: probs is one (…, levels) a column.

    A code of −1 or NaN is a missing cell, which has probability 1.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.independent(constraints.nonnegative_integer, 1)
    pytree_data_fields = ("probs",)

    def __init__(self, probs: Sequence[Array], *, validate_args: bool | None = None) -> None:
        self.probs = tuple(probs)
        super().__init__(jnp.shape(self.probs[0])[:-1], (len(self.probs),), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Σ_d log p_d(value_d): (…, K) for values (…, 1, D) and a batch of K."""
        value = jnp.asarray(value)
        codes = jnp.where(value >= 0, value, -1).astype(int)  # also where it is NaN
        by_level = (_with_missing(jnp.moveaxis(jnp.log(probs), -1, 0)) for probs in self.probs)  # (levels + 1, K)
        parts = [table[codes[..., d]] for d, table in enumerate(by_level)]  # (…, 1, K)
        return sum((part.reshape(*part.shape[:-2], part.shape[-1]) for part in parts), jnp.zeros(()))


def _with_missing(log_probs: Array) -> Array:
    """A last row of zeros, which is at index −1."""
    return jnp.concatenate([log_probs, jnp.zeros((1, log_probs.shape[1]))])


class _Cells(constraints.ParameterFreeConstraint):  # type: ignore[misc]
    """Numbers (D,), or NaN where a cell is missing."""

    event_dim = 1

    def __call__(self, x: Array) -> Array:
        return ~jnp.isinf(x).any(-1)

    def feasible_like(self, prototype: Array) -> Array:
        return jnp.zeros_like(prototype)


class ObservedColumns(dist.Distribution):  # type: ignore[misc]
    """Independent columns (D,), a cell that is NaN summed out: the product of the densities of what is observed."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = _Cells()
    pytree_data_fields = ("cells",)

    def __init__(self, cells: Any, *, validate_args: bool | None = None) -> None:
        self.cells = cells  # batch shape (..., D)
        super().__init__(cells.batch_shape[:-1], cells.batch_shape[-1:], validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Σ over the observed d of log p(value_d)."""
        seen = ~jnp.isnan(value)
        return jnp.where(seen, self.cells.log_prob(jnp.where(seen, value, 0.0)), 0.0).sum(-1)


class ObservedNormal(dist.Distribution):  # type: ignore[misc]
    """Multivariate Normal (D,), cells that are NaN summed out: Normal(loc_o, covariance_oo) of the observed ones."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = _Cells()
    pytree_data_fields = ("loc", "covariance")

    def __init__(self, loc: Array, covariance: Array, *, validate_args: bool | None = None) -> None:
        self.loc, self.covariance = loc, covariance
        super().__init__(jnp.shape(loc)[:-1], jnp.shape(loc)[-1:], validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Log density with the missing cells set to standard Normals at 0, whose part is then taken off."""
        seen = ~jnp.isnan(value)
        both = seen[..., :, None] & seen[..., None, :]
        covariance = jnp.where(both, self.covariance, jnp.eye(value.shape[-1]))
        away = jnp.where(seen, value - self.loc, 0.0)
        whole = dist.MultivariateNormal(covariance_matrix=covariance).log_prob(away)
        return whole + 0.5 * jnp.log(2 * jnp.pi) * (~seen).sum(-1)


class ObservedFactors(dist.Distribution):  # type: ignore[misc]
    """Multivariate Normal (D,) of covariance loading loadingᵀ + diag(noise), cells that are NaN summed out.

    By Woodbury's identity: matrices of a row are (L, L).
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = _Cells()
    pytree_data_fields = ("loc", "loading", "noise")

    def __init__(self, loc: Array, loading: Array, noise: Array, *, validate_args: bool | None = None) -> None:
        self.loc, self.loading, self.noise = loc, loading, noise  # (D,), (D, L), (D,)
        super().__init__((), jnp.shape(loc), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """(…,) for values (…, D)."""
        seen = ~jnp.isnan(value)
        away = jnp.where(seen, value - self.loc, 0.0)
        scaled = self.loading / self.noise[:, None]
        inner = jnp.einsum("...d,di,dj->...ij", seen.astype(away.dtype), scaled, self.loading)
        root = jnp.linalg.cholesky(inner + jnp.eye(self.loading.shape[1]))
        pull = jax.scipy.linalg.solve_triangular(root, (away @ scaled)[..., None], lower=True)[..., 0]
        half_log_det = jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)).sum(-1)
        cells = jnp.where(seen, away**2 / self.noise + jnp.log(2 * jnp.pi * self.noise), 0.0).sum(-1)
        return 0.5 * (pull**2).sum(-1) - 0.5 * cells - half_log_det


class SideBySide(dist.Distribution):  # type: ignore[misc]
    """Independent groups of columns: ``parts`` are their distributions, ``places`` where their columns stand in a row (D,)."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = _Cells()
    pytree_data_fields = ("parts",)
    pytree_aux_fields = ("places",)

    def __init__(self, places: Sequence[Sequence[int]], parts: Sequence[Any], *, validate_args: bool | None = None) -> None:
        self.places = tuple(map(tuple, places))
        self.parts = tuple(parts)
        super().__init__(self.parts[0].batch_shape, (sum(map(len, self.places)),), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Σ_parts log p(value[places])."""
        found = (part.log_prob(value[..., np.array(own)]) for own, part in zip(self.places, self.parts, strict=True))
        return sum(found, jnp.zeros(()))


def observed_part(components: Any) -> Any:
    """The distribution of what is observed of a row, NaN where it is missing: Normal, or of independent columns."""
    if isinstance(components, SideBySide):
        return SideBySide(components.places, [observed_part(part) for part in components.parts])
    if isinstance(components, dist.MultivariateNormal):
        return ObservedNormal(components.loc, components.covariance_matrix)
    return components if isinstance(components, Categories) else ObservedColumns(components.base_dist)


class StatePath(dist.Distribution):  # type: ignore[misc]
    """Paths (L,) of N Markov chains of given lengths, 0 beyond them: start (S,), transition (S, S), or (S, S + 1) with the
    probability to stop in its last column.
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
        found = jnp.log(self.start)[value[:, 0]] + steps
        if self.transition.shape[1] == self.transition.shape[0]:
            return found
        last = jnp.take_along_axis(value, self.length[:, None] - 1, axis=1)[:, 0]
        return found + log_step[last, -1]

    def walk(self, key: Array) -> tuple[Array, Array]:
        """(states (N, L), lengths (N,)): until the boundary comes, and ``length`` steps at most."""
        size = self.start.shape[0]

        def step(state: Array, key: Array) -> tuple[Array, Array]:
            following = jax.random.categorical(key, log_step[state])
            return jnp.where(state == size, size, following), jnp.where(state == size, size, following)

        key_first, key_rest = jax.random.split(key)
        # The boundary is a state that is not left.
        log_step = jnp.log(jnp.concatenate([self.transition, jnp.ones((1, self.transition.shape[1]))]))
        first = jax.random.categorical(key_first, jnp.log(self.start), shape=self.length.shape)
        _, rest = jax.lax.scan(step, first, jax.random.split(key_rest, self.num_steps - 1))
        states = jnp.concatenate([first[None], rest]).T
        length = jnp.minimum((states < size).sum(1), self.length)
        return jnp.where(jnp.arange(self.num_steps)[None, :] < length[:, None], states, 0), length

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """(…, N, L): paths given their lengths, which is where they stop; 0 beyond them."""
        lanes = side_by_side(self.length, self.num_steps)
        local = path_weights(self.start, self.transition, jnp.zeros((self.num_steps, *self.length.shape, 1)), lanes)
        there = jnp.arange(self.num_steps)[None, :] < self.length[:, None]
        keys = jax.random.split(key, prod(sample_shape))
        drawn = jax.vmap(lambda key: jnp.where(there, sample_states(key, local).T, 0))(keys)
        return drawn.reshape(*sample_shape, *there.shape)


def path_weights(start: Array, transition: Array, emission: Array, lanes: Lanes) -> Chain:
    """The chain of probabilities (S,) and (S, S) or (S, S + 1), with log densities (L, R, S) of steps, or (L, R, 1)."""
    size = start.shape[0]
    log_step = jnp.log(transition)
    stop = log_step[:, size] if log_step.shape[1] > size else jnp.zeros(size)
    emission = jnp.broadcast_to(emission, (*emission.shape[:2], size))
    return Chain(jnp.log(start), log_step[:, :size], stop, emission, lanes)


class HiddenMarkov(dist.Distribution):  # type: ignore[misc]
    """Steps (L, …) of N sequences that lie in ``lanes``: ``components`` emit, a batch of S, states follow a Markov chain.

    ``seen`` (N, L) and ``allowed`` (N, L, S) say which steps were observed, and what they may have been. The states are summed
    out by the forward recursion (`models.chain`), or given as ``state`` (N, L).
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.independent(_Cells(), 1)
    pytree_data_fields = ("start", "transition", "components", "lanes", "seen", "allowed", "state")

    def __init__(
        self,
        start: Array,
        transition: Array,
        components: Any,
        lanes: Lanes,
        seen: Array,
        allowed: Array,
        state: Array | None = None,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.start, self.transition, self.components = start, transition, components
        self.lanes, self.seen, self.allowed, self.state = lanes, seen, allowed, state
        super().__init__(jnp.shape(lanes.length), (jnp.shape(seen)[1], *components.event_shape), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """(N,)."""
        density = self.components.log_prob(jnp.asarray(value)[:, :, None, ...])  # (N, L, S)
        density = jnp.where(self.allowed, jnp.where(self.seen[..., None], density, 0.0), -jnp.inf)
        if self.state is not None:
            there = jnp.arange(density.shape[1])[None, :] < self.lanes.length[:, None]
            return jnp.where(there, jnp.take_along_axis(density, self.state[..., None], axis=2)[..., 0], 0.0).sum(1)
        local = path_weights(self.start, self.transition, laid_out(self.lanes, density), self.lanes)
        found: Array = chain.log_partition(local)
        return found
