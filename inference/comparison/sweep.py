"""The table of a sweep of several runs: its lines, the table as it is printed, and its picture."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inference.comparison.table import compare
from inference.runtime.files import write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURES = ("log joint", "BIC", "elpd", "seconds")  # columns of numbers
COLOURS = {"passed": "C0", "failed": "C3", "interrupted": "0.6"}  # by verdict
PATH = re.compile(r"^(data|model)\.path='(.*)'$")  # how the command line reads ``data=table.csv``,
OF_PATH = ("data=file", "model=program")  # in addition to these
LONGEST = 60  # characters of settings in a picture


def line_of(settings: str, tree: xr.DataTree, folder: Path) -> dict[str, Any]:
    """One run; ``log joint`` is that of the best start, or its mean over the draws.

    Of points there is ``BIC``, of draws ``elpd``; NaN where the other has none.
    """
    row = compare({"run": tree}).table.iloc[0]
    verdict = "interrupted" if tree.attrs["interrupted"] else "failed" if tree.attrs["exit_status"] else "passed"
    figures = {name: float(row[name]) for name in ("log joint", "BIC", "elpd")}
    seconds = float(sum(tree.attrs[f"{phase}_seconds"] for phase in ("compile", "warmup", "run")))
    return {"settings": settings, **figures, "verdict": verdict, "seconds": seconds, "folder": str(folder)}


def line_without_result(settings: str, verdict: str, folder: Path) -> dict[str, Any]:
    """A run that has no result: not accepted, ended by an error, or not begun."""
    return {
        "settings": settings,
        **dict.fromkeys(FIGURES[:-1], np.nan),
        "verdict": verdict,
        "seconds": np.nan,
        "folder": str(folder),
    }


def settings_of(overrides: Sequence[Sequence[str]]) -> list[str]:
    """The overrides that the runs of a sweep do not share, which tell them apart."""
    return [" ".join(each) for each in _varying_overrides(overrides)]


def titles_of(overrides: Sequence[Sequence[str]]) -> list[str]:
    """Names of the runs of a sweep, as `compare` gives them, and all different: where two are equal, with their numbers.

    >>> titles_of([["model=gmm", "method=em", "model.num_components=2"], ["model=gmm", "method=map", "model.num_components=2"]])
    ['em', 'map']
    """
    named = [" ".join(map(short_name, each)) for each in (_varying_overrides(overrides) if len(overrides) > 1 else [[]])]
    return [name if name and named.count(name) == 1 else f"{name} {number}".strip() for number, name in enumerate(named)]


def short_name(override: str) -> str:
    """An override, in short: of model and method the value alone, of options of the model no prefix."""
    key, _, value = override.partition("=")
    return value if key in ("model", "method") else f"{key.removeprefix('model.')}={value}"


def _varying_overrides(overrides: Sequence[Sequence[str]]) -> list[list[str]]:
    """The overrides of every run that not all runs have, as they were typed."""
    typed = [[PATH.sub(r"\1=\2", one) for one in each if one not in OF_PATH] for each in overrides]
    shared = set.intersection(*map(set, typed)) if len(typed) > 1 else set()
    return [[one for one in each if one not in shared] for each in typed]


def print_sweep(lines: Sequence[dict[str, Any]], console: Console) -> None:
    """Print the table in 80 columns; a column of figures that no run has is left out."""
    frame = pd.DataFrame(list(lines)).dropna(axis=1, how="all")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in frame:
        figures = name in FIGURES
        table.add_column(
            str(name), justify="right" if figures else "left", overflow="fold", no_wrap=figures or name == "verdict"
        )
    for line in frame.itertuples(index=False):
        table.add_row(*(Text(_cell(str(name), value)) for name, value in zip(frame, line, strict=True)))
    console.print("all runs of the sweep", style="bold", highlight=False)
    console.print(table)


def _cell(name: str, value: Any) -> str:
    if name not in FIGURES:
        return str(value)
    return "–" if value != value else f"{value:.{1 if name == 'seconds' else 2}f}"


def plot_sweep(lines: Sequence[dict[str, Any]], path: str | Path | None = None) -> "Figure":
    """A row for every run, a panel for every figure that a run has; the colour is the verdict.

    It is written to ``path`` if there is one.

    >>> figure = plot_sweep([line_of("seed=0", tree, Path("runs/0")), line_of("seed=1", other, Path("runs/1"))])
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    frame = pd.DataFrame(list(lines))
    shown = [name for name in FIGURES if frame[name].notna().any()]
    figure = Figure(figsize=(3.4 + 2.4 * len(shown), 1.3 + 0.26 * len(frame)), layout="constrained")
    panels = figure.subplots(1, max(len(shown), 1), sharey=True, squeeze=False)[0]
    for axis, name in zip(panels, shown, strict=False):
        _panel(axis, frame, name)
    panels[0].set_yticks(range(len(frame)), [_short(text) for text in frame["settings"]], fontsize=8)
    panels[0].invert_yaxis()
    verdicts = [verdict for verdict in COLOURS if (frame["verdict"] == verdict).any()]
    dots = [Line2D([], [], marker="o", ls="", color=COLOURS[verdict], label=verdict) for verdict in verdicts]
    figure.legend(handles=dots, loc="outside lower center", ncols=max(len(dots), 1), frameon=False, fontsize=8)
    if path is not None:
        write_figure(path, figure)
    return figure


def _panel(axis: "Axes", frame: pd.DataFrame, name: str) -> None:
    there = frame[frame[name].notna()]
    axis.scatter(there[name], there.index, c=[COLOURS[verdict] for verdict in there["verdict"]], s=22)
    axis.set_title(name, fontsize=9)
    axis.tick_params(axis="x", labelsize=7)
    axis.locator_params(axis="x", nbins=4)
    axis.grid(axis="y", color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
