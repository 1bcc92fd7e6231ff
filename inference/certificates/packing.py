"""Checks as a small JSON file: deviations as a table of statistics, every check on a line of its own."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inference.certificates.checks.figure import Check, Figure
from inference.runtime.files import read
from models.errors import ZooError

SCHEMA = 3
PATTERNS = {  # of the names of figures that there are one of for every statistic: their unit
    "{}": "deviation",
    "{}, spread": "deviation",
    "{}, lower tail": "deviation",
    "{}, upper tail": "deviation",
    "share of {} in its 90% interval": "share",
    "shift of {}": "sd",
    "spread that {} needs": "sd",
}
FACTS = ("name", "says", "passed", "false_alarm", "kind", "seconds", "size")  # of a check
USUAL = {"passed": True, "false_alarm": 0.0, "kind": "check"}  # what is left out


def packed(facts: Mapping[str, Any], checks: Sequence[Check]) -> str:
    """Facts about a certificate, and its checks, as a text."""
    named = [parts for check in checks for figure in check.figures if (parts := _parts(figure)) is not None]
    statistics = list(dict.fromkeys(statistic for _, statistic in named))
    lines = [f' "{name}": {_text(value)}' for name, value in ({"schema": SCHEMA} | dict(facts)).items()]
    lines.append(f' "statistics": {_text(statistics)}')
    of_checks = ",\n".join(f"  {_text(_packed_check(check, statistics))}" for check in checks)
    lines.append(f' "checks": [\n{of_checks}\n ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def unpacked(path: Path) -> tuple[dict[str, Any], tuple[Check, ...]]:
    """The facts and the checks of a file; raises `ZooError` for one that is no certificate."""
    try:
        found: dict[str, Any] = json.loads(read(path))
        if found["schema"] != SCHEMA:
            raise ZooError(f"{path} has schema {found['schema']}, and this version reads {SCHEMA}: certify again")
        statistics = found.pop("statistics")
        return found, tuple(_unpacked_check(check, statistics) for check in found.pop("checks"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZooError(f"{path} is no certificate: {error}") from error


def _parts(figure: Figure) -> tuple[str, str] | None:
    """The pattern of a figure's name, and the statistic in it; None for a figure of its own."""
    for pattern, unit in reversed(PATTERNS.items()):
        before, after = pattern.split("{}")
        if figure.unit == unit and figure.name.startswith(before) and figure.name.endswith(after):
            return pattern, figure.name[len(before) : len(figure.name) - len(after)]
    return None


def _packed_check(check: Check, statistics: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(check, name) for name in FACTS} | {"seconds": round(check.seconds, 1)}
    if check.false_alarm is not None:
        found["false_alarm"] = float(f"{check.false_alarm:.3g}")
    table: dict[str, dict[str, Figure]] = {}
    others: dict[tuple[str, float], dict[str, Figure]] = {}
    for figure in check.figures:
        if (parts := _parts(figure)) is not None:
            table.setdefault(parts[0], {})[parts[1]] = figure
        else:
            others.setdefault((figure.unit, figure.limit), {})[figure.name] = figure
    if table:
        limits = {(PATTERNS[pattern], figure.limit) for pattern, column in table.items() for figure in column.values()}
        found["limits"] = dict(limits)
        assert len(found["limits"]) == len(limits), f"{check.name}: figures of one unit have several limits"
        found["table"] = {pattern: _column(column, statistics) for pattern, column in table.items()}
    if others:
        found["figures"] = [
            [*key, {name: short(one.value, one.limit) for name, one in few.items()}] for key, few in others.items()
        ]
    assert len({figure.name for figure in check.figures}) == len(check.figures), f"{check.name}: two figures have one name"
    again = {figure.name: _exact(figure.again) for figure in check.figures if figure.again is not None}
    if again:
        found["again"] = True if all(figure.again == figure.value for figure in check.figures) else again
    found["witness"] = dict(check.witness)
    return {name: value for name, value in found.items() if name not in USUAL or value != USUAL[name]}


def _column(column: Mapping[str, Figure], statistics: Sequence[str]) -> list[Any]:
    """One figure of every statistic, up to the last one that there is."""
    last = max(statistics.index(name) for name in column)
    return [short(column[name].value, column[name].limit) if name in column else None for name in statistics[: last + 1]]


def _unpacked_check(found: Mapping[str, Any], statistics: Sequence[str]) -> Check:
    again = found.get("again", {})

    def figure(name: str, value: Any, limit: float, unit: str) -> Figure:
        rerun = value if again is True else again.get(name)
        return Figure(name, float(value), float(limit), unit, None if rerun is None else float(rerun))

    figures = [
        figure(pattern.format(name), column[place], found["limits"][PATTERNS[pattern]], PATTERNS[pattern])
        for place, name in enumerate(statistics)
        for pattern, column in found.get("table", {}).items()
        if place < len(column) and column[place] is not None
    ]
    figures += [
        figure(name, value, limit, unit) for unit, limit, few in found.get("figures", []) for name, value in few.items()
    ]
    return Check(**{name: {**USUAL, **found}[name] for name in FACTS}, figures=tuple(figures), witness=found["witness"])


def short(value: float, limit: float) -> Any:
    """A figure with few digits, or with all where fewer would carry it over its limit; words for infinities and NaN.

    Beside limits around 1 there is one digit after the point, or two below 1.

    >>> short(1.23456, 3.5), short(3.5001, 3.5), short(0.1234, 1.0), short(57.31, 3.5), short(1.2345e-8, 1e-6)
    (1.2, 3.5001, 0.12, 57, 1.2e-08)
    """
    if not math.isfinite(value):
        return str(value)
    found = round(value, 1 + (abs(value) < 1)) if 0.1 <= limit < 10 and abs(value) < 10 else float(f"{value:.2g}")
    if (abs(found) <= limit) != (abs(value) <= limit):
        return float(value)
    return int(found) if found.is_integer() and abs(found) < 1e6 else found


def _exact(value: float) -> Any:
    """A rerun figure: two limits judge it."""
    return float(value) if math.isfinite(value) else str(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
