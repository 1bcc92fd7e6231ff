"""Single precision: rows far from 0 are moved, and some rows are refused.

A number near 1e8 is rounded to a multiple of 8. Where a model declares its `models.base.Translation`, rows, prior and start are
replaced by their differences from ``hyper["origin"]``, computed in double precision on the host before they are rounded. The
sites are moved back in double precision, and all results are evaluated in double precision at these sites. Rows that cannot be
moved, as those of a user's program, are refused where rounding exceeds `LOST` of a column's standard deviation. A result whose
log joint was far off in single precision fails a diagnostic, as for groups that lie far apart for their width.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from inference.engine.task import Draws, Points
from models.base import Hyper, Model, Pytree, Sites, ZooError
from models.rows.row_info import row_info

EPSILON = float(np.finfo(np.float32).eps) / 2
LOST = 1e-3  # of the standard deviation of a column
MOST = 1e5  # a count: x log λ − λ − log x! is a difference of numbers near 1e6, and is known to 0.1
REMEDY = "use precision=64, or subtract a fixed number from the column"


def seen_from_origin(
    model: Model, hyper: Hyper, rows: Pytree, start: Mapping[str, Any] | None
) -> tuple[dict[str, Any], Pytree, dict[str, Any] | None]:
    """(hyperparameters, rows, start) of a run in single precision, in double precision on the host.

    Raises `ZooError` for rows that lose their digits in single precision nevertheless.
    """
    moved, hyper = rows, dict(hyper)
    start = None if start is None else dict(start)
    if model.reading.translation is not None:
        origin = np.asarray(hyper["origin"], dtype=np.float64)
        moved = model.reading.translation.move_rows(rows, origin)
        hyper |= {name: np.asarray(hyper[name]) - origin for name in model.reading.translation.moved_hyper if name in hyper}
        if start is not None:
            start |= {
                n: np.asarray(start[n], dtype=np.float64) - origin for n in model.reading.translation.moved_sites if n in start
            }
    _require_range(model, hyper)
    _require_digits(model, moved, rows)
    return hyper, moved, start


def back(model: Model, outcome: Draws | Points) -> Draws | Points:
    """The outcome of a run in single precision, with its sites in double precision and in the units of the data."""
    return outcome._replace(sites=moved_back(model, outcome.sites))


def moved_back(model: Model, sites: Sites) -> dict[str, np.ndarray]:
    """Sites relative to the origin, moved to the units of the data in double precision."""
    translation = model.reading.translation
    origin = np.asarray(model.hyper["origin"], dtype=np.float64) if translation is not None else 0.0
    moves = () if translation is None else translation.moved_sites
    return {name: np.asarray(value, dtype=np.float64) + (origin if name in moves else 0.0) for name, value in sites.items()}


def _require_range(model: Model, hyper: Hyper) -> None:
    """A `ZooError` for a prior that is beyond the range of single precision."""
    limits = np.finfo(np.float32)
    translation = model.reading.translation
    moved = () if translation is None else translation.moved_hyper
    for name, value in hyper.items():
        size = np.abs(np.asarray(value, dtype=np.float64))
        small = (size > 0) & (size < limits.tiny) & (name not in moved)
        if (small | (size > limits.max)).any():
            wrong = size[small | (size > limits.max)].flat[0]
            raise ZooError(
                f"precision=32: {wrong:.3g}, in the prior's {name}, is beyond single precision; use precision=64, or give the "
                "columns in another unit"
            )


def _require_digits(model: Model, moved: Pytree, rows: Pytree) -> None:
    program = model.algebra is None
    for (path, leaf), before in zip(_numbers(model, moved), [leaf for _, leaf in _numbers(model, rows)], strict=True):
        as_it_is = leaf is before  # a translation returns what it does not move as the same array
        if not program and as_it_is and leaf.max(initial=0.0) > MOST:
            raise ZooError(f"precision=32: a count of {leaf.max():g}{path} is too large for its log density; use precision=64")
        table = leaf.reshape(-1, leaf.shape[-1] if leaf.ndim > 1 else 1)
        with np.errstate(all="ignore"):
            spread, largest = np.nanstd(table, axis=0), np.nanmax(np.abs(table), axis=0, initial=0.0)
        lost = (spread > 0) & (EPSILON * largest > LOST * spread)
        if (program or not as_it_is) and lost.any():
            d = int(np.argmax(lost))
            raise ZooError(
                f"precision=32: {_named(model, d, table.shape[1])}{path} is {largest[d] / spread[d]:.3g} standard deviations "
                f"from 0, of which single precision keeps too few digits; {REMEDY}"
            )


def _numbers(model: Model, rows: Pytree) -> Iterator[tuple[str, np.ndarray]]:
    """(place in words, array) of all numbers that are rounded: the data of a program, or the cells that a model reads."""
    read = rows if model.algebra is None else row_info(rows).cells
    for path, leaf in jax.tree_util.tree_leaves_with_path(read):
        kind, program = np.asarray(leaf).dtype, model.algebra is None
        if (np.issubdtype(kind, np.floating) and np.ndim(leaf) > 1) or (program and np.issubdtype(kind, np.number)):
            yield (f" of data{jax.tree_util.keystr(path)}" if program and path else ""), np.asarray(leaf)


def _named(model: Model, place: int, size: int) -> str:
    names = next(
        (model.naming.coords[dim] for dim in ("feature", "numbers") if len(model.naming.coords.get(dim, ())) == size), None
    )
    return f"column {place + 1}" if names is None else f"column {names[place]!r}"


def in_precision(tree: Pytree) -> Pytree:
    """Host arrays: floating point in the precision in force, the rest as it is; arrays that are so already are not copied."""

    def one(leaf: Any) -> np.ndarray:
        host = np.asarray(leaf)
        return np.asarray(host, jnp.result_type(float)) if np.issubdtype(host.dtype, np.floating) else host

    return jax.tree.map(one, tree)
