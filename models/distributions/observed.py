"""NumPyro distributions for rows with missing cells, words of documents, and columns of several kinds."""

from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln, xlogy
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.errors import ZooError
from models.families.cholesky import half_log_determinant


class WordCounts(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Multinomial word counts (V,) of a document. Its length is given by the value, not modelled.

    Samples have the numbers of words ``total`` (N,).
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex}
    support = constraints.independent(constraints.nonnegative_integer, 1)
    pytree_data_fields = ("probs", "total")

    def __init__(self, probs: Array, total: Array, *, validate_args: bool | None = None) -> None:
        self.probs, self.total = probs, total
        super().__init__(jnp.shape(probs)[:-1], jnp.shape(probs)[-1:], validate_args=validate_args)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """(…, N, K, V) for sample shape (…, N) and batch shape (K,)."""
        total = self.total.reshape(*self.total.shape, *[1] * len(self.batch_shape))
        number = jnp.broadcast_to(total.astype(float), (*sample_shape, *self.batch_shape))
        return jax.random.multinomial(key, number, self.probs, shape=number.shape)

    def log_prob(self, value: Any) -> Array:
        """Log p(counts | their sum), including the multinomial coefficient: batch shape."""
        value = jnp.asarray(value, jnp.result_type(float))
        return gammaln(value.sum(-1) + 1) + (xlogy(value, self.probs) - gammaln(value + 1)).sum(-1)


class TopicWords(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Words (L,) of N documents under a mixture of K topics, each word repeated ``count`` (N, L) times.

    ``topic`` (N, K) are the proportions of the documents, ``word`` (K, V) the words of the topics. ``state`` (N, L)
    are the topics of the words; they are summed out if None. ``carrier`` (N,) is the log multinomial coefficient.
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
        if self.state is None:  # an array of documents × words, not of documents × words × topics
            probs = jnp.take_along_axis(self.topic @ self.word, value, axis=1)
        else:
            possible = jnp.take_along_axis(self.topic, self.state, axis=1) > 0
            probs = jnp.where(possible, self.word[self.state, value], 0.0)
        seen = self.count > 0
        logs = jnp.where(seen, self.count * jnp.log(jnp.where(seen, probs, 1.0)), 0.0)
        return self.carrier + logs.sum(-1)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """(…, N, L): a word for each given topic, including padding."""
        if self.state is None:
            raise NotImplementedError("words can be drawn only given their topics: use marginal=False")
        return jax.random.categorical(key, jnp.log(self.word)[self.state], shape=(*sample_shape, *self.state.shape))


class EventSequence(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Sequences of events with log probabilities ``log_probs`` (…, E), each given the previous events.

    A value (L,) holds event numbers from 1 to E, 0 for padding. For a Markov chain the first event is a token, the others are
    pairs of tokens (`models.emissions.markov`). Lengths are given: an empty sequence has probability 1. Samples have the
    lengths of ``like`` (N, L). They require events for all ``num_tokens`` first tokens and all pairs of tokens, which are
    the same at each step (``steps`` None) or different for each of ``steps`` steps.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.independent(constraints.nonnegative_integer, 1)
    pytree_data_fields = ("log_probs", "like")
    pytree_aux_fields = ("num_tokens", "steps")

    def __init__(
        self, log_probs: Array, like: Array, num_tokens: int, steps: int | None = None, *, validate_args: bool | None = None
    ) -> None:
        self.log_probs, self.like, self.num_tokens, self.steps = log_probs, like, num_tokens, steps
        super().__init__(jnp.shape(log_probs)[:-1], (1,), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Σ_i log_probs[value_i]: (…, K) for values (…, 1, L) and batch shape (K,)."""
        nothing = jnp.zeros((1, self.log_probs.shape[0]))
        table = jnp.concatenate([nothing, self.log_probs.T])
        return table[jnp.asarray(value)].sum((-3, -2))

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Events (…, N, K, L) for sample shape (…, N) and batch shape (K,); 0 beyond the lengths of ``like``."""
        size, length, steps = self.num_tokens, self.like.shape[-1], self.steps or 1
        if self.log_probs.shape[-1] != size + size**2 * steps:
            raise ZooError('sequences over observed pairs cannot be drawn: the token behind "another token" is unknown')
        shape = (*sample_shape, *self.batch_shape)
        pairs = self.log_probs[:, size:].reshape(-1, steps, size, size)  # (K, steps, before, after)
        component = jnp.broadcast_to(jnp.arange(pairs.shape[0]), shape)
        key_first, key_rest = jax.random.split(key)
        first = jax.random.categorical(key_first, self.log_probs[:, :size], shape=shape)

        def follow(before: Array, each: tuple[Array, Array]) -> tuple[Array, Array]:
            key, place = each
            after = jax.random.categorical(key, pairs[component, place, before])
            return after, size + place * size**2 + before * size + after

        places = jnp.arange(length - 1) if self.steps else jnp.zeros(length - 1, int)
        _, rest = jax.lax.scan(follow, first, (jax.random.split(key_rest, length - 1), places))
        events = jnp.moveaxis(jnp.concatenate([first[None], rest]), 0, -1)
        there = (self.like > 0).reshape(*self.like.shape[:-1], *[1] * len(self.batch_shape), length)
        return jnp.where(there, events + 1, 0)


class _Codes(constraints.ParameterFreeConstraint):  # type: ignore[misc]
    """Codes (D,) from 0; −1 or NaN for a missing cell."""

    event_dim = 1
    is_discrete = True

    def __call__(self, x: Array) -> Array:
        return (jnp.isnan(x) | (x == -1) | ((x >= 0) & jnp.isfinite(x) & (x == jnp.floor(x)))).all(-1)

    def feasible_like(self, prototype: Array) -> Array:
        return jnp.zeros_like(prototype)


class Categories(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Codes (D,) of independent categorical columns; ``probs`` has one array (…, levels) per column.

    A code of −1 or NaN is a missing cell, which contributes a factor of 1.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = _Codes()
    pytree_data_fields = ("probs",)

    def __init__(self, probs: Sequence[Array], *, validate_args: bool | None = None) -> None:
        self.probs = tuple(probs)
        super().__init__(jnp.shape(self.probs[0])[:-1], (len(self.probs),), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Σ_d log p_d(value_d): (…, K) for values (…, 1, D) and batch shape (K,)."""
        value = jnp.asarray(value)
        codes = jnp.where(value >= 0, value, -1).astype(int)  # NaN becomes −1
        by_level = (_with_missing(jnp.moveaxis(jnp.log(probs), -1, 0)) for probs in self.probs)  # (levels + 2, K)
        parts = [table[jnp.minimum(codes[..., d], len(table) - 2)] for d, table in enumerate(by_level)]  # (…, 1, K)
        return sum((part.reshape(*part.shape[:-2], part.shape[-1]) for part in parts), jnp.zeros(()))

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """(…, D): codes of all columns."""
        shape, keys = (*sample_shape, *self.batch_shape), jax.random.split(key, len(self.probs))
        drawn = (jax.random.categorical(k, jnp.log(probs), shape=shape) for k, probs in zip(keys, self.probs, strict=True))
        return jnp.stack(list(drawn), axis=-1)


def _with_missing(log_probs: Array) -> Array:
    """Append a row of −∞ for invalid codes, and a last row of zeros, at index −1, for missing cells."""
    return jnp.concatenate([log_probs, jnp.full((1, log_probs.shape[1]), -jnp.inf), jnp.zeros((1, log_probs.shape[1]))])


class _Cells(constraints.ParameterFreeConstraint):  # type: ignore[misc]
    """Numbers (D,), NaN for a missing cell."""

    event_dim = 1

    def __call__(self, x: Array) -> Array:
        return ~jnp.isinf(x).any(-1)

    def feasible_like(self, prototype: Array) -> Array:
        return jnp.zeros_like(prototype)


CELLS = _Cells()


class ObservedColumns(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Independent columns (D,) with missing cells (NaN) integrated out."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = CELLS
    pytree_data_fields = ("cells",)

    def __init__(self, cells: Any, *, validate_args: bool | None = None) -> None:
        self.cells = cells  # batch shape (..., D)
        super().__init__(cells.batch_shape[:-1], cells.batch_shape[-1:], validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Σ over the observed d of log p(value_d)."""
        seen = ~jnp.isnan(value)
        return jnp.where(seen, self.cells.log_prob(jnp.where(seen, value, 0.0)), 0.0).sum(-1)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """(…, D): complete rows."""
        drawn: Array = self.cells.sample(key, sample_shape)
        return drawn


class ObservedNormal(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Multivariate Normal (D,) with missing cells (NaN) integrated out: Normal(loc_o, covariance_oo)."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = CELLS
    pytree_data_fields = ("loc", "covariance")

    def __init__(self, loc: Array, covariance: Array, *, validate_args: bool | None = None) -> None:
        self.loc, self.covariance = loc, covariance
        super().__init__(jnp.shape(loc)[:-1], jnp.shape(loc)[-1:], validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Log density; missing cells are treated as standard Normals at 0, whose log density is then subtracted."""
        seen = ~jnp.isnan(value)
        both = seen[..., :, None] & seen[..., None, :]
        covariance = jnp.where(both, self.covariance, jnp.eye(value.shape[-1]))
        away = jnp.where(seen, value - self.loc, 0.0)
        whole = dist.MultivariateNormal(covariance_matrix=covariance).log_prob(away)
        return whole + 0.5 * jnp.log(2 * jnp.pi) * (~seen).sum(-1)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """(…, D): complete rows."""
        drawn: Array = dist.MultivariateNormal(self.loc, self.covariance).sample(key, sample_shape)
        return drawn


class ObservedStudentT(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Multivariate Student-t (D,) with missing cells (NaN) integrated out: Student-t(df, loc_o, scale_oo)."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = CELLS
    pytree_data_fields = ("df", "loc", "scale_tril")

    def __init__(self, df: Array, loc: Array, scale_tril: Array, *, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale_tril = df, loc, scale_tril
        super().__init__(jnp.shape(loc)[:-1], jnp.shape(loc)[-1:], validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Log density; the scale matrix of missing cells is the identity, and they are at their locations."""
        seen = ~jnp.isnan(value)
        both = seen[..., :, None] & seen[..., None, :]
        scale = jnp.where(both, self.scale_tril @ jnp.swapaxes(self.scale_tril, -1, -2), jnp.eye(value.shape[-1]))
        root = jnp.linalg.cholesky(scale)
        away = jnp.where(seen, value - self.loc, 0.0)
        square = (jax.scipy.linalg.solve_triangular(root, away[..., None], lower=True)[..., 0] ** 2).sum(-1)
        half, number = 0.5 * self.df, seen.sum(-1)
        constant = gammaln(half + 0.5 * number) - gammaln(half) - 0.5 * number * jnp.log(self.df * jnp.pi)
        return constant - half_log_determinant(root) - (half + 0.5 * number) * jnp.log1p(square / self.df)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """(…, D): complete rows."""
        drawn: Array = dist.MultivariateStudentT(self.df, self.loc, self.scale_tril).sample(key, sample_shape)
        return drawn


class ObservedFactors(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Multivariate Normal (D,) with covariance loading loadingᵀ + diag(noise), missing cells (NaN) integrated out.

    Uses Woodbury's identity: one (L, L) matrix per row.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = CELLS
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
        cells = jnp.where(seen, away**2 / self.noise + jnp.log(2 * jnp.pi * self.noise), 0.0).sum(-1)
        return 0.5 * (pull**2).sum(-1) - 0.5 * cells - half_log_determinant(root)


class SideBySide(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Independent groups of columns: ``parts`` are their distributions, ``places`` the indices of their columns (D,)."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = CELLS
    pytree_data_fields = ("parts",)
    pytree_aux_fields = ("places",)

    def __init__(self, places: Sequence[Sequence[int]], parts: Sequence[Any], *, validate_args: bool | None = None) -> None:
        self.places = tuple(map(tuple, places))
        self.parts = tuple(parts)
        super().__init__(self.parts[0].batch_shape, (sum(map(len, self.places)),), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Σ_parts log p(value[places])."""
        densities = (part.log_prob(value[..., np.array(place)]) for place, part in zip(self.places, self.parts, strict=True))
        return sum(densities, jnp.zeros(()))

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """(…, D)."""
        keys = jax.random.split(key, len(self.parts))
        drawn = [part.sample(k, sample_shape).astype(float) for k, part in zip(keys, self.parts, strict=True)]
        return jnp.concatenate(drawn, axis=-1)[..., np.argsort(np.concatenate(self.places))]


def observed_part(components: Any) -> Any:
    """The same distribution with missing cells (NaN) integrated out: Normal, Student-t, or of independent columns."""
    if isinstance(components, SideBySide):
        return SideBySide(components.places, [observed_part(part) for part in components.parts])
    if isinstance(components, dist.MultivariateNormal):
        return ObservedNormal(components.loc, components.covariance_matrix)
    if isinstance(components, dist.MultivariateStudentT):
        return ObservedStudentT(components.df, components.loc, components.scale_tril)
    return components if isinstance(components, Categories) else ObservedColumns(components.base_dist)
