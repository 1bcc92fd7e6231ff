"""What a check finds: figures with limits, and an answer in words."""

import math
from collections.abc import Iterable
from typing import NamedTuple

CONTROL = "control"  # name of the check that a mutant must not pass


class Figure(NamedTuple):
    """One comparison: how far it is off, how far it may be, and how far it was off when it was looked at again."""

    name: str
    value: float
    limit: float
    unit: str  # deviation (standard normal), relative, nats, share, sd
    again: float | None = None  # with a fresh seed at a larger size; None where the first was within the limit

    @property
    def passed(self) -> bool:
        """Whether it is within its limit at the first or second look, or off to different sides.

        What is no number, or infinite, fails at the first look.
        """
        if abs(self.value) <= self.limit:
            return True
        if self.again is None or not math.isfinite(self.value):
            return False
        return abs(self.again) <= self.limit or self.again * self.value < 0


def worst(figures: Iterable[Figure]) -> Figure:
    """The figure that is furthest beyond its limit; one that is no number is beyond all."""
    return max(figures, key=beside_limit)


def beside_limit(figure: Figure) -> float:
    """How large a figure is beside its limit; infinite for what is no number."""
    if math.isnan(figure.value):
        return math.inf
    return abs(figure.value) / figure.limit if figure.limit else math.inf if figure.value else 0.0


class Check(NamedTuple):
    """One question, the figures that answer it, and the answer."""

    name: str
    says: str  # the answer in a sentence
    passed: bool
    figures: tuple[Figure, ...]
    false_alarm: float | None  # probability at most that a right cell fails; None: not known
    seconds: float
