"""The time limit of the slow tier: what is left out is said, and files come in an order that commits draw."""

from types import SimpleNamespace

import pytest
import time_limit


def items_of(files, number):
    return [SimpleNamespace(nodeid=f"{file}::test_{index}") for file in files for index in range(number)]


def test_files_stay_together_in_another_order():
    items = items_of([f"tests/test_{letter}.py" for letter in "abcdefgh"], 3)
    one, other = (time_limit.drawn(items, order) for order in ("first commit", "second commit"))
    assert one != other
    assert one == time_limit.drawn(other, "first commit")  # whatever the order that they are found in
    for found in (one, other):
        assert sorted(item.nodeid for item in found) == sorted(item.nodeid for item in items)
        assert all(len({time_limit.file_of(item) for item in found[begin : begin + 3]}) == 1 for begin in range(0, 24, 3))


@pytest.mark.parametrize(("until", "skips"), [(None, False), (1.0, True), (1e12, False)])
def test_no_test_begins_after_the_end(until, skips):
    item = SimpleNamespace(config=SimpleNamespace(option=SimpleNamespace(until=until)))
    if not skips:
        time_limit.pytest_runtest_setup(item)
        return
    with pytest.raises(pytest.skip.Exception) as raised:
        time_limit.pytest_runtest_setup(item)
    skipped = [SimpleNamespace(nodeid="a::b", longrepr=("file", 1, f"Skipped: {raised.value}"))]
    others = [SimpleNamespace(nodeid="c::d", longrepr=("file", 1, "Skipped: no accelerator"))]
    assert time_limit.left_out(skipped + others) == ["a::b"]
