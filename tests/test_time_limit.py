"""The time limit of the slow tier: what a change reaches comes first, others as time allows, and what is left out is said."""

from types import SimpleNamespace

import pytest
import time_limit
from time_limit import MORE, NO_TIME, NONE, ORDER, Order

FILES = [f"tests/test_{letter}.py" for letter in "abcdefgh"]


def items_of(files, number):
    return [SimpleNamespace(nodeid=f"{file}::test_{index}") for file in files for index in range(number)]


def files_of(items):
    return [time_limit.file_of(item.nodeid) for item in items]


def test_files_stay_together_in_another_order():
    items = items_of(FILES, 3)
    one, other = (time_limit.in_order(items, (), order) for order in ("first commit", "second commit"))
    assert one != other
    assert one == time_limit.in_order(other, (), "first commit")  # whatever the order that they are found in
    for found in (one, other):
        assert sorted(item.nodeid for item in found) == sorted(item.nodeid for item in items)
        assert all(len(set(files_of(found[begin : begin + 3]))) == 1 for begin in range(0, 24, 3))


@pytest.mark.parametrize("order", ["first commit", "second commit"])
def test_what_the_change_reaches_comes_first(order):
    reached = [FILES[5], FILES[1], "tests/test_without_slow_tests.py"]
    found = files_of(time_limit.in_order(items_of(FILES, 2), reached, order))
    assert found[:4] == [FILES[5], FILES[5], FILES[1], FILES[1]]
    assert set(found[4:]) == set(FILES) - set(reached)


@pytest.mark.parametrize(("until", "number"), [(None, 2), (1e12, 16)])
def test_others_run_only_until_a_time(until, number):
    deselected = []
    hook = SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
    option = SimpleNamespace(since="recorded", until=until, order="")
    items = items_of(FILES, 2)
    config = SimpleNamespace(option=option, hook=hook, stash={ORDER: Order((FILES[3],), {})})
    time_limit.pytest_collection_modifyitems(config, items)
    assert (len(items), len(deselected)) == (number, 16 - number)
    assert files_of(items)[:2] == [FILES[3]] * 2


def test_others_end_in_time_and_what_is_reached_has_more():
    order = Order(("reached",), {"reached": 900.0, "long": 400.0})
    late = {
        name: [now for now in range(0, 2000, 50) if time_limit.is_late(name, now, 1000, order)]
        for name in ("reached", "long", "new")
    }
    assert {name: times[0] for name, times in late.items()} == {"reached": 1050 + MORE, "long": 950, "new": 1050}


@pytest.mark.parametrize(("until", "skips"), [(None, False), (1.0, True), (1e12, False)])
def test_no_test_begins_after_the_end(until, skips):
    config = SimpleNamespace(option=SimpleNamespace(until=until), stash={ORDER: NONE})
    item = SimpleNamespace(config=config, nodeid="a::b")
    if not skips:
        time_limit.pytest_runtest_setup(item)
        return
    with pytest.raises(pytest.skip.Exception, match=NO_TIME):
        time_limit.pytest_runtest_setup(item)


def report_of(name, said="", stop=0.0):
    return SimpleNamespace(nodeid=name, skipped=bool(said), longrepr=("file", 1, f"Skipped: {said}"), stop=stop)


def test_what_is_left_out_is_told_apart():
    reports = [
        report_of("a::1", stop=60.0),
        report_of("a::2", NO_TIME),
        report_of("b::1", "no accelerator", stop=120.0),
        report_of("b::2", NO_TIME),
        report_of("b::2"),  # its teardown
    ]
    reached, others = time_limit.parts_of(reports, ["a"])
    assert (reached.ran, reached.left) == ({"a::1"}, {"a::2"})
    assert (others.ran, others.left) == ({"b::1"}, {"b::2"})
    assert reached.said(0.0) == "1 of 2 tests ran, of 1 files, the last ended after 1.0 minutes"


@pytest.mark.parametrize("left", [True, False])
def test_reached_tests_without_time_are_named(left):
    reports = {"passed": [report_of("a::1")], "skipped": [report_of("a::2", NO_TIME if left else "no accelerator")]}
    for report in [*reports["passed"], *reports["skipped"]]:
        report.duration = 0.0
    plugins = SimpleNamespace(get_plugin=lambda name: SimpleNamespace(stats=reports))
    option = SimpleNamespace(until=1.0, since="recorded")
    config = SimpleNamespace(option=option, stash={ORDER: Order(("a",), {})}, pluginmanager=plugins)
    lines = []
    reporter = SimpleNamespace(
        _session_start=SimpleNamespace(time=0.0), section=lines.append, write_line=lambda line, **_: lines.append(line)
    )
    time_limit.pytest_terminal_summary(reporter, config)
    assert any(line.startswith(time_limit.TOO_LITTLE) and line.endswith("\n  a") for line in lines) is left
