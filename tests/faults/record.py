"""Which tests execute which lines: recorded by `recording`, and read again for as long as sources and tests are the same."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .recording import FOLDER
from .tree import environment

ALL_PASSED, SOME_FAILED = 0, 1  # exit codes of pytest
INDEX = "index.json"  # test file -> its hash when it was recorded


@dataclass(frozen=True)
class Recorded:
    """A test that passed without a fault."""

    test: str
    seconds: float
    lines: dict[str, int]  # by file: the bits of this number are the lines

    def runs(self, file: str, lines: Iterable[int]) -> bool:
        """Whether the test executes one of the lines of the file."""
        mask = self.lines.get(file, 0)
        return any(mask >> line & 1 for line in lines)


def file_of(test: str) -> str:
    """The file of a test."""
    return test.split("::")[0]


def recorded(tree: Path, cache: Path, workers: int) -> list[Recorded]:
    """The default tier of a copy without faults, test by test: test files that are new, or have changed, are run now.

    If models/, inference/ or labs/ have changed, all are.
    """
    folder = cache / f"record-{_digest(tree)}"
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / INDEX
    before = json.loads(index.read_text("utf-8")) if index.exists() else {}
    now = {str(path.relative_to(tree)): _hash(path) for path in sorted((tree / "tests").rglob("test_*.py"))}
    changed = [file for file in now if now[file] != before.get(file)]
    if changed:
        command = [sys.executable, "-m", "pytest", "-p", "tests.faults.recording", "-n", str(workers), *changed]
        for path in folder.glob("*.jsonl"):
            _forget(path, set(changed))
        done = subprocess.run(command, cwd=tree, env=environment(tree, cache) | {FOLDER: str(folder)}, check=False)
        if done.returncode not in (ALL_PASSED, SOME_FAILED):
            raise RuntimeError(f"pytest ended with {done.returncode}: which tests run which lines is not known")
        index.write_text(json.dumps(now), encoding="utf-8")
    return [entry for entry in read(folder) if file_of(entry.test) in now]


def _digest(tree: Path) -> str:
    """A hash of all sources."""
    paths = [path for part in ("models", "inference", "labs") for path in sorted((tree / part).rglob("*.py"))]
    return hashlib.sha256("".join(map(_hash, paths)).encode()).hexdigest()[:16]


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _forget(path: Path, files: set[str]) -> None:
    """Drop the tests of some files."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if file_of(json.loads(line)["test"]) not in files), encoding="utf-8")


def read(folder: Path) -> list[Recorded]:
    """All tests of a record that passed."""
    entries = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text("utf-8").splitlines()]
    return [
        Recorded(entry["test"], entry["seconds"], {file: int(mask, 16) for file, mask in entry["lines"].items()})
        for entry in entries
        if entry["passed"]
    ]
