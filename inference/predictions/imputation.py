"""Missing cells under the posterior: draws, means, probabilities of levels, completed tables, and Rubin's rules.

Each draw of the parameters gives one draw of the missing cells given the observed cells of their rows: multiple imputation
(Rubin 1987), which is proper because the parameters are drawn as well. At a point estimate the parameters are fixed, so that
the draws are too narrow, and the result has a warning. Means and probabilities are exact given the parameters, and averaged
over all draws of these. `inference.results.draws` has the weights of draws.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from jax.typing import ArrayLike

from inference.fitting.prepare import as_arrays, require_model, x64
from inference.methods.options import NUM_DRAWS, check_seed
from inference.predictions.classes import require_possible
from inference.results.averages import AtDraw, averaged
from inference.results.draws import chosen_draws, draws_of, fitted_rows, log_weight, number_of
from models.abilities import Expected
from models.base import Algebra, Hyper, Model, Pytree, Sites, ZooError
from models.chains.sequences import steps_of
from models.data.arguments import require_whole
from models.data.columns import Layout
from models.data.table import require_rows

if TYPE_CHECKING:
    import pandas as pd

AT_A_POINT = "these draws are at one value of the parameters: they are too narrow for Rubin's rules; impute under a posterior"
INTERVAL = (0.055, 0.945)  # 89 %, as ArviZ summarises
FEWEST, MOST = 8, 1024  # rows at a time, a power of 2, so that tables with other missing cells share a compilation
NUMBERS = 2**24  # in the cells drawn at a time, or in the sites they are drawn from


def impute(
    model: Model,
    source: xr.DataTree | Sites,
    data: Any,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    fitted: bool | np.ndarray | None = None,
    first_row: int = 0,
) -> xr.Dataset:
    """Every missing cell of ``data`` under the posterior of a result, or at a dict of sites.

    Over the dimension ``cell``, with the coordinates ``cell_row`` (from 0) and ``cell_column`` (name): ``imputed`` (draw,
    cell), numbers, counts, or codes of levels; ``imputed_mean`` and ``imputed_sd`` of numbers and counts; ``imputed_mode``, of
    counts (the most frequent draw) and codes; ``imputed_level``, the name of that level; ``imputed_probs`` (cell, level) of
    categories, NaN elsewhere and past the last level of a column. The attribute ``warning`` is there where the parameters are
    those of a point. New rows weight the draws of the result by the density of what is observed of them, fitted rows weight
    all draws equally; ``fitted`` as in `inference.predictions.predict.predict`. The random numbers of a row depend on its place
    in the table: ``first_row`` is the place of the first row of ``data``, where these are a part of a longer table. Raises
    `ZooError` for a model of complete rows only, and for a row of density 0.

    >>> data = load_data([[1.0, 2.0], [1.2, 2.4], [5.0, 9.8], [5.1, np.nan], [4.8, 9.9]])
    >>> model = MODELS["gmm"](data, num_components=1)
    >>> imputed = impute(model, fit(model, data, "em"), data)
    >>> imputed["cell_row"].values, imputed["cell_column"].values
    (array([3]), array(['x1'], dtype='<U2'))
    """
    require_model(model)
    check_seed(seed)
    if model.abilities.table is None or model.algebra is None:
        raise ZooError(f"{model.name} needs complete rows: it has no missing cells to impute")
    require_whole("num_draws", num_draws)
    require_rows(data, "no cell of theirs can be filled in")
    rows, like = model.rows(data), model.abilities.table.cells
    draws = draws_of(model, source, rows)
    given = fitted_rows(model, source, data, fitted)
    row, *step, column = np.nonzero(np.isnan(np.asarray(model.abilities.table.observed(rows))))
    sizes = tuple(map(len, like.categories))
    width = max(num_draws * len(like.columns), sum(value[0].size for value in draws.values()))
    completion = ImputationModel(model.algebra, model.abilities.table.completed, model.abilities.table.expected)
    parts = [ImputedCells(np.zeros((num_draws, 0)), np.zeros(0), np.zeros(0), np.zeros((0, max(sizes))))]
    with x64(64):
        hyper, sites = as_arrays((dict(model.hyper), draws))
        key = jax.random.PRNGKey(seed)
        for some in _blocks(np.unique(row), width):
            holed = as_arrays(jax.tree.map(lambda leaf, some=some: np.asarray(leaf)[some], rows))
            log_density, block = _block(completion, sizes, num_draws, hyper, holed, key, sites, given[some], first_row + some)
            require_possible(np.asarray(log_density), some)
            here = np.isin(row, some)
            parts.append(_cells_of(block, (np.searchsorted(some, row[here]), *(one[here] for one in step), column[here])))
    drawn, *averages = zip(*parts, strict=True)
    imputed = ImputedCells(np.concatenate(drawn, axis=1), *map(np.concatenate, averages))
    lines = steps_of(model.read(data)).starts[row] + step[0] if step else row
    described = _described(like, imputed, lines, column)
    return described.assign_attrs(warning=AT_A_POINT) if number_of(draws) == 1 else described


def _blocks(rows: np.ndarray, width: int) -> list[np.ndarray]:
    """Rows in blocks of a power of 2, for ``width`` numbers per row; the last row is repeated to fill the last block."""
    most = max(FEWEST, min(MOST, 2 ** int(np.log2(max(1, NUMBERS // width)))))
    size = min(most, max(FEWEST, 2 ** int(np.ceil(np.log2(max(1, len(rows)))))))
    parts = [rows[first : first + size] for first in range(0, len(rows), size)]
    return [np.pad(part, (0, size - len(part)), mode="edge") for part in parts]


class ImputedCells(NamedTuple):
    """C missing cells, or all cells of a block of rows (B, D), or of sequences (B, T, D)."""

    drawn: Any  # (S, C)
    mean: Any  # (C,), of numbers and counts
    sd: Any
    probs: Any  # (C, most levels), of categories


def _cells_of(block: ImputedCells, places: tuple[np.ndarray, ...]) -> ImputedCells:
    """Some cells of a block, on the host, by their places along all of its axes."""
    drawn, mean, sd, probs = (np.asarray(leaf, dtype=np.float64) for leaf in block)
    return ImputedCells(np.moveaxis(drawn, 0, -1)[places].T, mean[places], sd[places], probs[places])


class ImputationModel(NamedTuple):
    """The hashable parts of a model that imputation needs."""

    algebra: Algebra
    completed: Callable[..., Array]  # as of `models.abilities.Table`
    expected: Callable[..., tuple[Expected, ...]]


@partial(jax.jit, static_argnames=("completion", "sizes", "num_draws"))
def _block(
    completion: ImputationModel,
    sizes: tuple[int, ...],
    num_draws: int,
    hyper: Hyper,
    rows: Pytree,
    key: Array,
    draws: Sites,
    fitted: ArrayLike,
    names: ArrayLike,
) -> tuple[Array, ImputedCells]:
    """(log p(x_observed) (B,), all cells of B rows, those that are missing drawn and averaged over S draws of the parameters).

    The variance is that within and between draws. Each of the ``num_draws`` imputations of a row uses another draw of the
    parameters, chosen by weight. Fitted rows share these draws, so that an imputation is one consistent table. ``names`` are
    the numbers of the rows: the random numbers of a row depend on it alone, not on the other rows of the block.
    """
    given, algebra = jnp.asarray(fitted), completion.algebra

    def at(sites: Sites) -> AtDraw:
        local = algebra.local_natural_parameters(algebra.natural(hyper, sites))(algebra.features(hyper, rows))
        log_density = algebra.latent.log_partition(local)
        now, variance, shares = _moments(completion.expected(hyper, sites, rows), sizes)
        return AtDraw(log_density, values=(shares,), uncertain=((now, variance),), by_draw=log_density)

    result = averaged(at, draws, given)
    ((mean, sd),), (probs,), log_density = result.uncertain, result.values, result.by_draw
    key_offset, key_cells = jax.random.split(key)
    offset = jax.random.uniform(key_offset, (), mean.dtype)
    places = chosen_draws(log_weight(given, log_density), num_draws, offset)
    keys = jax.vmap(partial(jax.random.fold_in, key_cells))(jnp.asarray(names))

    def again(inputs: tuple[Array, Array]) -> Array:
        number, chosen = inputs

        def cells(key: Array, place: Array, row: Pytree) -> Array:
            at = {name: leaf[place] for name, leaf in draws.items()}
            single = jax.tree.map(lambda leaf: leaf[None], row)
            return completion.completed(jax.random.fold_in(key, number), hyper, at, single)[0]

        return jax.vmap(cells)(keys, chosen, rows)

    drawn = jax.lax.map(again, (jnp.arange(num_draws), places))
    return result.log_density, ImputedCells(drawn, mean, sd, probs)


def _moments(columns: tuple[Expected, ...], sizes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Mean and variance (…, D) of every column of numbers, probabilities (…, D, most) of one of levels; else 0."""
    first, most = columns[0].mean, max(sizes)
    blank = jnp.zeros(first.shape[:-1] if sizes[0] else first.shape)
    before = ((0, 0),) * blank.ndim
    mean = jnp.stack([blank if size else each.mean for each, size in zip(columns, sizes, strict=True)], axis=-1)
    variance = jnp.stack([blank if each.variance is None else each.variance for each in columns], axis=-1)
    probs = [
        jnp.pad(each.mean, (*before, (0, most - size))) if size else jnp.zeros((*blank.shape, most))
        for each, size in zip(columns, sizes, strict=True)
    ]
    return mean, variance, jnp.stack(probs, axis=-2)


def _described(like: Layout, cells: ImputedCells, row: np.ndarray, column: np.ndarray) -> xr.Dataset:
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


def cell_lines(model: Model, imputed: xr.Dataset, first_row: int = 0) -> "pd.DataFrame":
    """One line for each missing cell: ``row`` (from 1), ``column``, ``imputed`` and how sure that is.

    ``imputed`` is the posterior mean of a number, the most frequent draw of a count, the most probable level of a category.
    Numbers and counts have ``sd``, and ``eti89_lb`` and ``eti89_ub``, the limits of the 89 % interval of the draws. Categories
    have the ``probability`` of the level.
    """
    import pandas as pd

    numbers = ~np.isnan(imputed["imputed_mean"].values)
    best = np.where(np.isnan(imputed["imputed_mode"]), imputed["imputed_mean"], imputed["imputed_mode"])
    limits = np.full((2, len(best)), np.nan)
    limits[:, numbers] = np.quantile(imputed["imputed"].values[:, numbers], INTERVAL, axis=0)
    probs = imputed["imputed_probs"].values if "imputed_probs" in imputed else np.zeros((len(best), 1))
    named = imputed["imputed_level"].values.astype(object)
    column = imputed["cell_column"].values
    counts = np.isin(column, _of_kind(model, "count"))
    written = [int(one) if whole else float(one) for one, whole in zip(best, counts, strict=True)]
    return pd.DataFrame(
        {
            "row": 1 + first_row + imputed["cell_row"].values,
            "column": column,
            "imputed": pd.Series(
                [one if n else name for one, n, name in zip(written, numbers, named, strict=True)], dtype=object
            ),
            "sd": imputed["imputed_sd"].values,
            "eti89_lb": limits[0],
            "eti89_ub": limits[1],
            "probability": np.where(numbers, np.nan, np.nan_to_num(probs).max(1, initial=0.0)),
        }
    )


def _of_kind(model: Model, kind: str) -> list[str]:
    assert model.abilities.table is not None
    like = model.abilities.table.cells
    return [column for column, kind_of_column in zip(like.columns, like.kinds, strict=True) if kind_of_column == kind]


def completed_table(model: Model, imputed: xr.Dataset, data: Any, draw: int | None = None) -> "pd.DataFrame":
    """The table with its missing cells filled in: by posterior mean (numbers) and mode (counts, levels), or by one draw.

    The table has names of levels, and all columns of the source in its order. A column of True and False that a model
    takes as numbers comes back as numbers, because filled-in values lie between them.

    >>> data = load_data([[1.0, 2.0], [1.2, 2.4], [5.0, 9.8], [5.1, np.nan], [4.8, 9.9]])
    >>> model = MODELS["gmm"](data, num_components=1)
    >>> completed_table(model, impute(model, fit(model, data, "em"), data), data).shape
    (5, 2)
    """
    from models.reading.readers import to_frame

    require_model(model)
    if model.abilities.table is None:
        raise ZooError(f"{model.name} needs complete rows: it has no missing cells to impute")
    most = imputed.sizes["draw"]
    if draw is not None and not 0 <= draw < most:
        raise ZooError(f"draw={draw}: there are {most} draws, from 0 to {most - 1}")
    like, source = model.abilities.table.cells, model.read(data)
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

    >>> float(pooled([1.0, 3.0], [0.5, 0.5]).standard_error.round(2))
    1.87
    """
    points, within = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if points.shape != within.shape or len(points) < 2:
        raise ZooError(
            f"pooled needs estimates and variances of one shape from 2 tables or more, got {points.shape}, {within.shape}"
        )
    if not (np.isfinite(points).all() and np.isfinite(within).all() and (within >= 0).all()):
        raise ZooError("pooled needs finite estimates, and variances that are finite and not below 0")
    inside, between = within.mean(0), (1 + 1 / len(points)) * points.var(0, ddof=1)
    total = inside + between
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, between / total, 0.0)
        dof = (len(points) - 1) / share**2
    return Pooled(points.mean(0), np.sqrt(total), dof, share)
