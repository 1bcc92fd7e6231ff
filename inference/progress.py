"""What the user sees while a run goes on: the phase, how far, how long still, and how it is doing."""

import sys
from types import TracebackType
from typing import Protocol, Self


class Reporter(Protocol):
    """Where the driver reports to."""

    def phase(self, name: str, total: int | None) -> None:
        """A new phase begins; ``total`` steps, or unknown."""

    def update(self, done: int, note: str) -> None:
        """``done`` steps of the phase are finished; ``note`` says how it is doing."""


class Silent:
    """Reports nothing."""

    def phase(self, name: str, total: int | None) -> None:
        pass

    def update(self, done: int, note: str) -> None:
        pass


class Bar:
    """A live line on standard error: phase, bar, steps, time left, note. In a pipe, one line a phase."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        console = Console(file=sys.stderr)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._plain = not (console.is_terminal or console.is_jupyter)
        self._progress = Progress(*columns, console=console, disable=self._plain, transient=True)
        self._task = self._progress.add_task("", total=None, note="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def phase(self, name: str, total: int | None) -> None:
        if self._plain:
            print(name if total is None else f"{name} ({total} at most)", file=sys.stderr, flush=True)
        self._progress.reset(self._task, total=total, description=name, note="", start=True)

    def update(self, done: int, note: str) -> None:
        self._progress.update(self._task, completed=done, note=note)
