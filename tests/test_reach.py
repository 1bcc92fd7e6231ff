"""Which slow tests a change can reach, on small projects that are made up here."""

import subprocess
import sys
import textwrap

import pytest
from reach import __main__ as command
from reach.chart import MAP, Entry, read_map, renew, write_map
from reach.plan import RECORDED, Plan, changed, drawn, plan, shared_out
from reach.record import made, outcomes_of, understood, with_makers
from reach.recorder import VARIABLE
from reach.tree import ROOT, Tree, settings
from reach.values import Taken, parsed

LARGEST = 200_000  # bytes of the map
FILES = {
    ".gitignore": "",
    "pyproject.toml": '[project]\ndependencies = ["numpy"]\n[tool.ruff]\nline-length = 128\n',
    "models/table.py": "KINDS = ('a', 'b')\n\ndef plain(): return 1\n",
    "models/loops.py": "from models.made import compiled\n\n@compiled\ndef loop(): return 1\n",
    "models/made.py": "def compiled(function): return function\n",
    "models/one.py": "from models.table import KINDS\n\ndef build(): return KINDS\n",
    "models/two.py": "from models.loops import loop\nfrom models.one import build\n\ndef other(): return loop()\n",
    "models/conf/one.yaml": "a: 1\n",
    "tests/conftest.py": "",
    "tests/oracles/naive.py": "",
    "tests/test_one.py": "import naive\n",
    "tests/test_two.py": "",
    "tests/test_new.py": "",
}
REACHED = {
    "tests/test_one.py": ["models/one.py", "models/conf/"],
    "tests/test_two.py": ["models/two.py", "models/conf/one.yaml"],
}
TESTS = ["tests/test_one.py", "tests/test_two.py"]


def put(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def git(root, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path):
    """A project, committed, and a map of it in which all has passed."""
    for name, text in FILES.items():
        put(tmp_path, name, text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "all")
    tree = Tree(tmp_path)
    entries = {file: Entry(2, 9.0, 5.0, tree.digest(file, names), frozenset(names)) for file, names in REACHED.items()}
    return tmp_path, entries


CHANGES = {  # file -> test files that it reaches
    "models/one.py": {"tests/test_one.py"},
    "models/two.py": {"tests/test_two.py"},
    "models/table.py": {"tests/test_one.py"},  # a constant of it is used; nothing of `two` takes one
    "models/loops.py": {"tests/test_two.py"},  # nobody sees compiled functions run
    "models/conf/one.yaml": {"tests/test_two.py"},  # the other lists names alone
    "tests/oracles/naive.py": {"tests/test_one.py"},
    "tests/test_two.py": {"tests/test_two.py"},
    "tests/conftest.py": set(TESTS),
}


@pytest.mark.parametrize("since", [RECORDED, "HEAD"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_reaches(project, name, since):
    root, entries = project
    put(root, name, FILES[name] + "\n# changed\n")
    assert set(plan(TESTS, since, Tree(root), entries).reached) == CHANGES[name]


@pytest.mark.parametrize("since", [RECORDED, "HEAD"])
def test_nothing_has_changed(project, since):
    root, entries = project
    assert plan(TESTS, since, Tree(root), entries).reached == ()
    assert plan([*TESTS, "tests/test_new.py"], since, Tree(root), entries).reached == ("tests/test_new.py",)


@pytest.mark.parametrize("since", [RECORDED, "HEAD"])
def test_a_new_file_reaches_who_lists_its_folder(project, since):
    """One that nobody lists or imports is reached by nobody; the rule for a commit, which is older than the map, takes all."""
    root, entries = project
    put(root, "models/conf/two.yaml", "")
    assert "tests/test_one.py" in plan(TESTS, since, Tree(root), entries).reached


def test_what_an_import_ran_counts_for_those_who_take_from_it(project):
    tree = Tree(project[0])
    lines = ["made models/table.py models/made.py", "made models/made.py models/loops.py", "run models/two.py"]
    found = {file: with_makers(file, set(REACHED[file]), made(lines), tree) - set(REACHED[file]) for file in TESTS}
    assert found == {"tests/test_one.py": {"models/made.py", "models/loops.py"}, "tests/test_two.py": set()}


def test_a_file_that_goes_is_a_change(project):
    root, entries = project
    (root / "models/two.py").unlink()
    assert plan(TESTS, RECORDED, Tree(root), entries).reached == ("tests/test_two.py",)


def test_versions_reach_everything_and_line_lengths_nothing(project):
    root, entries = project
    text = FILES["pyproject.toml"]
    put(root, "pyproject.toml", text.replace("128", "100"))
    assert plan(TESTS, RECORDED, Tree(root), entries).reached == ()
    put(root, "pyproject.toml", text.replace("numpy", "numpy>=2"))
    assert set(plan(TESTS, RECORDED, Tree(root), entries).reached) == set(TESTS)
    assert "pyproject.toml" not in changed(Tree(root), "HEAD")
    assert len(settings(text)) < len(settings(text.replace("numpy", "numpy>=2")))


def test_a_commit_narrows_what_is_recorded(project):
    """A change before the commit does not count, one that the map does not know counts for all that have not passed since."""
    root, entries = project
    put(root, "models/one.py", "def build(): return 2\n")
    git(root, "commit", "-qam", "one")
    put(root, "models/two.py", "def other(): return 2\n")
    assert set(plan(TESTS, RECORDED, Tree(root), entries).reached) == set(TESTS)
    assert plan(TESTS, "HEAD", Tree(root), entries).reached == ("tests/test_two.py",)
    put(root, "models/unknown.py", "")
    assert set(plan(TESTS, "HEAD", Tree(root), entries).reached) == set(TESTS)


def test_what_has_not_passed_is_reached_the_longest_first(project):
    root, entries = project
    failed = {file: entry._replace(passed="", seconds=float(number)) for number, (file, entry) in enumerate(entries.items())}
    found = plan([*TESTS, "tests/test_new.py"], RECORDED, Tree(root), failed)
    assert found.reached == ("tests/test_new.py", "tests/test_two.py", "tests/test_one.py")
    assert found.longest == dict.fromkeys(TESTS, 5.0)


def test_the_map_survives_the_way_to_disk(tmp_path):
    path = tmp_path / "map.json"
    one = {"a": Entry(3, 1.5, 1.0, "abc", frozenset({"x", "z"})), "b": Entry(1, 0.1, 0.1, "", frozenset(), True)}
    assert read_map(path) == {}
    for entries in (one, one | {"c": Entry(1, 2.0, 2.0, "d", frozenset({"w", "z"}))}):
        write_map(entries, path)
        assert read_map(path) == entries
    renew("d", Entry(1, 1.0, 1.0, "e", frozenset({"v"})), ["b", "d"], path)
    renew("a", None, ["a", "b", "d"], path)
    assert set(read_map(path)) == {"b", "d"}
    assert [file.name for file in tmp_path.iterdir()] == ["map.json"]
    assert MAP.stat().st_size < LARGEST


def test_what_a_file_takes():
    source = """
    import models.table
    from typing import TYPE_CHECKING
    from functools import cache
    from models import one, two as second
    from . import beside
    from .table import KINDS

    if TYPE_CHECKING:
        from models.base import Model

    @cache
    def f(): return one.build(second)
    @compiled
    def g(): return one.TABLE
    """
    known = {"models.table", "models.one", "models.two", "models.beside", "models.base"}
    found = parsed(textwrap.dedent(source), "models", known.__contains__)
    assert found.functions == {"f"}
    assert set(found.taken) == {
        Taken("models.table", None),
        Taken("models.table", "KINDS"),
        Taken("models.one", "build"),
        Taken("models.one", "TABLE"),
        Taken("models.two", None),
        Taken("models.beside", None),
    }
    assert found.for_types == (Taken("models.base", "Model"),)


PROGRAM = """
import subprocess, sys
from importlib import import_module
from pathlib import Path
import models.datasets.raters
from models.errors import did_you_mean

import_module("models.mixtures.weights")
did_you_mean("a", ["b"])
(Path(PROJECT) / "README.md").read_text()
list((Path(PROJECT) / "models").iterdir())
subprocess.run([sys.executable, "-c", "pass", Path(PROJECT) / "LICENSE"], env={} if LAST else None)
"""


@pytest.mark.parametrize("last", [False, True])
def test_the_recorder_tells_what_a_process_reaches(tmp_path, last):
    """Functions that run, files and folders that are read, and child processes; imports alone are nothing."""
    recorder = ROOT / "tests" / "reach" / "recorder.py"
    begin = f"__file__ = {str(recorder)!r}\nexec(compile(open(__file__).read(), __file__, 'exec'), globals())\n"
    lines = tmp_path / "lines"
    program = f"{begin}\nPROJECT, LAST = {str(ROOT)!r}, {last}\n{PROGRAM}"
    variables = {"PYTHONPATH": str(ROOT), VARIABLE: str(lines)}
    subprocess.run([sys.executable, "-c", program], env=variables, cwd=tmp_path, check=True)
    said = lines.read_text("utf-8").splitlines()
    assert "made models/datasets/raters.py models/datasets/raters.py" in said  # which computes its table
    assert ("unseen" in said) is last
    found = understood(said, Tree())
    assert found == {"models/errors.py", "models/mixtures/weights.py", "README.md", "models/", "LICENSE"}


def test_orders_are_drawn():
    files = [f"tests/test_{letter}.py" for letter in "abcdefgh"]
    assert drawn(files, "one commit") == drawn(files[::-1], "one commit") != drawn(files, "another")
    assert sorted(drawn(files, "one commit")) == files


def test_options_of_the_command(capsys):
    assert command.main(["many=2"]) == command.MISTAKE
    assert "only, again, minutes, cache" in capsys.readouterr().err
    assert command.chosen(["tests/a/x.py", "tests/b.py"], "tests/a,tests/c") == ["tests/a/x.py"]


def test_what_was_skipped_has_not_passed():
    report = '<testsuites><testsuite><testcase time="1.5"/><testcase time="0.5"><skipped/></testcase></testsuite></testsuites>'
    assert outcomes_of(report) == ([1.5, 0.5], 1)


def test_where_time_is_short_every_commit_draws_another_order():
    """Two cores: 100 seconds of tests need 50; a file that the map does not know counts as a minute."""
    files = tuple(f"tests/test_{place}.py" for place in range(5))
    entries = {file: Entry(1, 20.0, 5.0, "", frozenset()) for file in files}
    longest_first = Plan(files, {})
    assert shared_out(longest_first, entries, 50.0, "a commit") == longest_first
    orders = {shared_out(longest_first, entries, 49.0, f"commit {number}").reached for number in range(20)}
    assert len(orders) > 10
    assert all(sorted(order) == sorted(files) for order in orders)
    unknown = {file: entries[file] for file in files[1:]}
    assert shared_out(longest_first, unknown, 69.0, "a commit") != longest_first
