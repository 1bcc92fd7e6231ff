"""A path of states, and the latents of the emission at every step: missing cells, precision factors (`models.latents.hidden`).

Given the state of a step, the latents of the block depend on nothing else. So log p(x_t | z_t = i), with them integrated out,
enters the recursions of the path; they are expected, or drawn, for every state of a step once the path is known.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
from jax import Array

from models.base import Latent, Reported
from models.chains.latent import Filtered, chain
from models.chains.posterior_counts import Path, in_packing
from models.latents.hidden import Hidden, component_alone, drawn_given
from models.rows.packing import Packing, laid_out, row_by_row


class Emitting(NamedTuple):
    """Natural parameters of a path and of the latents of the block."""

    path: Filtered
    block: Any  # of the steps of the grid, one after another: leaves (L R, …); the component's part is log p(x_t | state)


class Emitted(NamedTuple):
    """A path and the latents of the block, expected or drawn."""

    path: Path
    block: Any  # given every state, or the state drawn; its component part is not read


def path_part(value: Any) -> Any:
    """The path of natural parameters, or of latents."""
    return value.path if isinstance(value, Emitting | Emitted) else value


def emitting(hidden: Hidden, path: Filtered, of_block: Any) -> Filtered | Emitting:
    """Natural parameters, from those of the path and of the block at the steps."""
    return path if hidden is component_alone else Emitting(path, of_block)


def moved(hidden: Hidden, z: Any, packing: Packing) -> tuple[Path, Any]:
    """(the path, the latents of the block or None) on another packing; starts lie side by side."""
    path = in_packing(path_part(z), packing)
    if hidden is component_alone:
        return path, None
    before = z.path.packing
    if before.extent == packing.extent:
        return path, z.block

    def one(leaf: Array) -> Array:
        steps = laid_out(packing, row_by_row(before, leaf.reshape(before.extent.steps, before.extent.bins, *leaf.shape[1:])))
        return steps.reshape(-1, *leaf.shape[1:])

    return path, jax.tree.map(one, z.block)


@cache
def latent_of(hidden: Hidden) -> Latent:
    """The latents of sequences with a block; cached, and the chain alone where a block adds no latents."""
    if hidden is component_alone:
        return chain
    return chain._replace(
        log_partition=lambda local: chain.log_partition(local.path),
        mean=partial(_expected, hidden, chain.mean),
        mode=None if chain.mode is None else partial(_expected, hidden, chain.mode),
        sample=partial(_sample, hidden),
        energy=lambda z, local: chain.energy(z.path, local.path),
        reported=_reported(),
        independent=partial(_independent, hidden),
    )


def _reported() -> Reported:
    entropy = chain.reported.entropy
    assert entropy is not None
    return Reported(lambda z: chain.reported.part(z.path), lambda z, local: entropy(z.path, local.path))


def _expected(hidden: Hidden, update: Any, key: Array, local: Emitting) -> Emitted:
    """The path by ``update``; the latents of the block stay integrated out, and have their means given every state."""
    return Emitted(update(key, local.path), hidden.latent.mean(key, local.block))


def _sample(hidden: Hidden, key: Array, local: Emitting) -> Emitted:
    """A path, then the latents of the block given its states."""
    key_path, key_own = jax.random.split(key)
    path = chain.sample(key_path, local.path)
    state = path.state.reshape(-1, path.state.shape[-1])  # nowhere above 0 in an empty cell of the grid
    return Emitted(path, drawn_given(hidden, key_own, state, local.block))


def _independent(hidden: Hidden, key: Array, probs: Array) -> Emitted:
    """A start from marginal probabilities (N, L, S): that of the chain, and that of the block without a component."""
    assert chain.independent is not None
    assert hidden.latent.independent is not None
    path = chain.independent(key, probs)
    return Emitted(path, hidden.latent.independent(key, path.state.reshape(-1, probs.shape[-1])))
