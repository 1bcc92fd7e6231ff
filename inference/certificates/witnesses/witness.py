"""A witness: the numbers that a check compares, at a few replicates, condensed to one number for each array.

A certificate is evidence about numbers. It stays true as long as the code makes the same numbers, under any edit of its text.
So every check stores a witness, and is stale only where a recomputation differs by more than `TOLERANCE`.

An array x is condensed to Σ_i w_i arsinh(x_i) / √n with fixed weights w_i between ½ and 3/2, so that a change of any entry
shows, and an exchange of two. Large entries do not hide small ones, because arsinh grows as a logarithm. The tolerance is
relative to the size of the array, the root mean square of arsinh(x).

The tolerance has an argument. Processors round differently, by 1e-16 of a number at each operation, which grows over the few
steps of a witness (docs/certificates.md has measurements). A fault that a check can see changes its figures by percents.
The tolerance lies between the two, many powers of ten from either.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

TOLERANCE = 1e-6
DIGITS = 8  # that are stored
GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples fill (0, 1) evenly, so that no two neighbours have the same weight
NOT_FINITE = (37.0, 53.0, -71.0)  # stand for NaN, ∞ and −∞: a new one shows anywhere

Numbers = Mapping[str, ArrayLike]  # the numbers that a check compares, by name
Witness = dict[str, float]


class Difference(NamedTuple):
    """One array that differs from the stored one."""

    name: str
    relative: float  # of the size of the array; infinite where it is absent on one side


def witness_of(numbers: Numbers) -> Witness:
    """One number for each array, with `DIGITS` digits.

    >>> witness_of({"mean": [1.0, 1.0]})
    {'mean': 1.1555231}
    """
    return {name: float(f"{condensed(value):.{DIGITS}g}") for name, value in numbers.items()}


def condensed(values: ArrayLike) -> float:
    """The weighted sum that stands for an array."""
    flat = _transformed(values)
    weights = 0.5 + np.modf(GOLDEN * np.arange(1, len(flat) + 1))[0]
    return float(weights @ flat / math.sqrt(max(len(flat), 1)))


def _transformed(values: ArrayLike) -> np.ndarray:
    """The arsinh of all entries as one axis, with `NOT_FINITE` for entries that are none."""
    flat = np.asarray(values, dtype=float).ravel()
    kinds = [np.isnan(flat), np.isposinf(flat), np.isneginf(flat)]
    return np.select(kinds, NOT_FINITE, np.arcsinh(np.where(np.isfinite(flat), flat, 0.0)))


def differences(stored: Mapping[str, float], numbers: Numbers) -> list[Difference]:
    """Where recomputed numbers differ from a stored witness, the largest difference first."""
    changed = [Difference(name, math.inf) for name in sorted(set(stored) ^ set(numbers))]
    for name, values in numbers.items():
        if name in stored:
            relative = _relative(stored[name], values)
            if not relative <= TOLERANCE:
                changed.append(Difference(name, relative))
    return sorted(changed, key=lambda difference: -difference.relative)


def _relative(stored: float, values: ArrayLike) -> float:
    """The difference from a stored number relative to the root mean square of the array."""
    flat = _transformed(values)
    size = math.sqrt(float(flat @ flat) / max(len(flat), 1))
    off = abs(condensed(values) - stored)
    rounding = 10.0 ** (1 - DIGITS) * abs(stored)  # of the digits that are not stored
    return 0.0 if off <= rounding else off / size if size else math.inf
