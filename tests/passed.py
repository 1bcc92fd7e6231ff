"""`python -m tests.labs`: do the labs pass their default tests?

`labs/passed.json` records what passed: a digest of all that these tests depend on, the date, and the seconds that they took. As
long as the digest is the recorded one, the command does nothing. `python -m tests.labs renew` runs the tests in any case, and
records that they passed. The exit code is 3 if a test fails, and otherwise 0.

They depend on labs/ and tests/labs, on what these import of tests/, on pages, versions and settings, and on all of models/ and
inference/: labs import nearly every module there, directly or not, and some by names that no reader of the source finds.
"""

# ruff: noqa: T201

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tests.reach.tree import PYTHON, SETTINGS, Tree

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "labs" / "passed.json"
RENEW = "uv run python -m tests.labs renew"
TESTS = "tests/labs/"
COVERED = ("labs/", TESTS, "models/", "inference/", "docs/labs")


def main(arguments: Sequence[str]) -> int:
    """Run the tests, unless the record has what they depend on; returns the exit code."""
    if (renew := asks_to_renew(arguments)) is None:
        return 2
    record, before = read_record(RECORD), digest(Tree())
    if not renew and record.get("digest") == before:
        print(f"labs: their tests passed on {record['date']}, and nothing that they depend on has changed since")
        return 0
    begin = time.monotonic()
    if subprocess.run([sys.executable, "-m", "pytest", TESTS], cwd=ROOT).returncode:
        print("labs: tests failed")
        return 3
    if not renew:
        print(f"labs: what they depend on is not that of {RECORD.name}; renew it by: {RENEW}")
    elif digest(Tree()) != before:
        print(f"labs: what they depend on has changed while they ran; again: {RENEW}")
        return 3
    else:
        write_record(RECORD, {"digest": before, "date": str(date.today()), "seconds": round(time.monotonic() - begin)})
    return 0


def digest(tree: Tree) -> str:
    """It changes with anything that the tests of labs depend on."""
    covered = {name for name in tree.names if name.startswith(COVERED)} - {RECORD.relative_to(ROOT).as_posix()}
    helpers = [tree.helpers(name) for name in covered if name.startswith(TESTS)]
    return tree.digest_of(covered.union(*helpers) | {SETTINGS, PYTHON})


def asks_to_renew(arguments: Sequence[str]) -> bool | None:
    """Whether ``renew`` is the argument; None, after a message, for any other than this one."""
    if arguments in ([], ["renew"]):
        return bool(arguments)
    print(f"error: {' '.join(arguments)}: the only argument is renew", file=sys.stderr)
    return None


def read_record(path: Path) -> Mapping[str, Any]:
    """What has passed; nothing where there is no record."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Record what has passed."""
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
