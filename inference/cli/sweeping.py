"""A sweep of several runs (`inference.run -m`): one table at its end, and ``sweep.csv`` in its folder."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inference.cli.run_folder import held
from inference.comparison.table import compare
from inference.runtime.files import write_table
from models.errors import ZooError

TABLE = "sweep.csv"
FIGURES = ("log joint", "BIC", "elpd", "seconds")  # columns of numbers


def folder_of(configs: Sequence[dict[str, Any]]) -> Path | None:
    """The folder of a sweep, where ``out=`` names one. Raises `ZooError` if it holds the table of another sweep."""
    named = {config["out"] for config in configs}
    if len(named) > 1 or None in named:
        return None
    folder = Path(named.pop())
    if os.path.lexists(folder / TABLE):
        raise ZooError(f"out={folder} holds a {TABLE} of another sweep; choose another folder")
    return folder


def line_of(settings: str, tree: xr.DataTree, folder: Path) -> dict[str, Any]:
    """What a sweep says of one run; ``log joint`` is that of the best start, or its mean over the draws.

    Of points there is ``BIC``, of draws ``elpd``; NaN where the other has none.
    """
    found = compare({"run": tree}).table.iloc[0]
    verdict = "interrupted" if tree.attrs["interrupted"] else "failed" if tree.attrs["exit_status"] else "passed"
    return {
        "settings": settings,
        "log joint": float(found["log joint"]),
        "BIC": float(found["BIC"]),
        "elpd": float(found["elpd"]),
        "verdict": verdict,
        "seconds": float(sum(tree.attrs[f"{phase}_seconds"] for phase in ("compile", "warmup", "run"))),
        "folder": str(folder),
    }


def settings_of(overrides: Sequence[Sequence[str]]) -> list[str]:
    """What tells the runs of a sweep apart: the overrides that they do not share."""
    shared = set.intersection(*map(set, overrides)) if len(overrides) > 1 else set()
    return [" ".join(one for one in each if one not in shared) for each in overrides]


def write_sweep(lines: Sequence[dict[str, Any]], folder: Path | None) -> Path:
    """Write ``sweep.csv``, into a folder of its own where the sweep has none; returns its path."""
    with held(folder or Path("runs") / time.strftime("sweep-%Y%m%d-%H%M%S"), fresh=folder is None) as place:
        write_table(place / TABLE, pd.DataFrame(list(lines)), index=False)
        return place / TABLE


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
