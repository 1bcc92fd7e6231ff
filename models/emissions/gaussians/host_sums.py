"""The E-step and the moments of a mixture of Gaussians with a precision matrix each, over all rows, compiled for the host.

    log p(x_n, z_n = k) = constant_k − ‖R_kᵀ x_n − shift_k‖²
    r_nk = p(z_n = k | x_n);    Σ_n weight_n r_nk (1, x_n, x_n x_nᵀ),    Σ_n weight_n log p(x_n)

`inference.engine.sweep` computes the same from the algebra, by matrix products of whole blocks. Here a block of rows stays in
the cache from its densities to its moments, and only half of each symmetric matrix is computed.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

CACHE_BYTES = 2**18  # of one block of rows: two of them lie in the second-level cache
FEWEST, MOST = 256, 8192  # rows in a block
SMALLEST = {np.dtype(np.float64): 1e-290, np.dtype(np.float32): 1e-30}  # weights below count as 0: denormal numbers are slow


class Coefficients(NamedTuple):
    """What the log densities of K components are made of: arrays of JAX, then of NumPy."""

    roots: Any  # (K, D, D): lower triangular R_k, with R_k R_kᵀ half the precision
    shifts: Any  # (K, D): R_kᵀ mean_k
    constant: Any  # (K,)


class Sums(NamedTuple):
    """Sums over all rows, in double precision."""

    weight: np.ndarray  # (K,): Σ_n weight_n r_nk
    total: np.ndarray  # (K, D)
    square: np.ndarray  # (K, D, D)
    log_partition: np.ndarray  # (): Σ_n weight_n log p(x_n)


def sums(x: np.ndarray, weight: np.ndarray | None, origin: np.ndarray, num_threads: int, given: Coefficients) -> Sums:
    """Sums over rows (N, D) about the ``origin``, with a share of the rows for every thread.

    >>> one = Coefficients(np.full((1, 1, 1), 0.5**0.5), np.zeros((1, 1)), np.zeros(1))
    >>> found = sums(np.array([[1.0], [2.0]]), None, np.zeros(1), 1, one)
    >>> found.weight, found.square.ravel(), float(found.log_partition)
    (array([2.]), array([5.]), -2.5)
    """
    padded = _padded(given, x.dtype)
    edges = np.linspace(0, len(x), num_threads + 1).astype(int)
    part = partial(_part, x, weight, origin.astype(x.dtype), padded)
    with ThreadPoolExecutor(num_threads) as pool:
        parts = list(pool.map(part, edges[:-1], edges[1:]))
    found = Sums(*(np.sum(leaves, axis=0) for leaves in zip(*parts, strict=True)))
    dimension = x.shape[1]
    square = found.square[:, :dimension, :dimension]
    square = np.tril(square) + np.swapaxes(np.tril(square, -1), 1, 2)
    return Sums(found.weight, found.total[:, :dimension], square, found.log_partition)


def _padded(given: Coefficients, dtype: np.dtype) -> Coefficients:
    """Zeros for the columns that fill up the last tile."""
    from models.emissions.gaussians.loops import TILE

    more = -given.shifts.shape[1] % TILE
    roots, shifts = np.pad(given.roots, ((0, 0), (0, more), (0, more))), np.pad(given.shifts, ((0, 0), (0, more)))
    return Coefficients(roots.astype(dtype), shifts.astype(dtype), np.asarray(given.constant, dtype))


def _part(x: np.ndarray, weight: np.ndarray | None, origin: np.ndarray, given: Coefficients, first: int, last: int) -> Sums:
    """Sums over the rows from ``first`` to ``last``, block by block."""
    from models.emissions.gaussians.loops import add_moments, less_largest, load_rows, log_densities, weigh

    num_components, dimension = given.shifts.shape
    size = int(np.clip(CACHE_BYTES // (dimension * x.itemsize), FEWEST, MOST))
    block = np.zeros((dimension, size), x.dtype)
    density = np.empty((num_components, size), x.dtype)
    largest = np.empty(size, x.dtype)
    square = np.zeros((num_components, dimension, dimension))
    found = Sums(np.zeros(num_components), np.zeros((num_components, dimension)), square, np.zeros(()))
    for start in range(first, last, size):
        number = min(size, last - start)
        load_rows(x, origin, start, number, block)
        log_densities(block, given.roots, given.shifts, given.constant, density)
        less_largest(density, largest)
        np.exp(density, out=density)
        total = density.sum(axis=0)
        own = np.zeros(size, x.dtype)
        own[:number] = 1 if weight is None else weight[start : start + number]
        with np.errstate(divide="ignore", invalid="ignore"):  # of impossible rows
            found.log_partition[...] += _weighted(own, largest + np.log(total))
            factor = own / total
        weigh(density, factor, x.dtype.type(SMALLEST[x.dtype]))
        add_moments(block, density, *found[:3])
    return found


def _weighted(weight: np.ndarray, log_probability: np.ndarray) -> float:
    """Σ_n weight_n log p(x_n), where an impossible row of weight 0 does not count."""
    return float(np.where(weight > 0, weight * log_probability, 0).sum())
