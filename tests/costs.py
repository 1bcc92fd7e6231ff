"""What tests cost: the ten most expensive are printed, and in CI a budget of compiled programs holds the default tier.

Compilation is most of what a test costs. Its number of programs says more of a test than its seconds, which depend on the
machine. A program counts once a session: workers share a cache of what they compile.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import jax
import pytest
import two_stage

SHOWN = 10
COMPILED, STATISTICS = "compiled_programs", "statistics"
NOT_IN_CACHE = "/jax/compilation_cache/cache_misses"
compiled = 0  # programs that this process has compiled


def _count(event: str, **_: Any) -> None:
    global compiled
    compiled += event == NOT_IN_CACHE


jax.monitoring.register_event_listener(_count)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("compiled_programs", "how many programs the default tier may compile", default="0")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Tell every phase of a test what it has compiled, and how many statistics it has looked at, since the phase before."""
    global compiled
    report = yield
    report.user_properties += [(COMPILED, compiled), (STATISTICS, two_stage.counted)]
    compiled = two_stage.counted = 0
    return report


def _total(reports: list[Any], name: str) -> int:
    return sum(value for report in reports for key, value in report.user_properties if key == name)


def _phases(config: pytest.Config) -> list[Any]:
    found = config.pluginmanager.get_plugin("terminalreporter").stats
    return [report for reports in found.values() for report in reports if hasattr(report, "duration")]


def over_budget(config: pytest.Config) -> str:
    """Why the default tier costs too much, or nothing: asked of the whole default tier in CI alone."""
    of_testpaths = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    whole = config.option.markexpr == "not slow" and not config.option.keyword and of_testpaths
    budget, used = int(config.getini("compiled_programs")), _total(_phases(config), COMPILED)
    if not os.environ.get("CI") or not whole or used <= budget:
        return ""
    return f"the default tier compiled {used} programs, and its budget is {budget}: share shapes, or mark tests slow"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput") and session.exitstatus == pytest.ExitCode.OK and over_budget(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    phases = _phases(config)
    by_test = defaultdict(list)
    for report in phases:
        by_test[report.nodeid].append(report)
    rows = [(sum(part.duration for part in parts), _total(parts, COMPILED), name) for name, parts in by_test.items()]
    terminalreporter.section("most expensive tests")
    for seconds, programs, name in sorted(rows, reverse=True)[:SHOWN]:
        terminalreporter.write_line(f"{seconds:6.1f} s {programs:5d} programs  {name}")
    statistics = _total(phases, STATISTICS)
    terminalreporter.write_line(f"{sum(row[1] for row in rows)} programs compiled by {len(rows)} tests")
    terminalreporter.write_line(
        f"{statistics} statistics looked at: false alarms with probability {statistics * two_stage.FALSE_ALARM:.1e} at most"
    )
    if over_budget(config):
        terminalreporter.write_line(over_budget(config), red=True)
