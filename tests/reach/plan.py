"""Which slow tests a change can reach.

A test file is current while nothing that its outcome depends on differs from when all its slow tests passed. A change can reach
those that are not current, and those that the map does not know. A new file needs no rule of its own: it is reached through a
file that names or imports it, or a folder that is listed, which then differs.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .chart import Entry, read_map
from .tree import SETTINGS, Tree, git, settings

RECORDED = "recorded"  # instead of a commit: what has changed since every test file passed
UNKNOWN = float("inf")  # seconds of a test file that the map does not know: it comes first
CORES = 2  # on which the slow tests run side by side
GUESS = 60.0  # seconds of a test file that the map does not know, where their sum is asked for


class Plan(NamedTuple):
    """The order of the slow tests."""

    reached: tuple[str, ...]  # test files that the change reaches: those that take longest come first, if all have time
    longest: dict[str, float]  # seconds of the longest test, by test file


def is_current(test_file: str, entries: Mapping[str, Entry], tree: Tree) -> bool:
    """Whether it has passed with all that it depends on as it is now."""
    entry = entries.get(test_file)
    return entry is not None and bool(entry.passed) and tree.digest(test_file, entry.reached) == entry.passed


def plan(test_files: Iterable[str], since: str, tree: Tree, entries: Mapping[str, Entry]) -> Plan:
    """Choose among test files; ``since`` is `RECORDED`, or a commit: then only what has changed since."""
    stale = [file for file in sorted(test_files) if not is_current(file, entries, tree)]
    if since != RECORDED:
        stale = reached_by(changed(tree, since), stale, tree, entries)
    seconds = {file: entries[file].seconds if file in entries else UNKNOWN for file in stale}
    stale.sort(key=lambda file: -seconds[file])
    return Plan(tuple(stale), {file: entry.longest for file, entry in entries.items()})


def reached_by(changes: set[str], stale: Sequence[str], tree: Tree, entries: Mapping[str, Entry]) -> list[str]:
    """Those of the test files that depend on a change; all of them if nobody knows who depends on one of the changes."""
    depend = {file: tree.depends(file, entries[file].reached) for file in entries}
    known = set().union(*depend.values(), *(tree.helpers(file) for file in stale))
    if any(not name.endswith("/") and name not in known for name in changes):
        return list(stale)
    return [file for file in stale if file not in entries or entries[file].unseen or depend[file] & changes]


def changed(tree: Tree, commit: str) -> set[str]:
    """What differs from a commit: files, folders whose names differ, and the settings."""
    rows = git(tree.root, "diff", "--name-status", "--no-renames", "-z", commit).split("\0")
    kinds = dict(zip(rows[1::2], rows[0::2], strict=False))
    new = git(tree.root, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    kinds |= dict.fromkeys(filter(None, new), "A")
    names = set(kinds)
    for name in (name for name, kind in kinds.items() if kind in "AD"):
        names |= {f"{above}/" for above in Path(name).parents}
    if "pyproject.toml" in names:
        names.discard("pyproject.toml")
        before = settings(git(tree.root, "show", f"{commit}:pyproject.toml"))
        names |= {SETTINGS} if before != settings((tree.root / "pyproject.toml").read_text("utf-8")) else set()
    return names


def drawn(files: Iterable[str], order: str) -> list[str]:
    """Files in an order drawn from a text, as a commit."""
    found = sorted(set(files))
    random.Random(order).shuffle(found)
    return found


def shared_out(found: Plan, entries: Mapping[str, Entry], time: float, order: str) -> Plan:
    """The plan for so many seconds. If they are too few for all that is reached, an order of the commit decides who runs."""
    needed = sum(entries[file].seconds if file in entries else GUESS for file in found.reached)
    return found if needed <= CORES * time else found._replace(reached=tuple(drawn(found.reached, order)))


def planned(since: str, time: float = UNKNOWN, order: str = "") -> Plan:
    """The plan of this checkout: a test file without slow tests is as one that the map does not know."""
    tree, entries = Tree(), read_map()
    files = [name for name in tree.names if name.startswith("tests/") and Path(name).name.startswith("test_")]
    return shared_out(plan(files, since, tree, entries), entries, time, order)
