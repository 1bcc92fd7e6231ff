"""The latents of a mixture's row: its component, and the latents that a likelihood block adds.

A block whose density given the component has a short form adds nothing (`component_alone`). Others add latents that make its
family conjugate: missing cells (`models.latents.missing_cells`), precision factors (`models.latents.precision_factors`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from models.base import Latent
from models.latents.categorical import categorical


class Hidden(NamedTuple):
    """How a mixture reads the latents of a row, (component, latents of the block)."""

    latent: Latent
    component: Callable[[Any], Array]  # natural parameters, or a value -> (N, K): the component's part
    on_component: Callable[[Callable[[Array], Array], Any], Any]  # (function, natural parameters) -> these, that part changed
    complete: Callable[[Any, Any], Any]  # (z, u(x)) -> u of the completed row, which the block's statistics read
    # z -> the missing cells, where they are latents of the row; None: given the component they depend on no other cell
    cells: Callable[[Any], Any] = lambda z: None
    latent_if_missing: Latent | None = None  # the same latents where some cell of the table is missing, if that matters


component_alone = Hidden(
    latent=categorical,
    component=lambda value: value,
    on_component=lambda function, local: function(local),
    complete=lambda z, features: features,
)


def drawn_given(hidden: Hidden, key: Array, component: Array, own: Any) -> Any:
    """The block's own latents, drawn from its natural parameters ``own`` given components (N, K), one-hot.

    A row without a component, as an empty cell of a grid, takes any.
    """
    anywhere = component.sum(-1, keepdims=True) == 0

    def at_component(density: Array) -> Array:
        return jnp.where(anywhere | (component > 0), jnp.zeros_like(density), -jnp.inf)

    return hidden.latent.sample(key, hidden.on_component(at_component, own))
