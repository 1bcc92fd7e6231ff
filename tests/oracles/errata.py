"""The slips of the documents, E1 to E21: the formula as printed, the right one, and a judge that knows neither.

All three are functions of the same case and return the same numbers. The judge is slow and obvious: a sum over every path, a
derivative by complex steps, a mode found by bisection, Bayes' rule over all tables. `docs/errata.md` tells the story of each.

>>> [(found.number, found.right_error < found.tolerance, found.printed_error > MARGIN) for found in ERRATA][:1]
[(1, True, True)]
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import errata_chains
import errata_columns
import errata_gaussians
import errata_words
import numpy as np

Formula = Callable[..., Any]

# Rounding of sums of at most a few hundred terms, of numbers up to 1e4 where a variance is about 1: 1e-16 · 1e2 · 1e4.
ROUNDING = 1e-9
# A slip is one per cent of the largest number or more: ten million times what the right formula may be off by rounding.
MARGIN = 1e-2


class Erratum(NamedTuple):
    """One slip."""

    number: int
    document: str  # 000 to 004, or the software that the documents' model is written in
    printed: Formula  # as the document has it; where it has a gap, what one is tempted to fill in
    right: Formula
    judge: Formula
    case: Callable[[], Mapping[str, Any]]  # -> the arguments of all three
    tolerance: float = ROUNDING

    def off(self, formula: Formula) -> float:
        """The largest distance from the judge, in units of the judge's largest number; infinite where one is no number."""
        wanted, found = (np.asarray(each(**self.case()), dtype=float) for each in (self.judge, formula))
        distance = np.abs(found - wanted).max() / np.abs(wanted).max()
        return float(distance) if np.isfinite(distance) else np.inf

    @property
    def right_error(self) -> float:
        return self.off(self.right)

    @property
    def printed_error(self) -> float:
        return self.off(self.printed)

    def figures(self) -> tuple[str, str, str]:
        """What the judge, the right formula and the printed one give, where the printed one is furthest off."""
        found = [np.ravel(np.asarray(each(**self.case()), dtype=float)) for each in (self.judge, self.right, self.printed)]
        distance = np.abs(found[2] - found[0])
        distance = np.where(np.isfinite(distance), distance, np.inf)
        place = int(np.flatnonzero(distance >= distance.max() * (1 - 1e-9))[0])  # the first of equals, whatever their rounding
        judge, right, printed = (f"{values[place]:.4g}" for values in found)
        return judge, right, printed


ERRATA = tuple(
    Erratum(*entry)
    for entry in sorted(errata_words.ENTRIES + errata_gaussians.ENTRIES + errata_chains.ENTRIES + errata_columns.ENTRIES)
)


def erratum(number: int) -> Erratum:
    return next(found for found in ERRATA if found.number == number)
