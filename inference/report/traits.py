"""Groups of rows of a result: their sizes, and the columns that set them apart."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from inference.diagnostics.summaries import trusted
from inference.plots.components import INTERVAL
from inference.report.groups import groups_of
from inference.results.table import data_of
from inference.results.tree import table_of, values
from models.data.columns import categories_of
from models.data.table import Data
from models.reading.repairs import date_columns

FEW = 3  # traits per group
TELLING = 0.3  # standard deviations of a column between a group and all rows: less sets no group apart


class GroupTraits(NamedTuple):
    """One component or class: its share of the rows, and the columns in which its rows differ most from all rows."""

    name: str
    share: float
    traits: list[str]  # the most telling one first
    interval: tuple[float, float] | None = None  # the middle 89 % of the share over the draws; None at a point


class _Trait(NamedTuple):
    words: str
    distance: float  # in standard deviations of the column over all rows


def described(tree: xr.DataTree) -> list[GroupTraits]:
    """The groups of a result, the largest first; [] where rows have no probabilities of groups, or labels mix.

    A row counts for each group by its probability of belonging to it, times its weight. A trait is the mean of a number, or the
    share of a level, over the rows of the group and over all rows. It describes the rows; parameters are in other tables.
    """
    groups = groups_of(tree) if trusted(tree) else None
    if groups is None or "column" not in table_of(tree).coords:  # a program's data are arrays
        return []
    data = data_of(tree)
    names, share = [str(name) for name in groups.names], groups.share
    no_traits: list[list[str]] = [[] for _ in names]
    cells = isinstance(data.x, np.ndarray) and data.num_rows == len(groups.probs)
    traits = _traits(data, groups.probs * groups.weight[:, None]) if cells else no_traits
    intervals = _intervals(tree, len(names))
    return [GroupTraits(names[k], float(share[k]), traits[k], intervals[k]) for k in groups.order]


def _intervals(tree: xr.DataTree, size: int) -> list[tuple[float, float] | None]:
    """Of every group the middle 89 % of its share over the draws; None where the result has no shares by draw."""
    if "share" not in tree["latent"] or "draw" not in tree["latent"]["share"].dims:
        return [None] * size
    low, high = np.quantile(values(tree, "latent", "share").reshape(-1, size), INTERVAL, axis=0)
    return [(float(one), float(other)) for one, other in zip(low, high, strict=True)]


def _traits(data: Data, counts: np.ndarray) -> list[list[str]]:
    """The most telling traits of every group, from counts (N, K)."""
    traits_of_groups: list[list[_Trait]] = [[] for _ in counts.T]
    dates = date_columns(data.notes)
    for place, (column, levels) in enumerate(zip(data.columns, categories_of(data), strict=True)):
        cells = data.x[:, place]
        for k, trait in (
            _of_levels(column, levels, cells, counts) if levels else _of_numbers(column, cells, counts, column in dates)
        ):
            traits_of_groups[k].append(trait)
    return [[each.words for each in sorted(traits, key=lambda trait: -trait.distance)[:FEW]] for traits in traits_of_groups]


def _of_numbers(column: str, cells: np.ndarray, counts: np.ndarray, dates: bool) -> list[tuple[int, _Trait]]:
    """(group, trait) of a column of numbers: means over the rows whose cell is there."""
    seen = ~np.isnan(cells)
    mean, overall = _means(cells[seen, None], counts[seen])
    spread = np.sqrt(_means((cells[seen, None] - overall) ** 2, counts[seen])[1])[0]
    if not spread > 0:
        return []
    distance = np.abs(mean[:, 0] - overall[0]) / spread
    return [
        (
            k,
            _Trait(f"{column} {_mean(mean[k, 0], spread, dates)} (all {_mean(overall[0], spread, dates)})", float(distance[k])),
        )
        for k in range(len(mean))
        if distance[k] >= TELLING
    ]


def _mean(value: float, spread: float, date: bool) -> str:
    """A mean with the digits that matter given the spread of its column; days as a date."""
    if date:
        return str(np.datetime64(int(np.floor(value)), "D"))
    return f"{value:.{max(0, 1 - int(np.floor(np.log10(spread))))}f}"


def _of_levels(column: str, levels: tuple[str, ...], cells: np.ndarray, counts: np.ndarray) -> list[tuple[int, _Trait]]:
    """(group, trait) of a column of categories: the level whose share is most above that of all rows."""
    seen = ~np.isnan(cells)
    is_level = cells[seen, None] == np.arange(len(levels))
    share, overall = _means(is_level, counts[seen])
    spread = np.sqrt(overall * (1 - overall))
    distance = np.divide(share - overall, spread, out=np.zeros_like(share), where=spread > 0)
    level, rows = distance.argmax(1), range(len(share))
    words = [f"{column} {levels[d]} {share[k, d]:.0%} (all {overall[d]:.0%})" for k, d in zip(rows, level, strict=True)]
    return [(k, _Trait(words[k], float(distance[k, level[k]]))) for k in rows if distance[k, level[k]] >= TELLING]


def _means(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means of (n, V) per group, (K, V), and over all rows, (V,); groups without rows have the overall mean."""
    total = counts.sum(0)
    overall = counts.sum(1) @ values / max(total.sum(), np.finfo(float).tiny)
    sums = counts.T @ values
    return np.where(total[:, None] > 0, sums / np.maximum(total, np.finfo(float).tiny)[:, None], overall), overall
