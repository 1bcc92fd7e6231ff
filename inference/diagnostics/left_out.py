"""Leave-one-out for all rows: log p(x_n | the others) and its Pareto k-hat, by importance weights or by reliable refits."""

import numpy as np
import xarray as xr

from inference.diagnostics.importance import leave_one_out
from inference.diagnostics.verdicts import Finding, largest_k
from inference.engine.task import Kind, kind_of
from inference.results.tree import table_of


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
