"""Compiled loops over a block of rows, for Gaussians that have a precision matrix each: log densities and second moments.

Rows lie along the last axis of a block, so that a processor works on eight or sixteen of them at once. Columns are padded with
zeros and taken in tiles of `TILE`: the sums of a tile of products stay in registers. What lies above the diagonal, of a root
zeros and of a symmetric matrix a copy, is not computed.
"""

from typing import Any

import numpy as np

from models.host.compilation import compiled_sums

TILE = 4  # the loops below are written out for it


@compiled_sums
def load_rows(x: Any, origin: Any, first: int, number: int, block: Any) -> None:
    """Rows ``first`` to ``first + number`` of x (N, D), less the origin (D,), into a block (P, B); zeros after them."""
    for d in range(x.shape[1]):
        shift = origin[d]
        for b in range(number):
            block[d, b] = x[first + b, d] - shift
        for b in range(number, block.shape[1]):
            block[d, b] = 0


@compiled_sums
def log_densities(block: Any, roots: Any, shifts: Any, constant: Any, found: Any) -> None:
    """Constant_k − ‖R_kᵀ x_n − shift_k‖² for a block (P, B), lower triangular roots (K, P, P), shifts (K, P): into (K, B)."""
    padded, size = block.shape
    y0, y1, y2, y3 = block[0].copy(), block[0].copy(), block[0].copy(), block[0].copy()
    for k in range(len(constant)):
        row = found[k]
        for b in range(size):
            row[b] = constant[k]
        for i in range(0, padded, TILE):
            shift = shifts[k, i : i + TILE]
            for b in range(size):
                y0[b] = -shift[0]
                y1[b] = -shift[1]
                y2[b] = -shift[2]
                y3[b] = -shift[3]
            for j in range(i, padded, TILE):
                r = roots[k, j : j + TILE, i : i + TILE]
                r00, r01, r02, r03 = r[0, 0], r[0, 1], r[0, 2], r[0, 3]
                r10, r11, r12, r13 = r[1, 0], r[1, 1], r[1, 2], r[1, 3]
                r20, r21, r22, r23 = r[2, 0], r[2, 1], r[2, 2], r[2, 3]
                r30, r31, r32, r33 = r[3, 0], r[3, 1], r[3, 2], r[3, 3]
                x0, x1, x2, x3 = block[j], block[j + 1], block[j + 2], block[j + 3]
                for b in range(size):
                    u0, u1, u2, u3 = x0[b], x1[b], x2[b], x3[b]
                    y0[b] += r00 * u0 + r10 * u1 + r20 * u2 + r30 * u3
                    y1[b] += r01 * u0 + r11 * u1 + r21 * u2 + r31 * u3
                    y2[b] += r02 * u0 + r12 * u1 + r22 * u2 + r32 * u3
                    y3[b] += r03 * u0 + r13 * u1 + r23 * u2 + r33 * u3
            for b in range(size):
                row[b] -= y0[b] * y0[b] + y1[b] * y1[b] + y2[b] * y2[b] + y3[b] * y3[b]


@compiled_sums
def less_largest(found: Any, largest: Any) -> None:
    """Subtract from every column of (K, B) its largest entry, which goes into (B,); 0 where no entry is finite."""
    size = len(largest)
    largest[:] = found[0]
    for k in range(1, len(found)):
        row = found[k]
        for b in range(size):
            largest[b] = max(largest[b], row[b])
    for b in range(size):
        if not -np.inf < largest[b] < np.inf:
            largest[b] = 0
    for k in range(len(found)):
        row = found[k]
        for b in range(size):
            row[b] -= largest[b]


@compiled_sums
def weigh(found: Any, factor: Any, smallest: Any) -> None:
    """Multiply every column of (K, B) by its factor (B,); products below the smallest become 0."""
    zero = found.dtype.type(0)
    for k in range(len(found)):
        row = found[k]
        for b in range(len(factor)):
            value = row[b] * factor[b]
            row[b] = zero if value < smallest else value


@compiled_sums
def add_moments(block: Any, weight: Any, count: Any, total: Any, square: Any) -> None:
    """Add Σ_b w_kb (1, x_b, x_b x_bᵀ) of a block (P, B), weights (K, B), to (K,), (K, P) and tiles of (K, P, P) on and below
    the diagonal.
    """
    padded, size = block.shape
    weighted = block.copy()
    zero = block.dtype.type(0)
    for k in range(len(weight)):
        w = weight[k]
        number = zero
        for b in range(size):
            number += w[b]
        count[k] += number
        for i in range(padded):
            column, scaled = block[i], weighted[i]
            summed = zero
            for b in range(size):
                value = w[b] * column[b]
                scaled[b] = value
                summed += value
            total[k, i] += summed
        for i in range(0, padded, TILE):
            for j in range(0, i + TILE, TILE):
                _add_tile(weighted[i : i + TILE], block[j : j + TILE], square[k, i : i + TILE, j : j + TILE])


@compiled_sums
def _add_tile(left: Any, right: Any, into: Any) -> None:
    """Add left rightᵀ, of (TILE, B) each, to (TILE, TILE)."""
    zero = left.dtype.type(0)
    a00, a01, a02, a03 = zero, zero, zero, zero
    a10, a11, a12, a13 = zero, zero, zero, zero
    a20, a21, a22, a23 = zero, zero, zero, zero
    a30, a31, a32, a33 = zero, zero, zero, zero
    x0, x1, x2, x3 = left[0], left[1], left[2], left[3]
    y0, y1, y2, y3 = right[0], right[1], right[2], right[3]
    for b in range(left.shape[1]):
        u0, u1, u2, u3 = x0[b], x1[b], x2[b], x3[b]
        v0, v1, v2, v3 = y0[b], y1[b], y2[b], y3[b]
        a00, a01, a02, a03 = a00 + u0 * v0, a01 + u0 * v1, a02 + u0 * v2, a03 + u0 * v3
        a10, a11, a12, a13 = a10 + u1 * v0, a11 + u1 * v1, a12 + u1 * v2, a13 + u1 * v3
        a20, a21, a22, a23 = a20 + u2 * v0, a21 + u2 * v1, a22 + u2 * v2, a23 + u2 * v3
        a30, a31, a32, a33 = a30 + u3 * v0, a31 + u3 * v1, a32 + u3 * v2, a33 + u3 * v3
    into[0, 0] += a00
    into[0, 1] += a01
    into[0, 2] += a02
    into[0, 3] += a03
    into[1, 0] += a10
    into[1, 1] += a11
    into[1, 2] += a12
    into[1, 3] += a13
    into[2, 0] += a20
    into[2, 1] += a21
    into[2, 2] += a22
    into[2, 3] += a23
    into[3, 0] += a30
    into[3, 1] += a31
    into[3, 2] += a32
    into[3, 3] += a33
