"""Distributions that the programs need and NumPyro lacks."""

from collections.abc import Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln, xlogy
from numpyro import distributions as dist
from numpyro.distributions import constraints


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
    """Codes (D,) of independent categorical columns, whose numbers of levels may differ: probs is one (…, levels) a column."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.independent(constraints.nonnegative_integer, 1)
    pytree_data_fields = ("probs",)

    def __init__(self, probs: Sequence[Array], *, validate_args: bool | None = None) -> None:
        self.probs = tuple(probs)
        super().__init__(jnp.shape(self.probs[0])[:-1], (len(self.probs),), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Σ_d log p_d(value_d): (…, K) for values (…, 1, D) and a batch of K."""
        codes = jnp.asarray(value)
        by_level = (jnp.moveaxis(jnp.log(probs), -1, 0) for probs in self.probs)  # (levels, K)
        parts = [table[codes[..., d]] for d, table in enumerate(by_level)]  # (…, 1, K)
        return sum((part.reshape(*part.shape[:-2], part.shape[-1]) for part in parts), jnp.zeros(()))
