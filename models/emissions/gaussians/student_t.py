"""Gaussian blocks with the heavy tails of a Student-t: rows far away count little. K components, rows of D columns:

    mean_k, precision_k ~ the Gaussian block's prior (`models.emissions.gaussians.gaussian`)
    ν_k ~ Gamma(tail_shape, tail_rate), or a given number                                        (K,)
    x | z = k ~ Student-t(ν_k, mean_k, precision_k⁻¹)

precision_k⁻¹ is the scale matrix; the covariance is ν_k / (ν_k − 2) times it where ν_k > 2, and infinite elsewhere. Given the
precision factor u of a row (`models.latents.precision_factors`), x is Normal(mean_k, (u precision_k)⁻¹): its statistics are
those of the Gaussian block, with x and x xᵀ counted u times.

Means and precisions are those of Peel and McLachlan (2000); Gamma(2, 0.1) is the prior of Juárez and Steel (2010).
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist
from numpyro.distributions import constraints

from models.base import Data, Family, Hyper, Sites, Stats, ZooError, on_host
from models.emissions.block import Emission
from models.emissions.gaussians.columns import ObservedSquares
from models.emissions.gaussians.gaussian import GAUSSIANS
from models.families.cholesky import half_log_determinant
from models.families.conjugate import GaussianStats, joint
from models.families.degrees_of_freedom import TailStats, degrees_of_freedom, normaliser, point
from models.families.log_gamma import log_gamma
from models.latents.missing_cells import Completion, Partial
from models.latents.precision_factors import Factored, FactoredRows, FactorGiven, precision_factors
from models.rows.centring import LOG_2PI, flat
from models.rows.scales import robust_moments

ESTIMATED = "estimated"
GAUSSIAN, TAILS = "gaussian", "tails"  # parts of T and nu
SITE = "degrees_of_freedom"


class Form(NamedTuple):
    """What tells one covariance from another."""

    half_log_det: Callable[
        [GaussianStats, Array], Array
    ]  # (T, cells observed (N, D) or (1, D)) -> ½ log det Λ: (N or 1, K or 1)
    scatter: Callable[[np.ndarray], Any]  # variances of the columns (D,) -> the prior's scatter
    scale_tril: Callable[[Any], Array]  # the Gaussian components of the program -> Cholesky factors of their covariances


_MATRIX = Form(lambda T, observed: T.exponent.reshape(1, -1), np.diag, lambda normal: normal.scale_tril)
FORMS: Mapping[str, Form] = {
    "full": _MATRIX,
    "tied": _MATRIX,
    "diag": Form(lambda T, observed: observed @ T.exponent.T, np.asarray, lambda normal: _diagonal(normal.base_dist.scale)),
    "spherical": Form(
        lambda T, observed: observed.sum(1, keepdims=True) * T.exponent[None],
        np.mean,
        lambda normal: _diagonal(normal.base_dist.scale),
    ),
}


def _diagonal(scale: Array) -> Array:
    return scale[..., None] * jnp.eye(scale.shape[-1], dtype=scale.dtype)


def student_t(covariance: str, degrees: Any, option: str) -> Emission:
    """The block for a ``covariance`` of `FORMS`; ``degrees`` of freedom are "estimated" or a number above 0.

    Raises `ZooError` for others; ``option`` is the one that chose the block.
    """
    if covariance not in FORMS:
        raise ZooError(f"covariance={covariance} has no precision to scale: {option}=student_t takes {', '.join(FORMS)}")
    if isinstance(degrees, str) and degrees == ESTIMATED:
        return _emission(covariance, None)
    if isinstance(degrees, bool) or not isinstance(degrees, int | float | np.integer | np.floating) or not 0 < degrees < np.inf:
        raise ZooError(f"degrees_of_freedom must be {ESTIMATED} or a number above 0, got {degrees!r}")
    return _emission(covariance, float(degrees))


class Degrees(NamedTuple):
    """What the degrees of freedom add to the Gaussian block: nothing where they are given, a part `TAILS` where estimated."""

    defaults: Mapping[str, float]  # hyperparameters of their prior
    bounds: Mapping[str, float]  # of these hyperparameters, from below
    families: Mapping[str, Family]
    nu: Callable[[Hyper, int], dict[str, Stats]]  # (hyper, K) -> prior
    program: Callable[[Hyper, int, bool], Array]  # (hyper, K, proper): samples the site, if it is one -> ν (K,)
    tails: Callable[[Stats], TailStats]  # T -> T(ν), (K,) or (1,)
    statistics: Callable[[Array, Factored], dict[str, Stats]]  # (weight (N, K), z)
    sites: Callable[[Stats], dict[str, Array]]
    natural: Callable[[Sites], dict[str, Stats]]
    of: Callable[[Sites, Array], Array]  # (sites, z (N,)) -> ν of every row
    dims: tuple[tuple[str, tuple[str, ...]], ...] = ()


def _given(degrees: float) -> Degrees:
    return Degrees(
        defaults={},
        bounds={},
        families={},
        nu=lambda hyper, num_components: {},
        program=lambda hyper, num_components, proper: jnp.full(num_components, degrees),
        tails=lambda T: point(jnp.full(1, 0.5 * degrees)),
        statistics=lambda weight, z: {},
        sites=lambda T: {},
        natural=lambda sites: {},
        of=lambda sites, z: jnp.full(z.shape, degrees),
    )


def _prior_of_degrees(hyper: Hyper, num_components: int) -> dict[str, Stats]:
    numbers = (0.0, -2 * hyper["tail_rate"], hyper["tail_shape"] - 1.0)
    return {TAILS: TailStats(*(on_host(np.full(num_components, float(number))) for number in numbers))}


def _sampled_degrees(hyper: Hyper, num_components: int, proper: bool) -> Array:
    """ν_k ~ Gamma(tail_shape, tail_rate); flat: improper uniform."""
    gamma = dist.Gamma(hyper["tail_shape"], hyper["tail_rate"]).expand((num_components,)).to_event(1) if proper else None
    found: Array = numpyro.sample(SITE, flat(constraints.positive, (num_components,)) if gamma is None else gamma)
    return found


def _tail_statistics(weight: Array, z: Factored) -> dict[str, Stats]:
    """Σ_n r_nk (1, log u − u + 1)."""
    count = weight.sum(0)
    return {TAILS: TailStats(count, (weight * (1 + z.log_factor - z.factor)).sum(0), jnp.zeros_like(count))}


_ESTIMATED = Degrees(
    defaults={"tail_shape": 2.0, "tail_rate": 0.1},
    bounds={"tail_shape": 1.0},
    families={TAILS: degrees_of_freedom},
    nu=_prior_of_degrees,
    program=_sampled_degrees,
    tails=lambda T: T[TAILS],
    statistics=_tail_statistics,
    sites=lambda T: {SITE: 2 * T[TAILS].half},
    natural=lambda sites: {TAILS: point(jnp.asarray(sites[SITE]) / 2)},
    of=lambda sites, z: jnp.asarray(sites[SITE])[z],
    dims=((SITE, ("component",)),),
)


@cache
def _emission(covariance: str, given: float | None) -> Emission:
    """One object for equal arguments, so that jitted code recognises it. ``given``: ν, or None where it is estimated."""
    gaussian, form = GAUSSIANS[covariance], FORMS[covariance]
    degrees = _ESTIMATED if given is None else _given(given)
    prior, likelihood = gaussian.prior, gaussian.likelihood
    return gaussian._replace(
        family=joint({GAUSSIAN: gaussian.family, **degrees.families}),
        prior=prior._replace(
            parameters=(*prior.parameters, *degrees.defaults),
            shapes=lambda dimension: prior.shapes(dimension) | dict.fromkeys(degrees.defaults, ()),
            defaults=lambda data, num_components: {**_defaults(gaussian, form, data, num_components), **degrees.defaults},
            constants=lambda data: {"origin": robust_moments(data)[0]},
            bounds=lambda dimension: {**prior.bounds(dimension), **degrees.bounds},
            nu=lambda hyper, num_components: {GAUSSIAN: prior.nu(hyper, num_components), **degrees.nu(hyper, num_components)},
        ),
        likelihood=likelihood._replace(
            program=partial(_program, gaussian, form, degrees),
            log_density=partial(_log_density, gaussian, form, degrees),
            statistics=partial(_statistics, gaussian, degrees),
            draw=partial(_draw, gaussian, degrees),
            predictive=None,
        ),
        encoding=gaussian.encoding._replace(missing=False, summed_out=True),
        sites=lambda hyper, T: gaussian.sites(hyper, T[GAUSSIAN]) | degrees.sites(T),
        natural=lambda hyper, sites: {GAUSSIAN: gaussian.natural(hyper, sites), **degrees.natural(sites)},
        naming=gaussian.naming._replace(dims=(*gaussian.naming.dims, *degrees.dims)),
        discriminant=None,  # log densities are no polynomials
        hidden=precision_factors,
        profile=gaussian.profile,  # of the scale: a variance may be infinite
    )


def _defaults(gaussian: Emission, form: Form, data: Data, num_components: int) -> dict[str, Any]:
    """The Gaussian block's, with medians and absolute deviations for means and variances: outliers must not set the scale."""
    centre, variance = robust_moments(data)
    spread = variance / num_components ** (2 / len(centre))
    return gaussian.prior.defaults(data, num_components) | {"location": centre, "scatter": form.scatter(spread)}


def _program(
    gaussian: Emission, form: Form, degrees: Degrees, hyper: Hyper, x: Array, num_components: int, proper: bool
) -> dist.Distribution:
    """The Gaussian block's program, then that of ν."""
    normal = gaussian.likelihood.program(hyper, x, num_components, proper)
    return dist.MultivariateStudentT(degrees.program(hyper, num_components, proper), normal.mean, form.scale_tril(normal))


def _log_density(gaussian: Emission, form: Form, degrees: Degrees, T: Stats) -> Callable[[Any], FactorGiven]:
    """E-step of (component, factor): q(u | k) = Gamma(h + D / 2, h − Q_nk), with h = ν / 2 and Q_nk = −½ E[(x − μ)ᵀ Λ (x − μ)].

    Log p(x, u | θ) = ½ log det Λ − D/2 log 2π + D/2 log u + u Q + log Gamma(u; h, h) is integrated over u in closed form. Under
    q(θ), every term is replaced by its mean. Of a row with missing cells, D is the number of the observed ones. For a matrix Λ,
    det Λ is then divided by det Λ_mm of the missing ones, and Q is at the means of these.
    """
    moments: GaussianStats = T[GAUSSIAN]
    tails = degrees.tails(T)
    dimension = moments.total.reshape(moments.total.shape[0], -1).shape[1]
    without_determinant = gaussian.likelihood.log_density(moments._replace(exponent=jnp.zeros_like(moments.exponent)))

    def log_density(features: Any) -> FactorGiven:
        given = without_determinant(features)
        cells = given if isinstance(given, Completion) else None
        of_missing = 0.0 if cells is None else half_log_determinant(cells.root)  # ½ log det Λ_mm
        observed = observed_cells(features, dimension)
        half_number = 0.5 * observed.sum(1, keepdims=True)
        quadratic = gaussian.hidden.component(given) + of_missing + half_number * LOG_2PI
        shape = tails.half[None, :] + half_number
        rate = tails.half[None, :] - jnp.minimum(quadratic, 0.0)  # rounding may lift it above 0
        half_log_det = form.half_log_det(moments, observed) - of_missing
        constant = half_log_det - half_number * (LOG_2PI + 1) + tails.factors[None, :] - normaliser(shape)
        component = constant - shape * jnp.log1p((rate - shape) / shape)  # log Γ(a) − a log b, without large numbers
        return FactorGiven(component, jnp.broadcast_to(shape, (shape.shape[0], rate.shape[1])), rate, cells)

    return log_density


def observed_cells(features: Any, dimension: int) -> Array:
    """1 for the observed cells of every row (N, D), 0 for the others; ones (1, D) of rows that are complete."""
    if isinstance(features, Partial):
        return 1 - features.missing
    if isinstance(features, ObservedSquares):
        return features.monomials[:, 2 * dimension :]
    return jnp.ones((1, dimension))


def _statistics(gaussian: Emission, degrees: Degrees, weight: Array, completed: FactoredRows) -> dict[str, Stats]:
    """Σ_n r_nk (1, u, u x, u x xᵀ) of the Gaussian block, and those of the degrees of freedom."""
    z, rows = completed
    if z.cells is not None and z.cells.covariance is not None:  # E[u cov(x | u)] does not depend on u
        rows = z.cells._replace(covariance=z.cells.covariance / z.factor[..., None, None])
    elif z.cells is not None:
        rows = z.cells
    moments = gaussian.likelihood.statistics(weight * z.factor, rows)
    exponent = gaussian.likelihood.statistics(weight, rows).exponent
    return {GAUSSIAN: moments._replace(exponent=exponent), **degrees.statistics(weight, z)}


def _draw(gaussian: Emission, degrees: Degrees, key: Array, sites: Sites, z: Array) -> Array:
    key_x, key_factor = jax.random.split(key)
    mean, half = jnp.asarray(sites["mean"])[z], 0.5 * degrees.of(sites, z)
    log_factor = log_gamma(key_factor, half) - jnp.log(half)  # a factor itself underflows at small half
    return mean + (gaussian.likelihood.draw(key_x, sites, z) - mean) * jnp.exp(-0.5 * log_factor)[:, None]
