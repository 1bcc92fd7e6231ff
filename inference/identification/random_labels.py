"""The random permutation move: every draw in a random labelling (Frühwirth-Schnatter 2001, random permutation sampling).

The posterior of a mixture is the same in all K! labellings, and a sampler may stay in one. A permutation drawn uniformly
after every step leaves the posterior alone, so that the chain visits all labellings equally often:

    θ_t ~ kernel(θ_t | θ_{t−1}),    σ_t uniform,    the draw kept is σ_t θ_t

Kernels do not look at the names of components: kernel(σ θ' | σ θ) = kernel(θ' | θ). A chain that goes on from σ_t θ_t
therefore has the same law as one that goes on from θ_t, because a product of uniform permutations is uniform. Chains here go on
from θ_t. Everything that a sampler remembers of its place stays right: the gradient of NUTS, its mass matrix, the replicas of
tempering. A mass matrix that saw all K! labellings would fit none of them.

Factors have a larger symmetry: a uniform rotation (Haar), or a uniform order with random signs.
How this can mislead: it moves between labellings, and never between modes that are genuinely different.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from inference.engine.task import Task
from inference.identification.moves import permute, turned_sites
from models.base import Model, Permutation, Rotation, Symmetry, ZooError

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
    """The draws (chain, draw, …) of a run in random labellings, by random numbers of their own."""
    seed = int(jax.random.bits(jax.random.fold_in(task.key, 2)))
    return in_random_labellings(draws, task.model.symmetry, task.model.naming.dims, seed)


def in_random_labellings(
    draws: Mapping[str, Any], symmetry: Symmetry, dims: Mapping[str, tuple[str, ...]], seed: int
) -> dict[str, np.ndarray]:
    """Draws (chain, draw, …) of all sites, each moved by a random element of the symmetry: the same one for all its sites.

    ``dims`` names the dimensions of the sites. What a draw is moved by depends on the seed, its chain and its place only, so
    that an interrupted run is the beginning of a longer one.
    """
    assert symmetry is not None
    values = {name: np.asarray(value) for name, value in draws.items()}
    size = _size(values, symmetry.dim, dims)
    chains = []
    for chain in range(len(next(iter(values.values())))):
        own = {name: value[chain] for name, value in values.items()}
        number = len(next(iter(own.values())))
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(chain,)))
        if isinstance(symmetry, Permutation):
            orders = rng.random((number, size)).argsort(1)
            chains.append({name: permute(value, orders, symmetry, dims.get(name, ())) for name, value in own.items()})
        elif isinstance(symmetry, Rotation):
            chains.append(turned_sites(own, symmetry, dims, random_rotations(rng, number, size)))
        else:
            chains.append(turned_sites(own, symmetry, dims, random_reflections(rng, number, size)))
    return {name: np.stack([chain[name] for chain in chains]) for name in values}


def random_rotations(rng: np.random.Generator, number: int, size: int) -> np.ndarray:
    """(S, L, L): uniform orthogonal matrices, by the QR decomposition of Gaussian ones (Mezzadri 2007)."""
    orthogonal, upper = np.linalg.qr(rng.standard_normal((number, size, size)))
    signs = np.sign(np.diagonal(upper, axis1=-2, axis2=-1))
    return np.asarray(orthogonal * signs[:, None, :])


def random_reflections(rng: np.random.Generator, number: int, size: int) -> np.ndarray:
    """(S, L, L): permutation matrices with random signs, all equally probable."""
    uniform = rng.random((number, 2, size))
    signs = np.where(uniform[:, 1] < 0.5, -1.0, 1.0)
    return np.asarray(np.eye(size)[uniform[:, 0].argsort(1)] * signs[..., None])


def _size(values: Mapping[str, np.ndarray], dim: str, dims: Mapping[str, tuple[str, ...]]) -> int:
    """The number of labels: the length of dimension ``dim`` of a site."""
    return next(value.shape[2 + dims[name].index(dim)] for name, value in values.items() if dim in dims.get(name, ()))
