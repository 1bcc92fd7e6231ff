"""`inference.compare` from the shell: run or load several results of one data set, tabulate them, draw them."""

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
import xarray as xr
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from inference.comparison import HELD_OUT, Comparison, compare, plot, plot_held_out
from inference.config import choices, compose, entry_options, expand
from inference.occupancy import in_words, occupied
from inference.report import format_number, holders
from inference.results import load, save
from inference.runs import all_rows, build_model, execute, prepare_jax
from inference.selection import COLUMNS, SMALL, alarms, best_sizes, model_warnings, plot_criteria
from models.data import ZooError, exists


def compare_runs(arguments: list[str]) -> int:
    """Run every combination of the comma lists, or load the run folders given; the largest exit code of all."""
    folders = [argument for argument in arguments if "=" not in argument or exists(argument)]
    given = dict(argument.split("=", 1) for argument in arguments if argument not in folders)
    if folders:
        unknown = set(given) - {"out", "reference"}
        if unknown:
            raise ZooError(f"{min(unknown)}= does not go with run folders: they are compared as they are")
        trees = {_title(folder): load(folder) for folder in folders}
        if len(trees) < len(folders):
            raise ZooError("two of the run folders have the same name: rename one")
        target = Path(given["out"]) if "out" in given else None
    else:
        own = [a for a in arguments if not a.startswith(("reference=", "out=", "evidence="))]
        if given.get("evidence", "false") not in ("true", "false"):
            raise ZooError(f"evidence must be true or false, got {given['evidence']!r}")
        target = Path(given.get("out") or Path("runs") / time.strftime("compare-%Y%m%d-%H%M%S"))
        trees = _run_all(own, target, evidence=given.get("evidence") == "true")
    comparison = compare(trees, given.get("reference"))
    if target is not None:
        target.mkdir(parents=True, exist_ok=True)
        comparison.table.to_csv(target / "comparison.csv", index_label="result")
        comparison.distances.to_csv(target / "distances.csv", index_label="functional")
    print_comparison(comparison, Console())
    if _differ_in_size(comparison):
        print_criteria(comparison, [*alarms(trees), *model_warnings(trees)], Console())
    print_occupied(trees, Console())
    if target is not None:
        matplotlib.use("Agg")
        names = "comparison.csv, distances.csv"
        if comparison.reference is not None or comparison.one_model:
            plot(trees, target / "comparison.png", comparison.reference)
            names += ", comparison.png"
        elif comparison.table["log loss"].notna().any():
            plot_held_out(comparison.table, target / "comparison.png")
            names += ", comparison.png"
        if _differ_in_size(comparison):
            plot_criteria(
                comparison.table, {name: str(tree.attrs["method"]) for name, tree in trees.items()}, target / "criteria.png"
            )
            names += ", criteria.png"
        print(f"results in {target}: {names}")
    return max(int(tree.attrs["exit_status"]) for tree in trees.values())


def _run_all(arguments: list[str], target: Path, evidence: bool) -> dict[str, xr.DataTree]:
    """Each result goes to a folder of its own below ``target`` before the next one starts.

    With ``evidence``, that of every model is estimated once, and kept with all its results that do not know it exactly.
    """
    combinations = expand(arguments, sweep=True)
    shared = set.intersection(*map(set, combinations))
    plans = []
    for combination in combinations:
        pieces = [override.split("=", 1) for override in combination if override not in shared]
        named = (value if key in ("model", "method") else f"{key.removeprefix('model.')}={value}" for key, value in pieces)
        title = " ".join(named)
        plans.append((title or "run", compose(_relevant(_on_one_data_set(combination, combinations[0])))))
    if any(config["data"] != plans[0][1]["data"] for _, config in plans):
        raise ZooError("compare is for results of the same data: give one data=, or sweep over several with inference.run -m")
    for _, config in plans:
        prepare_jax(config)
    if evidence:
        for config in {repr((config["model"], config["data"])): config for _, config in plans}.values():
            _check_evidence(config)
    trees: dict[str, xr.DataTree] = {}
    known: dict[str, dict[str, float]] = {}
    for index, (title, config) in enumerate(plans):
        print(f"── {index + 1} of {len(plans)}: {title}", file=sys.stderr)
        config["out"] = str(target / re.sub(r"[^\w.-]+", "_", title).strip("_"))
        trees[title], folder = execute(config, show_columns=index == 0)
        if trees[title].attrs["interrupted"]:
            break
        if evidence and "log_evidence" not in trees[title].attrs:
            described = repr((config["model"], config["data"], config["seed"]))
            if described not in known:
                known[described] = _evidence(config)
            trees[title].attrs |= known[described]
            save(trees[title], folder / "results.nc")
    return trees


def _evidence(config: dict[str, Any]) -> dict[str, float]:
    """The evidence of the configuration's model on its training rows, estimated, as attributes of a result."""
    from inference.evidence import log_evidence

    _, data, _ = all_rows(config)
    found = log_evidence(build_model(config["model"], data)[0], data, seed=config["seed"])
    return {"log_evidence_estimate": found.log_evidence, "log_evidence_se": found.standard_error}


def _check_evidence(config: dict[str, Any]) -> None:
    """A `ZooError` for a model whose evidence cannot be estimated, before anything runs."""
    from inference.evidence import evidence_task

    if config["model"]["name"] == "program":
        raise ZooError("evidence=true needs a model of the zoo: that of a program is not estimated")
    _, data, _ = all_rows(config)
    evidence_task(build_model(config["model"], data)[0], data, config["seed"])


def _on_one_data_set(overrides: list[str], first: list[str]) -> list[str]:
    """With the data set of the first result, where several models are compared on data that was not named."""
    if any(o.startswith("data=") for o in overrides):
        return overrides
    return [f"data={compose(_relevant(first))['data']['name']}", *overrides]


def _relevant(overrides: list[str]) -> list[str]:
    """Without the options of other methods and models: ``num_samples=500`` goes to those that draw."""
    for group, prefix, usual in (("method", "", "nuts"), ("model", "model.", "gmm")):
        chosen = next((o.split("=", 1)[1] for o in overrides if o.startswith(f"{group}=")), usual)
        options = {name: {prefix + option for option in entry_options(group, name)} for name in choices(group)}
        foreign = set().union(*options.values()) - options.get(chosen, set())
        overrides = [o for o in overrides if o.split("=", 1)[0] not in foreign]
    return overrides


def _title(folder: str) -> str:
    path = Path(folder)
    return path.parent.name if path.name == "results.nc" else path.name


def _differ_in_size(comparison: Comparison) -> bool:
    """Whether the results are of models of several sizes that explain the same."""
    return comparison.comparable and comparison.table["parameters"].nunique() > 1


def print_criteria(comparison: Comparison, warnings: list[str], console: Console) -> None:
    """What says how large the model should be; `inference.selection` defines the columns."""
    console.print("how large a model", style="bold", highlight=False)
    console.print(_table("result", comparison.table[list(COLUMNS)].dropna(axis=1, how="all")))
    console.print("best by " + "; ".join(best_sizes(comparison.table)), highlight=False)
    for line in warnings:
        console.print(f"! {line}", highlight=False)


def print_occupied(trees: Mapping[str, xr.DataTree], console: Console) -> None:
    """The posterior of the number of occupied components, or states, where some result is not sure that all are."""
    found = {name: number for name, tree in trees.items() if (number := occupied(tree)) is not None}
    if any(number.iloc[-1] < 1 for number in found.values()):
        what = holders(next(iter(trees.values())))
        console.print(f"{what}, with their posterior probability", style="bold", highlight=False)
        for name, number in found.items():
            console.print(f"{name}: {in_words(number)}", highlight=False, markup=False)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """The table in two halves of 80 columns, and the distances of the functionals from the reference."""
    quality, clock = (
        ["log joint", "elpd", "se", "k-hat", "R-hat", "ESS", "ESS/s"],
        ["compile s", "warmup s", "run s", "exit", "log evidence", "evidence se"],
    )
    console.print(_table("result", comparison.table[quality]))
    console.print(_table("result", comparison.table[clock]))
    if comparison.table[list(HELD_OUT)].notna().any(axis=None):
        console.print("rows held out, which no model has seen", style="bold", highlight=False)
        console.print(_table("result", comparison.table[list(HELD_OUT)]))
        if comparison.table["log loss"].notna().any() and comparison.table["log loss diff"].isna().all():
            console.print("not all of these results hold the same rows held out: log losses have no differences", style="dim")
    for note in comparison.notes:
        console.print(note, style="dim", highlight=False)
    if not comparison.comparable:
        console.print(
            "log joint, elpd and evidence are of what each model explains (all columns, or the label alone): they compare "
            "within a model. Across models, compare rows held out: data.test_fraction=0.25",
            style="dim",
        )
    elif not comparison.one_model:
        console.print(
            "these models explain the same, so that elpd and log evidence compare; each has a log joint of its own",
            style="dim",
        )
    if comparison.reference is None and not comparison.one_model:
        return
    if _differ_in_size(comparison):
        console.print(
            "models of different sizes have different posteriors: distances.csv has how far their functionals are apart"
        )
        return
    if comparison.reference is None:
        console.print("no sampler among the results, so there is no posterior to measure distances from", style="dim")
        return
    console.print(f"functionals: (mean − mean of {comparison.reference}) / its posterior sd", style="bold", highlight=False)
    console.print(_table("functional", comparison.distances))


def _table(first: str, frame: pd.DataFrame) -> Table:
    table = Table(Column(first, overflow="fold"), box=None, pad_edge=False, header_style="bold")
    for column in frame:
        header = "\n".join(str(column).rsplit(" ", 1)) if column in HELD_OUT else str(column)  # narrow: names need the room
        table.add_column(header, justify="right", overflow="fold")
    for label, *values in frame.itertuples():
        table.add_row(Text(str(label)), *map(_cell, map(str, frame), map(float, values)))
    return table


def _cell(column: str, value: float) -> str:
    if column in (
        "log joint",
        "elpd",
        "se",
        "log evidence",
        "evidence se",
        "approx evidence",
        *SMALL,
        "ELBO",
        "occupied",
        "held out",
    ):
        return "–" if value != value else f"{value:.2f}"
    if column in HELD_OUT:
        return "–" if value != value else f"{value:.4f}"
    if column in ("ESS", "ESS/s", "exit", "parameters"):
        return format_number(value, "ess_bulk")
    if column == "R-hat":
        return format_number(value, "r_hat")
    return "–" if value != value else f"{value:.2f}"
