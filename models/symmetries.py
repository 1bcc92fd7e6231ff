"""Transformations that leave a posterior unchanged: labels that may be exchanged, factors that may be turned.

Each class names its transformations, draws random elements of its group, and moves sites by them. Shapes: S draws, K labels, L
factors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

Dims = Mapping[str, tuple[str, ...]]  # site -> names of its dimensions


@dataclass(frozen=True)
class Permutation:
    """Label switching: the posterior is unchanged when the entries along dimension ``dim`` are permuted.

    ``also`` names other dimensions with the same labels. Entries after these labels, such as a boundary state, stay in place.

    >>> import numpy as np
    >>> Permutation("component").moved({"mean": np.array([[1.0, 2.0]])}, {"mean": ("component",)}, np.array([[1, 0]]))
    {'mean': array([[2., 1.]])}
    """

    dim: str
    also: tuple[str, ...] = ()
    exchanges_labels: ClassVar[bool] = True
    turns_factors: ClassVar[bool] = False
    is_continuous: ClassVar[bool] = False

    def in_words(self) -> str:
        """What is free."""
        return "the labels"

    def num_flat(self, size: int) -> int:
        """The number of parameter directions in which the likelihood is flat, of ``size`` labels or factors."""
        return 0

    def random(self, rng: np.random.Generator, number: int, size: int) -> np.ndarray:
        """(S, K): permutations, all equally probable."""
        return rng.random((number, size)).argsort(1)

    def moved(self, sites: Mapping[str, np.ndarray], dims: Dims, moves: np.ndarray) -> dict[str, np.ndarray]:
        """Draws (S, ...) of all sites, with component ``moves[s, k]`` (S, K) of draw s in the place of component k."""
        return {name: self._permuted(np.asarray(value), dims.get(name, ()), moves) for name, value in sites.items()}

    def _permuted(self, value: np.ndarray, names: tuple[str, ...], moves: np.ndarray) -> np.ndarray:
        for axis, name in enumerate(names, start=1):
            if name in (self.dim, *self.also):
                rest = np.arange(moves.shape[1], value.shape[axis])
                order = np.concatenate([moves, np.broadcast_to(rest, (len(moves), len(rest)))], axis=1)
                index = order.reshape(len(order), *(-1 if a == axis else 1 for a in range(1, value.ndim)))
                value = np.take_along_axis(value, index, axis)
        return value


@dataclass(frozen=True)
class _OfFactors:
    """Base of rotations and reflections: factors along ``dim``, the last dimension of a site, are multiplied by matrices.

    ``also`` names other dimensions with the same factors, which move with them, as those before a transition.
    """

    dim: str
    scale: str | None = None  # hyperparameter that holds the standard deviations of the columns
    also: tuple[str, ...] = ()
    exchanges_labels: ClassVar[bool] = False
    turns_factors: ClassVar[bool] = True

    def moved(self, sites: Mapping[str, np.ndarray], dims: Dims, moves: np.ndarray) -> dict[str, np.ndarray]:
        """Draws (S, ...) of all sites, multiplied by ``moves`` (S, L, L) along the dimension of the factors."""
        return {name: self._turned(np.asarray(value), dims.get(name, ()), moves) for name, value in sites.items()}

    def axes(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """The axes of a site that hold factors, by the names of its dimensions."""
        return tuple(axis for axis, name in enumerate(names) if name in (self.dim, *self.also))

    def _turned(self, value: np.ndarray, names: tuple[str, ...], moves: np.ndarray) -> np.ndarray:
        if names == (self.dim,):  # one number per factor moves with its factor and has no sign
            return (value[:, None, :] @ np.abs(moves))[:, 0]
        for axis in self.axes(names):
            value = np.moveaxis(np.moveaxis(value, 1 + axis, -1) @ moves, -1, 1 + axis)
        return value


class Rotation(_OfFactors):
    """The posterior is unchanged by rotations along ``dim``, the last dimension of a site.

    >>> import numpy as np
    >>> swap, path = np.array([[[0.0, 1.0], [1.0, 0.0]]]), {"transition": ("factor", "previous_factor")}
    >>> sites = {"transition": np.array([[[1.0, 2.0], [3.0, 4.0]]])}
    >>> Rotation("factor", also=("previous_factor",)).moved(sites, path, swap)["transition"].tolist()
    [[[4.0, 3.0], [2.0, 1.0]]]
    """

    is_continuous: ClassVar[bool] = True

    def in_words(self) -> str:
        """What is free."""
        return f"the rotation of the {self.dim}s"

    def num_flat(self, size: int) -> int:
        """L (L − 1) / 2 rotations of L factors."""
        return size * (size - 1) // 2

    def random(self, rng: np.random.Generator, number: int, size: int) -> np.ndarray:
        """(S, L, L): uniform orthogonal matrices, by the QR decomposition of Gaussian ones (Mezzadri 2007)."""
        orthogonal, upper = np.linalg.qr(rng.standard_normal((number, size, size)))
        signs = np.sign(np.diagonal(upper, axis1=-2, axis2=-1))
        return np.asarray(orthogonal * signs[:, None, :])


class Reflection(_OfFactors):
    """The posterior is unchanged by permutations and sign changes along ``dim``, the last dimension of a site."""

    is_continuous: ClassVar[bool] = False

    def in_words(self) -> str:
        """What is free."""
        return f"the order and the signs of the {self.dim}s"

    def num_flat(self, size: int) -> int:
        """Rotations, and the L strengths, which only the prior knows: the likelihood is flat along both."""
        return size * (size - 1) // 2 + size

    def random(self, rng: np.random.Generator, number: int, size: int) -> np.ndarray:
        """(S, L, L): permutation matrices with random signs, all equally probable."""
        uniform = rng.random((number, 2, size))
        signs = np.where(uniform[:, 1] < 0.5, -1.0, 1.0)
        return np.asarray(np.eye(size)[uniform[:, 0].argsort(1)] * signs[..., None])


Symmetry = Permutation | Rotation | Reflection | None
