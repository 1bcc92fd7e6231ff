"""The contracts of compiled loops on the host: of an E-step over many rows, and of minibatches of rows with own parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
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


# (function of (first, end), number) -> None: calls the function on ranges that make up range(number), on several threads
Share = Callable[[Callable[[int, int], None], int], None]


def alone(function: Callable[[int, int], None], number: int) -> None:
    """A `Share` of one thread."""
    function(0, number)


class BatchSums(NamedTuple):
    """What the loops find in a batch at the shared q(θ) = nu, in NumPy."""

    stats: Mapping[str, np.ndarray]  # of the shared blocks, by name; memory that the next batch uses again
    bound: float  # the batch's part of the evidence bound, with the divergences of its rows' own parameters
    divergence: float  # −KL of the shared blocks from their prior
    own: Mapping[str, np.ndarray]  # (B, …): nu of the rows' own blocks


class LocalLoops(NamedTuple):
    """Rows of a batch, each to its own best q given the shared blocks, by compiled loops: what ``Structure.ascend`` finds.

    Arrays of statistics are contiguous, in the order of C or of Fortran. Steps are fastest where nu keeps their layout.
    """

    serves: Callable[[Any], bool]  # rows on the host -> whether the loops can read them
    read: Callable[[Mapping[str, Any], Any], Any]  # (prior, rows), all in NumPy -> tables, made once for all batches of a run
    # (tables, share, nu of the shared blocks, indices of the rows, most, close) -> sums, the same for any number of threads.
    # Updates of a row end after ``most``, or when its nu moves by no more than ``close`` on average
    sums: Callable[[Any, Share, Mapping[str, np.ndarray], np.ndarray, int, float], BatchSums]


@dataclass(frozen=True)
class Ascent:
    """`models.base.Structure.ascend` of a model that has compiled loops beside what JAX traces."""

    traced: Callable[..., dict[str, Any]]
    loops: LocalLoops

    def __call__(self, *arguments: Any) -> dict[str, Any]:
        """What JAX traces."""
        return self.traced(*arguments)
