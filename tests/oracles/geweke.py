"""Geweke's joint-distribution test: what Gibbs sampling keeps is the prior."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from inference.methods import gibbs
from models.base import Model
from models.rows.masks import Cells

CHAINS, SWEEPS = 4_000, 5


def geweke(model: Model, simulate: Any, num_rows: int) -> Any:
    """A program that takes `CHAINS` draws of the sites from the prior and a seed, and gives (sites, rows).

    These are after sweeps of "rows given θ, some cells hidden, then θ given what is left by Gibbs".
    """
    hyper, prior = dict(model.hyper), dict(model.prior)

    def rows_of(key: Any, T: Any) -> Any:
        return model.abilities.simulate(key, hyper, model.algebra.sites(hyper, T), num_rows)

    def sweep(T: Any, key: Any) -> tuple[Any, None]:
        key_rows, key_step = jax.random.split(key)
        return gibbs.step(model.algebra, (hyper, prior, simulate(rows_of(key_rows, T))), key_step, T)[0], None

    def chain(sites: Any, key: Any) -> tuple[Any, Any]:
        keys = jax.random.split(key, SWEEPS + 1)
        T, _ = jax.lax.scan(sweep, model.algebra.natural(hyper, sites), keys[1:])
        return model.algebra.sites(hyper, T), rows_of(keys[0], T).x

    run = jax.jit(jax.vmap(chain))
    return lambda start, seed: jax.tree.map(np.asarray, run(start, jax.random.split(jax.random.PRNGKey(seed), CHAINS)))


def hidden(x: Any, missing: np.ndarray) -> Cells:
    return Cells(jnp.where(missing, 0.0, x), jnp.asarray(~missing))
