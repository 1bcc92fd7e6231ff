"""Measurement shared by all benchmarks: interleaved repetitions, medians, tables of 80 columns, targets."""

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

PACKAGES = ("jax", "numpyro", "numpy", "scikit-learn", "pymc", "nutpie", "arviz-stats")
CONSOLE = Console(width=80, highlight=False)
MOST_LOAD = 1.5  # load average before, above which no verdict is printed
MOST_BESIDE = 0.25  # the same of the cores that other processes used meanwhile
BUSY = (
    f"No verdict above a load of {MOST_LOAD} before, or {MOST_BESIDE} cores of other work meanwhile. Threads of a matrix "
    "library that wait for each other slow the peer more than the zoo."
)


class Target(NamedTuple):
    """One number that the benchmark must reach."""

    name: str
    value: float
    bound: float | None  # None where what can be reached depends on the device
    at_least: bool = True  # False: at most
    unit: str = "×"
    agreed: bool = True  # whether peer and zoo reached the same answer; otherwise the target is missed

    @property
    def met(self) -> bool:
        """Whether the value is on the right side of the bound, if there is one."""
        if self.bound is None:
            return self.agreed
        return self.agreed and (self.value >= self.bound if self.at_least else self.value <= self.bound)


class Load(NamedTuple):
    """How busy the machine was with other work: no measurement of a busy machine decides about a target."""

    before: float  # load average of the minute before
    beside: float  # cores that other processes used meanwhile, on average

    @property
    def quiet(self) -> bool:
        """Whether ratios can be trusted.

        >>> Load(before=0.3, beside=0.1).quiet, Load(before=0.3, beside=0.8).quiet
        (True, False)
        """
        return self.before <= MOST_LOAD and self.beside <= MOST_BESIDE

    def __str__(self) -> str:
        return f"load average before {self.before:.1f}; other processes used {self.beside:.1f} cores meanwhile"


def watched[T](run: Callable[[], T]) -> tuple[T, Load]:
    """What ``run`` returns, and how busy the machine was with other work."""
    before, clock, own = os.getloadavg()[0], time.perf_counter(), _own_seconds()
    psutil.cpu_percent()  # the next call says what was busy since this one
    result = run()
    busy = psutil.cpu_percent() / 100 * (psutil.cpu_count() or 1)
    others = busy - (_own_seconds() - own) / (time.perf_counter() - clock)
    return result, Load(before, max(0.0, others))


def _own_seconds() -> float:
    """Seconds that this process and its children have worked, those that have ended among them."""
    own = psutil.Process()
    alive = [child.cpu_times() for child in own.children(recursive=True)]
    return float(sum(own.cpu_times()[:4]) + sum(sum(times[:4]) for times in alive))


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
    CONSOLE.print(" · ".join(f"{package} {_version(package)}" for package in PACKAGES))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


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


def print_targets(targets: Sequence[Target], load: Load) -> None:
    """Every target: the value measured, the bound, met or missed; no verdict where the machine was busy."""
    CONSOLE.print(f"\n{load}")
    if not targets:
        return
    rows = []
    for target in targets:
        bound = "–" if target.bound is None else f"{'≥' if target.at_least else '≤'} {target.bound:g} {target.unit}"
        rows.append((target.name, f"{target.value:.2f} {target.unit}", bound, verdict(target, load)))
    print_table("Targets", ("target", "measured", "wanted", ""), rows, note="" if load.quiet else BUSY)


def verdict(target: Target, load: Load) -> str:
    """Whether a target is met, in words.

    >>> faster = Target("speed", value=3.0, bound=2.0)
    >>> verdict(faster, Load(0.0, 0.0)), verdict(faster, Load(4.0, 0.0)), verdict(faster._replace(agreed=False), Load(0.0, 0.0))
    ('met', 'no verdict', 'answers differ')
    """
    if not target.agreed:
        return "answers differ"
    if target.bound is None:
        return "answers agree"
    if not load.quiet:
        return "no verdict"
    return "met" if target.met else "missed"
