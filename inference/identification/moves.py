"""Sites moved by an element of a symmetry: permuted, or rotated."""

from collections.abc import Mapping

import numpy as np

from models.base import Permutation, Reflection, Rotation


def permute(value: np.ndarray, permutation: np.ndarray, symmetry: Permutation, dims: tuple[str, ...]) -> np.ndarray:
    """Permute every axis of ``value`` (S, ...) whose dimension carries the labels, draw by draw."""
    for axis, name in enumerate(dims, start=1):
        if name in (symmetry.dim, *symmetry.also):
            order = _with_rest(permutation, value.shape[axis])
            index = order.reshape(order.shape[0], *(-1 if a == axis else 1 for a in range(1, value.ndim)))
            value = np.take_along_axis(value, index, axis)
    return value


def _with_rest(permutation: np.ndarray, size: int) -> np.ndarray:
    """Permutations (S, K) extended to ``size`` entries, of which all after the first K stay."""
    rest = np.arange(permutation.shape[1], size)
    return np.concatenate([permutation, np.broadcast_to(rest, (len(permutation), len(rest)))], axis=1)


def turned_sites(
    sites: Mapping[str, np.ndarray], symmetry: Rotation | Reflection, dims: Mapping[str, tuple[str, ...]], moves: np.ndarray
) -> dict[str, np.ndarray]:
    """Draws (S, ...) of all sites, multiplied by ``moves`` (S, L, L) along the dimension of the symmetry."""

    def turned(value: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
        if names[-1:] != (symmetry.dim,):
            return value
        # One number per factor moves with its factor and has no sign.
        return value @ moves if len(names) > 1 else (value[:, None, :] @ np.abs(moves))[:, 0]

    return {site: turned(value, dims.get(site, ())) for site, value in sites.items()}
