"""Likelihood block for categories, made for its columns:

    probs_<d>_k ~ Dirichlet(level_concentration)                    (K, levels of column d)
    x_nd | z_n = k ~ Categorical(probs_<d>_k)                       codes (N, D)

T and nu are one (K, levels) array a column; a row brings its one-hot codes.
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

from models import counts
from models.base import Data, Discriminant, Expected, Hyper, Linear, Sites, ZooError, on_host
from models.columns import categories_of, recoded
from models.data import is_sparse
from models.discrete import column_coords
from models.distributions import Categories
from models.documents import Sequences
from models.emissions import Emission
from models.families import dirichlet, joint, log_mean
from models.gaussian_rows import flat


def levels_of(data: Data) -> tuple[tuple[str, ...], ...]:
    """Names of the levels of every column: those of the table, or the whole numbers that a column of numbers holds.

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
    """A column's name as part of a site's or a dimension's; a slash would be a path in a result."""
    return column.replace("/", "∕")  # the division slash, which looks the same


@cache
def categorical(columns: tuple[str, ...], levels: tuple[tuple[str, ...], ...]) -> Emission:
    """The block for ``columns`` with given ``levels``; one object for equal arguments. Raises `ZooError` for codes unknown."""
    names, sizes = tuple(f"probs_{named(column)}" for column in columns), tuple(map(len, levels))
    cuts = tuple(int(cut) for cut in np.cumsum(sizes)[:-1])
    level_dims = tuple(f"level of {named(column)}" for column in columns)
    dims = tuple((name, ("component", dim)) for name, dim in zip(names, level_dims, strict=True))
    return Emission(
        family=joint(dict.fromkeys(names, dirichlet)),
        parameters=("level_concentration",),
        defaults=lambda data, num_components: {"level_concentration": 1.1},
        bounds=lambda columns: {},
        constants=lambda data: {},
        prior=lambda hyper, num_components: {
            name: on_host(np.full((num_components, size), float(hyper["level_concentration"]) - 1))
            for name, size in zip(names, sizes, strict=True)
        },
        program=partial(_categorical_program, names, sizes),
        encode=partial(_codes, levels),
        observation=lambda x: jnp.where(x < 0, jnp.nan, x),
        features=lambda hyper, x: _indicators(sizes, x),
        log_density=partial(_categorical_log_density, names),
        statistics=lambda weight, x: dict(zip(names, jnp.split(weight.T @ x, cuts, axis=1), strict=True)),
        coordinates=lambda hyper, x: counts.coordinates(_indicators(sizes, x)),
        sites=lambda hyper, T: {name: jnp.exp(T[name]) for name in names},
        natural=lambda hyper, sites: {name: jnp.log(jnp.asarray(sites[name])) for name in names},
        draw=partial(_categorical_draw, names),
        check=lambda data: None,  # `levels_of` has read every cell
        shapes=lambda columns: {"level_concentration": ()},
        dims=dims,
        coords=lambda data: (
            column_coords(data) | {f"level of {named(c)}": list(ls) for c, ls in zip(columns, levels, strict=True)}
        ),
        discriminant=Discriminant(
            lambda hyper, sites: Linear(
                jnp.zeros(sites[names[0]].shape[0]),
                {named(column): jnp.log(sites[name]) for column, name in zip(columns, names, strict=True)},
            ),
            lambda x: dict(zip(map(named, columns), jnp.split(_indicators(sizes, x), cuts, axis=1), strict=True)),
            tuple((named(column), (dim,)) for column, dim in zip(columns, level_dims, strict=True)),
        ),
        kind="category",
        levels=levels,
        explains="categories",
        predictive=lambda nu: _categorical_log_density(names, jax.tree.map(log_mean, nu)),
        missing=True,
        profile=lambda sites: tuple(Expected(jnp.asarray(sites[name]), None) for name in names),
    )


def _codes(levels: tuple[tuple[str, ...], ...], data: Data) -> Array:
    """(N, D) codes into the model's levels, whatever the order of the table's own, −1 for a missing cell.

    Raises `ZooError` for an unknown level.
    """
    _refuse_no_table(data)
    codes = [recoded(data, d, known, ". Correct the cell, or remove the row") for d, known in enumerate(levels)]
    return on_host(np.nan_to_num(np.column_stack(codes), nan=-1).astype(np.int32))


def _indicators(sizes: tuple[int, ...], codes: Array) -> Array:
    """(N, Σ levels): one-hot codes side by side, zeros where a cell is missing."""
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
