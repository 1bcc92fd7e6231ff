"""Rows of counts, dense or sparse, and their products with log probabilities and with weights.

A log probability of −∞ times a count of zero is 0. A word that never occurs then has a maximum-likelihood probability of 0, and
rows without it keep a finite density.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln
from scipy import sparse, special

from models.base import on_host
from models.data.table import is_sparse

FILLED = 0.1  # share of non-zero cells above which sparse counts are stored densely
PROJECTED = 64  # columns above which starts use random projections of the rows


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SparseCounts:
    """The distinct events of each row and their counts: index and count (N, M), padded with counts of 0."""

    index: Array
    count: Array
    size: int = field(metadata={"static": True})  # V, number of possible events


class Counts(NamedTuple):
    """Rows of counts, and the part of their log density that is free of parameters."""

    value: Array | SparseCounts  # (N, V), or its sparse form
    carrier: Array  # (N,)
    observed: Array | None = None  # (N, V): mask of observed cells, missing ones have value 0; None: all


def encode(x: Any) -> Array | SparseCounts:
    """Encode a NumPy or SciPy matrix; sparse if few cells are non-zero."""
    if not is_sparse(x):
        return on_host(x)
    rows = x if x.format == "csr" else x.tocsr()
    if not rows.has_canonical_format or not rows.data.all():
        rows = rows.copy()  # do not change the user's arrays
        rows.sum_duplicates()
        rows.eliminate_zeros()
    if rows.nnz > FILLED * rows.shape[0] * rows.shape[1]:
        return on_host(rows.toarray())
    filled = np.diff(rows.indptr)
    if filled.max(initial=0) > rows.shape[1] / 2:  # one long row would pad all others
        return on_host(rows.toarray())
    used = np.arange(max(1, filled.max(initial=0)), dtype=filled.dtype)[None, :] < filled[:, None]
    index, count = np.zeros(used.shape, np.min_scalar_type(rows.shape[1])), np.zeros(used.shape, rows.dtype)
    index[used], count[used] = rows.indices, rows.data  # both run along the rows
    return SparseCounts(on_host(index), on_host(count), int(rows.shape[1]))


def as_float(x: Array | SparseCounts) -> Array | SparseCounts:
    """Counts as floats in the current precision."""
    return SparseCounts(x.index, x.count.astype(float), x.size) if isinstance(x, SparseCounts) else x.astype(float)


def dense(x: Array | SparseCounts) -> Array:
    """(N, V)."""
    if not isinstance(x, SparseCounts):
        return x
    rows = jnp.arange(x.index.shape[0])[:, None]
    return jnp.zeros((x.index.shape[0], x.size), x.count.dtype).at[rows, x.index].add(x.count)


def product(x: Array | SparseCounts, coefficients: Array) -> Array:
    """Σ_v x_nv coefficients_vk: (N, K)."""
    if not isinstance(x, SparseCounts):
        return x @ coefficients

    # One event of every row at a time: no array of all events and columns, which would not fit into the cache.
    def add(sums: Array, event: tuple[Array, Array]) -> tuple[Array, None]:
        index, count = event
        return sums + count[:, None] * coefficients[index], None

    start = jnp.zeros((x.index.shape[0], coefficients.shape[1]), jnp.result_type(x.count, coefficients))
    return jax.lax.scan(add, start, (x.index.T, x.count.T))[0]


def totals(weight: Array, x: Array | SparseCounts) -> Array:
    """Σ_n weight_nk x_nv: (K, V)."""
    if isinstance(x, SparseCounts):
        parts = x.count[:, :, None] * weight[:, None, :]
        return jnp.zeros((x.size, weight.shape[1]), parts.dtype).at[x.index].add(parts).T
    return weight.T @ x


def totals_binary(weight: Array, x: Array | SparseCounts) -> tuple[Array, Array]:
    """Σ_n weight_nk (1 − x_nv) and Σ_n weight_nk x_nv for x in {0, 1}, (K, V) each.

    The first is exactly 0 if every row of positive weight has v. A difference of two sums would have a rounding error, so that
    no probability could be exactly 1.
    """
    if not isinstance(x, SparseCounts):
        return totals(weight, 1 - x), totals(weight, x)
    counted = (weight > 0).astype(weight.dtype)
    both = totals(jnp.concatenate([weight, counted], axis=1), x)  # as fast as one of them
    present, number = jnp.split(both, 2)
    everywhere = number == counted.sum(0)[:, None]  # whole numbers: without rounding
    return jnp.where(everywhere, 0.0, jnp.maximum(weight.sum(0)[:, None] - present, 0.0)), present


def log_mass(x: Array | SparseCounts, log_probs: Array) -> Array:
    """Σ_v x_nv log_probs_kv with 0 · (−∞) = 0: (N, K)."""
    return _finite_or_impossible(x, *_parts(log_probs), 0.0)


def log_mass_binary(x: Array | SparseCounts, log_present: Array, log_absent: Array) -> Array:
    """Σ_v x_nv log_present_kv + (1 − x_nv) log_absent_kv for x in {0, 1}, with 0 · (−∞) = 0: (N, K)."""
    (present, never), (absent, always) = _parts(log_present), _parts(log_absent)
    base = jnp.concatenate([absent.sum(1), always.sum(1)])[None, :]
    return _finite_or_impossible(x, present - absent, never - always, base)


def _parts(log_probs: Array) -> tuple[Array, Array]:
    """(what is finite, 0 elsewhere; 1 where it is −∞, 0 elsewhere)."""
    impossible = log_probs == -jnp.inf
    return jnp.where(impossible, 0.0, log_probs), impossible.astype(log_probs.dtype)


def _finite_or_impossible(x: Array | SparseCounts, finite: Array, impossible: Array, base: Array | float) -> Array:
    """One product for both parts: the log density, and the number of impossible events in a row."""
    both = product(x, jnp.concatenate([finite, impossible]).T) + base
    size = finite.shape[0]
    return jnp.where(both[:, size:] > 0.5, -jnp.inf, both[:, :size])


def coordinates(x: Array | SparseCounts) -> Array:
    """Points (N, F) that are clustered to start a fit: the columns, or random projections if there are many columns."""
    size = x.size if isinstance(x, SparseCounts) else x.shape[1]
    if size <= PROJECTED:
        return dense(x)
    signs = jax.random.rademacher(jax.random.PRNGKey(0), (size, PROJECTED), dtype=jnp.result_type(float))
    return product(x, signs)


def factorials(x: Any) -> np.ndarray:
    """Σ_v log x_nv! of a host matrix: (N,)."""
    if is_sparse(x):
        logs = sparse.csr_array(x).astype(np.float64)
        logs.data = special.gammaln(logs.data + 1)
        return np.asarray(logs.sum(axis=1)).ravel()
    return np.asarray(special.gammaln(np.asarray(x, np.float64) + 1).sum(axis=1))


def row_factorials(x: Array) -> Array:
    """`factorials` for an array on the device."""
    return gammaln(x + 1).sum(axis=1)
