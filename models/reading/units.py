"""Numbers with units, such as ``59.4 kg``, ``140 lb``, ``€ 12`` or ``$4.4M``: split into number and unit, and converted to one.

A time such as ``8:05`` is a number of hours and minutes.
"""

import re
from typing import NamedTuple, overload

import numpy as np

from models.cells.notations import SIZE_OF_MONEY, SIZES, SIZES_OF_MONEY, SPACES, plain_sign
from models.data.column_kinds import TIME

# One number, with any marks that a table may use; the text after it (or a sign of money before it) is its unit.
NUMBER = rf"[+-]?(?:\d[\d.,'{SPACES}]*|[.,]\d+)(?:[eE][+-]?\d+)?"
UNIT = r"(?:[^\W\d_]|[µ°%‰€$£¥])(?:[^\d\s,;=]|(?<=m)[23]|(?<=/)1\.73m)*(?:\s(?:[^\W\d_]|[€$£¥])[^\d\s,;=]*)?"
AFTER = re.compile(rf"({NUMBER})\s*({UNIT})?")
BEFORE = re.compile(rf"([+-]?)([€$£¥]|[A-Z]{{3}}(?= ))\s*({NUMBER})({SIZE_OF_MONEY})?")
SIGNS = "€$£¥"
CODES = ("USD", "EUR", "GBP", "JPY", "CHF", "CNY", "CAD", "AUD", "INR", "SEK", "NOK", "DKK")
SIGN_OF = {"EUR": "€", "GBP": "£"}  # codes whose sign is of no other currency
AMOUNT = re.compile(rf"({SIZE_OF_MONEY})?\s?([{SIGNS}]|{'|'.join(CODES)})")  # a unit behind a number: € or M€ or million EUR
PLAIN = "1"  # the unit of numbers such as 4.4M and 350K, where a number without a mark is a plain number
LONGEST = 20  # characters of a unit

TIMES = {"h": 3600.0, "s": 1.0, "ms": 1e-3, "min": 60.0, "d": 86400.0}

# Units of one kind can be converted: value · factor + offset is the value in the first unit of its kind.
KINDS: tuple[dict[str, float], ...] = (
    {"kg": 1.0, "g": 1e-3, "mg": 1e-6, "µg": 1e-9, "t": 1e3, "lb": 0.45359237, "oz": 0.028349523125},
    {
        "m": 1.0,
        "km": 1e3,
        "cm": 1e-2,
        "mm": 1e-3,
        "µm": 1e-6,
        "nm": 1e-9,
        "in": 0.0254,
        "ft": 0.3048,
        "yd": 0.9144,
        "mi": 1609.344,
    },
    TIMES,
    {"L": 1.0, "dL": 1e-1, "mL": 1e-3, "µL": 1e-6},
    {"K": 1.0, "°C": 1.0, "°F": 5 / 9},
    {"%": 1.0, "‰": 0.1},
)
OFFSETS = {"°C": 273.15, "°F": 459.67 * 5 / 9}
SPELLINGS = {
    **{"l": "L", "dl": "dL", "ml": "mL", "µl": "µL", "ul": "µL", "uL": "µL", "ug": "µg", "mcg": "µg", "um": "µm"},
    **{
        "kgs": "kg",
        "kilo": "kg",
        "kilos": "kg",
        "gram": "g",
        "grams": "g",
        "gr": "g",
        "tonnes": "t",
        "lbs": "lb",
        "pounds": "lb",
    },
    **{"pound": "lb", "ounces": "oz", "inch": "in", "inches": "in", "feet": "ft", "foot": "ft", "miles": "mi", "metres": "m"},
    **{"meters": "m", "sec": "s", "secs": "s", "seconds": "s", "mins": "min", "minutes": "min", "hr": "h", "hrs": "h"},
    **{"hours": "h", "hour": "h", "day": "d", "days": "d", "percent": "%", "C": "°C", "F": "°F"},
    **{"KG": "kg", "Kg": "kg", "LB": "lb", "Lb": "lb", "LBS": "lb", "Lbs": "lb", "CM": "cm", "Cm": "cm"},
}


class Quantity(NamedTuple):
    """A cell as it is written: the text of its number, and its unit, which may be empty."""

    number: str
    unit: str


def quantity(cell: str) -> Quantity | None:
    """Split ``59.4 kg``, ``12%`` or ``€ 12``; None for a cell that is no number with or without a unit.

    >>> quantity("59.4 kg"), quantity("−€12"), quantity("7"), quantity("red")
    (Quantity(number='59.4', unit='kg'), Quantity(number='-12', unit='€'), Quantity(number='7', unit=''), None)
    >>> quantity("$4.4M"), quantity("4.4 million €")
    (Quantity(number='4.4', unit='$M'), Quantity(number='4.4', unit='€million'))
    """
    cell = plain_sign(cell)
    if (match := BEFORE.fullmatch(cell)) is not None:
        return Quantity(match[1] + match[3].strip(), match[2] + (match[4] or ""))
    match = AFTER.fullmatch(cell)
    if match is None or not match[1] or len(match[2] or "") > LONGEST:
        return None
    unit = (match[2] or "").rstrip(".")
    if (amount := AMOUNT.fullmatch(unit)) is not None:
        unit = amount[2] + (amount[1] or "")
    return Quantity(match[1].strip(), unit)


def usual_spelling(unit: str) -> str:
    """The usual spelling of a unit: ``kg`` for ``kgs`` and ``KG``; another unit stays as it is."""
    same = unit.replace("\u03bc", "µ").replace("º", "°")  # letters that look alike
    if _kind(same) is not None:
        return same
    return SPELLINGS.get(same, SPELLINGS.get(same.lower(), same) if len(same) > 3 else same)  # mM is not mm


def _kind(unit: str) -> dict[str, float] | None:
    return next((kind for kind in KINDS if unit in kind), None)


def money_unit(unit: str) -> tuple[str, float] | None:
    """(currency, size) of a unit such as $M, € or million; None for any other. Plain numbers have no currency.

    >>> money_unit("$M"), money_unit("€"), money_unit("K"), money_unit("kg")
    (('$', 1000000.0), ('€', 1.0), ('1', 1000.0), None)
    """
    unit = unit.lower() if unit.isalpha() and len(unit) > 3 and not unit.startswith(CODES) else unit  # Million, not EURk
    if unit in (PLAIN, *SIZES):
        return PLAIN, SIZES.get(unit, 1.0)
    currency = next((one for one in (*SIGNS, *CODES) if unit.startswith(one)), None)
    if currency is None or unit[len(currency) :] not in ("", *SIZES_OF_MONEY):
        return None
    return SIGN_OF.get(currency, currency), SIZES_OF_MONEY.get(unit[len(currency) :], 1.0)


def hours(cell: str) -> float | None:
    """The hours of a time such as 8:05, 8:05:30 or 8:05 pm; None for any other cell.

    >>> hours("8:30"), hours("12:15 am"), hours("8:75")
    (8.5, 0.25, None)
    """
    match = TIME.fullmatch(cell.strip())
    if match is None or (match[4] and not 1 <= int(match[1]) <= 12):
        return None
    hour = int(match[1]) if not match[4] else int(match[1]) % 12 + (12 if match[4].lower() == "p" else 0)
    return hour + int(match[2]) / 60 + float((match[3] or "0").replace(",", ".")) / 3600


def has_seconds(cell: str) -> bool:
    """Whether a time is written with seconds."""
    return cell.count(":") == 2


def measures_time(unit: str) -> bool:
    """Whether times such as 8:05 can be read in a unit: d, h, min, s or ms."""
    return usual_spelling(unit) in TIMES


def convertible(unit: str, to: str) -> bool:
    """Whether a value in one unit has a value in the other."""
    unit, to = usual_spelling(unit), usual_spelling(to)
    kind, amount, other = _kind(to), money_unit(unit), money_unit(to)
    if unit == to or (kind is not None and unit in kind):
        return True
    return amount is not None and other is not None and amount[0] == other[0] and (to == PLAIN or amount[0] != PLAIN)


@overload
def converted(value: float, unit: str, to: str) -> float: ...
@overload
def converted(value: np.ndarray, unit: str, to: str) -> np.ndarray: ...
def converted(value: float | np.ndarray, unit: str, to: str) -> float | np.ndarray:
    """A value in ``unit`` as a value in ``to``, which must be `convertible`; unchanged if the units are equal.

    >>> round(converted(140, "lb", "kg"), 3), converted(59.4, "kg", "kg")
    (63.503, 59.4)
    """
    unit, to = usual_spelling(unit), usual_spelling(to)
    if unit == to:
        return value
    kind, amount, other = _kind(to), money_unit(unit), money_unit(to)
    if kind is None or unit not in kind:
        assert amount is not None
        assert other is not None
        return value * amount[1] / other[1]
    return (value * kind[unit] + OFFSETS.get(unit, 0.0) - OFFSETS.get(to, 0.0)) / kind[to]
