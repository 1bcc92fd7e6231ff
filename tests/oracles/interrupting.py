"""A reporter that presses Ctrl-C after some steps."""

import os
import signal
from collections.abc import Mapping, Sequence


class Interrupting:
    """A reporter that sends Ctrl-C once, when a chunk of ``phase`` has been finished."""

    def __init__(self, phase: str) -> None:
        self.wanted, self.current, self.sent = phase, "", False

    def phase(self, name: str, total: int | None) -> None:
        self.current = name

    def update(self, done: int, note: str, chains: Mapping[str, Sequence[str]]) -> None:
        if self.current == self.wanted and not self.sent:
            self.sent = True
            os.kill(os.getpid(), signal.SIGINT)
