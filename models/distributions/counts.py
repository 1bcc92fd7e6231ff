"""NumPyro distributions for counts."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.families.degrees_of_freedom import log_ratio, normaliser


class NegativeBinomial(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Counts with mean ``rate`` and variance rate + rate² / ``inverse_dispersion``.

    NumPyro's NegativeBinomial2 to all digits: the Beta function of JAX that it reads has seven. With r the inverse dispersion,
    a = r + x and g of `models.families.degrees_of_freedom`, log p(x) is

        x log rate − log x! + g(r) − g(a) − x − a log((r + rate) / a)

    in which no large numbers cancel where r is large.

    >>> bool(abs(NegativeBinomial(2.0, 1.0).log_prob(0) - jnp.log(1 / 3)) < 1e-6)
    True
    """

    arg_constraints: ClassVar = {"rate": constraints.nonnegative, "inverse_dispersion": constraints.positive}
    support = constraints.nonnegative_integer
    pytree_data_fields = ("rate", "inverse_dispersion")

    def __init__(self, rate: Array | float, inverse_dispersion: Array | float, *, validate_args: bool | None = None) -> None:
        shape = jnp.broadcast_shapes(jnp.shape(rate), jnp.shape(inverse_dispersion))
        self.rate, self.inverse_dispersion = (jnp.broadcast_to(part, shape) for part in (rate, inverse_dispersion))
        super().__init__(shape, (), validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Log p(count)."""
        x = jnp.asarray(value, jnp.result_type(float))
        shape = self.inverse_dispersion + x
        ratio = log_ratio(self.rate, self.inverse_dispersion, x)
        events = x * jnp.log(jnp.where(x == 0, 1.0, self.rate))  # without a slope that is undefined at a rate of 0
        return events - gammaln(x + 1) + normaliser(self.inverse_dispersion) - normaliser(shape) - x - shape * ratio

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Poisson counts at rates that are Gamma distributed."""
        key_rate, key_x = jax.random.split(key)
        shape = jnp.broadcast_to(self.inverse_dispersion, (*sample_shape, *self.batch_shape))
        return jax.random.poisson(key_x, self.rate * jax.random.gamma(key_rate, shape) / shape)
