"""Rotations of factors: turned to a simple form for reading, and draws turned onto one another.

The posterior of a factor model is unchanged when the factors are rotated, so that raw draws of a loading mean nothing. Every
draw is first rotated to the varimax of its standardised loadings (Kaiser 1958), which leaves the order and the signs of the
factors open; then factors are matched and reflected so that all draws are near their common mean, an assignment problem a draw
(rotation-sign-permutation: Papastamoulis and Ntzoufras 2022). ``criterion="procrustes"`` rotates each draw onto the mean
instead, without seeking a simple form. A draw's confidence is the probability of its order and signs against the runner-up, by
the distances of its loadings from the mean in units of their spread over the draws.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from inference.relabel import MAX_ROUNDS, SURE, TOLERATED, UNTOLD, Identification, assign
from models.base import Rotation, ZooError

CRITERIA = {"varimax": 1.0, "quartimax": 0.0}  # weight of the columns' own mean square: the orthomax family
ITERATIONS = 200
TOLERANCE = 1e-8  # of an entry of the rotation


def rotate(loading: np.ndarray, criterion: str = "varimax") -> np.ndarray:
    """Loadings (D, L), or many of them (…, D, L), in the rotation that is simplest to read: (…, D, L).

    ``criterion`` is "varimax" or "quartimax", which rotate, or "promax" (Hendrickson and White 1964), after which factors are
    correlated: `promax` has their correlations. Factors come in the order of the variance they explain, each with a positive
    sum of loadings. Raises `ZooError` for another criterion.
    """
    if criterion == "promax":
        return promax(loading).loading
    loading = np.asarray(loading, dtype=np.float64)
    return np.asarray(loading @ ordered(loading, simple(loading, criterion)))


class Oblique(NamedTuple):
    """Loadings on correlated factors."""

    loading: np.ndarray  # (…, D, L)
    correlation: np.ndarray  # (…, L, L), of the factors


def promax(loading: np.ndarray, power: float = 4.0) -> Oblique:
    """Varimax loadings turned, factor by factor, towards their ``power``-th powers; factors keep variance 1."""
    start = rotate(loading)
    target = start * np.abs(start) ** (power - 1)
    turned = np.linalg.lstsq(start, target)[0] if start.ndim == 2 else np.linalg.pinv(start) @ target
    inverse = np.linalg.inv(turned)
    scale = np.sqrt((inverse**2).sum(-1))  # so that the factors inverse @ z have variance 1
    turned = turned * scale[..., None, :]
    inverse = inverse / scale[..., :, None]
    return Oblique(start @ turned, inverse @ np.swapaxes(inverse, -1, -2))


def simple(loading: np.ndarray, criterion: str = "varimax") -> np.ndarray:
    """Orthogonal (…, L, L) that maximise an orthomax criterion of loadings (…, D, L), by iterated singular values."""
    if criterion not in CRITERIA:
        also = "promax (rotate), procrustes (identify)"
        raise ZooError(f"criterion={criterion!r} is not one of {', '.join(CRITERIA)}, {also}")
    loading = np.asarray(loading, dtype=np.float64)
    rotation = np.broadcast_to(np.eye(loading.shape[-1]), (*loading.shape[:-2], *loading.shape[-1:] * 2)).copy()
    for _ in range(ITERATIONS):
        turned = loading @ rotation
        pull = turned**3 - CRITERIA[criterion] * turned * (turned**2).mean(-2, keepdims=True)
        left, _, right = np.linalg.svd(np.swapaxes(loading, -1, -2) @ pull)
        before, rotation = rotation, left @ right
        if np.abs(rotation - before).max() < TOLERANCE:
            break
    return rotation


def ordered(loading: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """``rotation`` (…, L, L) with its factors by the variance they explain in ``loading`` (…, D, L), and positive sums."""
    turned = loading @ rotation
    order = np.argsort(-(turned**2).sum(-2), axis=-1, kind="stable")
    signs = np.where(turned.sum(-2) < 0, -1.0, 1.0)
    return np.take_along_axis(rotation * signs[..., None, :], order[..., None, :], axis=-1)


def identify_rotations(
    sites: Mapping[str, np.ndarray],
    symmetry: Rotation,
    dims: Mapping[str, tuple[str, ...]],
    scale: np.ndarray,
    log_joint: np.ndarray,
    criterion: str = "varimax",
) -> Identification:
    """S draws of all sites with their factors turned onto one another.

    ``scale`` (D,), or 1, is what makes columns comparable: their standard deviations.
    """
    standard = sites[_site(symmetry, dims, sites)] / np.reshape(scale, (-1, 1))
    pivot = int(np.argmax(log_joint))
    if criterion == "procrustes":
        moves = _onto_the_mean(standard, pivot)
        # Whether factors can be told apart is seen from order and signs in a simple form, whatever the draws are turned by.
        confidence = _matched(standard, simple(standard), pivot)[1]
        warnings = _doubts(confidence)
    else:
        moves, confidence = _matched(standard, simple(standard, criterion), pivot)
        warnings = _doubts(confidence)
    return Identification(_turned(sites, symmetry, dims, moves), "rotation", moves, confidence, warnings, 0.0)


def oriented(
    sites: Mapping[str, np.ndarray], symmetry: Rotation, dims: Mapping[str, tuple[str, ...]], scale: np.ndarray
) -> dict[str, np.ndarray]:
    """Points (S, ...) of all sites, each in the varimax rotation of its standardised loadings."""
    standard = np.asarray(sites[_site(symmetry, dims, sites)], dtype=np.float64) / np.reshape(scale, (-1, 1))
    return _turned(sites, symmetry, dims, ordered(standard, simple(standard)))


def _turned(
    sites: Mapping[str, np.ndarray], symmetry: Rotation, dims: Mapping[str, tuple[str, ...]], moves: np.ndarray
) -> dict[str, np.ndarray]:
    return {site: value @ moves if dims.get(site, ())[-1:] == (symmetry.dim,) else value for site, value in sites.items()}


def _site(symmetry: Rotation, dims: Mapping[str, tuple[str, ...]], sites: Mapping[str, Any]) -> str:
    """The site whose last dimension is rotated."""
    return next(site for site, names in dims.items() if site in sites and names[-1:] == (symmetry.dim,))


def _onto_the_mean(standard: np.ndarray, pivot: int) -> np.ndarray:
    """Rotations (S, L, L) that bring every draw as near as can be to the mean of all: generalised Procrustes."""
    reference = standard[pivot] @ ordered(standard[pivot], simple(standard[pivot]))
    moves = np.zeros((len(standard), *reference.shape[1:] * 2))
    for _ in range(MAX_ROUNDS):
        left, _, right = np.linalg.svd(np.swapaxes(standard, -1, -2) @ reference)
        before, moves = moves, left @ right
        reference = (standard @ moves).mean(0)
        if np.abs(moves - before).max() < TOLERANCE:
            break
    return moves


def _matched(standard: np.ndarray, rotation: np.ndarray, pivot: int) -> tuple[np.ndarray, np.ndarray]:
    """Rotations with the order and the signs of the factors that bring every draw nearest to the mean, and confidences."""
    turned = standard @ rotation
    size, _, num_factors = turned.shape
    reference = turned[pivot] @ ordered(turned[pivot], np.eye(num_factors))
    moves = np.tile(np.eye(num_factors), (size, 1, 1))
    for _ in range(MAX_ROUNDS):
        overlap = np.einsum("dk,sdj->skj", reference, turned)
        chosen = assign(-np.abs(overlap), gaps=False)[0]
        signs = np.where(np.take_along_axis(overlap, chosen[..., None], axis=2)[..., 0] < 0, -1.0, 1.0)
        following = np.swapaxes(np.eye(num_factors)[chosen] * signs[..., None], -1, -2)
        settled = np.array_equal(following, moves)
        moves = following
        reference = (turned @ moves).mean(0)
        if settled:
            break
    variance = max(float((turned @ moves).var(0).mean()), np.finfo(float).tiny)
    overlap = np.abs(np.einsum("dk,sdj->skj", reference, turned))
    # Half squared distances: another order loses the gap of its overlaps, another sign twice the smallest of them.
    sign_gap = 2 * np.take_along_axis(overlap, chosen[..., None], axis=2)[..., 0].min(1)
    gap = np.minimum(assign(-overlap)[1], sign_gap) / variance
    return rotation @ moves, 1 / (1 + np.exp(-np.minimum(gap, 700.0)))


def _doubts(confidence: np.ndarray) -> list[str]:
    unsure = float((confidence < SURE).mean())
    if unsure <= TOLERATED:
        return []
    return [
        f"{UNTOLD}: in {unsure:.0%} of the draws another order or sign of them fits nearly as well, so read communalities, "
        "noise and correlations, not the loadings on single factors; fewer factors may do"
    ]
