"""Measurement shared by all benchmarks: interleaved repetitions, medians, tables of 80 columns, targets."""

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

PACKAGES = ("jax", "numpyro", "numpy", "scikit-learn", "pymc", "nutpie", "arviz-stats")
CONSOLE = Console(width=80, highlight=False)


class Target(NamedTuple):
    """One number that the benchmark must reach."""

    name: str
    value: float
    bound: float
    at_least: bool = True  # False: at most
    unit: str = "×"
    agreed: bool = True  # whether peer and zoo reached the same answer; otherwise the target is missed

    @property
    def met(self) -> bool:
        """Whether the value is on the right side of the bound."""
        return self.agreed and (self.value >= self.bound if self.at_least else self.value <= self.bound)


def interleave[T](runs: Mapping[str, Callable[[int], T]], repeats: int) -> dict[str, list[T]]:
    """Results of every run by name, ``repeats`` times in turn, every second round in reverse order.

    Each run gets the number of the round. Taking turns spreads a slow minute of the machine over all of them.
    """
    results: dict[str, list[T]] = {name: [] for name in runs}
    for index in range(repeats):
        for name in list(runs)[:: 1 if index % 2 == 0 else -1]:
            results[name].append(runs[name](index))
    return results


def median(values: Iterable[float]) -> float:
    """The median as a Python number."""
    return float(np.median(list(values)))


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean as a Python number."""
    return float(np.exp(np.mean(np.log(list(values)))))


def seconds(values: Sequence[float]) -> str:
    """Median and range of repeated timings: ``1.23 (1.20-1.31)``."""
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def print_header() -> None:
    """Machine, versions and date: what every ratio depends on."""
    cores = len(os.sched_getaffinity(0))
    python = platform.python_version()
    CONSOLE.print(f"{time.strftime('%Y-%m-%d %H:%M')} · {platform.machine()}, {cores} cores · Python {python}")
    CONSOLE.print(" · ".join(f"{package} {version(package)}" for package in PACKAGES))
    load = os.getloadavg()[0]
    if load > 0.5:
        busy = f"load average {load:.1f}: other work shares the cores, so do not trust the ratios."
        CONSOLE.print(f"{busy} Threads of a matrix library that wait for each other slow the peer more than the zoo.")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> None:
    """One table in 80 columns: the first column is text, the others are numbers; ``note`` says what was measured."""
    table = Table(pad_edge=False, box=None)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    CONSOLE.print(f"\n[bold]{title}[/bold]")
    CONSOLE.print(table)
    if note:
        CONSOLE.print(note, style="dim")


def print_targets(targets: Sequence[Target]) -> None:
    """Every target: the value measured, the bound, met or missed."""
    if not targets:
        return
    rows = []
    for target in targets:
        bound = f"{'≥' if target.at_least else '≤'} {target.bound:g} {target.unit}"
        verdict = "met" if target.met else "missed" if target.agreed else "answers differ"
        rows.append((target.name, f"{target.value:.2f} {target.unit}", bound, verdict))
    print_table("Targets", ("target", "measured", "wanted", ""), rows)
