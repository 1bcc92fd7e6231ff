"""Chains of states: S states that follow each other, seen through what each emits; the four verbs of `models.base.Latent`.

    p(z, x) = exp(start[z_1] + Σ_t step[z_{t−1}, z_t] + stop[z_T] + Σ_t emission[t, z_t])

for T = ``length`` of every row (document 002, with errata E9 to E11). The log partition is the forward recursion, its gradient
the expected counts of forward and backward (Baum and Welch), the mode Viterbi's path, a draw forward filtering and backward
sampling. Everything is kept as probabilities that are rescaled at every step (Rabiner 1989): no length under- or overflows.
What is lost is a state that at some step is less likely than the others by a factor of 1e308 and alone can explain what comes
later: with steps that are impossible, or nearly, log p(x) is then too small (`viterbi` and `k_best` count in logarithms and see
it). Time is the leading axis, so that a step of all rows lies together in memory.
"""

from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from models.base import Latent
from models.recursions import FEW, UNROLL, Steps, divisor, filter_states, smooth


class Chain(NamedTuple):
    """Natural parameters of the states of N rows, at most L steps long; steps beyond a row's length are not looked at."""

    start: Array  # (S,)
    step: Array  # (S, S): from row to column
    stop: Array  # (S,); 0 where rows end without a word
    emission: Array  # (L, N, S): −∞ where a state is not allowed, 0 where nothing was observed
    length: Array  # (N,), 1 or more


class Path(NamedTuple):
    """States, expected or drawn: 0 beyond the length of a row."""

    state: Array  # (L, N, S)
    pair: Array  # (N, S, S): how often each state followed each


class Filtered(NamedTuple):
    """Natural parameters with what the forward recursion knows, which several verbs ask for."""

    chain: Chain
    weight: Array  # (L, N, S): exp(emission − its largest entry)
    state: Array  # (L, N, S): p(z_t | x_1 … x_t), carried on beyond the length
    scale: Array  # (L, N): p(x_t | x_1 … x_{t−1}) / exp(largest emission); 1 beyond the length
    largest: Array  # (L, N): the largest emission of a state that can be reached, 0 beyond the length
    end: Array  # (N,): Σ_i p(z_T = i | x) exp(stop_i)


def within(local: Chain) -> Array:
    """(L, N): which steps there are."""
    return jnp.arange(local.emission.shape[0])[:, None] < local.length[None, :]


def _continues(local: Chain) -> Array:
    """(L, N): after which steps there is another."""
    return jnp.arange(1, local.emission.shape[0] + 1)[:, None] < local.length[None, :]


def forward(local: Chain) -> Filtered:
    """The forward recursion α_{t+1} = (α_t · step) ∘ emission_{t+1}, each α_t divided by its sum.

    Forward differentiation alone goes through it: the gradient of the log partition is the expected counts (`_total`).
    """
    # The barriers keep the compiler from computing a whole array anew in each of its readers: half the time of a sweep.
    steps = Steps(lax.optimization_barrier(local.emission), within(local), _continues(local))
    found = lax.optimization_barrier(filter_states(jnp.exp(local.start), jnp.exp(local.step), steps))
    end = (found.last * jnp.exp(local.stop)[None, :]).sum(-1)
    return Filtered(local, found.weight, found.state, found.scale, found.largest, end)


def prepared(local: Chain) -> Filtered:
    """Natural parameters with the forward recursion run once, for all verbs of a sweep."""
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


def step_log_densities(found: Filtered) -> Array:
    """(L, N): log p(x_t | x_1 … x_{t−1}), and of not having stopped before; 0 beyond the length."""
    return jnp.log(found.scale) + found.largest


def _log_partition(local: Chain | Filtered) -> Array:
    return _total(natural(local), local if isinstance(local, Filtered) else None)


@jax.custom_vjp
def _total(local: Chain, found: Filtered | None) -> Array:
    """(N,): log Σ_z exp of the exponent; ``found`` is what the forward recursion knows, if it has been run."""
    return _worth(local, found)


def _worth(local: Chain, found: Filtered | None) -> Array:
    found = forward(local) if found is None else found
    return (jnp.log(found.scale) + found.largest).sum(0) + jnp.log(found.end)


def _total_forward(local: Chain, found: Filtered | None) -> tuple[Array, tuple[Chain, Filtered | None]]:
    return _worth(local, found), (local, found)


def _total_backward(saved: tuple[Chain, Filtered | None], cotangent: Array) -> tuple[Chain, Any]:
    """Times the expected counts, of states, pairs, starts and ends. They are found anew, so that they have a derivative too."""
    local, found = saved
    z = _mean(jax.random.PRNGKey(0), local)
    first, last = ends(z, local.length)
    gradient = Chain(
        cotangent @ first,
        jnp.einsum("n,nij->ij", cotangent, z.pair),
        cotangent @ last,
        cotangent[None, :, None] * z.state,
        _no_tangent(local.length),
    )
    return gradient, jax.tree.map(_no_tangent, found)


def _no_tangent(leaf: Array) -> Any:
    return jnp.zeros_like(leaf) if jnp.issubdtype(leaf.dtype, jnp.floating) else np.zeros(leaf.shape, jax.dtypes.float0)


_total.defvjp(_total_forward, _total_backward)


def _mean(key: Array, local: Chain | Filtered) -> Path:
    """Forward and backward: α_t ∘ β_t, and α_t step (emission_{t+1} ∘ β_{t+1}), over p(x)."""
    found, local = filtered(local), natural(local)
    transition, share = jnp.exp(local.step), 1 / divisor(found.end)
    steps = Steps(found.weight, within(local), _continues(local))
    state, pair = smooth(transition, jnp.exp(local.stop), share, found.state, found.scale, steps)
    return lax.optimization_barrier(Path(state, pair * transition[None]))


def path_of(local: Chain, states: Array) -> Path:
    """The path through states (L, N)."""
    size = local.step.shape[0]
    hot = jax.nn.one_hot(states, size, dtype=local.emission.dtype) * within(local)[..., None]
    follows = jnp.where(_continues(local)[:-1], states[:-1] * size + states[1:], size**2)  # a place beyond, for none
    count = jax.vmap(partial(jnp.bincount, length=size**2), in_axes=1)(follows)
    return Path(hot, count.reshape(-1, size, size).astype(hot.dtype))


def viterbi(local: Chain | Filtered) -> tuple[Array, Array]:
    """(the most probable states (L, N), max_z of the exponent (N,)); beyond its length a path stays where it ended.

    With ties, the state that comes first.
    """
    local = natural(local)
    start = jnp.broadcast_to(local.start, local.emission.shape[1:])

    def advance(carried: tuple[Array, Array], here: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        reached, end = carried
        emission, there = here
        best = reached + emission
        return (_largest(best, local.step), jnp.where(there[:, None], best, end)), best

    (_, last), best = lax.scan(advance, (start, start), (local.emission, within(local)), unroll=UNROLL)
    end = last + local.stop[None, :]

    def back(later: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
        best, continues = here
        state = jnp.where(continues, (best + local.step.T[later]).argmax(-1), later)
        return state, state

    _, states = lax.scan(back, end.argmax(-1), (best, _continues(local)), reverse=True, unroll=UNROLL)
    return states, end.max(-1)


def k_best(local: Chain | Filtered, number: int) -> tuple[Array, Array]:
    """(the ``number`` most probable paths (number, L, N), their exponents (number, N)), the best first.

    Where there are fewer paths than that, the rest have the exponent −∞.
    """
    local = natural(local)
    there = within(local)
    rows, size = local.emission.shape[1:]

    def advance(carried: tuple[Array, Array], here: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        best, end = carried  # (N, S, number): of the paths that reach a state; of those that have ended
        emission, there = here
        best = best + emission[..., None]
        reached = best[:, :, None, :] + local.step[None, :, :, None]  # (N, before, after, number)
        following, pointer = lax.top_k(jnp.swapaxes(reached, 1, 2).reshape(rows, size, -1), number)
        return (following, jnp.where(there[:, None, None], best, end)), pointer  # before · number + rank

    start = jnp.full((rows, size, number), -jnp.inf, local.start.dtype).at[..., 0].set(local.start[None, :])
    (_, last), pointers = lax.scan(advance, (start, start), (local.emission, there))
    worth, final = lax.top_k((last + local.stop[None, :, None]).reshape(rows, -1), number)  # state · number + rank

    def back(later: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
        pointer, continues = here  # (N, S, number): where the paths to a state at the next step come from
        before = jnp.take_along_axis(pointer.reshape(rows, -1), later, axis=1)
        place = jnp.where(continues[:, None], before, later)
        return place, place // number

    _, states = lax.scan(back, final, (pointers, _continues(local)), reverse=True)
    return jnp.moveaxis(states, 2, 0), worth.T


def _mode(key: Array, local: Chain | Filtered) -> Path:
    return path_of(natural(local), viterbi(local)[0])


def sample_states(key: Array, local: Chain | Filtered) -> Array:
    """(L, N): a path of every row from p(z | x), the last state first, each then given the one that follows it."""
    found, local = filtered(local), natural(local)
    back_from, stop = jnp.exp(local.step).T, jnp.exp(local.stop)[None, :]
    uniform = jax.random.uniform(key, found.scale.shape, found.state.dtype)

    def back(later: Array, here: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        state, uniform, continues = here
        earlier = _draw(uniform, state * jnp.where(continues[:, None], back_from[later], stop))
        return earlier, earlier

    none = jnp.zeros(found.scale.shape[1], int)
    return lax.scan(back, none, (found.state, uniform, _continues(local)), reverse=True, unroll=UNROLL)[1]


def _draw(uniform: Array, weights: Array) -> Array:
    """A place (N,) with probability proportional to weights (N, S): one of weight 0 is never drawn."""
    cumulative = jnp.cumsum(weights, axis=-1)
    return (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(-1).clip(0, weights.shape[-1] - 1)


def _sample(key: Array, local: Chain | Filtered) -> Path:
    return path_of(natural(local), sample_states(key, local))


def ends(z: Path, length: Array) -> tuple[Array, Array]:
    """(N, S) each: the first and the last state."""
    return z.state[0], jnp.take_along_axis(z.state, (length - 1)[None, :, None], axis=0)[0]


def _energy(z: Path, local: Chain | Filtered) -> Array:
    local = natural(local)
    first, last = ends(z, local.length)
    emitted = _weighed(z.state, local.emission).sum((0, 2))
    followed = _weighed(z.pair, local.step[None]).sum((1, 2))
    return emitted + followed + _weighed(first, local.start[None]).sum(1) + _weighed(last, local.stop[None]).sum(1)


def _weighed(value: Array, weight: Array) -> Array:
    """Value times weight, where 0 · −∞ = 0."""
    return jnp.where(value == 0, 0.0, value * weight)


def _independent(key: Array, probs: Array) -> Path:
    """Steps with probabilities (N, L, S), 0 beyond the length, of which a random share stays in the state of the one before.

    The others know nothing of each other. Starts differ in that share, which is 0 for half of them: what they see of the data
    alone may lead all of them to states that take turns, and states made to stay may never find those that do.
    """
    share = jnp.maximum(2 * jax.random.uniform(key, (), probs.dtype) - 1, 0.0)
    apart = jnp.einsum("nti,ntj->nij", probs[:, :-1], probs[:, 1:])
    there = probs[:, 1:].sum(-1, keepdims=True)
    stay = (there * probs[:, :-1]).sum(1)[:, :, None] * jnp.eye(probs.shape[-1])
    return Path(jnp.swapaxes(probs, 0, 1), (1 - share) * apart + share * stay)


chain = Latent(
    log_partition=_log_partition,
    mean=_mean,
    mode=_mode,
    sample=_sample,
    energy=_energy,
    entropy=lambda z, local: _log_partition(local) - _energy(z, local),
    independent=_independent,
    report=lambda z: jnp.swapaxes(z.state, 0, 1),
    discrete=False,
)
