"""Checks as a small JSON file: one line for each check, deviations as a table in tenths, phrases as codes.

`spelled_out` is a check for readers elsewhere, who have no codes.
"""

import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from inference.certificates.checks.figure import CONTROL, Check, Figure, control_of
from inference.certificates.phrases import expanded, shortened
from inference.runtime.files import read
from models.errors import ZooError

SCHEMA = 5
DEVIATION = "deviation"  # the unit of which tables have tenths, as whole numbers
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
USUAL = {"passed": True, "false_alarm": 0.0, "kind": "check"}  # values that are left out
Statistics = Mapping[str, Sequence[str]]  # unit -> the statistics in names of figures


def packed(facts: Mapping[str, Any], checks: Sequence[Check]) -> str:
    """Facts about a certificate, and its checks, as a text."""
    controls = {check.name: _control_in_check(check, checks) for check in checks}
    others = [check for check in checks if check not in controls.values()]
    statistics = _statistics(figure for check in others for figure in check.figures)
    content = {"statistics": statistics, "checks": [_packed_check(check, statistics, controls[check.name]) for check in others]}
    first = {"schema": SCHEMA} | dict(facts) | {"checksum": _checksum(content), "statistics": shortened(statistics)}
    lines = [f' "{name}": {_text(value)}' for name, value in first.items()]
    each = [f"  {_text(check)}" for check in shortened(content["checks"])]
    lines.append(f' "checks": [\n{",\n".join(each)}\n ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def unpacked(path: Path) -> tuple[dict[str, Any], tuple[Check, ...]]:
    """The facts and the checks of a file; raises `ZooError` for one that is no certificate, or whose phrases were others."""
    try:
        facts: dict[str, Any] = json.loads(read(path))
        if facts["schema"] != SCHEMA:
            raise ZooError(f"{path} has schema {facts['schema']}, and this version reads {SCHEMA}: certify again")
        content = expanded({name: facts.pop(name) for name in ("statistics", "checks")})
        if facts.pop("checksum") != _checksum(content):
            raise ZooError(f"{path} is not as it was written: its text or a phrase in it has another checksum; certify again")
        return facts, tuple(each for check in content["checks"] for each in _unpacked_checks(check, content["statistics"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZooError(f"{path} is no certificate: {error}") from error


def _control_in_check(check: Check, checks: Sequence[Check]) -> Check | None:
    """The control of a check, of the same size, which is written into it."""
    name = control_of(check.name)
    return next((each for each in checks if (each.name, each.kind, each.size) == (name, CONTROL, check.size)), None)


def _statistics(figures: Iterable[Figure]) -> dict[str, list[str]]:
    """The statistics in names of figures that have a pattern, by their unit."""
    by_unit: dict[str, dict[str, None]] = {}
    for figure in figures:
        if (parts := _parts(figure)) is not None:
            by_unit.setdefault(figure.unit, {})[parts[1]] = None
    return {unit: list(names) for unit, names in by_unit.items()}


def _parts(figure: Figure) -> tuple[str, str] | None:
    """The pattern of a figure's name, and the statistic in it; None for a figure without a pattern."""
    for pattern, unit in reversed(PATTERNS.items()):
        before, after = pattern.split("{}")
        if figure.unit == unit and figure.name.startswith(before) and figure.name.endswith(after):
            return pattern, figure.name[len(before) : len(figure.name) - len(after)]
    return None


def _packed_check(check: Check, statistics: Statistics, control: Check | None) -> dict[str, Any]:
    """A check, with its control, of which few figures are stored."""
    facts = {name: getattr(check, name) for name in FACTS} | _rounded(check)
    facts_of_check = facts | _packed_figures(check, statistics) | {"witness": dict(check.witness)}
    if control is not None:
        of_control = {name: getattr(control, name) for name in OF_CONTROL} | _rounded(control)
        facts_of_check[CONTROL] = _unusual(of_control | _packed_figures(control, {}) | {"witness": dict(control.witness)})
    return _unusual(facts_of_check)


def _rounded(check: Check) -> dict[str, Any]:
    alarm = {} if check.false_alarm is None else {"false_alarm": float(f"{check.false_alarm:.3g}")}
    return {"seconds": round(check.seconds, 1)} | alarm


def _unusual(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name not in USUAL or value != USUAL[name]}


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
    content: dict[str, Any] = {}
    if table:
        # in order, unlike a set of texts: a certificate is the same bytes in every process
        limits = dict.fromkeys((PATTERNS[name], one.limit) for name, column in table.items() for one in column.values())
        content["limits"] = dict(limits.keys())
        assert len(content["limits"]) == len(limits), f"{check.name}: figures of one unit have several limits"
        content["table"] = {pattern: _column(column, statistics[PATTERNS[pattern]]) for pattern, column in table.items()}
    if others:
        content["figures"] = [
            [*key, {name: short(one.value, one.limit) for name, one in few.items()}] for key, few in others.items()
        ]
    assert len({figure.name for figure in check.figures}) == len(check.figures), f"{check.name}: two figures have one name"
    again = {figure.name: _again(figure.value, figure.again) for figure in check.figures if figure.again is not None}
    if again:
        all_same = len(again) == len(check.figures) and all(rerun is True for rerun in again.values())
        content["again"] = True if all_same else again
    return content


def _column(column: Mapping[str, Figure], statistics: Sequence[str]) -> list[Any]:
    """A figure of every statistic, up to the last one that there is; ``[n]`` in place of n statistics without."""
    last = max(statistics.index(name) for name in column)
    entries: list[Any] = []
    for is_there, names in groupby(statistics[: last + 1], key=lambda name: name in column):
        run = [*names]
        entries += [_entry(column[name]) for name in run] if is_there else [[len(run)]]
    return entries


def _filled(column: Sequence[Any]) -> list[Any]:
    """The inverse of `_column`: an entry of every statistic, None where there is no figure."""
    return [one for entry in column for one in ([None] * entry[0] if isinstance(entry, list) else [entry])]


def _entry(figure: Figure) -> Any:
    """A figure in a table: a deviation as a whole number of tenths, or as text where it is none or very large."""
    value = short(figure.value, figure.limit)
    if figure.unit != DEVIATION or isinstance(value, str):
        return value
    tenths = round(10 * value) if abs(value) < 1e5 else 0
    return tenths if tenths / 10 == value else str(value)


def _value(entry: Any, unit: str) -> float:
    """The inverse of `_entry`."""
    return entry / 10 if unit == DEVIATION and not isinstance(entry, str) else float(entry)


def _unpacked_checks(stored: Mapping[str, Any], statistics: Statistics) -> list[Check]:
    """A check, and its control if it has one."""
    check = _unpacked_check(stored, statistics)
    if CONTROL not in stored:
        return [check]
    facts = {"name": control_of(check.name), "kind": CONTROL, "size": check.size}
    return [check, _unpacked_check(facts | stored[CONTROL], statistics)]


def _unpacked_check(stored: Mapping[str, Any], statistics: Statistics) -> Check:
    again = stored.get("again", {})

    def figure(name: str, value: Any, limit: float, unit: str) -> Figure:
        rerun = again if again is True else again.get(name)
        other = value if rerun is True else rerun
        return Figure(name, float(value), float(limit), unit, None if other is None else float(other))

    table = {pattern: _filled(column) for pattern, column in stored.get("table", {}).items()}
    figures = [
        figure(pattern.format(name), _value(entry, unit), stored["limits"][unit], unit)
        for unit, names in statistics.items()
        for place, name in enumerate(names)
        for pattern, column in table.items()
        if PATTERNS[pattern] == unit and place < len(column) and (entry := column[place]) is not None
    ]
    figures += [
        figure(name, value, limit, unit) for unit, limit, few in stored.get("figures", []) for name, value in few.items()
    ]
    return Check(**{name: {**USUAL, **stored}[name] for name in FACTS}, figures=tuple(figures), witness=stored["witness"])


def spelled_out(check: Check) -> dict[str, Any]:
    """A check with every field of every figure, as JSON has them: without NaN and infinities, which are written as words."""
    return check._asdict() | {"figures": [_spelled_figure(each) for each in check.figures], "witness": dict(check.witness)}


def _spelled_figure(figure: Figure) -> dict[str, Any]:
    return {name: _plain(value) for name, value in figure._asdict().items()} | {"passed": figure.passed}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def short(value: float, limit: float) -> Any:
    """A figure with few digits, or with all where fewer would move it over its limit; words for infinities and NaN.

    With limits from 0.1 to 1 there are two digits after the point, and one with those from 1 to 10.

    >>> short(0.23456, 3.5), short(3.5001, 3.5), short(0.1234, 0.99), short(57.31, 3.5), short(1.2345e-8, 1e-6)
    (0.2, 3.5001, 0.12, 57, 1.2e-08)
    """
    if not math.isfinite(value):
        return str(value)
    rounded = round(value, 1 + (limit <= 1)) if 0.1 <= limit < 10 and abs(value) < 10 else float(f"{value:.2g}")
    if (abs(rounded) <= limit) != (abs(value) <= limit):
        return float(value)
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e6 else rounded


def _again(value: float, rerun: float) -> Any:
    """A rerun figure: true where it is the figure itself, else with all digits, because two limits judge it."""
    return True if rerun == value else float(rerun) if math.isfinite(rerun) else str(rerun)


def _checksum(content: Mapping[str, Any]) -> str:
    """Of statistics and checks with their phrases: a changed phrase must not go unnoticed."""
    return f"{zlib.crc32(_text(content).encode()):08x}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
