"""Logarithm, exponential, log Γ and ψ in Numba, without branches, so that a compiler works on several numbers at once.

Numba's cache identifies a function by the content of its file alone: after a change of this file, empty the cache, or change
`models.topics.ragged`, which uses it.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import njit

LARGE = 16.0  # above, the series of Stirling and of ψ need no shift
MANTISSA, EXPONENT_OF_ONE = np.int64(0x000FFFFFFFFFFFFF), np.int64(0x3FF0000000000000)
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # their sum is log 2; an integer times the first is exact
LOWEST = -708.0  # below, exp underflows
TO_INTEGER = 6755399441055744.0  # 1.5 · 2^52: a double added to it is rounded to an integer
HALF_LOG_2PI = 0.9189385332046727418


def inlined[F: Callable[..., Any]](function: F) -> F:
    """Machine code inside that of its callers: a loop with a call in it takes one number at a time."""
    return cast(F, njit(nogil=True, error_model="numpy", forceinline=True)(function))


@inlined
def log_of(x: Any) -> float:
    """Log x of a positive, normal number, to one unit in the last place.

    x = 2^power m with m from √½ to √2, and log m = 2 artanh s = 2 s (1 + s²/3 + s⁴/5 + …) for s = (m − 1) / (m + 1). The terms
    left out are below 2^-58 of the sum. The first term is written (m − 1) − s (m − 1): m − 1 has no rounding error.
    """
    bits = np.float64(x).view(np.int64)
    mantissa = np.int64((bits & MANTISSA) | EXPONENT_OF_ONE).view(np.float64)
    high = mantissa > 1.4142135623730951
    halved = 0.5 * mantissa
    above_one = (halved if high else mantissa) - 1.0
    power = float((bits >> 52) - 1023 + (1 if high else 0))
    s = above_one / (2.0 + above_one)
    z = s * s
    series = 1 / 21
    series = 1 / 19 + z * series
    series = 1 / 17 + z * series
    series = 1 / 15 + z * series
    series = 1 / 13 + z * series
    series = 1 / 11 + z * series
    series = 1 / 9 + z * series
    series = 1 / 7 + z * series
    series = 1 / 5 + z * series
    series = 1 / 3 + z * series
    return power * LN2_HIGH + (above_one + (power * LN2_LOW + (2.0 * s * z * series - s * above_one)))


@inlined
def exp_of(x: Any) -> float:
    """Exp x of a number of at most 700, to two units in the last place; 0 below `LOWEST`, NaN of NaN."""
    there = not x <= LOWEST
    x = x if there else 0.0
    shifted = x * 1.4426950408889634 + TO_INTEGER
    power = shifted - TO_INTEGER
    r = (x - power * LN2_HIGH) - power * LN2_LOW
    series = 1 / 6227020800.0
    series = 1 / 479001600.0 + r * series
    series = 1 / 39916800.0 + r * series
    series = 1 / 3628800.0 + r * series
    series = 1 / 362880.0 + r * series
    series = 1 / 40320.0 + r * series
    series = 1 / 5040.0 + r * series
    series = 1 / 720.0 + r * series
    series = 1 / 120.0 + r * series
    series = 1 / 24.0 + r * series
    series = 1 / 6.0 + r * series
    series = 0.5 + r * series
    value = 1.0 + (r + r * r * series)
    scale = np.int64((np.float64(shifted).view(np.int64) << 52) + EXPONENT_OF_ONE).view(np.float64)
    value *= scale
    return value if there else 0.0


@inlined
def shifted_by_eight(a: Any) -> Any:
    """For a ≤ `LARGE`: (a + 8, Π (a + i), Σ 1 / (a + i)) over i < 8; otherwise (a, 1, 0).

    (a + i) (a + 7 − i) = t + i (7 − i) with t = a (a + 7), so that the product has four factors.
    """
    large = a > LARGE
    small = 1.0 if large else a
    t = small * (small + 7.0)
    left, right = t * (t + 6.0), (t + 10.0) * (t + 12.0)
    product = left * right
    slope = (2.0 * t + 6.0) * right + left * (2.0 * t + 22.0)
    reciprocals, moved = (2.0 * small + 7.0) * slope / product, a + 8.0
    return a if large else moved, 1.0 if large else product, 0.0 if large else reciprocals


@inlined
def digamma_and_log_gamma(a: Any) -> Any:
    """(ψ(a), log Γ(a)) of a positive number: series from 8 on (Abramowitz and Stegun, 6.3.18 and 6.1.41) and recurrences."""
    x, product, reciprocals = shifted_by_eight(a)
    log_x, inverse = log_of(x), 1.0 / x
    z = inverse * inverse
    psi = 1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z * (1 / 12))))))
    stirling = 1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z * (1 / 1188 - z * (691 / 360360 - z * (1 / 156))))))
    log_gamma = (x - 0.5) * log_x - x + HALF_LOG_2PI + inverse * stirling - log_of(product)
    return log_x - 0.5 * inverse - z * psi - reciprocals, log_gamma


@inlined
def digamma(a: Any) -> float:
    """ψ(a) of a positive number."""
    x, _, reciprocals = shifted_by_eight(a)
    inverse = 1.0 / x
    z = inverse * inverse
    psi = 1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z * (1 / 12))))))
    return log_of(x) - 0.5 * inverse - z * psi - reciprocals
