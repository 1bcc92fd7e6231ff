"""One fault through the tiers: the default tests that run its line, the certificate of a cell, slow tests near it."""

import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .fault import Fault
from .nearest import cell_of, in_order, slow_files
from .record import Recorded
from .tree import NUMBA, ROOT, environment, with_fault
from .warm import run_module

TIERS = ("default", "certificate", "slow")
SECONDS = {"default": 240.0, "certificate": 200.0, "slow": 420.0}  # most of a tier, for one fault
DEFAULT_WORK = 25.0  # seconds of default tests, as recorded without a fault, that a fault meets at most
NEAREST = 8  # tests
SLOW_FILES = 4  # the nearest test files, whose slow tests it meets
ALONE = 60  # seconds of one test, after which it counts as one that never ends
NOTHING_TO_RUN, FAILED_CHECK = 5, 3


@dataclass(frozen=True)
class Outcome:
    """What became of a fault."""

    name: str
    tier: str  # that caught it; empty if none did
    test: str
    seconds: float
    tried: int  # default tests that were chosen for it
    equivalent: str = ""

    def as_row(self) -> dict[str, object]:
        return asdict(self)

    @property
    def caught(self) -> bool:
        return bool(self.tier)


def tried(fault: Fault, tree: Path, cache: Path, record: list[Recorded], tiers: tuple[str, ...]) -> Outcome:
    """Plant a fault in a copy of the tree, and run tests until one fails."""
    began = time.monotonic()
    source = (ROOT / fault.file).read_text(encoding="utf-8")
    chosen = in_order(fault, source, record, DEFAULT_WORK)
    with with_fault(tree, fault), TemporaryDirectory() as own:
        variables = environment(tree, cache)
        if fault.file.startswith(NUMBA):
            variables["NUMBA_CACHE_DIR"] = own
        for tier in tiers:
            caught_by = _STEPS[tier](fault, chosen, tree, variables)
            if caught_by:
                return Outcome(fault.name, tier, caught_by, _since(began), len(chosen), fault.equivalent)
    return Outcome(fault.name, "", "", _since(began), len(chosen), fault.equivalent)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


def _default(fault: Fault, chosen: list[str], tree: Path, variables: dict[str, str]) -> str:
    """The nearest tests in a process of their own: fewer files to collect."""
    for tests in (chosen[:NEAREST], chosen[NEAREST:]):
        if tests and (found := first_failure(tests, "not slow", SECONDS["default"], tree, variables)):
            return found
    return ""


def _slow(fault: Fault, chosen: list[str], tree: Path, variables: dict[str, str]) -> str:
    files = slow_files(fault, tree, chosen, SLOW_FILES)
    return first_failure(files, "slow", SECONDS["slow"], tree, variables) if files else ""


def _certificate(fault: Fault, chosen: list[str], tree: Path, variables: dict[str, str]) -> str:
    cell = cell_of(fault)
    if cell is None:
        return ""
    command = ["inference.certify", f"model={cell[0]}", f"method={cell[1]}", "again=true"]
    with TemporaryDirectory() as out:
        code, text = run_module([*command, f"out={out}"], SECONDS["certificate"], tree, variables)
    failed = code == FAILED_CHECK or (code == 1 and "Traceback" in text)
    return f"certificate of {cell[0]} {cell[1]}" if failed else ""


_STEPS = {"default": _default, "certificate": _certificate, "slow": _slow}


def first_failure(tests: list[str], tier: str, seconds: float, tree: Path, variables: dict[str, str]) -> str:
    """The first test that fails, in words; empty if none does in time."""
    with TemporaryDirectory() as own:
        listed = Path(own) / "tests"
        listed.write_text("\n".join(tests), encoding="utf-8")
        options = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=", "-m", tier]
        command = ["pytest", *options, f"--timeout={ALONE}", f"--basetemp={own}/work", f"@{listed}"]
        code, text = run_module(command, seconds, tree, variables)
    if code in (None, 0, NOTHING_TO_RUN):
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)
    if found:
        return found[1]
    if "Timeout" in text:
        return "a test that does not end"
    raise RuntimeError(f"pytest ended with {code}, and no test failed:\n{text[-2000:]}")
