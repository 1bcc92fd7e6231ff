"""Posterior predictive checks: is what the fitted model draws like the data observed? (Rubin 1984; Gelman, Meng and Stern 1996)

At each of S draws of the posterior the program draws the whole table anew. Of the observed table and of every replicated one we
take the same statistics: of every column the shares of its rows by bins, or levels; of sequences also the shares of pairs of
successive levels, or the correlation of successive numbers. How unusual the observed shares y_b are is measured by

    T(y) = Σ_b (y_b − m_b)² / (m_b + 1 / n),      m the mean of the shares over all S + 1 tables, n the weight of the rows,

and the p-value is the share of all S + 1 tables whose T is at least that observed. The data were used to fit the model, so that
p-values lie closer to ½ than chance alone would put them: a small one is evidence against the model, a large one is little
evidence for it.

Numbers are often rounded, and draws are not. Bins therefore end half-way between values that the rounding allows. A row counts
by its weight in the observed and in every replicated table; a row of a large weight is drawn once, which widens the bands.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.fitting.predictive import columns_of, drawn_rows
from inference.fitting.prepare import require_model
from inference.results.draws import draws_of, number_of, thinned
from models.algebra import is_sequential
from models.base import Data, Model, Sites, ZooError
from models.chains.sequences import steps_of
from models.data.arguments import require_whole
from models.data.columns import as_typed
from models.data.documents import Sequences
from models.data.table import is_sparse, keep_columns, take
from models.reading.repairs import date_columns, titles
from models.rows.encoded import spread

DRAWS = 100  # replicated tables
FEWEST = 20
MOST_ROWS = 2000  # looked at, evenly spread
MOST_CELLS = 2e7  # of all replicated tables together
BINS = 20  # of numbers
GRID_BINS = 30  # rounded numbers with so few steps between the smallest and the largest have a bin each
MOST_LEVELS = 15  # shown of a column, or of pairs: those observed most; the others are one
TAILS = (0.01, 0.99)  # quantiles of the replicated numbers between which the bins lie


class Compared(NamedTuple):
    """One statistic of the observed table and of S replicated ones."""

    name: str  # of the column, or what is looked at
    observed: np.ndarray  # (B,): shares, which sum to 1; the value (1,) of a correlation; the information of words
    replicated: np.ndarray  # (S, B)
    names: tuple[str, ...]  # of the levels, or words; () for bins and correlations
    edges: np.ndarray | None  # (B + 1,) of the bins; None: levels, or a correlation
    p_value: float
    is_date: bool = False  # whether the numbers in the bins are days since 1970
    unit: str = ""  # of what is compared; "": shares


class _Cells(NamedTuple):
    """The observed cells of a table, and those of S replicated ones."""

    data: Data  # its columns, levels and labels
    observed: np.ndarray  # (N, D), NaN where missing
    drawn: np.ndarray  # (S, N, D)
    weight: np.ndarray  # (N,)


def predictive_checks(
    model: Model, source: xr.DataTree | Sites, data: Any, num_draws: int = DRAWS, seed: int = 0
) -> pd.DataFrame:
    """Posterior predictive p-values, one for each column, the smallest first; of sequences also for successive steps.

    ``num_draws`` tables, at least `FEWEST`, are drawn from the fitted model and compared with ``data``, as the top of this file
    says; of many rows `MOST_ROWS`, evenly spread. The columns of the result are ``p_value`` and ``observed``, the statistic.
    At a point estimate the uncertainty of the parameters is left out. Raises `ZooError` for a model that draws no rows like
    those observed: topics (see `topic_check`), regressions, programs.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=3)
    >>> checks = predictive_checks(model, fit(model, data, "em"), data)
    >>> sorted(checks.index)
    ['petal length (cm)', 'petal width (cm)', 'sepal length (cm)', 'sepal width (cm)']
    """
    return as_table(replications(model, source, data, num_draws, seed))


def as_table(compared: list[Compared]) -> pd.DataFrame:
    """p-values of statistics, the smallest first."""
    kinds = [one.unit or ("levels" if one.names else "correlation" if one.edges is None else "bins") for one in compared]
    names = pd.Index([one.name for one in compared], name="column")
    frame = pd.DataFrame({"p_value": [one.p_value for one in compared], "observed": kinds}, index=names)
    return frame.sort_values("p_value", kind="stable")


def has_replications(model: Model, data: Any) -> bool:
    """Whether the model draws rows like those of the table.

    It does not, for topics of documents, a covariance, a program, or a regression, whose rows are given.
    """
    if not isinstance(data, Data) or data.moments or model.algebra is None:
        return False
    return "x" in model.naming.observes and not model.algebra.structure.local


def replications(model: Model, source: xr.DataTree | Sites, data: Any, num_draws: int = DRAWS, seed: int = 0) -> list[Compared]:
    """Every statistic of the data and of ``num_draws`` replicated tables, in the order of the columns."""
    require_model(model)
    require_whole("num_draws", num_draws, FEWEST)
    require_whole("seed", seed, 0)
    if model.algebra is None:
        raise ZooError(
            f"{model.name} is a program, whose data are no table with columns to check; fit(…, predictive=True) draws what it "
            "observes, and arviz.plot_ppc_dist(tree) shows it with the data"
        )
    table = model.read(data) if not isinstance(data, Data) else data
    if not has_replications(model, table):
        raise ZooError(f"{model.name} draws no rows like those of {getattr(table, 'name', 'its data')}")
    some = _some_rows(model, _columns_of_the_model(model, table), num_draws)
    draws = thinned(draws_of(model, source), num_draws)
    repeated = {name: value[np.arange(num_draws) % number_of(draws)] for name, value in draws.items()}
    drawn = drawn_rows(model, repeated, some, seed)
    weight = np.ones(some.num_rows) if some.weight is None else np.asarray(some.weight, dtype=float)
    if "token" in drawn or is_sequential(model):
        steps = steps_of(some)
        cells = drawn["token"][..., None] if "token" in drawn else drawn["x"]
        each = np.repeat(weight, np.diff(steps.starts)) if len(weight) == len(steps.starts) - 1 else weight
        described = _Cells(steps.table, np.asarray(steps.table.x, dtype=float), cells, each)
        return [*_of_columns(described), *_of_successive(described, steps.starts), *_of_labels(some, weight, drawn)]
    return [*_of_columns(_Cells(some, _observed(some), drawn["x"], weight)), *_of_labels(some, weight, drawn)]


def _columns_of_the_model(model: Model, data: Data) -> Data:
    """The table with the columns that the model describes, in the model's order."""
    if model.reading.layout is not None:
        return as_typed(data, model.reading.layout, "missing")
    if isinstance(data.x, Sequences):
        return data
    places = [data.columns.index(column) for column in columns_of(model, data)]
    return data if places == list(range(len(data.columns))) else keep_columns(data, places)


def _some_rows(model: Model, data: Data, num_draws: int) -> Data:
    """At most `MOST_ROWS` rows, evenly spread, fewer of wide tables; of sequences whole ones."""
    if data.starts is not None:
        return _some_sequences(data, num_draws)
    if is_sequential(model) and not isinstance(data.x, Sequences):
        return data  # one sequence
    wide = len(data.columns)
    if isinstance(data.x, Sequences) and data.num_rows:
        wide = max(wide, int(np.diff(data.x.starts).max()))  # drawn as counts of words, or padded
    rows = spread(data.num_rows, int(np.clip(MOST_CELLS / (num_draws * max(wide, 1)), 50, MOST_ROWS)))
    return data if len(rows) == data.num_rows else take(data, rows)


def _some_sequences(data: Data, num_draws: int) -> Data:
    """Whole sequences of steps, evenly spread, with at most so many steps that `MOST_CELLS` are drawn."""
    assert data.starts is not None
    lengths = np.diff(data.starts)
    most = MOST_CELLS / (num_draws * max(len(data.columns), 1) * max(int(lengths.max()), 1))
    chosen = spread(len(lengths), int(np.clip(most, 1, MOST_ROWS)))
    if len(chosen) == len(lengths):
        return data
    return take(data, np.concatenate([np.arange(data.starts[n], data.starts[n + 1]) for n in chosen]))


def _observed(data: Data) -> np.ndarray:
    """(N, D): the cells of a table, or the counts of the words of documents."""
    if isinstance(data.x, Sequences):
        counts = np.zeros((data.num_rows, len(data.columns)))
        row = np.repeat(np.arange(data.num_rows), np.diff(data.x.starts))
        known = data.x.tokens >= 0
        np.add.at(counts, (row[known], data.x.tokens[known]), 1)
        return counts
    return np.asarray(data.x.toarray() if is_sparse(data.x) else data.x, dtype=float)


# ---------------------------------------------------------------------------------------------------------------------
# Statistics that are compared


def _of_columns(cells: _Cells) -> Iterator[Compared]:
    named, dates = titles(cells.data.notes), date_columns(cells.data.notes)
    for d, name in enumerate(cells.data.columns):
        seen = ~np.isnan(cells.observed[:, d])
        if not seen.any():
            continue
        observed, drawn, weight = cells.observed[seen, d], cells.drawn[:, seen, d], cells.weight[seen]
        levels = _levels(cells.data, d)
        if levels:
            yield _by_level(name, observed, drawn, weight, len(levels), levels.__getitem__)
        else:
            yield _by_bin(named.get(name, name), observed, drawn, weight)._replace(is_date=name in dates)


def _levels(data: Data, column: int) -> tuple[str, ...]:
    return data.categories[column] if data.categories else ()


def _of_labels(data: Data, weight: np.ndarray, drawn: dict[str, np.ndarray]) -> Iterator[Compared]:
    """The labels, where the program draws them with the rows."""
    if "label" not in drawn or data.labels is None:
        return
    known = data.labels >= 0
    each = np.repeat(weight, np.diff(steps_of(data).starts)) if len(weight) != len(data.labels) else weight
    if known.any():
        labels, levels = np.asarray(data.labels, float), data.levels
        yield _by_level(
            str(data.label or "label"),
            labels[known],
            drawn["label"][:, known],
            each[known],
            len(levels),
            levels.__getitem__,
        )


def _of_successive(cells: _Cells, starts: np.ndarray) -> Iterator[Compared]:
    """Of every column, pairs of levels, or the correlation of numbers, at successive steps of a sequence."""
    within = np.ones(len(cells.observed), bool)
    within[np.asarray(starts[1:-1]) - 1] = False
    earlier = np.flatnonzero(within[:-1])
    for d, name in enumerate(cells.data.columns):
        now, later = cells.observed[earlier, d], cells.observed[earlier + 1, d]
        both = ~np.isnan(now) & ~np.isnan(later)
        if both.sum() < 3:
            continue
        places = earlier[both]
        x, y, weight = now[both], later[both], cells.weight[places]
        xs, ys = cells.drawn[:, places, d], cells.drawn[:, places + 1, d]
        levels, title = _levels(cells.data, d), f"{name}: successive steps"
        size = len(levels)
        if levels:

            def named(code: int, levels: tuple[str, ...] = levels) -> str:
                return " → ".join(levels[place] for place in divmod(code, len(levels)))

            pairs = np.where((xs >= 0) & (ys >= 0), xs * size + ys, -1)
            yield _by_level(title, x * size + y, pairs, weight, size**2, named)
        else:
            yield _correlated(title, x, y, xs, ys, weight)


# ---------------------------------------------------------------------------------------------------------------------
# Statistics


def _by_level(
    name: str, observed: np.ndarray, drawn: np.ndarray, weight: np.ndarray, size: int, named: Callable[[int], str]
) -> Compared:
    """Shares of the levels, of many those observed most; all others, and levels that the table does not know, are one."""
    codes, counts = _counted(observed, weight)
    largest = np.arange(size) if size <= MOST_LEVELS else np.sort(codes[np.argsort(-counts, kind="stable")[:MOST_LEVELS]])

    def shares(values: np.ndarray) -> np.ndarray:
        values = np.nan_to_num(np.asarray(values, float), nan=-1.0).astype(int)
        place = np.searchsorted(largest, values).clip(0, len(largest) - 1)
        return _shares(np.where(largest[place] == values, place, len(largest)), weight, len(largest) + 1)

    share, replicated = shares(observed), np.stack([shares(one) for one in drawn])
    names = tuple(named(int(code)) for code in largest)
    if share[-1] > 0 or replicated[:, -1].any():
        return Compared(name, share, replicated, (*names, "others"), None, _p_value(share, replicated, weight.sum()))
    share, replicated = share[:-1], replicated[:, :-1]
    return Compared(name, share, replicated, names, None, _p_value(share, replicated, weight.sum()))


def _counted(codes: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the distinct codes, how much weight each has)."""
    distinct, place = np.unique(codes.astype(int), return_inverse=True)
    return distinct, np.bincount(place, weight)


def _by_bin(name: str, observed: np.ndarray, drawn: np.ndarray, weight: np.ndarray) -> Compared:
    """Shares of bins; what lies outside belongs to the first or the last bin."""
    edges = bin_edges(observed, drawn)

    def shares(values: np.ndarray) -> np.ndarray:
        place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
        return _shares(place, weight, len(edges) - 1)

    share, replicated = shares(observed), np.stack([shares(one) for one in drawn])
    return Compared(name, share, replicated, (), edges, _p_value(share, replicated, weight.sum()))


def bin_edges(observed: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Edges of bins that hold the observed numbers, and most of the replicated ones.

    Rounded numbers lie on a grid. Bins of theirs hold equally many values of the grid, and end half-way between two.
    """
    low, high = np.quantile(drawn, TAILS)
    low, high = min(float(low), float(observed.min())), max(float(high), float(observed.max()))
    if not high > low:
        return np.linspace(low - 0.5, low + 0.5, BINS + 1)
    step = grid_step(observed)
    steps = 0.0 if step is None else (high - low) / step
    if step is None or steps > 1e6:
        return np.linspace(low, high, BINS + 1)
    width = step * (1 if steps <= GRID_BINS else np.ceil(steps / BINS))
    first = observed.min() - step * (np.ceil((observed.min() - low) / step) + 0.5)
    return np.asarray(first + width * np.arange(np.ceil((high + step / 2 - first) / width) + 1))


def grid_step(values: np.ndarray) -> float | None:
    """The distance between neighbours on the grid that all values lie on, as rounded numbers do; None without such a grid."""
    distinct = np.unique(values)
    if len(distinct) < 2:
        return None
    gaps = np.diff(distinct)
    scale = max(abs(distinct[0]), abs(distinct[-1]), 1e-300)
    step = float(gaps[gaps > 1e-9 * scale].min(initial=np.inf))
    places = (distinct - distinct[0]) / step
    on_grid = np.abs(places - np.round(places)).max() < 1e-3
    return step if np.isfinite(step) and on_grid else None


def _correlated(name: str, x: np.ndarray, y: np.ndarray, xs: np.ndarray, ys: np.ndarray, weight: np.ndarray) -> Compared:
    observed = np.array([_correlation(x, y, weight)])
    replicated = np.array([[_correlation(*pair, weight)] for pair in zip(xs, ys, strict=True)])
    apart = np.abs(replicated[:, 0] - np.median(replicated))
    p_value = (1 + (apart >= abs(observed[0] - np.median(replicated))).sum()) / (1 + len(apart))
    return Compared(name, observed, replicated, (), None, float(p_value))


def _correlation(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    x, y = x - np.average(x, weights=weight), y - np.average(y, weights=weight)
    scale = np.sqrt((weight @ x**2) * (weight @ y**2))
    return float(weight @ (x * y) / scale) if scale > 0 else 0.0


def _shares(codes: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    counts = np.bincount(codes, weight, size)
    return counts / max(counts.sum(), np.finfo(float).tiny)


def _p_value(observed: np.ndarray, replicated: np.ndarray, total: float) -> float:
    mean = np.vstack([observed, replicated]).mean(0)

    def distance(shares: np.ndarray) -> np.ndarray:
        return ((shares - mean) ** 2 / (mean + 1 / max(total, 1.0))).sum(-1)

    larger = distance(replicated) >= distance(observed) * (1 - 1e-12)
    return float((1 + larger.sum()) / (1 + len(replicated)))
