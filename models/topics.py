"""Topics of tokens: every token of a document is of one of K; the four verbs of `models.base.Latent` for whole documents.

    p(z, w | d) = exp(carrier[d]) Π_tokens exp(topic[d, z] + word[z, w])

so that log p(w | d) = carrier[d] + Σ_v count[d, v] log Σ_k exp(topic[d, k] + word[k, v]). Tokens of one word in one document
are alike: all but draws work on the distinct words of a document and how often each stands in it. Cells (one a distinct word,
or one a token) are read in blocks, and never are there cells × topics of a whole corpus in memory.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from models.base import Latent

Pytree = Any

BLOCK = 2**18  # numbers, cells times topics, of a block


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


class Mixed(NamedTuple):
    """Natural parameters: log weights of topics by document, of words by topic, and which words there are."""

    topic: Array  # (N, K): −∞ where a document is not allowed a topic
    word: Array  # (V, K)
    bags: Bags


class Soft(NamedTuple):
    """Expected topics: nothing more than what they follow from, read block by block."""

    local: Mixed


class Hard(NamedTuple):
    """One topic a cell."""

    topic: Array  # (C,)
    cells: Cells
    local: Mixed


class Totals(NamedTuple):
    """Tokens by document and topic, and by word and topic."""

    topic: Array  # (N, K)
    word: Array  # (V, K)


def _in_blocks(function: Callable[[Pytree, Pytree], Pytree], start: Pytree, cells: Pytree, width: int, fill: Pytree) -> Pytree:
    """``function(carried, block of cells)`` over all blocks; the last is filled up."""
    number = jax.tree.leaves(cells)[0].shape[0]
    size = max(1, min(number, BLOCK // width))
    blocks = -(-number // size)
    if blocks == 1:
        return function(start, cells)

    def cut(leaf: Array, fill: Any) -> Array:
        return jnp.pad(leaf, (0, blocks * size - number), constant_values=fill).reshape(blocks, size)

    return lax.scan(lambda carried, block: (function(carried, block), None), start, jax.tree.map(cut, cells, fill))[0]


def _nothing(local: Mixed) -> Cells:
    return Cells(local.topic.shape[0], 0, 0)  # type: ignore[arg-type]


def _logs(local: Mixed, cells: Cells) -> Array:
    """(B, K): log p(z = k, w | d) of every cell."""
    return local.topic.at[cells.row].get(mode="fill", fill_value=0.0) + local.word[cells.word]


def _log_partition(local: Mixed) -> Array:
    def add(total: Array, cells: Cells) -> Array:
        return total.at[cells.row].add(_weighed(cells.times, jax.nn.logsumexp(_logs(local, cells), axis=1)), mode="drop")

    size = local.topic.shape[1]
    return _in_blocks(add, local.bags.carrier, local.bags.words, size, _nothing(local))


def _weighed(count: Array, value: Array) -> Array:
    """Count times value, where 0 · −∞ = 0."""
    return jnp.where(count == 0, 0.0, count * value)


def _shares(logs: Array) -> Array:
    """p(z = k | w, d) of every cell (B, K); none where no topic is possible."""
    largest = logs.max(axis=1, keepdims=True)
    weight = jnp.exp(logs - jnp.where(jnp.isfinite(largest), largest, 0.0))
    total = weight.sum(axis=1, keepdims=True)
    return weight / jnp.where(total > 0, total, 1.0)


def totals(z: Soft | Hard, weight: Array) -> Totals:
    """Tokens of documents that weigh (N,), by topic: those of documents unweighted, those of words weighted."""
    local = z.local
    number, size = local.topic.shape
    words = local.word.shape[0]
    start = Totals(jnp.zeros((number, size), local.topic.dtype), jnp.zeros((words, size), local.topic.dtype))
    if isinstance(z, Soft):

        def add(total: Totals, cells: Cells) -> Totals:
            count = cells.times[:, None] * _shares(_logs(local, cells))
            own = count * weight.at[cells.row].get(mode="fill", fill_value=0.0)[:, None]
            return Totals(total.topic.at[cells.row].add(count, mode="drop"), total.word.at[cells.word].add(own))

        return _in_blocks(add, start, local.bags.words, size, _nothing(local))
    cells = z.cells
    own = cells.times * weight.at[cells.row].get(mode="fill", fill_value=0.0)
    by_document = start.topic.at[cells.row, z.topic].add(cells.times, mode="drop")
    return Totals(by_document, start.word.at[cells.word, z.topic].add(own))


def _energy(z: Soft | Hard, local: Mixed) -> Array:
    size, start = local.topic.shape[1], local.bags.carrier
    if isinstance(z, Soft):

        def add(total: Array, cells: Cells) -> Array:
            share, logs = _shares(_logs(z.local, cells)), _logs(local, cells)
            value = _weighed(cells.times[:, None] * share, logs).sum(axis=1)
            return total.at[cells.row].add(value, mode="drop")

        return _in_blocks(add, start, local.bags.words, size, _nothing(local))
    cells = z.cells
    logs = local.topic.at[cells.row, z.topic].get(mode="fill", fill_value=0.0) + local.word[cells.word, z.topic]
    return start.at[cells.row].add(_weighed(cells.times, logs), mode="drop")


def _each(function: Callable[[Array, Array], Array], local: Mixed, cells: Cells) -> Array:
    """(C,): a topic of every cell, ``function(number of the block, logs (B, K))``."""
    number, width = cells.row.shape[0], local.topic.shape[1]
    size = max(1, min(number, BLOCK // width))
    blocks = -(-number // size)

    def cut(leaf: Array, fill: Any) -> Array:
        return jnp.pad(leaf, (0, blocks * size - number), constant_values=fill).reshape(blocks, size)

    def one(block: tuple[Array, Cells]) -> Array:
        index, cells = block
        return function(index, _logs(local, cells))

    parts = jax.tree.map(cut, cells, _nothing(local))
    return lax.map(one, (jnp.arange(blocks), parts)).reshape(-1)[:number]


def _mode(key: Array, local: Mixed) -> Hard:
    found = _each(lambda index, logs: logs.argmax(axis=1), local, local.bags.words)
    return Hard(found, local.bags.words, local)


def _sample(key: Array, local: Mixed) -> Hard:
    def draw(index: Array, logs: Array) -> Array:
        cumulative = jnp.cumsum(_shares(logs), axis=1)
        uniform = jax.random.uniform(jax.random.fold_in(key, index), (logs.shape[0], 1), logs.dtype) * cumulative[:, -1:]
        return (cumulative <= uniform).sum(axis=1).clip(0, logs.shape[1] - 1)

    return Hard(_each(draw, local, local.bags.tokens), local.bags.tokens, local)


def _report(z: Soft | Hard) -> Array:
    """(N, K): the share of every topic among the tokens of a document; of one without tokens, alike."""
    number = z.local.topic.shape[0]
    found = totals(z, jnp.ones(number, z.local.topic.dtype)).topic
    total = found.sum(axis=1, keepdims=True)
    return jnp.where(total > 0, found / jnp.where(total > 0, total, 1.0), 1 / found.shape[1])


topics = Latent(
    log_partition=_log_partition,
    mean=lambda key, local: Soft(local),
    mode=_mode,
    sample=_sample,
    energy=_energy,
    entropy=lambda z, local: _log_partition(local) - _energy(z, local),
    report=_report,
    discrete=False,
)
