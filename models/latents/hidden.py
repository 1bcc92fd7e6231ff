"""The latents of a mixture's row: its component, and the latents that a likelihood block adds.

A block whose density given the component has a short form adds nothing (`component_alone`). Others add latents that make its
family conjugate: missing cells (`models.latents.missing_cells`), precision factors (`models.latents.precision_factors`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from models.base import Latent, Reported
from models.latents.categorical import categorical, entropy, mode


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


def given_component(
    expected: Callable[[Array, Array, Any], Any],  # (key, component, natural parameters) -> values given every component
    sample: Callable[[Array, Any], Any],
    independent: Callable[[Array, Array], Any],
    complete: Callable[[Any, Any], Any],
) -> Hidden:
    """Latents given the component of a row, integrated out in the component's part; in the mode, too, they have their means.

    Natural parameters and values are named tuples with a field ``component``.
    """

    def update(of_component: Callable[[Array, Array], Array]) -> Callable[[Array, Any], Any]:
        return lambda key, local: expected(key, of_component(key, local.component), local)

    latent = Latent(
        log_partition=lambda local: categorical.log_partition(local.component),
        mean=update(categorical.mean),
        mode=update(mode),
        sample=sample,
        energy=lambda z, local: categorical.energy(z.component, local.component),
        reported=Reported(_component, lambda z, local: entropy(z.component, local.component)),
        independent=independent,
        values="discrete",
    )
    return Hidden(latent, _component, _on_component, complete)


def _component(value: Any) -> Array:
    component: Array = value.component
    return component


def _on_component(function: Callable[[Array], Array], local: Any) -> Any:
    return local._replace(component=function(local.component))


def drawn_given(hidden: Hidden, key: Array, component: Array, local: Any) -> Any:
    """The latents of a block, drawn from its natural parameters ``local`` given components (N, K), one-hot.

    A row without a component, as an empty cell of a grid, takes any.
    """
    anywhere = component.sum(-1, keepdims=True) == 0

    def at_component(density: Array) -> Array:
        return jnp.where(anywhere | (component > 0), jnp.zeros_like(density), -jnp.inf)

    return hidden.latent.sample(key, hidden.on_component(at_component, local))
