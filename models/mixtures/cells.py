"""The cells of a table under a mixture: observed, expected, drawn."""

from collections.abc import Sequence
from zlib import crc32

import jax
import jax.numpy as jnp
from jax import Array

from models.abilities import Expected
from models.base import Algebra, Hyper, Sites
from models.data.columns import Layout
from models.emissions.block import Emission
from models.rows.encoded import Rows

MOST_NAMED = 8  # columns named in words


def observed(emission: Emission, rows: Rows) -> Array:
    """(N, D): the values of a table, NaN where a cell is missing."""
    return emission.encoding.observation(rows.x)


def completed(emission: Emission, algebra: Algebra, key: Array, hyper: Hyper, sites: Sites, rows: Rows) -> Array:
    """(N, D): the rows with missing cells drawn, first the component given the observed cells, then the cells given it."""
    key_z, key_x = jax.random.split(key)
    z = algebra.latent.sample(
        key_z, algebra.local_natural_parameters(algebra.natural(hyper, sites))(algebra.features(hyper, rows))
    )
    observed = emission.encoding.observation(rows.x)
    component, cells = emission.hidden.component(z), emission.hidden.cells(z)
    if cells is not None:
        drawn = (component[:, :, None] * cells.centre).sum(1) + jnp.asarray(hyper["origin"])[None, :]
    else:  # independent columns: given the component, a cell does not depend on the other cells
        drawn = emission.encoding.observation(emission.likelihood.draw(key_x, sites, jnp.argmax(component, axis=1)))
    return jnp.where(jnp.isnan(observed), drawn, observed)


def expected(emission: Emission, algebra: Algebra, hyper: Hyper, sites: Sites, rows: Rows) -> tuple[Expected, ...]:
    """Every column given the observed cells of its row: Σ_k r_nk p(x_nd | z_n = k, observed cells), by its moments."""
    z = algebra.latent.mean(
        jax.random.PRNGKey(0), algebra.local_natural_parameters(algebra.natural(hyper, sites))(algebra.features(hyper, rows))
    )
    component, cells = emission.hidden.component(z), emission.hidden.cells(z)
    if cells is not None:
        mean = (component[:, :, None] * cells.centre).sum(1)
        within = (cells.centre - mean[:, None, :]) ** 2 + jnp.diagonal(cells.covariance, axis1=-2, axis2=-1)
        variance = (component[:, :, None] * within).sum(1)
        away = mean + jnp.asarray(hyper["origin"])[None, :]
        return tuple(Expected(away[:, d], variance[:, d]) for d in range(mean.shape[1]))
    assert emission.profile is not None
    return tuple(_mixed(component, each) for each in emission.profile(sites))


def _mixed(component: Array, column: Expected) -> Expected:
    mean = component @ column.mean
    if column.variance is None:
        return Expected(mean, None)
    within = (column.mean[None, :] - mean[:, None]) ** 2 + column.variance[None, :]
    return Expected(mean, (component * within).sum(1))


def explained(what: str, like: Layout, label: str | None) -> str:
    """The variables of the density, in words: kinds and names of the columns, and the label where it is modelled."""
    words = {"number": "numbers", "category": "categories", "count": "counts"}
    if len(set(like.kinds)) > 1:
        kinds = [(words[kind], [c for c, each in zip(like.columns, like.kinds, strict=True) if each == kind]) for kind in words]
    else:
        kinds = [(what, list(like.columns))]
    parts = [f"{word}: {_named(names)}" for word, names in kinds if names]
    return "; ".join([*parts, *([label] if label else [])])


def _named(names: Sequence[str]) -> str:
    """Names of columns; of many a few and a number that tells them from others."""
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:3])} and {len(names) - 3} more ({crc32(chr(0).join(names).encode()):08x})"
