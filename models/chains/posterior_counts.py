"""State paths, expected or drawn: the states, and how often each state follows each.

Transitions are stored as two factors per step, not as S × S numbers per row: rows can then share a bin and have any weights,
and their weighted sum is one matrix product.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from models.chains.forward_backward import ChainWeights, Steps, finite, lazy_where
from models.chains.forward_backward_log import LogStates, LogWays, smooth_logs
from models.rows.packing import Packing, by_row, grid, laid_out, of_row, row_by_row


class Logs(NamedTuple):
    """The inputs of the logarithmic recursions, and whether they are needed."""

    weights: ChainWeights
    steps: Steps
    end: Array  # (L, R)
    needed: Array  # ()


class Pairs(NamedTuple):
    """Transition probabilities before[t, i] · kernel[i, j] · after[t, j]."""

    before: Array  # (L, R, S)
    kernel: Array  # (S, S)
    after: Array  # (L, R, S); 0 if no step follows
    logs: Logs | None = None  # for the case that these products underflow


class TransitionCounts(NamedTuple):
    """Counts of transitions for each row."""

    pair: Array  # (N, S, S)


class Path(NamedTuple):
    """States, expected or drawn; 0 in empty cells."""

    state: Array  # (L, R, S)
    pairs: tuple[Pairs | TransitionCounts, ...]  # to be summed
    packing: Packing


def pair_counts(z: Path, weight: Array) -> Array:
    """(S, S): counts of transitions, summed over rows with weights (N,)."""
    return reduce(jnp.add, (_counted(pairs, z.packing, weight) for pairs in z.pairs))


def _counted(pairs: Pairs | TransitionCounts, packing: Packing, weight: Array) -> Array:
    if isinstance(pairs, TransitionCounts):
        return jnp.einsum("n,nij->ij", weight, pairs.pair)
    size = pairs.kernel.shape[0]
    weight = jnp.broadcast_to(of_row(packing, weight), pairs.before.shape[:2])
    left, right = (weight[..., None] * pairs.before).reshape(-1, size), pairs.after.reshape(-1, size)
    usual = (left.T @ right) * pairs.kernel
    logs = pairs.logs
    if logs is None:
        return usual

    def add(total: Array, joint: Array, weight: Array) -> tuple[Array, None]:
        return total + jnp.einsum("r,rij->ij", weight, joint), None

    return lazy_where(logs.needed, lambda: _step_by_step(logs, add, jnp.zeros_like(usual), weight)[0], usual)


def followed(z: Path, step: Array) -> Array:
    """(N,): Σ_ij pair[n, i, j] · step[i, j], where 0 · −∞ = 0."""
    return reduce(jnp.add, (_followed(pairs, z.packing, step) for pairs in z.pairs))


def _followed(pairs: Pairs | TransitionCounts, packing: Packing, step: Array) -> Array:
    if isinstance(pairs, TransitionCounts):
        return weighed(pairs.pair, step[None]).sum((1, 2))
    weight = weighed(pairs.kernel, step)
    expected = (jnp.matmul(pairs.before, finite(weight)) * pairs.after).sum(-1)
    ruled_out = (jnp.matmul(pairs.before, (weight == -jnp.inf).astype(weight.dtype)) * pairs.after).sum(-1)
    usual = jnp.where(ruled_out > 0, -jnp.inf, expected)
    logs = pairs.logs
    if logs is None:
        return by_row(packing, usual)

    def worth(_: Array, joint: Array, weight: Array) -> tuple[Array, Array]:
        return _, weighed(joint, step[None]).sum((1, 2))

    return by_row(packing, lazy_where(logs.needed, lambda: _step_by_step(logs, worth, jnp.zeros(()), usual)[1], usual))


def states_in_logs(logs: Logs) -> tuple[Array, TransitionCounts]:
    """Expected states and transitions by the logarithmic recursions, for bins that hold one row."""

    def add(total: Array, joint: Array, _: Array) -> tuple[Array, None]:
        return total + joint, None

    rows, size = logs.steps.emission.shape[1:]
    known, ways = smooth_logs(logs.weights, logs.steps, logs.end)
    return ways.both, TransitionCounts(_scanned(logs, known, ways, add, jnp.zeros((rows, size, size)), logs.end)[0])


def _step_by_step(logs: Logs, function: Callable[..., Any], state: Array, value: Array) -> tuple[Array, Any]:
    known, ways = smooth_logs(logs.weights, logs.steps, logs.end)
    return _scanned(logs, known, ways, function, state, value)


def _scanned(
    logs: Logs, known: LogStates, ways: LogWays, function: Callable[..., Any], state: Array, value: Array
) -> tuple[Array, Any]:
    """Scan ``function(carried, transition probabilities (R, S, S), value[t])`` over all steps."""

    def one(state: Array, here: tuple[Array, Array, Array]) -> tuple[Array, Any]:
        before, after, value = here
        return function(state, jnp.exp(before[:, :, None] + logs.weights.step[None] + after[:, None, :]), value)

    return lax.scan(one, state, (known.state, ways.after, value))


def in_packing(z: Path, packing: Packing) -> Path:
    """Move a path to another packing; initial paths lie side by side."""
    if z.packing.extent == packing.extent:
        return z

    def moved(leaf: Array) -> Array:
        value = laid_out(packing, row_by_row(z.packing, leaf))
        return jnp.where(grid(packing).there[..., None], value, 0.0)

    pairs = tuple(
        part if isinstance(part, TransitionCounts) else part._replace(before=moved(part.before), after=moved(part.after))
        for part in z.pairs
    )
    return Path(moved(z.state), pairs, packing)


def weighed(value: Array, weight: Array) -> Array:
    """Value times weight, where 0 · −∞ = 0."""
    return jnp.where(value == 0, 0.0, value * weight)
