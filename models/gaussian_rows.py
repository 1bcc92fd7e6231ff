"""What the Gaussian blocks share: rows about a fixed origin, so that an offset of the data costs no digits."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro import distributions as dist

from models.base import Data, Hyper

LOG_2PI = float(np.log(2 * np.pi))


class Centred(NamedTuple):
    """Rows about the origin."""

    x: Array  # (N, D)


def moments(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every column; a row counts by its weight."""
    mean = np.average(data.x, axis=0, weights=data.weight)
    return mean, np.average((data.x - mean) ** 2, axis=0, weights=data.weight)


def origin(data: Data) -> dict[str, np.ndarray]:
    """Where statistics are taken about: the column means of the data that the model was built on."""
    return {"origin": moments(data)[0]}


def centre(hyper: Hyper, x: Array) -> Array:
    return x - jnp.asarray(hyper["origin"], x.dtype)[None, :]


def centred(hyper: Hyper, x: Array) -> Centred:
    return Centred(centre(hyper, x))


def flat(support: Any, shape: tuple[int, ...]) -> dist.Distribution:
    return dist.ImproperUniform(support, (), shape)
