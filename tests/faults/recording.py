"""A plugin of pytest that writes which lines of models/ and inference/ every test executes, and how long it takes.

Lines of a compiled program are executed while JAX traces it, by the first test of a process that needs it. Functions that Numba
compiles are not seen at all: `nearest` then falls back on tests of the same file.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

FOLDER = "ZOO_FAULTS_RECORD"  # the environment variable that names the folder of the record
ROOT = Path(__file__).parents[2]
SOURCES = tuple(f"{ROOT / part}{os.sep}" for part in ("models", "inference"))
TOOL = sys.monitoring.COVERAGE_ID
seen: dict[str, set[int]] = defaultdict(set)  # lines by file, of the test that runs


def _note(code: CodeType, line: int) -> Any:
    if code.co_filename.startswith(SOURCES):
        seen[code.co_filename].add(line)
    return sys.monitoring.DISABLE  # until the next test


def pytest_configure(config: pytest.Config) -> None:
    sys.monitoring.use_tool_id(TOOL, "faults")
    sys.monitoring.register_callback(TOOL, sys.monitoring.events.LINE, _note)


def as_mask(lines: set[int]) -> str:
    """A set of line numbers as the bits of one number, in hexadecimal digits."""
    return f"{sum(1 << line for line in lines):x}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    seen.clear()
    sys.monitoring.restart_events()
    sys.monitoring.set_events(TOOL, sys.monitoring.events.LINE)
    done = yield
    sys.monitoring.set_events(TOOL, 0)
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    item.stash.setdefault(PHASES, []).append((report.outcome, report.duration))
    if report.when == "teardown":
        _write(item.nodeid, item.stash[PHASES])
    return report


PHASES = pytest.StashKey[list[tuple[str, float]]]()


def _write(test: str, phases: list[tuple[str, float]]) -> None:
    """One line of JSON for a test, in a file for every process."""
    lines = {str(Path(file).relative_to(ROOT)): as_mask(found) for file, found in sorted(seen.items())}
    passed = all(outcome == "passed" for outcome, _ in phases)
    entry = {"test": test, "passed": passed, "seconds": round(sum(seconds for _, seconds in phases), 2), "lines": lines}
    with (Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
