"""The random permutation move: every draw in a random labelling (Frühwirth-Schnatter 2001, random permutation sampling).

The posterior of a mixture is the same in all K! labellings, and a sampler may stay in one. A permutation drawn uniformly
after every step leaves the posterior alone, so that the chain visits all labellings equally often:

    θ_t ~ kernel(θ_t | θ_{t−1}),    σ_t uniform,    the stored draw is σ_t θ_t

Kernels do not look at the names of components: kernel(σ θ' | σ θ) = kernel(θ' | θ). A chain that goes on from σ_t θ_t
therefore has the same law as one that goes on from θ_t, because a product of uniform permutations is uniform. Chains here go on
from θ_t. The state of a sampler stays valid: the gradient of NUTS, its mass matrix, the replicas of
tempering. A mass matrix that saw all K! labellings would fit none of them.

Factors have a larger symmetry: a uniform rotation (Haar), or a uniform order with random signs.
How this can mislead: it moves between labellings, and never between modes that are genuinely different.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from inference.engine.task import Task
from models.base import Model, ZooError
from models.symmetries import Symmetry

OPTION = "permute_components"


def require_symmetry(model: Model) -> None:
    """A `ZooError` for a model whose posterior has no symmetry.

    >>> from models import MODELS
    >>> require_symmetry(MODELS["gmm"]([[1.0], [2.0], [4.0]]))
    """
    if model.symmetry is None:
        raise ZooError(
            f"{model.name}: {OPTION} needs a posterior that stays the same when components change places, and this model "
            f"declares no such symmetry; leave {OPTION} out"
        )


def drawn_labellings(task: Task, draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The draws (chain, draw, …) of a run in random labellings, by an independent random key."""
    seed = int(jax.random.bits(jax.random.fold_in(task.key, 2)))
    return in_random_labellings(draws, task.model.symmetry, task.model.naming.dims, seed)


def in_random_labellings(
    draws: Mapping[str, Any], symmetry: Symmetry, dims: Mapping[str, tuple[str, ...]], seed: int
) -> dict[str, np.ndarray]:
    """Draws (chain, draw, …) of all sites, each moved by a random element of the symmetry: the same one for all its sites.

    ``dims`` names the dimensions of the sites. The move of a draw depends on the seed, its chain and its place only, so
    that an interrupted run is the beginning of a longer one.
    """
    assert symmetry is not None
    values = {name: np.asarray(value) for name, value in draws.items()}
    size = _size(values, symmetry.dim, dims)
    chains = []
    for chain in range(len(next(iter(values.values())))):
        sites_of_chain = {name: value[chain] for name, value in values.items()}
        number = len(next(iter(sites_of_chain.values())))
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chain,)))
        chains.append(symmetry.moved(sites_of_chain, dims, symmetry.random(rng, number, size)))
    return {name: np.stack([chain[name] for chain in chains]) for name in values}


def _size(values: Mapping[str, np.ndarray], dim: str, dims: Mapping[str, tuple[str, ...]]) -> int:
    """The number of labels: the length of dimension ``dim`` of a site."""
    return next(value.shape[2 + dims[name].index(dim)] for name, value in values.items() if dim in dims.get(name, ()))
