"""How many components are occupied: the posterior of the number that hold at least one row."""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr
from jax import Array

from inference.results import values
from inference.sweep import block_sum
from models.base import Algebra, Hyper, Pytree, Sites
from models.rows import spread

COUNTED = 1000  # draws, evenly spread, in which occupied components are counted: a probability is known to 0.016 or better
CERTAIN = 40.0  # expected rows from which a component is occupied: it is empty with probability below exp(−40)


def occupied_probs(
    algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Mapping[str, np.ndarray], num_components: int, fewest: float
) -> np.ndarray:
    """P(number of components that hold a row = 1, …, K | x): (K,), from a draw of all z at each of S draws (S, ...) of θ.

    Rows of weight 0 are in no component. ``fewest`` is a lower bound on the expected number of rows in a component, over
    components and draws: with enough of them in all, nothing needs to be drawn. The key is fixed: evaluation has no seed.
    """
    if fewest > CERTAIN and getattr(rows, "weight", None) is None:
        return np.eye(num_components)[-1]
    size = len(next(iter(draws.values())))
    chosen = spread(size, COUNTED)
    keys = jax.random.split(jax.random.PRNGKey(0), len(chosen))
    some = {name: jnp.asarray(leaf[chosen]) for name, leaf in draws.items()}
    numbers = np.asarray(_numbers_occupied(algebra, hyper, rows, keys, some))
    return np.bincount(numbers, minlength=num_components + 1)[1:] / len(chosen)


@partial(jax.jit, static_argnames=("algebra",))
def _numbers_occupied(algebra: Algebra, hyper: Hyper, rows: Pytree, keys: Array, draws: Sites) -> Array:
    """(S,)"""

    def one(pair: tuple[Array, Sites]) -> Array:
        natural_parameters = algebra.local(algebra.natural(hyper, pair[1]))

        def block(key: Array, rows: Pytree, weight: Array) -> Array:
            z = algebra.latent.sample(key, natural_parameters(algebra.features(hyper, rows)))
            held: Array = jnp.tensordot(weight, algebra.latent.report(z), 1)
            return held.reshape(-1, held.shape[-1]).sum(0)  # over the steps of sequences

        return (block_sum(block, pair[0], rows) > 0).sum()

    return jax.lax.map(one, (keys, draws))


def in_words(number: "pd.Series[float]") -> str:
    """The numbers that have a probability to speak of, as "3 (0.91), 4 (0.09)"."""
    return ", ".join(f"{size} ({share:.2f})" for size, share in number.items() if share >= 0.005)


def occupied(tree: xr.DataTree) -> "pd.Series[float] | None":
    """P(number of occupied components | x) by number, where a result has it."""
    if "latent" not in tree or "occupied_probs" not in tree["latent"]:
        return None
    probs = values(tree, "latent", "occupied_probs")
    return pd.Series(probs, index=pd.RangeIndex(1, len(probs) + 1, name="occupied"))
