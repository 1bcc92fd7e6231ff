"""The latents of a row whose columns are divided among blocks: one component, and the latents that some of the blocks have.

The blocks are independent given the component. Its natural parameter is the sum of their log densities, with the latents of the
blocks integrated out. The latents of a block depend on the columns of that block alone.
"""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
from jax import Array

from models.latents.categorical import categorical
from models.latents.hidden import Hidden, component_alone, drawn_given, given_component


class Beside(NamedTuple):
    """Natural parameters, or values, of a component and of the latents of blocks."""

    component: Array  # (N, K)
    latents: Mapping[str, Any]  # by block; each also has a part for the component, which is not used


@cache
def beside(blocks: tuple[tuple[str, Hidden], ...]) -> Hidden:
    """The latents of ``blocks``, each with its name; the component alone where no block adds any. Cached."""
    hiddens = {name: hidden for name, hidden in blocks if hidden is not component_alone}
    if not hiddens:
        return component_alone
    return given_component(partial(_expected, hiddens), partial(_sample, hiddens), partial(_independent, hiddens), Completed)


class Completed(NamedTuple):
    """Rows with the latents of all blocks."""

    z: Beside
    rows: Mapping[str, Any]  # u(x) by block

    def of(self, name: str, hidden: Hidden) -> Any:
        """The features of one block, completed by its latents."""
        return self.rows[name] if hidden is component_alone else hidden.complete(self.z.latents[name], self.rows[name])


def _expected(hiddens: Mapping[str, Hidden], key: Array, component: Array, local: Beside) -> Beside:
    return Beside(component, {name: hidden.latent.mean(key, local.latents[name]) for name, hidden in hiddens.items()})


def _sample(hiddens: Mapping[str, Hidden], key: Array, local: Beside) -> Beside:
    key_component, *keys = jax.random.split(key, 1 + len(hiddens))
    component = categorical.sample(key_component, local.component)
    drawn = zip(hiddens.items(), keys, strict=True)
    return Beside(component, {name: drawn_given(hidden, k, component, local.latents[name]) for (name, hidden), k in drawn})


def _independent(hiddens: Mapping[str, Hidden], key: Array, probs: Array) -> Beside:
    found = {}
    for name, hidden in hiddens.items():
        assert hidden.latent.independent is not None
        found[name] = hidden.latent.independent(key, probs)
    return Beside(probs, found)
