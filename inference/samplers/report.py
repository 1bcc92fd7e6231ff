"""The report of `inference.certify` on a kernel, or on fits of a program: printed, and as JSON with every figure."""

import json
import math
import textwrap
from dataclasses import dataclass
from typing import Any

from inference.certificates.certificate import at_most, versions
from inference.certificates.checks.figure import Check, Figure, false_alarm_of, relative_to_limit, verdict_of
from inference.certificates.packing import spelled_out

INVARIANT = "invariant"
CALIBRATED = "calibrated"
RIGHT = {INVARIANT: "kernel", CALIBRATED: "fit"}  # claims that checks can refute -> the subject of the claim
SHOWN = 3  # figures of a check that failed
WIDTH = 100  # columns of the printed report
SCHEMA = 1  # of the JSON


@dataclass(frozen=True)
class Settings:
    """How a kernel or a program was checked: equal settings give equal figures."""

    budget: str
    seed: int
    replicates: int | None  # None: chains were compared with a reference
    steps: int | None


@dataclass(frozen=True, repr=False)
class SamplerReport:
    """Whether a kernel, or fits of a program, are right.

    Checks with their figures, hints at what is wrong, notes on what was not checked.
    """

    model: str
    sampler: str
    checks: tuple[Check, ...]
    hints: tuple[str, ...]
    notes: tuple[str, ...]
    settings: Settings
    claim: str = INVARIANT  # the claim of a pass, or the verdict on draws

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def verdict(self) -> str:
        """The claim, ``fails``, or ``inconclusive`` where only a planted error was not rejected.

        Of chains: ``draws agree``, ``draws differ`` or ``inconclusive``.
        """
        return verdict_of(self.checks, self.claim) if self.claim in RIGHT else self.claim

    @property
    def false_alarm(self) -> float | None:
        """The probability at most that a right kernel, or fit, fails; None: not known."""
        return false_alarm_of(self.checks)

    def to_json(self) -> str:
        """The report as a text: verdict, settings, versions, hints, notes, and every check with every figure.

        JSON has no NaN and no infinities: they are written as words.
        """
        report = {
            "schema": SCHEMA,
            "model": self.model,
            "sampler": self.sampler,
            "verdict": self.verdict,
            "passed": self.passed,
            "false_alarm": self.false_alarm,
            **vars(self.settings),
            "versions": versions(),
            "hints": list(self.hints),
            "notes": list(self.notes),
            "checks": [_as_json(check) for check in self.checks],
        }
        return json.dumps(report, indent=1, allow_nan=False) + "\n"

    def __repr__(self) -> str:
        right, rate = RIGHT.get(self.claim, "kernel"), ""
        if self.false_alarm:
            rate = f" (a right {right} fails with probability {at_most(self.false_alarm)} at most)"
        lines = [f"{self.sampler} on {self.model}: {self.verdict}{rate}"]
        for check in self.checks:
            lines += _lines(check)
        lines += [_wrapped(f"  hint: {hint}") for hint in self.hints]
        lines += [_wrapped(f"  note: {note}") for note in self.notes]
        return "\n".join(lines)


def _lines(check: Check) -> list[str]:
    """The answer of a check, and the figures that failed, those that deviate most."""
    position = [_wrapped(f"  {'ok  ' if check.passed else 'FAIL'} {check.name}: {check.says}")]
    if check.passed or check.kind == "control":
        return position
    failed = sorted((figure for figure in check.figures if not figure.passed), key=relative_to_limit, reverse=True)
    return position + [f"       {figure.name}: {_figure_in_words(figure)}" for figure in failed[:SHOWN]]


def _figure_in_words(figure: Figure) -> str:
    again = "" if figure.again is None else f", and {number_in_words(figure.again)} when rerun"
    return f"{number_in_words(figure.value)}{again}"


def number_in_words(value: float) -> str:
    """Three digits, or in words that it is NaN or infinite."""
    return f"{value:.3g}" if math.isfinite(value) else "NaN or infinite"


def _wrapped(line: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent=" " * 7, break_long_words=False, break_on_hyphens=False)


def _as_json(check: Check) -> dict[str, Any]:
    """A check with every figure."""
    return {name: value for name, value in spelled_out(check).items() if name not in ("size", "witness")}
