"""The two recursions of a chain over time, step by step, or for few long rows in blocks of steps side by side.

Of R lanes and S states, time first (`models.lanes`). Probabilities are rescaled at every step (Rabiner 1989), and where that
loses a state that may matter it is said. A lane that holds one sequence may be cut into blocks that are run together: each
from every one of the S states at once, which says how any beginning leads to its end, so that the beginnings of all blocks
follow one from another in few steps; then every block is run again from where it begins. That is S + 1 times the work in √L
times fewer steps (the associative scan of Särkkä and García-Fernández 2021 with blocks in the place of a tree): it pays where a
step costs a launch, as on a GPU. On a CPU a step of one row takes 0.1 µs, and blocks are slower (docs/benchmarks.md).
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

Pytree = Any

FEW = 16  # states up to which a product is written out
UNROLL = 2  # steps of a loop that the compiler sees together
LONG = 4096  # steps from which blocks pay, if a step has
NARROW = 4096  # numbers at most


class Weights(NamedTuple):
    """Logarithms of a chain's probabilities, of S states."""

    start: Array  # (S,)
    step: Array  # (S, S)
    stop: Array  # (S,)


class Steps(NamedTuple):
    """What the recursions read of every step."""

    emission: Array  # (L, R, S): log p(x_t | z_t = i), −∞ where a state is not allowed; later its ``weight`` in `States`
    there: Array  # (L, R): whether there is a step
    continues: Array  # (L, R): and another after it, of the same sequence
    first: Array | None  # (L, R): whether a sequence begins; None: all do at the first step, and no lane holds two


class States(NamedTuple):
    """What the way forward brings."""

    state: Array  # (L, R, S): of sum one where there is a step
    weight: Array  # (L, R, S): exp(emission − largest), 0 for a state that the steps before do not lead to
    scale: Array  # (L, R): what a state is divided by; 1 where there is no step
    largest: Array  # (L, R): the largest emission of a state that can be reached; 0 where there is no step
    lost: Array  # (): whether something was too small for a number and may be worth something later


class Ways(NamedTuple):
    """What both directions bring: how likely a step from i to j is at t, state[t, i] · transition[i, j] · after[t, j]."""

    both: Array  # (L, R, S): expected states
    after: Array | None  # (L, R, S), 0 where nothing follows; None where lanes hold one sequence, whose steps are counted:
    counts: Array | None  # (R, S, S): Σ_t state[t, i] · after[t, j]


def product(states: Array, matrix: Array) -> Array:
    """(R, S) times (S, S); of few states term by term, which is faster than a call of the library a step."""
    size = matrix.shape[0]
    if size > FEW:
        return states @ matrix
    return reduce(jnp.add, (states[:, i, None] * matrix[i][None, :] for i in range(size)))


def negligible(dtype: Any) -> float:
    """What falls below the smallest number is lost in the rounding of one of that size, and of what that is a part of."""
    return float(jnp.finfo(dtype).tiny) / float(jnp.finfo(dtype).eps) ** 2


def divisor(total: Array) -> Array:
    """1 in the place of 0: what is impossible stays 0."""
    return jnp.where(total > 0, total, 1.0)


def num_blocks(length: int, rows: int, size: int) -> int:
    """Into how many blocks rows are cut: one on a CPU, and where they are short, or so many that a step has enough to do."""
    return int(np.sqrt(length)) if length >= LONG and rows * size <= NARROW and jax.default_backend() != "cpu" else 1


# ---------------------------------------------------------------------------------------------------------------------
# Forward


def filter_states(weights: Weights, steps: Steps) -> States:
    """α_{t+1} = (α_t · transition) ∘ exp(emission_{t+1}), α of sum one, from the start. Forward differentiation alone."""
    length, rows, size = steps.emission.shape
    start, transition = jnp.exp(weights.start), jnp.exp(weights.step)
    small = _smallest(weights) < negligible(start.dtype)
    possible = unless_vain(small & (size > 1), lambda: _reachable(weights, steps), jnp.ones(steps.emission.shape, bool))
    emission = jnp.where(possible, steps.emission, -jnp.inf)
    largest = finite(emission.max(-1))
    # The barrier keeps the compiler from computing the whole array anew in each of its readers.
    weight = lax.optimization_barrier(jnp.exp(emission - largest[..., None]))
    weighed = steps._replace(emission=weight)
    expected = jnp.broadcast_to(start[None, :], (rows, size))
    blocks = 1 if steps.first is not None else num_blocks(length, rows, size)
    if blocks == 1:
        state, scale = _filter(expected, start, transition, weighed)
    else:
        cut = _cut(weighed, blocks)
        expected = _beginnings(expected, transition, _ends(transition, cut), blocks)
        state, scale = (_joined(leaf, blocks, length) for leaf in _filter(expected, start, transition, cut))
    scale, largest = jnp.where(steps.there, scale, 1.0), jnp.where(steps.there, largest, 0.0)
    found = States(state, weight, scale, largest, jnp.zeros((), bool))
    return found._replace(lost=unless_vain(small, lambda: _lost(weights, possible, found, steps), found.lost))


def finite(largest: Array) -> Array:
    """0 in the place of what is not finite, so that nothing is impossible for a difference."""
    return jnp.where(jnp.isfinite(largest), largest, 0.0)


def unless_vain(wanted: Array, function: Callable[[], Pytree], otherwise: Pytree) -> Pytree:
    """``function()`` where it is ``wanted``: many chains at once do not compute both, as they would of a branch."""
    converted, inputs = jax.closure_convert(function)

    def body(carried: tuple[Pytree, Array]) -> tuple[Pytree, Array]:
        # Behind the barrier its inputs seem to change, or the compiler would compute what they decide ahead of the loop.
        behind, _ = lax.optimization_barrier((tuple(inputs), carried[1]))
        return converted(*behind), jnp.zeros((), bool)

    return lax.while_loop(lambda carried: carried[1], body, (otherwise, wanted))[0]


def _smallest(weights: Weights) -> Array:
    """The smallest probability, 0 among them."""
    return jnp.exp(jnp.minimum(weights.start.min(), jnp.minimum(weights.step.min(), weights.stop.min())))


def _reachable(weights: Weights, steps: Steps) -> Array:
    """(L, R, S): whether a state can be reached.

    Next to the emission of one that cannot, those of all others may be 0 in floating point.
    """

    def advance(before: Array, here: tuple[Array, Array | None]) -> tuple[Array, Array]:
        emission, first = here
        before = before if first is None else jnp.where(first[:, None], start, before)
        may_be = before & (emission > -jnp.inf)
        return (may_be[:, :, None] & follows[None, :, :]).any(1), may_be

    follows, start = weights.step > -jnp.inf, (weights.start > -jnp.inf)[None, :]
    begin = jnp.broadcast_to(start, steps.emission.shape[1:])
    return lax.scan(advance, begin, (steps.emission, steps.first))[1]


def _lost(weights: Weights, possible: Array, found: States, steps: Steps) -> Array:
    """Whether states that were next to nothing as seen from the step before may be worth something later.

    Their own probability is not one that was rounded: with what fell below the smallest number it might be anything up to
    `negligible`. Or that of the only way to stop, or of every way on.
    """
    size, least = weights.start.shape[0], negligible(found.state.dtype)
    known = found.state.reshape(-1, size)
    expected = (known @ jnp.exp(weights.step)).reshape(found.state.shape)
    leads = (possible[..., None] & (weights.step > -jnp.inf)[None, None]).any(2)
    stops = (known @ jnp.exp(weights.stop)).reshape(found.scale.shape)
    may_stop = (possible & (weights.stop > -jnp.inf)[None, None]).any(2)
    begins = jnp.zeros_like(steps.there).at[0].set(True) if steps.first is None else steps.first
    began = (weights.start > -jnp.inf) & (jnp.exp(weights.start) < least)
    unsure = jnp.roll(steps.continues[..., None] & leads & (expected < least), 1, axis=0) | (
        begins[..., None] & began[None, None]
    )
    ends = steps.there & ~steps.continues
    nowhere = (steps.there & (found.scale == 0) & possible.any(2)).any() | (ends & may_stop & (stops < least)).any()

    def matters() -> Array:
        most = _at_most(weights, unsure, found, begins)
        share = jnp.where(ends, (most @ jnp.exp(weights.stop)) / divisor(stops), 0.0)
        bound = jnp.finfo(found.state.dtype).eps / least
        return (steps.there & ~((most.sum(-1) <= bound) & (share <= bound))).any()

    return nowhere | unless_vain(unsure.any() & ~nowhere, matters, nowhere)


def _at_most(weights: Weights, unsure: Array, found: States, begins: Array) -> Array:
    """(L, R, S): the probability of states by ways that were ``unsure`` at some step, had each been `negligible`, over that."""
    transition = jnp.exp(weights.step)

    def advance(before: Array, here: tuple[Array, ...]) -> tuple[Array, Array]:
        weight, inverse, unsure, begins = here
        most = (jnp.where(begins[:, None], 0.0, product(before, transition)) + unsure) * weight * inverse[:, None]
        return most, most

    everything = (found.weight, 1 / divisor(found.scale), unsure.astype(transition.dtype), begins)
    return lax.scan(advance, jnp.zeros_like(found.state[0]), everything, unroll=UNROLL)[1]


def _filter(expected: Array, start: Array, transition: Array, steps: Steps) -> tuple[Array, Array]:
    """(states, scales) of the weights in ``steps``, from ``expected``, the first states as seen from the steps before."""

    def advance(expected: Array, here: tuple[Array, Array | None]) -> tuple[Array, tuple[Array, Array]]:
        weight, first = here
        expected = expected if first is None else jnp.where(first[:, None], start[None, :], expected)
        joint = expected * weight
        scale = joint.sum(-1)
        state = joint * (1 / divisor(scale))[:, None]
        return product(state, transition), (state, scale)

    return lax.scan(advance, expected, (steps.emission, steps.first), unroll=UNROLL)[1]


class Ends(NamedTuple):
    """Where R blocks end, by the state that was expected at their first step."""

    state: Array  # (R, S, S): the last state, of sum one
    log_scale: Array  # (R, S): log of what it was divided by
    there: Array  # (R,): whether the block has a step


def _ends(transition: Array, steps: Steps) -> Ends:
    """Of the weights in ``steps``."""
    rows, size = steps.emission.shape[1:]
    each = jnp.broadcast_to(jnp.eye(size, dtype=steps.emission.dtype), (rows, size, size))

    def advance(carried: tuple[Array, Array, Array], here: tuple[Array, Array]) -> tuple[tuple[Array, Array, Array], None]:
        expected, before, log_scale = carried
        weight, there = here
        joint = expected * weight[:, None, :]
        scale = joint.sum(-1)
        state = jnp.where(there[:, None, None], joint / divisor(scale)[..., None], before)
        log_scale = log_scale + jnp.where(there[:, None], jnp.log(scale), 0.0)
        return (product(state.reshape(-1, size), transition).reshape(state.shape), state, log_scale), None

    (_, state, log_scale), _ = lax.scan(
        advance, (each, each, jnp.zeros((rows, size), each.dtype)), (steps.emission, steps.there), unroll=UNROLL
    )
    return Ends(state, log_scale, steps.there[0])


def _beginnings(start: Array, transition: Array, ends: Ends, blocks: int) -> Array:
    """The states expected at the first step of all blocks (C R, S), of the first block ``start``."""
    rows, size = start.shape
    by_block = jax.tree.map(lambda leaf: leaf.reshape(blocks, rows, *leaf.shape[1:]), ends)

    def advance(expected: Array, here: Ends) -> tuple[Array, Array]:
        weight = jnp.log(expected) + here.log_scale
        largest = jnp.max(weight, axis=-1, keepdims=True)
        share = jnp.exp(weight - finite(largest))
        state = jnp.einsum("ri,rij->rj", share, here.state)
        return product(state / divisor(state.sum(-1))[:, None], transition), expected

    return lax.scan(advance, start, by_block)[1].reshape(-1, size)


# ---------------------------------------------------------------------------------------------------------------------
# Backward


def smooth(weights: Weights, share: Array, found: States, steps: Steps) -> Ways:
    """β_t = transition · (weight_{t+1} ∘ β_{t+1}) / scale_{t+1}, from the stops at the end of a sequence.

    ``share`` (L, R) is one over what the sequence of a cell is worth at its end.
    """
    length, rows, size = steps.emission.shape
    transition, stop = jnp.exp(weights.step), jnp.exp(weights.stop)
    nothing = jnp.zeros((rows, size), stop.dtype)
    inverse = 1 / divisor(found.scale)
    weighed = steps._replace(emission=found.weight)
    blocks = 1 if steps.first is not None else num_blocks(length, rows, size)
    if blocks == 1:
        return _smooth(nothing, transition, stop, share, found.state, inverse, weighed)
    cut = _cut(weighed, blocks)
    share, states, inverse = (
        _in_blocks(leaf, blocks, fill) for leaf, fill in ((share, 1.0), (found.state, 0.0), (inverse, 1.0))
    )
    ahead = _aheads(transition, stop, _ends(transition, cut), inverse, cut, blocks)
    ways = _smooth(ahead, transition, stop, share, states, inverse, cut)
    assert ways.counts is not None  # of lanes of one sequence
    return Ways(_joined(ways.both, blocks, length), None, ways.counts.reshape(blocks, rows, size, size).sum(0))


def _smooth(ahead: Array, transition: Array, stop: Array, share: Array, states: Array, inverse: Array, steps: Steps) -> Ways:
    """From ``ahead`` (R, S), weight ∘ β / scale of the step after the last one."""
    rows, size = ahead.shape
    alone = steps.first is None

    def back(carried: tuple[Array, Array], here: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        ahead, count = carried
        state, weight, inverse, share, there, continues = here
        ahead = jnp.where(continues[:, None], ahead, 0.0)
        beta = jnp.where(continues[:, None], product(ahead, transition.T), stop[None, :])
        possible = there[:, None] & (state > 0)  # of a state that is not, β may overflow
        following = jnp.where(possible, weight * inverse[:, None] * beta, 0.0)  # both weight and β may be next to nothing
        both = jnp.where(possible, state * beta * share[:, None], 0.0)
        following, both = lax.optimization_barrier((following, both))  # or each of their readers computes them anew
        if alone:
            return (following, count + state[:, :, None] * ahead[:, None, :]), (both,)
        return (following, count), (both, ahead * share[:, None])

    everything = (states, steps.emission, inverse, share, steps.there, steps.continues)
    count = jnp.zeros((rows, size, size) if alone else (), ahead.dtype)
    (_, count), found = lax.scan(back, (ahead, count), everything, reverse=True, unroll=UNROLL)
    return Ways(found[0], None, count * share[0][:, None, None]) if alone else Ways(found[0], found[1], None)


def _aheads(transition: Array, stop: Array, ends: Ends, inverse: Array, steps: Steps, blocks: int) -> Array:
    """``ahead`` of all blocks (C R, S)."""
    rows, size = ends.there.shape[0] // blocks, stop.shape[0]
    total = -jnp.where(steps.there, jnp.log(inverse), 0.0).sum(0)
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


def _cut(steps: Steps, blocks: int) -> Steps:
    there, continues = (_in_blocks(leaf, blocks, False) for leaf in (steps.there, steps.continues))
    return Steps(_in_blocks(steps.emission, blocks, 1.0), there, continues, None)


def _joined(leaf: Array, blocks: int, length: int) -> Array:
    """(⌈L / C⌉, C R, …) -> (L, R, …)."""
    by_block = leaf.reshape(leaf.shape[0], blocks, -1, *leaf.shape[2:])
    return jnp.swapaxes(by_block, 0, 1).reshape(-1, *by_block.shape[2:])[:length]
