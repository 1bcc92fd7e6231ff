"""`inference.compare` from the shell: run several fits of one data set, or load their results; tabulate and plot them."""

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
import xarray as xr
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from inference.cli.combinations import on_one_data_set, relevant, with_backend
from inference.cli.runs.config import compose, expand
from inference.cli.runs.execute import all_rows, build_model, prepare_jax
from inference.cli.runs.execute_blocks import execute_any
from inference.cli.runs.fitted_run import Stage, stage_of
from inference.cli.runs.run_folder import amend, locked_folder
from inference.comparison.costs import COSTS, costs
from inference.comparison.criteria import BOUND, COLUMNS, SMALL, alarms, best_sizes, model_warnings, plot_criteria
from inference.comparison.sweep import short_name, titles_of
from inference.comparison.sweep_plan import is_sweep, read_plan
from inference.comparison.table import ELPD_DIFFERENCE, HELD_OUT, Comparison, compare, plot_held_out
from inference.diagnostics.occupancy import in_words, occupied
from inference.plots.forest import plot_forest
from inference.report.numbers import format_number
from inference.report.remarks import holders
from inference.results.tree import load
from inference.runtime.files import CHECKPOINTS, CONFIG, MANIFEST, RESULTS, complete, intact, reopen, write_table
from inference.runtime.formats.texts import visible
from inference.runtime.progress import console
from models.errors import ZooError, exists

WRITTEN = ("comparison.csv", "distances.csv", "costs.csv", "comparison.png", "criteria.png")


def compare_runs(arguments: list[str]) -> int:
    """Run every combination of the comma lists, or load the given run folders; returns the largest exit code."""
    folders = [argument for argument in arguments if "=" not in argument or exists(argument)]
    given = dict(argument.split("=", 1) for argument in arguments if argument not in folders)
    if "runs" in given:
        folders += given.pop("runs").split(",")
    if folders:
        if absent := [folder for folder in folders if not exists(folder)]:
            flag = " (it runs every combination of lists with commas without a flag)" if absent[0].startswith("-") else ""
            raise ZooError(f"{absent[0]!r} is neither the folder of a run nor an option, which has the form key=value{flag}")
        unknown = set(given) - {"out", "reference"}
        if unknown:
            raise ZooError(f"{min(unknown)}= cannot be set for finished runs: only out= and reference= go with run folders")
        trees = {title: load(folder) for title, folder in _titled(folders).items()}
        with nullcontext() if "out" not in given else _locked_folder(Path(given["out"])) as target:
            return _show(trees, given.get("reference"), target)
    settings = [a for a in arguments if not a.startswith(("reference=", "out=", "evidence="))]
    if given.get("evidence", "false") not in ("true", "false"):
        raise ZooError(f"evidence must be true or false, got {given['evidence']!r}")
    if "resume" in given:
        raise ZooError("resume= is an option of inference.run; compare takes the folders of finished runs")
    out = given.get("out")
    with _locked_folder(Path(out or Path("runs") / time.strftime("compare-%Y%m%d-%H%M%S")), fresh=not out) as target:
        trees = _run_all(settings, target, evidence=given.get("evidence") == "true")
        return _show(trees, given.get("reference"), target)


@contextmanager
def _locked_folder(target: Path, fresh: bool = False) -> Iterator[Path]:
    """A locked folder for a comparison. Raises `ZooError` for the folder of a run, or for files that no comparison wrote."""
    with locked_folder(target, fresh) as folder:
        if (folder / RESULTS).exists() or (folder / CONFIG).exists() or any(folder.glob(CHECKPOINTS)):
            raise ZooError(f"out={folder} is the folder of a run; choose another one for the comparison")
        named = [name for name in WRITTEN if os.path.lexists(folder / name)]
        foreign = set(named) - intact(folder)
        if foreign:
            raise ZooError(
                f"out={folder} holds a {min(foreign)} that no comparison wrote ({MANIFEST} does not list it as it is); move "
                "it, or choose another folder"
            )
        yield folder


def _show(trees: Mapping[str, xr.DataTree], reference: str | None, target: Path | None) -> int:
    """Print the table, and write it with its pictures to ``target``, which is already locked; returns the exit code."""
    comparison = compare(trees, reference)
    screen = console()
    print_comparison(comparison, screen)
    print_costs(trees, comparison, screen)
    print_problems(trees, screen)
    if _differ_in_size(comparison):
        print_criteria(comparison, [*alarms(trees), *model_warnings(trees)], screen)
    print_occupied(trees, screen)
    if target is not None:
        names = _write(trees, comparison, target)
        print(f"results in {target}: {', '.join(names)}")
    return max(int(tree.attrs["exit_status"]) for tree in trees.values())


def _write(trees: Mapping[str, xr.DataTree], comparison: Comparison, target: Path) -> list[str]:
    """Write the tables and pictures, and the manifest last; returns the names of the files."""
    matplotlib.use("Agg")
    reopen(target)
    write_table(target / "comparison.csv", comparison.table, index_label="result")
    write_table(target / "distances.csv", comparison.distances, index_label="functional")
    names = ["comparison.csv", "distances.csv"]
    if len(of_chains := costs(trees if comparison.one_model else {}, comparison.reference)) > 1:
        write_table(target / "costs.csv", of_chains, index_label="result")
        names.append("costs.csv")
    if comparison.reference is not None or comparison.one_model:
        names += ["comparison.png"] if plot_forest(trees, target / "comparison.png", comparison.reference) else []
    elif comparison.table["log loss"].notna().any():
        plot_held_out(comparison.table, target / "comparison.png")
        names.append("comparison.png")
    if _differ_in_size(comparison):
        methods = {name: str(tree.attrs["method"]) for name, tree in trees.items()}
        plot_criteria(comparison.table, methods, target / "criteria.png")
        names.append("criteria.png")
    complete(target, [target / name for name in names])
    return names


def _run_all(arguments: list[str], target: Path, evidence: bool) -> dict[str, xr.DataTree]:
    """Run all combinations, each into its own folder below ``target`` before the next one starts.

    With ``evidence``, the evidence of every model is estimated once and stored with its results that have no exact one.
    """
    combinations = expand(arguments, sweep=True)
    shared = set.intersection(*map(set, combinations))
    plans = []
    for combination in combinations:
        title = " ".join(short_name(override) for override in combination if override not in shared)
        plans.append(
            (title or "run", compose(relevant(on_one_data_set(with_backend(combination), with_backend(combinations[0])))))
        )
    if any(config["data"] != plans[0][1]["data"] for _, config in plans):
        raise ZooError("compare needs results of the same data: give one data=, or run several data sets with inference.run -m")
    for _, config in plans:
        prepare_jax(config)
    if evidence:
        for config in {repr((config["model"], config["data"])): config for _, config in plans}.values():
            _check_evidence(config)
    trees: dict[str, xr.DataTree] = {}
    known: dict[str, dict[str, Any]] = {}
    for index, (title, config) in enumerate(plans):
        print(visible(f"── {index + 1} of {len(plans)}: {title}"), file=sys.stderr)
        config["out"] = str(target / re.sub(r"[^\w.-]+", "_", title).strip("_"))
        trees[title], folder = execute_any(config, show_columns=index == 0)
        if trees[title].attrs["interrupted"]:
            break
        if evidence and "log_evidence" not in trees[title].attrs:
            described = repr((config["model"], config["data"], config["seed"]))
            if described not in known:
                known[described] = _evidence(config)
            trees[title].attrs |= known[described]
            amend(trees[title], folder)
    return trees


def _evidence(config: dict[str, Any]) -> dict[str, Any]:
    """The estimated evidence of the configuration's model on its training rows, as attributes of a result."""
    from inference.evidence.estimate import log_evidence

    _, data, _ = all_rows(config)
    estimate = log_evidence(build_model(config["model"], data)[0], data, seed=config["seed"])
    for line in estimate.warnings:
        print(visible(f"! log evidence: {line}"), file=sys.stderr)
    return {
        "log_evidence_estimate": estimate.log_evidence,
        "log_evidence_se": estimate.standard_error,
        "log_evidence_method": estimate.method,
        "log_evidence_warnings": "\n".join(estimate.warnings),
    }


def _check_evidence(config: dict[str, Any]) -> None:
    """Raises `ZooError`, before anything runs, for a model whose evidence cannot be estimated."""
    from inference.evidence.estimate import possible_methods

    if config["model"]["name"] == "program":
        raise ZooError("evidence=true needs a model of the zoo; in Python inference.log_evidence takes programs, too")
    _, data, _ = all_rows(config)
    possible_methods(build_model(config["model"], data)[0], data)


def _titled(folders: list[str]) -> dict[str, str | Path]:
    """The name of every result in a table -> its folder. Runs of a sweep have the names of their settings.

    Raises `ZooError` where two have one name.
    """
    known: dict[str, str | Path] = {}
    for folder in folders:
        runs: dict[str, Any] = _finished_runs(Path(folder)) if is_sweep(folder) else {_title(folder): folder}
        if is_sweep(folder) and len(folders) > 1:
            runs = {f"{Path(folder).resolve().name} {title}": each for title, each in runs.items()}
        if twice := known.keys() & runs.keys():
            raise ZooError(f"two of the run folders have the same name, {min(twice)}: rename one")
        known |= runs
    return known


def _finished_runs(folder: Path) -> dict[str, Path]:
    """Differing settings of the finished runs of a sweep -> their folders. Raises `ZooError` if there are none.

    Damaged ones are among them: reading their results raises an error. The number of omitted runs goes to standard error.
    """
    plan = read_plan(folder)
    folders = {title: folder / str(number) for number, title in enumerate(titles_of(plan.runs))}
    folders = {title: each for title, each in folders.items() if stage_of(each) in (Stage.FINISHED, Stage.DAMAGED)}
    if not folders:
        raise ZooError(f"{folder}: no run of this sweep has finished yet")
    if left := len(plan.runs) - len(folders):
        print(f"{left} of {len(plan.runs)} runs of {folder} have not finished, and are left out", file=sys.stderr)
    return folders


def _title(folder: str) -> str:
    path = Path(folder)
    return path.parent.name if path.name == "results.nc" else path.name


def _differ_in_size(comparison: Comparison) -> bool:
    """Whether the results are of models that differ in size but explain the same data."""
    return comparison.comparable and comparison.table["parameters"].nunique() > 1


def print_criteria(comparison: Comparison, warnings: list[str], console: Console) -> None:
    """Criteria for the size of the model; `inference.comparison.criteria` defines the columns."""
    console.print("which size of model", style="bold", highlight=False)
    console.print(_table("result", comparison.table[list(COLUMNS)].dropna(axis=1, how="all")))
    console.print("best size by " + "; ".join(best_sizes(comparison.table)), highlight=False)
    for line in warnings:
        console.print(f"! {line}", highlight=False)


def print_problems(trees: Mapping[str, xr.DataTree], console: Console) -> None:
    """The failed diagnostics of every result, in the words of ``run``."""
    for name, tree in trees.items():
        for line in filter(None, str(tree.attrs.get("problems", "")).split("\n")):
            console.print(f"! {name}: {line}", style="bold red", highlight=False, markup=False)


def print_occupied(trees: Mapping[str, xr.DataTree], console: Console) -> None:
    """The posterior of the number of occupied components or states, unless every result is sure that all are occupied."""
    numbers = {name: number for name, tree in trees.items() if (number := occupied(tree)) is not None}
    if any(number.iloc[-1] < 1 for number in numbers.values()):
        what = holders(next(iter(trees.values())))
        console.print(f"number of {what}, with its posterior probability", style="bold", highlight=False)
        for name, number in numbers.items():
            console.print(f"{name}: {in_words(number)}", highlight=False, markup=False)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the table in parts of 80 columns, and the distances of the functionals from the reference."""
    of_models = comparison.table[ELPD_DIFFERENCE[0]].notna().any()  # then elpd has a separate table
    elpd = ["elpd", "se", *ELPD_DIFFERENCE, "k-hat"]
    quality = ["log joint", *([] if of_models else ["elpd", "se", "k-hat"]), "R-hat", "ESS", "ESS/s"]
    clock = ["compile s", "warmup s", "run s", "exit", "log evidence", "evidence se"]
    for columns in (quality, *([elpd] if of_models else []), clock):
        console.print(_table("result", comparison.table[columns].dropna(axis=1, how="all")))
    if comparison.table[list(HELD_OUT)].notna().any(axis=None):
        console.print("held-out rows, which no fit has seen", style="bold", highlight=False)
        console.print(_table("result", comparison.table[list(HELD_OUT)]))
        if comparison.table["log loss"].notna().any() and comparison.table["log loss diff"].isna().all():
            console.print("these results do not hold out the same rows, so there are no differences of log losses", style="dim")
    for note in comparison.notes:
        console.print(note, style="dim", highlight=False)
    if not comparison.comparable:
        console.print(
            "these models explain different things (all columns, or the label alone), so log joint, elpd and evidence only "
            "compare within one model. Across models, compare predictions of held-out rows: data.test_fraction=0.25",
            style="dim",
        )
    elif not comparison.one_model:
        console.print(
            "these models explain the same data: compare their elpd and log evidence, but not their log joints",
            style="dim",
        )
    if comparison.reference is None and not comparison.one_model:
        return
    if _differ_in_size(comparison):
        console.print(
            "models of different sizes have different posteriors; distances.csv has the distances of their functionals"
        )
        return
    if comparison.reference is None:
        console.print("none of these results is from a sampler: there is no posterior to measure distances from", style="dim")
        return
    base = comparison.reference
    console.print(f"functionals: (mean − mean of {base}) / posterior sd of {base}", style="bold", highlight=False)
    console.print(_table("functional", comparison.distances))


def print_costs(trees: Mapping[str, xr.DataTree], comparison: Comparison, console: Console) -> None:
    """What effective draws cost, where several results are of chains of one model."""
    frame = costs(trees if comparison.one_model else {}, comparison.reference)
    if len(frame) < 2:
        return
    number = frame.attrs["functionals"]
    console.print(f"effective draws and their cost; z: largest of {number} deviations of means", style="bold", highlight=False)
    console.print(_table("result", frame[list(COSTS)].dropna(axis=1, how="all")))


def _table(first: str, frame: pd.DataFrame) -> Table:
    table = Table(Column(first, overflow="fold"), box=None, pad_edge=False, header_style="bold")
    for column in frame:
        two_lines = column in HELD_OUT or column in ELPD_DIFFERENCE  # narrow: names need the room
        header = "\n".join(str(column).rsplit(" ", 1)) if two_lines else str(column)
        table.add_column(header, justify="right", overflow="fold")
    for label, *values in frame.itertuples():
        table.add_row(Text(str(label)), *map(_cell, map(str, frame), map(float, values)))
    return table


def _cell(column: str, value: float) -> str:
    if column in (
        "log joint",
        "elpd",
        "se",
        *ELPD_DIFFERENCE,
        "log evidence",
        "evidence se",
        "approx evidence",
        *SMALL,
        "ELBO",
        BOUND,
        "occupied",
        "held out",
    ):
        return "–" if value != value else f"{value:.2f}"
    if column in HELD_OUT:
        return "–" if value != value else f"{value:.4f}"
    if column in ("ESS", "ESS/s", "bulk ESS", "tail ESS", "ESS/s in all", "exit", "parameters"):
        return format_number(value, "ess_bulk")
    if column == "R-hat":
        return format_number(value, "r_hat")
    return "–" if value != value else f"{value:.2f}"
