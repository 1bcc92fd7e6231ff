"""p(x | component): the contract of the likelihood blocks that mixtures, classifiers and Markov models share.

An `Emission` joins a conjugate family with the rows that it explains: its textbook hyperparameters and the program's sites on
one side, ``<T(θ), u(x)>`` over a block of rows and its weighted sum on the other. `models.gaussians` holds the Gaussian ones,
`models.discrete` and `models.categories` the others.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from models.base import Data, Discriminant, Expected, Family, Hyper, Latent, Sites, Stats
from models.latents import categorical


class Emission(NamedTuple):
    """A conjugate likelihood block for K components."""

    family: Family
    parameters: tuple[str, ...]  # names of the hyperparameters that a user may set
    defaults: Callable[[Data, int], dict[str, Any]]  # (data, K) -> weak hyperparameters from the columns
    bounds: Callable[[int], Mapping[str, float]]  # columns -> what a hyperparameter must exceed, where it is not 0
    constants: Callable[[Data], dict[str, np.ndarray]]  # numbers that the statistics need under any prior
    prior: Callable[[Hyper, int], Stats]  # (hyper, K) -> nu
    program: Callable[[Hyper, Array, int, bool], Any]  # (hyper, x observed, K, proper): samples sites -> p(x | z), batch (K,)
    encode: Callable[[Data], Any]  # checked data -> x, on the host: a pytree of arrays with N rows
    observation: Callable[[Any], Array]  # x -> what the program observes
    features: Callable[[Hyper, Any], Any]  # (hyper, x) -> u(x)
    log_density: Callable[[Stats], Callable[[Any], Any]]  # T -> (u(x) -> (N, K): log p(x | z), expected or at a point)
    statistics: Callable[[Array, Any], Stats]  # (weight (N, K), u(x)) -> Σ_n weight u(x)
    coordinates: Callable[[Hyper, Any], Array]  # (hyper, x) -> (N, F): where a start looks for groups
    sites: Callable[[Hyper, Stats], dict[str, Array]]
    natural: Callable[[Hyper, Sites], Stats]
    draw: Callable[[Array, Sites, Array], Any]  # (key, sites, z (N,)) -> x
    check: Callable[[Data], None]  # raises ZooError for values that the block cannot explain
    shapes: Callable[[int], dict[str, tuple[int, ...]]]  # columns -> shapes of the hyperparameters
    dims: tuple[tuple[str, tuple[str, ...]], ...]  # site or hyperparameter -> names of its dimensions; pairs: hashable
    coords: Callable[[Data], dict[str, list[Any]]]  # dimension -> labels
    discriminant: Discriminant
    predictive: Callable[[Stats], Callable[[Any], Array]] | None = None  # nu -> (u(x) -> (N, K): log ∫ p(x | z) q(θ) dθ)
    missing: bool = False  # whether cells may be missing
    latent: Latent = categorical  # of the component, and of the missing cells where the block does not sum them out
    profile: Callable[[Sites], tuple[Expected, ...]] | None = None  # sites -> what every column looks like
    kind: str = "number"  # of its columns
    levels: tuple[tuple[str, ...], ...] = ()  # of every column, where they are categories
    explains: str = "numbers"  # what p(x | component) is a density or a probability of
