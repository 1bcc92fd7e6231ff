"""Inner CAVI updates of documents with word probabilities fixed: E_q[z] and q(θ_d) in turn (`models.base.Structure.ascend`).

    nu_d ← prior + weight_d Σ_v count[d, v] p(z = k | w = v, d),    p ∝ exp(E[log θ_dk] + E[log word_probs_kv])

The weights of the words of a document are gathered once for all updates. A few documents of similar length are processed
together, padded, so that everything stays in the cache. An update is then two products with a matrix of words × topics.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile

import jax
import jax.numpy as jnp
from jax import Array, lax

from models.base import Hyper, Stats
from models.families.conjugate import dirichlet
from models.topics.collapsed import TOPIC, WORD
from models.topics.documents import Documents
from models.topics.latent import Scaled, is_precise, scaled, shares

ALIKE = 16  # documents of similar length per block
CELLS = 1024  # padded words processed together; measured: 256 to 4096 differ by less than a fifth
WIDTHS = tuple(2**power for power in range(5, 40))  # padded lengths, each compiled separately; finer steps gain nothing


def ascend(
    hyper: Hyper, prior: Mapping[str, Stats], begun: Mapping[str, Stats], T: Stats, rows: Documents, most: Array, close: Array
) -> dict[str, Stats]:
    """`models.base.Structure.ascend`: q(θ_d) of all documents given E[log word_probs]."""
    return {TOPIC: ascend_documents(scaled(T[WORD].T), prior[TOPIC], begun[TOPIC], rows, most, close)}


def ascend_documents(word: Scaled, prior: Array, begun: Array, rows: Documents, most: Array, close: Array) -> Array:
    """Nu of the proportions (N, K) after at most ``most`` updates from ``begun``.

    The updates of a document stop when its entries change by less than ``close`` on average.

    ``word`` is E[log word_probs], (V, K).
    """
    rows = jax.tree.map(jnp.asarray, rows)
    number, longest = rows.words.word.shape
    lengths = ((rows.words.times > 0) * jnp.arange(1, longest + 1)).max(1)  # up to the last word: halves of documents have gaps
    blocks = -(-number // ALIKE)
    order = jnp.pad(jnp.argsort(lengths), (blocks * ALIKE - number, 0), constant_values=number).reshape(blocks, ALIKE)
    widths = (*takewhile(lambda width: width < longest, WIDTHS), longest)
    branches = [partial(_of_width, width, word, prior, begun, rows, most, close) for width in widths]
    last = lengths[order[:, -1]]  # the longest document of each block

    def one(block: tuple[Array, Array]) -> Array:
        places, length = block
        return lax.switch(jnp.searchsorted(jnp.asarray(widths), length), branches, places)

    nu = lax.map(one, (order, last))
    return jnp.zeros_like(begun).at[order.reshape(-1)].set(nu.reshape(-1, begun.shape[1]), mode="drop")


def _of_width(
    width: int, word: Scaled, prior: Array, begun: Array, rows: Documents, most: Array, close: Array, places: Array
) -> Array:
    """(B, K): nu of the documents at ``places``, with at most ``width`` distinct words; arbitrary for padding."""
    together = max(1, min(ALIKE, CELLS // width))
    together = 2 ** (together.bit_length() - 1)

    def few(places: Array) -> Array:
        there = (places < begun.shape[0])[:, None]
        words = rows.words.word[places, :width]
        times = jnp.where(there, rows.words.times[places, :width], 0).astype(begun.dtype)
        weight = None if rows.weight is None else rows.weight[places, None]
        allowed_topics = None if rows.allowed_topics is None else rows.allowed_topics[places]
        turn = _turn(word, words, times, prior[places], weight, allowed_topics)

        def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            index, nu, _ = carry
            following = turn(nu)
            return index + 1, following, jnp.where(there, jnp.abs(following - nu), 0.0).mean(1).max()

        start = (jnp.zeros((), int), begun[places], jnp.asarray(jnp.inf, begun.dtype))
        return lax.while_loop(lambda carry: (carry[0] < most) & (carry[2] > close), again, start)[1]

    return lax.map(few, places.reshape(-1, together)).reshape(-1, begun.shape[1])


def _turn(
    word: Scaled, words: Array, times: Array, prior: Array, weight: Array | None, allowed_topics: Array | None
) -> Callable[[Array], Array]:
    """The update nu -> nu of B documents with L words each, by products, or by logarithms if these underflow."""
    product = partial(jnp.einsum, precision=lax.Precision.HIGHEST)
    looked_up = word.weight[words]  # (B, L, K)

    def turn(nu: Array) -> Array:
        logs = dirichlet.mean(nu)
        topic = scaled(logs if allowed_topics is None else jnp.where(allowed_topics, logs, -jnp.inf))
        norm = product("blk,bk->bl", looked_up, topic.weight)
        exact = is_precise(norm)

        def by_products() -> Array:
            return topic.weight * product("bl,blk->bk", jnp.where(exact, times / jnp.where(exact, norm, 1.0), 0.0), looked_up)

        def by_logs() -> Array:
            each = jax.vmap(shares)(topic.logs[:, None, :] + word.logs[words])
            return product("bl,blk->bk", times, each)

        counts = lax.cond((~exact & (times > 0)).any(), by_logs, by_products)
        return prior + (counts if weight is None else weight * counts)

    return turn
