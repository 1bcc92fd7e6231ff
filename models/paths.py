"""Paths through the states of a chain, expected or drawn: which states, and which of them follow each other.

How often state j follows state i is kept as two factors a step, not as S × S numbers a row: rows may then lie in one lane and
weigh what they like, and their sum is one product of matrices.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from models.lanes import Lanes, by_row, cells, laid_out, of_row, row_by_row
from models.log_recursions import LogStates, LogWays, smooth_logs
from models.recursions import Steps, Weights, finite, unless_vain


class Logs(NamedTuple):
    """What a chain's recursions in logarithms ask for, and whether those of rescaled probabilities are no good."""

    weights: Weights
    steps: Steps
    end: Array  # (L, R)
    needed: Array  # ()


class Pairs(NamedTuple):
    """How likely each state is to follow each: before[t, i] · kernel[i, j] · after[t, j]."""

    before: Array  # (L, R, S)
    kernel: Array  # (S, S)
    after: Array  # (L, R, S); 0 where no step follows
    logs: Logs | None = None  # where that may be too small for a number


class Counts(NamedTuple):
    """How often each state followed each, row by row."""

    pair: Array  # (N, S, S)


class Path(NamedTuple):
    """States, expected or drawn: 0 where there is no step."""

    state: Array  # (L, R, S)
    pairs: tuple[Pairs | Counts, ...]  # to be added up
    lanes: Lanes


def pair_counts(z: Path, weight: Array) -> Array:
    """(S, S): how often each state followed each, over all rows, which weigh (N,)."""
    return reduce(jnp.add, (_counted(pairs, z.lanes, weight) for pairs in z.pairs))


def _counted(pairs: Pairs | Counts, lanes: Lanes, weight: Array) -> Array:
    if isinstance(pairs, Counts):
        return jnp.einsum("n,nij->ij", weight, pairs.pair)
    size = pairs.kernel.shape[0]
    weight = jnp.broadcast_to(of_row(lanes, weight), pairs.before.shape[:2])
    left, right = (weight[..., None] * pairs.before).reshape(-1, size), pairs.after.reshape(-1, size)
    usual = (left.T @ right) * pairs.kernel
    logs = pairs.logs
    if logs is None:
        return usual

    def add(total: Array, joint: Array, weight: Array) -> tuple[Array, None]:
        return total + jnp.einsum("r,rij->ij", weight, joint), None

    return unless_vain(logs.needed, lambda: _step_by_step(logs, add, jnp.zeros_like(usual), weight)[0], usual)


def followed(z: Path, step: Array) -> Array:
    """(N,): Σ_ij pair[n, i, j] · step[i, j], where 0 · −∞ = 0."""
    return reduce(jnp.add, (_followed(pairs, z.lanes, step) for pairs in z.pairs))


def _followed(pairs: Pairs | Counts, lanes: Lanes, step: Array) -> Array:
    if isinstance(pairs, Counts):
        return weighed(pairs.pair, step[None]).sum((1, 2))
    weight = weighed(pairs.kernel, step)
    expected = (jnp.matmul(pairs.before, finite(weight)) * pairs.after).sum(-1)
    ruled_out = (jnp.matmul(pairs.before, (weight == -jnp.inf).astype(weight.dtype)) * pairs.after).sum(-1)
    usual = jnp.where(ruled_out > 0, -jnp.inf, expected)
    logs = pairs.logs
    if logs is None:
        return by_row(lanes, usual)

    def worth(_: Array, joint: Array, weight: Array) -> tuple[Array, Array]:
        return _, weighed(joint, step[None]).sum((1, 2))

    return by_row(lanes, unless_vain(logs.needed, lambda: _step_by_step(logs, worth, jnp.zeros(()), usual)[1], usual))


def states_in_logs(logs: Logs) -> tuple[Array, Counts]:
    """Expected states and their pairs, of lanes that hold one row."""

    def add(total: Array, joint: Array, _: Array) -> tuple[Array, None]:
        return total + joint, None

    rows, size = logs.steps.emission.shape[1:]
    known, ways = smooth_logs(logs.weights, logs.steps, logs.end)
    return ways.both, Counts(_scanned(logs, known, ways, add, jnp.zeros((rows, size, size)), logs.end)[0])


def _step_by_step(logs: Logs, function: Callable[..., Any], carried: Array, value: Array) -> tuple[Array, Any]:
    known, ways = smooth_logs(logs.weights, logs.steps, logs.end)
    return _scanned(logs, known, ways, function, carried, value)


def _scanned(
    logs: Logs, known: LogStates, ways: LogWays, function: Callable[..., Any], carried: Array, value: Array
) -> tuple[Array, Any]:
    """``function(carried, how likely each state is to follow each (R, S, S), value[t])`` over all steps."""

    def one(carried: Array, here: tuple[Array, Array, Array]) -> tuple[Array, Any]:
        before, after, value = here
        return function(carried, jnp.exp(before[:, :, None] + logs.weights.step[None] + after[:, None, :]), value)

    return lax.scan(one, carried, (known.state, ways.after, value))


def in_lanes(z: Path, lanes: Lanes) -> Path:
    """The same states in other lanes: those of a start lie side by side."""
    if z.lanes.extent == lanes.extent:
        return z

    def moved(leaf: Array) -> Array:
        value = laid_out(lanes, row_by_row(z.lanes, leaf))
        return jnp.where(cells(lanes).there[..., None], value, 0.0)

    pairs = tuple(
        part if isinstance(part, Counts) else part._replace(before=moved(part.before), after=moved(part.after))
        for part in z.pairs
    )
    return Path(moved(z.state), pairs, lanes)


def weighed(value: Array, weight: Array) -> Array:
    """Value times weight, where 0 · −∞ = 0."""
    return jnp.where(value == 0, 0.0, value * weight)
