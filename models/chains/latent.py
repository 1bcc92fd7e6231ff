"""Hidden Markov chains as a `models.base.Latent`: log partition, expectations, mode and draws of state paths.

    p(z, x) = exp(start[z_1] + Σ_t step[z_{t−1}, z_t] + stop[z_T] + Σ_t emission[t, z_t])

for each row (document 002, with errata E9 to E11). The log partition is the forward recursion, its gradient the expected
counts of forward-backward (Baum and Welch), the mode the Viterbi path, a draw forward filtering and backward sampling.
Probabilities are rescaled at every step, so that long sequences do not underflow. If this loses a state that later steps
need, the recursions are run again in logarithms. Rows lie in bins (`models.rows.packing`), time first: a step of all bins is
contiguous in memory.
"""

from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from models.base import Latent, Reported
from models.chains.forward_backward import FEW, UNROLL, ChainWeights, States, Steps, filter_states, finite, lazy_where, smooth
from models.chains.forward_backward_log import filter_logs, left_out_logs, logsumexp, smooth_logs
from models.chains.posterior_counts import Logs, Pairs, Path, TransitionCounts, followed, pair_counts, states_in_logs, weighed
from models.rows.packing import Packing, by_row, firsts, grid, lasts, of_row, row_by_row, side_by_side


class Chain(NamedTuple):
    """Natural parameters of the state paths of N rows."""

    start: Array  # (S,)
    step: Array  # (S, S): from row to column
    stop: Array  # (S,); 0 if lengths are given
    emission: Array  # (L, R, S): −∞ if a state is not allowed, 0 if unobserved, arbitrary in empty cells
    packing: Packing


class Filtered(NamedTuple):
    """Natural parameters with the results of the forward recursion, shared by several functions."""

    chain: Chain
    states: States
    density: Array  # (L, R): log p(x_t, not stopped before t | x_1 … x_{t−1}); 0 in empty cells
    end: Array  # (N,): log Σ_i p(z_T = i | x) exp(stop_i)


def within(local: Chain) -> Array:
    """(L, R): which cells hold a step."""
    return grid(local.packing).there


def _weights(local: Chain) -> ChainWeights:
    return ChainWeights(local.start, local.step, local.stop)


def _steps(local: Chain) -> Steps:
    place = grid(local.packing)
    return Steps(local.emission, place.there, place.continues, place.first)


def forward(local: Chain) -> Filtered:
    """The forward recursion α_{t+1} = (α_t · step) ∘ emission_{t+1}, each α_t divided by its sum.

    Supports only forward-mode differentiation; the gradient of the log partition is the expected counts (`_total`).
    """
    weights, steps = _weights(local), _steps(local)
    # The barriers keep the compiler from recomputing a whole array for each of its uses: half the time of a sweep.
    steps = steps._replace(emission=lax.optimization_barrier(steps.emission))
    states = lax.optimization_barrier(filter_states(weights, steps))
    end = jnp.log((lasts(local.packing, states.state) * jnp.exp(local.stop)[None, :]).sum(-1))

    density = jnp.log(states.scale) + states.largest

    def in_logs() -> tuple[Array, Array]:
        logs = filter_logs(weights, steps)
        worth = logsumexp(lasts(local.packing, logs.state) + local.stop[None, :], axis=-1)
        return jnp.where(steps.there, logs.scale, 0.0), worth

    return Filtered(local, states, *lazy_where(states.lost, in_logs, (density, end)))


def prepared(local: Chain) -> Filtered:
    """Run the forward recursion once for all functions of a sweep. Only the log partition may then be differentiated."""
    return forward(lax.stop_gradient(local))._replace(chain=local)


def filtered(local: Chain | Filtered) -> Filtered:
    """Run the forward recursion, unless it has been run."""
    return local if isinstance(local, Filtered) else forward(local)


def natural(local: Chain | Filtered) -> Chain:
    """The natural parameters alone."""
    return local.chain if isinstance(local, Filtered) else local


def _largest(states: Array, matrix: Array) -> Array:
    """max_i states[n, i] + matrix[i, j]: (N, S); for few states term by term."""
    size = matrix.shape[0]
    if size > FEW:
        return (states[:, :, None] + matrix[None, :, :]).max(1)
    return reduce(jnp.maximum, (states[:, i, None] + matrix[i][None, :] for i in range(size)))


def _log_partition(local: Chain | Filtered) -> Array:
    return _total(natural(local), local if isinstance(local, Filtered) else None)


@jax.custom_vjp
def _total(local: Chain, known: Filtered | None) -> Array:
    """(N,): log Σ_z p(z, x); ``known`` are the results of the forward recursion, if it has been run."""
    return _worth(local, known)


def _worth(local: Chain, known: Filtered | None) -> Array:
    known = forward(local) if known is None else known
    return by_row(local.packing, known.density) + known.end


def _total_forward(local: Chain, known: Filtered | None) -> tuple[Array, tuple[Chain | Filtered, Filtered | None]]:
    """The backward recursion goes on from the forward one; ``known`` has no derivatives, so that it is not saved for them."""
    forward_chain = forward(local) if known is None else local
    return _worth(local, forward_chain if isinstance(forward_chain, Filtered) else known), (forward_chain, known)


def _total_backward(saved: tuple[Chain | Filtered, Filtered | None], cotangent: Array) -> tuple[Chain, Any]:
    """Multiply by the expected counts."""
    forward_chain, known = saved
    local = natural(forward_chain)
    z = _mean(jax.random.PRNGKey(0), forward_chain)
    gradient = Chain(
        cotangent @ firsts(local.packing, z.state),
        pair_counts(z, cotangent),
        cotangent @ lasts(local.packing, z.state),
        of_row(local.packing, cotangent)[..., None] * z.state,
        jax.tree.map(_no_tangent, local.packing),
    )
    return gradient, jax.tree.map(_no_tangent, known)


def _no_tangent(leaf: Array) -> Any:
    return jnp.zeros_like(leaf) if jnp.issubdtype(leaf.dtype, jnp.floating) else np.zeros(leaf.shape, jax.dtypes.float0)


_total.defvjp(_total_forward, _total_backward)


def _mean(key: Array, local: Chain | Filtered) -> Path:
    """Forward-backward: α_t ∘ β_t, and α_t step (emission_{t+1} ∘ β_{t+1}), divided by p(x)."""
    known, local = filtered(local), natural(local)
    weights, steps, end = _weights(local), _steps(local), known.end
    share = jnp.broadcast_to(of_row(local.packing, jnp.exp(-finite(end))), steps.there.shape)
    ways = smooth(weights, share, known.states, steps)
    logs = Logs(weights, steps, jnp.broadcast_to(of_row(local.packing, end), steps.there.shape), known.states.lost)
    if ways.after is not None:
        state = lazy_where(logs.needed, lambda: smooth_logs(*logs[:3])[1].both, ways.both)
        pairs: Pairs | TransitionCounts = Pairs(known.states.state, jnp.exp(local.step), ways.after, logs)
    else:
        assert ways.counts is not None  # one or the other
        usual = TransitionCounts(ways.counts * jnp.exp(local.step)[None])
        state, pairs = lazy_where(logs.needed, lambda: states_in_logs(logs), (ways.both, usual))
    return lax.optimization_barrier(Path(state, (pairs,), local.packing))


# ---------------------------------------------------------------------------------------------------------------------
# Paths


def steps_left_out(local: Chain | Filtered) -> Array:
    """(L, R): log p(x_t | all other steps of its sequence); arbitrary in empty cells."""
    local = natural(local)
    return left_out_logs(_weights(local), _steps(local))


def path_of(local: Chain, states: Array) -> Path:
    """The path through states (L, R)."""
    size = local.step.shape[0]
    place = grid(local.packing)
    hot = jax.nn.one_hot(states, size, dtype=local.emission.dtype) * place.there[..., None]
    after = jnp.roll(hot, -1, axis=0) * place.continues[..., None]
    return Path(hot, (Pairs(hot, jnp.ones_like(local.step), after),), local.packing)


def viterbi(local: Chain | Filtered) -> tuple[Array, Array]:
    """(the most probable states (L, R), max_z log p(z, x) (N,)); arbitrary in empty cells. Ties go to the first state."""
    local = natural(local)
    place = grid(local.packing)
    start = jnp.broadcast_to(local.start[None, :], local.emission.shape[1:])

    def advance(reached: Array, here: tuple[Array, Array | None]) -> tuple[Array, Array]:
        emission, first = here
        best = emission + (reached if first is None else jnp.where(first[:, None], start, reached))
        return _largest(best, local.step), best

    # Unlike the sums, these loops are not unrolled: it would take half as long again.
    _, best = lax.scan(advance, start, (local.emission, place.first))

    def back(later: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
        best, continues = here
        state = (best + jnp.where(continues[:, None], local.step.T[later], local.stop[None, :])).argmax(-1)
        return state, state

    none = jnp.zeros(best.shape[1], int)
    _, states = lax.scan(back, none, (best, place.continues), reverse=True)
    return states, (lasts(local.packing, best) + local.stop[None, :]).max(-1)


def k_best(local: Chain | Filtered, number: int) -> tuple[Array, Array]:
    """(the ``number`` most probable paths (number, L, R), their log p(z, x) (number, N)), best first.

    If there are fewer paths, the remaining entries have log p = −∞.
    """
    local = natural(local)
    place = grid(local.packing)
    packing, size = local.emission.shape[1:]
    start = jnp.full((packing, size, number), -jnp.inf, local.start.dtype).at[..., 0].set(local.start[None, :])

    def advance(best: Array, here: tuple[Array, Array | None]) -> tuple[Array, tuple[Array, Array]]:
        emission, first = here  # best (R, S, number): of the paths that reach a state
        best = emission[..., None] + (best if first is None else jnp.where(first[:, None, None], start, best))
        reached = best[:, :, None, :] + local.step[None, :, :, None]  # (R, before, after, number)
        following, pointer = lax.top_k(jnp.swapaxes(reached, 1, 2).reshape(packing, size, -1), number)
        return following, (best, pointer)  # before · number + rank

    _, (best, pointers) = lax.scan(advance, start, (local.emission, place.first))

    def back(later: Array, here: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        best, pointer, continues = here  # (R, S, number): where the paths to a state at the next step come from
        before = jnp.take_along_axis(pointer.reshape(packing, -1), later, axis=1)
        final = lax.top_k((best + local.stop[None, :, None]).reshape(packing, -1), number)[1]  # state · number + rank
        places = jnp.where(continues[:, None], before, final)
        return places, places // number

    none = jnp.zeros((packing, number), pointers.dtype)
    _, states = lax.scan(back, none, (best, pointers, place.continues), reverse=True)
    ends = lasts(local.packing, best) + local.stop[None, :, None]
    return jnp.moveaxis(states, 2, 0), lax.top_k(ends.reshape(ends.shape[0], -1), number)[0].T


def _mode(key: Array, local: Chain | Filtered) -> Path:
    return path_of(natural(local), viterbi(local)[0])


def sample_states(key: Array, local: Chain | Filtered) -> Array:
    """(L, R): draw a path of each row from p(z | x), backwards from the last state."""
    known, local = filtered(local), natural(local)
    back_from, stop = local.step.T, local.stop[None, :]
    continues = grid(local.packing).continues
    uniform = jax.random.uniform(key, continues.shape, known.states.state.dtype)

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
    usual = lax.scan(back, none, (known.states.state, uniform, continues), reverse=True, unroll=UNROLL)[1]
    return lazy_where(known.states.lost, in_logs, usual)


def _draw(uniform: Array, weights: Array) -> Array:
    """Draw an index (N,) with probability proportional to weights (N, S); never one of weight 0."""
    cumulative = jnp.cumsum(weights, axis=-1)
    return (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(-1).clip(0, weights.shape[-1] - 1)


def _sample(key: Array, local: Chain | Filtered) -> Path:
    return path_of(natural(local), sample_states(key, local))


def _energy(z: Path, local: Chain | Filtered) -> Array:
    local = natural(local)
    emitted = weighed(z.state, local.emission).sum(-1)
    first, last = firsts(local.packing, z.state), lasts(local.packing, z.state)
    edges = weighed(first, local.start[None]).sum(1) + weighed(last, local.stop[None]).sum(1)
    return by_row(local.packing, emitted) + followed(z, local.step) + edges


def _independent(key: Array, probs: Array) -> Path:
    """An initial path from marginal probabilities (N, L, S), 0 beyond the length.

    A random share of the steps stays in the previous state, the others are independent. The share is 0 in half of the starts,
    so that starts include both alternating and persistent states: fits may not find one kind from the other.
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
    there = jnp.arange(z.packing.extent.longest)[None, :] < z.packing.length[:, None]
    return jnp.where(there[..., None], row_by_row(z.packing, z.state), 0.0)


def _entropy(z: Path, local: Chain | Filtered) -> Array:
    """Entropy of each path; exactly 0 if only one state is possible at every step, free of rounding."""
    packing, choices = natural(local).packing, (natural(local).emission > -jnp.inf).sum(-1)
    known = by_row(packing, (choices > 1).astype(z.state.dtype)) == 0
    return jnp.where(known, 0.0, _log_partition(local) - _energy(z, local))


chain = Latent(
    log_partition=_log_partition,
    mean=_mean,
    mode=_mode,
    sample=_sample,
    energy=_energy,
    reported=Reported(_report, _entropy),
    independent=_independent,
    unit="step",
    values="discrete",
)
