"""Marks in numbers, decided for the whole table: decimal commas, and marks between thousands."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from models.cells.dates import ORDERS, days
from models.cells.notations import SPACES
from models.inspection.problem import ColumnText, Problem, Remedy
from models.reading.units import quantity

POINT, COMMA = re.compile(r"[+-]?\d*\.\d+"), re.compile(r"[+-]?\d*,\d+")
EITHER = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,234 may be 1234 or 1.234
EITHER_POINT = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")  # 1.234 may be 1.234 or 1234
HUNDREDS, MORE_DIGITS = re.compile(r"[+-]?[1-9]\d{2}"), re.compile(r"[+-]?\d{4,}")
SEMICOLONS = ("semicolon", ";")  # between columns, where numbers are seldom written with a decimal point
GROUPS = {  # the mark between thousands -> numbers that must be written with it
    "comma": re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d+|[+-]?\d{1,3}(,\d{3}){2,}"),
    "point": re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+|[+-]?\d{1,3}(\.\d{3}){2,}"),
    "space": re.compile(rf"[+-]?\d{{1,3}}([{SPACES}]\d{{3}})+([.,]\d+)?"),
    "apostrophe": re.compile(r"[+-]?\d{1,3}('\d{3})+([.,]\d+)?"),
}
MIXED = "correct the table: one mark cannot mean both"


def mark_problems(columns: Sequence[ColumnText], options: Mapping[str, Any]) -> list[Problem]:
    """Problems of decimal commas and thousands, unless the user has declared marks."""
    if options.get("decimal") is not None or options.get("thousands") is not None:
        return []
    numbers = [(column, _numbers(column)) for column in columns]
    numbers = [(column, examples) for column, examples in numbers if examples]
    grouped = {mark: _with(numbers, form) for mark, form in GROUPS.items()}
    inner = {"point": r"\.", "comma": ",", "space": f"[{SPACES}]", "apostrophe": "'"}
    commas = _with(numbers, COMMA, but=EITHER, groups=GROUPS["comma"])
    commas |= {
        c: w
        for mark in ("point", "space", "apostrophe")
        for c, w in _with(numbers, re.compile(rf"[+-]?\d{{1,3}}({inner[mark]}\d{{3}})+,\d+")).items()
    }
    points = _with(numbers, POINT, groups=GROUPS["point"])
    either = _with(numbers, EITHER)
    if points and not any(grouped.values()):
        semicolons = options.get("separator") in SEMICOLONS and not either
        if (commas and _may_be_thousands(numbers)) or (semicolons and _are_among_hundreds(numbers)):
            return _points_in_thousands(commas, points)
    return _decided(grouped, commas, points, either, options)


def _may_be_thousands(numbers: list[tuple[ColumnText, list[str]]]) -> bool:
    """Whether every point stands before three digits."""
    return all(EITHER_POINT.fullmatch(word) for _, words in numbers for word in words if "." in word)


def _are_among_hundreds(numbers: list[tuple[ColumnText, list[str]]]) -> bool:
    """Whether, moreover, every column with points has whole numbers of three digits, and none of more.

    1.200 in a column with 900 is 1200. Measurements with three decimals have no 900 among them.
    """
    for _, words in numbers:
        whole = [word for word in words if "." not in word]
        if len(whole) < len(words) and (not any(map(HUNDREDS.fullmatch, whole)) or any(map(MORE_DIGITS.fullmatch, whole))):
            return False
    return _may_be_thousands(numbers)


def _points_in_thousands(commas: dict[str, str], points: dict[str, str]) -> list[Problem]:
    """Numbers such as 1.200, where other numbers have decimal commas, or columns are separated by semicolons."""
    otherwise = "" if commas else f"{next(iter(points.values()))} may also mean a decimal point"
    problems = [Problem(f"decimal commas in {_listed(commas)}", (Remedy("decimal", "comma"),))] if commas else []
    what = f"numbers that may have a point between thousands in {_listed(points)}"
    return [*problems, Problem(what, (Remedy("thousands", "point"),), otherwise)]


def _decided(
    grouped: dict[str, dict[str, str]],
    commas: dict[str, str],
    points: dict[str, str],
    either: dict[str, str],
    options: Mapping[str, Any],
) -> list[Problem]:
    """The mark of thousands and the decimal mark that read most; every column maps to an example."""
    found: list[Problem] = []
    thousands = max(grouped, key=lambda mark: len(grouped[mark]))
    otherwise = ""
    if not any(grouped.values()):
        thousands = ""
    if either and not commas and thousands in ("", "comma"):
        as_decimal = options.get("separator") in SEMICOLONS and not points and not thousands
        otherwise = f"{next(iter(either.values()))} may also mean {'thousands' if as_decimal else 'a decimal comma'}"
        if as_decimal:
            commas = either
        else:
            thousands, grouped = "comma", grouped | {"comma": either | grouped["comma"]}
    elif either and thousands != "comma":
        commas = commas | {column: word for column, word in either.items() if column not in commas}
    if commas and thousands == "comma":
        clash = ", ".join([*list(commas.values())[:1], *list(grouped["comma"].values())[:1]])
        return [Problem(f"commas are decimal in some numbers and mark thousands in others: {clash}", (), MIXED)]
    if thousands == "point" and (mixed := {c: w for c, w in points.items() if not re.fullmatch(r"[+-]?\d{1,3}\.\d{3}", w)}):
        both = ", ".join([next(iter(mixed.values())), next(iter(grouped["point"].values()))])
        return [Problem(f"points are decimal in some numbers and mark thousands in others: {both}", (), MIXED)]
    if commas:
        found.append(
            Problem(f"decimal commas in {_listed(commas)}", (Remedy("decimal", "comma"),), "" if thousands else otherwise)
        )
    if thousands:
        what = f"numbers with {_a(thousands)} between thousands in {_listed(grouped[thousands])}"
        found.append(Problem(what, (Remedy("thousands", thousands),), otherwise))
    others = [mark for mark in grouped if grouped[mark] and mark != thousands]
    found += [
        Problem(f"numbers with {_a(mark)} between thousands, too, in {_listed(grouped[mark])}", (), MIXED) for mark in others
    ]
    return found


def _a(mark: str) -> str:
    return f"{'an' if mark == 'apostrophe' else 'a'} {mark}"


def _listed(columns: dict[str, str]) -> str:
    """Columns with an example."""
    names = list(columns)
    some = ", ".join(names[:6]) + (f" and {len(names) - 6} more columns" if len(names) > 6 else "")
    return f"{some} (such as {columns[names[0]]})"


def _numbers(column: ColumnText) -> list[str]:
    """The numbers among the words, if most words are numbers, perhaps with units; dates are not."""
    split = [quantity(word) for word in column.words]
    numbers = [one.number for word, one in zip(column.words, split, strict=True) if one is not None and not is_date(word)]
    return numbers if 2 * len(numbers) > len(column.words) else []


def is_date(word: str) -> bool:
    """Whether a cell is a date in any order."""
    return any(days(word, order) is not None for order in ORDERS)


def _with(
    numbers: list[tuple[ColumnText, list[str]]],
    form: re.Pattern[str],
    but: re.Pattern[str] | None = None,
    groups: re.Pattern[str] | None = None,
) -> dict[str, str]:
    """Column -> its first number of this form, and not of the other forms."""
    examples = {}
    for column, words in numbers:
        fits = (w for w in words if form.fullmatch(w) and not any(f is not None and f.fullmatch(w) for f in (but, groups)))
        if (first := next(fits, None)) is not None:
            examples[column.column] = first
    return examples
