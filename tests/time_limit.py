"""The slow tier in CI: as many tests as its time allows, in an order of files that every commit draws anew.

``--until`` is the time in seconds since 1970 at which no further test begins. The summary says how many were left out. Without
the option every test runs.
"""

import random
import time
from typing import Any

import pytest

NO_TIME = "no time was left: see --until"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--until", type=float, default=None, help="begin no test after so many seconds since 1970")
    parser.addoption("--order", default="", help="what the order of files is drawn from, with --until")


def file_of(item: pytest.Item) -> str:
    """The file of a test, whose fixtures its tests share."""
    return item.nodeid.partition("::")[0]


def drawn(items: list[Any], order: str) -> list[Any]:
    """The tests with their files in an order drawn from ``order``; those of a file follow each other as before."""
    files = sorted({file_of(item) for item in items})
    random.Random(order).shuffle(files)
    place = {file: number for number, file in enumerate(files)}
    return sorted(items, key=lambda item: place[file_of(item)])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.until is not None:
        items[:] = drawn(items, config.option.order)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    until = item.config.option.until
    if until is not None and time.time() > until:
        pytest.skip(NO_TIME)


def left_out(skipped: list[Any]) -> list[str]:
    """The names of tests that no time was left for."""
    return [report.nodeid for report in skipped if NO_TIME in str(report.longrepr)]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    found = left_out(terminalreporter.stats.get("skipped", []))
    if found:
        files = sorted({name.partition("::")[0] for name in found})
        terminalreporter.section("left out: no time")
        said = f"{len(found)} tests of {len(files)} files; another commit draws another order"
        terminalreporter.write_line(said, yellow=True)
        for file in files:
            terminalreporter.write_line(f"  {file}")
