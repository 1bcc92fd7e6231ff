"""Missing cells under the posterior: draws, means, probabilities of levels, completed tables, and Rubin's rules.

Each draw of the parameters brings one draw of all missing cells, given what is observed of their rows: multiple imputation
(Rubin 1987), proper because the parameters are drawn as well. At a point estimate the parameters stay where they are, so that
the draws are too narrow, and the result says so. Means and probabilities are averages over the draws of the parameters of the
exact ones given these.
"""

from collections.abc import Callable, Mapping
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
from models.base import Expected, Hyper, Model, Pytree, Sites, ZooError
from models.columns import Layout
from models.data import require_rows
from models.rows import spread

if TYPE_CHECKING:
    import pandas as pd

AT_A_POINT = "these draws are at one value of the parameters: they are too narrow for Rubin's rules; impute under a posterior"
NUM_DRAWS = 200  # of every missing cell, by default


def impute(
    model: Model, source: xr.DataTree | Sites, data: Any, num_draws: int = NUM_DRAWS, seed: int = 0, precision: int = 64
) -> xr.Dataset:
    """Every missing cell of ``data`` under the posterior of a result, or at a dict of sites.

    Over the dimension ``cell``, with the coordinates ``cell_row`` (from 0) and ``cell_column`` (name): ``imputed`` (draw,
    cell), numbers, counts, or codes of levels; ``imputed_mean`` and ``imputed_sd`` of numbers and counts; ``imputed_mode``, of
    counts (the most frequent draw) and codes; ``imputed_level``, the name of that level; ``imputed_probs`` (cell, level) of
    categories, NaN elsewhere and past the last level of a column. The attribute ``warning`` is there where the parameters are
    those of a point. Raises `ZooError` for a model of complete rows only.
    """
    require_model(model)
    check_seed(seed)
    if model.table is None:
        raise ZooError(f"{model.name} needs complete rows: it has nothing to say of missing cells")
    if isinstance(num_draws, bool) or not isinstance(num_draws, int) or num_draws < 1:
        raise ZooError(f"num_draws must be a whole number above 0, got {num_draws!r}")
    require_rows(data, "no cell of theirs can be filled in")
    rows, like, draws = model.rows(data), model.table.cells, draws_of(source)
    row, column = np.nonzero(np.isnan(np.asarray(model.table.observed(rows))))
    some, place = np.unique(row, return_inverse=True)
    with x64(precision):
        hyper, sites, holed = as_arrays(
            (dict(model.hyper), _spread(draws, num_draws), jax.tree.map(lambda leaf: leaf[some], rows))
        )
        keys = jax.random.split(jax.random.PRNGKey(seed), num_draws)
        sizes = tuple(map(len, like.categories))
        cells = Cells(np.zeros((num_draws, 0)), np.zeros(0), np.zeros(0), np.zeros((0, max(sizes, default=0))))
        if len(row):
            verbs = (model.table.completed, model.table.expected)
            found = _cells(verbs, sizes, hyper, holed, keys, sites, (place, column))
            cells = Cells(*(np.asarray(leaf, dtype=np.float64) for leaf in found))
    described = _described(like, cells, row, column)
    return described.assign_attrs(warning=AT_A_POINT) if len(next(iter(draws.values()))) == 1 else described


def _spread(draws: Mapping[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """``size`` evenly spread draws; fewer come again and again."""
    total = len(next(iter(draws.values())))
    chosen = spread(total, size) if total >= size else np.arange(size) % total
    return {name: leaf[chosen] for name, leaf in draws.items()}


Sums = tuple[Array, Array, Array, Array]


class Cells(NamedTuple):
    """C missing cells."""

    drawn: Array | np.ndarray  # (S, C)
    mean: Array | np.ndarray  # (C,), of numbers and counts
    sd: Array | np.ndarray
    probs: Array | np.ndarray  # (C, most levels), of categories


@partial(jax.jit, static_argnames=("verbs", "sizes"))
def _cells(
    verbs: tuple[Callable[..., Array], Callable[..., tuple[Expected, ...]]],
    sizes: tuple[int, ...],
    hyper: Hyper,
    rows: Pytree,
    keys: Array,
    draws: Sites,
    places: tuple[ArrayLike, ArrayLike],
) -> Cells:
    """Drawn at each of S draws of the parameters, and averaged over them; the variance is that within and between draws."""
    completed, expected = verbs
    row, column = map(jnp.asarray, places)
    most = max(sizes)

    def moments(sites: Sites) -> tuple[Array, Array, Array]:
        columns = expected(hyper, sites, rows)
        blank = jnp.zeros(columns[0].mean.shape[0])
        mean = jnp.stack([blank if size else each.mean for each, size in zip(columns, sizes, strict=True)], axis=1)
        variance = jnp.stack([blank if each.variance is None else each.variance for each in columns], axis=1)
        padded = [
            jnp.pad(each.mean, ((0, 0), (0, most - size))) if size else jnp.zeros((len(blank), most))
            for each, size in zip(columns, sizes, strict=True)
        ]
        return mean[row, column], variance[row, column], jnp.stack(padded, axis=1)[row, column]

    def one(sums: Sums, inputs: tuple[Array, Array, Sites]) -> tuple[Sums, Array]:
        number, key, sites = inputs
        mean, square, within, probs = sums
        now, variance, shares = moments(sites)
        away = now - mean
        mean = mean + away / (number + 1)  # Welford's running mean: no difference of large squares
        sums = (mean, square + away * (now - mean), within + variance, probs + shares)
        return sums, completed(key, hyper, sites, rows)[row, column]

    size = keys.shape[0]
    zeros = jnp.zeros(row.shape[0])
    start = (zeros, zeros, zeros, jnp.zeros((row.shape[0], most)))
    (mean, square, within, probs), drawn = jax.lax.scan(one, start, (jnp.arange(size), keys, draws))
    return Cells(drawn, mean, jnp.sqrt((square + within) / size), probs / size)


def _described(like: Layout, cells: Cells, row: np.ndarray, column: np.ndarray) -> xr.Dataset:
    kinds = np.array(like.kinds, dtype=str)[column]
    measured = kinds != "category"
    modes = np.full(len(row), np.nan)
    modes[~measured] = cells.probs[~measured].argmax(1) if cells.probs.shape[1] else np.nan
    counts = np.flatnonzero(kinds == "count")
    modes[counts] = _most_frequent(np.asarray(cells.drawn)[:, counts])
    levels = ["" if measured[cell] else like.categories[d][int(modes[cell])] for cell, d in enumerate(column)]
    variables: dict[str, Any] = {
        "imputed": (("draw", "cell"), cells.drawn),
        "imputed_mean": (("cell",), np.where(measured, cells.mean, np.nan)),
        "imputed_sd": (("cell",), np.where(measured, cells.sd, np.nan)),
        "imputed_mode": (("cell",), modes),
        "imputed_level": (("cell",), np.array(levels, dtype=str)),
    }
    most = cells.probs.shape[1]
    if most:
        sizes = np.array([len(names) for names in like.categories])[column]
        known = np.arange(most)[None, :] < sizes[:, None]
        variables["imputed_probs"] = (("cell", "level"), np.where(known, cells.probs, np.nan))
    names = np.array(like.columns, dtype=str)[column]
    return xr.Dataset(variables, coords={"cell_row": (("cell",), row), "cell_column": (("cell",), names)})


def _most_frequent(drawn: np.ndarray) -> np.ndarray:
    """The value that comes most often in every column (S, C) of draws, the smallest of several: (C,)."""
    ranked = np.sort(drawn, axis=0)
    fresh = np.concatenate([np.ones((1, ranked.shape[1]), bool), ranked[1:] != ranked[:-1]])
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(ranked))[:, None], 0), axis=0)
    run = np.arange(len(ranked))[:, None] - first  # how often the value has come before
    return np.take_along_axis(ranked, run.argmax(0)[None], axis=0)[0]


def completed_table(model: Model, imputed: xr.Dataset, data: Any, draw: int | None = None) -> "pd.DataFrame":
    """The table with its missing cells filled in: by posterior mean (numbers) and mode (counts, levels), or by one draw.

    In the terms of the table: names of levels, all columns of the source, in its order. A column of True and False that a model
    takes as numbers comes back as numbers, because what is filled in lies between them.
    """
    from models.tables import to_frame

    require_model(model)
    if model.table is None:
        raise ZooError(f"{model.name} needs complete rows: it has nothing to say of missing cells")
    most = imputed.sizes["draw"]
    if draw is not None and not 0 <= draw < most:
        raise ZooError(f"draw={draw}: there are {most} draws, from 0 to {most - 1}")
    like, source = model.table.cells, model.read(data)
    frame = to_frame(source)
    best = np.where(np.isnan(imputed["imputed_mode"]), imputed["imputed_mean"], imputed["imputed_mode"])
    values = best if draw is None else imputed["imputed"].values[draw]
    row, of = imputed["cell_row"].values, imputed["cell_column"].values
    for name, kind, levels in zip(like.columns, like.kinds, like.categories, strict=True):
        here = of == name
        if here.any():
            frame[name] = _filled(frame[name], source.x[:, source.columns.index(name)], row[here], values[here], kind, levels)
    return frame


def _filled(
    column: "pd.Series[Any]", x: np.ndarray, row: np.ndarray, values: np.ndarray, kind: str, levels: tuple[str, ...]
) -> "pd.Series[Any]":
    """A column of a DataFrame, of which the model's cells are ``x`` (N,), with ``values`` in some rows."""
    import pandas as pd

    if kind != "category":
        whole = x.copy()
        whole[row] = values
        return pd.Series(pd.array(whole, dtype="Int64") if kind == "count" else whole)
    named = [levels[int(code)] for code in values]
    if not isinstance(column.dtype, pd.CategoricalDtype):  # codes that are numbers
        whole = column.to_numpy(dtype=float).copy()
        whole[row] = np.array(named, dtype=float)
        return pd.Series(whole)
    known = [*column.cat.categories, *(level for level in dict.fromkeys(named) if level not in column.cat.categories)]
    words = column.to_numpy(dtype=object).copy()
    words[row] = named
    return pd.Series(pd.Categorical(words, categories=known))


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
    if not (np.isfinite(found).all() and np.isfinite(within).all() and (within >= 0).all()):
        raise ZooError("pooled needs finite estimates, and variances that are finite and not below 0")
    inside, between = within.mean(0), (1 + 1 / len(found)) * found.var(0, ddof=1)
    total = inside + between
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, between / total, 0.0)
        dof = (len(found) - 1) / share**2
    return Pooled(found.mean(0), np.sqrt(total), dof, share)
