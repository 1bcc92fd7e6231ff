"""Label switching: draws are relabelled after the fit, each with a confidence.

The posterior of a mixture does not change when its components are permuted, so raw draws of "component 1" mean nothing, and no
constraint in the program repairs that without changing the prior (errata E21). Stephens (2000): let p_s be the membership
probabilities at draw s, and Q their average after relabelling. Every draw takes the permutation σ that minimises

    Σ_n Σ_k p_s[n, σ(k)] log (p_s[n, σ(k)] / Q[n, k]),

which is an assignment problem. Q starts as the draw with the highest log joint (the pivot of ECR, Papastamoulis and Iliopoulos
2010). The confidence of a draw is the probability of its permutation against the second best, both weighted by exp(−cost):
near 1 if components are distinct, near ½ if another labelling fits as well.
"""

from collections.abc import Mapping
from itertools import permutations
from typing import NamedTuple

import numpy as np

from models.symmetries import Permutation

SURE = 0.95  # confidence above which a draw counts as sure of its labels
TOLERATED = 0.05  # share of draws that may be unsure, or have an empty component, before labels are distrusted
ALIKE = 0.5  # the same share for draws that keep their labels
MAX_ROUNDS = 50
OVERLAP, EMPTY = "overlap: in", "holds less than one"  # phrases by which warnings about labels are recognised
UNTOLD = "factors cannot be told apart"
ENUMERATED = 5  # components up to which all permutations are tried


class Identification(NamedTuple):
    """``sites`` (S, ...) with all draws relabelled, or rotated, to match one another.

    ``moves`` is a "permutation" (S, K): component k of draw s was component moves[s, k]; or a "rotation" (S, L, L), by which
    the factors were multiplied.
    """

    sites: dict[str, np.ndarray]
    name: str
    moves: np.ndarray
    confidence: np.ndarray  # (S,)
    warnings: list[str]  # why the labels are distrusted; empty if they are trusted
    fewest: float  # smallest expected number of rows, or units, in a component, over draws and the rows considered; 0: unknown


def identify_draws(
    sites: Mapping[str, np.ndarray],
    symmetry: Permutation,
    dims: Mapping[str, tuple[str, ...]],
    latents: np.ndarray | None,
    pivot: int,
    num_rows: int,
    units: np.ndarray | None = None,
    unit: str = "row",
    keep_labels: bool = False,
) -> Identification:
    """Relabel S draws of all sites; with ``keep_labels``, only compute how well their labels are told apart.

    ``latents`` (S, n, K) are membership probabilities on n of the ``num_rows`` rows. If they are None, as for a program, draws
    are matched by the distance of their labelled sites. ``pivot`` is the draw with the highest log joint. Occupancy is counted
    in rows, or in ``units`` (n,) per row, such as tokens.
    """
    if latents is not None:
        permutation, gap = _by_membership(latents, pivot, keep_labels)
    else:
        permutation, gap = _by_distance(_labelled_vectors(sites, symmetry, dims), pivot, keep_labels)
    confidence = 1 / (1 + np.exp(-np.clip(gap, -700.0, 700.0)))
    relabelled = symmetry.moved(sites, dims, permutation)
    held, fewest = None, 0.0
    if latents is not None:
        sums = latents.sum(1) if units is None else np.einsum("n,snk->sk", units.astype(np.float32), latents)
        held, fewest = np.take_along_axis(sums, permutation, 1) * (num_rows / latents.shape[1]), float(sums.min())
    warnings = _label_warnings(symmetry.dim, confidence, held, unit, ALIKE if keep_labels else TOLERATED)
    return Identification(relabelled, "permutation", permutation, confidence, warnings, fewest)


def _by_membership(latents: np.ndarray, pivot: int, keep_labels: bool = False) -> tuple[np.ndarray, np.ndarray]:
    size, _, num_components = latents.shape
    reference = latents.mean(0, dtype=np.float64) if keep_labels else latents[pivot].astype(np.float64)
    permutation = np.tile(np.arange(num_components), (size, 1))
    costs = np.zeros((size, num_components, num_components))
    for _ in range(MAX_ROUNDS):
        # Pseudo-counts of one row: otherwise a reference made of a single draw could forbid an assignment.
        smooth = (size * reference + 1 / num_components) / (size + 1)
        costs = -np.einsum("nk,snj->skj", np.log(smooth).astype(np.float32), latents, optimize=True).astype(np.float64)
        if keep_labels:
            return permutation, _gap_to_other_labellings(costs)
        following = assign(costs, gaps=False)[0]
        settled = np.array_equal(following, permutation)
        permutation = following
        reference = np.take_along_axis(latents, permutation[:, None, :], axis=2).mean(0, dtype=np.float64)
        if settled:
            break
    return permutation, assign(costs)[1]


def _by_distance(vectors: np.ndarray, pivot: int, keep_labels: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """As `_by_membership`, from vectors (S, K, F) of the sites: the cost is half the squared distance to the running mean."""
    size, num_components, _ = vectors.shape
    reference, spread = (vectors.mean(0), vectors.std(0).mean(0)) if keep_labels else (vectors[pivot], vectors.std((0, 1)))
    permutation = np.tile(np.arange(num_components), (size, 1))
    costs = np.zeros((size, num_components, num_components))
    for _ in range(MAX_ROUNDS):
        scale = np.where(spread > 0, spread, 1.0)
        costs = 0.5 * (((reference[None, :, None] - vectors[:, None]) / scale) ** 2).sum(-1)
        if keep_labels:
            return permutation, _gap_to_other_labellings(costs)
        following = assign(costs, gaps=False)[0]
        settled = np.array_equal(following, permutation)
        permutation = following
        aligned = np.take_along_axis(vectors, permutation[..., None], axis=1)
        reference, spread = aligned.mean(0), aligned.std(0).mean(0)
        if settled:
            break
    return permutation, assign(costs)[1]


def _gap_to_other_labellings(costs: np.ndarray) -> np.ndarray:
    """(S,): extra cost of the cheapest other labelling over the present one; negative if it fits better."""
    best, gap = assign(costs)
    places = np.arange(costs.shape[1])
    behind = costs[:, places, places].sum(1) - np.take_along_axis(costs, best[:, :, None], axis=2)[..., 0].sum(1)
    return np.where((best == places).all(1), gap, -behind)


def _labelled_vectors(
    sites: Mapping[str, np.ndarray], symmetry: Permutation, dims: Mapping[str, tuple[str, ...]]
) -> np.ndarray:
    """(S, K, F): all sites with one labelled axis, flattened along the others."""
    parts = []
    for name, value in sites.items():
        if dims.get(name, ()).count(symmetry.dim) == 1:
            moved = np.moveaxis(value, 1 + dims[name].index(symmetry.dim), 1)
            parts.append(moved.reshape(*moved.shape[:2], -1))
    return np.concatenate(parts, axis=2)


def assign(costs: np.ndarray, gaps: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Costs (S, K, K) of matching reference k with component j -> (best permutations (S, K), gaps (S,) to the second best).

    For few components, all K! permutations are tried. For many, each draw is an assignment problem, and the second best is the
    cheapest assignment that forbids one of the chosen pairs (only with ``gaps``). For one component the gap is infinite.
    """
    size, num_components, _ = costs.shape
    rows = np.arange(num_components)
    if num_components == 1:
        return np.zeros((size, 1), int), np.full(size, np.inf)
    if num_components <= ENUMERATED:
        orders = np.array(list(permutations(rows)))
        totals = np.stack([costs[:, rows, order].sum(1) for order in orders], axis=1)
        lowest = np.partition(totals, 1, axis=1)
        return orders[totals.argmin(1)], lowest[:, 1] - lowest[:, 0]
    from scipy.optimize import linear_sum_assignment  # slow to import, and few runs have many components

    chosen = np.array([linear_sum_assignment(cost)[1] for cost in costs])
    return chosen, np.array([_gap(c, order) for c, order in zip(costs, chosen, strict=True)] if gaps else [])


def _gap(cost: np.ndarray, chosen: np.ndarray) -> float:
    rows = np.arange(len(chosen))
    from scipy.optimize import linear_sum_assignment

    forbidden = 1e6 + np.ptp(cost) * len(chosen)
    others = []
    for k in rows:
        without = cost.copy()
        without[k, chosen[k]] += forbidden
        others.append(cost[rows, linear_sum_assignment(without)[1]].sum())
    return float(min(others) - cost[rows, chosen].sum())


def is_label_warning(warning: str) -> bool:
    """Whether a warning is about labels."""
    return any(words in warning for words in (OVERLAP, EMPTY, UNTOLD))


def _label_warnings(dim: str, confidence: np.ndarray, occupancy: np.ndarray | None, unit: str, tolerated: float) -> list[str]:
    """Reasons to distrust the labels of ``dim``; ``occupancy`` (S, K) is the expected number of rows, or units, per component.

    Labels are distrusted if more than the share ``tolerated`` of the draws is not sure of them.
    """
    warnings, plural = [], dim + ("es" if dim.endswith("s") else "s")
    unsure = float((confidence < SURE).mean())
    if unsure > tolerated:
        warnings.append(
            f"{plural} {OVERLAP} {unsure:.0%} of the draws another labelling fits nearly as well. Read the functionals, not "
            f"the parameters of single {plural}"
        )
    if occupancy is not None:
        empty = (occupancy < 1).mean(0)
        warnings += [
            f"{dim} {k} {EMPTY} {unit} in {share:.0%} of the draws, where its parameters come from the prior"
            for k, share in enumerate(empty)
            if share > TOLERATED
        ]
    return warnings
