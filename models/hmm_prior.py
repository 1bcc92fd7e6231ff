"""The prior of hidden Markov models, as numbers and as pseudo-statistics; the shape of a chain."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from models.base import Algebra, Data, Hyper, Stats, ZooError, on_host
from models.emissions import Emission
from models.hyperparameters import check_hyper, given_numbers
from models.steps import Steps, Timed

START, TRANSITION, STATE = "start_probs", "transition_probs", "state"


class Shape(NamedTuple):
    """What tells one chain from another."""

    size: int  # S
    boundary: bool
    proper: bool

    @property
    def num_next(self) -> int:
        """S, and one more for the boundary."""
        return self.size + self.boundary


def hyperparameters(steps: Steps, emission: Emission, shape: Shape, prior: Any) -> dict[str, np.ndarray]:
    """The prior in textbook terms, as numbers: the defaults with the user's over them; raises `ZooError`."""
    table = steps.table
    constants = emission.constants(table)
    if not shape.proper:
        return constants
    blocks = {
        START: {"concentration": "start_concentration"},
        TRANSITION: {"concentration": "transition_concentration"},
        STATE: {name: name for name in emission.parameters},
    }
    usual = {"start_concentration": 1.1, "transition_concentration": 1.1} | emission.defaults(table, shape.size)
    columns = len(table.columns)
    chains = {"start_concentration": (shape.size,), "transition_concentration": (shape.size, shape.num_next)}
    hyper = usual | given_numbers(prior, blocks)
    hyper["transition_concentration"] = _by_row(hyper["transition_concentration"], chains["transition_concentration"])
    checked = check_hyper(hyper, emission.shapes(columns) | {"start_concentration": (shape.size,)}, emission.bounds(columns))
    return checked | {"transition_concentration": hyper["transition_concentration"]} | constants


def _by_row(value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Concentrations (S, S + 1) of the transitions, from a number, a row, or all of them; raises `ZooError`."""
    try:
        found = np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), shape))
    except (TypeError, ValueError) as error:
        raise ZooError(f"prior transition_concentration: expected numbers of shape {shape}, got {value!r}") from error
    if not (np.isfinite(found) & (found > 0)).all():
        raise ZooError("prior transition_concentration must be finite and above 0")
    return found


def alike(hyper: Hyper, shape: Shape) -> bool:
    """Whether the prior tells no state from another, as one of left-to-right transitions does."""
    if not shape.proper:
        return True
    transition, same = hyper["transition_concentration"], np.eye(shape.size, dtype=bool)
    step, stop = transition[:, : shape.size], transition[:, shape.size :]
    parts = (hyper["start_concentration"], step[same], step[~same], stop)
    return all(part.size == 0 or np.ptp(part) == 0 for part in parts)


def pseudo_statistics(
    hyper: Hyper, algebra: Algebra, emission: Emission, shape: Shape, data: Data, rows: Callable[[Any], Timed]
) -> dict[str, Stats]:
    """The prior as pseudo-statistics: Dirichlet nu = concentration − 1, and the emission's block; flat: nu = 0."""
    if shape.proper:
        return {
            START: on_host(hyper["start_concentration"] - 1),
            TRANSITION: on_host(hyper["transition_concentration"] - 1),
            STATE: emission.prior(hyper, shape.size),
        }
    with jax.enable_x64(True):
        x = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[2:]), leaf.dtype), rows(data).x)
        z = jax.ShapeDtypeStruct((1, shape.size), np.float64)
        block = jax.eval_shape(lambda x, z: emission.statistics(z, emission.features(hyper, x)), x, z)
    zeros = {START: np.zeros(shape.size), TRANSITION: np.zeros((shape.size, shape.num_next))}
    return {name: on_host(leaf) for name, leaf in zeros.items()} | {
        STATE: jax.tree.map(lambda leaf: on_host(np.zeros(leaf.shape)), block)
    }
