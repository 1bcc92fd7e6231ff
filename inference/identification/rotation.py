"""Rotations of factors: to a simple form for reading, and of all draws onto one another.

The posterior of a factor model does not change when the factors are rotated, so raw draws of a loading mean nothing. Every draw
is first rotated to the varimax of its standardised loadings (Kaiser 1958), which leaves the order and signs of the factors
open. Then factors are matched and reflected so that all draws are near their mean, one assignment problem per draw
(rotation-sign-permutation: Papastamoulis and Ntzoufras 2022). ``criterion="procrustes"`` instead rotates each draw onto the
mean, without a simple form. The confidence of a draw is the probability of its order and signs against the second best, from
the distances of its loadings to the mean, in units of their spread over the draws.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from inference.identification.relabel import MAX_ROUNDS, SURE, TOLERATED, UNTOLD, Identification, assign
from models.base import ZooError
from models.symmetries import Reflection, Rotation

CRITERIA = {"varimax": 1.0, "quartimax": 0.0}  # weight of the mean square of each column: the orthomax family
SWEEPS = 100  # at most, over all pairs of factors
MATRICES = 256  # rotated at a time, which keeps memory flat
TOLERANCE = 1e-8  # of an angle, or an entry of the rotation


def rotate(loading: np.ndarray, criterion: str = "varimax") -> np.ndarray:
    """Rotate loadings to a simple structure.

    ``loading`` has the shape (columns D, factors L), or (…, D, L) for many matrices; so does the returned array. ``criterion``
    is "varimax" or "quartimax", which are orthogonal, or "promax" (Hendrickson and White 1964), after which factors are
    correlated; `inference.identification.rotation.promax` also returns their correlations. Factors are ordered by the variance
    they explain, and each has a positive sum of loadings. Raises `ZooError` for another criterion, loadings that are not
    finite, and with promax for linearly dependent factors.

    >>> np.abs(rotate(np.array([[1.0, 1.0], [1.0, -1.0]]))).round(3)
    array([[1.414, 0.   ],
           [0.   , 1.414]])
    """
    loading = np.asarray(loading, dtype=np.float64)
    if loading.ndim < 2 or not np.isfinite(loading).all():
        raise ZooError(f"loadings must be finite numbers (columns, factors), got an array of shape {loading.shape}")
    if criterion == "promax":
        return promax(loading).loading
    return np.asarray(loading @ ordered(loading, simple(loading, criterion)))


class Oblique(NamedTuple):
    """Loadings on correlated factors."""

    loading: np.ndarray  # (…, D, L)
    correlation: np.ndarray  # (…, L, L), of the factors


def promax(loading: np.ndarray, power: float = 4.0) -> Oblique:
    """Varimax loadings rotated obliquely, factor by factor, towards their ``power``-th powers; factors keep variance 1."""
    start = rotate(loading)
    if not (np.linalg.matrix_rank(start) == start.shape[-1]).all():
        raise ZooError("promax needs factors that are apart: here one has no loadings, or combines others; use fewer factors")
    target = start * np.abs(start) ** (power - 1)
    turned = np.linalg.lstsq(start, target)[0] if start.ndim == 2 else np.linalg.pinv(start) @ target
    inverse = np.linalg.inv(turned)
    scale = np.sqrt((inverse**2).sum(-1))  # so that the factors inverse @ z have variance 1
    turned = turned * scale[..., None, :]
    inverse = inverse / scale[..., :, None]
    return Oblique(start @ turned, inverse @ np.swapaxes(inverse, -1, -2))


def simple(loading: np.ndarray, criterion: str = "varimax") -> np.ndarray:
    """Orthogonal matrices (…, L, L) that maximise an orthomax criterion of loadings (…, D, L).

    Factors are rotated in pairs (Kaiser 1958). The best angle of a pair has a closed form, so the criterion never decreases.
    """
    if criterion not in CRITERIA:
        also = "promax (rotate), procrustes (identify)"
        raise ZooError(f"criterion={criterion!r} is not one of {', '.join(CRITERIA)}, {also}")
    shape = np.shape(loading)
    each = np.asarray(loading, dtype=np.float64).reshape(-1, *shape[-2:])
    parts = [_orthomax(each[first : first + MATRICES], CRITERIA[criterion]) for first in range(0, len(each), MATRICES)]
    return np.concatenate(parts or [np.zeros((0, shape[-1], shape[-1]))]).reshape(*shape[:-2], shape[-1], shape[-1])


def _orthomax(loading: np.ndarray, columns: float) -> np.ndarray:
    """Rotations (S, L, L) of loadings (S, D, L)."""
    number, dimension, size = loading.shape
    # Factors along the first axis: each holds its loadings in all matrices, and after them its column of the rotation.
    whole = np.concatenate([loading, np.tile(np.eye(size), (number, 1, 1))], axis=1)
    factors = np.array(np.moveaxis(whole, -1, 0), order="C")
    rounds = disjoint_pairs(size)
    moving = np.arange(number)  # matrices that have not converged
    for _ in range(SWEEPS):
        some = factors[:, moving]
        largest = np.zeros(len(moving))
        for left, right in rounds:
            # A pair as one complex number: turning it is a product.
            pair = some[left] + 1j * some[right]
            angle = _best_angle(pair[..., :dimension], columns)
            pair *= np.exp(-1j * angle)[..., None]
            some[left], some[right] = pair.real, pair.imag
            largest = np.maximum(largest, np.abs(angle).max(axis=0))
        factors[:, moving] = some
        moving = moving[largest >= TOLERANCE]
        if not len(moving):
            break
    return np.moveaxis(factors[..., dimension:], 0, -1)


def disjoint_pairs(size: int) -> list[tuple[list[int], list[int]]]:
    """All pairs of ``size`` factors in rounds, as in a tournament: the pairs of a round share no factor."""
    players = [*range(size), *([-1] if size % 2 else [])]
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        met = [(i, j) for i, j in zip(players[:half], players[: half - 1 : -1], strict=True) if min(i, j) >= 0]
        rounds.append(([i for i, _ in met], [j for _, j in met]))
        players = [players[0], players[-1], *players[1:-1]]
    return rounds if size > 1 else []


def _best_angle(pair: np.ndarray, columns: float) -> np.ndarray:
    """The angle (…) that maximises the criterion of two factors with loadings x + iy (…, D)."""
    square = pair * pair
    return np.asarray(np.angle((square * square).sum(-1) - columns * square.sum(-1) ** 2 / pair.shape[-1]) / 4)


def ordered(loading: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """``rotation`` (…, L, L) with factors ordered by the variance they explain in ``loading`` (…, D, L), and positive sums."""
    turned = loading @ rotation
    order = np.argsort(-(turned**2).sum(-2), axis=-1, kind="stable")
    signs = np.where(turned.sum(-2) < 0, -1.0, 1.0)
    return np.take_along_axis(rotation * signs[..., None, :], order[..., None, :], axis=-1)


def identify_rotations(
    sites: Mapping[str, np.ndarray],
    symmetry: Rotation | Reflection,
    dims: Mapping[str, tuple[str, ...]],
    scale: np.ndarray,
    pivot: int,
    criterion: str = "varimax",
) -> Identification:
    """S draws of all sites with their factors aligned; under a `Reflection` only by order and sign.

    ``scale`` (D,), or 1, holds the standard deviations of the columns, which make their loadings comparable.
    ``pivot`` is the draw with the highest log joint.
    """
    standard = sites[vectors(symmetry, dims, sites)] / np.reshape(scale, (-1, 1))
    if not symmetry.is_continuous:
        matched = _matched(standard, _as_they_are(standard), pivot)
        moves = matched.moves
    elif criterion == "procrustes":
        # Confidences always refer to order and signs in a simple form, also if the draws are aligned otherwise.
        matched, moves = _matched(standard, simple(standard), pivot), _onto_the_mean(standard, pivot)
    else:
        matched = _matched(standard, simple(standard, criterion), pivot)
        moves = matched.moves
    sites = symmetry.moved(sites, dims, moves)
    return Identification(sites, "rotation", moves, matched.confidence, _axis_warnings(matched), 0.0)


def oriented(
    sites: Mapping[str, np.ndarray], symmetry: Rotation | Reflection, dims: Mapping[str, tuple[str, ...]], scale: np.ndarray
) -> dict[str, np.ndarray]:
    """Points (S, ...) of all sites with ordered factors, in the varimax rotation of the standardised loadings if it is free."""
    standard = np.asarray(sites[vectors(symmetry, dims, sites)], dtype=np.float64) / np.reshape(scale, (-1, 1))
    turns = simple(standard) if symmetry.is_continuous else _as_they_are(standard)
    return symmetry.moved(sites, dims, ordered(standard, turns))


def _as_they_are(standard: np.ndarray) -> np.ndarray:
    """Identity matrices (S, L, L)."""
    return np.tile(np.eye(standard.shape[-1]), (len(standard), 1, 1))


def vectors(symmetry: Rotation | Reflection, dims: Mapping[str, tuple[str, ...]], sites: Mapping[str, Any]) -> str:
    """The site with several dimensions whose last one is rotated: the loadings."""
    return next(site for site, names in dims.items() if site in sites and len(names) > 1 and names[-1] == symmetry.dim)


def _onto_the_mean(standard: np.ndarray, pivot: int) -> np.ndarray:
    """Rotations (S, L, L) that bring every draw closest to the mean of all: generalised Procrustes."""
    reference = standard[pivot] @ ordered(standard[pivot], simple(standard[pivot]))
    moves = np.zeros((len(standard), *reference.shape[1:] * 2))
    for _ in range(MAX_ROUNDS):
        left, _, right = np.linalg.svd(np.swapaxes(standard, -1, -2) @ reference)
        before, moves = moves, left @ right
        reference = (standard @ moves).mean(0)
        if np.abs(moves - before).max() < TOLERANCE:
            break
    return moves


class Matched(NamedTuple):
    """Rotations, with the order and signs of factors that bring every draw closest to the mean."""

    moves: np.ndarray  # (S, L, L)
    confidence: np.ndarray  # (S,): of order and signs against the second best
    of_signs: np.ndarray  # (S, L): of each factor's sign against the opposite


def _matched(standard: np.ndarray, rotation: np.ndarray, pivot: int) -> Matched:
    turned = standard @ rotation
    num_factors = turned.shape[-1]
    reference = turned[pivot] @ ordered(turned[pivot], np.eye(num_factors))
    moves = _as_they_are(standard)
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
    # Half squared distances: another order costs the gap of the overlaps, another sign twice the smallest overlap.
    sign_gap = 2 * np.take_along_axis(overlap, chosen[..., None], axis=2)[..., 0]
    gap = np.minimum(assign(-overlap)[1], sign_gap.min(1))
    return Matched(rotation @ moves, _probability(gap / variance), _probability(sign_gap / variance))


def _probability(gap: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.minimum(gap, 700.0))))


def _axis_warnings(matched: Matched) -> list[str]:
    unsure = float((matched.confidence < SURE).mean())
    if unsure <= TOLERATED:
        return []
    weak = 1 + np.flatnonzero((matched.of_signs < SURE).mean(0) > TOLERATED)
    which = f" (the loadings of {', '.join(map(str, weak))} are near 0)" if 0 < len(weak) < matched.of_signs.shape[1] else ""
    return [
        f"{UNTOLD}: in {unsure:.0%} of the draws another order or sign fits nearly as well{which}. Read communalities, noise "
        "and correlations, not the loadings on single factors; fewer factors may be enough"
    ]
