"""What the user sees while a run goes on: the phase, the progress, the time left, and a note."""

import errno
import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def console(file: TextIO | None = None) -> "Console":
    """Where everything is printed: text as it is, so that no [name] or :name: in a path or a column is taken for markup."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            """Let whoever called say that nobody reads on, where rich would end the process."""
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    return Plain(file=file, markup=False, emoji=False, highlight=False)


class Reporter(Protocol):
    """Where the driver reports to."""

    def phase(self, name: str, total: int | None) -> None:
        """A new phase begins; ``total`` steps, or unknown."""

    def update(self, done: int, note: str) -> None:
        """``done`` steps of the phase are finished; ``note`` has a figure such as the log joint."""


class Silent:
    """Reports nothing."""

    def phase(self, name: str, total: int | None) -> None:
        pass

    def update(self, done: int, note: str) -> None:
        pass


class Bar:
    """A live line on standard error: phase, bar, steps, time left, note. In a pipe, one line per phase."""

    def __init__(self) -> None:
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
        self._plain = not (screen.is_terminal or screen.is_jupyter)
        self._progress = Progress(*columns, console=screen, disable=self._plain, transient=True)
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
