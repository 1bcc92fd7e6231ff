"""Kinds of columns by stated rules, for models that take numbers, counts and categories together.

The first rule that fits a column decides; "different" counts values that are there, not cells:

| a column with | is | because |
|---|---|---|
| no value | left out: empty | there is nothing to learn from |
| one different value | left out: constant | it tells no two rows apart, and a variance would collapse |
| True and False, or one of a pandas Categorical's levels | category | it says so |
| words that are all dates | refused, with the remedy | whether time or season matters, nobody can guess |
| words, all different, or above 20 and more than half of them | left out: identifier | a level seen once tells nothing |
| any other words | category | |
| numbers with fractions, or below 0 | number | |
| whole numbers, all different, and a telling name: id, key, index, Unnamed: 0 … | left out: identifier | as above |
| whole numbers that count the rows, 10 or more, from 0 or 1 | left out: identifier | as above |
| 0 and 1 alone | category | of two values, a category loses nothing |
| up to 5 different whole numbers, of 5 rows or more each on average | category | codes have no order; it fits counts too |
| whole numbers from 1, none above 10, of 5 rows or more each on average | category | answers are not spread as counts are |
| whole numbers from 0, none above 100, with a mean of at most 10 | count | too small for a Normal, which has no end at 0 |
| any other whole numbers: years, ages, large counts | number | a Normal is the least harmful: it fits any mean and spread |

A label is what the user names, never guessed. The user's word goes before every rule: ``types={"year": "category"}`` or
``data.types.year=category``, with one of `TYPES`.
"""

import re
from typing import NamedTuple

import numpy as np

from models.cells import DOUBTFUL
from models.data import BOOLEAN

KINDS = ("number", "count", "category")
TYPES = (*KINDS, "label", "identifier", "ignore")  # what a user may say of a column
LEFT_OUT = ("identifier", "constant", "empty", "ignored")
FEW, SCALE, EACH = 5, 10, 5  # different whole numbers of a category, of a scale, and rows of each
TELLING = re.compile(r"(.*[\W_])?(id|ids|uid|uuid|guid|key|index|idx|row|no|nr|code)|unnamed: \d+", re.IGNORECASE)
CAMEL = re.compile(r".*[a-z](Id|ID|Key|Index|Nr|No|Code)")
CLOCK = r"([T ]\d{1,2}:\d.*)?"
DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4}))" + CLOCK)


class Verdict(NamedTuple):
    """The kind of a column, and why."""

    kind: str  # number, count, category, date, or one of `LEFT_OUT`
    why: str


def verdict(name: str, values: np.ndarray, levels: tuple[str, ...]) -> Verdict:
    """The kind of one column by the rules; ``values`` (N,) are numbers, or codes into ``levels``, NaN for a missing cell."""
    seen = values[~np.isnan(values)]
    different = np.unique(seen)
    if not len(seen):
        return Verdict("empty", "no cell is filled in")
    if len(different) == 1:
        only = levels[int(different[0])] if levels else f"{different[0]:.15g}"
        return Verdict("constant", f"{only} in every row" + ("" if len(seen) == len(values) else " that is filled in"))
    return _of_words(seen, different, levels) if levels else _of_numbers(name, values, different)


def _of_words(seen: np.ndarray, different: np.ndarray, levels: tuple[str, ...]) -> Verdict:
    if levels == BOOLEAN:
        return Verdict("category", "true or false")
    if all(DATE.fullmatch(level) for level in levels):
        return Verdict("date", f"such as {levels[0]}")
    if len(different) == len(seen):
        return Verdict("identifier", f"all {len(seen)} words are different")
    if len(different) > 20 and 2 * len(different) > len(seen):
        return Verdict("identifier", f"{len(different)} of {len(seen)} words are different")
    doubtful = [level for level in levels if level.lower() in DOUBTFUL]
    return Verdict("category", f"words; is {doubtful[0]} one?" if doubtful else "words")


def _of_numbers(name: str, values: np.ndarray, different: np.ndarray) -> Verdict:
    if (different != np.floor(different)).any():
        return Verdict("number", "fractions")
    smallest, largest, size = different[0], different[-1], len(different)
    if smallest < 0:
        return Verdict("number", "some are below 0")
    filled = int((~np.isnan(values)).sum())
    if size == filled and (TELLING.fullmatch(name.strip()) or CAMEL.fullmatch(name.strip())):
        return Verdict("identifier", "by its name, and no number comes twice")
    if len(values) >= 10 and smallest in (0, 1) and size == filled == len(values) == largest - smallest + 1:
        return Verdict("identifier", "it counts the rows")
    if (smallest, largest, size) == (0, 1, 2):
        return Verdict("category", "0 and 1")
    often = filled >= EACH * size
    if often and size <= FEW:
        return Verdict("category", f"{size} different whole numbers")
    if often and smallest == 1 and largest <= SCALE:
        return Verdict("category", f"a scale from 1 to {largest:.0f}")
    mean = float(np.nanmean(values))
    if smallest == 0 and largest <= 100 and mean <= 10:
        return Verdict("count", f"whole numbers from 0, mean {mean:.2g}")
    return Verdict("number", "whole numbers")
