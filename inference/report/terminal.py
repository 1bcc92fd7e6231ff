"""The printed result, for a terminal of 80 columns: the verdict and the groups first, then parameters, then functionals."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd
import xarray as xr
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from inference.report.groups import LABELS_SHOWN, is_stepwise
from inference.report.numbers import printed_columns
from inference.report.reading import ResultView, functionals_title, site_of
from inference.report.traits import GroupTraits
from inference.topics.summary import TITLE, topic_lines

SHOWN = 24  # parameters printed; all are in summary.csv
FEW = 8  # of them
OF_PAIRS = ("co_clustering", "co_occurrence")  # functionals of some pairs of rows, steps or documents
MOST_GROUPS = 20  # printed
WIDTH = 80


def print_result(tree: xr.DataTree, reading: ResultView, console: Console) -> None:
    """Print a result: verdict, groups, topics, parameters, functionals, and remarks before them."""
    print_verdict(reading, console)
    print_groups(tree, reading.groups, console)
    _print_topics(console, tree)
    _print_cross_table(console, reading.crossed)
    title, shown = _fitting(tree, reading.shown)
    if not shown.empty:
        _print_table(console, title, shown)
    hidden, functionals = _without_pairs(reading.diagnosis.functionals)
    _print_table(console, functionals_title(tree) + hidden, functionals)
    for line in reading.remarks:
        console.print(hanging("· ", line), highlight=False, markup=False)


def print_verdict(reading: ResultView, console: Console) -> None:
    """Print what was fitted, and whether it can be trusted: all that a sweep prints of each run."""
    console.print(Text(reading.title, style="bold"), highlight=False)
    style = "bold red" if reading.diagnosis.problems else "yellow" if reading.diagnosis.interrupted else "green"
    console.print(reading.verdict, style=style, highlight=False, markup=False)
    for problem in reading.diagnosis.problems:
        console.print(hanging("! ", problem), style="bold red", highlight=False, markup=False)
    if reading.diagnosis.explained:
        console.print(hanging("  ", reading.diagnosis.explained), highlight=False, markup=False)


def print_groups(tree: xr.DataTree, groups: Sequence[GroupTraits], console: Console) -> None:
    """A line per group: name, share of the rows, and the means that set it apart, with those of all rows in brackets."""
    if len(groups) < 2:
        return
    apart = ", and what sets them apart" if any(group.traits for group in groups) else ""
    unit = "step" if is_stepwise(tree) else tree.attrs["row"]
    console.print(f"groups: share of the {unit}s{apart}", style="bold", highlight=False, markup=False)
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
    lines = topic_lines(tree)
    if lines:
        console.print(f"{TITLE}; all: summary.csv", style="bold", highlight=False, markup=False)
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _print_cross_table(console: Console, table_of_counts: pd.DataFrame | None) -> None:
    if table_of_counts is None or len(table_of_counts.columns) > LABELS_SHOWN:
        return
    table = Table(Column(str(table_of_counts.index.name)), box=None, pad_edge=False)
    for label in table_of_counts:
        table.add_column(Text(str(label)), justify="right", overflow="fold")
    for name, *counts in table_of_counts.itertuples():
        table.add_row(Text(str(name)), *map(str, counts))
    console.print(f"rows by {table_of_counts.index.name} and label", style="bold", highlight=False, markup=False)
    console.print(table)


def _fitting(tree: xr.DataTree, table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """(title, rows shown): as many whole sites as fit, the smallest first; summary.csv has all.

    Where these are few, the first entries of the next site follow: the means of many groups, after their shares.
    """
    site = pd.Series([site_of(label) for label in table.index], dtype=str)
    sizes = site.value_counts(sort=False)
    ordered = sizes.sort_values(kind="stable")
    fitting = ordered.where(ordered.cumsum() <= SHOWN, 0)
    taken = {str(name): int(number) for name, number in fitting.items()}
    hidden = [name for name, number in taken.items() if not number]
    if hidden and sum(taken.values()) < FEW:
        taken[hidden[0]] = SHOWN - sum(taken.values())
    shown = table[[number < taken[name] for name, number in zip(site, site.groupby(site).cumcount(), strict=True)]]
    title = "relabelled parameters" if "posterior_raw" in tree else "parameters"
    return title + _elsewhere({name: sizes[name] - taken[name] for name in map(str, sizes.index)}, taken), shown


def _elsewhere(left: Mapping[str, int], taken: Mapping[str, int]) -> str:
    """The part of a title on entries that are not printed."""
    hidden = [
        f"{name} ({number}{' more' if taken[name] else ''} {'entry' if number == 1 else 'entries'})"
        for name, number in left.items()
        if number
    ]
    return f"; in summary.csv: {', '.join(hidden)}" if hidden else ""


def _without_pairs(table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """(part of the title, rows shown): without some pairs of rows, which only tell whether chains agree, if others remain."""
    of_pairs = [label for label in table.index if site_of(label) in OF_PAIRS]
    if len(of_pairs) == len(table):
        return "", table
    return _elsewhere(Counter(map(site_of, of_pairs)), Counter()), table.drop(index=of_pairs)


def _print_table(console: Console, title: str, frame: pd.DataFrame) -> None:
    console.print(title, style="bold", highlight=False, markup=False)
    for line in table_lines(frame):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def table_lines(frame: pd.DataFrame, width: int = WIDTH) -> list[str]:
    """The rows of a summary in ``width`` columns, under their headings. A name that leaves no room has a separate line."""
    shown = printed_columns(frame)
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
