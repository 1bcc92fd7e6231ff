"""The E-step of a mixture by the compiled loops of its emission, as `models.host.loops.HostStep`."""

from typing import Any

import jax
from jax import Array

from models.base import Hyper, Stats
from models.emissions.block import Emission
from models.host.loops import HostStep
from models.mixtures.weights import Weights
from models.rows.encoded import Rows


def host_step(emission: Emission, weights: Weights, block: str, size: int) -> HostStep | None:
    """That of rows without labels, with ``size`` components; None where the emission has no such loops."""
    if (loops := emission.likelihood.host_sums) is None:
        return None

    def serves(rows: Rows) -> bool:
        return rows.allowed_states is None and loops.serves(rows.x)

    def num_rows(rows: Rows) -> int:
        return len(jax.tree.leaves(rows.x)[0])

    def coefficients(T: Stats) -> Any:
        return loops.coefficients(T[block], weights.log_probs(T, size))

    def sums(hyper: Hyper, rows: Rows, num_threads: int, given: Any) -> Any:
        return loops.sums(hyper, rows.x, rows.weight, num_threads, given)

    def statistics(host_sums: Any) -> tuple[dict[str, Stats], Array]:
        counts, stats, log_partition = loops.statistics(host_sums)
        return {block: stats} | weights.statistics(counts), log_partition

    return HostStep(serves, num_rows, coefficients, sums, statistics)
