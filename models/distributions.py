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
