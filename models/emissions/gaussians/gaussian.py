"""Gaussian likelihood blocks: the covariance type is a choice among `GAUSSIANS`, not a branch.

With weak default priors in the manner of mclust (Fraley and Raftery 2007), on K means and their precisions:

    Λ ~ Wishart(dof, scatter⁻¹) or τ ~ Gamma(dof / 2, scatter / 2),     μ | Λ ~ Normal(location, (strength Λ)⁻¹)

Statistics are sums about a fixed ``origin`` (the column means of the data that the model was built on), so that an offset
of the data costs no digits.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from models.abilities import Expected
from models.base import Data, Sites
from models.emissions.block import BlockNaming, BlockPrior, Emission, Encoding, Likelihood
from models.emissions.gaussians import columns, matrices
from models.emissions.gaussians.discriminants import discriminant
from models.families.conjugate import normal_gamma, normal_wishart
from models.families.normal_mean import normal_mean
from models.latents.missing_cells import missing_cells
from models.rows.centring import centre, encode, origin, table, translated
from models.rows.masks import observation
from models.rows.scales import usual_moments, without_spread


def _defaults(scatter: Callable[[np.ndarray], Any], dof: Callable[[int], float]) -> Callable[..., dict[str, Any]]:
    def defaults(data: Data, num_components: int) -> dict[str, Any]:
        mean, variance = usual_moments(data)
        spread = variance / num_components ** (2 / len(mean))  # the share of one of K components, as in mclust
        return {"location": mean, "strength": 0.1, "dof": dof(len(mean)), "scatter": scatter(spread)}

    return defaults


def _shapes(dimension: int, scatter: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"location": (dimension,), "strength": (), "dof": (), "scatter": scatter}


def _unit_defaults(data: Data, num_components: int) -> dict[str, Any]:
    return {"location": np.zeros(len(data.columns)), "strength": 1.0}


def _check(data: Data) -> None:
    table(data)  # refuses columns of categories


def _coords(data: Data) -> dict[str, list[Any]]:
    return {"feature": list(data.columns), "feature_": list(data.columns)}


_MEAN = ("component", "feature")
_HYPER = (("location", ("feature",)), ("origin", ("feature",)))
_SETTABLE = ("location", "strength", "dof", "scatter")


def _profile(variance: Callable[[Sites], Array]) -> Callable[[Sites], tuple[Expected, ...]]:
    """Means and, from the ``variance`` of the columns in every component, (K, D) or what broadcasts to it."""

    def profile(sites: Sites) -> tuple[Expected, ...]:
        mean = jnp.asarray(sites["mean"])
        spread = jnp.broadcast_to(variance(sites), mean.shape)
        return tuple(Expected(mean[:, d], spread[:, d]) for d in range(mean.shape[1]))

    return profile


def _profile_of_matrices(sites: Sites) -> tuple[Expected, ...]:
    """As `_profile`, with the covariances of the columns, from precision matrices (K, D, D), or one (D, D) for all."""
    mean = jnp.asarray(sites["mean"])
    covariance = jnp.broadcast_to(jnp.linalg.inv(sites["precision"]), (*mean.shape, mean.shape[1]))
    return tuple(Expected(mean[:, d], covariance[:, d, d], covariance[:, d]) for d in range(mean.shape[1]))


_ENCODING = Encoding(
    encode=encode,
    translated=translated,
    observation=observation,
    check=_check,
    unscaled=without_spread,
    missing=True,
)


def _wishart_emission(tied: bool) -> Emission:
    return Emission(
        family=normal_wishart,
        prior=BlockPrior(
            parameters=_SETTABLE,
            defaults=_defaults(np.diag, lambda dimension: dimension + 2.0),
            bounds=lambda dimension: {"dof": dimension - 1.0},
            constants=origin,
            nu=partial(matrices.wishart_prior, tied=tied),
            shapes=lambda dimension: _shapes(dimension, (dimension, dimension)),
        ),
        likelihood=Likelihood(
            program=partial(matrices.wishart_program, tied=tied),
            features=matrices.centred,
            log_density=matrices.wishart_log_density,
            statistics=matrices.tied_statistics if tied else matrices.full_statistics,
            draw=matrices.wishart_draw,
            predictive=matrices.wishart_predictive,
            host_sums=None if tied else matrices.full_on_host,
        ),
        encoding=_ENCODING,
        coordinates=centre,
        sites=matrices.wishart_sites,
        natural=partial(matrices.wishart_natural, tied=tied),
        naming=BlockNaming(
            dims=(("mean", _MEAN), ("precision", ("feature", "feature_") if tied else (*_MEAN, "feature_")), *_HYPER),
            coords=_coords,
        ),
        discriminant=discriminant("tied" if tied else "full"),
        hidden=missing_cells,
        profile=_profile_of_matrices,
    )


def _gamma_emission(diagonal: bool) -> Emission:
    return Emission(
        family=normal_gamma,
        prior=BlockPrior(
            parameters=_SETTABLE,
            defaults=_defaults(np.asarray if diagonal else np.mean, lambda dimension: 3.0),
            bounds=lambda dimension: {},
            constants=origin,
            nu=partial(columns.gamma_prior, diagonal=diagonal),
            shapes=lambda dimension: _shapes(dimension, (dimension,) if diagonal else ()),
        ),
        likelihood=Likelihood(
            program=partial(columns.gamma_program, diagonal=diagonal),
            features=columns.squares,
            log_density=columns.gamma_log_density,
            statistics=columns.diag_statistics if diagonal else columns.spherical_statistics,
            draw=columns.gamma_draw,
            predictive=columns.gamma_predictive,
        ),
        encoding=_ENCODING,
        coordinates=centre,
        sites=columns.gamma_sites,
        natural=partial(columns.gamma_natural, diagonal=diagonal),
        naming=BlockNaming(
            dims=(("mean", _MEAN), ("precision", _MEAN if diagonal else ("component",)), *_HYPER),
            coords=_coords,
        ),
        discriminant=discriminant("diag" if diagonal else "spherical"),
        profile=_profile(lambda sites: 1 / (sites["precision"] if diagonal else sites["precision"][:, None])),
    )


GAUSSIANS: dict[str, Emission] = {
    "full": _wishart_emission(tied=False),
    "tied": _wishart_emission(tied=True),
    "diag": _gamma_emission(diagonal=True),
    "spherical": _gamma_emission(diagonal=False),
    "unit": Emission(
        family=normal_mean,
        prior=BlockPrior(
            parameters=("location", "strength"),
            defaults=_unit_defaults,
            bounds=lambda dimension: {},
            constants=origin,
            nu=columns.unit_prior,
            shapes=lambda dimension: {"location": (dimension,), "strength": ()},
        ),
        likelihood=Likelihood(
            program=columns.unit_program,
            features=columns.unit_rows,
            log_density=columns.unit_log_density,
            statistics=columns.unit_statistics,
            draw=columns.unit_draw,
        ),
        encoding=Encoding(
            encode=encode,
            translated=translated,
            observation=observation,
            check=lambda data: None,
            missing=True,
        ),
        coordinates=centre,
        sites=columns.unit_sites,
        natural=columns.unit_natural,
        naming=BlockNaming(
            dims=(("mean", _MEAN), *_HYPER),
            coords=_coords,
        ),
        discriminant=discriminant("unit"),
        profile=_profile(lambda sites: jnp.ones(())),
    ),
}
