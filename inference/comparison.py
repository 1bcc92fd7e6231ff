"""One posterior, every method: several results of one model and data set side by side."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.diagnostics import summarise
from models.base import ZooError

HELD_OUT = ("log loss", "log loss se", "accuracy", "calibration")  # columns on rows held out
EXACT = ("exact", "nuts", "gibbs")  # whose draws are, or tend to be, from the posterior: candidates for the reference


class Comparison(NamedTuple):
    """``table`` has one row a result; ``distances`` are (mean − reference's mean) / reference's sd of each functional."""

    table: pd.DataFrame
    distances: pd.DataFrame
    reference: str | None
    one_model: bool  # whether log joint, elpd and evidence of all results are of the same thing


def compare(trees: Mapping[str, xr.DataTree], reference: str | None = None) -> Comparison:
    """Compare results by their symmetry-free functionals, and by their figures on rows held out where there are any.

    Results of several models on the same data are compared on rows held out: their functionals are of different posteriors,
    so ``distances`` is empty unless a reference is named, as for a model and one's own program of it. ``reference`` names
    the result that distances are measured from; by default the exact sampler whose chains agree best, or none where there
    are only point estimates. ELPD is by PSIS-LOO (draws only), with its standard error and the largest Pareto k-hat. Raises
    `ZooError` where results are of different data, or ``reference`` is not among them.
    """
    if not trees:
        raise ZooError("compare needs at least one result")
    if len({tree["log_likelihood"]["x"].sizes["row"] for tree in trees.values()}) > 1:
        raise ZooError("these results have different numbers of rows: compare results of the same data")
    observed = [tree["observed_data"].to_dataset() for tree in trees.values() if "observed_data" in tree]
    for part in ("x", "count", "token", "label"):  # of a table, sparse counts, documents; and what the rows are labelled
        found = [np.asarray(table[part]) for table in observed if part in table]
        if any(not np.array_equal(found[0], other, equal_nan=found[0].dtype.kind == "f") for other in found[1:]):
            raise ZooError("these results are of different data: compare results of the same data")
    for part in ("kind", "level_name"):
        if len({tuple(map(str, np.asarray(table[part]))) for table in observed if part in table}) > 1:
            raise ZooError(
                "these results take the columns of their data for different kinds: compare results of the same kinds"
            )
    if reference is not None and reference not in trees:
        raise ZooError(f"reference={reference!r} is not one of {', '.join(trees)}")
    summaries = {name: summarise(tree, "functionals") for name, tree in trees.items()}
    chosen = reference or (_default_reference(trees, summaries) if same_model(trees) else None)
    table = pd.DataFrame({name: _row(tree, summaries[name]) for name, tree in trees.items()}).T
    return Comparison(table, _distances(summaries, chosen), chosen, same_model(trees))


def same_model(trees: Mapping[str, xr.DataTree]) -> bool:
    """Whether all results are of one model for the same kind of data: its size may differ, its emission may not."""
    return len({(tree.attrs["model"], str(_options(tree).get("emission"))) for tree in trees.values()}) == 1


def _options(tree: xr.DataTree) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tree.attrs["options"])
    return found


def _default_reference(trees: Mapping[str, xr.DataTree], summaries: Mapping[str, pd.DataFrame]) -> str | None:
    exact = [name for name, tree in trees.items() if tree.attrs["method"] in EXACT and tree["posterior"].sizes["draw"] > 3]
    # Independent draws of the exact posterior first.
    return min(exact, key=lambda n: ("log_evidence" not in trees[n].attrs, _worst(summaries[n]["r_hat"])), default=None)


def _worst(rhat: "pd.Series[float]") -> float:
    return float(rhat.max()) if rhat.notna().any() else np.inf


def _row(tree: xr.DataTree, summary: pd.DataFrame) -> dict[str, Any]:
    """One line of the table."""
    draws = "mean" in summary
    attrs = tree.attrs
    seconds = {phase: attrs[f"{phase}_seconds"] for phase in ("compile", "warmup", "run")}
    row: dict[str, Any] = {"log joint": float(summary["mean" if draws else "value"]["log_joint"])}
    row |= _elpd(tree) if draws else {"elpd": np.nan, "se": np.nan, "k-hat": np.nan}
    varying = summary[summary["sd"] > 1e-12 * summary["mean"].abs()] if draws else summary
    fewest = float(varying["ess_bulk"].min()) if draws else np.nan
    row |= {"R-hat": float(varying["r_hat"].max()) if draws else np.nan, "ESS": fewest}
    # Independent draws from an approximation cost next to nothing: a rate would say nothing about its fit.
    row |= {"ESS/s": fewest / max(seconds["warmup"] + seconds["run"], 1e-9) if attrs["method"] in EXACT else np.nan}
    row |= {f"{phase} s": value for phase, value in seconds.items()} | {"exit": int(attrs["exit_status"])}
    row |= {"log evidence": float(attrs.get("log_evidence", np.nan)), "model": attrs["model"]}
    held_out = ("log_loss", "log_loss_se", "accuracy", "calibration_error")
    values = (float(attrs.get(f"held_out_{name}", np.nan)) for name in held_out)
    return row | dict(zip(HELD_OUT, values, strict=True))


def _elpd(tree: xr.DataTree) -> dict[str, float]:
    import arviz_stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # k-hat is in the table
        loo = arviz_stats.loo(tree, var_name="x", pointwise=True)
    return {"elpd": float(loo.elpd), "se": float(loo.se), "k-hat": float(np.max(loo.pareto_k))}


def _distances(summaries: Mapping[str, pd.DataFrame], reference: str | None) -> pd.DataFrame:
    """Functional × result: how far each mean, or point, is from the reference's mean, in the reference's posterior sd."""
    if reference is None:
        return pd.DataFrame()
    base = summaries[reference]
    centres = {name: table["mean"] if "mean" in table else table["value"] for name, table in summaries.items()}
    spread = base["sd"].where(base["sd"] > 1e-12 * base["mean"].abs())
    return pd.DataFrame({name: (centre - base["mean"]) / spread for name, centre in centres.items()}).dropna(how="all")


def plot(trees: Mapping[str, xr.DataTree], path: Path, reference: str | None = None) -> None:
    """ArviZ's forest of the functionals of every result, written to ``path``.

    Functionals live on different scales, so each is shown as its distance from the reference's mean in the reference's sd
    (without a reference, from the mean of the points in their sd). A point estimate is a dot without an interval.
    """
    import arviz_plots
    import matplotlib.pyplot as plt

    chosen = reference or compare(trees).reference
    shortest = min((_size(tree) for tree in trees.values() if _size(tree) > 1), default=2)
    draws = {name: _draws(tree, shortest) for name, tree in trees.items()}
    base = [draws[chosen]] if chosen else list(draws.values())
    merged = xr.concat(base, dim="chain", join="override", coords="minimal", compat="override")
    centre, spread = merged.mean(("chain", "draw")), merged.std(("chain", "draw"))
    varying = [str(name) for name in merged.data_vars if bool((spread[name] > 1e-9 * abs(centre[name])).any())]
    standard = {
        name: xr.DataTree.from_dict({"/functionals": ((values - centre) / spread.where(spread > 0))[varying].fillna(0)})
        for name, values in draws.items()
    }
    # ArviZ gives every model a colour and a height of its own; one picture for all.
    forest = arviz_plots.plot_forest(standard, group="functionals", combined=True, backend="matplotlib")
    forest.add_legend("model")
    figure = forest.viz["figure"].item()
    of = f"from {chosen}, in its posterior sd" if chosen else "from the mean of the points, in their sd"
    figure.suptitle(f"functionals: distance {of}", fontsize=11, y=0.9)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def plot_held_out(table: pd.DataFrame, path: Path) -> None:
    """Log loss, with two standard errors, and accuracy of every result on the rows held out, written to ``path``."""
    from matplotlib.figure import Figure

    names, height = list(table.index), 1.2 + 0.35 * len(table)
    figure = Figure(figsize=(9, height), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    place = np.arange(len(names))[::-1]
    loss, error, accuracy = (table[name].astype(float) for name in ("log loss", "log loss se", "accuracy"))
    left.errorbar(loss, place, xerr=2 * error.fillna(0), fmt="o", color="C0", capsize=3)
    right.plot(accuracy, place, "o", color="C1")
    left.set(xlabel="log loss of a row held out, ± 2 standard errors", yticks=place, yticklabels=names)
    right.set(xlabel="accuracy on rows held out")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(y=0.2)
    figure.savefig(path, dpi=110)


def _size(tree: xr.DataTree) -> int:
    """Draws over all chains; 1 for a point."""
    values = tree["functionals"].to_dataset()
    return int(values.sizes["chain"] * values.sizes["draw"]) if "draw" in values.dims else 1


def _draws(tree: xr.DataTree, size: int) -> xr.Dataset:
    """``size`` evenly spread draws of the functionals as one chain; a point is repeated."""
    values = tree["functionals"].to_dataset()
    if "draw" not in values.dims:
        values = values.expand_dims(sample=size)
    else:
        values = values.stack(sample=("chain", "draw"), create_index=False)
        values = values.isel(sample=np.linspace(0, values.sizes["sample"] - 1, size).astype(int))
    values = values.drop_vars(["chain", "draw", "sample"], errors="ignore").rename(sample="draw").expand_dims(chain=1)
    return values.assign_coords(chain=[0], draw=np.arange(size)).transpose("chain", "draw", ...)
