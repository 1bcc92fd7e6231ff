"""The E-step of a chain whose states emit one symbol a step, by compiled loops, as `models.host.loops.HostStep`."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import Hyper, Stats
from models.chains.compiled.expected import Counts, Logs, expected_counts
from models.chains.prior import START, STATE, TRANSITION, Shape
from models.chains.sequences import Timed
from models.emissions.block import Emission
from models.host.loops import HostStep

MOST_STATES = 62  # sets of states are the bits of an integer


def host_step(emission: Emission, shape: Shape) -> HostStep | None:
    """That of unlabelled sequences; None where a step is more than one symbol."""
    table, size = emission.likelihood.log_probs_of_codes, shape.size
    if table is None or size > MOST_STATES:
        return None

    def serves(rows: Timed) -> bool:
        return rows.allowed_states is None

    def coefficients(T: Stats) -> Logs:
        transition = T[TRANSITION]
        stop = transition[:, size] if shape.boundary else jnp.zeros(size, transition.dtype)
        return Logs(T[START], transition[:, :size], stop, table(T[STATE]))

    def sums(hyper: Hyper, rows: Timed, num_threads: int, given: Logs) -> Counts:
        code = np.asarray(rows.x) if rows.seen is None else np.where(rows.seen, rows.x, -1)
        logs = Logs(*(np.asarray(part, float) for part in given))
        weight = None if rows.weight is None else np.asarray(rows.weight)
        return expected_counts(code, np.asarray(rows.length), weight, num_threads, logs)

    def statistics(counts: Counts) -> tuple[dict[str, Stats], Array]:
        last = [counts.last[:, None]] if shape.boundary else []
        transition = jnp.concatenate([counts.pair, *last], axis=1)
        return {START: counts.first, TRANSITION: transition, STATE: counts.symbol.T}, jnp.asarray(counts.log_partition)

    return HostStep(serves, lambda rows: int(np.asarray(rows.length).sum()), coefficients, sums, statistics)
