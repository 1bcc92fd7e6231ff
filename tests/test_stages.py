"""The account of CPU seconds: a stage within another is not counted twice, and tables add up."""

from types import SimpleNamespace

from stages import COMPILED, FIXTURES, SPENT, Clock, tables


def test_a_stage_within_another_is_counted_once():
    clock = Clock()
    clock.begins("trace", 1.0)
    clock.begins("compile", 3.0)
    clock.ends(7.0)
    clock.ends(8.0)
    clock.tick(10.0)
    assert clock.taken() == {"else": 3.0, "trace": 3.0, "compile": 4.0}
    assert clock.taken() == {}


def test_an_end_without_a_beginning_changes_nothing():
    clock = Clock()
    clock.ends(2.0)
    clock.tick(5.0)
    assert clock.taken() == {"else": 5.0}


def test_tables_add_up_by_file():
    def report(name, seconds, programs):
        given = [(SPENT, {"compile": seconds, "processes": 1.0}), (COMPILED, programs), (FIXTURES, [("rows", 2.0)])]
        return SimpleNamespace(nodeid=name, user_properties=given)

    lines = list(tables([report("a.py::one", 3.0, 1), report("a.py::two", 4.0, 2), report("b.py::one", 20.0, 5)]))
    rows = {line.split(maxsplit=7)[-1]: line.split()[:7] for line in lines[1:4]}
    assert rows["all tests"] == ["30.0", "0.0", "0.0", "27.0", "0.0", "3.0", "8"]
    assert rows["a.py"] == ["9.0", "0.0", "0.0", "7.0", "0.0", "2.0", "3"]
    assert list(rows) == ["all tests", "b.py", "a.py"]
    assert lines[5].split() == ["4.0", "2", "rows", "of", "a.py"]
