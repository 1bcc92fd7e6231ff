"""Invariances of a model when its table is written in another way, and the number of its free parameters.

A case is a table with numbers of the prior and parameters. A contract maps it to another one of equal density.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from models.data.documents import Sequences
from models.data.table import Data

Path = tuple[str, ...]  # of an entry in nested options


class Case(NamedTuple):
    """The arguments of a density."""

    options: Mapping[str, Any]  # of build
    data: Data
    sites: Mapping[str, np.ndarray]  # without a leading axis


class Missing(NamedTuple):
    """A cell (row, column) that is there, and all its values, over which the oracle sums or integrates its likelihood."""

    row: int
    column: int
    values: np.ndarray  # (V,)
    step: float  # between values that are integrated over; 1 for a sum


class Contracts(NamedTuple):
    """The contracts of one model; None: it does not apply."""

    free: int  # how many numbers are free, counted by hand
    order: Callable[[Case], Case]  # columns, or words, in another order
    offset: Callable[[Case, float], Case] | None = None  # columns of numbers, and where the prior has them, further up
    missing: tuple[Missing, ...] = ()  # where cells may be missing
    by_row: tuple[str, ...] = ()  # sites with an entry for every row
    weighted: bool = True  # whether rows may have weights
    named: bool = False  # whether sites belong to columns by their names, so that none follows another order


def changed(options: Mapping[str, Any], path: Path, change: Callable[[Any], Any], default: Any = None) -> dict[str, Any]:
    """Nested options with one entry changed, which is ``default`` where it is not given."""
    name, *rest = path
    if rest:
        return {**options, name: changed(options[name], tuple(rest), change, default)}
    return {**options, name: change(options.get(name, default))}


def moved(site: str | None, prior: Path | None, columns: Sequence[int], default: Any = None) -> Callable[[Case, float], Case]:
    """An offset of some columns: of their cells, of the entries of ``site``, and of the location of the prior."""

    def offset(case: Case, size: float) -> Case:
        x = case.data.x.copy()
        x[:, list(columns)] += size
        options, sites = case.options, dict(case.sites)
        if prior is not None:
            options = changed(options, prior, lambda value: value + size, default)
        if site is not None:
            sites[site] = sites[site] + size
        return Case(options, case.data._replace(x=x), sites)

    return offset


def reordered(
    places: Sequence[int], axes: Mapping[str, tuple[int, ...]], prior: Mapping[Path, tuple[int, ...]] = MappingProxyType({})
) -> Callable[[Case], Case]:
    """Columns, or words, in another order: of the table, of the axes of sites, and of those of numbers of the prior."""
    order = np.array(places)

    def taken(value: Any, along: tuple[int, ...]) -> np.ndarray:
        array = np.asarray(value)
        for axis in along:
            array = np.take(array, order, axis=axis)
        return array

    def ordered(case: Case) -> Case:
        options = dict(case.options)
        for path, along in prior.items():
            options = changed(options, path, partial(taken, along=along))
        sites = {name: taken(value, axes[name]) if name in axes else value for name, value in case.sites.items()}
        return Case(options, _reordered_table(case.data, order), sites)

    return ordered


def _reordered_table(data: Data, order: np.ndarray) -> Data:
    if isinstance(data.x, Sequences):  # the words have other codes
        return data._replace(x=Sequences(np.argsort(order)[data.x.tokens].astype(data.x.tokens.dtype), data.x.starts))
    names = tuple(data.columns[place] for place in order)
    categories = tuple(data.categories[place] for place in order) if data.categories else ()
    kinds = tuple(data.kinds[place] for place in order) if data.kinds else ()
    return data._replace(x=data.x[:, order], columns=names, categories=categories, kinds=kinds)


def real_cell(row: int, column: int) -> Missing:
    """A number: the trapezoidal rule, whose error is below 1e-30 for densities at least 0.1 wide that vanish beyond ±40."""
    return Missing(row, column, np.arange(-40.0, 40.0, 0.05), 0.05)


def counted_cell(row: int, column: int, most: int) -> Missing:
    """A count or a level: all values up to one that has no probability left, or that is the last."""
    return Missing(row, column, np.arange(most + 1.0), 1.0)
