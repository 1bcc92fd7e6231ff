"""Likelihood blocks side by side: columns of several kinds, independent given the component.

    p(x_n | z_n = k) = Π_parts p(x_n[columns of the part] | θ_k of the part)

T, nu, features and rows are dicts with an entry a part; everything else is the parts' own, put together by name.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from models.base import Data, Discriminant, Expected, Hyper, Linear, Sites
from models.data import keep_columns
from models.distributions import SideBySide
from models.emissions import Emission
from models.families import joint


class Part(NamedTuple):
    """A block on some columns of the table."""

    name: str  # also the dimension of its columns
    places: tuple[int, ...]  # of its columns in the table
    emission: Emission


@cache
def side_by_side(parts: tuple[Part, ...]) -> Emission:
    """One block of several, whose sites and hyperparameters must have different names; one object for equal arguments."""

    def own(part: Part, data: Data) -> Data:
        return keep_columns(data, list(part.places))

    def merged(function: Callable[[Part], Mapping[str, Any]]) -> dict[str, Any]:
        return {name: value for part in parts for name, value in function(part).items()}

    def by_part(function: Callable[[Part], Any]) -> dict[str, Any]:
        return {part.name: function(part) for part in parts}

    def check(data: Data) -> None:
        for part in parts:
            part.emission.check(own(part, data))

    return Emission(
        family=joint({part.name: part.emission.family for part in parts}),
        parameters=tuple(name for part in parts for name in part.emission.parameters),
        defaults=lambda data, num_components: merged(lambda part: part.emission.defaults(own(part, data), num_components)),
        bounds=lambda columns: merged(lambda part: part.emission.bounds(len(part.places))),
        constants=lambda data: merged(lambda part: part.emission.constants(own(part, data))),
        prior=lambda hyper, num_components: by_part(lambda part: part.emission.prior(hyper, num_components)),
        program=lambda hyper, x, num_components, proper: SideBySide(
            [part.places for part in parts],
            [part.emission.program(hyper, x[:, np.array(part.places)], num_components, proper) for part in parts],
        ),
        encode=lambda data: by_part(lambda part: part.emission.encode(own(part, data))),
        observation=lambda x: _observation(parts, x),
        features=lambda hyper, x: by_part(lambda part: part.emission.features(hyper, x[part.name])),
        log_density=lambda T: _log_density(by_part(lambda part: part.emission.log_density(T[part.name]))),
        statistics=lambda weight, features: by_part(lambda part: part.emission.statistics(weight, features[part.name])),
        coordinates=lambda hyper, x: jnp.concatenate(
            [part.emission.coordinates(hyper, x[part.name]) for part in parts], axis=1
        ),
        sites=lambda hyper, T: merged(lambda part: part.emission.sites(hyper, T[part.name])),
        natural=lambda hyper, sites: by_part(lambda part: part.emission.natural(hyper, sites)),
        draw=lambda key, sites, z: _draw(parts, key, sites, z),
        check=check,
        shapes=lambda columns: merged(lambda part: part.emission.shapes(len(part.places))),
        dims=tuple((site, tuple(_renamed(part, dim) for dim in dims)) for part in parts for site, dims in part.emission.dims),
        coords=lambda data: merged(
            lambda part: {_renamed(part, dim): labels for dim, labels in part.emission.coords(own(part, data)).items()}
        ),
        discriminant=_discriminant(parts),
        missing=all(part.emission.missing for part in parts),
        profile=lambda sites: _profile(parts, sites),
        explains="; ".join(part.emission.explains for part in parts),
    )


def _renamed(part: Part, dim: str) -> str:
    """The columns of a part are a dimension of their own."""
    return dim.replace("column", part.name) if dim in ("column", "column_") else dim


def _observation(parts: tuple[Part, ...], x: Mapping[str, Any]) -> Array:
    """(N, D): the columns in the table's order, NaN where missing."""
    places = np.concatenate([part.places for part in parts])
    found = jnp.concatenate([part.emission.observation(x[part.name]).astype(float) for part in parts], axis=1)
    return found[:, np.argsort(places)]


def _profile(parts: tuple[Part, ...], sites: Sites) -> tuple[Expected, ...]:
    found: dict[int, Expected] = {}
    for part in parts:
        assert part.emission.profile is not None
        found |= dict(zip(part.places, part.emission.profile(sites), strict=True))
    return tuple(found[place] for place in sorted(found))


def _log_density(parts: Mapping[str, Callable[[Any], Array]]) -> Callable[[Mapping[str, Any]], Array]:
    def log_density(features: Mapping[str, Any]) -> Array:
        return sum((density(features[name]) for name, density in parts.items()), jnp.zeros(()))

    return log_density


def _draw(parts: tuple[Part, ...], key: Array, sites: Sites, z: Array) -> dict[str, Any]:
    keys = jax.random.split(key, len(parts))
    return {part.name: part.emission.draw(k, sites, z) for k, part in zip(keys, parts, strict=True)}


def _discriminant(parts: tuple[Part, ...]) -> Discriminant:
    """Biases add up; features are named by their part."""

    def named(part: Part, entries: Mapping[str, Any]) -> dict[str, Any]:
        return {f"{part.name} {name}": value for name, value in entries.items()}

    def linear(hyper: Hyper, sites: Sites) -> Linear:
        found = [(part, part.emission.discriminant.linear(hyper, sites)) for part in parts]
        weights = {name: value for part, each in found for name, value in named(part, each.weights).items()}
        return Linear(sum((each.bias for _, each in found), jnp.zeros(())), weights)

    def features(x: Mapping[str, Any]) -> dict[str, Array]:
        found = (named(part, part.emission.discriminant.features(x[part.name])) for part in parts)
        return {name: value for each in found for name, value in each.items()}

    dims = tuple(
        (f"{part.name} {feature}", tuple(_renamed(part, dim) for dim in names))
        for part in parts
        for feature, names in part.emission.discriminant.dims
    )
    return Discriminant(linear, features, dims)
