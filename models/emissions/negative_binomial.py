"""Likelihood block for counts that vary more than Poisson counts: K components, rows of D columns.

    rate_kd ~ Gamma(shape_d, inverse_scale_d)                                                    (K, D)
    inverse_dispersion_kd ~ Gamma(inverse_dispersion_shape_d, inverse_dispersion_rate_d)         (K, D)
    x_nd | z_n = k ~ NegativeBinomial(rate_kd, inverse_dispersion_kd)

With r = inverse_dispersion, x has mean rate and variance rate + rate² / r (the size of R, the concentration of NumPyro's
NegativeBinomial2, SciPy's n with p = r / (r + rate)). Large r is a Poisson count. Given the relative rates u of a row
(`models.latents.relative_rates`), x is Poisson(u rate): rate then has the statistics of the Poisson block, with u in place of
an exposure of 1, and r those of the shape of Gamma(r, r) factors (`models.families.degrees_of_freedom`).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.abilities import Expected
from models.base import Hyper, Sites, Stats, on_host
from models.distributions.counts import NegativeBinomial
from models.emissions import counts
from models.emissions.counts import Counts
from models.emissions.discrete import poisson
from models.families.conjugate import joint
from models.families.degrees_of_freedom import TailStats, inverse_dispersion, log_ratio, normaliser, point
from models.families.log_gamma import log_gamma
from models.latents.relative_rates import RatedRows, RateGiven, relative_rates
from models.rows.centring import flat

RATE, DISPERSION = "rate", "dispersion"  # parts of T and nu
SITE = "inverse_dispersion"
PRIOR = {
    "inverse_dispersion_shape": 2.0,
    "inverse_dispersion_rate": 0.1,
}  # from 2.4 to 56 with probability 0.95: nearly Poisson


def _prior(hyper: Hyper, num_components: int) -> dict[str, Stats]:
    numbers = (0 * hyper["shape"], -hyper["inverse_dispersion_rate"], hyper["inverse_dispersion_shape"] - 1.0)
    tails = TailStats(*(on_host(np.tile(number, (num_components, 1))) for number in numbers))
    return {RATE: poisson.prior.nu(hyper, num_components), DISPERSION: tails}


def _program(hyper: Hyper, x: Array, num_components: int, proper: bool) -> dist.Distribution:
    rate = poisson.likelihood.program(hyper, x, num_components, proper).base_dist.rate
    if proper:
        gamma = dist.Gamma(hyper["inverse_dispersion_shape"], hyper["inverse_dispersion_rate"])
        return NegativeBinomial(rate, numpyro.sample(SITE, gamma.expand(rate.shape).to_event(2))).to_event(1)
    return NegativeBinomial(rate, numpyro.sample(SITE, flat(constraints.positive, rate.shape))).to_event(1)


def _features(hyper: Hyper, x: Counts) -> Counts:
    found: Counts = poisson.likelihood.features(hyper, x)
    return found._replace(value=counts.dense(found.value))


def _log_density(T: Stats) -> Callable[[Counts], RateGiven]:
    """E-step of (component, relative rates): q(u | k) = Gamma(r + x, r + E[rate]), and the log density without u.

    Log p(x, u | θ) = x log rate − u rate + x log u − log x! + log Gamma(u; r, r) is integrated over u in closed form. Under
    q(θ), every term is replaced by its mean. With a = r + x and g of the family, it is x log rate − log x! + g(r) − g(a) − x −
    a log((r + rate) / a), in which no large numbers cancel.
    """
    half, mean = T[DISPERSION].half, -T[RATE].exposure

    def log_density(x: Counts) -> RateGiven:
        value = counts.dense(x.value)[:, None, :]
        seen = jnp.ones(()) if x.observed is None else x.observed[:, None, :]
        shape, expected = half[None] + value, mean[None] * seen
        ratio = log_ratio(expected, half[None], value)
        cells = T[DISPERSION].factors[None] - normaliser(shape) - value - shape * ratio
        component = counts.log_mass(x.value, T[RATE].events) + (seen * cells).sum(-1) + x.carrier[:, None]
        return RateGiven(component, shape, jnp.broadcast_to(half[None] + expected, shape.shape))

    return log_density


def _statistics(weight: Array, completed: RatedRows) -> dict[str, Stats]:
    """Σ_n r_nk (x, u) of the rates, and Σ_n r_nk (1, log u − u + 1) of the inverse dispersions, over observed cells."""
    z, rows = completed
    rates = poisson.likelihood.statistics(weight, rows)
    cells = weight[:, :, None] * (jnp.ones_like(rows.value) if rows.observed is None else rows.observed)[:, None, :]
    gain = (cells * (1 + z.log_factor - z.factor)).sum(0)
    tails = TailStats(rates.exposure, gain, jnp.zeros_like(gain))
    return {RATE: rates._replace(exposure=(cells * z.factor).sum(0)), DISPERSION: tails}


def _draw(key: Array, sites: Sites, z: Array) -> Counts:
    key_factor, key_x = jax.random.split(key)
    shape = jnp.asarray(sites[SITE])[z]
    log_factor = log_gamma(key_factor, shape) - jnp.log(shape)
    return poisson.likelihood.draw(key_x, {"rate": jnp.asarray(sites["rate"])[z] * jnp.exp(log_factor)}, jnp.arange(len(z)))


def _profile(sites: Sites) -> tuple[Expected, ...]:
    rate = jnp.asarray(sites["rate"])
    variance = rate + rate**2 / jnp.asarray(sites[SITE])
    return tuple(Expected(*pair) for pair in zip(rate.T, variance.T, strict=True))


negative_binomial = poisson._replace(
    family=joint({RATE: poisson.family, DISPERSION: inverse_dispersion}),
    prior=poisson.prior._replace(
        parameters=(*poisson.prior.parameters, *PRIOR),
        shapes=lambda columns: poisson.prior.shapes(columns) | dict.fromkeys(PRIOR, (columns,)),
        defaults=lambda data, num_components: poisson.prior.defaults(data, num_components) | PRIOR,
        bounds=lambda columns: {"inverse_dispersion_shape": 1.0},
        nu=_prior,
    ),
    likelihood=poisson.likelihood._replace(
        program=_program, features=_features, log_density=_log_density, statistics=_statistics, draw=_draw
    ),
    coordinates=lambda hyper, x: jnp.log1p(poisson.coordinates(hyper, x)),  # a few large counts are no group of their own
    sites=lambda hyper, T: poisson.sites(hyper, T[RATE]) | {SITE: T[DISPERSION].half},
    natural=lambda hyper, sites: {RATE: poisson.natural(hyper, sites), DISPERSION: point(jnp.asarray(sites[SITE]))},
    naming=poisson.naming._replace(
        dims=(*poisson.naming.dims, (SITE, ("component", "feature")), *((name, ("feature",)) for name in PRIOR))
    ),
    discriminant=None,  # log densities are not linear in features of the row that all components share
    hidden=relative_rates,
    profile=_profile,
)
