"""The outcome of a check: figures with limits, the two-stage rule for random figures, and an answer in words."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from scipy import stats

CONTROL = "control"
NEEDED = "needed over found"  # the unit of a figure beyond whose limit a check has too little power to answer
COVERAGE = "coverage"  # the unit of how often intervals hold the truth, of the worst statistic
FAR = 2.0  # limits; a right cell is so far off with probability 3e-12
MOST = 3.5  # deviations beyond this are looked at a second time
TIMES = 4  # size of the second stage
# By how much a mutant must deviate at the size of the second stage. Then 1 / √TIMES of it is expected at the first one: that is
# one deviation beyond `MOST`, so that the check sees the mutant with a probability of 0.84.
POWER = (MOST + 1) * math.sqrt(TIMES)
FALSE_ALARM = float(2 * stats.norm.sf(MOST) ** 2)  # of one deviation: beyond twice, with the same sign
KEPT = 3  # figures of a control: those that deviate most

Deviations = dict[str, float]  # compared quantity -> standard normal deviation
Kind = Literal["check", "control", "bias", "block"]  # a control passes if it rejects a mutant; a bias is a measured size


class Figure(NamedTuple):
    """One comparison: how far it is off, how far it may be, and how far it was off when it was rerun."""

    name: str
    value: float
    limit: float
    unit: str  # deviation (standard normal), relative, nats, share, sd
    again: float | None = None  # with a fresh seed at a larger size; None where the first was within the limit

    @property
    def passed(self) -> bool:
        """Whether it is within its limit, or was when it was rerun, or was then less than `FAR` limits off to the other side.

        NaN and infinities fail.
        """
        if abs(self.value) <= self.limit:
            return True
        if self.again is None or not math.isfinite(self.value):
            return False
        other_side = self.again * self.value < 0
        return bool(abs(self.again) <= (FAR * self.limit if other_side else self.limit))

    @property
    def rejects(self) -> bool:
        """Whether it shows that a mutant is wrong. NaN and infinities do not: they may have another cause."""
        return math.isfinite(self.value) and not self.passed


def worst(figures: Iterable[Figure]) -> Figure:
    """The figure that is furthest beyond its limit; NaN is beyond all."""
    return max(figures, key=relative_to_limit)


def relative_to_limit(figure: Figure) -> float:
    """The size of a figure relative to its limit; infinite for NaN."""
    if math.isnan(figure.value):
        return math.inf
    return abs(figure.value) / figure.limit if figure.limit else math.inf if figure.value else 0.0


def two_stages(run: Callable[[int, int], Deviations], seed: int) -> tuple[Figure, ...]:
    """Figures of ``run(seed, times)``. Deviations beyond `MOST` are run again with a fresh seed at `TIMES` the size."""
    first = run(seed, 1)
    again = {} if all(abs(value) <= MOST for value in first.values()) else run(seed + 1_000_003, TIMES)
    return tuple(_figure(name, value, None if abs(value) <= MOST else again[name]) for name, value in first.items())


def large_stage(run: Callable[[int, int], Deviations], seed: int) -> tuple[Figure, ...]:
    """Figures of the second stage alone: those of a mutant, which are far beyond `MOST` if there is power at all."""
    return tuple(_figure(name, value, value) for name, value in run(seed, TIMES).items())


def _figure(name: str, value: float, again: float | None) -> Figure:
    return Figure(name, value, MOST, "deviation", again)


class Check(NamedTuple):
    """One question, the figures that answer it, and the answer."""

    name: str
    says: str  # the answer in a sentence
    passed: bool
    figures: tuple[Figure, ...]
    false_alarm: float | None  # probability at most that a right cell fails; None: not known
    kind: Kind = "check"
    seconds: float = 0.0  # that it took (`timed`)
    size: int = 0  # replicates, draws or tables of its first stage
    witness: Mapping[str, float] = MappingProxyType({})  # the numbers that it compares (`inference.certificates.witnesses`)


def answer(name: str, says: str, figures: Sequence[Figure], false_alarm: float | None, kind: Kind = "check") -> Check:
    """A check that passes if all its figures do."""
    return Check(name, says, all(figure.passed for figure in figures), tuple(figures), false_alarm, kind)


def control(of: str, says: str, rejected: bool, figures: Sequence[Figure]) -> Check:
    """The control of the check ``of``, which passes if a mutant is rejected. A right cell cannot fail by it."""
    return Check(control_of(of), says, rejected, tuple(figures), 0.0, "control")


def control_of(check: str) -> str:
    """The name of the control of a check."""
    return f"{CONTROL} of the {check}"


def timed(check: Callable[[], Check]) -> Check:
    """The answer of ``check``, with the seconds that it took."""
    clock = time.perf_counter()
    return check()._replace(seconds=time.perf_counter() - clock)


def verdict_of(checks: Sequence[Check], claim: str) -> str:
    """The claim, ``fails``, or ``inconclusive`` where only power is lacking, of a check or of its control."""
    wrong = [check for check in checks if not check.passed]
    if not wrong:
        return claim
    return "inconclusive" if all(check.kind == "control" or lacks_power(check) for check in wrong) else "fails"


def lacks_power(check: Check) -> bool:
    """Whether a check did not pass for lack of power alone."""
    failed = [figure for figure in check.figures if not figure.passed]
    return bool(failed) and all(figure.unit == NEEDED for figure in failed)


def false_alarm_of(checks: Sequence[Check]) -> float | None:
    """The probability at most that one of the checks fails by chance; None where that of one is not known."""
    known = [check.false_alarm for check in checks if check.false_alarm is not None]
    return sum(known) if len(known) == len(checks) else None


def summary(figures: Sequence[Figure]) -> str:
    """How many deviations there are, and the largest, or those that failed."""
    failed = sorted((figure for figure in figures if not figure.passed), key=lambda figure: -abs(figure.value))
    if failed:
        names = "; ".join(figure.name for figure in failed[:3])
        return f"{len(failed)} of {len(figures)} statistics ({names}) deviate by more than {MOST} at both looks"
    most = worst(figures)
    return f"{len(figures)} statistics, the largest deviation {abs(most.value):.1f} ({most.name})"


def rejection(of: str, mutant: str, figures: Sequence[Figure], least: float = MOST) -> Check:
    """The control of the check ``of``: whether a figure of ``mutant``, seen by `large_stage`, deviates by more than ``least``.

    A certificate asks for `POWER`, so that the check itself, whose first look is smaller, would have seen the mutant.
    """
    beyond = [figure for figure in figures if figure.rejects and abs(figure.value) > least]
    most = worst(beyond or figures)
    answer = "rejected" if beyond else "NOT rejected"
    says = f"{mutant} is {answer}: {most.name} deviates by {abs(most.value):.1f}"
    if not beyond:
        says = f"{says}, and must by {least:g}"
    return control(of, says, bool(beyond), sorted(beyond or figures, key=relative_to_limit, reverse=True)[:KEPT])
