"""The cost of effective draws: what samplers of one posterior take for them, and whether they agree.

Effective are the draws of the functional that mixes worst, by ArviZ's bulk and tail sizes. A deviation is the difference of two
means over its Monte Carlo error: standard normal where two samplers have one law.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from inference.diagnostics.chains import STILL
from inference.diagnostics.summaries import summarise
from inference.engine.task import Kind, kind_of

COSTS = ("bulk ESS", "tail ESS", "ESS/s", "ESS/s in all", "grad/ESS", "z")


def costs(trees: Mapping[str, xr.DataTree], reference: str | None) -> pd.DataFrame:
    """One line for every result of chains, in the columns `COSTS`, and ``of``: the functional of ``z``.

    ``ESS/s`` counts the seconds of warm-up and draws, and ``ESS/s in all`` those of compiling, too. Gradients are those of the
    draws, where a method counts them. ``z`` is the largest deviation from ``reference``, a result of chains; NaN without one.
    ``attrs["functionals"]`` is the number of functionals, of which it is the largest.

    >>> data = load_data("blobs", num_rows=60)
    >>> trees = {name: fit(MODELS["gmm"](data), data, name, num_samples=200) for name in ("gibbs", "tempered_gibbs")}
    >>> list(costs(trees, "gibbs").index)
    ['gibbs', 'tempered_gibbs']
    """
    chains = {name: tree for name, tree in trees.items() if kind_of(tree) is Kind.CHAINS}
    summaries = {name: _varying(summarise(tree, "functionals")) for name, tree in chains.items()}
    base = None if reference is None else summaries.get(reference)
    lines = {}
    for name, tree in chains.items():
        summary, attrs = summaries[name], tree.attrs
        bulk, tail = (float(summary[f"ess_{part}"].min()) for part in ("bulk", "tail"))
        seconds = attrs["warmup_seconds"] + attrs["run_seconds"]
        largest, of = (np.nan, "") if base is None or name == reference else _largest_deviation(summary, base)
        figures = (bulk, tail, bulk / seconds, bulk / (seconds + attrs["compile_seconds"]), _gradients(tree) / bulk, largest)
        lines[name] = dict(zip(COSTS, figures, strict=True)) | {"of": of}
    table = pd.DataFrame.from_dict(lines, orient="index", columns=[*COSTS, "of"])
    table.attrs["functionals"] = max(map(len, summaries.values()), default=0)
    return table


def _varying(summary: pd.DataFrame) -> pd.DataFrame:
    return summary[summary["sd"] > STILL * summary["mean"].abs()]


def _gradients(tree: xr.DataTree) -> float:
    """Of all draws; NaN for a method that takes none, or does not count them."""
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else xr.Dataset()
    return float(stats["n_steps"].sum()) if "n_steps" in stats else np.nan


def _largest_deviation(summary: pd.DataFrame, base: pd.DataFrame) -> tuple[float, str]:
    """(the largest deviation of a mean from that of ``base``, its functional); (NaN, "") where no functional varies in both."""
    names = [name for name in summary.index if name in base.index]
    error = np.hypot(summary["mcse_mean"][names].to_numpy(), base["mcse_mean"][names].to_numpy())
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = (summary["mean"][names].to_numpy() - base["mean"][names].to_numpy()) / error
    known = np.flatnonzero(np.isfinite(deviations))
    if not known.size:
        return np.nan, ""
    largest = known[np.abs(deviations[known]).argmax()]
    return float(deviations[largest]), str(names[largest])
