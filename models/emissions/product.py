"""Likelihood block for columns of several kinds, which are independent given the component.

    p(x_n | z_n = k) = Π_parts p(x_n[columns of the part] | θ_k of the part)

T, nu, features and rows are dicts with one entry per part; everything else is merged from the parts by name.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from models.abilities import Discriminant, Expected, Linear
from models.base import Data, Hyper, Sites, Stats
from models.data.table import keep_columns
from models.distributions.observed import SideBySide
from models.emissions.block import BlockNaming, BlockPrior, Emission, Encoding, Likelihood
from models.families.conjugate import joint
from models.latents.beside import Beside, beside
from models.latents.hidden import Hidden, component_alone


class Part(NamedTuple):
    """A likelihood block for some columns of the table."""

    name: str  # also the name of the dimension of its columns
    places: tuple[int, ...]  # indices of its columns in the table
    emission: Emission


@cache
def side_by_side(parts: tuple[Part, ...]) -> Emission:
    """Combine blocks with distinct names of sites and hyperparameters into one; cached."""

    def own(part: Part, data: Data) -> Data:
        return keep_columns(data, list(part.places))

    def merged(function: Callable[[Part], Mapping[str, Any]]) -> dict[str, Any]:
        return {name: value for part in parts for name, value in function(part).items()}

    def by_part(function: Callable[[Part], Any]) -> dict[str, Any]:
        return {part.name: function(part) for part in parts}

    hidden = beside(tuple((part.name, part.emission.hidden) for part in parts))

    def check(data: Data) -> None:
        for part in parts:
            part.emission.encoding.check(own(part, data))

    return Emission(
        family=joint({part.name: part.emission.family for part in parts}),
        prior=BlockPrior(
            parameters=tuple(name for part in parts for name in part.emission.prior.parameters),
            defaults=lambda data, num_components: merged(
                lambda part: part.emission.prior.defaults(own(part, data), num_components)
            ),
            bounds=lambda columns: merged(lambda part: part.emission.prior.bounds(len(part.places))),
            constants=lambda data: merged(lambda part: part.emission.prior.constants(own(part, data))),
            nu=lambda hyper, num_components: by_part(lambda part: part.emission.prior.nu(hyper, num_components)),
            shapes=lambda columns: merged(lambda part: part.emission.prior.shapes(len(part.places))),
        ),
        likelihood=Likelihood(
            program=lambda hyper, x, num_components, proper: SideBySide(
                [part.places for part in parts],
                [
                    part.emission.likelihood.program(hyper, x[:, np.array(part.places)], num_components, proper)
                    for part in parts
                ],
            ),
            features=lambda hyper, x: by_part(lambda part: part.emission.likelihood.features(hyper, x[part.name])),
            log_density=lambda T: _log_density(parts, T),
            statistics=lambda weight, completed: by_part(
                lambda part: part.emission.likelihood.statistics(weight, _completed(hidden, part, completed))
            ),
            draw=lambda key, sites, z: _draw(parts, key, sites, z),
        ),
        encoding=Encoding(
            encode=lambda data: by_part(lambda part: part.emission.encoding.encode(own(part, data))),
            observation=lambda x: _observation(parts, x),
            check=check,
            unscaled=lambda data: [name for part in parts for name in part.emission.encoding.unscaled(own(part, data))],
            translated=_translated(parts),
            missing=all(part.emission.encoding.missing for part in parts),
        ),
        coordinates=lambda hyper, x: jnp.concatenate(
            [part.emission.coordinates(hyper, x[part.name]) for part in parts], axis=1
        ),
        sites=lambda hyper, T: merged(lambda part: part.emission.sites(hyper, T[part.name])),
        natural=lambda hyper, sites: by_part(lambda part: part.emission.natural(hyper, sites)),
        naming=BlockNaming(
            dims=tuple(
                (site, tuple(_renamed(part, dim) for dim in dims)) for part in parts for site, dims in part.emission.naming.dims
            ),
            coords=lambda data: merged(
                lambda part: {
                    _renamed(part, dim): labels for dim, labels in part.emission.naming.coords(own(part, data)).items()
                }
            ),
            may_be_zero=tuple(name for part in parts for name in part.emission.naming.may_be_zero),
            harmless_zeros=tuple(name for part in parts for name in part.emission.naming.harmless_zeros),
            levels=_levels(parts),
            density_of="; ".join(part.emission.naming.density_of for part in parts),
        ),
        discriminant=_discriminant(parts),
        hidden=hidden,
        profile=lambda sites: _profile(parts, sites),
    )


def _renamed(part: Part, dim: str) -> str:
    """Name the dimension of the columns after the part."""
    return dim.replace("feature", part.name) if dim in ("feature", "feature_") else dim


def _levels(parts: tuple[Part, ...]) -> tuple[tuple[str, ...], ...]:
    """Of every column in the order of the table, () where it is no category."""
    found = {
        place: own
        for part in parts
        for place, own in zip(part.places, part.emission.naming.levels or ((),) * len(part.places), strict=True)
    }
    return tuple(found[place] for place in sorted(found))


def _observation(parts: tuple[Part, ...], x: Mapping[str, Any]) -> Array:
    """(N, D): the columns in the order of the table, NaN for a missing cell."""
    places = np.concatenate([part.places for part in parts])
    found = jnp.concatenate([part.emission.encoding.observation(x[part.name]).astype(float) for part in parts], axis=1)
    return found[:, np.argsort(places)]


def _translated(parts: tuple[Part, ...]) -> Callable[[Any, np.ndarray], Any] | None:
    """Subtract the origin from the numeric part, if there is one."""
    moving = {part.name: part.emission.encoding.translated for part in parts if part.emission.encoding.translated is not None}
    if not moving:
        return None
    ((name, move),) = moving.items()
    return lambda x, origin: {**x, name: move(x[name], origin)}


def _profile(parts: tuple[Part, ...], sites: Sites) -> tuple[Expected, ...]:
    found: dict[int, Expected] = {}
    for part in parts:
        assert part.emission.profile is not None
        found |= dict(zip(part.places, part.emission.profile(sites), strict=True))
    return tuple(found[place] for place in sorted(found))


def _log_density(parts: tuple[Part, ...], T: Stats) -> Callable[[Mapping[str, Any]], Any]:
    """The sum over parts, beside the own latents of those that have some."""
    densities = {part.name: part.emission.likelihood.log_density(T[part.name]) for part in parts}

    def log_density(features: Mapping[str, Any]) -> Any:
        found = {name: density(features[name]) for name, density in densities.items()}
        component = sum((part.emission.hidden.component(found[part.name]) for part in parts), jnp.zeros(()))
        own = {part.name: found[part.name] for part in parts if part.emission.hidden is not component_alone}
        return Beside(component, own) if own else component

    return log_density


def _completed(hidden: Hidden, part: Part, completed: Any) -> Any:
    """What the statistics of a part read."""
    return completed[part.name] if hidden is component_alone else completed.of(part.name, part.emission.hidden)


def _draw(parts: tuple[Part, ...], key: Array, sites: Sites, z: Array) -> dict[str, Any]:
    keys = jax.random.split(key, len(parts))
    return {part.name: part.emission.likelihood.draw(k, sites, z) for k, part in zip(keys, parts, strict=True)}


def _discriminant(parts: tuple[Part, ...]) -> Discriminant | None:
    """Sum of biases, features prefixed by the part; None unless the log densities of all parts are linear in features."""
    own = {part.name: part.emission.discriminant for part in parts if part.emission.discriminant is not None}
    if len(own) < len(parts):
        return None

    def named(part: str, entries: Mapping[str, Any]) -> dict[str, Any]:
        return {f"{part} {name}": value for name, value in entries.items()}

    def linear(hyper: Hyper, sites: Sites) -> Linear:
        found = {part: each.linear(hyper, sites) for part, each in own.items()}
        weights = {name: value for part, each in found.items() for name, value in named(part, each.weights).items()}
        return Linear(sum((each.bias for each in found.values()), jnp.zeros(())), weights)

    def features(x: Mapping[str, Any]) -> dict[str, Array]:
        found = (named(part, each.features(x[part])) for part, each in own.items())
        return {name: value for entries in found for name, value in entries.items()}

    dims = tuple(
        (f"{part.name} {feature}", tuple(_renamed(part, dim) for dim in names))
        for part in parts
        for feature, names in own[part.name].dims
    )
    return Discriminant(linear, features, dims)
