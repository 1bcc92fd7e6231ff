"""One posterior, every method: several results of one model and data set side by side."""

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.diagnostics import FEWEST, summarise
from inference.prediction import mean_and_error
from inference.selection import criteria
from models.base import ZooError

SCORES = {"log loss": "log_loss", "log loss se": "log_loss_se", "accuracy": "accuracy", "calibration": "calibration_error"}
DIFFERENCE = ("log loss diff", "diff se")
HELD_OUT = ("log loss", "log loss se", *DIFFERENCE, "accuracy", "calibration")  # columns on rows held out
ROWS = (
    "x",
    "level_name",
    "count",
    "cell_row",
    "cell_column",
    "token",
    "start",
    "sequence_start",
    "label",
    "weight",
)  # of a table, sparse counts, documents
ONE_ROW = (
    "one sequence has no elpd: nothing is left to predict it from when it is left out. inference.stepwise(model, result, data) "
    "is leave-one-out over its steps"
)
EXACT = ("exact", "nuts", "gibbs", "collapsed_gibbs")  # whose draws tend to be from the posterior: may be the reference


class Comparison(NamedTuple):
    """``table`` has one row a result; ``distances`` are (mean − reference's mean) / reference's sd of each functional."""

    table: pd.DataFrame
    distances: pd.DataFrame
    reference: str | None
    one_model: bool  # whether all results are of one posterior, whose log joint and functionals compare
    comparable: bool  # whether elpd and evidence of all results are of the same thing, whatever the model
    notes: tuple[str, ...] = ()  # what to know of figures that are not there


def compare(trees: Mapping[str, xr.DataTree], reference: str | None = None) -> Comparison:
    """Compare results by their symmetry-free functionals, and by their figures on rows held out where there are any.

    Results of several models on the same data are compared on rows held out: their functionals are of different posteriors,
    so ``distances`` is empty unless a reference is named, as for a model and one's own program of it. ``reference`` names
    the result that distances are measured from; by default the exact sampler whose chains agree best, or none where there
    are only point estimates. ELPD is by PSIS-LOO (draws only), with its standard error and the largest Pareto k-hat; of one
    sequence there is none but over its steps, of results that `inference.stepwise` made. Raises `ZooError` where results are of
    different data, or ``reference`` is not among them.
    """
    if not trees:
        raise ZooError("compare needs at least one result")
    if len({tree["log_likelihood"]["x"].sizes["row"] if "log_likelihood" in tree else 0 for tree in trees.values()}) > 1:
        raise ZooError("these results have different numbers of rows: compare results of the same data")
    if not _same_rows([tree["observed_data"].to_dataset() for tree in trees.values() if "observed_data" in tree]):
        raise ZooError("these results are of different data: compare results of the same data")
    if reference is not None and reference not in trees:
        raise ZooError(f"reference={reference!r} is not one of {', '.join(trees)}")
    summaries = {name: summarise(tree, "functionals") for name, tree in trees.items()}
    kinds = {(tree.attrs["model"], tree.attrs.get("num_parameters")) for tree in trees.values()}
    one_model = len(kinds) == 1 and same_explained(trees) and _same_prior(list(trees.values()))
    chosen = reference or (_default_reference(trees, summaries) if one_model else None)
    behind = _behind_the_best(trees)
    lines = {name: _row(tree, summaries[name]) | behind[name] for name, tree in trees.items()}
    table = pd.DataFrame.from_dict(lines, orient="index")
    notes = (ONE_ROW,) if any("posterior" in tree and _is_one_row(tree) for tree in trees.values()) else ()
    return Comparison(table, _distances(summaries, chosen), chosen, one_model, same_explained(trees), notes)


def _is_one_row(tree: xr.DataTree) -> bool:
    of_steps = "latent" in tree and "time" in tree["latent"].dims
    return of_steps and "log_likelihood" in tree and tree["log_likelihood"].sizes.get("row") == 1


def _same_rows(tables: Sequence[xr.Dataset]) -> bool:
    """Whether tables agree in what they hold of their rows; a program's may hold less than a model's."""
    for part in ROWS:
        found = [np.asarray(table[part]) for table in tables if part in table]
        if any(not np.array_equal(found[0], other, equal_nan=found[0].dtype.kind == "f") for other in found[1:]):
            return False
    return True


def _behind_the_best(trees: Mapping[str, xr.DataTree]) -> dict[str, dict[str, float]]:
    """How far every result's log loss is above the smallest, on the same rows held out, with the difference's standard error.

    Rows that are hard for one model are hard for another, so that a difference is known better than its two terms. NaN where
    the results were not scored on the same rows, and for the error of the best.
    """
    found = {name: dict.fromkeys(DIFFERENCE, np.nan) for name in trees}
    scored = [name for name, tree in trees.items() if "held_out_log_loss" in tree.attrs]
    if not scored or not all("held_out" in trees[name] for name in scored):  # stored before rows were
        return found
    tables = {name: trees[name]["held_out"].to_dataset() for name in scored}
    if len({frozenset(table.data_vars) for table in tables.values()}) > 1 or not _same_rows(list(tables.values())):
        return found
    rows = tables[scored[0]]
    labelled = rows["label"].values >= 0
    weight = rows["weight"].values[labelled] if "weight" in rows else np.ones(labelled.sum())
    group = None
    if "sequence_start" in rows:
        group = np.repeat(np.arange(rows.sizes["row_edge"] - 1), np.diff(rows["sequence_start"].values))[labelled]
    losses = {name: table["loss"].values[labelled] for name, table in tables.items()}
    best = min(losses, key=lambda name: mean_and_error(losses[name], weight)[0])
    for name, loss in losses.items():
        with np.errstate(invalid="ignore"):  # ∞ − ∞, of rows that both hold impossible
            figures = (0.0, np.nan) if name == best else mean_and_error(loss - losses[best], weight, group)
        found[name] = dict(zip(DIFFERENCE, figures, strict=True))
    return found


def _same_prior(trees: Sequence[xr.DataTree]) -> bool:
    """Whether hyperparameters are the same, to rounding: where some were learnt, a log joint is of another density."""
    given = [tree["constant_data"].to_dataset().data_vars for tree in trees if "constant_data" in tree]
    first = given[0] if given else {}
    return all(
        each.keys() == first.keys()
        and all(value.shape == first[name].shape and np.allclose(value, first[name], rtol=1e-6) for name, value in each.items())
        for each in given
    )


def same_explained(trees: Mapping[str, xr.DataTree]) -> bool:
    """Whether the densities of all results are of the same thing, as their models say.

    Results stored before models said so are taken by name and by the option that then decided it.
    """
    if all("explains" in tree.attrs for tree in trees.values()):
        return len({tree.attrs["explains"] for tree in trees.values()}) == 1
    return len({(tree.attrs["model"], json.loads(tree.attrs["options"]).get("emission")) for tree in trees.values()}) == 1


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
    row |= criteria(tree) | {"model": attrs["model"]}
    return row | {column: float(attrs.get(f"held_out_{name}", np.nan)) for column, name in SCORES.items()}


def _elpd(tree: xr.DataTree) -> dict[str, float]:
    import arviz_stats

    unknown = {"elpd": np.nan, "se": np.nan, "k-hat": np.nan}
    if "log_likelihood" not in tree:  # of moments in the place of rows
        return unknown
    rows = tree["log_likelihood"].to_dataset()["x"].transpose("chain", "draw", "row")
    weight = _weight_of_rows(tree, rows)
    single = np.isin(weight, (0, 1)).all()  # a row of weight 1.7 cannot be left out one at a time
    if rows.sizes["chain"] * rows.sizes["draw"] < FEWEST or not single or (weight > 0).sum() < 2:
        return unknown
    rows = rows[..., weight > 0]
    spread = np.ptp(rows.values, axis=(0, 1))
    varying = spread > 1e-9 * (1 + np.abs(rows.values[0, 0]))  # a row without a cell says the same of every θ
    if not varying.any():
        return {"elpd": float(rows.values[0, 0].sum()), "se": 0.0, "k-hat": np.nan}
    some = xr.DataTree.from_dict(
        {"/posterior": tree["posterior"].to_dataset(), "/log_likelihood": rows[..., varying].to_dataset()}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # k-hat is in the table
        loo = arviz_stats.loo(some, var_name="x", pointwise=True)
    pointwise = np.zeros(len(varying))
    pointwise[varying], pointwise[~varying] = np.asarray(loo.elpd_i), rows.values[0, 0, ~varying]
    return {
        "elpd": float(pointwise.sum()),
        "se": float(np.sqrt(len(pointwise) * pointwise.var())),
        "k-hat": float(np.max(loo.pareto_k)),
    }


def _weight_of_rows(tree: xr.DataTree, rows: xr.DataArray) -> np.ndarray:
    """(rows,): of what a density is of: rows, sequences, or steps, of which the whole sequence has one weight."""
    observed = tree["observed_data"].to_dataset() if "observed_data" in tree else xr.Dataset()
    if "weight" not in observed:
        return np.ones(rows.sizes["row"])
    weight = np.asarray(observed["weight"])
    if "sequence_start" in observed:  # those of steps
        weight = weight[np.asarray(observed["sequence_start"])[:-1]]
    return weight[np.asarray(rows["sequence"])] if "sequence" in rows.coords else weight


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
    (without a reference, from the mean of the points in their sd), for the entries that all results have. A point estimate is
    a dot without an interval.
    """
    import arviz_plots
    import matplotlib.pyplot as plt

    chosen = reference or compare(trees).reference
    shortest = min((_size(tree) for tree in trees.values() if _size(tree) > 1), default=2)
    # Results that differ in size share some entries of a functional only: those are drawn.
    shared = xr.align(*(_draws(tree, shortest) for tree in trees.values()), join="inner", exclude=("chain", "draw"))
    draws = dict(zip(trees, shared, strict=True))
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
    """Of every result on the rows held out, written to ``path``: log loss, how far it is above the best, and accuracy.

    Bars are two standard errors.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 1.2 + 0.35 * len(table)), layout="constrained")
    place = np.arange(len(table))[::-1]
    panels = {
        "log loss of a row held out, ± 2 standard errors": ("log loss", "log loss se"),
        "log loss above the best, ± 2 standard errors": DIFFERENCE,
        "accuracy on rows held out": ("accuracy", None),
    }
    axes = figure.subplots(1, len(panels), sharey=True)
    for colour, (axis, (title, (name, error))) in enumerate(zip(axes, panels.items(), strict=True)):
        width = 0 if error is None else 2 * table[error].astype(float).fillna(0)
        axis.errorbar(table[name].astype(float), place, xerr=width, fmt="o", color=f"C{colour}", capsize=3)
        axis.set(xlabel=title, yticks=place, yticklabels=list(table.index))
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
