"""The weights that a mixture can have, by the values of an option."""

from typing import Any

from models.errors import ZooError
from models.mixtures import dirichlet_process
from models.mixtures.weights import Weights, dirichlet, uniform

WEIGHTS: dict[str, Weights] = {
    each.name: each
    for each in (
        dirichlet("mixture_probs"),
        uniform,
        dirichlet_process.fixed,
        dirichlet_process.learned,
    )
}


def weights_of(name: Any) -> Weights:
    """The weights of a name; raises `ZooError` for another one."""
    if not isinstance(name, str) or name not in WEIGHTS:
        raise ZooError(f"weights={name!r} is not one of {', '.join(WEIGHTS)}")
    return WEIGHTS[name]
