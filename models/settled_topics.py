"""Documents brought to terms with the words of topics: E_q[z] and q(θ_d) in turn, `models.base.Algebra.settle` of topics.

    nu_d ← prior + weight_d Σ_v count[d, v] p(z = k | w = v, d),    p ∝ exp(E[log θ_dk] + E[log word_probs_kv])

The weights of a document's words are looked up once, for all turns: a few documents at a time, of nearly one length and padded
to it, so that all their numbers stay in the cache. A turn is then two products with a matrix of words and topics.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile

import jax
import jax.numpy as jnp
from jax import Array, lax

from models.bags import Documents
from models.base import Hyper, Stats
from models.collapsed_topics import TOPIC, WORD
from models.families import dirichlet
from models.topics import Scaled, digits_kept, scaled, shares

ALIKE = 16  # documents of nearly one length
CELLS = 1024  # words of documents, padded, that are looked up at once; measured: 256 to 4096 are within a fifth
WIDTHS = tuple(2**power for power in range(5, 40))  # words; each is compiled by itself, and finer ones gain nothing


def settle(
    hyper: Hyper, prior: Mapping[str, Stats], begun: Mapping[str, Stats], T: Stats, rows: Documents, most: Array, close: Array
) -> dict[str, Stats]:
    """`models.base.Algebra.settle`: documents at their best q(θ_d) given E[log word_probs]."""
    return {TOPIC: settled_documents(scaled(T[WORD].T), prior[TOPIC], begun[TOPIC], rows, most, close)}


def settled_documents(word: Scaled, prior: Array, begun: Array, rows: Documents, most: Array, close: Array) -> Array:
    """Nu of the proportions (N, K) after ``most`` turns from ``begun``, or when no document moves by ``close`` on the average.

    ``word`` is E[log word_probs], (V, K).
    """
    rows = jax.tree.map(jnp.asarray, rows)
    number, longest = rows.words.word.shape
    lengths = ((rows.words.times > 0) * jnp.arange(1, longest + 1)).max(1)  # up to the last word: halves of documents have gaps
    blocks = -(-number // ALIKE)
    order = jnp.pad(jnp.argsort(lengths), (blocks * ALIKE - number, 0), constant_values=number).reshape(blocks, ALIKE)
    widths = (*takewhile(lambda width: width < longest, WIDTHS), longest)
    branches = [partial(_of_width, width, word, prior, begun, rows, most, close) for width in widths]
    last = lengths[order[:, -1]]  # the longest of its block

    def one(block: tuple[Array, Array]) -> Array:
        places, length = block
        return lax.switch(jnp.searchsorted(jnp.asarray(widths), length), branches, places)

    found = lax.map(one, (order, last))
    return jnp.zeros_like(begun).at[order.reshape(-1)].set(found.reshape(-1, begun.shape[1]), mode="drop")


def _of_width(
    width: int, word: Scaled, prior: Array, begun: Array, rows: Documents, most: Array, close: Array, places: Array
) -> Array:
    """(B, K): nu of the documents at these places, all of ``width`` distinct words or fewer; where there is none, anything."""
    together = max(1, min(ALIKE, CELLS // width))
    together = 2 ** (together.bit_length() - 1)

    def few(places: Array) -> Array:
        there = (places < begun.shape[0])[:, None]
        words = rows.words.word[places, :width]
        times = jnp.where(there, rows.words.times[places, :width], 0).astype(begun.dtype)
        weight = None if rows.weight is None else rows.weight[places, None]
        allowed = None if rows.allowed is None else rows.allowed[places]
        turn = _turn(word, words, times, prior[places], weight, allowed)

        def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            index, nu, _ = carry
            following = turn(nu)
            return index + 1, following, jnp.where(there, jnp.abs(following - nu), 0.0).mean(1).max()

        start = (jnp.zeros((), int), begun[places], jnp.asarray(jnp.inf, begun.dtype))
        return lax.while_loop(lambda carry: (carry[0] < most) & (carry[2] > close), again, start)[1]

    return lax.map(few, places.reshape(-1, together)).reshape(-1, begun.shape[1])


def _turn(
    word: Scaled, words: Array, times: Array, prior: Array, weight: Array | None, allowed: Array | None
) -> Callable[[Array], Array]:
    """Nu -> nu of B documents with L words each, by products of weights, or by logarithms where these are lost."""
    product = partial(jnp.einsum, precision=lax.Precision.HIGHEST)
    looked_up = word.weight[words]  # (B, L, K)

    def turn(nu: Array) -> Array:
        logs = dirichlet.mean(nu)
        topic = scaled(logs if allowed is None else jnp.where(allowed, logs, -jnp.inf))
        norm = product("blk,bk->bl", looked_up, topic.weight)
        kept = digits_kept(norm)

        def by_products() -> Array:
            return topic.weight * product("bl,blk->bk", jnp.where(kept, times / jnp.where(kept, norm, 1.0), 0.0), looked_up)

        def by_logs() -> Array:
            each = jax.vmap(shares)(topic.logs[:, None, :] + word.logs[words])
            return product("bl,blk->bk", times, each)

        counts = lax.cond((~kept & (times > 0)).any(), by_logs, by_products)
        return prior + (counts if weight is None else weight * counts)

    return turn
