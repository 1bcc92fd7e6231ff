"""Likelihood block for binary columns, of which any cell may be missing:

    feature_probs_kd ~ Beta(a_d, b_d)                 x_nd | z_n = k ~ Bernoulli(feature_probs_kd)

A Beta is a Dirichlet with two levels: T = (log(1 − p), log p) along the last axis, nu = (b − 1 + zeros, a − 1 + ones). Given
the component the columns are independent, so that a missing cell counts nowhere.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints
from scipy import sparse

from models.abilities import Discriminant, Linear
from models.base import Data, Hyper, Sites, on_host
from models.data.documents import Sequences, bag_of_words
from models.data.table import has_missing_cell, is_sparse, require_no_categories
from models.emissions import counts
from models.emissions.block import BlockNaming, BlockPrior, Emission, Encoding, Likelihood
from models.emissions.discrete import BY_COLUMN, CATEGORIES, column_coords, columns_expected, refuse
from models.families.conjugate import dirichlet, log_mean
from models.rows.centring import flat
from models.rows.masks import Cells


def _binary(data: Data) -> Any:
    """The table as booleans, False in a missing cell; raises `ZooError` for a cell other than 0 and 1."""
    if isinstance(data.x, Sequences):
        return bag_of_words(data).x != 0
    require_no_categories(data, CATEGORIES)
    if is_sparse(data.x) and data.x.format == "csr" and data.x.has_canonical_format and (data.x.data == 1).all():
        filled = (np.ones(data.x.nnz, bool), data.x.indices, data.x.indptr)
        return sparse.csr_array(filled, shape=data.x.shape)  # `astype` would copy the places of the cells
    ones = data.x == 1
    sound = (data.x.data == 1).all() if is_sparse(data.x) else (ones | (data.x == 0)).all()
    if not sound:
        needs = "emission=bernoulli takes 0 and 1: binarise with data.threshold=<number>, or choose another emission"
        refuse(data, lambda x: (x != 0) & (x != 1) & ~np.isnan(x), needs)
    return ones


def _check_binary(data: Data) -> None:
    _binary(data)


def _encode_binary(data: Data) -> Any:
    x = _binary(data)
    return counts.encode(x) if not has_missing_cell(data) else Cells(on_host(x), on_host(~np.isnan(data.x)))


def _binary_as_float(x: Any) -> Any:
    return Cells(x.value.astype(float), x.observed.astype(float)) if isinstance(x, Cells) else counts.as_float(x)


def _observed_binary(x: Any) -> Array:
    """(N, D), NaN for a missing cell."""
    x = _binary_as_float(x)
    return jnp.where(x.observed > 0, x.value, jnp.nan) if isinstance(x, Cells) else counts.dense(x)


def _prior(hyper: Hyper, num_components: int) -> Array:
    pair = np.stack([hyper["b"] - 1, hyper["a"] - 1], axis=-1)
    return on_host(np.tile(pair, (num_components, 1, 1)))


def _program(hyper: Hyper, x: Array, num_components: int, proper: bool) -> dist.Distribution:
    shape = (num_components, x.shape[1])
    beta = dist.Beta(hyper["a"], hyper["b"]).expand(shape).to_event(2) if proper else flat(constraints.unit_interval, shape)
    return dist.Bernoulli(probs=numpyro.sample("feature_probs", beta)).to_event(1)


def _log_density(T: Array) -> Callable[[Any], Array]:
    """Σ_d log p(x_nd | k) over the observed cells."""

    def log_density(x: Any) -> Array:
        if isinstance(x, Cells):
            return counts.log_mass(x.value, T[..., 1]) + counts.log_mass(x.observed - x.value, T[..., 0])
        return counts.log_mass_binary(x, T[..., 1], T[..., 0])

    return log_density


def _statistics(weight: Array, x: Any) -> Array:
    """Σ_n weight_nk (1 − x_nd, x_nd) over the observed cells."""
    if isinstance(x, Cells):
        return jnp.stack([counts.totals(weight, x.observed - x.value), counts.totals(weight, x.value)], axis=-1)
    return jnp.stack(counts.totals_binary(weight, x), axis=-1)


def _natural(hyper: Hyper, sites: Sites) -> Array:
    probs = jnp.asarray(sites["feature_probs"])
    return jnp.stack([jnp.log1p(-probs), jnp.log(probs)], axis=-1)


def _linear(hyper: Hyper, sites: Sites) -> Linear:
    absent, present = jnp.moveaxis(_natural(hyper, sites), -1, 0)
    return Linear(absent.sum(1), {"x": present - absent})


def _draw(key: Array, sites: Sites, z: Array) -> Array:
    return jax.random.bernoulli(key, sites["feature_probs"][z])


bernoulli = Emission(
    family=dirichlet,
    prior=BlockPrior(
        parameters=("a", "b"),
        defaults=lambda data, num_components: {"a": 2.0, "b": 2.0},
        bounds=lambda columns: {},
        constants=lambda data: {},
        nu=_prior,
        shapes=lambda columns: {"a": (columns,), "b": (columns,)},
    ),
    likelihood=Likelihood(
        program=_program,
        features=lambda hyper, x: _binary_as_float(x),
        log_density=_log_density,
        statistics=_statistics,
        draw=_draw,
        predictive=lambda nu: _log_density(log_mean(nu)),
    ),
    encoding=Encoding(
        encode=_encode_binary,
        observation=_observed_binary,
        check=_check_binary,
        missing=True,
    ),
    coordinates=lambda hyper, x: counts.coordinates(counts.as_float(x.value if isinstance(x, Cells) else x)),
    sites=lambda hyper, T: {"feature_probs": jnp.exp(T[..., 1])},
    natural=_natural,
    naming=BlockNaming(
        dims=(("feature_probs", BY_COLUMN), ("a", ("feature",)), ("b", ("feature",))),
        coords=column_coords,
        density_of="binary columns",
    ),
    discriminant=Discriminant(_linear, lambda x: {"x": _observed_binary(x)}, (("x", ("feature",)),)),
    profile=lambda sites: columns_expected(sites["feature_probs"], sites["feature_probs"] * (1 - sites["feature_probs"])),
)
