"""The map on disk: for every slow test file what it reaches, how long it takes, and the state in which it has passed.

One line of `map.json` for a test file, so that two people who renew different files seldom meet. What is reached are the bits
of a number, the first for the first name of ``names``; new names come at the end.
"""

import base64
import fcntl
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

MAP = Path(__file__).with_name("map.json")


class Entry(NamedTuple):
    """What is known of the slow tests of a file."""

    tests: int
    seconds: float  # of all of them, one after the other
    longest: float  # seconds of the longest
    passed: str  # the digest of all that they reach when they all passed; empty: they have not
    reached: frozenset[str]  # files, and folders by names that end in a slash
    unseen: bool = False  # a part of it ran where nobody recorded: it may reach everything


def read_map(path: Path = MAP) -> dict[str, Entry]:
    """Entries by test file; none where there is no map."""
    if not path.exists():
        return {}
    read = json.loads(path.read_text("utf-8"))

    def entry_of(row: list[Any]) -> Entry:
        tests, seconds, longest, passed, bits, unseen = row
        return Entry(tests, seconds, longest, passed, frozenset(unpacked(bits, read["names"])), bool(unseen))

    return {file: entry_of(row) for file, row in read["tests"].items()}


def write_map(entries: Mapping[str, Entry], path: Path = MAP) -> None:
    """Write all entries; names keep their places."""
    before = json.loads(path.read_text("utf-8"))["names"] if path.exists() else []
    names = list(dict.fromkeys([*before, *sorted({name for entry in entries.values() for name in entry.reached})]))
    rows = {file: [*entry[:4], packed(entry.reached, names), int(entry.unseen)] for file, entry in entries.items()}
    listed = ",\n".join(map(json.dumps, names))
    whole = path.with_suffix(f".{os.getpid()}")
    whole.write_text(f'{{"names": [\n{listed}\n],\n"tests": {one_a_line(rows)}}}\n', encoding="utf-8")
    whole.replace(path)


def renew(test_file: str, entry: Entry | None, files: Collection[str], path: Path = MAP) -> None:
    """Put the entry of a file in its place, and keep those of ``files`` alone; another process may do the same meanwhile."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        others = {file: old for file, old in read_map(path).items() if file in files and file != test_file}
        write_map(others | ({test_file: entry} if entry else {}), path)
    finally:
        os.close(folder)


def one_a_line(rows: Mapping[str, Any]) -> str:
    """A table in JSON, sorted, each row a line."""
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(rows[key])}" for key in sorted(rows)) + "\n}"


def packed(reached: frozenset[str], names: list[str]) -> str:
    """The bits of a set, in base 64."""
    number = sum(1 << place for place, name in enumerate(names) if name in reached)
    return base64.b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()


def unpacked(bits: str, names: list[str]) -> list[str]:
    """The names of a set of bits."""
    number = int.from_bytes(base64.b64decode(bits), "little")
    return [name for place, name in enumerate(names) if number >> place & 1]
