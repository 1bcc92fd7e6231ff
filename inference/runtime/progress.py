"""The display of a run: the phase, the progress, the time left, a note, and a line for every chain."""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TextIO

import numpy as np

from inference.runtime.formats.texts import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MOST_CHAINS = 16  # that have a line: more would scroll off the screen


class Watch(NamedTuple):
    """The figures of the chains that a method displays while they run.

    ``words`` makes the note from the newest record, whose leaves have a leading axis of chains. Each column of ``newest`` is a
    figure (chain,) of that record. Each column of ``totals`` takes records (chain, step, …) to counts (chain, step), which are
    summed since this process began the phase, or went on with it.
    """

    words: Callable[[Any], str] = lambda record: ""
    newest: Mapping[str, Callable[[Any], np.ndarray]] = {}
    totals: Mapping[str, Callable[[Any], np.ndarray]] = {}


def console(file: TextIO | None = None) -> "Console":
    """Where everything is printed: text as it is, so that no [name] or :name: in a path or a column is taken for markup.

    Nor is a control character in a name sent to the terminal: a mark stands in its place (`inference.runtime.formats.texts`).
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Plain(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            """The text about to be printed; ``control`` segments are those of rich."""
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=visible(segment.text))

        def on_broken_pipe(self) -> None:
            """Raise a broken pipe to the caller, where rich would end the process."""
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    return Plain(file=file, markup=False, emoji=False, highlight=False)


SILENT = Watch()  # shows no figure


class Reporter(Protocol):
    """The receiver of the driver's reports."""

    def phase(self, name: str, total: int | None) -> None:
        """A new phase begins; ``total`` steps, or unknown."""

    def update(self, done: int, note: str, chains: Mapping[str, Sequence[str]]) -> None:
        """``done`` steps of the phase are finished; ``note`` has a figure such as the log joint; ``chains`` has columns."""


class Silent:
    """Reports nothing."""

    def phase(self, name: str, total: int | None) -> None:
        pass

    def update(self, done: int, note: str, chains: Mapping[str, Sequence[str]]) -> None:
        pass


class Bar:
    """A live line on standard error: phase, bar, steps, time left, note; below it a line for every chain.

    In a pipe, and in a notebook without widgets, there is one line per phase.
    """

    def __init__(self) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        screen = console(sys.stderr)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        in_notebook = screen.is_jupyter and find_spec("ipywidgets") is not None
        self._plain = not (in_notebook or (screen.is_terminal and not screen.is_jupyter))
        self._progress = Progress(*columns, console=screen, disable=self._plain)
        self._task = self._progress.add_task("", total=None, note="")
        self._chains: Mapping[str, Sequence[str]] = {}
        self._done, self._first, self._began = 0, 0, 0.0
        self._live = Live(console=screen, transient=True, get_renderable=self._shown)

    def _shown(self) -> "Table":
        from rich.table import Table

        whole = Table.grid()
        whole.add_row(self._progress.get_renderable())
        number = len(next(iter(self._chains.values()), ()))
        if number:
            rate = (self._done - self._first) / max(time.perf_counter() - self._began, 1e-9)
            whole.add_row(chain_table({"steps": [str(self._done)] * number} | dict(self._chains), rate))
        return whole

    def __enter__(self) -> Self:
        if not self._plain:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._plain:
            self._live.stop()

    def phase(self, name: str, total: int | None) -> None:
        if self._plain:
            print(name if total is None else f"{name} ({total} at most)", file=sys.stderr, flush=True)
        self._chains, self._done = {}, 0
        self._progress.reset(self._task, total=total, description=name, note="", start=True)

    def update(self, done: int, note: str, chains: Mapping[str, Sequence[str]]) -> None:
        if not self._done:  # a resumed phase has steps of an earlier process, and the first ones wait for the cache
            self._first, self._began = done, time.perf_counter()
        self._chains, self._done = chains, done
        self._progress.update(self._task, completed=done, note=note)


def chain_table(chains: Mapping[str, Sequence[str]], rate: float) -> "Table":
    """One line for every chain, with the steps that each takes in a second."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("chain", *chains, "steps/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for number, cells in enumerate(list(zip(*chains.values(), strict=True))[:MOST_CHAINS]):
        table.add_row(str(number), *cells, "" if not rate else f"{rate:.3g}" if rate < 1000 else f"{rate:.0f}")
    return table


class Counted:
    """The columns of a `Watch` over the chunks of one phase."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._totals: dict[str, np.ndarray] = {}

    def columns(self, records: Any, newest: Any) -> dict[str, list[str]]:
        """Texts of every column, (chain,) each, after a chunk of ``records`` (chain, step, …) whose last one is ``newest``."""
        for name, count in self._watch.totals.items():
            self._totals[name] = self._totals.get(name, 0) + np.asarray(count(records)).sum(axis=1)
        columns_of = {name: [f"{total:.0f}" for total in totals] for name, totals in self._totals.items()}
        newest_values = {name: np.asarray(of(newest)).tolist() for name, of in self._watch.newest.items()}
        return columns_of | {name: [figure(value) for value in values] for name, values in newest_values.items()}


def figure(value: float) -> str:
    """A number for display: whole, or with two decimals if it is large, or with three digits."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.2f}" if abs(value) >= 100 else f"{value:.3g}"
