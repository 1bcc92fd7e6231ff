"""Numbers with units, such as ``59.4 kg``, ``140 lb`` or ``€ 12``: split into number and unit, and converted to one unit."""

import re
from typing import NamedTuple

# One number, with whatever marks a table may use; what follows it (or a sign of money before it) is its unit.
NUMBER = r"[+-]?(?:\d[\d.,'\u00a0\u202f ]*|[.,]\d+)(?:[eE][+-]?\d+)?"
UNIT = r"(?:[^\W\d_]|[µ°%‰€$£¥])(?:[^\d\s,;=]|(?<=m)[23]|(?<=/)1\.73m)*(?: [^\W\d_][^\d\s,;=]*)?"
AFTER = re.compile(rf"({NUMBER})\s*({UNIT})?")
BEFORE = re.compile(rf"([€$£¥]|[A-Z]{{3}}(?= ))\s*({NUMBER})")
LONGEST = 20  # characters of a unit

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
    {"h": 3600.0, "s": 1.0, "ms": 1e-3, "min": 60.0, "d": 86400.0},
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

    >>> quantity("59.4 kg"), quantity("€12"), quantity("7"), quantity("red")
    (Quantity(number='59.4', unit='kg'), Quantity(number='12', unit='€'), Quantity(number='7', unit=''), None)
    """
    if (found := BEFORE.fullmatch(cell)) is not None:
        return Quantity(found[2].strip(), found[1])
    found = AFTER.fullmatch(cell)
    if found is None or not found[1] or len(found[2] or "") > LONGEST:
        return None
    return Quantity(found[1].strip(), (found[2] or "").rstrip("."))


def known(unit: str) -> str:
    """The usual spelling of a unit: ``kg`` for ``kgs`` and ``KG``; another unit stays as it is."""
    same = unit.replace("\u03bc", "µ").replace("º", "°")  # letters that look alike
    if _kind(same) is not None:
        return same
    return SPELLINGS.get(same, SPELLINGS.get(same.lower(), same) if len(same) > 3 else same)  # mM is not mm


def _kind(unit: str) -> dict[str, float] | None:
    return next((kind for kind in KINDS if unit in kind), None)


def convertible(unit: str, to: str) -> bool:
    """Whether a value in one unit has a value in the other."""
    unit, to = known(unit), known(to)
    kind = _kind(to)
    return unit == to or (kind is not None and unit in kind)


def converted(value: float, unit: str, to: str) -> float:
    """A value in ``unit`` as a value in ``to``, which must be `convertible`; unchanged if the units are equal.

    >>> round(converted(140, "lb", "kg"), 3), converted(59.4, "kg", "kg")
    (63.503, 59.4)
    """
    unit, to = known(unit), known(to)
    if unit == to:
        return value
    kind = _kind(to)
    assert kind is not None
    return (value * kind[unit] + OFFSETS.get(unit, 0.0) - OFFSETS.get(to, 0.0)) / kind[to]
