"""Derivatives without a formula: complex steps, and the modes where they vanish.

f(x + i h) = f(x) + i h f'(x) + O(h²): with h = 1e-30 the imaginary part is h f'(x) to rounding, because nothing is subtracted
(Squire and Trapp 1998). It works for all that NumPy computes for complex numbers: sums, logarithms, determinants, inverses.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

STEP = 1e-30
Array = np.ndarray


def gradient(function: Callable[[Any], Any], at: Array | float) -> Array:
    """Of a real function of one array, entry by entry; the entries are free, also those of a symmetric matrix."""
    at = np.asarray(at, dtype=float)
    found = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        moved = at.astype(complex)
        moved[place] += STEP * 1j
        found[place] = np.imag(function(moved)) / STEP
    return found


def mode(function: Callable[[Any], Any], low: float, high: float) -> float:
    """Where the slope of a function of one number changes its sign: to 1e-15 of the number."""
    return float(brentq(lambda at: float(gradient(function, at)), low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps))


def log_normal(x: Array, mean: Any, covariance: Any) -> Any:
    """Log density (N,) of rows (N, D) under Normal(mean, covariance), for real or complex arguments."""
    away = x - mean
    sign, size = np.linalg.slogdet(covariance)
    distance = np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away)
    return -0.5 * (distance + size + (np.log(sign) if np.iscomplexobj(sign) else 0) + x.shape[1] * np.log(2 * np.pi))
