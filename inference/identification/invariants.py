"""Summaries of sites that the symmetry of the posterior does not change, so that chains or starts can be compared.

Without a symmetry these are the entries themselves. For exchangeable labels they are the entries sorted along the labels,
separately for every entry of the other dimensions; if both dimensions of a matrix carry the labels, all its entries sorted
together. For factors that may be rotated, or change order and sign, they are the entries of Λ Λᵀ, where Λ are the loadings,
and the singular values of a matrix from factors to factors.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.optimize import linear_sum_assignment

from inference.identification.relabel import ENUMERATED
from inference.programs.derived import DERIVED
from models.rows.encoded import spread
from models.symmetries import Permutation, Reflection, Rotation, Symmetry

ELSEWHERE = 1.0  # posterior standard deviations beyond which a start has ended at another mode
SCALED = 400  # draws for standard deviations, which are then known to 4 %
MOST = 1000  # summaries per site, evenly spread: R-hat and ESS take a millisecond each


class Summaries(NamedTuple):
    """F named summaries at S draws."""

    values: np.ndarray
    names: list[str]


def declared(symmetry: Symmetry) -> str:
    """A symmetry as a string, stored as an attribute of a result."""
    return "" if symmetry is None else json.dumps({"kind": type(symmetry).__name__} | asdict(symmetry))


def symmetry_of(tree: xr.DataTree) -> Symmetry:
    """The symmetry that the model of a result declared."""
    attributes = json.loads(tree.attrs.get("symmetry") or "{}")
    kind = attributes.pop("kind", "")
    known: Mapping[str, Any] = {"Permutation": Permutation, "Rotation": Rotation, "Reflection": Reflection}
    return known[kind](**attributes | {"also": tuple(attributes.get("also", ()))}) if kind else None


def summaries_of(tree: xr.DataTree, most: int = MOST) -> Summaries:
    """Summaries of all sites of a result, at all draws: values (chain × draw, F)."""
    group = tree["posterior"].to_dataset()
    group = group.drop_vars([name for name, value in group.data_vars.items() if DERIVED in value.attrs])  # follow from sites
    size = group.sizes["chain"] * group.sizes["draw"]
    parts = []
    for name, site in group.data_vars.items():
        dims = tuple(map(str, site.dims[2:]))
        labels = [[str(label) for label in group[dim].values] for dim in dims]
        parts.append(invariant(str(name), site.values.reshape(size, *site.shape[2:]), dims, symmetry_of(tree), labels, most))
    return Summaries(np.concatenate([part.values for part in parts], axis=1), [name for part in parts for name in part.names])


def invariant(
    name: str, value: np.ndarray, dims: Sequence[str], symmetry: Symmetry, labels: Sequence[Sequence[str]], most: int = MOST
) -> Summaries:
    """At most ``most`` summaries of S values (S, ...) of one site, whose dimensions have names and ``labels``."""
    if isinstance(symmetry, Permutation):
        axes = [axis for axis, dim in enumerate(dims) if dim in (symmetry.dim, *symmetry.also)]
        if axes:
            return _sorted(name, value, axes, labels, most)
    elif symmetry is not None and len(dims) == len(symmetry.axes(tuple(dims))) == 2:
        size = [f"{name} singular value {place}" for place in range(1, value.shape[-1] + 1)]
        return Summaries(np.linalg.svd(value, compute_uv=False), size)
    elif symmetry is not None and tuple(dims[-1:]) == (symmetry.dim,):
        # One number per factor moves with its factor and has no sign.
        return _products(name, value, labels, most) if len(dims) > 1 else _sorted(name, value, [0], labels, most)
    places = spread(int(np.prod(value.shape[1:], dtype=int)), most)
    return Summaries(value.reshape(len(value), -1)[:, places], _named(name, labels, places))


def _sorted(name: str, value: np.ndarray, axes: list[int], labels: Sequence[Sequence[str]], most: int) -> Summaries:
    """Order statistics along all labelled axes together."""
    moved = np.moveaxis(value, [1 + axis for axis in axes], range(1, 1 + len(axes)))
    ranks, others = int(np.prod(moved.shape[1 : 1 + len(axes)])), moved.shape[1 + len(axes) :]
    rest = spread(int(np.prod(others, dtype=int)), max(1, most // ranks))
    places: tuple[Any, ...] = (..., *np.unravel_index(rest, others)) if others else (...,)
    picked = moved[places]  # before sorting copies all of it
    ordered = np.sort(picked.reshape(len(value), ranks, len(rest)), axis=1)
    of_ranks = spread(ranks, most)
    rests = _named("", [label for axis, label in enumerate(labels) if axis not in axes], rest)
    names = [f"sorted {name}[{', '.join(filter(None, [str(rank + 1), other[1:-1]]))}]" for rank in of_ranks for other in rests]
    return Summaries(ordered[:, of_ranks].reshape(len(value), -1), names)


def _products(name: str, value: np.ndarray, labels: Sequence[Sequence[str]], most: int) -> Summaries:
    """The lower triangle of Λ Λᵀ, for as many rows of Λ as give at most ``most`` products."""
    rows = value.reshape(len(value), -1, value.shape[-1])
    some = spread(rows.shape[1], max(1, int((np.sqrt(8 * most + 1) - 1) / 2)))
    left, right = np.tril_indices(len(some))
    products = np.einsum("sil,sjl->sij", rows[:, some], rows[:, some])[:, left, right]
    each = [label[1:-1] for label in _named("", labels[:-1], some)]
    return Summaries(products, [f"{name} products[{each[i]}, {each[j]}]" for i, j in zip(left, right, strict=True)])


def _named(name: str, labels: Sequence[Sequence[str]], places: np.ndarray) -> list[str]:
    """Names of some entries of a site, with their labels; the bare name for a scalar."""
    if not labels:
        return [name or "[]"]
    shape = [len(each) for each in labels]
    where = zip(*np.unravel_index(places, shape), strict=True)
    return [f"{name}[{', '.join(labels[axis][index] for axis, index in enumerate(place))}]" for place in where]


def distances(
    sites: Mapping[str, np.ndarray],
    best: int,
    draws: Mapping[str, np.ndarray],
    dims: Mapping[str, tuple[str, ...]],
    symmetry: Symmetry,
) -> np.ndarray:
    """Distances (S,) of S points from point ``best``, in standard deviations of the draws (D, ...).

    Each is the largest distance over all invariant summaries of all sites, so it is 0 between points that a symmetry maps to
    each other. Entries that are sorted one by one lose which of them belong together, so exchangeable components are also
    matched as a whole, each by one order of the components on all labelled axes. NaN for a point that is not finite.
    """
    apart = np.zeros(len(next(iter(sites.values()))))
    for name, value in sites.items():
        axes = dims.get(name, ()) if len(dims.get(name, ())) == value.ndim - 1 else ("",) * (value.ndim - 1)
        labels = [[str(k) for k in range(size)] for size in value.shape[1:]]
        some = draws[name][spread(len(draws[name]), SCALED)]
        points, drawn = (invariant(name, np.asarray(each), axes, symmetry, labels).values for each in (value, some))
        spread_of = drawn.std(0)
        moved = np.abs(points - points[best]) / np.where(spread_of > 0, spread_of, np.inf)
        apart = np.maximum(apart, moved.max(1, initial=0.0))
    if isinstance(symmetry, Permutation):
        apart = np.maximum(apart, _apart_matched(_labelled(sites, draws, dims, symmetry), best))
    return apart


class LabelledEntries(NamedTuple):
    """The entries of each of K components, and of each pair of them, at S points, in standard deviations."""

    singles: np.ndarray  # (S, K, F)
    pairs: np.ndarray  # (S, K, K, G): as the probabilities of transitions, of which both axes have the labels

    def ordered(self, point: int, orders: np.ndarray) -> np.ndarray:
        """(P, F'): all entries of a point, its components in each of P orders (P, K) on all labelled axes."""
        pairs = self.pairs[point][orders[:, :, None], orders[:, None, :]]
        return np.concatenate([part.reshape(len(orders), -1) for part in (self.singles[point][orders], pairs)], axis=1)


def _labelled(
    sites: Mapping[str, np.ndarray], draws: Mapping[str, np.ndarray], dims: Mapping[str, tuple[str, ...]], symmetry: Permutation
) -> LabelledEntries:
    """Entries of sites by their labels. Entries of a labelled axis beyond the K-th, such as to stop, keep their place."""
    names = (symmetry.dim, *symmetry.also)
    axes = {
        name: [axis for axis, dim in enumerate(each) if dim in names]
        for name, each in dims.items()
        if name in sites and len(each) == sites[name].ndim - 1
    }
    number = len(next(iter(sites.values())))
    size = min((sites[name].shape[1 + axis] for name, each in axes.items() for axis in each), default=0)
    singles, pairs = [np.zeros((number, size, 0))], [np.zeros((number, size, size, 0))]
    for name, labelled in axes.items():
        places = [1 + axis for axis in labelled], range(1, 1 + len(labelled))
        some = draws[name][spread(len(draws[name]), SCALED)]
        points, drawn = (np.moveaxis(np.asarray(value), *places) for value in (sites[name], some))
        if len(labelled) == 1:
            singles.append(_scaled(points[:, :size], drawn[:, :size], 1))
        elif len(labelled) == 2:
            singles.append(_scaled(points[:, :size, size:], drawn[:, :size, size:], 1))
            pairs.append(_scaled(points[:, :size, :size], drawn[:, :size, :size], 2))
    return LabelledEntries(np.concatenate(singles, axis=2), np.concatenate(pairs, axis=3))


def _scaled(points: np.ndarray, drawn: np.ndarray, number: int) -> np.ndarray:
    """Points (S, K, …), or (S, K, K, …) with ``number`` 2, in the standard deviations of draws that are shaped alike.

    These are of sorted entries, as labels may switch between draws. All but the labelled axes become one.
    """
    labelled = points.shape[1 : 1 + number]
    ranks = int(np.prod(labelled))
    flat, noise = (each.reshape(len(each), ranks, -1) for each in (points, drawn))
    chosen = spread(flat.shape[2], max(1, MOST // max(1, ranks)))
    deviation = np.sqrt(np.sort(noise[:, :, chosen], axis=1).var(0).mean(0))
    scaled = flat[:, :, chosen] / np.where(deviation > 0, deviation, np.inf)
    return scaled.reshape(len(points), *labelled, len(chosen))


def _apart_matched(labelled: LabelledEntries, best: int) -> np.ndarray:
    """(S,): the largest difference of an entry from point ``best``, whose components are in the order that matches best.

    Entries of single components are matched at once. Pairs join the components: few are tried in all orders. Of many, the
    first guess is by the sorted entries of the pairs of each, and exchanges of two improve it.
    """
    number, size = labelled.singles.shape[:2]
    sound = np.isfinite(labelled.singles).all((1, 2)) & np.isfinite(labelled.pairs).all((1, 2, 3))
    apart = np.where(sound & sound[best], 0.0, np.nan) if size else np.zeros(number)
    every = np.array(list(permutations(range(size)))) if labelled.pairs.size and size <= ENUMERATED else None
    images = None if every is None else labelled.ordered(best, every)
    for s in np.flatnonzero(apart == 0).tolist() if size else ():
        others = labelled.ordered(best, _order(labelled, s, best)[None]) if images is None else images
        apart[s] = np.abs(labelled.ordered(s, np.arange(size)[None]) - others).max(1, initial=0.0).min()
    return apart


def _order(labelled: LabelledEntries, point: int, best: int) -> np.ndarray:
    """The order of the components of ``best`` in which they match those of a point."""
    one, other = np.concatenate([labelled.singles[[point, best]], _profiles(labelled.pairs[[point, best]])], axis=2)
    order = linear_sum_assignment(((one[:, None] - other[None]) ** 2).sum(-1))[1]
    if not labelled.pairs.size:
        return np.asarray(order)
    target, nearest, improves = labelled.ordered(point, np.arange(len(order))[None]), np.inf, True
    exchanges = np.array(list(combinations(range(len(order)), 2)))
    while improves:
        orders = np.repeat(order[None], 1 + len(exchanges), axis=0)
        rows = np.arange(len(exchanges))[:, None] + 1
        orders[rows, exchanges] = order[exchanges[:, ::-1]]
        distances = ((labelled.ordered(best, orders) - target) ** 2).sum(1)
        improves = bool(distances.min() < nearest)
        order, nearest = orders[distances.argmin()], distances.min()
    return np.asarray(order)


def _profiles(pairs: np.ndarray) -> np.ndarray:
    """(S, K, F): pairs (S, K, K, G) under any order of the others: the diagonal, sorted rows and sorted columns."""
    places = np.arange(pairs.shape[1])
    parts = (pairs[:, places, places], np.sort(pairs, axis=2), np.sort(pairs, axis=1).swapaxes(1, 2))
    return np.concatenate([part.reshape(*pairs.shape[:2], -1) for part in parts], axis=2)
