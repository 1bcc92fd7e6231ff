"""How many components are occupied: the posterior of the number that hold at least one row."""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr
from jax import Array

from inference.engine.sweep import block_sum
from inference.results.tree import values
from models.base import Algebra, Hyper, Pytree, Sites
from models.rows.encoded import spread
from models.rows.row_info import row_info

COUNTED = 1000  # draws, evenly spread, in which occupied components are counted: standard errors are at most 0.016
CERTAIN = 40.0  # expected rows above which a component counts as occupied: it is empty with probability below exp(−40)


def occupied_probs(
    algebra: Algebra, hyper: Hyper, rows: Pytree, draws: Mapping[str, np.ndarray], num_components: int, fewest: float
) -> np.ndarray:
    """P(number of occupied components = 1, …, K | x): (K,), from one draw of all z at each of S draws (S, ...) of θ.

    Rows of weight 0 do not count. ``fewest`` is a lower bound on the expected number of rows in a component, over components
    and draws: if it is above `CERTAIN`, nothing needs to be drawn. The key is fixed, so evaluation needs no seed.
    """
    if fewest > CERTAIN and row_info(rows).weight is None:
        return np.eye(num_components)[-1]
    size = len(next(iter(draws.values())))
    chosen = spread(size, COUNTED)
    keys = jax.random.split(jax.random.PRNGKey(0), len(chosen))
    some = {name: jnp.asarray(leaf[chosen]) for name, leaf in draws.items()}
    numbers = np.asarray(_numbers_occupied(algebra, hyper, rows, keys, some))
    return np.bincount(numbers, minlength=num_components + 1)[1:] / len(chosen)


@partial(jax.jit, static_argnames=("algebra",))
def _numbers_occupied(algebra: Algebra, hyper: Hyper, rows: Pytree, keys: Array, draws: Sites) -> Array:
    """Number of occupied components at each draw: (S,)."""

    def one(pair: tuple[Array, Sites]) -> Array:
        natural_parameters = algebra.local_natural_parameters(algebra.natural(hyper, pair[1]))

        def block(key: Array, rows: Pytree, weight: Array) -> Array:
            z = algebra.latent.sample(key, natural_parameters(algebra.features(hyper, rows)))
            held: Array = jnp.tensordot(weight, algebra.latent.reported.part(z), 1)
            return held.reshape(-1, held.shape[-1]).sum(0)  # over the steps of sequences

        return (block_sum(block, pair[0], rows) > 0).sum()

    return jax.lax.map(one, (keys, draws))


def in_words(number: "pd.Series[float]") -> str:
    """The numbers with a probability of at least 0.005, such as "3 (0.91), 4 (0.09)"."""
    return ", ".join(f"{size} ({share:.2f})" for size, share in number.items() if share >= 0.005)


def occupied(tree: xr.DataTree) -> "pd.Series[float] | None":
    """P(number of occupied components | x) by number; None if the result does not have it."""
    if "latent" not in tree or "occupied_probs" not in tree["latent"]:
        return None
    probs = values(tree, "latent", "occupied_probs")
    return pd.Series(probs, index=pd.RangeIndex(1, len(probs) + 1, name="occupied"))
