"""The forward and backward recursions of a chain, step by step, or in parallel blocks of steps.

Arrays are over R bins and S states, time first (`models.rows.packing`). Probabilities are rescaled at every step (Rabiner
1989); ``lost`` reports whether underflow may have removed a state that matters, and the logarithmic recursions are then used.

A few long rows can be cut into blocks that run in parallel. Each block is run once from each of the S states: a map from its
first to its last state. These maps give the states at which all blocks begin; each block is then run again. This is S + 1 times
the work in √L times fewer sequential steps (the associative scan of Särkkä and García-Fernández 2021, with blocks instead of a
tree). It is faster on a GPU, where every step is a kernel launch, and slower on a CPU (docs/benchmarks.md).
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

Pytree = Any

FEW = 16  # states up to which a matrix product is written as a sum of terms
UNROLL = 2  # steps of a scan that are unrolled
LONG = 4096  # steps above which blocks are faster, if R × S is at most
NARROW = 4096


class ChainWeights(NamedTuple):
    """Logarithms of a chain's probabilities, of S states."""

    start: Array  # (S,)
    step: Array  # (S, S)
    stop: Array  # (S,)


class Steps(NamedTuple):
    """The inputs of the recursions for each step."""

    emission: Array  # (L, R, S): log p(x_t | z_t = i), −∞ if a state is not allowed; later the ``weight`` of `States`
    there: Array  # (L, R): whether there is a step
    continues: Array  # (L, R): whether another step of the same sequence follows
    first: Array | None  # (L, R): whether a sequence begins; None: one sequence per bin, from its first step


class States(NamedTuple):
    """Results of the forward recursion."""

    state: Array  # (L, R, S): p(z_t | x_1 … x_t); sums to 1 if there is a step
    weight: Array  # (L, R, S): exp(emission − largest), 0 for an unreachable state
    scale: Array  # (L, R): the normaliser of ``state``; 1 if there is no step
    largest: Array  # (L, R): the largest emission of a reachable state; 0 if there is no step
    lost: Array  # (): whether something underflowed that may matter later


class Ways(NamedTuple):
    """Results of both recursions. P(z_t = i, z_{t+1} = j | x) = state[t, i] · transition[i, j] · after[t, j]."""

    both: Array  # (L, R, S): expected states
    after: Array | None  # (L, R, S), 0 if no step follows; None if each bin holds one sequence: then ``counts`` is given
    counts: Array | None  # (R, S, S): Σ_t state[t, i] · after[t, j]


def product(states: Array, matrix: Array) -> Array:
    """(R, S) times (S, S); for few states a sum of terms, which is faster than a library call per step."""
    size = matrix.shape[0]
    if size > FEW:
        return states @ matrix
    return reduce(jnp.add, (states[:, i, None] * matrix[i][None, :] for i in range(size)))


def negligible(dtype: Any) -> float:
    """A bound so far above the smallest number that underflow is below rounding error."""
    return float(jnp.finfo(dtype).tiny) / float(jnp.finfo(dtype).eps) ** 2


def harmless(dtype: Any) -> float:
    """If no probability p of a chain is smaller, nothing that underflows matters later.

    A scale is at least p, so that at most tiny / p of a state underflows; other states reach its successors with p.
    """
    return float(np.sqrt(jnp.finfo(dtype).tiny / jnp.finfo(dtype).eps))


def divisor(total: Array) -> Array:
    """Replace 0 by 1 in a divisor, so that impossible events keep probability 0."""
    return jnp.where(total > 0, total, 1.0)


def num_blocks(length: int, rows: int, size: int) -> int:
    """Number of blocks per row: one on a CPU, for short rows, or if there are many rows."""
    return int(np.sqrt(length)) if length >= LONG and rows * size <= NARROW and jax.default_backend() != "cpu" else 1


# ---------------------------------------------------------------------------------------------------------------------
# Forward


def filter_states(weights: ChainWeights, steps: Steps) -> States:
    """α_{t+1} = (α_t · transition) ∘ exp(emission_{t+1}), α normalised. Supports only forward-mode differentiation."""
    length, rows, size = steps.emission.shape
    start, transition = jnp.exp(weights.start), jnp.exp(weights.step)
    small = _smallest(weights) < harmless(start.dtype)
    possible = lazy_where(small & (size > 1), lambda: _reachable(weights, steps), jnp.ones(steps.emission.shape, bool))
    emission = jnp.where(possible, steps.emission, -jnp.inf)
    largest = finite(emission.max(-1))
    # The barrier keeps the compiler from recomputing the whole array for each of its uses.
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
    states = States(state, weight, scale, largest, jnp.zeros((), bool))
    return states._replace(lost=lazy_where(small, lambda: _lost(weights, possible, states, steps), states.lost))


def finite(largest: Array) -> Array:
    """Replace −∞ (and other non-finite values) by 0, so that differences are defined."""
    return jnp.where(jnp.isfinite(largest), largest, 0.0)


def lazy_where(wanted: Array, function: Callable[[], Pytree], otherwise: Pytree) -> Pytree:
    """``function()`` if ``wanted``, otherwise ``otherwise``; under vmap, it is skipped if no chain wants it."""
    converted, inputs = jax.closure_convert(function)

    def body(state: tuple[Pytree, Array]) -> tuple[Pytree, Array]:
        # Without the barrier the compiler would hoist the computation out of the loop.
        behind, _ = lax.optimization_barrier((tuple(inputs), state[1]))
        return converted(*behind), jnp.zeros((), bool)

    return lax.while_loop(lambda state: state[1], body, (otherwise, wanted))[0]


def _smallest(weights: ChainWeights) -> Array:
    """The smallest probability, including zeros."""
    return jnp.exp(jnp.minimum(weights.start.min(), jnp.minimum(weights.step.min(), weights.stop.min())))


def _reachable(weights: ChainWeights, steps: Steps) -> Array:
    """(L, R, S): whether a state is reachable.

    Unreachable states must not set the scale: relative to their emission, all others may underflow.
    """

    def advance(before: Array, here: tuple[Array, Array | None]) -> tuple[Array, Array]:
        emission, first = here
        before = before if first is None else jnp.where(first[:, None], start, before)
        may_be = before & (emission > -jnp.inf)
        return (may_be[:, :, None] & follows[None, :, :]).any(1), may_be

    follows, start = weights.step > -jnp.inf, (weights.start > -jnp.inf)[None, :]
    begin = jnp.broadcast_to(start, steps.emission.shape[1:])
    return lax.scan(advance, begin, (steps.emission, steps.first))[1]


def _lost(weights: ChainWeights, possible: Array, states: States, steps: Steps) -> Array:
    """Whether underflow may have removed a state that matters later.

    The probability of such a state may be up to `negligible` before it is multiplied by its weight (``unsure``), or up
    to the smallest number after (``hidden``). The same holds for the only way to stop, or for all ways to go on.
    """
    size, least = weights.start.shape[0], negligible(states.state.dtype)
    known = states.state.reshape(-1, size)
    expected = (known @ jnp.exp(weights.step)).reshape(states.state.shape)
    leads = (possible[..., None] & (weights.step > -jnp.inf)[None, None]).any(2)
    stops = (known @ jnp.exp(weights.stop)).reshape(states.scale.shape)
    may_stop = (possible & (weights.stop > -jnp.inf)[None, None]).any(2)
    begins = jnp.zeros_like(steps.there).at[0].set(True) if steps.first is None else steps.first
    began = ((weights.start > -jnp.inf) & (jnp.exp(weights.start) < least))[None, None]
    unsure = jnp.roll(steps.continues[..., None] & leads & (expected < least), 1, axis=0) | (begins[..., None] & began)
    predicted = jnp.where(begins[..., None], jnp.exp(weights.start)[None, None], jnp.roll(expected, 1, axis=0))
    hidden = steps.there[..., None] & possible & ~unsure & (predicted * states.weight < jnp.finfo(states.state.dtype).tiny)
    ends = steps.there & ~steps.continues
    nowhere = (steps.there & (states.scale == 0) & possible.any(2)).any() | (ends & may_stop & (stops < least)).any()

    def matters() -> Array:
        most = _at_most(weights, unsure, hidden, states, begins)
        share = jnp.where(ends, (most @ jnp.exp(weights.stop)) / divisor(stops), 0.0)
        bound = jnp.finfo(states.state.dtype).eps / least
        return (steps.there & ~((most.sum(-1) <= bound) & (share <= bound))).any()

    return nowhere | lazy_where((unsure | hidden).any() & ~nowhere, matters, nowhere)


def _at_most(weights: ChainWeights, unsure: Array, hidden: Array, states: States, begins: Array) -> Array:
    """(L, R, S): bound on the probability of states reached through ``unsure`` or ``hidden`` ones, relative to `negligible`."""
    transition, least = jnp.exp(weights.step), jnp.finfo(states.state.dtype).eps ** 2  # the smallest number, in such units

    def advance(before: Array, here: tuple[Array, ...]) -> tuple[Array, Array]:
        weight, inverse, unsure, hidden, begins = here
        reached = jnp.where(begins[:, None], 0.0, product(before, transition)) + unsure
        most = (reached * weight + jnp.where(hidden, least, 0.0)) * inverse[:, None]
        return most, most

    everything = (states.weight, 1 / divisor(states.scale), unsure.astype(transition.dtype), hidden, begins)
    return lax.scan(advance, jnp.zeros_like(states.state[0]), everything, unroll=UNROLL)[1]


def _filter(expected: Array, start: Array, transition: Array, steps: Steps) -> tuple[Array, Array]:
    """(states, scales) of the forward recursion, from ``expected``, the predicted distribution of the first states."""

    def advance(expected: Array, here: tuple[Array, Array | None]) -> tuple[Array, tuple[Array, Array]]:
        weight, first = here
        expected = expected if first is None else jnp.where(first[:, None], start[None, :], expected)
        joint = expected * weight
        scale = joint.sum(-1)
        state = joint * (1 / divisor(scale))[:, None]
        return product(state, transition), (state, scale)

    return lax.scan(advance, expected, (steps.emission, steps.first), unroll=UNROLL)[1]


class Ends(NamedTuple):
    """The last states of R blocks, for each of the S states at their beginning."""

    state: Array  # (R, S, S): distribution of the last state
    log_scale: Array  # (R, S): log of its normaliser
    there: Array  # (R,): whether the block has a step


def _ends(transition: Array, steps: Steps) -> Ends:
    """Run each block from each of the S states."""
    rows, size = steps.emission.shape[1:]
    each = jnp.broadcast_to(jnp.eye(size, dtype=steps.emission.dtype), (rows, size, size))

    def advance(carry: tuple[Array, Array, Array], here: tuple[Array, Array]) -> tuple[tuple[Array, Array, Array], None]:
        expected, before, log_scale = carry
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
    """Predicted distributions at the first step of all blocks (C R, S); that of the first block is ``start``."""
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


def smooth(weights: ChainWeights, share: Array, forward_states: States, steps: Steps) -> Ways:
    """β_t = transition · (weight_{t+1} ∘ β_{t+1}) / scale_{t+1}, from the stopping probabilities at the end of a sequence.

    ``share`` (L, R) is 1 / Σ_i p(z_T = i | x) stop_i of the sequence in each cell.
    """
    length, rows, size = steps.emission.shape
    transition, stop = jnp.exp(weights.step), jnp.exp(weights.stop)
    nothing = jnp.zeros((rows, size), stop.dtype)
    inverse = 1 / divisor(forward_states.scale)
    weighed = steps._replace(emission=forward_states.weight)
    blocks = 1 if steps.first is not None else num_blocks(length, rows, size)
    if blocks == 1:
        return _smooth(nothing, transition, stop, share, forward_states.state, inverse, weighed)
    cut = _cut(weighed, blocks)
    share, states, inverse = (
        _in_blocks(leaf, blocks, fill) for leaf, fill in ((share, 1.0), (forward_states.state, 0.0), (inverse, 1.0))
    )
    ahead = _aheads(transition, stop, _ends(transition, cut), inverse, cut, blocks)
    ways = _smooth(ahead, transition, stop, share, states, inverse, cut)
    assert ways.counts is not None  # of bins of one sequence
    return Ways(_joined(ways.both, blocks, length), None, ways.counts.reshape(blocks, rows, size, size).sum(0))


def _smooth(ahead: Array, transition: Array, stop: Array, share: Array, states: Array, inverse: Array, steps: Steps) -> Ways:
    """The backward recursion from ``ahead`` (R, S): weight ∘ β / scale of the step after the last one."""
    rows, size = ahead.shape
    alone = steps.first is None

    def back(carry: tuple[Array, Array], here: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        ahead, count = carry
        state, weight, inverse, share, there, continues = here
        ahead = jnp.where(continues[:, None], ahead, 0.0)
        beta = jnp.where(continues[:, None], product(ahead, transition.T), stop[None, :])
        possible = there[:, None] & (state > 0)  # β of an impossible state may overflow
        following = jnp.where(possible, weight * inverse[:, None] * beta, 0.0)  # weight and β may both be tiny
        both = jnp.where(possible, state * beta * share[:, None], 0.0)
        following, both = lax.optimization_barrier((following, both))  # otherwise recomputed for each use
        if alone:
            return (following, count + state[:, :, None] * ahead[:, None, :]), (both,)
        return (following, count), (both, ahead * share[:, None])

    everything = (states, steps.emission, inverse, share, steps.there, steps.continues)
    count = jnp.zeros((rows, size, size) if alone else (), ahead.dtype)
    (_, count), ways_back = lax.scan(back, (ahead, count), everything, reverse=True, unroll=UNROLL)
    return Ways(ways_back[0], None, count * share[0][:, None, None]) if alone else Ways(ways_back[0], ways_back[1], None)


def _aheads(transition: Array, stop: Array, ends: Ends, inverse: Array, steps: Steps, blocks: int) -> Array:
    """``ahead`` for all blocks (C R, S)."""
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
    """(L, R, …) -> (⌈L / C⌉, C R, …), padded with ``fill``."""
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
