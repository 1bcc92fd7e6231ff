"""Label switching: draws are relabelled post hoc, and say how sure the relabelling is.

The posterior of a mixture is unchanged when its components are permuted, so that raw draws of "component 1" mean nothing, and
no constraint in the program mends that without changing the prior (errata E21). Stephens (2000): with p_s the membership
probabilities at draw s and Q their average after relabelling, every draw takes the permutation that minimises

    Σ_n Σ_k p_s[n, σ(k)] log (p_s[n, σ(k)] / Q[n, k]),

an assignment problem for any number of components. Q starts as the draw with the highest log joint (the pivot of ECR,
Papastamoulis and Iliopoulos 2010). A draw's confidence is the probability of its permutation against the runner-up when
both are weighed by exp(−cost): near 1 where components are distinct, near ½ where another labelling does as well.
"""

from collections.abc import Mapping
from itertools import permutations
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from models.base import Permutation

SURE = 0.95  # a draw is sure of its labels above this confidence
TOLERATED = 0.05  # share of draws that may be unsure, or have an empty component, before labels are not to be trusted
MAX_ROUNDS = 50
OVERLAP, EMPTY = "overlap: in", "holds less than one"  # how the warnings are told apart
UNTOLD = "factors cannot be told apart"
ENUMERATED = 5  # components up to which all permutations are tried


class Identification(NamedTuple):
    """``sites`` (S, ...) after every draw was moved to where it compares with the others.

    ``moves`` is called "permutation" (S, K), component k of a draw was component moves[k], or "rotation" (S, L, L), by which
    its factors were multiplied.
    """

    sites: dict[str, np.ndarray]
    name: str
    moves: np.ndarray
    confidence: np.ndarray  # (S,)
    warnings: list[str]  # why the labels are not to be trusted; empty when they are
    fewest: float  # least number of rows, or units, expected in a component of a draw, among rows looked at; 0: unknown


def identify_draws(
    sites: Mapping[str, np.ndarray],
    symmetry: Permutation,
    dims: Mapping[str, tuple[str, ...]],
    latents: np.ndarray | None,
    log_joint: np.ndarray,
    num_rows: int,
    units: np.ndarray | None = None,
    unit: str = "row",
) -> Identification:
    """Relabel S draws of all sites.

    ``latents`` (S, n, K) are membership probabilities on n of the ``num_rows`` rows; where a program hides them (None) draws
    are matched by the distance of their labelled sites instead. What components hold is counted in rows, or by what these are
    made of: ``units`` (n,) of a row.
    """
    pivot = int(np.argmax(log_joint))
    if latents is not None:
        permutation, gap = _by_membership(latents, pivot)
    else:
        permutation, gap = _by_distance(_labelled_vectors(sites, symmetry, dims), pivot)
    confidence = 1 / (1 + np.exp(-np.minimum(gap, 700.0)))
    relabelled = {name: permute(value, permutation, symmetry, dims.get(name, ())) for name, value in sites.items()}
    held, fewest = None, 0.0
    if latents is not None:
        sums = latents.sum(1) if units is None else np.einsum("n,snk->sk", units.astype(np.float32), latents)
        held, fewest = np.take_along_axis(sums, permutation, 1) * (num_rows / latents.shape[1]), float(sums.min())
    warnings = _doubts(symmetry.dim, confidence, held, unit)
    return Identification(relabelled, "permutation", permutation, confidence, warnings, fewest)


def permute(value: np.ndarray, permutation: np.ndarray, symmetry: Permutation, dims: tuple[str, ...]) -> np.ndarray:
    """Reorder every axis of ``value`` (S, ...) whose dimension carries the labels, draw by draw."""
    for axis, name in enumerate(dims, start=1):
        if name in (symmetry.dim, *symmetry.also):
            order = _with_rest(permutation, value.shape[axis])
            index = order.reshape(order.shape[0], *(-1 if a == axis else 1 for a in range(1, value.ndim)))
            value = np.take_along_axis(value, index, axis)
    return value


def _with_rest(permutation: np.ndarray, size: int) -> np.ndarray:
    """Permutations (S, K) of the first K of ``size`` entries, the rest of which stay."""
    rest = np.arange(permutation.shape[1], size)
    return np.concatenate([permutation, np.broadcast_to(rest, (len(permutation), len(rest)))], axis=1)


def _by_membership(latents: np.ndarray, pivot: int) -> tuple[np.ndarray, np.ndarray]:
    size, _, num_components = latents.shape
    reference = latents[pivot].astype(np.float64)
    permutation = np.tile(np.arange(num_components), (size, 1))
    costs = np.zeros((size, num_components, num_components))
    for _ in range(MAX_ROUNDS):
        # One row's worth of doubt keeps a reference made of a single draw from forbidding anything.
        smooth = (size * reference + 1 / num_components) / (size + 1)
        costs = -np.einsum("nk,snj->skj", np.log(smooth).astype(np.float32), latents, optimize=True).astype(np.float64)
        following = assign(costs, gaps=False)[0]
        settled = np.array_equal(following, permutation)
        permutation = following
        reference = np.take_along_axis(latents, permutation[:, None, :], axis=2).mean(0, dtype=np.float64)
        if settled:
            break
    return permutation, assign(costs)[1]


def _by_distance(vectors: np.ndarray, pivot: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (S, K, F) of the labelled sites: half squared distances to the running mean, in standard deviations."""
    size, num_components, _ = vectors.shape
    reference, spread = vectors[pivot], vectors.std((0, 1))
    permutation = np.tile(np.arange(num_components), (size, 1))
    costs = np.zeros((size, num_components, num_components))
    for _ in range(MAX_ROUNDS):
        scale = np.where(spread > 0, spread, 1.0)
        costs = 0.5 * (((reference[None, :, None] - vectors[:, None]) / scale) ** 2).sum(-1)
        following = assign(costs, gaps=False)[0]
        settled = np.array_equal(following, permutation)
        permutation = following
        aligned = np.take_along_axis(vectors, permutation[..., None], axis=1)
        reference, spread = aligned.mean(0), aligned.std(0).mean(0)
        if settled:
            break
    return permutation, assign(costs)[1]


def _labelled_vectors(
    sites: Mapping[str, np.ndarray], symmetry: Permutation, dims: Mapping[str, tuple[str, ...]]
) -> np.ndarray:
    """(S, K, F): every site with one labelled axis, flattened along the others."""
    parts = []
    for name, value in sites.items():
        if dims.get(name, ()).count(symmetry.dim) == 1:
            moved = np.moveaxis(value, 1 + dims[name].index(symmetry.dim), 1)
            parts.append(moved.reshape(*moved.shape[:2], -1))
    return np.concatenate(parts, axis=2)


def assign(costs: np.ndarray, gaps: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Costs (S, K, K) of matching reference k with component j -> (best permutations (S, K), gaps (S,) to the second best).

    Few components: all K! permutations at once. Many: an assignment problem a draw, and the second best as the cheapest
    assignment that forbids one of the chosen pairs (not looked for without ``gaps``). With one component there is no second
    best, and the gap is infinite.
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
    chosen = np.array([linear_sum_assignment(cost)[1] for cost in costs])
    return chosen, np.array([_gap(c, order) for c, order in zip(costs, chosen, strict=True)] if gaps else [])


def _gap(cost: np.ndarray, chosen: np.ndarray) -> float:
    rows = np.arange(len(chosen))
    forbidden = 1e6 + np.ptp(cost) * len(chosen)
    others = []
    for k in rows:
        without = cost.copy()
        without[k, chosen[k]] += forbidden
        others.append(cost[rows, linear_sum_assignment(without)[1]].sum())
    return float(min(others) - cost[rows, chosen].sum())


def doubts_labels(warning: str) -> bool:
    """Whether a warning says that labels are not to be trusted."""
    return any(words in warning for words in (OVERLAP, EMPTY, UNTOLD))


def _doubts(dim: str, confidence: np.ndarray, occupancy: np.ndarray | None, unit: str) -> list[str]:
    """Reasons not to trust the labels of ``dim``; ``occupancy`` (S, K) is the expected number of rows, or units, of each."""
    warnings, plural = [], dim + ("es" if dim.endswith("s") else "s")
    unsure = float((confidence < SURE).mean())
    if unsure > TOLERATED:
        warnings.append(
            f"{plural} {OVERLAP} {unsure:.0%} of the draws another labelling fits nearly as well, so read the functionals, "
            f"not the parameters of single {plural}"
        )
    if occupancy is not None:
        empty = (occupancy < 1).mean(0)
        warnings += [
            f"{dim} {k} {EMPTY} {unit} in {share:.0%} of the draws: its parameters there come from the prior"
            for k, share in enumerate(empty)
            if share > TOLERATED
        ]
    return warnings
