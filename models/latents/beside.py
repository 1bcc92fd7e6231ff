"""The latents of blocks side by side: one component for all, and what some of the blocks add to it.

Given the component, the blocks are independent. So the component reads the sum of their log densities, with their own latents
integrated out, and each block's own latents read their block alone.
"""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
from jax import Array

from models.latents.categorical import categorical
from models.latents.hidden import Hidden, component_alone, drawn_given, given_component


class Beside(NamedTuple):
    """Natural parameters, or values, of a component and of the own latents of blocks by name."""

    component: Array  # (N, K)
    own: Mapping[str, Any]  # what it says of the component itself is not read


@cache
def beside(blocks: tuple[tuple[str, Hidden], ...]) -> Hidden:
    """The latents of ``blocks``, each with its name; the component alone where no block adds any. Cached."""
    own = {name: hidden for name, hidden in blocks if hidden is not component_alone}
    if not own:
        return component_alone
    return given_component(partial(_expected, own), partial(_sample, own), partial(_independent, own), Completed)


class Completed(NamedTuple):
    """Rows with the latents of all blocks."""

    z: Beside
    rows: Mapping[str, Any]  # u(x) by block

    def of(self, name: str, hidden: Hidden) -> Any:
        """U of the completed row that one block reads."""
        return self.rows[name] if hidden is component_alone else hidden.complete(self.z.own[name], self.rows[name])


def _expected(own: Mapping[str, Hidden], key: Array, component: Array, local: Beside) -> Beside:
    return Beside(component, {name: hidden.latent.mean(key, local.own[name]) for name, hidden in own.items()})


def _sample(own: Mapping[str, Hidden], key: Array, local: Beside) -> Beside:
    key_component, *keys = jax.random.split(key, 1 + len(own))
    component = categorical.sample(key_component, local.component)
    drawn = zip(own.items(), keys, strict=True)
    return Beside(component, {name: drawn_given(hidden, k, component, local.own[name]) for (name, hidden), k in drawn})


def _independent(own: Mapping[str, Hidden], key: Array, probs: Array) -> Beside:
    found = {}
    for name, hidden in own.items():
        assert hidden.latent.independent is not None
        found[name] = hidden.latent.independent(key, probs)
    return Beside(probs, found)
