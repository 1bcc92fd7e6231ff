"""An `Oddity`: lines of a text file that would be read as something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Oddity(NamedTuple):
    """An oddity, the options of `models.load_data` that read it, and the option that keeps the file as it is."""

    what: str
    options: Mapping[str, Any]
    otherwise: str  # as in "data.header=1 if line 1 has the names"

    @property
    def message(self) -> str:
        """In one sentence.

        >>> Oddity("line 1 is a title", {"skip": 1}, "data.skip=0 if it is none").message
        'line 1 is a title: use data.skip=1, or data.skip=0 if it is none'
        """
        remedy = " ".join(f"data.{name}={value}" for name, value in self.options.items())
        return f"{self.what}: use {remedy}, or {self.otherwise}"
