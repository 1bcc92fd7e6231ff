"""Wrong formulas of the probability that two temperatures exchange their states, which tests must reject."""

from typing import Any

import jax.numpy as jnp


def backwards(temperature: Any, energy: Any) -> Any:
    """A wrong formula: the sign of the exponent."""
    return jnp.minimum(1.0, jnp.exp((temperature[:-1] - temperature[1:]) * (energy[:-1] - energy[1:])))


def of_the_colder(temperature: Any, energy: Any) -> Any:
    """A wrong formula: β_i in the place of β_i − β_j."""
    return jnp.minimum(1.0, jnp.exp(temperature[:-1] * (energy[1:] - energy[:-1])))


def always(temperature: Any, energy: Any) -> Any:
    """A wrong formula: every proposal is accepted."""
    return jnp.ones(len(temperature) - 1)
