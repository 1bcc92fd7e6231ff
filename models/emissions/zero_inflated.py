"""Likelihood block for counts with more zeros than another block of counts explains: K components, rows of D columns.

    zero_probs_kd ~ Beta(zero_a_d, zero_b_d)                                                     (K, D)
    θ             ~ the block's prior
    x_nd | z_n = k is 0 with probability zero_probs_kd, a structural zero, and otherwise drawn from the block

The block's columns must be independent given the component, and all its statistics of shape (K, D), as those of
`models.emissions.discrete.poisson` and `models.emissions.negative_binomial`. Whether a zero is structural is a latent of the
row (`models.latents.structural_zeros`). Given it, zero_probs have the statistics of a Beta, and θ those of the block, from the
cells that are no structural zeros. Lambert (1992).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.abilities import Expected
from models.base import Hyper, Sites, Stats, on_host
from models.emissions import counts
from models.emissions.block import Emission
from models.emissions.counts import Counts
from models.families.conjugate import dirichlet, joint
from models.latents.structural_zeros import InflatedRows, ZeroGiven, structural_zeros
from models.rows.centring import flat

COUNTS, ZEROS = "counts", "zeros"  # parts of T and nu; the last is (log(1 − zero_probs), log zero_probs) (K, D, 2)
SITE = "zero_probs"
PRIOR = {"zero_a": 2.0, "zero_b": 2.0}  # one pseudo-cell each: the mode stays interior


@cache
def zero_inflated(block: Emission) -> Emission:
    """The block whose counts are those of ``block``, zero-inflated; cached, one object for equal blocks."""
    prior, likelihood = block.prior, block.likelihood
    return block._replace(
        family=joint({COUNTS: block.family, ZEROS: dirichlet}),
        prior=prior._replace(
            parameters=(*prior.parameters, *PRIOR),
            shapes=lambda columns: prior.shapes(columns) | dict.fromkeys(PRIOR, (columns,)),
            defaults=lambda data, num_components: prior.defaults(data, num_components) | PRIOR,
            nu=lambda hyper, num_components: {COUNTS: prior.nu(hyper, num_components), ZEROS: _beta(hyper, num_components)},
        ),
        likelihood=likelihood._replace(
            program=partial(_program, block),
            features=partial(_features, block),
            log_density=partial(_log_density, block),
            statistics=partial(_statistics, block),
            draw=partial(_draw, block),
            predictive=None,
        ),
        sites=lambda hyper, T: block.sites(hyper, T[COUNTS]) | {SITE: jnp.exp(T[ZEROS][..., 1])},
        natural=partial(_natural, block),
        naming=block.naming._replace(
            dims=(*block.naming.dims, (SITE, ("component", "feature")), *((name, ("feature",)) for name in PRIOR)),
            harmless_zeros=(SITE,),
        ),
        discriminant=None,  # log densities are not linear in features of the row
        hidden=structural_zeros(block.hidden),
        profile=partial(_profile, block),
    )


def _beta(hyper: Hyper, num_components: int) -> Array:
    pair = np.stack([hyper["zero_b"] - 1, hyper["zero_a"] - 1], axis=-1)
    return on_host(np.tile(pair, (num_components, 1, 1)))


def _program(block: Emission, hyper: Hyper, x: Array, num_components: int, proper: bool) -> dist.Distribution:
    """The block's program, then the probabilities of structural zeros."""
    columns = block.likelihood.program(hyper, x, num_components, proper).base_dist
    shape = (num_components, x.shape[1])
    beta = dist.Beta(hyper["zero_a"], hyper["zero_b"]).expand(shape).to_event(2) if proper else None
    probs = numpyro.sample(SITE, flat(constraints.unit_interval, shape) if beta is None else beta)
    return dist.ZeroInflatedDistribution(columns, gate=probs).to_event(1)


def _features(block: Emission, hyper: Hyper, x: Counts) -> Counts:
    found: Counts = block.likelihood.features(hyper, x)
    return found._replace(value=counts.dense(found.value))


def _column(value: Array) -> Counts:
    """One column (N,) as rows of a block, without the part of the density that is free of parameters."""
    return Counts(value[:, None], jnp.zeros_like(value))


def _log_density(block: Emission, T: Stats) -> Callable[[Counts], ZeroGiven]:
    """E-step: log [zero_probs 1(x = 0) + (1 − zero_probs) p(x | θ_k)] of every cell, and the log-odds of a structural zero."""
    ordinary, structural = T[ZEROS][..., 0], T[ZEROS][..., 1]

    def of_column(T: Stats, value: Array) -> Any:
        return block.likelihood.log_density(jax.tree.map(lambda leaf: leaf[:, None], T))(_column(value))

    def log_density(x: Counts) -> ZeroGiven:
        value = counts.dense(x.value)
        latents = jax.vmap(of_column, 1, -1)(T[COUNTS], value)
        zero = (value == 0)[:, None, :]
        counted = ordinary[None] + jax.vmap(block.hidden.component, -1, -1)(latents)
        cells = jnp.where(zero, jnp.logaddexp(counted, structural[None]), counted)
        seen = cells if x.observed is None else jnp.where(x.observed[:, None, :] > 0, cells, 0.0)
        return ZeroGiven(seen.sum(-1) + x.carrier[:, None], jnp.where(zero, structural[None] - counted, -jnp.inf), latents)

    return log_density


def _statistics(block: Emission, weight: Array, completed: InflatedRows) -> dict[str, Stats]:
    """Those of the block from the cells that are no structural zeros, and how many cells are either."""
    z, rows = completed
    cells = weight[:, :, None] * (jnp.ones_like(rows.value) if rows.observed is None else rows.observed)[:, None, :]
    structural = cells * jnp.where((rows.value == 0)[:, None, :], z.structural, 0.0)
    counted = cells - structural

    def of_column(weight: Array, latents: Any, value: Array) -> Stats:
        found = block.likelihood.statistics(weight, block.hidden.complete(latents, _column(value)))
        return jax.tree.map(lambda leaf: leaf[:, 0], found)

    latents = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[:-1], rows.value.shape[1])), z.block)
    block_statistics = jax.vmap(of_column, (-1, -1, 1), 1)(counted, latents, rows.value)
    return {COUNTS: block_statistics, ZEROS: jnp.stack([counted.sum(0), structural.sum(0)], axis=-1)}


def _draw(block: Emission, key: Array, sites: Sites, z: Array) -> Counts:
    key_zero, key_x = jax.random.split(key)
    structural = jax.random.bernoulli(key_zero, jnp.asarray(sites[SITE])[z])
    value = jnp.where(structural, 0.0, block.likelihood.draw(key_x, sites, z).value)
    return Counts(value, -counts.row_factorials(value))


def _natural(block: Emission, hyper: Hyper, sites: Sites) -> dict[str, Stats]:
    probs = jnp.asarray(sites[SITE])
    return {COUNTS: block.natural(hyper, sites), ZEROS: jnp.stack([jnp.log1p(-probs), jnp.log(probs)], axis=-1)}


def _profile(block: Emission, sites: Sites) -> tuple[Expected, ...]:
    assert block.profile is not None
    counted = 1 - jnp.asarray(sites[SITE])
    columns = zip(counted.T, block.profile(sites), strict=True)
    return tuple(_inflated(*column) for column in columns)


def _inflated(counted: Array, column: Expected) -> Expected:
    """Moments of a column of which a share is ``counted`` (K,), and the others are 0."""
    assert column.variance is not None
    return Expected(counted * column.mean, counted * (column.variance + (1 - counted) * column.mean**2))
