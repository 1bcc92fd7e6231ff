"""Exact leave-one-out for the few rows where PSIS-LOO fails: the model is fitted again without each of them.

A row is left out by a weight of 0, with the same prior, so all refits share one compilation and log p(x_n | the others) refers
to the posterior that PSIS-LOO uses. It is estimated from draws θ_s of p(θ | the others), as the average of p(x_n | θ_s). If a
few draws dominate this average, as for an outlier, bridge sampling replaces it: between these draws and those of p(θ | all
rows), whose density ratio is p(x_n | θ) / p(x_n | the others) (Bennett 1976; Meng and Wong 1996). A large Pareto k-hat of the
averaged terms means that the estimate is not reliable.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.optimize import brentq
from scipy.special import log_expit, logsumexp

from inference.comparison.table import same_rows
from inference.diagnostics.importance import log_weights, pareto_k, rows_left_out, smoothed_weights, weight_of_rows
from inference.diagnostics.verdicts import Finding, largest_k
from inference.engine.task import Kind, kind_of
from inference.fitting.fit import fit
from inference.fitting.prepare import require_model
from inference.methods import METHODS
from inference.methods.method import checked_options, method_named
from inference.results.observed import by_row
from inference.results.table import observed_data
from inference.results.tree import table_of
from models.algebra import row_name
from models.base import Data, Model, ZooError


class Refit(NamedTuple):
    """Estimate for one row from a fit without it."""

    elpd: float  # log p(x_n | the others)
    se: float  # its Monte Carlo error
    pareto_k: float  # of the averaged terms
    exit_status: int


def refit_rows(
    model: Model, data: Any, tree: xr.DataTree, rows: Sequence[int] | None = None, seed: int | None = None, **options: Any
) -> xr.DataTree:
    """Refit the model without single rows, to get log p(x_n | the others) where PSIS-LOO is not valid.

    ``rows`` are indices into the rows of ``log_likelihood``, from 0, or a boolean mask; by default the rows whose Pareto k-hat
    is above its threshold. Each refit uses the method, options and seed of the result ``tree``, unless ``seed`` or ``options``
    are given, such as more draws. Returns a copy of ``tree`` with the group ``refits``, by row:

    - ``elpd``: log p(x_n | the others); ``se``: its Monte Carlo error
    - ``pareto_k``: Pareto k-hat of the averaged terms; ``exit_status``: of the refit, 0 if all diagnostics passed

    Earlier refits stay, and are replaced if a row is refitted again. `inference.compare` uses refits in place of PSIS-LOO if
    they passed their diagnostics and their k-hat is below the threshold. Raises `ZooError` for a result without draws, other
    data than the fitted ones, a user's program, rows with their own parameters, rows with a weight other than 1, and draws from
    an approximation whose weights p / q are not known.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=2)
    >>> tree = fit(model, data, "gibbs")
    >>> refit_rows(model, data, tree, rows=[0])["refits"]["row"].values
    array([0])
    """
    table, each = _checked(model, data, tree)
    weight = weight_of_rows(tree, each)
    places = _bad_rows(tree, each, weight) if rows is None else _places(rows, len(weight))
    if len(places) and not (places.min() >= 0 and places.max() < len(weight) and (weight[places] == 1).all()):
        raise ZooError(
            f"rows are numbers of rows with weight 1, places from 0 to {len(weight) - 1}; got {', '.join(map(str, places[:5]))}"
        )
    if (weight > 0).sum() < 2:
        raise ZooError("there is only one row: without it nothing is left to fit")
    settings = _settings(tree, seed, options)
    refits = [_without(model, table, tree, each, int(place), settings) for place in places]
    columns = list(zip(*refits, strict=True)) or [()] * len(Refit._fields)
    group = {name: (("row",), np.array(column)) for name, column in zip(Refit._fields, columns, strict=True)}
    copied = tree.copy()
    copied["refits"] = xr.DataTree(_merged(tree, xr.Dataset(group, coords={"row": places})))
    return copied


def _places(rows: Any, number: int) -> np.ndarray:
    """Sorted indices of rows, without repetitions, from indices or a mask; raises `ZooError` for anything else."""
    given = np.atleast_1d(np.asarray(list(rows)))
    if given.dtype == bool:
        if given.shape != (number,):
            raise ZooError(f"rows: a mask has {number} entries, one per row; got {given.size}")
        return np.flatnonzero(given)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise ZooError(f"rows are whole numbers, places from 0 to {number - 1}; got {', '.join(map(str, given.ravel()[:5]))}")
    return np.unique(given.astype(int))


def _settings(tree: xr.DataTree, seed: int | None, options: dict[str, Any]) -> dict[str, Any]:
    """Options of a refit: those of the result, overridden by those given."""
    method = str(tree.attrs["method"])
    if method not in METHODS:
        raise ZooError(
            f"refit_rows fits again by the method of the result, and {method} is none of the zoo's; fit the rows yourself"
        )
    record = method_named(method)
    checked_options(record, options)
    stored = {name: value for name, value in json.loads(tree.attrs["options"]).items() if name in record.options._fields}
    shared = {"seed": int(tree.attrs["seed"]) if seed is None else seed, "precision": int(tree.attrs["precision"])}
    return stored | options | shared


def _merged(tree: xr.DataTree, refits: xr.Dataset) -> xr.Dataset:
    """The new refits together with the result's earlier ones of other rows."""
    if "refits" not in tree:
        return refits
    older = tree["refits"].to_dataset()
    older = older.isel(row=np.flatnonzero(~np.isin(older["row"], refits["row"])))
    return xr.concat([older, refits], dim="row").sortby("row")


def _checked(model: Model, data: Any, tree: xr.DataTree) -> tuple[Data, xr.DataArray]:
    """The table, and its log-likelihood (chain, draw, row); raises `ZooError` if rows cannot be left out."""
    require_model(model)
    if model.algebra is None:
        raise ZooError(f"{model.name} is a program: its rows have no weights, so none can be left out; fit it to fewer rows")
    if model.algebra.structure.local:
        raise ZooError(
            f"every {row_name(model)} has its own {', '.join(model.algebra.structure.local)}, so none can be predicted from "
            "the others alone; compare on held-out rows by inference.perplexity or data.test_fraction"
        )
    if kind_of(tree) is Kind.POINT:
        raise ZooError("this result is a point, and leave-one-out needs draws: use a method that draws, such as nuts or gibbs")
    table = model.read(data)
    if "log_likelihood" not in tree or "sequence" in tree["log_likelihood"].coords:
        raise ZooError("this result has no log-likelihood per row, which leave-one-out needs")
    if not same_rows([table_of(tree), observed_data(table, model.reading.layout)]):
        raise ZooError(f"the result was fitted to other data than {table.name}: give that data")
    if log_weights(tree) is None:
        raise ZooError(
            "the draws are from an approximation, and their weights p / q are not known: use nuts, or gibbs where it runs"
        )
    return table, by_row(tree)


def _bad_rows(tree: xr.DataTree, rows: xr.DataArray, weight: np.ndarray) -> np.ndarray:
    """Rows on which PSIS-LOO fails."""
    weights = log_weights(tree)
    assert weights is not None
    khat = rows_left_out(tree, rows, weights)[1]
    limit = largest_k(Finding(khat, size=weights.size))
    return np.flatnonzero((np.nan_to_num(khat, nan=-np.inf) > limit) & (weight > 0))


def _without(model: Model, data: Data, tree: xr.DataTree, each: xr.DataArray, place: int, settings: dict[str, Any]) -> Refit:
    """Refit without one row: the average of its density, or a bridge if a few draws dominate that."""
    left = np.ones(data.num_rows) if data.weight is None else np.array(data.weight, dtype=float)
    left[place if data.starts is None else slice(data.starts[place], data.starts[place + 1])] = 0.0
    refit = fit(model, data._replace(weight=left), tree.attrs["method"], **settings)
    status = int(refit.attrs["exit_status"])
    others = Sample(by_row(refit).values[..., place].astype(float), *_weighed(refit))
    plain = averaged(others)
    if plain.pareto_k <= largest_k(Finding(np.zeros(1), size=others.log_density.size)):
        return Refit(*plain, status)
    everything = Sample(each.values[..., place].astype(float), *_weighed(tree))
    return min(
        Refit(*plain, status), Refit(*bridged(others, everything), max(status, int(tree.attrs["exit_status"]))), key=_worth
    )


def _worth(refit: Refit) -> tuple[int, float]:
    return refit.exit_status, refit.pareto_k


def _weighed(tree: xr.DataTree) -> tuple[np.ndarray, bool]:
    weights = log_weights(tree)
    assert weights is not None
    return weights, kind_of(tree) is Kind.CHAINS


class Sample(NamedTuple):
    """The log-likelihood of one row at draws of a posterior."""

    log_density: np.ndarray  # (chain, draw): log p(x_n | θ_s)
    log_weight: np.ndarray  # (chain, draw): log p / q, 0 for draws of the posterior itself
    chains: bool  # whether draws are autocorrelated, as in a chain


class Average(NamedTuple):
    """The logarithm of an average, its Monte Carlo error and the Pareto k-hat of its terms."""

    value: float
    se: float
    pareto_k: float


def averaged(others: Sample) -> Average:
    """Log p(x_n | the others) as the average density of the row over posterior draws without it."""
    return _mean(others, others.log_density)


def bridged(others: Sample, everything: Sample) -> Average:
    """Log p(x_n | the others) by bridge sampling, from draws without the row and draws with it.

    Let p = p(x_n | θ) and r = p(x_n | the others). The average of p / (p + r) over draws without the row equals that of
    r / (p + r) over draws with it, and r solves this equation.
    """

    def terms(log_r: float) -> tuple[np.ndarray, np.ndarray]:
        return log_expit(others.log_density - log_r), log_expit(log_r - everything.log_density)

    def gap(log_r: float) -> float:
        one, other = map(_log_mean, (others, everything), terms(log_r))
        return one - other

    ends = np.concatenate([others.log_density.ravel(), everything.log_density.ravel()])
    if not np.isfinite(ends).all() or gap(ends.min() - 1) <= 0 or gap(ends.max() + 1) >= 0:
        return Average(float("nan"), float("nan"), float("inf"))
    log_r = float(brentq(gap, ends.min() - 1, ends.max() + 1, xtol=1e-10))
    one, other = map(_mean, (others, everything), terms(log_r))
    return Average(log_r, float(np.hypot(one.se, other.se)), max(one.pareto_k, other.pareto_k))


def _log_mean(sample: Sample, terms: np.ndarray) -> float:
    """The logarithm of the weighted average of exp(terms), terms (chain, draw)."""
    return float(logsumexp(terms.ravel(), b=smoothed_weights(sample.log_weight.ravel())))


def _mean(sample: Sample, terms: np.ndarray) -> Average:
    """The same, with its Monte Carlo error and Pareto k-hat."""
    value = _log_mean(sample, terms)
    if not np.isfinite(value):
        return Average(value, float("inf"), float("inf"))
    weights = smoothed_weights(sample.log_weight.ravel())
    relative = np.exp(terms.ravel() - value) - 1  # terms whose weighted average is 1
    size = _effective(terms) if sample.chains else terms.size
    error = float(np.sqrt((weights**2 * relative**2).sum() * terms.size / size))
    return Average(value, error, pareto_k((terms + sample.log_weight).ravel()))


def _effective(terms: np.ndarray) -> float:
    """Effective sample size of the mean of exp(terms), terms (chain, draw)."""
    from arviz_stats.base import array_stats

    each = np.exp(terms - terms.max())
    return max(1.0, float(array_stats.ess(each, chain_axis=0, draw_axis=1, method="mean"))) if np.ptp(each) else 1.0
