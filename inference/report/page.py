"""``summary.csv``, and ``report.html``: one self-contained page with verdict, groups, pictures and tables."""

import base64
import html
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from inference.diagnostics.checks import trusted
from inference.predictions.clustering import SURE
from inference.report.columns import lines
from inference.report.groups import ASSIGNMENTS, CROSS_TABLE, assignments, cross_table, groups_of
from inference.report.numbers import format_number, in_print
from inference.report.reading import Reading, functionals_title
from inference.report.remarks import uncertain
from inference.results.table import data_of
from inference.results.tree import table_of
from inference.runtime.files import write, write_table
from inference.topics.summary import TITLE, topic_table

LISTED = 50  # uncertain rows on the page


def write_summary(reading: Reading, path: Path) -> None:
    """Write ``summary.csv``: functionals and parameters, one line per entry."""
    groups = {"functionals": reading.diagnosis.functionals, "parameters": reading.parameters}
    write_table(path, pd.concat(groups, names=["group", "name"]))


def write_groups(tree: xr.DataTree, folder: Path, numbers: np.ndarray | None = None) -> list[Path]:
    """Write ``assignments.csv`` and ``crosstab.csv``, those that the result has; returns their paths.

    ``numbers`` (N,) are those of the rows in the whole table, of which some may be held out. Neither is written where labels
    are not to be trusted: probabilities averaged over draws then mix different components.
    """
    if not trusted(tree):
        return []
    groups, crossed, written = groups_of(tree, numbers), cross_table(tree), []
    if groups is not None:
        write_table(folder / ASSIGNMENTS, assignments(groups), index=False, float_format="%.6g")
        written.append(folder / ASSIGNMENTS)
    if crossed is not None:
        write_table(folder / CROSS_TABLE, crossed)
        written.append(folder / CROSS_TABLE)
    return written


def write_report(tree: xr.DataTree, reading: Reading, path: Path, config: str, pictures: Sequence[Path] = ()) -> None:
    """Write ``report.html``: one self-contained page with the tables, the remarks and the given ``pictures``."""
    problems = "".join(f"<li class=problem>{html.escape(problem)}</li>" for problem in reading.diagnosis.problems)
    notes = "".join(f"<li>{html.escape(line)}</li>" for line in reading.remarks)
    # For an optimiser a table is enough: drawing traces would double the time of a short run.
    detail = f"<h2>Chains</h2>{_traces(tree)}" if "posterior" in tree else f"<h2>Starts</h2>{_html(_starts(tree))}"
    columns = f"<h2>Columns</h2>{_columns(tree)}" if "note_column" in table_of(tree) else ""
    crossed = reading.crossed
    labels = "" if crossed is None else f"<h2>Rows by {crossed.index.name} and label</h2>{_html(crossed)}"
    labelled = f"<h2>Parameters</h2>{_summary(reading.own)}" if len(reading.own) else ""
    shown = "".join(_image(file.read_bytes(), file.stem.replace("_", " ")) for file in pictures)
    title = html.escape(reading.title)
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title><style>{_STYLE}</style>"
        f"<h1>{title}</h1><p class={'problem' if problems else 'sound'}>{html.escape(reading.verdict)}</p><ul>{problems}</ul>"
        f"{_groups(tree, reading)}{labels}{_topics(tree)}{shown}{_uncertain(tree)}{labelled}"
        f"<h2>{functionals_title(tree).capitalize()}</h2>{_summary(reading.diagnosis.functionals)}"
        f"<h2>Remarks</h2><ul>{notes}</ul>{detail}{columns}<h2>Configuration</h2><pre>{html.escape(config)}</pre></html>"
    )
    write(path, page.encode())


_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}"
    "th:first-child,.words td:last-child{text-align:left}img{max-width:100%}"
    ".problem{color:#b00020;font-weight:600}.sound{color:#1b6e2c;font-weight:600}"
    "pre{background:#f6f6f6;padding:1rem}"
)


def _summary(frame: pd.DataFrame) -> str:
    return str(in_print(frame).to_html(border=0))


def _html(frame: pd.DataFrame) -> str:
    formatters: Any = {str(column): partial(format_number, column=str(column)) for column in frame.select_dtypes("number")}
    return str(frame.to_html(formatters=formatters, border=0, na_rep="–"))


def _groups(tree: xr.DataTree, reading: Reading) -> str:
    """The groups, their shares of the rows, and what sets them apart."""
    if len(reading.groups) < 2:
        return ""
    rows = [{"share": f"{group.share:.1%}", "what sets it apart": "; ".join(group.traits)} for group in reading.groups]
    table = pd.DataFrame(rows, index=[group.name for group in reading.groups])
    return f"<h2>Groups of {tree.attrs['row']}s</h2><div class=words>{table.to_html(border=0)}</div>"


def _topics(tree: xr.DataTree) -> str:
    """The topics with their most probable words."""
    found = topic_table(tree)
    return f"<h2>{TITLE.capitalize()}</h2><div class=words>{_html(found)}</div>" if len(found) else ""


def _columns(tree: xr.DataTree) -> str:
    """The columns of the table, including those left out."""
    return str(pd.DataFrame(lines(data_of(tree))).to_html(border=0, index=False))


def _starts(tree: xr.DataTree) -> pd.DataFrame:
    starts = tree["optimization"].to_dataset()[["final_objective", "iterations", "converged"]]
    return starts.to_dataframe().rename(columns={"final_objective": "value"})


def _traces(tree: xr.DataTree) -> str:
    """The scalar functionals chain by chain, as an inline image."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    functionals = tree["functionals"].to_dataset()
    names = [str(name) for name in functionals.data_vars if functionals[name].ndim == 2][:3]
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
        for chain in functionals[name].values:
            axis.plot(chain, lw=0.5, alpha=0.8)
        axis.set_title(name.replace("_", " "), fontsize=10)
        axis.set_xlabel("draw")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return _image(buffer.getvalue(), "traces of the functionals")


def _image(png: bytes, what: str) -> str:
    return f"<img alt='{what}' src='data:image/png;base64,{base64.b64encode(png).decode()}'>"


def _uncertain(tree: xr.DataTree) -> str:
    """The rows whose component is least certain, numbered from 1."""
    rows = uncertain(tree)
    if rows.empty:
        return ""
    more = f", the first {LISTED} of {len(rows)}" if len(rows) > LISTED else ""
    return f"<h2>Rows whose most probable {rows.columns[0]} is below {SURE:.0%}{more}</h2>{_html(rows.head(LISTED))}"
