"""What a run prints, for a terminal of 80 columns: the verdict and the groups first, then parameters, then functionals."""

import textwrap
from collections.abc import Sequence

import pandas as pd
import xarray as xr
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from inference.report.groups import LABELS_SHOWN
from inference.report.numbers import in_print
from inference.report.reading import Reading, functionals_title, site_of
from inference.report.traits import Group
from inference.topics.summary import TITLE, topic_lines

SHOWN = 24  # parameters printed; all are in summary.csv
MOST_GROUPS = 20  # printed
WIDTH = 80


def print_result(tree: xr.DataTree, reading: Reading, console: Console) -> None:
    """Print a result: verdict, groups, topics, parameters, functionals, and what to know before reading them."""
    print_verdict(reading, console)
    print_groups(tree, reading.groups, console)
    _print_topics(console, tree)
    _print_cross_table(console, reading.crossed)
    title, shown = _fitting(tree, reading.own)
    if not shown.empty:
        _print_table(console, title, shown)
    _print_table(console, functionals_title(tree), reading.diagnosis.functionals)
    for line in reading.remarks:
        console.print(hanging("· ", line), highlight=False, markup=False)


def print_verdict(reading: Reading, console: Console) -> None:
    """Print what was fitted, and whether it can be trusted: all that a sweep prints of each run."""
    console.print(Text(reading.title, style="bold"), highlight=False)
    console.print(reading.verdict, style="bold red" if reading.diagnosis.problems else "green", highlight=False, markup=False)
    for problem in reading.diagnosis.problems:
        console.print(hanging("! ", problem), style="bold red", highlight=False, markup=False)


def print_groups(tree: xr.DataTree, groups: Sequence[Group], console: Console) -> None:
    """A line per group: name, share of the rows, and the means that set it apart, with those of all rows in brackets."""
    if len(groups) < 2:
        return
    apart = ", and what sets them apart" if any(group.traits for group in groups) else ""
    console.print(f"groups: share of the {tree.attrs['row']}s{apart}", style="bold", highlight=False, markup=False)
    widest = max(len(group.name) for group in groups)
    for group in groups[:MOST_GROUPS]:
        start = f"{group.name:<{widest}}  {group.share:>4.0%}  "
        console.print(hanging(start, "; ".join(group.traits)) or start, highlight=False, markup=False)
    if len(groups) > MOST_GROUPS:
        console.print(f"and {len(groups) - MOST_GROUPS} more groups", highlight=False)


def hanging(start: str, text: str) -> str:
    """``text`` after ``start``, in lines of `WIDTH` columns that are indented to where it begins."""
    indent = " " * len(start)
    return textwrap.fill(
        text, WIDTH, initial_indent=start, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _print_topics(console: Console, tree: xr.DataTree) -> None:
    found = topic_lines(tree)
    if found:
        console.print(f"{TITLE}; all: summary.csv", style="bold", highlight=False, markup=False)
    for line in found:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _print_cross_table(console: Console, found: pd.DataFrame | None) -> None:
    if found is None or len(found.columns) > LABELS_SHOWN:
        return
    table = Table(Column(str(found.index.name)), box=None, pad_edge=False)
    for label in found:
        table.add_column(Text(str(label)), justify="right", overflow="fold")
    for name, *counts in found.itertuples():
        table.add_row(Text(str(name)), *map(str, counts))
    console.print(f"rows by {found.index.name} and label", style="bold", highlight=False, markup=False)
    console.print(table)


def _fitting(tree: xr.DataTree, table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """(title, rows shown): as many whole sites as fit, the smallest first; summary.csv has all."""
    site = [site_of(label) for label in table.index]
    sizes = pd.Series(site).value_counts(sort=False)
    fitting = sizes.sort_values(kind="stable").cumsum() <= SHOWN
    shown = table[[bool(fitting[name]) for name in site]]
    hidden = ", ".join(f"{name} ({sizes[name]} entries)" for name in sizes.index if not fitting[name])
    title = "relabelled parameters" if "posterior_raw" in tree else "parameters"
    return title + (f"; in summary.csv: {hidden}" if hidden else ""), shown


def _print_table(console: Console, title: str, frame: pd.DataFrame) -> None:
    console.print(title, style="bold", highlight=False, markup=False)
    for line in table_lines(frame):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def table_lines(frame: pd.DataFrame, width: int = WIDTH) -> list[str]:
    """The rows of a summary in ``width`` columns, under their headings. A name that leaves no room has its own line."""
    shown = in_print(frame)
    rows = [list(shown.columns), *shown.values.tolist()]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    room = width - sum(widths) - 2 * len(widths)
    names = ["", *map(str, shown.index)]
    first = max(len(name) for name in names if len(name) <= room)
    lines = []
    for name, row in zip(names, rows, strict=True):
        numbers = "".join(f"  {cell:>{size}}" for cell, size in zip(row, widths, strict=True))
        lines += [f"{name:<{first}}{numbers}"] if len(name) <= room else [name, " " * first + numbers]
    return lines
