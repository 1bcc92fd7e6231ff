"""Several results side by side: `inference.compare`."""

import html
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.comparison.criteria import criteria
from inference.comparison.foreign import as_results
from inference.comparison.picked import ELPD, LOG_LOSS, remarks_on_differences
from inference.diagnostics.chains import STILL
from inference.diagnostics.importance import FEWEST, log_weights, rows_left_out, weight_of_rows
from inference.diagnostics.summaries import summarise
from inference.diagnostics.verdicts import Finding, problem_of, verdict_on
from inference.engine.task import Kind, kind_of
from inference.predictions.score import mean_and_error
from inference.results.observed import by_row
from inference.results.tree import table_of
from inference.runtime.files import write_figure
from inference.runtime.formats.texts import visible
from models.base import Model
from models.errors import ZooError

SCORES = {"log loss": "log_loss", "log loss se": "log_loss_se", "accuracy": "accuracy", "calibration": "calibration_error"}
DIFFERENCE = (LOG_LOSS.difference, LOG_LOSS.error)
ELPD_DIFFERENCE = (ELPD.difference, ELPD.error)
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
)  # variables that identify a table, sparse counts, or documents
ONE_ROW = (
    "no elpd: the data is a single sequence, and without it nothing is left to fit. inference.stepwise(model, result, data) "
    "has the log-likelihood of every step given the steps before it, for an elpd of one-step-ahead prediction"
)
EXACT = (Kind.INDEPENDENT, Kind.CHAINS)  # draws that converge to the posterior: may be the reference
WIDTH = 80  # of what a notebook or a terminal shows
NOT_SITES = "{}: left out, as they are no sites of the model: {}"
NO_WEIGHTS = "no elpd: the draws are from an approximation, and their importance weights p / q are not known"


class Comparison(NamedTuple):
    """``table`` has one row per result; ``distances`` are (mean − reference's mean) / reference's sd of each functional."""

    table: pd.DataFrame
    distances: pd.DataFrame
    reference: str | None
    one_model: bool  # whether all results are of one posterior, so that log joints and functionals compare
    comparable: bool  # whether all models explain the same data, so that elpd and evidence compare
    notes: tuple[str, ...] = ()  # why figures are missing or not valid, and the limits of differences

    @property
    def shown(self) -> pd.DataFrame:
        """The table without columns in which no result has a figure."""
        return self.table.dropna(axis=1, how="all")

    def __repr__(self) -> str:
        table = self.shown.to_string(float_format="{:.4g}".format, line_width=WIDTH)
        return "\n".join([table, *(textwrap.fill(note, WIDTH, break_long_words=False) for note in self.notes)])

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(visible(note))}</li>" for note in self.notes)
        return f"{self.shown.to_html(float_format='{:.4g}'.format)}<ul>{notes}</ul>"


def compare(
    trees: Mapping[str, Any], reference: str | None = None, *, model: Model | None = None, data: Any = None
) -> Comparison:
    """Compare results of the same data: functionals, elpd, evidence, criteria, and predictions of held-out rows.

    ``trees`` maps names to results, or to draws that another program made: a DataTree of ``az.from_dict``, a NumPyro MCMC that
    has run, or a dict of arrays (chain, draw, …). Such draws become results by `inference.as_result`: of ``model`` and
    ``data``, or of the model of the zoo that the other results are of. Results of one model compare by their functionals, which
    no symmetry changes. Results of different models have different posteriors and compare by held-out rows; then ``distances``
    is empty unless ``reference`` is given, as for a model and your own program of it. ``reference`` is the result from which
    distances are measured: by default the exact sampler with the smallest R-hat, or none if all results are point estimates.

    Elpd is estimated by PSIS-LOO from draws, with its standard error and the largest Pareto k-hat. Rows that
    `inference.refit_rows` refitted use their refits. Draws from an approximation get importance weights p / q; if these are not
    known there is no elpd. A single sequence only has an elpd over its steps, after `inference.stepwise`. Of different models
    that explain the same data, ``elpd diff`` is how far each is below the best, with the standard error of the differences row
    by row. ``notes`` name the figures that are missing or not valid, and why, the differences of elpd that are too small to
    count, and the part of its lead that the best of three or more may owe to chance. Raises `ZooError` for results of different
    data, a ``reference`` that is unknown or a point estimate, and draws that do not fit the model.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm"](data, num_components=2)
    >>> trees = {method: fit(model, data, method) for method in ("em", "gibbs")}
    >>> compare(trees).table.index.tolist()
    ['em', 'gibbs']
    >>> draws = full_matrices(trees["gibbs"])  # as another program would return them
    >>> comparison = compare(trees | {"stan": draws})
    >>> bool(np.isclose(comparison.table["log joint"]["stan"], comparison.table["log joint"]["gibbs"]))
    True
    """
    if not trees:
        raise ZooError("compare needs at least one result")
    trees = as_results(trees, model, data)
    if len({by_row(tree).sizes["row"] if "log_likelihood" in tree else 0 for tree in trees.values()}) > 1:
        raise ZooError("these results have different numbers of rows: compare results of the same data")
    if not same_rows([table_of(tree) for tree in trees.values()]):
        raise ZooError("these results were fitted to different data: compare results of the same data")
    if len({tree["log_likelihood"].attrs.get("given", "") for tree in trees.values() if "log_likelihood" in tree}) > 1:
        raise ZooError("these results rate steps given the steps before, or given all others: call stepwise with one given=")
    summaries = {name: summarise(tree, "functionals") for name, tree in trees.items()}
    require_reference(reference, summaries)
    kinds = {(tree.attrs["model"], tree.attrs["num_parameters"]) for tree in trees.values()}
    one_model = len(kinds) == 1 and same_explained(trees) and _same_prior(list(trees.values()))
    chosen = reference or (_default_reference(trees, summaries) if one_model else None)
    behind = _behind_the_best(trees)
    scores = {name: _elpd(tree) for name, tree in trees.items()}
    below = below_the_best({} if one_model or not same_explained(trees) else scores)
    none = dict.fromkeys(ELPD_DIFFERENCE, np.nan)
    lines = {
        name: _row(tree, summaries[name]) | scores[name].figures() | below.get(name, none) | behind[name]
        for name, tree in trees.items()
    }
    table = pd.DataFrame.from_dict(lines, orient="index")
    notes = [ONE_ROW] if any("posterior" in tree and _is_one_row(tree) for tree in trees.values()) else []
    notes += [f"{name}: {score.why}" for name, score in scores.items() if score.why]
    notes += [NOT_SITES.format(name, tree.attrs["not_sites"]) for name, tree in trees.items() if "not_sites" in tree.attrs]
    notes += remarks_on_differences(table)
    return Comparison(table, _distances(summaries, chosen), chosen, one_model, same_explained(trees), tuple(notes))


def _is_one_row(tree: xr.DataTree) -> bool:
    of_steps = "latent" in tree and "time" in tree["latent"].dims
    return of_steps and "log_likelihood" in tree and tree["log_likelihood"].sizes.get("row") == 1


def same_rows(tables: Sequence[xr.Dataset]) -> bool:
    """Whether tables hold the same rows; observations of a program, which are no table, are left out."""
    tables = [table for table in tables if "column" in table.coords]
    for part in ROWS:
        arrays = [np.asarray(table[part]) for table in tables if part in table]
        if any(not np.array_equal(arrays[0], other, equal_nan=arrays[0].dtype.kind == "f") for other in arrays[1:]):
            return False
    return True


def _behind_the_best(trees: Mapping[str, xr.DataTree]) -> dict[str, dict[str, float]]:
    """How far each result's log loss is above the smallest, on the same held-out rows, with the standard error.

    Rows that are hard for one model are hard for others, so a difference is known better than its two terms. NaN if the
    results were not scored on the same rows, and for the standard error of the best.
    """
    behind = {name: dict.fromkeys(DIFFERENCE, np.nan) for name in trees}
    scored = [name for name, tree in trees.items() if "held_out_log_loss" in tree.attrs]
    if not scored or not all("held_out" in trees[name] for name in scored):
        return behind
    tables = {name: trees[name]["held_out"].to_dataset() for name in scored}
    if len({frozenset(table.data_vars) for table in tables.values()}) > 1 or not same_rows(list(tables.values())):
        return behind
    rows = tables[scored[0]]
    labelled = rows["label"].values >= 0
    weight = rows["weight"].values[labelled] if "weight" in rows else np.ones(labelled.sum())
    group = None
    if "sequence_start" in rows:
        group = np.repeat(np.arange(rows.sizes["row_edge"] - 1), np.diff(rows["sequence_start"].values))[labelled]
    losses = {name: table["loss"].values[labelled] for name, table in tables.items()}
    best = min(losses, key=lambda name: mean_and_error(losses[name], weight)[0])
    for name, loss in losses.items():
        with np.errstate(invalid="ignore"):  # ∞ − ∞, for rows impossible under both
            figures = (0.0, np.nan) if name == best else mean_and_error(loss - losses[best], weight, group)
        behind[name] = dict(zip(DIFFERENCE, figures, strict=True))
    return behind


def _same_prior(trees: Sequence[xr.DataTree]) -> bool:
    """Whether hyperparameters are equal up to rounding; if some were learnt, log joints are of different densities."""
    given = [_hyperparameters(tree["constant_data"].to_dataset()) for tree in trees if "constant_data" in tree]
    first = given[0] if given else {}
    return all(
        each.keys() == first.keys()
        and all(value.shape == first[name].shape and np.allclose(value, first[name], rtol=1e-6) for name, value in each.items())
        for each in given
    )


def _hyperparameters(constant: xr.Dataset) -> dict[str, np.ndarray]:
    """The hyperparameters in ``constant_data``, which also holds unobserved parts of a table; for a program, all constants."""
    return {str(name): constant[name].values for name in np.atleast_1d(constant.attrs.get("hyperparameters", []))}


def same_explained(trees: Mapping[str, xr.DataTree]) -> bool:
    """Whether all models explain the same data (`models.base.Naming.density_of`)."""
    return len({tree.attrs["density_of"] for tree in trees.values()}) == 1


def _default_reference(trees: Mapping[str, xr.DataTree], summaries: Mapping[str, pd.DataFrame]) -> str | None:
    exact = [name for name, tree in trees.items() if kind_of(tree) in EXACT and tree["posterior"].sizes["draw"] > 3]
    # Prefer independent draws from the exact posterior.
    return min(exact, key=lambda n: (EXACT.index(kind_of(trees[n])), _worst(summaries[n])), default=None)


def _worst(summary: pd.DataFrame) -> float:
    """The largest R-hat; infinity if there is none."""
    return float(summary["r_hat"].max()) if "r_hat" in summary and summary["r_hat"].notna().any() else np.inf


def _row(tree: xr.DataTree, summary: pd.DataFrame) -> dict[str, Any]:
    """One line of the table."""
    draws = "mean" in summary
    attrs = tree.attrs
    seconds = {phase: attrs[f"{phase}_seconds"] for phase in ("compile", "warmup", "run")}
    row: dict[str, Any] = {"log joint": float(summary["mean" if draws else "value"]["log_joint"])}
    worst, fewest = _of_chains(tree, summary)
    row |= {"R-hat": worst, "ESS": fewest, "ESS/s": fewest / max(seconds["warmup"] + seconds["run"], 1e-9)}
    row |= {f"{phase} s": value for phase, value in seconds.items()} | {"exit": int(attrs["exit_status"])}
    row |= criteria(tree) | {"model": attrs["model"]}
    return row | {column: float(attrs.get(f"held_out_{name}", np.nan)) for column, name in SCORES.items()}


def _of_chains(tree: xr.DataTree, summary: pd.DataFrame) -> tuple[float, float]:
    """(largest R-hat, smallest effective size) of the functionals. For independent posterior draws, the size is their number.

    Draws from an approximation have neither: they are cheap, and their number is no measure of the quality of the fit.
    """
    if kind_of(tree) is Kind.INDEPENDENT:
        return np.nan, float(tree["posterior"].sizes["chain"] * tree["posterior"].sizes["draw"])
    if kind_of(tree) is not Kind.CHAINS:
        return np.nan, np.nan
    varying = summary[summary["sd"] > STILL * summary["mean"].abs()]
    return float(varying["r_hat"].max()), float(varying["ess_bulk"].min())


class Score(NamedTuple):
    """Elpd of a result, its standard error, the largest Pareto k-hat and its rows; ``why`` it is missing or not valid."""

    elpd: float = np.nan
    se: float = np.nan
    khat: float = np.nan
    why: str = ""
    valid: bool = True
    rows: np.ndarray | None = None  # (N,): the elpd of every row that counts

    def figures(self) -> dict[str, Any]:
        valid = np.nan if np.isnan(self.elpd) else self.valid
        return {"elpd": self.elpd, "se": self.se, "k-hat": self.khat, "elpd valid": valid}


def _elpd(tree: xr.DataTree) -> Score:
    if "posterior" not in tree or "log_likelihood" not in tree:  # a point, or data given as moments
        return Score()
    rows = by_row(tree)
    weight = weight_of_rows(tree, rows)
    single = np.isin(weight, (0, 1)).all()  # a row of weight 1.7 cannot be left out as one row
    if rows.sizes["chain"] * rows.sizes["draw"] < FEWEST or not single or (weight > 0).sum() < 2:
        return Score()
    weights = log_weights(tree)
    if weights is None:
        return Score(why=NO_WEIGHTS)
    elpd, khat = rows_left_out(tree, rows, weights)
    elpd, khat = elpd[weight > 0], khat[weight > 0]
    size = rows.sizes["chain"] * rows.sizes["draw"]
    known = khat[~np.isnan(khat)]
    problem = problem_of(verdict_on("Pareto k-hat of rows"), Finding(known, size=size, details={"total": len(khat)}))
    largest = float(known.max()) if len(known) else np.nan
    figures = float(elpd.sum()), float(np.sqrt(len(elpd) * elpd.var(ddof=1))), largest
    return Score(*figures, "" if problem is None else problem.sentence, problem is None, elpd)


def below_the_best(scores: Mapping[str, Score]) -> dict[str, dict[str, float]]:
    """The elpd of each result minus the largest, with its standard error; for results of as many rows alone.

    Rows that are hard for one model are hard for others, so a difference is known better than its two terms. The best has no
    standard error.
    """
    rows = {name: score.rows for name, score in scores.items() if score.rows is not None}
    if len(rows) < 2 or len({len(each) for each in rows.values()}) > 1:
        return {}
    best = max(rows, key=lambda name: rows[name].sum())
    differences = {}
    for name, each in rows.items():
        off = each - rows[best]
        error = np.nan if name == best else float(np.sqrt(len(off) * off.var(ddof=1)))
        differences[name] = dict(zip(ELPD_DIFFERENCE, (float(off.sum()), error), strict=True))
    return differences


def require_reference(reference: str | None, summaries: Mapping[str, pd.DataFrame]) -> None:
    """Raises `ZooError` for a reference that is not among the results, or is a point estimate."""
    if reference is None:
        return
    if reference not in summaries:
        raise ZooError(f"reference={reference!r} is not one of {', '.join(summaries)}")
    if "sd" not in summaries[reference]:
        raise ZooError(f"reference={reference!r} is a point estimate without a posterior sd: choose a result with draws")


def _distances(summaries: Mapping[str, pd.DataFrame], reference: str | None) -> pd.DataFrame:
    """Functional × result: distance of each mean, or point, from the reference's mean, in the reference's posterior sd."""
    if reference is None:
        return pd.DataFrame()
    base = summaries[reference]
    centres = {name: table["mean"] if "mean" in table else table["value"] for name, table in summaries.items()}
    spread = base["sd"].where(base["sd"] > 1e-12 * base["mean"].abs())
    return pd.DataFrame({name: (centre - base["mean"]) / spread for name, centre in centres.items()}).dropna(how="all")


def plot_held_out(table: pd.DataFrame, path: Path) -> None:
    """Plot every result's log loss on held-out rows, its distance from the best, and accuracy; written to ``path``.

    Bars are two standard errors.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 1.2 + 0.35 * len(table)), layout="constrained")
    place = np.arange(len(table))[::-1]
    panels = {
        "log loss per held-out row, ± 2 standard errors": ("log loss", "log loss se"),
        "log loss above the best, ± 2 standard errors": DIFFERENCE,
        "accuracy on held-out rows": ("accuracy", None),
    }
    axes = figure.subplots(1, len(panels), sharey=True)
    for colour, (axis, (title, (name, error))) in enumerate(zip(axes, panels.items(), strict=True)):
        width = 0 if error is None else 2 * table[error].astype(float).fillna(0)
        axis.errorbar(table[name].astype(float), place, xerr=width, fmt="o", color=f"C{colour}", capsize=3)
        axis.set(xlabel=title, yticks=place, yticklabels=list(table.index))
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(y=0.2)
    write_figure(path, figure, dpi=110)
