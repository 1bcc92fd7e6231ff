"""Posterior predictive checks: is what the fitted model draws like the data observed? (Rubin 1984; Gelman, Meng and Stern 1996)

At each of S draws of the posterior the program draws the whole table anew. Of the observed table and of every replicated one we
take the same statistics: of every column the shares of its rows by bins, or levels; of sequences also the shares of pairs of
successive levels, or the correlation of successive numbers. How unusual the observed shares y_b are is measured by

    T(y) = Σ_b (y_b − m_b)² / (m_b + 1 / n),      m the mean of the replicated shares of the n rows,

and the p-value is the share of tables, replicated ones and the observed one, whose T is at least that observed. The data were
used to fit the model, so that p-values lie closer to ½ than chance alone would put them: a small one speaks against the model,
a large one says little.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.fitting.predictive import drawn_rows
from inference.fitting.prepare import require_model
from inference.results.draws import draws_of, thinned
from models.algebra import is_sequential
from models.base import Data, Model, Sites, ZooError
from models.chains.sequences import steps_of
from models.data.arguments import require_whole
from models.data.columns import as_typed
from models.data.documents import Sequences
from models.data.table import is_sparse, take
from models.rows.encoded import spread

DRAWS = 100  # replicated tables
MOST_ROWS = 2000  # looked at, evenly spread; of sequences all
MOST_CELLS = 1e6  # of one replicated table
BINS = 20  # of numbers
WHOLE_BINS = 30  # whole numbers in so narrow a range have a bin each
MOST_LEVELS = 15  # shown of a column, or of pairs: those observed most; the others are one
TAILS = (0.01, 0.99)  # quantiles of the replicated numbers between which the bins lie


class Compared(NamedTuple):
    """One statistic of the observed table and of S replicated ones."""

    name: str  # of the column, or what is looked at
    observed: np.ndarray  # (B,): shares, which sum to 1; of a correlation its value (1,)
    replicated: np.ndarray  # (S, B)
    names: tuple[str, ...]  # of the levels; () for bins and correlations
    edges: np.ndarray | None  # (B + 1,) of the bins; None: levels, or a correlation
    p_value: float


def predictive_checks(
    model: Model, source: xr.DataTree | Sites, data: Any, num_draws: int = DRAWS, seed: int = 0
) -> pd.DataFrame:
    """Posterior predictive p-values, one for each column, the smallest first; of sequences also for successive steps.

    ``num_draws`` tables are drawn from the fitted model and compared with ``data``, as the top of this file says. The columns
    of the result are ``p_value`` and ``observed``, what is compared. At a point estimate the uncertainty of the parameters is
    left out. Raises `ZooError` for a model that draws no rows like those observed: of topics see `topic_check`.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=3)
    >>> checks = predictive_checks(model, fit(model, data, "em"), data)
    >>> sorted(checks.index)
    ['petal length (cm)', 'petal width (cm)', 'sepal length (cm)', 'sepal width (cm)']
    """
    return as_table(replications(model, source, data, num_draws, seed))


def as_table(compared: list[Compared]) -> pd.DataFrame:
    """p-values of statistics, the smallest first."""
    kinds = ["levels" if one.names else "correlation" if one.edges is None else "bins" for one in compared]
    names = pd.Index([one.name for one in compared], name="column")
    frame = pd.DataFrame({"p_value": [one.p_value for one in compared], "observed": kinds}, index=names)
    return frame.sort_values("p_value", kind="stable")


def has_replications(model: Model, data: Any) -> bool:
    """Whether the model draws rows like those of the table: neither topics of documents, nor a covariance, nor a program."""
    return isinstance(data, Data) and not data.moments and model.algebra is not None and not model.algebra.structure.local


def replications(model: Model, source: xr.DataTree | Sites, data: Any, num_draws: int = DRAWS, seed: int = 0) -> list[Compared]:
    """Every statistic of the data and of ``num_draws`` replicated tables, in the order of the columns."""
    require_model(model)
    require_whole("num_draws", num_draws, 2)
    require_whole("seed", seed, 0)
    table = model.read(data) if not isinstance(data, Data) else data
    if not has_replications(model, table):
        raise ZooError(f"{model.name} draws no rows like those of {getattr(table, 'name', 'its data')}")
    layout = model.reading.layout
    some = _some_rows(model, table if layout is None else as_typed(table, layout, "missing"))  # the columns that it describes
    draws = thinned(draws_of(model, source), num_draws)
    size = len(next(iter(draws.values())))
    repeated = {name: value[np.arange(num_draws) % size] for name, value in draws.items()}
    drawn = drawn_rows(model, repeated, some, seed)
    return [*_of_cells(model, some, drawn), *_of_labels(model, some, drawn)]


def _some_rows(model: Model, data: Data) -> Data:
    """At most `MOST_ROWS` rows, evenly spread, fewer of wide tables; all steps of sequences."""
    if is_sequential(model) or data.starts is not None or isinstance(data.x, Sequences):
        return data
    rows = spread(data.num_rows, max(50, min(MOST_ROWS, int(MOST_CELLS // max(len(data.columns), 1)))))
    return data if len(rows) == data.num_rows else take(data, rows)


# ---------------------------------------------------------------------------------------------------------------------
# What is compared


def _of_cells(model: Model, data: Data, drawn: dict[str, np.ndarray]) -> Iterator[Compared]:
    if "x" not in model.naming.observes:
        return
    if "token" in drawn or is_sequential(model):
        steps = steps_of(data)
        cells = drawn["token"][..., None] if "token" in drawn else drawn["x"]
        yield from _of_columns(steps.table, np.asarray(steps.table.x, dtype=float), cells)
        yield from _of_successive(steps.table, steps.starts, cells)
    else:
        yield from _of_columns(data, _observed(data), drawn["x"])


def _observed(data: Data) -> np.ndarray:
    """(N, D): the cells of a table, or the counts of the words of documents."""
    if isinstance(data.x, Sequences):
        counts = np.zeros((data.num_rows, len(data.columns)))
        row = np.repeat(np.arange(data.num_rows), np.diff(data.x.starts))
        known = data.x.tokens >= 0
        np.add.at(counts, (row[known], data.x.tokens[known]), 1)
        return counts
    return np.asarray(data.x.toarray() if is_sparse(data.x) else data.x, dtype=float)


def _of_columns(data: Data, cells: np.ndarray, drawn: np.ndarray) -> Iterator[Compared]:
    weight = np.ones(len(cells)) if data.weight is None or len(data.weight) != len(cells) else np.asarray(data.weight, float)
    for d, name in enumerate(data.columns):
        seen = ~np.isnan(cells[:, d])
        if not seen.any():
            continue
        observed, replicated, counts = cells[seen, d], drawn[:, seen, d], weight[seen]
        levels = data.categories[d] if data.categories else ()
        if levels:
            yield _by_level(name, observed.astype(int), replicated.astype(int), counts, levels)
        else:
            yield _by_bin(name, observed, replicated, counts)


def _of_labels(model: Model, data: Data, drawn: dict[str, np.ndarray]) -> Iterator[Compared]:
    """The labels, where the program draws them with the rows; given the rows, as in a regression, shares say little."""
    if "label" not in drawn or data.labels is None or "x" not in model.naming.observes:
        return
    known = data.labels >= 0
    if known.any() and len(data.labels) == drawn["label"].shape[1]:
        ones = np.ones(int(known.sum()))
        yield _by_level(str(data.label or "label"), data.labels[known], drawn["label"][:, known], ones, data.levels)


def _of_successive(data: Data, starts: np.ndarray, drawn: np.ndarray) -> Iterator[Compared]:
    """Of every column, pairs of levels, or the correlation of numbers, at successive steps of a sequence."""
    first = np.ones(data.num_rows, bool)
    first[np.asarray(starts[1:-1]) - 1] = False
    earlier = np.flatnonzero(first[:-1])
    cells = np.asarray(data.x, dtype=float)
    for d, name in enumerate(data.columns):
        both = earlier[~np.isnan(cells[earlier, d]) & ~np.isnan(cells[earlier + 1, d])]
        if len(both) < 3:
            continue
        title = f"{name}: successive steps"
        levels = data.categories[d] if data.categories else ()
        if levels:
            size = len(levels)
            pairs = [f"{one} → {other}" for one in levels for other in levels]
            observed = (cells[both, d] * size + cells[both + 1, d]).astype(int)
            replicated = (drawn[:, both, d] * size + drawn[:, both + 1, d]).astype(int)
            yield _by_level(title, observed, replicated, np.ones(len(both)), tuple(pairs))
        else:
            yield _correlated(title, cells[both, d], cells[both + 1, d], drawn[:, both, d], drawn[:, both + 1, d])


# ---------------------------------------------------------------------------------------------------------------------
# Statistics


def _by_level(name: str, observed: np.ndarray, drawn: np.ndarray, weight: np.ndarray, levels: tuple[str, ...]) -> Compared:
    """Shares of the levels observed most, and of all others together."""
    shares = _shares(observed, weight, len(levels))
    replicated = np.stack([_shares(one, weight, len(levels)) for one in drawn])
    if len(levels) > MOST_LEVELS:
        kept = np.sort(np.argsort(-shares, kind="stable")[:MOST_LEVELS])
        names = (*(levels[place] for place in kept), f"{len(levels) - len(kept)} others")
        shares, replicated = (
            np.concatenate([each[..., kept], 1 - each[..., kept].sum(-1, keepdims=True)], axis=-1)
            for each in (shares, replicated)
        )
    else:
        names = tuple(levels)
    return Compared(name, shares, replicated, names, None, _p_value(shares, replicated, len(observed)))


def _by_bin(name: str, observed: np.ndarray, drawn: np.ndarray, weight: np.ndarray) -> Compared:
    """Shares of bins; what lies outside belongs to the first or the last bin."""
    edges = bin_edges(observed, drawn)

    def shares(values: np.ndarray) -> np.ndarray:
        place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
        return _shares(place, weight, len(edges) - 1)

    found, replicated = shares(observed), np.stack([shares(one) for one in drawn])
    return Compared(name, found, replicated, (), edges, _p_value(found, replicated, len(observed)))


def bin_edges(observed: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Edges that hold the observed numbers, and most of the replicated ones; whole numbers are in the middle of a bin."""
    low, high = np.quantile(drawn, TAILS)
    low, high = min(float(low), float(observed.min())), max(float(high), float(observed.max()))
    if high - low <= WHOLE_BINS and np.array_equal(observed, np.round(observed)):
        return np.arange(np.floor(low) - 0.5, np.ceil(high) + 1)
    return np.linspace(low, high if high > low else low + 1, BINS + 1)


def _correlated(name: str, x: np.ndarray, y: np.ndarray, xs: np.ndarray, ys: np.ndarray) -> Compared:
    observed = np.array([_correlation(x, y)])
    replicated = np.array([[_correlation(*pair)] for pair in zip(xs, ys, strict=True)])
    apart = np.abs(replicated[:, 0] - np.median(replicated))
    p_value = (1 + (apart >= abs(observed[0] - np.median(replicated))).sum()) / (1 + len(apart))
    return Compared(name, observed, replicated, (), None, float(p_value))


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / scale) if scale > 0 else 0.0


def _shares(codes: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    counts = np.bincount(codes, weight, size)
    return counts / max(counts.sum(), np.finfo(float).tiny)


def _p_value(observed: np.ndarray, replicated: np.ndarray, rows: int) -> float:
    mean = replicated.mean(0)

    def distance(shares: np.ndarray) -> np.ndarray:
        return ((shares - mean) ** 2 / (mean + 1 / rows)).sum(-1)

    larger = distance(replicated) >= distance(observed) * (1 - 1e-12)
    return float((1 + larger.sum()) / (1 + len(replicated)))
