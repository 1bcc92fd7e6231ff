"""The prior of hidden Markov models, as hyperparameters and as pseudo-statistics; the `Shape` of a chain."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from models.base import Algebra, Data, Hyper, Stats, ZooError, on_host
from models.chains.sequences import Steps, Timed
from models.emissions.block import Emission
from models.families.user_prior import check_hyper, given_numbers

START, TRANSITION, STATE = "start_probs", "transition_probs", "state"


class Shape(NamedTuple):
    """Sizes of the chain, and whether its prior is proper."""

    size: int  # S
    boundary: bool
    proper: bool

    @property
    def num_next(self) -> int:
        """S, plus one for the boundary."""
        return self.size + self.boundary


def hyperparameters(steps: Steps, emission: Emission, shape: Shape, prior: Any) -> dict[str, np.ndarray]:
    """The hyperparameters: defaults, replaced by the user's numbers; raises `ZooError`."""
    table = steps.table
    constants = emission.prior.constants(table)
    if not shape.proper:
        return constants
    blocks = {
        START: {"concentration": "start_concentration"},
        TRANSITION: {"concentration": "transition_concentration"},
        STATE: {name: name for name in emission.prior.parameters},
    }
    usual = {"start_concentration": 1.1, "transition_concentration": 1.1} | emission.prior.defaults(table, shape.size)
    columns = len(table.columns)
    chains = {"start_concentration": (shape.size,), "transition_concentration": (shape.size, shape.num_next)}
    hyper = usual | given_numbers(prior, blocks)
    hyper["transition_concentration"] = _by_row(hyper["transition_concentration"], chains["transition_concentration"])
    checked = check_hyper(
        hyper, emission.prior.shapes(columns) | {"start_concentration": (shape.size,)}, emission.prior.bounds(columns)
    )
    return checked | {"transition_concentration": hyper["transition_concentration"]} | constants


def _by_row(value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Broadcast transition concentrations to (S, S + 1) from one number, a row, or a matrix; raises `ZooError`."""
    try:
        concentrations = np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), shape))
    except (TypeError, ValueError, OverflowError) as error:
        raise ZooError(f"prior transition_concentration: expected numbers of shape {shape}, got {value!r}") from error
    if not (np.isfinite(concentrations) & (concentrations > 0)).all():
        raise ZooError("prior transition_concentration must be finite and above 0")
    return concentrations


def _of_one_step(emission: Emission, hyper: Hyper, x: Any, probs: Array) -> Stats:
    assert emission.hidden.latent.independent is not None
    z = emission.hidden.latent.independent(jax.random.PRNGKey(0), probs)
    return emission.likelihood.statistics(probs, emission.hidden.complete(z, emission.likelihood.features(hyper, x)))


def alike(hyper: Hyper, shape: Shape) -> bool:
    """Whether the prior is the same for all states; that of a left-to-right chain is not."""
    if not shape.proper:
        return True
    transition, same = hyper["transition_concentration"], np.eye(shape.size, dtype=bool)
    step, stop = transition[:, : shape.size], transition[:, shape.size :]
    parts = (hyper["start_concentration"], step[same], step[~same], stop)
    return all(part.size == 0 or np.ptp(part) == 0 for part in parts)


def pseudo_statistics(
    hyper: Hyper, algebra: Algebra, emission: Emission, shape: Shape, data: Data, rows: Callable[[Any], Timed]
) -> dict[str, Stats]:
    """The prior as pseudo-statistics: nu = concentration − 1, and the block of the emission; flat: nu = 0."""
    if shape.proper:
        return {
            START: on_host(hyper["start_concentration"] - 1),
            TRANSITION: on_host(hyper["transition_concentration"] - 1),
            STATE: emission.prior.nu(hyper, shape.size),
        }
    with jax.enable_x64(True):
        x = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[2:]), leaf.dtype), rows(data).x)
        z = jax.ShapeDtypeStruct((1, shape.size), np.float64)
        block = jax.eval_shape(lambda x, z: _of_one_step(emission, hyper, x, z), x, z)
    zeros = {START: np.zeros(shape.size), TRANSITION: np.zeros((shape.size, shape.num_next))}
    return {name: on_host(leaf) for name, leaf in zeros.items()} | {
        STATE: jax.tree.map(lambda leaf: on_host(np.zeros(leaf.shape)), block)
    }
