"""The local step over all rows by the compiled loops of a model (`models.host.loops`), for fits with expected latents."""

from functools import partial

import jax
import numpy as np
from jax import Array

from inference.engine.driver import num_cores
from inference.engine.row_source import PassProgress, RowSums, Totals
from inference.engine.sweep import Local, num_rows, rows_weight
from inference.runtime.programs import cached_jit
from models.base import Algebra, Hyper, Pytree, Stats, on_host
from models.host.loops import HostStep

FEWEST_LATENTS = 50_000  # measured: with fewer, the start of an iteration from the host is a notable part of its cost
FIRST_ROWS = 8  # rows on which the loops are compiled


def host_step_of(algebra: Algebra, rows: Pytree) -> HostStep | None:
    """The loops for these rows: None without loops, for rows that they cannot read, for few latents, and on other devices."""
    host = algebra.structure.host_step
    if host is None or host.num_latents(rows) < FEWEST_LATENTS or jax.default_backend() != "cpu":
        return None
    return host if host.serves(rows) else None


class CompiledSums(RowSums):
    """Sums over rows in memory, one start after another, each by all cores. A start that is done keeps its last sums."""

    def __init__(self, algebra: Algebra, host: HostStep, hyper: Hyper, rows: Pytree, T: Stats) -> None:
        hyper, rows = jax.tree.map(np.asarray, (hyper, rows))  # views of the arrays on the device, no copies
        self._algebra, self._sums = algebra, partial(host.sums, hyper, rows, num_cores())
        few = partial(host.sums, hyper, jax.tree.map(lambda leaf: leaf[:FIRST_ROWS], rows), 1)
        coefficients = coefficients_of(algebra, T)
        self._last = [few(at_start(coefficients, start)) for start in range(len(jax.tree.leaves(T)[0]))]
        counts = (float(rows_weight(rows).sum()), np.nan, num_rows(rows))  # all latents count as unobserved
        self._counts = tuple(on_host(np.full(len(self._last), float(count))) for count in counts)
        self.example = self._totals()

    def advance(self, T: Stats, keys: Array, done: np.ndarray, at: PassProgress, seconds: float) -> tuple[PassProgress, bool]:
        """As `RowSums.advance`: always a complete pass."""
        coefficients = coefficients_of(self._algebra, T)
        for start in np.flatnonzero(~done).tolist():
            self._last[start] = self._sums(at_start(coefficients, start))
        return PassProgress(self._totals(), at.place + 1), True

    def _totals(self) -> Totals:
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *self._last)
        return Totals(local_of_loops(self._algebra, stacked), *self._counts)


def at_start(stacked: Pytree, start: int) -> Pytree:
    """One start of several."""
    return jax.tree.map(lambda leaf: leaf[start], stacked)


def coefficients_of(algebra: Algebra, T: Stats) -> Pytree:
    """The coefficients of the compiled loops at the parameters of every start, in NumPy."""
    return jax.tree.map(np.asarray, _coefficients(algebra, T))


@cached_jit(static_argnames=("algebra",))
def _coefficients(algebra: Algebra, T: Stats) -> Pytree:
    assert algebra.structure.host_step is not None
    return jax.vmap(algebra.structure.host_step.coefficients)(T)


def local_of_loops(algebra: Algebra, sums: Pytree) -> Local:
    """The local step of every start from the sums of the loops, in NumPy."""
    return jax.tree.map(np.asarray, _local(algebra, sums))


@cached_jit(static_argnames=("algebra",))
def _local(algebra: Algebra, sums: Pytree) -> Local:
    assert algebra.structure.host_step is not None
    stats, log_partition = jax.vmap(algebra.structure.host_step.statistics)(sums)
    return Local(stats, log_partition, log_partition)
