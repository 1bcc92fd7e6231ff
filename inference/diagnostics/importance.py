"""Importance weights p / q of draws from an approximation q, and leave-one-out that takes them into account.

Pareto-smoothed importance sampling (Vehtari, Simpson, Gelman, Yao and Gabry 2024). For leave-one-out with draws from q, the
weight of draw s for row n is p(x, θ_s) / (q(θ_s) p(x_n | θ_s)) (Magnusson, Andersen, Jonasson and Vehtari 2019). Rows that were
refitted have the values of their refits.
"""

import warnings
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from inference.diagnostics.verdicts import Finding, largest_k
from inference.engine.task import Kind, kind_of
from inference.results.observed import by_row
from inference.results.tree import table_of, values

FEWEST = 25  # fewest draws for which ArviZ fits the tail
SPAN = float(-np.log(np.finfo(np.float64).tiny))  # nats: a weight this far below the largest is negligible


def _smoothed(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(log weights (…, S) with a smoothed upper tail, Pareto k-hat (…), infinity if unknown).

    ArviZ's function expects log-likelihoods, by which leave-one-out divides, so the weights enter with a minus sign.
    """
    from arviz_stats.base import array_stats

    with np.errstate(all="ignore"):  # tails that no Pareto distribution fits
        smooth, khat = array_stats.psislw(-log_weights)
    return np.asarray(smooth), _known(np.asarray(khat), log_weights)


def _tail(log_weights: np.ndarray) -> np.ndarray:
    """The tail that ArviZ fits, sorted: the largest 3 √S of log weights (…, S), preceded by the next smaller; NaN last."""
    size = log_weights.shape[-1]
    number = min(int(np.ceil(min(0.2 * size, 3 * np.sqrt(size)))), size - 1)
    return np.sort(log_weights, axis=-1)[..., -number - 1 :]


def _is_flat(log_weights: np.ndarray) -> bool:
    """Whether the largest weights are equal up to rounding, so that there is no tail."""
    tail = _tail(log_weights)
    return bool(tail[-1] - tail[1] < 1e-8)


def _known(khat: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """K-hat (…) of log weights (…, S), replaced by infinity if it is NaN or was fitted to only a part of the tail.

    If the tail spans more than `SPAN` nats, ArviZ drops its lower end. The k-hat of the few remaining weights then does not
    show that one draw dominates all others.
    """
    tail = _tail(log_weights)
    with np.errstate(invalid="ignore"):
        whole = tail[..., -1] - tail[..., 0] < SPAN
    return np.where(whole & ~np.isnan(khat), khat, np.inf)


def pareto_k(log_weights: np.ndarray) -> float:
    """Pareto k-hat of importance weights, by ArviZ; NaN for too few draws.

    If the largest weights are equal up to rounding there is no tail, and k-hat is 0. If most weights are negligible next to the
    largest, or some are NaN, no Pareto distribution fits, and k-hat is infinity. A weight of 0 (log −∞) is valid.
    """
    if len(log_weights) < FEWEST:
        return float("nan")
    if np.isnan(log_weights).any() or not np.isfinite(log_weights.max()):
        return float("inf")
    if _is_flat(log_weights):
        return 0.0
    return float(_smoothed(np.asarray(log_weights))[1])


def smoothed_weights(log_weights: np.ndarray) -> np.ndarray:
    """Weights (S,) that sum to 1, with a smoothed tail if there are enough draws."""
    few = len(log_weights) < FEWEST or _is_flat(log_weights)
    smooth = log_weights if few else _smoothed(np.asarray(log_weights))[0]
    weights = np.exp(smooth - smooth.max())
    return np.asarray(weights / weights.sum())


def log_weights(tree: xr.DataTree) -> np.ndarray | None:
    """Log p / q (chain, draw) of the draws for which ``log_likelihood`` was stored; 0 for draws from the posterior.

    None for an approximation whose weights are not known.
    """
    rows = by_row(tree)
    if kind_of(tree) is not Kind.APPROXIMATION:
        return np.zeros((rows.sizes["chain"], rows.sizes["draw"]))
    if "log_weight" not in tree["sample_stats"]:
        return None
    stored = np.isin(values(tree, "sample_stats", "draw"), values(tree, "log_likelihood", "draw"))
    return values(tree, "sample_stats", "log_weight")[:, stored]


class LeaveOneOut(NamedTuple):
    """For every row: log p(x_n | the others), and the Pareto k-hat of the weights behind it."""

    elpd: np.ndarray  # (N,)
    pareto_k: np.ndarray  # (N,)


def leave_one_out(rows: xr.DataArray, weights: np.ndarray, chains: xr.Dataset | None = None) -> LeaveOneOut:
    """PSIS-LOO from the log-likelihood (chain, draw, row) and the log weights (chain, draw) of the draws.

    With ``chains``, draws of a posterior, ArviZ computes it and accounts for autocorrelation; the weights are not used.
    """
    import arviz_stats

    each = rows.transpose("row", "chain", "draw").values.reshape(rows.sizes["row"], -1).astype(np.float64)
    if chains is not None:
        tree = xr.DataTree.from_dict({"/posterior": chains, "/log_likelihood": rows.to_dataset(name="x")})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # callers check k-hat themselves
            loo = arviz_stats.loo(tree, var_name="x", pointwise=True)
        return LeaveOneOut(np.asarray(loo.elpd_i), _known(np.asarray(loo.pareto_k), -each))
    flat = weights.reshape(-1)
    there = flat > -np.inf  # drop draws of weight 0: a row may be impossible under them
    each = each[:, there]
    if each.shape[1] < FEWEST:
        return LeaveOneOut(*np.full((2, len(each)), [[np.nan], [np.inf]]))
    smooth, khat = _smoothed(flat[there] - each)
    return LeaveOneOut(logsumexp(smooth + each, axis=1) - logsumexp(smooth, axis=1), khat)


def rows_left_out(tree: xr.DataTree, rows: xr.DataArray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(log p(x_n | the others), Pareto k-hat) of all rows: (N,), (N,).

    A row whose density does not depend on θ, such as an empty row, has no k-hat. A refitted row has the values of its refit,
    if that is reliable.
    """
    each = rows.values
    with np.errstate(invalid="ignore"):  # ∞ − ∞, for a row impossible under every draw
        varying = ~(np.ptp(each, axis=(0, 1)) <= 1e-9 * (1 + np.abs(each).min((0, 1))))
    elpd, khat = each[0, 0].astype(np.float64), np.full(len(varying), np.nan)
    if varying.any():
        chains = tree["posterior"].to_dataset() if kind_of(tree) is Kind.CHAINS else None
        scores = leave_one_out(rows[..., varying], weights, chains)
        elpd[varying], khat[varying] = scores
    if "refits" in tree:
        sound = _sound_refits(tree["refits"].to_dataset(), weights.size)
        place = np.searchsorted(rows["row"].values, sound["row"].values)
        elpd[place], khat[place] = sound["elpd"].values, sound["pareto_k"].values
    return elpd, khat


def _sound_refits(refits: xr.Dataset, size: int) -> xr.Dataset:
    """Refits that passed their diagnostics and have a k-hat below its threshold; none of those stored without k-hat."""
    khat = refits["pareto_k"].values if "pareto_k" in refits else np.full(refits.sizes["row"], np.inf)
    good = (refits["exit_status"].values == 0) & (khat <= largest_k(Finding(khat, size=size)))
    return refits.assign(pareto_k=("row", khat)).isel(row=np.flatnonzero(good))


def weight_of_rows(tree: xr.DataTree, rows: xr.DataArray) -> np.ndarray:
    """(rows,): weights of the rows of a log-likelihood: rows, sequences, or steps, which have the weight of their sequence."""
    observed = table_of(tree)
    if "weight" not in observed:
        return np.ones(rows.sizes["row"])
    weight = np.asarray(observed["weight"])
    if "sequence_start" in observed:  # stored per step
        weight = weight[np.asarray(observed["sequence_start"])[:-1]]
    return weight[np.asarray(rows["sequence"])] if "sequence" in rows.coords else weight
