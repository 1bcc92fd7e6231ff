"""The two recursions of a chain over time, step by step, or for few long rows in blocks of steps side by side.

Of R rows and S states, time first. A row is cut into blocks that are run together: each from every one of the S states at once,
which says how any beginning leads to its end, so that the beginnings of all blocks follow one from another in few steps; then
every block is run again from where it begins. That is S + 1 times the work in √L times fewer steps (the associative scan of
Särkkä and García-Fernández 2021 with blocks in the place of a tree): it pays where a step costs a launch, as on a GPU. On a CPU
a step of one row takes 0.1 µs, and blocks are slower (docs/benchmarks.md).
"""

from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

FEW = 16  # states up to which a product is written out
UNROLL = 2  # steps of a loop that the compiler sees together
LONG = 4096  # steps from which blocks pay, if a step has
NARROW = 4096  # numbers at most


class Steps(NamedTuple):
    """What the recursions read of every step."""

    emission: Array  # (L, R, S): log p(x_t | z_t = i), −∞ where a state is not allowed; on the way back its ``weight``
    there: Array  # (L, R): whether the row has this step
    continues: Array  # (L, R): and another after it


class States(NamedTuple):
    """What the way forward brings."""

    last: Array  # (R, S): the last state of every row
    state: Array  # (L, R, S): of sum one; beyond the end of a row its last
    weight: Array  # (L, R, S): exp(emission − largest), 0 for a state that the steps before do not lead to
    scale: Array  # (L, R): what a state is divided by; 1 beyond the end
    largest: Array  # (L, R): the largest emission of a state that can be reached; 0 beyond the end


def product(states: Array, matrix: Array) -> Array:
    """(R, S) times (S, S); of few states term by term, which is faster than a call of the library a step."""
    size = matrix.shape[0]
    if size > FEW:
        return states @ matrix
    return reduce(jnp.add, (states[:, i, None] * matrix[i][None, :] for i in range(size)))


def divisor(total: Array) -> Array:
    """1 in the place of 0: what is impossible stays 0."""
    return jnp.where(total > 0, total, 1.0)


def num_blocks(length: int, rows: int, size: int) -> int:
    """Into how many blocks rows are cut: one on a CPU, and where they are short, or so many that a step has enough to do."""
    return int(np.sqrt(length)) if length >= LONG and rows * size <= NARROW and jax.default_backend() != "cpu" else 1


# ---------------------------------------------------------------------------------------------------------------------
# Forward


def filter_states(start: Array, transition: Array, steps: Steps) -> States:
    """α_{t+1} = (α_t · transition) ∘ exp(emission_{t+1}), α of sum one, from ``start`` (S,)."""
    length, *rows = steps.emission.shape
    blocks = num_blocks(length, *rows)
    start = jnp.broadcast_to(start, tuple(rows))
    if blocks == 1:
        return _filter(start, start, transition, steps)
    cut = _cut(steps, blocks, 0.0)
    expected, before = _beginnings(start, transition, _ends(transition, cut), blocks)
    last, *found = _filter(expected, before, transition, cut)
    return States(last.reshape(blocks, *rows)[-1], *(_joined(leaf, blocks, length) for leaf in found))


def _weights(expected: Array, emission: Array) -> tuple[Array, Array]:
    """(exp(emission − largest), largest) over the states that can be reached.

    Next to a state that cannot, all others may be 0 in floating point.
    """
    reached = jnp.where(expected > 0, emission, -jnp.inf)
    largest = lax.stop_gradient(reached.max(-1))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    return jnp.exp(reached - largest[..., None]), largest


def _filter(expected: Array, before: Array, transition: Array, steps: Steps) -> States:
    """From ``expected``, the first state as seen from the steps before, and ``before``, what is carried on if there is none."""

    def advance(carried: tuple[Array, Array], here: tuple[Array, Array]) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        expected, before = carried
        emission, there = here
        weight, largest = _weights(expected, emission)
        joint = expected * weight
        scale = joint.sum(-1)
        state = jnp.where(there[:, None], joint * (1 / divisor(scale))[:, None], before)
        seen = (state, weight, jnp.where(there, scale, 1.0), jnp.where(there, largest, 0.0))
        return (product(state, transition), state), seen

    (_, last), found = lax.scan(advance, (expected, before), (steps.emission, steps.there), unroll=UNROLL)
    return States(last, *found)


class Ends(NamedTuple):
    """Where R blocks end, by the state that was expected at their first step."""

    state: Array  # (R, S, S): the last state, of sum one
    log_scale: Array  # (R, S): log of what it was divided by
    there: Array  # (R,): whether the block has a step


def _ends(transition: Array, steps: Steps) -> Ends:
    rows, size = steps.emission.shape[1:]
    each = jnp.broadcast_to(jnp.eye(size, dtype=steps.emission.dtype), (rows, size, size))

    def advance(carried: tuple[Array, Array, Array], here: tuple[Array, Array]) -> tuple[tuple[Array, Array, Array], None]:
        expected, before, log_scale = carried
        emission, there = here
        weight, largest = _weights(expected, emission[:, None, :])
        joint = expected * weight
        scale = joint.sum(-1)
        state = jnp.where(there[:, None, None], joint / divisor(scale)[..., None], before)
        log_scale = log_scale + jnp.where(there[:, None], jnp.log(scale) + largest, 0.0)
        return (product(state.reshape(-1, size), transition).reshape(state.shape), state, log_scale), None

    (_, state, log_scale), _ = lax.scan(
        advance, (each, each, jnp.zeros((rows, size), each.dtype)), (steps.emission, steps.there), unroll=UNROLL
    )
    return Ends(state, log_scale, steps.there[0])


def _beginnings(start: Array, transition: Array, ends: Ends, blocks: int) -> tuple[Array, Array]:
    """(expected, before) of all blocks (C R, S), those of the first block ``start``."""
    rows, size = start.shape
    by_block = jax.tree.map(lambda leaf: leaf.reshape(blocks, rows, *leaf.shape[1:]), ends)

    def advance(carried: tuple[Array, Array], here: Ends) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        expected, before = carried
        weight = jnp.log(expected) + here.log_scale
        largest = jnp.max(weight, axis=-1, keepdims=True)
        share = jnp.exp(weight - jnp.where(jnp.isfinite(largest), largest, 0.0))
        state = jnp.einsum("ri,rij->rj", share, here.state)
        state = jnp.where(here.there[:, None], state / divisor(state.sum(-1))[:, None], before)
        return (product(state, transition), state), carried

    _, (expected, before) = lax.scan(advance, (start, start), by_block)
    return expected.reshape(-1, size), before.reshape(-1, size)


# ---------------------------------------------------------------------------------------------------------------------
# Backward


def smooth(transition: Array, stop: Array, share: Array, states: Array, scales: Array, steps: Steps) -> tuple[Array, Array]:
    """(expected states (L, R, S), expected pairs of states (R, S, S) but for the factor ``transition``), given filtered ones.

    β_t = transition · (weight_{t+1} ∘ β_{t+1}) / scale_{t+1}, from ``stop`` (S,) at the end of a row; ``share`` (R,) is one
    over what the row is worth at its end. ``steps`` hold the weights of the way forward.
    """
    length, rows, size = steps.emission.shape
    blocks = num_blocks(length, rows, size)
    nothing = jnp.zeros((rows, size), stop.dtype)
    if blocks == 1:
        return _smooth(nothing, transition, stop, share, states, scales, steps)
    cut = _cut(steps, blocks, 1.0)
    ends = _ends(transition, cut._replace(emission=jnp.log(cut.emission)))
    states, scales = (_in_blocks(leaf, blocks, fill) for leaf, fill in ((states, 0.0), (scales, 1.0)))
    ahead = _aheads(transition, stop, ends, scales, cut, blocks)
    both, pair = _smooth(ahead, transition, stop, jnp.tile(share, blocks), states, scales, cut)
    return _joined(both, blocks, length), pair.reshape(blocks, rows, size, size).sum(0)


def _smooth(
    ahead: Array, transition: Array, stop: Array, share: Array, states: Array, scales: Array, steps: Steps
) -> tuple[Array, Array]:
    """From ``ahead`` (R, S), weight ∘ β / scale of the step after the last one; pairs are counted on the way back."""

    def back(carried: tuple[Array, Array], here: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
        ahead, pair = carried
        state, weight, inverse, there, continues = here
        beta = jnp.where(continues[:, None], product(ahead, transition.T), stop[None, :])
        possible = there[:, None] & (state > 0)  # of a state that is not, β may overflow
        following = jnp.where(possible, weight * beta * inverse[:, None], 0.0)
        both = jnp.where(possible, state * beta * share[:, None], 0.0)
        following, both = lax.optimization_barrier((following, both))  # or each of their readers computes them anew
        return (following, pair + state[:, :, None] * ahead[:, None, :]), both

    rows, size = ahead.shape
    everything = (states, steps.emission, 1 / divisor(scales), steps.there, steps.continues)
    (_, pair), both = lax.scan(
        back, (ahead, jnp.zeros((rows, size, size), ahead.dtype)), everything, reverse=True, unroll=UNROLL
    )
    return both, pair * share[:, None, None]


def _aheads(transition: Array, stop: Array, ends: Ends, scales: Array, steps: Steps, blocks: int) -> Array:
    """``ahead`` of all blocks (C R, S)."""
    rows, size = ends.there.shape[0] // blocks, stop.shape[0]
    total = jnp.where(steps.there, jnp.log(divisor(scales)), 0.0).sum(0)
    by_block = jax.tree.map(lambda leaf: leaf.reshape(blocks, rows, *leaf.shape[1:]), (ends, total, steps.continues[-1]))

    def back(ahead: Array, here: tuple[Ends, Array, Array]) -> tuple[Array, Array]:
        ends, total, continues = here
        beta = jnp.where(continues[:, None], product(ahead, transition.T), stop[None, :])
        reached = jnp.einsum("rij,rj->ri", ends.state, beta)
        following = jnp.exp(ends.log_scale - total[:, None]) * reached
        return jnp.where(ends.there[:, None], following, 0.0), ahead

    _, aheads = lax.scan(back, jnp.zeros((rows, size), stop.dtype), by_block, reverse=True)
    return aheads.reshape(-1, size)


# ---------------------------------------------------------------------------------------------------------------------
# Blocks


def _in_blocks(leaf: Array, blocks: int, fill: float | bool) -> Array:
    """(L, R, …) -> (⌈L / C⌉, C R, …), filled up beyond the end."""
    size = -(-leaf.shape[0] // blocks)
    padded = jnp.pad(leaf, [(0, blocks * size - leaf.shape[0])] + [(0, 0)] * (leaf.ndim - 1), constant_values=fill)
    by_block = padded.reshape(blocks, size, *leaf.shape[1:])
    return jnp.swapaxes(by_block, 0, 1).reshape(size, -1, *leaf.shape[2:])


def _cut(steps: Steps, blocks: int, fill: float) -> Steps:
    return Steps(_in_blocks(steps.emission, blocks, fill), *(_in_blocks(leaf, blocks, False) for leaf in steps[1:]))


def _joined(leaf: Array, blocks: int, length: int) -> Array:
    """(⌈L / C⌉, C R, …) -> (L, R, …)."""
    by_block = leaf.reshape(leaf.shape[0], blocks, -1, *leaf.shape[2:])
    return jnp.swapaxes(by_block, 0, 1).reshape(-1, *by_block.shape[2:])[:length]
