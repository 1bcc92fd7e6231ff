"""Where the CPU seconds of a run go: ``--stages`` prints them by stage, by file and by fixture.

JAX reports when it begins and ends to trace, to lower and to compile. What a process has used in between belongs to the
innermost of these, on all its threads; all else is execution and plain Python. Tests of processes report these apart.
"""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import jax
import pytest

STAGES = ("trace", "lower", "compile", "else", "processes")
EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
SPENT, FIXTURES, COMPILED = "stages", "fixtures", "compiled_programs"
MOST = 40  # files, and fixtures


class Clock:
    """CPU seconds of this process by stage, without those of the stages within."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._within = ["else"]
        self._last = 0.0

    def tick(self, now: float) -> None:
        """What has been used since the last tick belongs to the innermost stage."""
        self.spent[self._within[-1]] += now - self._last
        self._last = now

    def begins(self, stage: str, now: float) -> None:
        self.tick(now)
        self._within.append(stage)

    def ends(self, now: float) -> None:
        self.tick(now)
        if len(self._within) > 1:
            self._within.pop()

    def taken(self) -> dict[str, float]:
        """All since the last call."""
        found, self.spent = dict(self.spent), Counter()
        return found


clock, fixtures, imported = Clock(), list[tuple[str, float]](), dict[str, float]()
_processes = 0.0  # CPU seconds of processes that have ended


def _begins(event: str, *_: Any, **__: Any) -> None:
    if event in EVENTS:
        clock.begins(EVENTS[event], time.process_time())


def _ends(event: str, *_: Any, **__: Any) -> None:
    if event in EVENTS:
        clock.ends(time.process_time())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stages", action="store_true", help="where the CPU seconds go: by stage, file and fixture")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.stages:
        jax.monitoring.register_scalar_listener(_begins)
        jax.monitoring.register_event_duration_secs_listener(_ends)


def pytest_collection_finish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["imported"] = time.process_time()
    clock.tick(time.process_time())
    clock.taken()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    imported[node.gateway.id] = getattr(node, "workeroutput", {}).get("imported", 0.0)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[Any]:
    begun = time.process_time()
    try:
        return (yield)
    finally:
        fixtures.append((fixturedef.argname, time.process_time() - begun))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    global _processes
    report = yield
    if item.config.option.stages:
        clock.tick(time.process_time())
        ended = sum(os.times()[2:4])
        spent, _processes = clock.taken() | {"processes": ended - _processes}, ended
        report.user_properties += [(SPENT, spent), (FIXTURES, list(fixtures))]
        fixtures.clear()
    return report


def _properties(reports: list[Any], name: str) -> list[Any]:
    return [value for report in reports for key, value in report.user_properties if key == name]


def _sum(parts: list[dict[str, float]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total


def tables(reports: list[Any]) -> Iterator[str]:
    """By stage, by file and by fixture, the most expensive first."""
    by_file, of_fixtures = defaultdict(list), defaultdict(list)
    for report in reports:
        by_file[report.nodeid.partition("::")[0]].append(report)
        for name, seconds in (each for found in _properties([report], FIXTURES) for each in found):
            of_fixtures[f"{name} of {report.nodeid.partition('::')[0]}"].append(seconds)
    rows = [(_sum(_properties(found, SPENT)), found, name) for name, found in [("all tests", reports), *by_file.items()]]
    rows.sort(key=lambda row: -row[0].total())
    yield f"{'CPU s':>7} {' '.join(f'{stage:>9}' for stage in STAGES)} programs"
    for spent, found, name in rows[: MOST + 1]:
        parts = " ".join(f"{spent[stage]:9.1f}" for stage in STAGES)
        yield f"{spent.total():7.1f} {parts} {sum(_properties(found, COMPILED)):8d}  {name}"
    yield f"{'CPU s':>7} {'times':>6}  fixture"
    for name, seconds in sorted(of_fixtures.items(), key=lambda row: -sum(row[1]))[:MOST]:
        if sum(seconds) > 0.5:
            yield f"{sum(seconds):7.1f} {len(seconds):6d}  {name}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.option.stages:
        terminalreporter.section("stages")
        found = [report for reports in terminalreporter.stats.values() for report in reports if hasattr(report, "duration")]
        for line in tables(found):
            terminalreporter.write_line(line)
        workers = " + ".join(f"{seconds:.1f}" for seconds in imported.values()) or "not known"
        terminalreporter.write_line(f"CPU seconds of imports and collection, by worker: {workers}")
        used = time.process_time() + sum(os.times()[2:4])
        terminalreporter.write_line(f"CPU seconds of the whole run, with all that has ended: {used:.1f}")
