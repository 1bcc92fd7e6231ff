"""p(z): the contract of the blocks that give a mixture the weights of its K components, as `Emission` is that of p(x | z).

A `Weights` has families of parameters, or none; log probs_k as a function of their T, and their statistics from Σ_n r_nk;
its textbook hyperparameters and the program's sites. `dirichlet` and `uniform` are here:

    probs ~ Dirichlet(concentration)        or        probs_k = 1 / K                            (K,)
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import distributions as dist

from models.base import Family, Hyper, Sites, Stats
from models.families.conjugate import dirichlet as dirichlet_family
from models.families.conjugate import log_mean


class WeightsPrior(NamedTuple):
    """Hyperparameters of weights in textbook terms, and in the form of statistics."""

    # parameter block -> the user's name of a number of its prior -> hyperparameter; pairs: hashable
    parameters: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    shapes: Callable[[int], dict[str, tuple[int, ...]]]  # K -> shapes of the hyperparameters
    defaults: tuple[tuple[str, float], ...]
    nu: Callable[[Hyper, int], dict[str, Stats]]  # (hyper, K) -> nu, by block


class WeightsNaming(NamedTuple):
    """The words of weights."""

    # site, functional or hyperparameter -> names of its dimensions, where "component" is that of the mixture; pairs: hashable
    dims: tuple[tuple[str, tuple[str, ...]], ...] = ()
    # labels of the components -> dimension -> labels, for dimensions of this block alone
    coords: Callable[[list[Any]], dict[str, list[Any]]] = lambda labels: {}


class Weights(NamedTuple):
    """The weights of K components, the prior of the component of a row."""

    name: str  # in an option
    families: tuple[tuple[str, Family], ...]  # parameter block -> conjugate family
    prior: WeightsPrior
    program: Callable[[Hyper, int, bool], Array]  # (hyper, K, proper): samples sites -> probs (K,)
    log_probs: Callable[[Mapping[str, Stats], int], Array]  # (T, K) -> (K,): log probs, expected or at a point
    statistics: Callable[[Array], dict[str, Stats]]  # Σ_n r_nk (K,) -> statistics, by block
    sites: Callable[[Mapping[str, Stats]], dict[str, Array]]  # T of a point -> the program's sites
    natural: Callable[[Sites], dict[str, Stats]]  # the program's sites -> T
    probs: Callable[[Sites, int], Array]  # (sites, K) -> (K,)
    bias: Callable[[Sites], Array | float]  # sites -> log probs (K,), up to a number that all components share
    functionals: Callable[[Sites, bool], dict[str, Array]]  # (sites, whether labels are exchangeable) -> summaries
    naming: WeightsNaming
    # (nu, K) -> (K,): log ∫ probs q(θ | nu) dθ, where there is a short form
    predictive: Callable[[Mapping[str, Stats], int], Array] | None = None
    coupling: Callable[[Mapping[str, Stats], Mapping[str, Stats]], Array] | None = None  # as of `models.base.Structure`
    exchangeable: bool = True  # whether the prior is the same in every order of the components
    # (K, whether priors are proper, whether labels are exchangeable) -> why there are no such weights, in words, or None
    why_impossible: Callable[[int, bool, bool], str | None] = lambda size, proper, exchangeable: None


@cache
def dirichlet(site: str) -> Weights:
    """Learned weights: probs ~ Dirichlet(concentration), sampled as ``site``; T = log probs, nu = concentration − 1 + Σ_n r_nk.

    With the family's ``mode`` this is the M-step probs_k ∝ concentration_k − 1 + Σ_n r_nk. A flat prior is uniform on the
    simplex.
    """

    def program(hyper: Hyper, size: int, proper: bool) -> Array:
        flat = dist.ImproperUniform(dist.constraints.simplex, (), (size,))
        return numpyro.sample(site, dist.Dirichlet(hyper["concentration"]) if proper else flat)

    def functionals(sites: Sites, exchangeable: bool) -> dict[str, Array]:
        return {"sorted_probs": -jnp.sort(-sites[site])} if exchangeable else {site: sites[site]}

    return Weights(
        name="learned",
        families=((site, dirichlet_family),),
        prior=WeightsPrior(
            parameters=((site, (("concentration", "concentration"),)),),
            shapes=lambda size: {"concentration": (size,)},
            defaults=(("concentration", 2.0),),
            nu=lambda hyper, size: {site: hyper["concentration"] - 1},
        ),
        program=program,
        log_probs=lambda T, size: T[site],
        statistics=lambda counts: {site: counts},
        sites=lambda T: {site: jnp.exp(T[site])},
        natural=lambda sites: {site: jnp.log(jnp.asarray(sites[site]))},
        probs=lambda sites, size: sites[site],
        bias=lambda sites: jnp.log(sites[site]),
        functionals=functionals,
        naming=WeightsNaming(
            dims=((site, ("component",)), ("sorted_probs", ("rank",)), ("concentration", ("component",))),
        ),
        predictive=lambda nu, size: log_mean(nu[site]),
    )


def _log_uniform(nothing: Any, size: int) -> Array:
    return jnp.full(size, -np.log(size))


def _uniform(nothing: Any, size: int) -> Array:
    return jnp.full(size, 1 / size)


uniform = Weights(
    name="uniform",
    families=(),
    prior=WeightsPrior(parameters=(), shapes=lambda size: {}, defaults=(), nu=lambda hyper, size: {}),
    program=lambda hyper, size, proper: _uniform(hyper, size),
    log_probs=_log_uniform,
    statistics=lambda counts: {},
    sites=lambda T: {},
    natural=lambda sites: {},
    probs=_uniform,
    bias=lambda sites: 0.0,
    functionals=lambda sites, exchangeable: {},
    naming=WeightsNaming(),
    predictive=_log_uniform,
)
