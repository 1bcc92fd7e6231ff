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

from models import gaussian_columns as columns
from models import gaussian_matrices as matrices
from models.base import Data, Expected, Sites, ZooError
from models.emissions import Emission
from models.families import normal_gamma, normal_wishart
from models.gaussian_discriminants import discriminant
from models.gaussian_rows import centre, constant_columns, encode, moments, origin, table
from models.latents import cells
from models.missing import observation
from models.normal_mean import normal_mean


def _defaults(scatter: Callable[[np.ndarray], Any], dof: Callable[[int], float]) -> Callable[..., dict[str, Any]]:
    def defaults(data: Data, num_components: int) -> dict[str, Any]:
        mean, variance = moments(data)
        spread = variance / num_components ** (2 / len(mean))  # the share of one of K components, as in mclust
        return {"location": mean, "strength": 0.1, "dof": dof(len(mean)), "scatter": scatter(spread)}

    return defaults


def _shapes(dimension: int, scatter: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"location": (dimension,), "strength": (), "dof": (), "scatter": scatter}


def _unit_defaults(data: Data, num_components: int) -> dict[str, Any]:
    return {"location": np.zeros(len(data.columns)), "strength": 1.0}


def _check_spread(data: Data) -> None:
    x = table(data) if data.weight is None else table(data)[data.weight > 0]
    constant = [data.columns[d] for d in constant_columns(x)]
    if constant:
        shown = ", ".join(repr(name) for name in constant[:5]) + (f" and {len(constant) - 5} more" if len(constant) > 5 else "")
        listed = f"column {shown} has" if len(constant) == 1 else f"columns {shown} have"
        raise ZooError(
            f"{data.name}: {listed} the same value in every row, so a Gaussian has no finite density there; "
            "leave it out with data.drop_constant=true"
        )


def _coords(data: Data) -> dict[str, list[Any]]:
    return {"column": list(data.columns), "column_": list(data.columns)}


_MEAN = ("component", "column")
_HYPER = (("location", ("column",)), ("origin", ("column",)))
_SETTABLE = ("location", "strength", "dof", "scatter")


def _profile(variance: Callable[[Sites], Array]) -> Callable[[Sites], tuple[Expected, ...]]:
    """Means and, from the ``variance`` of the columns in every component, (K, D) or what broadcasts to it."""

    def profile(sites: Sites) -> tuple[Expected, ...]:
        mean = jnp.asarray(sites["mean"])
        spread = jnp.broadcast_to(variance(sites), mean.shape)
        return tuple(Expected(mean[:, d], spread[:, d]) for d in range(mean.shape[1]))

    return profile


def _wishart_emission(tied: bool) -> Emission:
    return Emission(
        family=normal_wishart,
        parameters=_SETTABLE,
        defaults=_defaults(np.diag, lambda dimension: dimension + 2.0),
        bounds=lambda dimension: {"dof": dimension - 1.0},
        constants=origin,
        prior=partial(matrices.wishart_prior, tied=tied),
        program=partial(matrices.wishart_program, tied=tied),
        encode=encode,
        observation=observation,
        features=matrices.centred,
        log_density=matrices.wishart_log_density,
        statistics=matrices.tied_statistics if tied else matrices.full_statistics,
        coordinates=centre,
        sites=matrices.wishart_sites,
        natural=partial(matrices.wishart_natural, tied=tied),
        draw=matrices.wishart_draw,
        check=_check_spread,
        shapes=lambda dimension: _shapes(dimension, (dimension, dimension)),
        dims=(("mean", _MEAN), ("precision", ("column", "column_") if tied else (*_MEAN, "column_")), *_HYPER),
        coords=_coords,
        discriminant=discriminant("tied" if tied else "full"),
        predictive=matrices.wishart_predictive,
        missing=True,
        latent=cells,
        profile=_profile(lambda sites: jnp.diagonal(jnp.linalg.inv(sites["precision"]), axis1=-2, axis2=-1)),
    )


def _gamma_emission(diagonal: bool) -> Emission:
    return Emission(
        family=normal_gamma,
        parameters=_SETTABLE,
        defaults=_defaults(np.asarray if diagonal else np.mean, lambda dimension: 3.0),
        bounds=lambda dimension: {},
        constants=origin,
        prior=partial(columns.gamma_prior, diagonal=diagonal),
        program=partial(columns.gamma_program, diagonal=diagonal),
        encode=encode,
        observation=observation,
        features=columns.squares,
        log_density=columns.gamma_log_density,
        statistics=columns.diag_statistics if diagonal else columns.spherical_statistics,
        coordinates=centre,
        sites=columns.gamma_sites,
        natural=partial(columns.gamma_natural, diagonal=diagonal),
        draw=columns.gamma_draw,
        check=_check_spread,
        shapes=lambda dimension: _shapes(dimension, (dimension,) if diagonal else ()),
        dims=(("mean", _MEAN), ("precision", _MEAN if diagonal else ("component",)), *_HYPER),
        coords=_coords,
        discriminant=discriminant("diag" if diagonal else "spherical"),
        predictive=columns.gamma_predictive,
        missing=True,
        profile=_profile(lambda sites: 1 / (sites["precision"] if diagonal else sites["precision"][:, None])),
    )


GAUSSIANS: dict[str, Emission] = {
    "full": _wishart_emission(tied=False),
    "tied": _wishart_emission(tied=True),
    "diag": _gamma_emission(diagonal=True),
    "spherical": _gamma_emission(diagonal=False),
    "unit": Emission(
        family=normal_mean,
        parameters=("location", "strength"),
        defaults=_unit_defaults,
        bounds=lambda dimension: {},
        constants=origin,
        prior=columns.unit_prior,
        program=columns.unit_program,
        encode=encode,
        observation=observation,
        features=columns.unit_rows,
        log_density=columns.unit_log_density,
        statistics=columns.unit_statistics,
        coordinates=centre,
        sites=columns.unit_sites,
        natural=columns.unit_natural,
        draw=columns.unit_draw,
        check=lambda data: None,
        shapes=lambda dimension: {"location": (dimension,), "strength": ()},
        dims=(("mean", _MEAN), *_HYPER),
        coords=_coords,
        discriminant=discriminant("unit"),
        missing=True,
        profile=_profile(lambda sites: jnp.ones(())),
    ),
}
