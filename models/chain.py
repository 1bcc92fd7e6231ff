"""Chains of states: S states that follow each other, seen through what each emits; the four verbs of `models.base.Latent`.

    p(z, x) = exp(start[z_1] + Σ_t step[z_{t−1}, z_t] + stop[z_T] + Σ_t emission[t, z_t])

of every row (document 002, with errata E9 to E11). The log partition is the forward recursion, its gradient the expected counts
of forward and backward (Baum and Welch), the mode Viterbi's path, a draw forward filtering and backward sampling. Everything is
kept as probabilities that are rescaled at every step: no length under- or overflows. Where that would lose a state that alone
can explain what comes later, the recursions are run again in logarithms. Rows lie in lanes (`models.lanes`), time first, so
that a step of all lanes lies together in memory.
"""

from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from models.base import Latent
from models.lanes import Lanes, by_row, cells, firsts, lasts, of_row, row_by_row, side_by_side
from models.log_recursions import filter_logs, logsumexp, smooth_logs
from models.paths import Counts, Logs, Pairs, Path, followed, pair_counts, states_in_logs, weighed
from models.recursions import FEW, UNROLL, States, Steps, Weights, filter_states, finite, smooth, unless_vain


class Chain(NamedTuple):
    """Natural parameters of the states of N rows."""

    start: Array  # (S,)
    step: Array  # (S, S): from row to column
    stop: Array  # (S,); 0 where rows end without a word
    emission: Array  # (L, R, S): −∞ where a state is not allowed, 0 where nothing was observed, anything where there is no step
    lanes: Lanes


class Filtered(NamedTuple):
    """Natural parameters with what the forward recursion knows, which several verbs ask for."""

    chain: Chain
    found: States
    density: Array  # (L, R): log p(x_t | x_1 … x_{t−1}), and of not having stopped before; 0 where there is no step
    end: Array  # (N,): log Σ_i p(z_T = i | x) exp(stop_i)


def within(local: Chain) -> Array:
    """(L, R): which steps there are."""
    return cells(local.lanes).there


def _weights(local: Chain) -> Weights:
    return Weights(local.start, local.step, local.stop)


def _steps(local: Chain) -> Steps:
    place = cells(local.lanes)
    return Steps(local.emission, place.there, place.continues, place.first)


def forward(local: Chain) -> Filtered:
    """The forward recursion α_{t+1} = (α_t · step) ∘ emission_{t+1}, each α_t divided by its sum.

    Forward differentiation alone goes through it: the gradient of the log partition is the expected counts (`_total`).
    """
    weights, steps = _weights(local), _steps(local)
    # The barriers keep the compiler from computing a whole array anew in each of its readers: half the time of a sweep.
    steps = steps._replace(emission=lax.optimization_barrier(steps.emission))
    found = lax.optimization_barrier(filter_states(weights, steps))
    end = jnp.log((lasts(local.lanes, found.state) * jnp.exp(local.stop)[None, :]).sum(-1))

    density = jnp.log(found.scale) + found.largest

    def in_logs() -> tuple[Array, Array]:
        logs = filter_logs(weights, steps)
        worth = logsumexp(lasts(local.lanes, logs.state) + local.stop[None, :], axis=-1)
        return jnp.where(steps.there, logs.scale, 0.0), worth

    return Filtered(local, found, *unless_vain(found.lost, in_logs, (density, end)))


def prepared(local: Chain) -> Filtered:
    """Natural parameters with the forward recursion run once, for all verbs of a sweep.

    Of these, the log partition alone may be differentiated.
    """
    return forward(lax.stop_gradient(local))._replace(chain=local)


def filtered(local: Chain | Filtered) -> Filtered:
    """The forward recursion, unless it has been run."""
    return local if isinstance(local, Filtered) else forward(local)


def natural(local: Chain | Filtered) -> Chain:
    """The natural parameters alone."""
    return local.chain if isinstance(local, Filtered) else local


def _largest(states: Array, matrix: Array) -> Array:
    """max_i states[n, i] + matrix[i, j]: (N, S); of few states term by term."""
    size = matrix.shape[0]
    if size > FEW:
        return (states[:, :, None] + matrix[None, :, :]).max(1)
    return reduce(jnp.maximum, (states[:, i, None] + matrix[i][None, :] for i in range(size)))


def _log_partition(local: Chain | Filtered) -> Array:
    return _total(natural(local), local if isinstance(local, Filtered) else None)


@jax.custom_vjp
def _total(local: Chain, known: Filtered | None) -> Array:
    """(N,): log Σ_z exp of the exponent; ``known`` is what the forward recursion knows, if it has been run."""
    return _worth(local, known)


def _worth(local: Chain, known: Filtered | None) -> Array:
    known = forward(local) if known is None else known
    return by_row(local.lanes, known.density) + known.end


def _total_forward(local: Chain, known: Filtered | None) -> tuple[Array, tuple[Chain, Filtered | None]]:
    return _worth(local, known), (local, known)


def _total_backward(saved: tuple[Chain, Filtered | None], cotangent: Array) -> tuple[Chain, Any]:
    """Times the expected counts, of states, pairs, starts and ends. They are found anew, so that they have a derivative too."""
    local, known = saved
    z = _mean(jax.random.PRNGKey(0), local)
    gradient = Chain(
        cotangent @ firsts(local.lanes, z.state),
        pair_counts(z, cotangent),
        cotangent @ lasts(local.lanes, z.state),
        of_row(local.lanes, cotangent)[..., None] * z.state,
        jax.tree.map(_no_tangent, local.lanes),
    )
    return gradient, jax.tree.map(_no_tangent, known)


def _no_tangent(leaf: Array) -> Any:
    return jnp.zeros_like(leaf) if jnp.issubdtype(leaf.dtype, jnp.floating) else np.zeros(leaf.shape, jax.dtypes.float0)


_total.defvjp(_total_forward, _total_backward)


def _mean(key: Array, local: Chain | Filtered) -> Path:
    """Forward and backward: α_t ∘ β_t, and α_t step (emission_{t+1} ∘ β_{t+1}), over p(x)."""
    known, local = filtered(local), natural(local)
    weights, steps, end = _weights(local), _steps(local), known.end
    share = jnp.broadcast_to(of_row(local.lanes, jnp.exp(-finite(end))), steps.there.shape)
    ways = smooth(weights, share, known.found, steps)
    logs = Logs(weights, steps, jnp.broadcast_to(of_row(local.lanes, end), steps.there.shape), known.found.lost)
    if ways.after is not None:
        state = unless_vain(logs.needed, lambda: smooth_logs(*logs[:3])[1].both, ways.both)
        pairs: Pairs | Counts = Pairs(known.found.state, jnp.exp(local.step), ways.after, logs)
    else:
        assert ways.counts is not None  # one or the other
        usual = Counts(ways.counts * jnp.exp(local.step)[None])
        state, pairs = unless_vain(logs.needed, lambda: states_in_logs(logs), (ways.both, usual))
    return lax.optimization_barrier(Path(state, (pairs,), local.lanes))


# ---------------------------------------------------------------------------------------------------------------------
# Paths


def path_of(local: Chain, states: Array) -> Path:
    """The path through states (L, R)."""
    size = local.step.shape[0]
    place = cells(local.lanes)
    hot = jax.nn.one_hot(states, size, dtype=local.emission.dtype) * place.there[..., None]
    after = jnp.roll(hot, -1, axis=0) * place.continues[..., None]
    return Path(hot, (Pairs(hot, jnp.ones_like(local.step), after),), local.lanes)


def viterbi(local: Chain | Filtered) -> tuple[Array, Array]:
    """(the most probable states (L, R), max_z of the exponent (N,)); anything where there is no step.

    With ties, the state that comes first.
    """
    local = natural(local)
    place = cells(local.lanes)
    start = jnp.broadcast_to(local.start[None, :], local.emission.shape[1:])

    def advance(reached: Array, here: tuple[Array, Array | None]) -> tuple[Array, Array]:
        emission, first = here
        best = emission + (reached if first is None else jnp.where(first[:, None], start, reached))
        return _largest(best, local.step), best

    # Unrolled, as the sums are, these loops of comparisons take half as long again.
    _, best = lax.scan(advance, start, (local.emission, place.first))

    def back(later: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
        best, continues = here
        state = (best + jnp.where(continues[:, None], local.step.T[later], local.stop[None, :])).argmax(-1)
        return state, state

    none = jnp.zeros(best.shape[1], int)
    _, states = lax.scan(back, none, (best, place.continues), reverse=True)
    return states, (lasts(local.lanes, best) + local.stop[None, :]).max(-1)


def k_best(local: Chain | Filtered, number: int) -> tuple[Array, Array]:
    """(the ``number`` most probable paths (number, L, R), their exponents (number, N)), the best first.

    Where there are fewer paths than that, the rest have the exponent −∞.
    """
    local = natural(local)
    place = cells(local.lanes)
    lanes, size = local.emission.shape[1:]
    start = jnp.full((lanes, size, number), -jnp.inf, local.start.dtype).at[..., 0].set(local.start[None, :])

    def advance(best: Array, here: tuple[Array, Array | None]) -> tuple[Array, tuple[Array, Array]]:
        emission, first = here  # best (R, S, number): of the paths that reach a state
        best = emission[..., None] + (best if first is None else jnp.where(first[:, None, None], start, best))
        reached = best[:, :, None, :] + local.step[None, :, :, None]  # (R, before, after, number)
        following, pointer = lax.top_k(jnp.swapaxes(reached, 1, 2).reshape(lanes, size, -1), number)
        return following, (best, pointer)  # before · number + rank

    _, (best, pointers) = lax.scan(advance, start, (local.emission, place.first))

    def back(later: Array, here: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        best, pointer, continues = here  # (R, S, number): where the paths to a state at the next step come from
        before = jnp.take_along_axis(pointer.reshape(lanes, -1), later, axis=1)
        final = lax.top_k((best + local.stop[None, :, None]).reshape(lanes, -1), number)[1]  # state · number + rank
        found = jnp.where(continues[:, None], before, final)
        return found, found // number

    none = jnp.zeros((lanes, number), pointers.dtype)
    _, states = lax.scan(back, none, (best, pointers, place.continues), reverse=True)
    ends = lasts(local.lanes, best) + local.stop[None, :, None]
    return jnp.moveaxis(states, 2, 0), lax.top_k(ends.reshape(ends.shape[0], -1), number)[0].T


def _mode(key: Array, local: Chain | Filtered) -> Path:
    return path_of(natural(local), viterbi(local)[0])


def sample_states(key: Array, local: Chain | Filtered) -> Array:
    """(L, R): a path of every row from p(z | x), the last state first, each then given the one that follows it."""
    known, local = filtered(local), natural(local)
    back_from, stop = local.step.T, local.stop[None, :]
    continues = cells(local.lanes).continues
    uniform = jax.random.uniform(key, continues.shape, known.found.state.dtype)

    def back(later: Array, here: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        state, uniform, continues = here
        earlier = _draw(uniform, state * jnp.where(continues[:, None], jnp.exp(back_from)[later], jnp.exp(stop)))
        return earlier, earlier

    def back_in_logs(later: Array, here: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        state, uniform, continues = here
        log_weight = state + jnp.where(continues[:, None], back_from[later], stop)
        earlier = _draw(uniform, jnp.exp(log_weight - finite(log_weight.max(-1, keepdims=True))))
        return earlier, earlier

    def in_logs() -> Array:
        logs = filter_logs(_weights(local), _steps(local))
        return lax.scan(back_in_logs, none, (logs.state, uniform, continues), reverse=True)[1]

    none = jnp.zeros(continues.shape[1], int)
    usual = lax.scan(back, none, (known.found.state, uniform, continues), reverse=True, unroll=UNROLL)[1]
    return unless_vain(known.found.lost, in_logs, usual)


def _draw(uniform: Array, weights: Array) -> Array:
    """A place (N,) with probability proportional to weights (N, S): one of weight 0 is never drawn."""
    cumulative = jnp.cumsum(weights, axis=-1)
    return (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(-1).clip(0, weights.shape[-1] - 1)


def _sample(key: Array, local: Chain | Filtered) -> Path:
    return path_of(natural(local), sample_states(key, local))


def _energy(z: Path, local: Chain | Filtered) -> Array:
    local = natural(local)
    emitted = weighed(z.state, local.emission).sum(-1)
    first, last = firsts(local.lanes, z.state), lasts(local.lanes, z.state)
    edges = weighed(first, local.start[None]).sum(1) + weighed(last, local.stop[None]).sum(1)
    return by_row(local.lanes, emitted) + followed(z, local.step) + edges


def _independent(key: Array, probs: Array) -> Path:
    """Steps with probabilities (N, L, S), 0 beyond the length, of which a random share stays in the state of the one before.

    The others know nothing of each other. Starts differ in that share, which is 0 for half of them: what they see of the data
    alone may lead all of them to states that take turns, and states made to stay may never find those that do.
    """
    share = jnp.maximum(2 * jax.random.uniform(key, (), probs.dtype) - 1, 0.0)
    state, size = jnp.swapaxes(probs, 0, 1), probs.shape[-1]
    after = jnp.concatenate([state[1:], jnp.zeros_like(state[:1])])
    goes_on = jnp.broadcast_to(after.sum(-1, keepdims=True), state.shape)
    length = (probs.sum(-1) > 0).sum(1)
    pairs = (
        Pairs(state, (1 - share) * jnp.ones((size, size), probs.dtype), after),
        Pairs(state, share * jnp.eye(size, dtype=probs.dtype), goes_on),
    )
    return Path(state, pairs, side_by_side(length, probs.shape[1]))


def _report(z: Path) -> Array:
    there = jnp.arange(z.lanes.extent.longest)[None, :] < z.lanes.length[:, None]
    return jnp.where(there[..., None], row_by_row(z.lanes, z.state), 0.0)


def _entropy(z: Path, local: Chain | Filtered) -> Array:
    """0 where one state is possible at every step, not the difference of two long sums that are rounded."""
    lanes, choices = natural(local).lanes, (natural(local).emission > -jnp.inf).sum(-1)
    known = by_row(lanes, (choices > 1).astype(z.state.dtype)) == 0
    return jnp.where(known, 0.0, _log_partition(local) - _energy(z, local))


chain = Latent(
    log_partition=_log_partition,
    mean=_mean,
    mode=_mode,
    sample=_sample,
    energy=_energy,
    entropy=_entropy,
    independent=_independent,
    report=_report,
    discrete=False,
)
