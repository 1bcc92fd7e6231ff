"""The slow tier in CI: first all tests that a change can reach, then as many others as time allows.

``--since=recorded`` asks `reach.plan` which test files depend on anything that has changed since their slow tests passed; those
run, the longest files first. With a commit in its place, only changes since that commit count. ``--until`` lets the others
follow, in an order of files that every commit draws anew, so that all get their turn: it is the time in seconds since 1970
after which none of them begins. The summary names what was left out.

Tests that the change reaches have a few minutes more. A change of the core reaches more than an hour of them: they then follow
an order of the commit, too. Those that did not begin are named in red, and stay reached.
"""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

NO_TIME = "no time was left: see --until"
MORE = 300.0  # seconds after --until: in which tests that the change reaches may begin, and others must have ended, if known
TOO_LITTLE = "NOT RUN, though the change reaches them. Run them, and commit the map: uv run --group docs python -m tests.reach"


class Order(NamedTuple):
    """Which test files come first, and how long the longest test of each takes."""

    reached: tuple[str, ...]
    longest: dict[str, float]


NONE = Order((), {})
ORDER = pytest.StashKey[Order]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--since", default="", help="first run what changes reach: since a commit, or what is 'recorded'")
    parser.addoption("--until", type=float, default=None, help="begin no other test after so many seconds since 1970")
    parser.addoption("--order", default="", help="what the order of the other files is drawn from")


def pytest_configure(config: pytest.Config) -> None:
    """The first process makes the plan, and tells its workers."""
    told = getattr(config, "workerinput", {}).get("order")
    if told is not None:
        config.stash[ORDER] = Order(tuple(told[0]), told[1])
    elif config.option.since and not hasattr(config, "workerinput"):
        from reach.plan import planned

        until = config.option.until
        room = {} if until is None else {"time": until + MORE - time.time(), "order": config.option.order}
        config.stash[ORDER] = Order(*planned(config.option.since, **room))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if (order := node.config.stash.get(ORDER, None)) is not None:
        node.workerinput["order"] = [list(order.reached), order.longest]


def file_of(nodeid: str) -> str:
    """The file of a test, whose fixtures its tests share."""
    return nodeid.partition("::")[0]


def in_order(items: list[Any], reached: Iterable[str], order: str) -> list[Any]:
    """The tests by files: those reached as they are, the others drawn from ``order``. Those of a file stay as they are."""
    from reach.plan import drawn

    first = list(reached)
    others = drawn({file_of(item.nodeid) for item in items} - set(first), order)
    place = {file: number for number, file in enumerate([*first, *others])}
    return sorted(items, key=lambda item: place[file_of(item.nodeid)])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.since and config.option.until is None:
        return
    reached = config.stash.get(ORDER, NONE).reached
    if config.option.until is None:
        config.hook.pytest_deselected(items=[item for item in items if file_of(item.nodeid) not in reached])
        items[:] = [item for item in items if file_of(item.nodeid) in reached]
    items[:] = in_order(items, reached, config.option.order)


def is_late(file: str, now: float, until: float, order: Order) -> bool:
    """Whether a test of the file may no longer begin."""
    if file in order.reached:
        return now > until + MORE
    return now + max(0.0, order.longest.get(file, 0.0) - MORE) > until


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    until = item.config.option.until
    if until is not None and is_late(file_of(item.nodeid), time.time(), until, item.config.stash.get(ORDER, NONE)):
        pytest.skip(NO_TIME)


class Part(NamedTuple):
    """What became of the tests of one kind."""

    ran: set[str]
    left: set[str]  # for which no time was left
    ended: float  # when the last of those that ran ended, in seconds since 1970; 0: none ran

    def said(self, begin: float) -> str:
        """In words."""
        files = len({file_of(name) for name in self.ran})
        when = f", the last ended after {(self.ended - begin) / 60:.1f} minutes" if self.ran else ""
        return f"{len(self.ran)} of {len(self.ran | self.left)} tests ran, of {files} files{when}"


def parts_of(reports: Iterable[Any], reached: Iterable[str]) -> tuple[Part, Part]:
    """The tests that the change reaches, and the others."""
    first, found = set(reached), list(reports)
    mine = [[report for report in found if (file_of(report.nodeid) in first) is kind] for kind in (True, False)]
    parts = []
    for some in mine:
        left = {report.nodeid for report in some if report.skipped and NO_TIME in str(report.longrepr)}
        ran = [report for report in some if report.nodeid not in left]
        parts.append(Part({report.nodeid for report in ran}, left, max((report.stop for report in ran), default=0.0)))
    return parts[0], parts[1]


def _parts(config: pytest.Config) -> tuple[Part, Part]:
    stats = config.pluginmanager.get_plugin("terminalreporter").stats
    reports = [report for some in stats.values() for report in some if hasattr(report, "duration")]
    return parts_of(reports, config.stash.get(ORDER, NONE).reached)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.option.since and config.option.until is None:
        return
    reached, others = _parts(config)
    begin = terminalreporter._session_start.time
    terminalreporter.section("slow tests")
    terminalreporter.write_line(f"that the change reaches: {reached.said(begin)}")
    terminalreporter.write_line(f"others: {others.said(begin)}")
    if others.left:
        files = sorted({file_of(name) for name in others.left})
        said = f"{len(others.left)} others of {len(files)} files were left out; another commit draws another order:"
        terminalreporter.write_line("\n  ".join([said, *files]), yellow=True)
    if reached.left:
        terminalreporter.write_line("\n  ".join([TOO_LITTLE, *sorted({file_of(name) for name in reached.left})]), red=True)
