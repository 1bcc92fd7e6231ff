"""The contract of an E-step by compiled loops on the host; `models.base.Structure` holds it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array


class HostStep(NamedTuple):
    """The local step with expected latents over many rows, by compiled loops on the host: the same sums, faster.

    What depends on the parameters alone stays in JAX. A method turns T into ``coefficients``, the loops turn these and the rows
    into ``sums``, and JAX turns the sums into statistics.
    """

    serves: Callable[[Any], bool]  # rows on the host -> whether the loops can read them
    num_latents: Callable[[Any], int]  # rows -> how many latents there are, by which the work grows: rows, or their steps
    coefficients: Callable[[Any], Any]  # T -> arrays that the loops read
    sums: Callable[[Any, Any, int, Any], Any]  # (hyper, rows, threads, coefficients), all in NumPy -> sums over the rows
    statistics: Callable[[Any], tuple[Any, Array]]  # sums -> (statistics by block, Σ_n weight_n log partition)
