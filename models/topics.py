"""Topics of tokens: every token of a document is of one of K; the four verbs of `models.base.Latent` for whole documents.

    p(z, w | d) = exp(carrier[d]) Π_tokens exp(topic[d, z] + word[z, w])

so that log p(w | d) = carrier[d] + Σ_v count[d, v] log Σ_k exp(topic[d, k] + word[k, v]). Tokens of one word in one document
are alike: all but draws work on the distinct words of a document and how often each stands in it. Cells (one a distinct word,
or one a token) are read in blocks, and never are there cells × topics of a whole corpus in memory.

A cell needs no exponential of its own: Σ_k exp(topic[d, k] + word[w, k]) is a product of a row of exp(topic − its maximum) and
one of exp(word − its maximum), and expected counts are two more products. Where that product is lost, because a document and a
word have no topic in common that weighs anything in either, the cell is computed from logarithms.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from models.base import Latent

Pytree = Any

BLOCK = 2**17  # numbers, cells times topics, of a block: measured, larger ones fall out of the cache


class Cells(NamedTuple):
    """Words of N documents, cell by cell."""

    row: Array  # (C,): the number of the document among the rows; N where there is no word
    word: Array  # (C,)
    times: Array  # (C,): how often it stands there; 0 where there is no word


class Bags(NamedTuple):
    """What documents bring."""

    words: Cells  # the distinct words of a document, each once
    tokens: Cells  # one a cell
    carrier: Array  # (N,): the part of their log density that no parameter enters


class Scaled(NamedTuple):
    """Log weights and, free of overflow, the weights: exp(logs − shift), the largest of a row 1."""

    logs: Array  # (X, K)
    weight: Array  # (X, K): 0 where a topic is not possible
    shift: Array  # (X,)


class Mixed(NamedTuple):
    """Natural parameters: log weights of topics by document, of words by topic, and which words there are."""

    topic: Scaled  # (N, K): −∞ where a document is not allowed a topic
    word: Scaled  # (V, K)
    bags: Bags
    norm: Array  # (C,): Σ_k topic weight × word weight of every distinct word, which the log partition and the shares need


class Soft(NamedTuple):
    """Expected topics: nothing more than what they follow from, read block by block."""

    local: Mixed


class Hard(NamedTuple):
    """One topic a cell."""

    topic: Array  # (C,)
    cells: Cells
    local: Mixed


# ---------------------------------------------------------------------------------------------------------------------
# Cells, block by block


def _blocks(cells: Cells, shape: tuple[int, ...]) -> Cells:
    """(blocks, size) of documents and topics (N, K); the last is filled up with cells where there is no word."""
    documents, width = shape
    number = cells.row.shape[0]
    size = max(1, min(number, BLOCK // width))
    blocks = -(-number // size)

    def cut(leaf: Array, fill: int) -> Array:
        return jnp.pad(leaf, (0, blocks * size - number), constant_values=fill).reshape(blocks, size)

    return Cells(cut(cells.row, documents), cut(cells.word, 0), cut(cells.times, 0))


def _each(function: Callable[[Array, Cells], Array], cells: Cells, shape: tuple[int, ...]) -> Array:
    """(C,): ``function(number of the block, its cells)``, cell by cell."""
    blocks = _blocks(cells, shape)
    found: Array = lax.map(lambda block: function(*block), (jnp.arange(blocks.row.shape[0]), blocks))
    return found.reshape(-1)[: cells.row.shape[0]]


def _summed(function: Callable[[Array, Cells], Array], start: Array, cells: Cells, shape: tuple[int, ...]) -> Array:
    """``function(sums so far, cells of a block)`` over all blocks."""
    return lax.scan(lambda sums, block: (function(sums, block), None), start, _blocks(cells, shape))[0]


def _one_by_one[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """``function``, under vmap a loop: chains side by side take several times as long, as their blocks leave the cache.

    Such a loop has no gradient: that is of the function as it stands.
    """
    looped = jax.custom_jvp(jax.custom_batching.sequential_vmap(function))
    looped.defjvp(lambda primals, tangents: jax.jvp(function, primals, tangents))
    return looped


def _of_document(value: Array, cells: Cells) -> Array:
    """(C, …): of documents (N, …), cell by cell; 0 where there is no word."""
    return value.at[cells.row].get(mode="fill", fill_value=0.0)


def _weights(topic: Scaled, word: Scaled, cells: Cells) -> Array:
    """(C, K): p(z = k, w | d), but for a factor a cell."""
    return _of_document(topic.weight, cells) * word.weight[cells.word]


def _logs(topic: Scaled, word: Scaled, cells: Cells) -> Array:
    """(C, K): log p(z = k, w | d)."""
    return _of_document(topic.logs, cells) + word.logs[cells.word]


def _weighed(count: Array, value: Array) -> Array:
    """Count times value, where 0 · −∞ = 0."""
    return jnp.where(count == 0, 0.0, count * value)


def shares(logs: Array) -> Array:
    """p(z = k | w, d) of every cell (C, K); none where no topic is possible."""
    largest = logs.max(axis=1, keepdims=True)
    weight = jnp.exp(logs - jnp.where(jnp.isfinite(largest), largest, 0.0))
    total = weight.sum(axis=1, keepdims=True)
    return weight / jnp.where(total > 0, total, 1.0)


def digits_kept(norm: Array) -> Array:
    """Whether a sum of weights has its digits: those that fell below the smallest number are less than its rounding."""
    return norm > jnp.finfo(norm.dtype).tiny / jnp.finfo(norm.dtype).eps


def _lost(local: Mixed) -> tuple[Array, Cells]:
    """Whether the sum of weights of a cell is lost, and the cells with counts only where it is."""
    words = local.bags.words
    times = jnp.where(digits_kept(local.norm), 0.0, words.times)
    return (times > 0).any(), words._replace(times=times)


# ---------------------------------------------------------------------------------------------------------------------
# Natural parameters and verbs


def scaled(logs: Array) -> Scaled:
    """Of log weights (X, K)."""
    largest = logs.max(axis=1)
    shift = lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0.0))
    return Scaled(logs, jnp.exp(logs - shift[:, None]), shift)


def mixed(topic: Scaled, word: Scaled, bags: Bags) -> Mixed:
    """Natural parameters of these documents."""
    return Mixed(topic, word, bags, _norms(topic, word, bags.words))


@_one_by_one
def _norms(topic: Scaled, word: Scaled, cells: Cells) -> Array:
    return _each(lambda index, cells: _weights(topic, word, cells).sum(axis=1), cells, topic.logs.shape)


@_one_by_one
def _log_partition(local: Mixed) -> Array:
    words, kept = local.bags.words, digits_kept(local.norm)
    shift = _of_document(local.topic.shift, words) + local.word.shift[words.word]
    value = jnp.log(jnp.where(kept, local.norm, 1.0)) + shift

    def by_logs(index: Array, cells: Cells) -> Array:
        return jax.nn.logsumexp(_logs(local.topic, local.word, cells), axis=1)

    def mended(value: Array) -> Array:
        return jnp.where(kept, value, _each(by_logs, words, local.topic.logs.shape))

    value = lax.cond(_lost(local)[0], mended, lambda value: value, value)
    return local.bags.carrier.at[words.row].add(_weighed(words.times, value), mode="drop")


def by_document(z: Soft | Hard) -> Array:
    """(N, K): tokens of every document, whatever its weight, by topic."""
    if isinstance(z, Soft):
        return _expected_by_document(z.local)
    nothing = jnp.zeros_like(z.local.topic.logs)
    return nothing.at[z.cells.row, z.topic].add(z.cells.times, mode="drop")


def by_word(z: Soft | Hard, weight: Array) -> Array:
    """(V, K): tokens by word and topic, of documents that weigh (N,)."""
    if isinstance(z, Soft):
        return _expected_by_word(z.local, weight)
    counts = z.cells.times * _of_document(weight, z.cells)
    return jnp.zeros_like(z.local.word.logs).at[z.cells.word, z.topic].add(counts)


def _ratios(local: Mixed) -> Cells:
    """The distinct words with counts / norm: what the weights of one side are summed by, before those of the other."""
    kept = digits_kept(local.norm)
    return local.bags.words._replace(times=jnp.where(kept, local.bags.words.times / jnp.where(kept, local.norm, 1.0), 0.0))


@_one_by_one
def _expected_by_document(local: Mixed) -> Array:
    def add(total: Array, cells: Cells) -> Array:
        return total.at[cells.row].add(cells.times[:, None] * local.word.weight[cells.word], mode="drop")

    def add_by_logs(total: Array, cells: Cells) -> Array:
        share = shares(_logs(local.topic, local.word, cells))
        return total.at[cells.row].add(cells.times[:, None] * share, mode="drop")

    return _expected(local, local.topic, add, add_by_logs)


@_one_by_one
def _expected_by_word(local: Mixed, weight: Array) -> Array:
    def add(total: Array, cells: Cells) -> Array:
        counts = cells.times * _of_document(weight, cells)
        return total.at[cells.word].add(counts[:, None] * _of_document(local.topic.weight, cells))

    def add_by_logs(total: Array, cells: Cells) -> Array:
        counts = cells.times * _of_document(weight, cells)
        return total.at[cells.word].add(counts[:, None] * shares(_logs(local.topic, local.word, cells)))

    return _expected(local, local.word, add, add_by_logs)


def _expected(
    local: Mixed, side: Scaled, add: Callable[[Array, Cells], Array], add_by_logs: Callable[[Array, Cells], Array]
) -> Array:
    """Expected tokens of one side, documents or words: its own weights times sums, and what these lose by logarithms.

    Each side by itself: who needs one of them does not pay for both.
    """
    shape = local.topic.logs.shape
    found = _weighed(_summed(add, jnp.zeros_like(side.logs), _ratios(local), shape), side.weight)
    any_lost, lost = _lost(local)
    return lax.cond(any_lost, lambda found: _summed(add_by_logs, found, lost, shape), lambda found: found, found)


def _energy(z: Soft | Hard, local: Mixed) -> Array:
    if isinstance(z, Soft):
        return _expected_energy(z.local, local)
    cells = z.cells
    logs = local.topic.logs.at[cells.row, z.topic].get(mode="fill", fill_value=0.0) + local.word.logs[cells.word, z.topic]
    return local.bags.carrier.at[cells.row].add(_weighed(cells.times, logs), mode="drop")


@_one_by_one
def _expected_energy(given: Mixed, local: Mixed) -> Array:
    def energy(index: Array, cells: Cells) -> Array:
        share = shares(_logs(given.topic, given.word, cells))
        return _weighed(cells.times[:, None] * share, _logs(local.topic, local.word, cells)).sum(axis=1)

    words = local.bags.words
    return local.bags.carrier.at[words.row].add(_each(energy, words, local.topic.logs.shape), mode="drop")


@_one_by_one
def _likeliest(local: Mixed) -> Array:
    def one(index: Array, cells: Cells) -> Array:
        return _logs(local.topic, local.word, cells).argmax(axis=1)

    return _each(one, local.bags.words, local.topic.logs.shape)


@_one_by_one
def _drawn(key: Array, local: Mixed) -> Array:
    def one(index: Array, cells: Cells) -> Array:
        weights = _weights(local.topic, local.word, cells)
        kept = digits_kept(weights.sum(axis=1))

        def mended(weights: Array) -> Array:
            return jnp.where(kept[:, None], weights, shares(_logs(local.topic, local.word, cells)))

        weights = lax.cond((~kept & (cells.times > 0)).any(), mended, lambda weights: weights, weights)
        cumulative = jnp.cumsum(weights, axis=1)
        uniform = jax.random.uniform(jax.random.fold_in(key, index), (weights.shape[0], 1), weights.dtype)
        return (cumulative <= uniform * cumulative[:, -1:]).sum(axis=1).clip(0, weights.shape[1] - 1)

    return _each(one, local.bags.tokens, local.topic.logs.shape)


def _report(z: Soft | Hard) -> Array:
    """(N, K): shares of topics among the tokens of a document; without tokens alike, or 0 where topics are hard."""
    found = by_document(z)
    total = found.sum(axis=1, keepdims=True)
    return jnp.where(total > 0, found / jnp.where(total > 0, total, 1.0), 1 / found.shape[1] if isinstance(z, Soft) else 0.0)


topics = Latent(
    log_partition=_log_partition,
    mean=lambda key, local: Soft(local),
    mode=lambda key, local: Hard(_likeliest(local), local.bags.words, local),
    sample=lambda key, local: Hard(_drawn(key, local), local.bags.tokens, local),
    energy=_energy,
    entropy=lambda z, local: _log_partition(local) - _energy(z, local),
    report=_report,
    units=lambda z: (*z.cells, z.topic),
    discrete=False,
)
