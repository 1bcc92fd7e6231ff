"""Checks as a small JSON file: deviations as a table of statistics, every check on a line of its own."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inference.certificates.checks.figure import CONTROL, Check, Figure, control_of
from inference.runtime.files import read
from models.errors import ZooError

SCHEMA = 4
PATTERNS = {  # of the names of figures that there are one of for every statistic: their unit
    "{}": "deviation",
    "{}, spread": "deviation",
    "{}, lower tail": "deviation",
    "{}, upper tail": "deviation",
    "share of {} in its 90% interval": "share",
    "shift of {}": "sd",
    "spread that {} needs": "sd",
    "{} of fitted rows": "relative",
    "{} of new rows": "relative",
}
FACTS = ("name", "says", "passed", "false_alarm", "kind", "seconds", "size")  # of a check
OF_CONTROL = ("says", "passed", "false_alarm", "seconds")  # name, kind and size follow from the check that it is the control of
USUAL = {"passed": True, "false_alarm": 0.0, "kind": "check"}  # what is left out
Statistics = Mapping[str, Sequence[str]]  # unit -> the statistics in names of figures


def packed(facts: Mapping[str, Any], checks: Sequence[Check]) -> str:
    """Facts about a certificate, and its checks, as a text."""
    controls = {check.name: _control_beside(check, checks) for check in checks}
    others = [check for check in checks if check not in controls.values()]
    statistics = _statistics(figure for check in others for figure in check.figures)
    lines = [f' "{name}": {_text(value)}' for name, value in ({"schema": SCHEMA} | dict(facts)).items()]
    lines.append(f' "statistics": {_text(statistics)}')
    each = [_packed_check(check, statistics, controls[check.name]) for check in others]
    lines.append(f' "checks": [\n{",\n".join(f"  {_text(check)}" for check in each)}\n ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def unpacked(path: Path) -> tuple[dict[str, Any], tuple[Check, ...]]:
    """The facts and the checks of a file; raises `ZooError` for one that is no certificate."""
    try:
        found: dict[str, Any] = json.loads(read(path))
        if found["schema"] != SCHEMA:
            raise ZooError(f"{path} has schema {found['schema']}, and this version reads {SCHEMA}: certify again")
        statistics = found.pop("statistics")
        return found, tuple(each for check in found.pop("checks") for each in _unpacked_checks(check, statistics))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZooError(f"{path} is no certificate: {error}") from error


def _control_beside(check: Check, checks: Sequence[Check]) -> Check | None:
    """The control of a check, of the same size, which is written into it."""
    name = control_of(check.name)
    return next((each for each in checks if (each.name, each.kind, each.size) == (name, CONTROL, check.size)), None)


def _statistics(figures: Iterable[Figure]) -> dict[str, list[str]]:
    """The statistics in names of figures that have a pattern, by their unit."""
    found: dict[str, dict[str, None]] = {}
    for figure in figures:
        if (parts := _parts(figure)) is not None:
            found.setdefault(figure.unit, {})[parts[1]] = None
    return {unit: list(names) for unit, names in found.items()}


def _parts(figure: Figure) -> tuple[str, str] | None:
    """The pattern of a figure's name, and the statistic in it; None for a figure of its own."""
    for pattern, unit in reversed(PATTERNS.items()):
        before, after = pattern.split("{}")
        if figure.unit == unit and figure.name.startswith(before) and figure.name.endswith(after):
            return pattern, figure.name[len(before) : len(figure.name) - len(after)]
    return None


def _packed_check(check: Check, statistics: Statistics, control: Check | None) -> dict[str, Any]:
    """A check, with its control, of which few figures are kept."""
    facts = {name: getattr(check, name) for name in FACTS} | _rounded(check)
    found = facts | _packed_figures(check, statistics) | {"witness": dict(check.witness)}
    if control is not None:
        own = {name: getattr(control, name) for name in OF_CONTROL} | _rounded(control)
        found[CONTROL] = _unusual(own | _packed_figures(control, {}) | {"witness": dict(control.witness)})
    return _unusual(found)


def _rounded(check: Check) -> dict[str, Any]:
    alarm = {} if check.false_alarm is None else {"false_alarm": float(f"{check.false_alarm:.3g}")}
    return {"seconds": round(check.seconds, 1)} | alarm


def _unusual(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in USUAL or value != USUAL[name]}


def _packed_figures(check: Check, statistics: Statistics) -> dict[str, Any]:
    """A table of the figures of ``statistics``, and the others by their unit and limit."""
    table: dict[str, dict[str, Figure]] = {}
    others: dict[tuple[str, float], dict[str, Figure]] = {}
    for figure in check.figures:
        parts = _parts(figure)
        if parts is not None and parts[1] in statistics.get(figure.unit, ()):
            table.setdefault(parts[0], {})[parts[1]] = figure
        else:
            others.setdefault((figure.unit, figure.limit), {})[figure.name] = figure
    found: dict[str, Any] = {}
    if table:
        limits = {(PATTERNS[pattern], figure.limit) for pattern, column in table.items() for figure in column.values()}
        found["limits"] = dict(limits)
        assert len(found["limits"]) == len(limits), f"{check.name}: figures of one unit have several limits"
        found["table"] = {pattern: _column(column, statistics[PATTERNS[pattern]]) for pattern, column in table.items()}
    if others:
        found["figures"] = [
            [*key, {name: short(one.value, one.limit) for name, one in few.items()}] for key, few in others.items()
        ]
    assert len({figure.name for figure in check.figures}) == len(check.figures), f"{check.name}: two figures have one name"
    again = {figure.name: _exact(figure.again) for figure in check.figures if figure.again is not None}
    if again:
        found["again"] = True if all(figure.again == figure.value for figure in check.figures) else again
    return found


def _column(column: Mapping[str, Figure], statistics: Sequence[str]) -> list[Any]:
    """One figure of every statistic, up to the last one that there is."""
    last = max(statistics.index(name) for name in column)
    return [short(column[name].value, column[name].limit) if name in column else None for name in statistics[: last + 1]]


def _unpacked_checks(found: Mapping[str, Any], statistics: Statistics) -> list[Check]:
    """A check, and its control if it has one."""
    check = _unpacked_check(found, statistics)
    if CONTROL not in found:
        return [check]
    facts = {"name": control_of(check.name), "kind": CONTROL, "size": check.size}
    return [check, _unpacked_check(facts | found[CONTROL], statistics)]


def _unpacked_check(found: Mapping[str, Any], statistics: Statistics) -> Check:
    again = found.get("again", {})

    def figure(name: str, value: Any, limit: float, unit: str) -> Figure:
        rerun = value if again is True else again.get(name)
        return Figure(name, float(value), float(limit), unit, None if rerun is None else float(rerun))

    figures = [
        figure(pattern.format(name), value, found["limits"][unit], unit)
        for unit, names in statistics.items()
        for place, name in enumerate(names)
        for pattern, column in found.get("table", {}).items()
        if PATTERNS[pattern] == unit and place < len(column) and (value := column[place]) is not None
    ]
    figures += [
        figure(name, value, limit, unit) for unit, limit, few in found.get("figures", []) for name, value in few.items()
    ]
    return Check(**{name: {**USUAL, **found}[name] for name in FACTS}, figures=tuple(figures), witness=found["witness"])


def short(value: float, limit: float) -> Any:
    """A figure with few digits, or with all where fewer would carry it over its limit; words for infinities and NaN.

    Beside limits from 0.1 to 1 there are two digits after the point, and one beside those from 1 to 10.

    >>> short(0.23456, 3.5), short(3.5001, 3.5), short(0.1234, 0.99), short(57.31, 3.5), short(1.2345e-8, 1e-6)
    (0.2, 3.5001, 0.12, 57, 1.2e-08)
    """
    if not math.isfinite(value):
        return str(value)
    found = round(value, 1 + (limit <= 1)) if 0.1 <= limit < 10 and abs(value) < 10 else float(f"{value:.2g}")
    if (abs(found) <= limit) != (abs(value) <= limit):
        return float(value)
    return int(found) if found.is_integer() and abs(found) < 1e6 else found


def _exact(value: float) -> Any:
    """A rerun figure: two limits judge it."""
    return float(value) if math.isfinite(value) else str(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
