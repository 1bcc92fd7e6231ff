"""Likelihood block for categorical columns:

    probs_<d>_k ~ Dirichlet(level_concentration)                    (K, levels of column d)
    x_nd | z_n = k ~ Categorical(probs_<d>_k)                       codes (N, D)

T and nu are one (K, levels) array per column; the features of a row are its one-hot codes.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.abilities import Discriminant, Expected, Linear
from models.base import Data, Hyper, Sites, ZooError, on_host
from models.data.columns import categories_of, recoded
from models.data.documents import Sequences
from models.data.table import is_sparse
from models.distributions.observed import Categories
from models.emissions import counts
from models.emissions.block import BlockNaming, BlockPrior, Emission, Encoding, Likelihood
from models.emissions.discrete import column_coords
from models.families.conjugate import dirichlet, joint, log_mean
from models.rows.centring import flat


def levels_of(data: Data) -> tuple[tuple[str, ...], ...]:
    """Names of the levels of each column: those of the table, or the distinct values of a column of numbers.

    Raises `ZooError` for documents and sparse counts.
    """
    _refuse_no_table(data)
    return tuple(
        own or tuple(f"{value:.15g}" for value in np.unique(column[~np.isnan(column)]))
        for own, column in zip(categories_of(data), data.x.T, strict=True)
    )


def _refuse_no_table(data: Data) -> None:
    if isinstance(data.x, Sequences) or is_sparse(data.x):
        raise ZooError(f"{data.name} holds counts or documents, not a table of categories; use emission=multinomial")


def named(column: str) -> str:
    """A column name for use in the name of a site or dimension; a slash would be a path in a result file."""
    return column.replace("/", "∕")  # the division slash, which looks the same


@cache
def categorical(columns: tuple[str, ...], levels: tuple[tuple[str, ...], ...]) -> Emission:
    """The block for ``columns`` with given ``levels``, cached. Encoding raises `ZooError` for unknown levels."""
    names, sizes = tuple(f"probs_{named(column)}" for column in columns), tuple(map(len, levels))
    cuts = tuple(int(cut) for cut in np.cumsum(sizes)[:-1])
    level_dims = tuple(f"level of {named(column)}" for column in columns)
    dims = tuple((name, ("component", dim)) for name, dim in zip(names, level_dims, strict=True))
    return Emission(
        family=joint(dict.fromkeys(names, dirichlet)),
        prior=BlockPrior(
            parameters=("level_concentration",),
            defaults=lambda data, num_components: {"level_concentration": 1.1},
            bounds=lambda columns: {},
            constants=lambda data: {},
            nu=lambda hyper, num_components: {
                name: on_host(np.full((num_components, size), float(hyper["level_concentration"]) - 1))
                for name, size in zip(names, sizes, strict=True)
            },
            shapes=lambda columns: {"level_concentration": ()},
        ),
        likelihood=Likelihood(
            program=partial(_categorical_program, names, sizes),
            features=lambda hyper, x: _indicators(sizes, x),
            log_density=partial(_categorical_log_density, names),
            statistics=lambda weight, x: dict(zip(names, jnp.split(weight.T @ x, cuts, axis=1), strict=True)),
            draw=partial(_categorical_draw, names),
            predictive=lambda nu: _categorical_log_density(names, jax.tree.map(log_mean, nu)),
        ),
        encoding=Encoding(
            encode=partial(_codes, levels),
            observation=lambda x: jnp.where(x < 0, jnp.nan, x),
            check=lambda data: None,
            missing=True,
        ),
        coordinates=lambda hyper, x: counts.coordinates(_indicators(sizes, x)),
        sites=lambda hyper, T: {name: jnp.exp(T[name]) for name in names},
        natural=lambda hyper, sites: {name: jnp.log(jnp.asarray(sites[name])) for name in names},
        naming=BlockNaming(
            dims=dims,
            coords=lambda data: (
                column_coords(data) | {f"level of {named(c)}": list(ls) for c, ls in zip(columns, levels, strict=True)}
            ),
            kind="category",
            levels=levels,
            density_of="categories",
        ),
        discriminant=Discriminant(
            lambda hyper, sites: Linear(
                jnp.zeros(sites[names[0]].shape[0]),
                {named(column): jnp.log(sites[name]) for column, name in zip(columns, names, strict=True)},
            ),
            lambda x: dict(zip(map(named, columns), jnp.split(_indicators(sizes, x), cuts, axis=1), strict=True)),
            tuple((named(column), (dim,)) for column, dim in zip(columns, level_dims, strict=True)),
        ),
        profile=lambda sites: tuple(Expected(jnp.asarray(sites[name]), None) for name in names),
    )


def _codes(levels: tuple[tuple[str, ...], ...], data: Data) -> Array:
    """(N, D): codes into the levels of the model, matched by name, −1 for a missing cell.

    Raises `ZooError` for an unknown level.
    """
    _refuse_no_table(data)
    codes = [recoded(data, d, known, ". Correct the cell, or remove the row") for d, known in enumerate(levels)]
    return on_host(np.nan_to_num(np.column_stack(codes), nan=-1).astype(np.int32))


def _indicators(sizes: tuple[int, ...], codes: Array) -> Array:
    """(N, Σ levels): one-hot codes of all columns, zeros for a missing cell."""
    return jnp.concatenate([jax.nn.one_hot(codes[:, d], size) for d, size in enumerate(sizes)], axis=1)


def _categorical_log_density(names: tuple[str, ...], T: Mapping[str, Array]) -> Callable[[Array], Array]:
    log_probs = jnp.concatenate([T[name] for name in names], axis=-1)
    return lambda x: counts.log_mass(x, log_probs)


def _categorical_program(
    names: tuple[str, ...], sizes: tuple[int, ...], hyper: Hyper, x: Array, num_components: int, proper: bool
) -> dist.Distribution:
    simplexes = constraints.independent(constraints.simplex, 1)
    priors = [
        dist.Dirichlet(jnp.broadcast_to(hyper["level_concentration"], (size,))).expand([num_components]).to_event(1)
        if proper
        else flat(simplexes, (num_components, size))
        for size in sizes
    ]
    return Categories([numpyro.sample(name, prior) for name, prior in zip(names, priors, strict=True)])


def _categorical_draw(names: tuple[str, ...], key: Array, sites: Sites, z: Array) -> Array:
    keys = jax.random.split(key, len(names))
    columns = [jax.random.categorical(k, jnp.log(sites[name])[z]) for k, name in zip(keys, names, strict=True)]
    return jnp.stack(columns, axis=1).astype(jnp.int32)
