"""Likelihood block for one column of categories: what a state emits.

    emission_probs_k ~ Dirichlet(emission_concentration)            (K, V)
    x_n | z_n = k ~ Categorical(emission_probs_k)                   a code, −1 where it is missing

The same density as `models.categories` with one column; a row is looked up and counted instead of multiplied, which is what
pays where there are many symbols and few states.
"""

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.base import Data, Discriminant, Expected, Hyper, Linear, on_host
from models.columns import recoded
from models.distributions import Categories
from models.emissions import Emission
from models.families import dirichlet, log_mean
from models.gaussian_rows import flat


@cache
def symbols(column: str, levels: tuple[str, ...]) -> Emission:
    """The block for a column with given levels; one object for equal arguments. Raises `ZooError` for codes unknown."""
    size = len(levels)
    return Emission(
        family=dirichlet,
        parameters=("emission_concentration",),
        defaults=lambda data, num_components: {"emission_concentration": 1.1},
        bounds=lambda columns: {},
        constants=lambda data: {},
        prior=lambda hyper, num_components: on_host(np.tile(hyper["emission_concentration"] - 1, (num_components, 1))),
        program=partial(_program, size),
        encode=partial(_codes, levels),
        observation=lambda x: jnp.where(x < 0, jnp.nan, x)[:, None],
        features=lambda hyper, x: x,
        log_density=_log_density,
        statistics=partial(_statistics, size),
        coordinates=lambda hyper, x: jax.nn.one_hot(x, size),
        sites=lambda hyper, T: {"emission_probs": jnp.exp(T)},
        natural=lambda hyper, sites: jnp.log(jnp.asarray(sites["emission_probs"])),
        draw=lambda key, sites, z: jax.random.categorical(key, jnp.log(sites["emission_probs"])[z]).astype(jnp.int32),
        check=lambda data: None,  # the levels were read off the column
        shapes=lambda columns: {"emission_concentration": (size,)},
        dims=(("emission_probs", ("component", "symbol")), ("emission_concentration", ("symbol",))),
        coords=lambda data: {"symbol": list(levels)},
        discriminant=Discriminant(
            lambda hyper, sites: Linear(
                jnp.zeros(sites["emission_probs"].shape[0]), {"symbol": jnp.log(sites["emission_probs"])}
            ),
            lambda x: {"symbol": jax.nn.one_hot(x, size)},
            (("symbol", ("symbol",)),),
        ),
        kind="category",
        levels=(levels,),
        explains="categories",
        predictive=lambda nu: _log_density(log_mean(nu)),
        missing=True,
        profile=lambda sites: (Expected(jnp.asarray(sites["emission_probs"]), None),),
    )


def _codes(levels: tuple[str, ...], data: Data) -> Array:
    codes = recoded(data, 0, levels, ". Correct the cell, or remove the row")
    return on_host(np.nan_to_num(codes, nan=-1).astype(np.int32))


def _log_density(T: Array) -> Callable[[Array], Array]:
    table = jnp.concatenate([T.T, jnp.zeros((1, T.shape[0]), T.dtype)])  # the last row, of index −1, is of a missing symbol
    return lambda x: table[x]


def _statistics(size: int, weight: Array, x: Array) -> Array:
    """Σ_n weight over the rows with each symbol: (K, V)."""
    places = jnp.where(x < 0, size, x)  # of missing symbols: dropped
    return jnp.zeros((size, weight.shape[1]), weight.dtype).at[places].add(weight, mode="drop").T


def _program(size: int, hyper: Hyper, x: Array, num_components: int, proper: bool) -> dist.Distribution:
    prior = (
        dist.Dirichlet(hyper["emission_concentration"]).expand([num_components]).to_event(1)
        if proper
        else flat(constraints.independent(constraints.simplex, 1), (num_components, size))
    )
    return Categories([numpyro.sample("emission_probs", prior)])
