"""Problems of columns of numbers: dates, units, cells that are no numbers, codes with zeros in front."""

import re
from collections import Counter

import numpy as np

from models.cells.dates import ORDERS, days
from models.cells.notations import SURELY_SIZED, plain_sign
from models.cells.overrides import proposed
from models.cells.style import Style
from models.inspection.problem import ColumnText, Problem, Remedy, in_words
from models.reading.repairs import SINCE, is_missing, parsed
from models.reading.units import KINDS, PLAIN, converted, convertible, has_seconds, hours, money_unit, quantity, usual_spelling

MOST = 0.8  # share of dates from which a column holds dates
ALIKE = 0.9  # share of one unit that the zoo does not know, from which it is a unit
FEW = 12  # bare numbers among levels that begin with a number, up to which all are levels
LEVEL = re.compile(r"\d+(\s*\+|\s*[-–—:=.)]\s*[^\W\d])")  # 5+, 5 - very good
BOOKED = re.compile(r"\([^\d()]*\d[\d.,]*\D?\)|\d[\d.,]*-")  # a minus as bookkeepers write it
CORRECT = "or correct the cells"


def number_problems(column: ColumnText, style: Style) -> list[Problem] | None:
    """Problems of a column of dates or numbers; None if most of its cells are words."""
    filled = column.of(np.array([not is_missing(word, style) for word in column.words], dtype=bool))
    if not filled.total:
        return []
    if (problems := _dates(filled) or _times(filled)) is not None:
        return problems
    split = [quantity(word) for word in filled.words]
    values = np.array([np.nan if one is None else parsed(one.number, style) for one in split])
    units = np.array(
        ["" if one is None or np.isnan(value) else one.unit for one, value in zip(split, values, strict=True)], dtype=object
    )
    number = ~np.isnan(values)
    if 2 * filled.of(number).total <= filled.total:
        return None
    if (units != "").any():
        main = _main_unit(filled, units, values)
        if main is not None:
            return _units(filled, units, number, main, style)
        number &= units == ""
        if 2 * filled.of(number).total <= filled.total:
            return None
    return [*_slips(filled, ~number), *_zeros(filled)]


def _dates(column: ColumnText) -> list[Problem] | None:
    """The order in which most cells are dates; None if the column does not hold dates."""
    fits = {order: np.array([days(word, order) is not None for word in column.words]) for order in ORDERS}
    totals = {order: column.of(fit).total for order, fit in fits.items()}
    best = max(totals, key=lambda order: totals[order])
    any_order = np.any(list(fits.values()), axis=0)
    if column.of(any_order).total < MOST * column.total:
        return None
    name, equal = column.column, [order for order in ORDERS if totals[order] == totals[best] and order != best]
    # Where every cell has its year in front or its month by name, all orders are the same.
    same = all((fits[order] == fits[best]).all() for order in ORDERS) and all(
        len({days(word, order) for order in ORDERS}) == 1 for word, fit in zip(column.words, fits[best], strict=True) if fit
    )
    how = f"read them as {SINCE}, {ORDERS[best]}"
    if equal and not same:
        how += f"; {', '.join(f'{order} ({ORDERS[order]})' for order in equal)} fits as well: which one is right?"
    how += f"; if they only say when a row was measured, leave them out instead ({proposed('types', 'ignore', name)})"
    problems = [Problem(f"dates: {column.examples}", (Remedy("dates", best, name),), how, name)]
    other = column.of(any_order & ~fits[best])
    if other.total:
        what = f"{in_words(other.total, verb='is')} no date with the {ORDERS[best]}, but in another order: {other.examples}"
        advice = f"count them as missing, {CORRECT}; others may be read in the wrong order, too"
        problems.append(Problem(what, (Remedy("missing", list(other.words)),), advice, name))
    none = column.of(~any_order)
    if none.total:
        what = f"{in_words(none.total, verb='is')} no date: {none.examples}"
        problems.append(Problem(what, (Remedy("missing", list(none.words)),), f"count them as missing, {CORRECT}", name))
    return problems


def _times(column: ColumnText) -> list[Problem] | None:
    """Times such as 8:05; None if the column does not hold times."""
    fits = np.array([hours(word) is not None for word in column.words])
    times, none, name = column.of(fits), column.of(~fits), column.column
    if times.total < MOST * column.total:
        return None
    leave, as_levels = (proposed("types", kind, name) for kind in ("ignore", "category"))
    if len({has_seconds(word) for word in times.words}) > 1:
        advice = "leave them out until all are written alike: 8:05 may be minutes and seconds here"
        return [Problem(f"times with and without seconds: {times.examples}", (Remedy("types", "ignore", name),), advice, name)]
    parts = "hours, minutes and seconds" if has_seconds(times.words[0]) else "hours and minutes"
    advice = f"read them as hours, written as {parts}; or leave them out ({leave}), or take them as levels ({as_levels})"
    problems = [Problem(f"times: {times.examples}", (Remedy("units", "h", name),), advice, name)]
    if none.total:
        what = f"{in_words(none.total, verb='is')} no time: {none.examples}"
        problems.append(Problem(what, (Remedy("missing", list(none.words)),), f"count them as missing, {CORRECT}", name))
    return problems


def _main_unit(column: ColumnText, units: np.ndarray, values: np.ndarray) -> str | None:
    """The most frequent unit; None if the texts after the numbers are no units. Amounts of money are read in their currency."""
    counts: Counter[str] = Counter()
    for unit, count in zip(units, column.counts, strict=True):
        if unit:
            counts[usual_spelling(unit)] += int(count)
    main, most = counts.most_common(1)[0]
    if (amount := money_unit(main)) is not None and amount[0] != PLAIN:
        return amount[0]
    if amount is not None:
        return _of_sizes(column, units, values, set(counts))
    if any(main in kind for kind in KINDS) or main in "€$£¥":
        return main
    return main if len(main) > 1 and most >= ALIKE * sum(counts.values()) and 2 * most > column.total else None


def _of_sizes(column: ColumnText, units: np.ndarray, values: np.ndarray, sizes: set[str]) -> str | None:
    """How numbers such as 4.4M are read: as plain numbers, or in their one size; None where they are more likely codes.

    K alone may be Kelvin. Among numbers without a mark it means thousand where these are much larger than those with it.
    """
    bare = values[(units == "") & ~np.isnan(values)]
    if sizes != {"K"} and not any(SURELY_SIZED.fullmatch(plain_sign(word)) or word[-1:].islower() for word in column.words):
        return None
    if len(sizes) > 1 or (len(bare) and sizes != {"K"}):
        return PLAIN
    with_size = values[units != ""]
    thousands = len(bare) > 0 and np.median(np.abs(bare)) > 3 * np.median(np.abs(with_size))
    return PLAIN if thousands else next(iter(sizes))


def _units(column: ColumnText, units: np.ndarray, number: np.ndarray, main: str, style: Style) -> list[Problem]:
    """Numbers with units: which there are, and what has none."""
    counts: Counter[str] = Counter()
    for unit, count in zip(units[number], column.counts[number], strict=True):
        counts[unit] += int(count)
    bare = counts.pop("", 0)
    listed = ", ".join(f"{unit} {count}" for unit, count in counts.most_common(6))
    fits = np.array([not unit or convertible(unit, main) for unit in units])
    others = [unit for unit in counts if usual_spelling(unit) != main and convertible(unit, main)]
    advice = f"read them in {main}" + (f", with {', '.join(others)} converted" if others else "")
    advice += f"; {in_words(bare)} without a unit would be in {main}" if bare else ""
    name, what = column.column, "numbers with units"
    if main == PLAIN:
        example = column.of(units != "").words[0]
        cell = quantity(example)
        assert cell is not None
        value = converted(parsed(cell.number, style), usual_spelling(cell.unit), PLAIN)
        what, advice = "numbers with marks of their size", f"read them as plain numbers: {example} is {value:.15g}"
        advice += f"; if K is Kelvin, {proposed('units', 'K', name)}" if "K" in counts else ""
    problems = [Problem(f"{what} ({listed}): {column.of(units != '').examples}", (Remedy("units", main, name),), advice, name)]
    return problems + _slips(column, ~number | ~fits, f"a number in {main}")


def _slips(column: ColumnText, wrong: np.ndarray, what: str = "a number") -> list[Problem]:
    """Cells of another kind than most cells."""
    slips = column.of(wrong)
    if not slips.total:
        return []
    name = column.column
    if len(numbers := column.of(~wrong).words) <= FEW and all(map(str.isdigit, numbers)) and all(map(LEVEL.match, slips.words)):
        problem = f"levels with a number in front, and bare numbers: {slips.examples}"
        advice = "take the column as category, or write its levels alike"
        return [Problem(problem, (Remedy("types", "category", name),), advice, name)]
    limits = [word for word in slips.words if word[0] in "<>≤≥"]
    as_levels = proposed("types", "category", name)
    advice = f"count {'it' if slips.total == 1 else 'them'} as missing, {CORRECT}, or take the column as {as_levels}"
    if limits:
        advice += "; limits of detection are not missing at random, so the estimates will be biased"
    if any(map(BOOKED.fullmatch, slips.words)):
        advice += "; if (5) or 5- stands for −5, correct the cells: without them the estimates will be biased"
    problem = f"{in_words(slips.total, verb='is')} not {what}: {slips.examples}"
    return [Problem(problem, (Remedy("missing", list(slips.words)),), advice, name)]


def _zeros(column: ColumnText) -> list[Problem]:
    """Codes of equal length such as 007, which are no numbers."""
    lengths = {len(word) for word in column.words}
    if len(lengths) != 1 or min(lengths) < 2 or not all(word.isdigit() for word in column.words):
        return []
    led = np.array([word.startswith("0") for word in column.words])
    if not led.any():
        return []
    kind = "identifier" if len(column.words) == column.total else "category"
    what = f"codes with zeros in front would be read as numbers: {column.of(led).examples}"
    return [Problem(what, (Remedy("types", kind, column.column),), f"take the column as {kind}", column.column)]
