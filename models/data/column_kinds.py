"""Rules for the kinds of columns, for models with columns of numbers, counts and categories.

The first rule that applies decides. Missing cells do not count as values.

| a column with | is | because |
|---|---|---|
| no value | left out: empty | it has no information |
| a single distinct value | left out: constant | it has no information, and a variance would collapse to 0 |
| True and False, or values of a pandas Categorical | category | declared |
| words that are all dates, or all times such as 8:05 | an error | the user must decide, for example whether season matters |
| words, all distinct, or above 20 distinct ones in less than twice as many rows | left out: identifier | levels seen once |
| any other words | category | |
| numbers with fractions, or below 0 | number | |
| whole numbers above 2^53, with all their digits | left out: identifier | a number cannot tell them apart |
| whole numbers, all distinct, with a name such as id, key, index, Unnamed: 0 | left out: identifier | as above |
| whole numbers that number the rows (10 or more) from 0 or 1 | left out: identifier | as above |
| only 0 and 1 | category | with two values, a category loses nothing |
| up to 5 distinct whole numbers, on average in 5 rows or more each | category | codes have no order; also fits small counts |
| whole numbers from 1 to at most 10, on average in 5 rows or more each | category | a rating scale, not a count |
| whole numbers from 0 to at most 100, with a mean of at most 10 | count | too close to 0 for a Normal |
| any other whole numbers: years, ages, large counts | number | a Normal can fit any mean and spread |

The label is never guessed: the user names it. The user can override every rule with one of `TYPES`:
``types={"year": "category"}``, or ``data.types.year=category`` in the shell.
"""

import re
from typing import NamedTuple

import numpy as np

from models.cells.style import DOUBTFUL
from models.data.table import BOOLEAN

KINDS = ("number", "count", "category")
TYPES = (*KINDS, "label", "identifier", "ignore")  # types that a user may give
LEFT_OUT = ("identifier", "constant", "empty", "ignored")
FEW, SCALE, EACH = 5, 10, 5  # distinct numbers in a category, in a scale, and rows per number
TELLING = re.compile(r"(.*[\W_])?(id|ids|uid|uuid|guid|key|index|idx|row|no|nr|code)|unnamed: \d+", re.IGNORECASE)
CAMEL = re.compile(r".*[a-z](Id|ID|Key|Index|Nr|No|Code)")
CLOCK = r"([T ]\d{1,2}:\d.*)?"
DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4}))" + CLOCK)
TIME = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:[.,]\d+)?))?(?:\s?([ap])\.?m\.?)?", re.IGNORECASE)


class ColumnKind(NamedTuple):
    """The kind of a column, and the reason."""

    kind: str  # number, count, category, date, time, or one of `LEFT_OUT`
    why: str


def kind_of(name: str, values: np.ndarray, levels: tuple[str, ...]) -> ColumnKind:
    """Apply the rules to one column; ``values`` (N,) are numbers, or codes into ``levels``, NaN for a missing cell."""
    seen = values[~np.isnan(values)]
    different = np.unique(seen)
    if not len(seen):
        return ColumnKind("empty", "no cell is filled in")
    if len(different) == 1:
        return ColumnKind("constant", "one value in every row" + ("" if len(seen) == len(values) else " that is filled in"))
    return _of_words(seen, different, levels) if levels else _of_numbers(name, values, different)


def _of_words(seen: np.ndarray, different: np.ndarray, levels: tuple[str, ...]) -> ColumnKind:
    if levels == BOOLEAN:
        return ColumnKind("category", "true or false")
    if all(DATE.fullmatch(level) for level in levels):
        return ColumnKind("date", f"such as {levels[0]}")
    if all(TIME.fullmatch(level) for level in levels):
        return ColumnKind("time", f"such as {levels[0]}")
    if len(different) == len(seen):
        return ColumnKind("identifier", f"all {len(seen)} words are different")
    if len(different) > 20 and 2 * len(different) > len(seen):
        return ColumnKind("identifier", f"{len(different)} of {len(seen)} words are different")
    doubtful = [level for level in levels if level.lower() in DOUBTFUL]
    return ColumnKind("category", f"words; is {doubtful[0]} one?" if doubtful else "words")


def _of_numbers(name: str, values: np.ndarray, different: np.ndarray) -> ColumnKind:
    if (different != np.floor(different)).any():
        return ColumnKind("number", "fractions")
    smallest, largest, size = different[0], different[-1], len(different)
    if smallest < 0:
        return ColumnKind("number", "some are below 0")
    filled = int((~np.isnan(values)).sum())
    if size == filled and (TELLING.fullmatch(name.strip()) or CAMEL.fullmatch(name.strip())):
        return ColumnKind("identifier", "by its name, and no number comes twice")
    if len(values) >= 10 and smallest in (0, 1) and size == filled == len(values) == largest - smallest + 1:
        return ColumnKind("identifier", "it counts the rows")
    if (smallest, largest, size) == (0, 1, 2):
        return ColumnKind("category", "0 and 1")
    often = filled >= EACH * size
    if often and size <= FEW:
        return ColumnKind("category", f"{size} different whole numbers")
    if often and smallest == 1 and largest <= SCALE:
        return ColumnKind("category", f"a scale from 1 to {largest:.0f}")
    mean = float(np.nanmean(values))
    if smallest == 0 and largest <= 100 and mean <= 10:
        return ColumnKind("count", f"whole numbers from 0, mean {mean:.2g}")
    return ColumnKind("number", "whole numbers")
