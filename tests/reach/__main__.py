"""`python -m tests.reach`: run slow tests and renew the map of what they reach.

    only=a,b      test files, or folders of them; without it all that the map does not know, or that have changed
    again=true    also those that have passed as they are now
    minutes=30    begin no file after so many minutes
    cache=folder  where compiled programs are kept from one call to the next

The map is written after every file, so that a call that ends early loses one. Two calls for different files may run together.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .chart import Entry, read_map, renew
from .plan import is_current
from .record import begin_with_recorder, recorded
from .tree import ROOT, Tree

MISTAKE, SOME_FAILED = 2, 1
OPTIONS = ("only", "again", "minutes", "cache")
USUAL_CACHE = Path.home() / ".cache" / "bayes-model-zoo-reach"
MARK = "mark.slow"


def slow_files(tree: Tree) -> list[str]:
    """Test files that may have slow tests."""
    tests = sorted(name for name in tree.names if name.startswith("tests/") and Path(name).name.startswith("test_"))
    return [name for name in tests if MARK in (tree.root / name).read_text("utf-8")]


def chosen(files: Sequence[str], only: str) -> list[str]:
    """Those of a list of files and folders; all without a list."""
    wanted = tuple(filter(None, only.split(",")))
    return [file for file in files if not wanted or file.startswith(wanted)]


def main(arguments: Sequence[str]) -> int:
    """Record; returns 0, 1 if tests failed, or 2 for a mistake in the options."""
    given = dict(argument.partition("=")[::2] for argument in arguments)
    if unknown := [key for key in given if key not in OPTIONS]:
        print(f"{unknown[0]!r}: python -m tests.reach takes {', '.join(OPTIONS)}, as key=value", file=sys.stderr)
        return MISTAKE
    until = time.monotonic() + 60 * float(given.get("minutes", "inf"))
    cache = Path(given.get("cache", USUAL_CACHE)).absolute() / "jax"
    cache.mkdir(parents=True, exist_ok=True)
    tree, entries = Tree(), read_map()
    every = slow_files(tree)
    files = chosen(every, given.get("only", ""))
    if given.get("again") != "true":
        files = [file for file in files if not is_current(file, entries, tree)]
    files.sort(key=lambda file: entries[file].seconds if file in entries else 0.0)
    failed = False
    begin_with_recorder()
    for number, file in enumerate(files, 1):
        if time.monotonic() > until:
            break
        entry = recorded(file, cache)
        renew(file, entry, every)
        failed = failed or (entry is not None and not entry.passed and not entry.unseen)
        print(f"{number:4d} of {len(files)}  {said(entry)}  {file}", flush=True)
    return SOME_FAILED if failed else 0


def said(entry: Entry | None) -> str:
    """A line on what was recorded."""
    if entry is None:
        return "no slow tests"
    verdict = "passed" if entry.passed else "unseen" if entry.unseen else "not passed"
    return f"{verdict}  {entry.seconds:7.1f} s  {entry.tests:4d} tests reach {len(entry.reached):4d} files"


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
