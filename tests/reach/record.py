"""Runs the slow tests of one file in a fresh process, and reads what they have reached.

JAX runs the code of a program when it traces it, which only the first call in a process does; caches and fixtures hide code
from later tests in the same way. So every test file has a process of its own, with nothing in memory. What lies on disk hides
nothing: JAX's own cache is looked up after tracing, and `inference.runtime.programs`, which keeps traces, does so only where
the variable ``JAX_COMPILATION_CACHE_DIR`` is not set. `values` sees to Numba's functions, which never run as Python code.
"""

import os
import subprocess
import sys
import sysconfig
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from .chart import Entry
from .tree import ROOT, Tree

VARIABLE = "ZOO_REACH"
ALL_PASSED, NO_TESTS = 0, 5  # exit codes of pytest
# An environment of its own, where nobody records; and a test of what imports alone do
UNSEEN = ("tests/test_wheel.py", "tests/test_imports.py")
STARTS = Path(sysconfig.get_path("purelib")) / "zoo_reach.pth"


def begin_with_recorder() -> None:
    """Every Python of this environment does, where the variable is set. The line stays: another command may record as well."""
    path = str(Path(__file__).with_name("recorder.py"))
    code = f"with open({path!r}) as file: exec(compile(file.read(), {path!r}, 'exec'), {{'__file__': {path!r}}})"
    STARTS.write_text(f"import os; {VARIABLE!r} in os.environ and exec({code!r})\n", encoding="utf-8")


def recorded(test_file: str, cache: Path, root: Path = ROOT) -> Entry | None:
    """Run its slow tests; none if it has none."""
    begin = time.time()
    with TemporaryDirectory(prefix="reach-") as folder:
        lines, outcomes = Path(folder) / "lines", Path(folder) / "outcomes.xml"
        command = [sys.executable, "-m", "pytest", "-m", "slow", "-n", "0", "-p", "no:cacheprovider", f"--junitxml={outcomes}"]
        shared = {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "CI": "true"}
        variables = {key: value for key, value in os.environ.items() if key != "RELEASE"} | shared | {VARIABLE: str(lines)}
        with (cache.parent / f"{Path(test_file).stem}.log").open("w") as log:
            done = subprocess.run([*command, test_file], cwd=root, env=variables, check=False, stdout=log, stderr=log)
        if done.returncode == NO_TESTS:
            return None
        seconds, ran = outcomes_of(outcomes.read_text("utf-8")) if outcomes.exists() else ([], 0)
        said = lines.read_text("utf-8").splitlines() if lines.exists() else []
    tree = Tree(root)
    reached = with_makers(test_file, understood(said, tree), made(said), tree)
    unseen = test_file in UNSEEN or "unseen" in said
    certain = done.returncode == ALL_PASSED and ran and not unseen
    certain = certain and not tree.changed_since(begin, tree.depends(test_file, reached))
    passed = tree.digest(test_file, reached) if certain else ""
    return Entry(len(seconds), round(sum(seconds), 1), round(max(seconds, default=0.0), 1), passed, reached, unseen)


def made(said: Iterable[str]) -> dict[str, set[str]]:
    """The files whose functions ran when a file was imported, from the recorder's lines."""
    found: dict[str, set[str]] = {}
    for line in said:
        if line.startswith("made "):
            _, file, maker = line.split(" ")
            found.setdefault(file, set()).add(maker)
    return found


def with_makers(test_file: str, reached: set[str], made: Mapping[str, set[str]], tree: Tree) -> frozenset[str]:
    """What is reached, with the files that made values of what is reached."""
    depends = tree.depends(test_file, reached)
    more = set().union(*(makers for file, makers in made.items() if file in depends)) & tree.names - depends
    return with_makers(test_file, reached | more, made, tree) if more else frozenset(reached)


def understood(said: Iterable[str], tree: Tree) -> set[str]:
    """Files and folders of the project that the recorder's lines tell of; test files and their helpers are found otherwise."""
    found = set()
    for line in said:
        kind, _, rest = line.partition(" ")
        if kind == "named":
            found.add(tree.file_of(rest) or "")
        elif kind == "list":
            found.add(f"{rest}/")
        elif kind != "made":
            found.add(rest)
    known = {name for name in found if name in tree.names or name in tree.folders}
    return {name for name in known if not (name.startswith("tests/") and name.endswith((".py", "/")))}


def outcomes_of(report: str) -> tuple[list[float], int]:
    """(seconds of every test, how many of them were not skipped), from pytest's report in XML."""
    cases = list(ET.fromstring(report).iter("testcase"))
    return [float(case.get("time", "0")) for case in cases], sum(case.find("skipped") is None for case in cases)
