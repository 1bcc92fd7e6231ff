"""Missing cells under the posterior: draws, means, probabilities of levels, completed tables, and Rubin's rules.

Each draw of the parameters brings one draw of all missing cells, given what is observed of their rows: multiple imputation
(Rubin 1987), proper because the parameters are drawn as well. At a point estimate the parameters stay where they are, so that
the draws are too narrow.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from jax.typing import ArrayLike

from inference.fitting import as_arrays, check_seed, require_model, x64
from inference.prediction import draws_of
from models.base import Hyper, Model, Pytree, Sites, Table, ZooError
from models.columns import Layout, as_typed
from models.data import Data, as_data, keep_columns

if TYPE_CHECKING:
    import pandas as pd

NUM_DRAWS = 200  # of every missing cell, by default


def impute(
    model: Model, source: xr.DataTree | Sites, data: Any, num_draws: int = NUM_DRAWS, seed: int = 0, precision: int = 64
) -> xr.Dataset:
    """Every missing cell of ``data`` under the posterior of a result, or at a dict of sites.

    Over the dimension ``cell``, with the coordinates ``cell_row`` (from 0) and ``cell_column`` (name): ``imputed`` (draw,
    cell), numbers, counts, or codes of levels; ``imputed_mean`` and ``imputed_sd`` of numbers and counts; ``imputed_mode``, of
    counts and codes; ``imputed_level``, the name of that level; ``imputed_probs`` (cell, level) of categories, NaN elsewhere
    and past the last level of a column. Raises `ZooError` for a model of complete rows only.
    """
    require_model(model)
    check_seed(seed)
    if model.table is None:
        raise ZooError(f"{model.name} needs complete rows: it has nothing to say of missing cells")
    if isinstance(num_draws, bool) or not isinstance(num_draws, int) or num_draws < 1:
        raise ZooError(f"num_draws must be a whole number above 0, got {num_draws!r}")
    rows = model.rows(as_data(data))
    row, column = np.nonzero(np.isnan(np.asarray(model.table.observed(rows))))
    some, place = np.unique(row, return_inverse=True)
    with x64(precision):
        hyper, sites, holed = as_arrays(
            (dict(model.hyper), _spread(draws_of(source), num_draws), jax.tree.map(lambda leaf: leaf[some], rows))
        )
        keys = jax.random.split(jax.random.PRNGKey(seed), num_draws)
        drawn = np.zeros((num_draws, 0))
        if len(row):
            drawn = np.asarray(_draws(model.table, hyper, holed, keys, sites, (place, column)), dtype=np.float64)
    return _described(layout_of(model), drawn, row, column)


def _spread(draws: Mapping[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """``size`` evenly spread draws; fewer come again and again."""
    total = len(next(iter(draws.values())))
    chosen = np.linspace(0, total - 1, size).round().astype(int) if total >= size else np.arange(size) % total
    return {name: leaf[chosen] for name, leaf in draws.items()}


@partial(jax.jit, static_argnames=("table",))
def _draws(table: Table, hyper: Hyper, rows: Pytree, keys: Array, draws: Sites, cells: tuple[ArrayLike, ArrayLike]) -> Array:
    """(S, cells)."""

    def one(pair: tuple[Array, Sites]) -> Array:
        return table.completed(pair[0], hyper, pair[1], rows)[jnp.asarray(cells[0]), jnp.asarray(cells[1])]

    return jax.lax.map(one, (keys, draws))


def layout_of(model: Model) -> Layout:
    """Columns, kinds and levels of the cells that a model explains: numbers, unless it says more."""
    if model.layout is not None:
        return model.layout
    columns = tuple(map(str, model.coords["column"]))
    return Layout(columns, ("number",) * len(columns), ((),) * len(columns))


def _described(like: Layout, drawn: np.ndarray, row: np.ndarray, column: np.ndarray) -> xr.Dataset:
    kinds = np.array(like.kinds, dtype=str)[column]
    counted, measured = kinds != "number", kinds != "category"
    modes = np.full(len(row), np.nan)
    for cell in np.flatnonzero(counted):
        values, times = np.unique(drawn[:, cell], return_counts=True)
        modes[cell] = values[times.argmax()]
    levels = ["" if measured[cell] else like.categories[d][int(modes[cell])] for cell, d in enumerate(column)]
    variables: dict[str, Any] = {
        "imputed": (("draw", "cell"), drawn),
        "imputed_mean": (("cell",), np.where(measured, drawn.mean(0), np.nan)),
        "imputed_sd": (("cell",), np.where(measured, drawn.std(0), np.nan)),
        "imputed_mode": (("cell",), modes),
        "imputed_level": (("cell",), np.array(levels, dtype=str)),
    }
    most = max((len(names) for names in like.categories), default=0)
    if most:
        shares = np.stack([(drawn == code).mean(0) for code in range(most)], axis=1)
        sizes = np.array([len(names) for names in like.categories])[column]
        variables["imputed_probs"] = (("cell", "level"), np.where(np.arange(most)[None, :] < sizes[:, None], shares, np.nan))
    names = np.array(like.columns, dtype=str)[column]
    return xr.Dataset(variables, coords={"cell_row": (("cell",), row), "cell_column": (("cell",), names)})


def completed_table(model: Model, imputed: xr.Dataset, data: Any, draw: int | None = None) -> "pd.DataFrame":
    """The table with its missing cells filled in: by posterior mean (numbers) and mode (counts, levels), or by one draw.

    In the terms of the table: names of levels, all columns of the source, in its order.
    """
    from models.tables import to_frame

    typed = as_data(data) if model.layout is None else as_typed(data, model.layout)
    like = layout_of(model)
    if model.layout is None:
        typed = keep_columns(typed, [typed.columns.index(name) for name in like.columns])
    places = [like.columns.index(name) for name in imputed["cell_column"].values]
    best = np.where(np.isnan(imputed["imputed_mode"]), imputed["imputed_mean"], imputed["imputed_mode"])
    x = np.array(typed.x, dtype=np.float64)
    x[imputed["cell_row"].values, places] = best if draw is None else imputed["imputed"].values[draw]
    filled: Data = typed._replace(x=x)
    return to_frame(filled)


class Pooled(NamedTuple):
    """An estimate over several completed tables, by Rubin's rules."""

    estimate: np.ndarray
    standard_error: np.ndarray
    dof: np.ndarray  # of the Student t interval
    missing_information: np.ndarray  # the share of the variance that the missing cells bring


def pooled(estimates: ArrayLike, variances: ArrayLike) -> Pooled:
    """Rubin's rules (1987): ``estimates`` and their sampling ``variances`` (M, ...), one from each of M completed tables.

    The total variance is W + (1 + 1/M) B, of the mean W of the variances and the variance B between the estimates. Raises
    `ZooError` for fewer than two tables.
    """
    found, within = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if found.shape != within.shape or len(found) < 2:
        raise ZooError(
            f"pooled needs estimates and variances of one shape from 2 tables or more, got {found.shape}, {within.shape}"
        )
    inside, between = within.mean(0), (1 + 1 / len(found)) * found.var(0, ddof=1)
    total = inside + between
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, between / total, 0.0)
        dof = (len(found) - 1) / share**2
    return Pooled(found.mean(0), np.sqrt(total), dof, share)
