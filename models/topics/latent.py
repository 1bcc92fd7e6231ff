"""Topics of tokens as a `models.base.Latent`: log partition, expectations, mode and draws for whole documents.

    p(z, w | d) = exp(carrier[d]) Π_tokens exp(topic[d, z] + word[z, w])

so that log p(w | d) = carrier[d] + Σ_v count[d, v] log Σ_k exp(topic[d, k] + word[k, v]). All tokens of
the same word in a document have the same distribution: everything but draws works on the distinct words and their counts.
Cells (a distinct word, or a token) are processed in blocks: an array of cells × topics never exists for a whole corpus.

No exponential per cell is needed: Σ_k exp(topic[d, k] + word[w, k]) is the product of a row of exp(topic − its maximum) and a
row of exp(word − its maximum); expected counts are two more products. If this product underflows, because a document and a
word share no topic of noticeable weight, the cell is computed from logarithms.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from models.base import Latent, Reported

Pytree = Any

BLOCK = 2**17  # cells × topics per block; larger blocks no longer fit into the cache (measured)


class TokenCells(NamedTuple):
    """Words of N documents as C cells."""

    row: Array  # (C,): index of the document, N for an empty cell
    word: Array  # (C,)
    times: Array  # (C,): count, 0 for an empty cell


class Bags(NamedTuple):
    """Encoded documents."""

    words: TokenCells  # distinct words with counts
    tokens: TokenCells  # one token per cell
    carrier: Array  # (N,): part of the log density that is free of parameters


class Scaled(NamedTuple):
    """Log weights, and weights exp(logs − shift) scaled so that the largest of each row is 1."""

    logs: Array  # (X, K)
    weight: Array  # (X, K): 0 for an impossible topic
    shift: Array  # (X,)


class Mixed(NamedTuple):
    """Natural parameters: log weights of topics by document and of words by topic, and the cells."""

    topic: Scaled  # (N, K): −∞ for a topic that is not allowed
    word: Scaled  # (V, K)
    bags: Bags
    norm: Array  # (C,): Σ_k topic weight × word weight of each distinct word


class Soft(NamedTuple):
    """Expected topics, stored as the natural parameters from which they are computed block by block."""

    local: Mixed


class Hard(NamedTuple):
    """One topic per cell."""

    topic: Array  # (C,)
    cells: TokenCells
    local: Mixed


# ---------------------------------------------------------------------------------------------------------------------
# Cells, block by block


def _blocks(cells: TokenCells, shape: tuple[int, ...]) -> TokenCells:
    """Cut the cells into (blocks, size) for (N, K) = ``shape``; the last block is padded with empty cells."""
    documents, width = shape
    number = cells.row.shape[0]
    size = max(1, min(number, BLOCK // width))
    blocks = -(-number // size)

    def cut(leaf: Array, fill: int) -> Array:
        return jnp.pad(leaf, (0, blocks * size - number), constant_values=fill).reshape(blocks, size)

    return TokenCells(cut(cells.row, documents), cut(cells.word, 0), cut(cells.times, 0))


def _each(function: Callable[[Array, TokenCells], Array], cells: TokenCells, shape: tuple[int, ...]) -> Array:
    """Map ``function(index of the block, its cells)`` over blocks: (C,)."""
    blocks = _blocks(cells, shape)
    values_of: Array = lax.map(lambda block: function(*block), (jnp.arange(blocks.row.shape[0]), blocks))
    return values_of.reshape(-1)[: cells.row.shape[0]]


def _summed(function: Callable[[Array, TokenCells], Array], start: Array, cells: TokenCells, shape: tuple[int, ...]) -> Array:
    """Fold ``function(sums so far, cells of a block)`` over all blocks."""
    return lax.scan(lambda sums, block: (function(sums, block), None), start, _blocks(cells, shape))[0]


def _one_by_one[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Make vmap run ``function`` as a loop: in parallel, the blocks of all chains would not fit into the cache.

    Derivatives are those of the function itself.
    """
    looped = jax.custom_jvp(jax.custom_batching.sequential_vmap(function))
    looped.defjvp(lambda primals, tangents: jax.jvp(function, primals, tangents))
    return looped


def _of_document(value: Array, cells: TokenCells) -> Array:
    """Values (N, …) of documents -> cells (C, …); 0 for an empty cell."""
    return value.at[cells.row].get(mode="fill", fill_value=0.0)


def _weights(topic: Scaled, word: Scaled, cells: TokenCells) -> Array:
    """(C, K): p(z = k, w | d) up to a factor per cell."""
    return _of_document(topic.weight, cells) * word.weight[cells.word]


def _logs(topic: Scaled, word: Scaled, cells: TokenCells) -> Array:
    """(C, K): log p(z = k, w | d)."""
    return _of_document(topic.logs, cells) + word.logs[cells.word]


def _weighed(count: Array, value: Array) -> Array:
    """Count times value, where 0 · −∞ = 0."""
    return jnp.where(count == 0, 0.0, count * value)


def shares(logs: Array) -> Array:
    """p(z = k | w, d) of each cell (C, K); 0 if no topic is possible."""
    largest = logs.max(axis=1, keepdims=True)
    weight = jnp.exp(logs - jnp.where(jnp.isfinite(largest), largest, 0.0))
    total = weight.sum(axis=1, keepdims=True)
    return weight / jnp.where(total > 0, total, 1.0)


def is_precise(norm: Array) -> Array:
    """Whether a sum of weights is accurate: terms that underflowed are below its rounding error."""
    return norm > jnp.finfo(norm.dtype).tiny / jnp.finfo(norm.dtype).eps


def _lost(local: Mixed) -> tuple[Array, TokenCells]:
    """Whether any sum of weights is inaccurate, and the cells with the counts of accurate ones set to 0."""
    words = local.bags.words
    times = jnp.where(is_precise(local.norm), 0.0, words.times)
    return (times > 0).any(), words._replace(times=times)


# ---------------------------------------------------------------------------------------------------------------------
# Natural parameters and functions of the Latent


def scaled(logs: Array) -> Scaled:
    """Scale log weights (X, K)."""
    largest = logs.max(axis=1)
    shift = lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0.0))
    return Scaled(logs, jnp.exp(logs - shift[:, None]), shift)


def mixed(topic: Scaled, word: Scaled, bags: Bags) -> Mixed:
    """Natural parameters of documents."""
    return Mixed(topic, word, bags, _norms(topic, word, bags.words))


@_one_by_one
def _norms(topic: Scaled, word: Scaled, cells: TokenCells) -> Array:
    return _each(lambda index, cells: _weights(topic, word, cells).sum(axis=1), cells, topic.logs.shape)


@_one_by_one
def _log_partition(local: Mixed) -> Array:
    words, precise = local.bags.words, is_precise(local.norm)
    shift = _of_document(local.topic.shift, words) + local.word.shift[words.word]
    value = jnp.log(jnp.where(precise, local.norm, 1.0)) + shift

    def by_logs(index: Array, cells: TokenCells) -> Array:
        return jax.nn.logsumexp(_logs(local.topic, local.word, cells), axis=1)

    def mended(value: Array) -> Array:
        return jnp.where(precise, value, _each(by_logs, words, local.topic.logs.shape))

    value = lax.cond(_lost(local)[0], mended, lambda value: value, value)
    return local.bags.carrier.at[words.row].add(_weighed(words.times, value), mode="drop")


def by_document(z: Soft | Hard) -> Array:
    """(N, K): number of tokens by document and topic, unweighted."""
    if isinstance(z, Soft):
        return _expected_by_document(z.local)
    nothing = jnp.zeros_like(z.local.topic.logs)
    return nothing.at[z.cells.row, z.topic].add(z.cells.times, mode="drop")


def by_word(z: Soft | Hard, weight: Array) -> Array:
    """(V, K): number of tokens by word and topic, weighted by document (N,)."""
    if isinstance(z, Soft):
        return _expected_by_word(z.local, weight)
    counts = z.cells.times * _of_document(weight, z.cells)
    return jnp.zeros_like(z.local.word.logs).at[z.cells.word, z.topic].add(counts)


def _ratios(local: Mixed) -> TokenCells:
    """The distinct words with counts / norm, the factors in sums of weights."""
    exact = is_precise(local.norm)
    return local.bags.words._replace(times=jnp.where(exact, local.bags.words.times / jnp.where(exact, local.norm, 1.0), 0.0))


@_one_by_one
def _expected_by_document(local: Mixed) -> Array:
    def add(total: Array, cells: TokenCells) -> Array:
        return total.at[cells.row].add(cells.times[:, None] * local.word.weight[cells.word], mode="drop")

    def add_by_logs(total: Array, cells: TokenCells) -> Array:
        share = shares(_logs(local.topic, local.word, cells))
        return total.at[cells.row].add(cells.times[:, None] * share, mode="drop")

    return _expected(local, local.topic, add, add_by_logs)


@_one_by_one
def _expected_by_word(local: Mixed, weight: Array) -> Array:
    def add(total: Array, cells: TokenCells) -> Array:
        counts = cells.times * _of_document(weight, cells)
        return total.at[cells.word].add(counts[:, None] * _of_document(local.topic.weight, cells))

    def add_by_logs(total: Array, cells: TokenCells) -> Array:
        counts = cells.times * _of_document(weight, cells)
        return total.at[cells.word].add(counts[:, None] * shares(_logs(local.topic, local.word, cells)))

    return _expected(local, local.word, add, add_by_logs)


def _expected(
    local: Mixed, side: Scaled, add: Callable[[Array, TokenCells], Array], add_by_logs: Callable[[Array, TokenCells], Array]
) -> Array:
    """Expected counts of one side, documents or words: its weights times sums; inaccurate cells by logarithms.

    The two sides are separate functions, so that a caller computes only the one that it needs.
    """
    shape = local.topic.logs.shape
    expected = _weighed(_summed(add, jnp.zeros_like(side.logs), _ratios(local), shape), side.weight)
    any_lost, lost = _lost(local)
    return lax.cond(any_lost, lambda expected: _summed(add_by_logs, expected, lost, shape), lambda expected: expected, expected)


def _energy(z: Soft | Hard, local: Mixed) -> Array:
    if isinstance(z, Soft):
        return _expected_energy(z.local, local)
    cells = z.cells
    logs = local.topic.logs.at[cells.row, z.topic].get(mode="fill", fill_value=0.0) + local.word.logs[cells.word, z.topic]
    return local.bags.carrier.at[cells.row].add(_weighed(cells.times, logs), mode="drop")


@_one_by_one
def _expected_energy(given: Mixed, local: Mixed) -> Array:
    def energy(index: Array, cells: TokenCells) -> Array:
        share = shares(_logs(given.topic, given.word, cells))
        return _weighed(cells.times[:, None] * share, _logs(local.topic, local.word, cells)).sum(axis=1)

    words = local.bags.words
    return local.bags.carrier.at[words.row].add(_each(energy, words, local.topic.logs.shape), mode="drop")


@_one_by_one
def _likeliest(local: Mixed) -> Array:
    def one(index: Array, cells: TokenCells) -> Array:
        return _logs(local.topic, local.word, cells).argmax(axis=1)

    return _each(one, local.bags.words, local.topic.logs.shape)


@_one_by_one
def _drawn(key: Array, local: Mixed) -> Array:
    def one(index: Array, cells: TokenCells) -> Array:
        weights = _weights(local.topic, local.word, cells)
        precise = is_precise(weights.sum(axis=1))

        def mended(weights: Array) -> Array:
            return jnp.where(precise[:, None], weights, shares(_logs(local.topic, local.word, cells)))

        weights = lax.cond((~precise & (cells.times > 0)).any(), mended, lambda weights: weights, weights)
        cumulative = jnp.cumsum(weights, axis=1)
        uniform = jax.random.uniform(jax.random.fold_in(key, index), (weights.shape[0], 1), weights.dtype)
        return (cumulative <= uniform * cumulative[:, -1:]).sum(axis=1).clip(0, weights.shape[1] - 1)

    return _each(one, local.bags.tokens, local.topic.logs.shape)


def _report(z: Soft | Hard) -> Array:
    """(N, K): shares of topics among the tokens of a document; without tokens uniform, or 0 for `Hard` topics."""
    counts = by_document(z)
    total = counts.sum(axis=1, keepdims=True)
    return jnp.where(total > 0, counts / jnp.where(total > 0, total, 1.0), 1 / counts.shape[1] if isinstance(z, Soft) else 0.0)


topics = Latent(
    log_partition=_log_partition,
    mean=lambda key, local: Soft(local),
    mode=lambda key, local: Hard(_likeliest(local), local.bags.words, local),
    sample=lambda key, local: Hard(_drawn(key, local), local.bags.tokens, local),
    energy=_energy,
    reported=Reported(
        _report,
        lambda z, local: _log_partition(local) - _energy(z, local),
        units=lambda z: (*z.cells, z.topic),
    ),
    unit="token",
    values="discrete",
)
