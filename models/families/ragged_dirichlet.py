"""Rows of probabilities of different lengths, concatenated in one vector: a Dirichlet family, and its NumPyro distribution.

``sizes`` are the lengths of the rows. If only 20 of 10,000 possible words occur in a row, only 21 entries are stored.
"""

from functools import cache, partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import digamma, gammaln
from numpyro import distributions as dist
from numpyro.distributions import biject_to, constraints, transforms

from models.base import Family
from models.families.conjugate import why_no_dirichlet_mode
from models.families.log_gamma import log_gamma

Sizes = tuple[int, ...]


def row_sums(sizes: Sizes, values: Array) -> Array:
    """(…, P) -> (…, R): the sum of each row."""
    rows = np.repeat(np.arange(len(sizes)), sizes)
    sums = partial(jax.ops.segment_sum, segment_ids=rows, num_segments=len(sizes), indices_are_sorted=True)
    return jnp.moveaxis(sums(jnp.moveaxis(values, -1, 0)), 0, -1)


def spread(sizes: Sizes, values: Any) -> Array:
    """(…, R) -> (…, P): each entry gets the value of its row."""
    return values[..., np.repeat(np.arange(len(sizes)), sizes)]


def log_normalised(sizes: Sizes, logits: Array) -> Array:
    """Normalise logits to log probabilities, row by row."""
    rows = np.repeat(np.arange(len(sizes)), sizes)
    largest = partial(jax.ops.segment_max, segment_ids=rows, num_segments=len(sizes), indices_are_sorted=True)
    top = jax.lax.stop_gradient(jnp.moveaxis(largest(jnp.moveaxis(logits, -1, 0)), 0, -1))
    shifted = logits - spread(sizes, top)
    return shifted - spread(sizes, jnp.log(row_sums(sizes, jnp.exp(shifted))))


@cache
def ragged_dirichlet(sizes: Sizes) -> Family:
    """Independent Dirichlet rows, T = log p (…, P), nu = concentration − 1 + counts. Cached by ``sizes``."""

    def log_partition(nu: Array) -> Array:
        return gammaln(nu + 1).sum() - gammaln(row_sums(sizes, nu + 1)).sum()

    def sample(key: Array, nu: Array) -> Array:
        return log_normalised(sizes, log_gamma(key, nu + 1))

    return Family(
        log_partition=log_partition,
        mean=lambda nu: digamma(nu + 1) - spread(sizes, digamma(row_sums(sizes, nu + 1))),
        mode=lambda nu: jnp.log(nu) - spread(sizes, jnp.log(row_sums(sizes, nu))),
        sample=sample,
        why_no_mode=partial(why_no_dirichlet_mode, sums=lambda nu: np.asarray(row_sums(sizes, jnp.asarray(nu)))),
    )


class RaggedSimplex(constraints.Constraint):  # type: ignore[misc]
    """Vectors (P,) whose rows sum to 1."""

    event_dim = 1

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes

    def __call__(self, x: Array) -> Array:
        return (x >= 0).all(-1) & (jnp.abs(row_sums(self.sizes, x) - 1) < 1e-6).all(-1)

    def feasible_like(self, prototype: Array) -> Array:
        """Uniform rows."""
        return jnp.broadcast_to(spread(self.sizes, 1 / np.array(self.sizes, dtype=float)), jnp.shape(prototype))

    def tree_flatten(self) -> Any:
        """No arrays: the sizes are static."""
        return (), ((), {"sizes": self.sizes})

    def eq(self, other: object, static: bool = False) -> bool:
        """Equal sizes."""
        return isinstance(other, RaggedSimplex) and self.sizes == other.sizes


class LogRatio(transforms.Transform):  # type: ignore[misc]
    """Log-ratios of the entries of each row to its last -> probabilities. The Jacobian is the product of all probabilities."""

    domain = constraints.real_vector

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes

    @property
    def codomain(self) -> RaggedSimplex:
        """The ragged simplex."""
        return RaggedSimplex(self.sizes)

    def _free(self) -> np.ndarray:
        """Indices of all entries but the last of each row."""
        return np.delete(np.arange(sum(self.sizes)), np.cumsum(self.sizes) - 1)

    def __call__(self, x: Array) -> Array:
        logits = jnp.zeros((*jnp.shape(x)[:-1], sum(self.sizes)), jnp.result_type(x)).at[..., self._free()].set(x)
        return jnp.exp(log_normalised(self.sizes, logits))

    def _inverse(self, y: Array) -> Array:
        logs = jnp.log(y)
        last = spread(self.sizes, logs[..., np.cumsum(self.sizes) - 1])
        return (logs - last)[..., self._free()]

    def log_abs_det_jacobian(self, x: Array, y: Array, intermediates: Any = None) -> Array:
        """Σ log p: (…,)."""
        return jnp.log(y).sum(-1)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One more entry per row."""
        return (*shape[:-1], shape[-1] + len(self.sizes))

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One entry less per row."""
        return (*shape[:-1], shape[-1] - len(self.sizes))

    def tree_flatten(self) -> Any:
        """No arrays: the sizes are static."""
        return (), ((), {"sizes": self.sizes})

    def eq(self, other: object, static: bool = False) -> bool:
        """Equal sizes."""
        return isinstance(other, LogRatio) and self.sizes == other.sizes


biject_to.register(RaggedSimplex, lambda constraint: LogRatio(constraint.sizes))


class RaggedDirichlet(dist.Distribution):  # type: ignore[misc]
    """Independent Dirichlet rows of different lengths, concatenated: values (P,)."""

    arg_constraints: ClassVar = {"concentration": constraints.independent(constraints.positive, 1)}
    pytree_data_fields = ("concentration",)
    pytree_aux_fields = ("sizes",)

    def __init__(self, concentration: Array, sizes: Sizes, *, validate_args: bool | None = None) -> None:
        self.concentration, self.sizes = concentration, sizes
        super().__init__(jnp.shape(concentration)[:-1], (sum(sizes),), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=1)  # type: ignore[untyped-decorator]
    def support(self) -> RaggedSimplex:
        """The ragged simplex."""
        return RaggedSimplex(self.sizes)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Normalised Gamma variables, row by row."""
        logs = jax.random.loggamma(key, self.concentration, shape=(*sample_shape, *self.batch_shape, *self.event_shape))
        return jnp.exp(log_normalised(self.sizes, logs))

    def log_prob(self, value: Array) -> Array:
        """Σ over rows of the Dirichlet log density."""
        normaliser = gammaln(self.concentration).sum(-1) - gammaln(row_sums(self.sizes, self.concentration)).sum(-1)
        return ((self.concentration - 1) * jnp.log(value)).sum(-1) - normaliser
