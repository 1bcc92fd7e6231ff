"""One of the images of a posterior under its symmetry: K! of K exchangeable components, L! 2^L of L factors with signs.

Let a finite group G leave p*(θ) unchanged, and let F hold exactly one of the images {g θ : g ∈ G} of almost every θ. The
images of F cover the space without overlap, so that

    ∫ p*(θ) dθ = |G| ∫_F p*(θ) dθ

If θ is a draw of p, the one image of θ in F is a draw of p restricted to F: whatever labels the sampler used, and whether it
switched them. So draws are moved into F, p* counts as 0 outside of F, and log |G| is added. Nothing is lost where the images of
the posterior overlap, nor where a proposal covers several: what it draws outside of F has the weight 0.

F holds the points whose own order matches a reference best. Every choice of the reference is right; a good one makes p
restricted to F compact. For components with features x_j (all their sites) and a reference (m_k, w_k) the order minimises
Σ_k c(k, σ(k)), with c(k, j) = Σ_f log w_kf (1 + ((x_jf − m_kf) / w_kf)²): an assignment problem. An empty component, with
parameters from the prior, may be far out, hence the logarithm. For columns λ_j of loadings order and signs maximise
Σ_k |⟨m_k, λ_σ(k)⟩|, and all ⟨m_k, λ_σ(k)⟩ are positive.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from inference.identification.relabel import assign
from models.base import Model, ZooError
from models.symmetries import Dims, Permutation, Reflection, Symmetry

ROUNDS = 20  # between moves of the draws and their reference
Draws = Mapping[str, np.ndarray]


class Image(NamedTuple):
    """The set F of a symmetry, by its reference: ``centre`` and ``width`` (K, features). Without a symmetry F is everything."""

    symmetry: Permutation | Reflection | None
    dims: Dims
    centre: np.ndarray
    width: np.ndarray

    @property
    def log_number(self) -> float:
        """Log |G|."""
        size = len(self.centre)
        signs = size * np.log(2) if isinstance(self.symmetry, Reflection) else 0.0
        return 0.0 if self.symmetry is None else float(gammaln(size + 1) + signs)

    def moves(self, sites: Draws) -> np.ndarray:
        """What moves draws (S, …) into F: permutations (S, K), or permutation matrices with signs (S, L, L)."""
        if isinstance(self.symmetry, Reflection):
            alike = np.einsum("kf,sjf->skj", self.centre / self.width, features(sites, self.symmetry, self.dims))
            order = assign(-np.abs(alike), gaps=False)[0]
            signs = np.sign(np.take_along_axis(alike, order[..., None], 2)[..., 0])
            return np.swapaxes(np.eye(len(self.centre))[order] * signs[..., None], 1, 2)
        assert self.symmetry is not None
        x = features(sites, self.symmetry, self.dims)
        costs = [np.log(width * (1 + ((x - m) / width) ** 2)).sum(-1) for m, width in zip(self.centre, self.width, strict=True)]
        return assign(np.stack(costs, axis=1), gaps=False)[0]

    def moved(self, sites: Draws) -> dict[str, np.ndarray]:
        """The images in F of draws (S, …)."""
        if self.symmetry is None:
            return dict(sites)
        return self.symmetry.moved(sites, self.dims, self.moves(sites))

    def holds(self, sites: Draws) -> np.ndarray:
        """(S,): whether points are in F."""
        if self.symmetry is None:
            return np.ones(len(next(iter(sites.values()))), bool)
        moves, size = self.moves(sites), len(self.centre)
        unmoved: Any = np.eye(size) if isinstance(self.symmetry, Reflection) else np.arange(size)
        return (moves == unmoved).reshape(len(moves), -1).all(1)


def countable_symmetry(model: Model) -> Permutation | Reflection | None:
    """The symmetry of a model, if its images can be counted; raises `ZooError` for factors that may be rotated."""
    if isinstance(model.symmetry, Permutation | Reflection | None):
        return model.symmetry
    raise ZooError(
        f"{model.name}: {model.symmetry.in_words()} is free, a continuous symmetry, whose images cannot be counted; bridge "
        "sampling needs a model without it, as factor_analysis with relevance=true"
    )


def image_around(model: Model, sites: Draws) -> Image:
    """The image with the draws (S, …) in it, and these in its middle: moves and reference settle in turns.

    Raises `ZooError` for factors that may be rotated, and where nothing tells components apart.
    """
    symmetry, dims = countable_symmetry(model), model.naming.dims
    if symmetry is None:
        return Image(None, dims, np.zeros((1, 0)), np.zeros((1, 0)))
    image = _around(sites, symmetry, dims)
    for _ in range(ROUNDS):
        moved = image.moved(sites)
        following = _around(moved, symmetry, dims)
        if np.array_equal(following.centre, image.centre):
            break
        image, sites = following, moved
    return image


def _around(sites: Draws, symmetry: Permutation | Reflection, dims: Dims) -> Image:
    x = features(sites, symmetry, dims)
    low, centre, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
    return Image(symmetry, dims, centre, np.where(high > low, high - low, 1.0))


def features(sites: Draws, symmetry: Symmetry, dims: Dims) -> np.ndarray:
    """(S, K, F): what each component, or factor, has to itself, which moves with it. Raises `ZooError` where there is nothing.

    Sites with two labelled axes, as probabilities of transitions, belong to no single component. Entries after the labels, such
    as a boundary state, belong to none.
    """
    assert symmetry is not None
    labelled, parts = (symmetry.dim, *symmetry.also), []
    for name, value in sites.items():
        axes = [axis for axis, dim in enumerate(dims.get(name, ()), start=1) if dim in labelled]
        if len(axes) == 1 and (value.ndim > 2 or symmetry.exchanges_labels):
            moved = np.moveaxis(value, axes[0], 1)
            parts.append(moved.reshape(*moved.shape[:2], -1))
    if not parts:
        raise ZooError(f"no site has the single dimension {symmetry.dim}, by which its entries could be told apart")
    size = min(part.shape[1] for part in parts)
    return np.concatenate([part[:, :size] for part in parts], axis=2)
