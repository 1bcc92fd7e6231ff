"""Likelihood block for one categorical column, such as the symbols that the states of a chain emit.

    emission_probs_k ~ Dirichlet(emission_concentration)            (K, V)
    x_n | z_n = k ~ Categorical(emission_probs_k)                   a code, −1 if missing

The density is that of `models.emissions.categorical` with one column. Rows are looked up and counted instead of multiplied by
one-hot codes, which is faster with many symbols and few states.
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

from models.abilities import Discriminant, Expected, Linear
from models.base import Data, Hyper, on_host
from models.data.columns import recoded
from models.distributions.observed import Categories
from models.emissions.block import BlockNaming, BlockPrior, Emission, Encoding, Likelihood
from models.families.conjugate import dirichlet, log_mean
from models.rows.centring import flat


@cache
def symbols(column: str, levels: tuple[str, ...]) -> Emission:
    """The block for a column with given levels, cached. Encoding raises `ZooError` for unknown levels."""
    size = len(levels)
    return Emission(
        family=dirichlet,
        prior=BlockPrior(
            parameters=("emission_concentration",),
            defaults=lambda data, num_components: {"emission_concentration": 1.1},
            bounds=lambda columns: {},
            constants=lambda data: {},
            nu=lambda hyper, num_components: on_host(np.tile(hyper["emission_concentration"] - 1, (num_components, 1))),
            shapes=lambda columns: {"emission_concentration": (size,)},
        ),
        likelihood=Likelihood(
            program=partial(_program, size),
            features=lambda hyper, x: x,
            log_density=_log_density,
            statistics=partial(_statistics, size),
            draw=lambda key, sites, z: jax.random.categorical(key, jnp.log(sites["emission_probs"])[z]).astype(jnp.int32),
            predictive=lambda nu: _log_density(log_mean(nu)),
            log_probs_of_codes=lambda T: T.T,
        ),
        encoding=Encoding(
            encode=partial(_codes, levels),
            observation=lambda x: jnp.where(x < 0, jnp.nan, x)[:, None],
            check=lambda data: None,
            missing=True,
        ),
        coordinates=lambda hyper, x: jax.nn.one_hot(x, size),
        sites=lambda hyper, T: {"emission_probs": jnp.exp(T)},
        natural=lambda hyper, sites: jnp.log(jnp.asarray(sites["emission_probs"])),
        naming=BlockNaming(
            dims=(("emission_probs", ("component", "symbol")), ("emission_concentration", ("symbol",))),
            coords=lambda data: {"symbol": list(levels)},
            kind="category",
            levels=(levels,),
            density_of="categories",
        ),
        discriminant=Discriminant(
            lambda hyper, sites: Linear(
                jnp.zeros(sites["emission_probs"].shape[0]), {"symbol": jnp.log(sites["emission_probs"])}
            ),
            lambda x: {"symbol": jax.nn.one_hot(x, size)},
            (("symbol", ("symbol",)),),
        ),
        profile=lambda sites: (Expected(jnp.asarray(sites["emission_probs"]), None),),
    )


def _codes(levels: tuple[str, ...], data: Data) -> Array:
    codes = recoded(data, 0, levels, ". Correct the cell, or remove the row")
    return on_host(np.nan_to_num(codes, nan=-1).astype(np.int32))


def _log_density(T: Array) -> Callable[[Array], Array]:
    table = jnp.concatenate([T.T, jnp.zeros((1, T.shape[0]), T.dtype)])  # the last row, at index −1, is for missing symbols
    return lambda x: table[x]


def _statistics(size: int, weight: Array, x: Array) -> Array:
    """Σ_n weight over the rows with each symbol: (K, V)."""
    places = jnp.where(x < 0, size, x)  # missing symbols are dropped
    return jnp.zeros((size, weight.shape[1]), weight.dtype).at[places].add(weight, mode="drop").T


def _program(size: int, hyper: Hyper, x: Array, num_components: int, proper: bool) -> dist.Distribution:
    prior = (
        dist.Dirichlet(hyper["emission_concentration"]).expand([num_components]).to_event(1)
        if proper
        else flat(constraints.independent(constraints.simplex, 1), (num_components, size))
    )
    return Categories([numpyro.sample("emission_probs", prior)])
