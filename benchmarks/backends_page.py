"""The page and the picture of `benchmarks.backends`, made from the tables that it has kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parents[1] / "docs" / "backends"
PAGE = FOLDER.parent / "sampler_costs.md"
ABOUT = """# What effective draws cost, by sampler

Seven samplers of one posterior, model by model: do they agree, and what does an effective draw cost? Each sampler ran once, at
its defaults, in a process with empty caches. This page is made by `uv run python -m benchmarks backends`, and
`uv run python -m benchmarks backends hmm` measures one model anew.

- **ESS** is the bulk effective sample size of the functional that mixes worst. It counts all chains: 64 of `chees`, and 4 of
  the others. That of `smc` is of its particles, which are no chain.
- **z** is the largest deviation of a mean from that of `nuts`, over its Monte Carlo error. Where it is beyond 4, both ran again
  with other random numbers and four times the draws, and the second figure is that of the second run.
- **grad/ESS** is the number of gradients behind an effective draw.
- **log evidence** is by bridge sampling in the line of `nuts`, and by the method itself in that of `smc`.
- **exit** is 3 where diagnostics of the sampler found a problem. Its other figures then are those of draws that it warns of.

A line of dashes stands for a sampler that did not end in five minutes. [One posterior, many samplers](how_to/backends.md) asks
the same of your own table.
"""
COLUMNS = ("bulk ESS", "tail ESS", "ESS/s", "ESS/s in all", "grad/ESS")


class Task(NamedTuple):
    """The data set of a model, with its options and those of the model."""

    data: str
    data_options: Mapping[str, Any]
    options: Mapping[str, Any] = {}


def write_page(tasks: Mapping[str, Task]) -> None:
    """Writes page and picture from the tables in `FOLDER`; models without one are left out."""
    devices = {path.stem.rpartition("-")[2] for path in FOLDER.glob("*.csv")}
    parts = [ABOUT]
    for device in sorted(devices):
        paths = {model: FOLDER / f"{model}-{device}.csv" for model in tasks}
        tables = {model: pd.read_csv(path, index_col="sampler") for model, path in paths.items() if path.exists()}
        parts += [f"## In short, on a {device.upper()}\n", *_summary(tables, picture := f"sampler_costs_{device}.svg")]
        if missing := [f"`{model}`" for model in tasks if model not in tables]:
            parts.append(f"Not measured yet: {', '.join(missing)}.\n")
        draw(tables).savefig(PAGE.with_name(picture), metadata={"Date": None})
        parts += [_section(model, tasks[model], device, table) for model, table in tables.items()]
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def _summary(tables: Mapping[str, pd.DataFrame], picture: str) -> list[str]:
    """Effective draws a second of all models and samplers, without and with compilation."""
    parts = [f"![Effective draws a second]({picture})\n"]
    for column, title in (("ESS/s", "without compilation"), ("ESS/s in all", "with compilation")):
        whole = pd.DataFrame({model: _marked(table, column) for model, table in tables.items()}).T
        parts += [
            f"Effective draws a second, {title}; †: the diagnostics of the run found a problem.\n",
            _markdown(whole, "model"),
        ]
    return parts


def _marked(table: pd.DataFrame, column: str) -> pd.Series:
    """A column in words, with a mark where the exit status is not 0."""
    return table[column].map(_number) + table["exit"].map(lambda status: " †" if status > 0 else "")


def _section(model: str, task: Task, device: str, table: pd.DataFrame) -> str:
    given = {f"data.{name}": value for name, value in task.data_options.items()}
    given |= {f"model.{name}": value for name, value in task.options.items()}
    words = " ".join([f"model={model}", f"data={task.data}", *(f"{name}={value}" for name, value in given.items())])
    shown = table[list(COLUMNS)].map(_number)
    again = table["z again"].map(lambda z: "" if np.isnan(z) else f", {z:.2f}")
    shown["z"] = table["z"].map(lambda z: "–" if np.isnan(z) else f"{z:.2f}") + again
    shown["compile s"] = table["compile s"].map(_number)
    shown["log evidence"] = [_with_error(*pair) for pair in zip(table["log evidence"], table["error"], strict=True)]
    shown["exit"] = table["exit"].map(lambda status: "–" if np.isnan(status) else f"{status:.0f}")
    return f"### {model}, {device}, {table['measured'].dropna().iloc[0]}\n\n`{words}`\n\n{_markdown(shown, 'sampler')}"


def _number(value: float) -> str:
    """Three digits, or a dash.

    >>> _number(1234.5), _number(0.01234), _number(float("nan"))
    ('1,230', '0.0123', '–')
    """
    if np.isnan(value):
        return "–"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def _with_error(value: float, error: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.2f}" if np.isnan(error) else f"{value:.2f} ± {error:.2f}"


def _markdown(table: pd.DataFrame, first: str) -> str:
    lines = ["| " + " | ".join([first, *table.columns]) + " |", "|---" + "|---:" * table.shape[1] + "|"]
    lines += ["| " + " | ".join([f"`{name}`", *row]) + " |" for name, row in zip(table.index, table.to_numpy(), strict=True)]
    return "\n".join(lines) + "\n"


def draw(tables: Mapping[str, pd.DataFrame]) -> Any:
    """A row for each model and a mark for each sampler: effective draws a second without and with compilation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.4 + 0.36 * len(tables)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True, squeeze=False)[0]
    samplers = list(next(iter(tables.values())).index)
    place = np.arange(len(tables))[::-1]
    for axis, (column, title) in zip(
        panels, (("ESS/s", "without compilation"), ("ESS/s in all", "with compilation")), strict=True
    ):
        for number, sampler in enumerate(samplers):
            rates = [table[column].get(sampler, np.nan) for table in tables.values()]
            axis.plot(rates, place, "osDv^Pd"[number], color=f"C{number}", alpha=0.8, label=sampler)
        axis.set(xscale="log", xlabel=f"effective draws a second, {title}", yticks=place, yticklabels=list(tables))
        axis.grid(axis="y", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), ncols=len(samplers), loc="outside upper center", frameon=False)
    return figure
