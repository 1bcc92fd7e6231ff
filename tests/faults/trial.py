"""One fault through the tiers: the default tests that run it, the certificate of a cell, slow tests near it."""

import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache as once
from pathlib import Path
from tempfile import TemporaryDirectory

from .fault import Fault
from .nearest import cell_of, in_order, slow_files
from .record import Recorded
from .tree import NUMBA, ROOT, environment, with_fault, without_fault
from .warm import run_module

TIERS = ("default", "certificate", "slow")
SECONDS = {"default": 240.0, "certificate": 200.0, "slow": 420.0}  # most of a tier, for one fault
DEFAULT_WORK = 60.0  # seconds of default tests, as recorded without a fault, that a fault meets at most
NEAREST = 8  # tests
SLOW_FILES = 4  # the nearest test files, whose slow tests it meets
ALONE = 60  # seconds of one test, after which it counts as one that never ends
NOTHING_TO_RUN, FAILED_CHECK = 5, 3
ENDLESS = "a test that does not end"
SURVIVES, LATE = "SURVIVES", "not done in time"  # the latter says neither that a fault is caught nor that it is not


@dataclass(frozen=True)
class Outcome:
    """What became of a fault."""

    name: str
    tier: str  # that caught it; empty if none did
    test: str
    seconds: float
    tried: int  # default tests that were chosen for it
    equivalent: str = ""
    met: tuple[str, ...] = ()  # the tiers that did not catch it
    late: tuple[str, ...] = ()  # the tiers that were not done in time

    def as_row(self) -> dict[str, object]:
        return asdict(self)

    @property
    def caught(self) -> bool:
        return bool(self.tier)

    @property
    def verdict(self) -> str:
        """The tier that caught it, or why none did."""
        return self.tier or (LATE if self.late else SURVIVES)

    def is_final(self, tiers: Sequence[str]) -> bool:
        """Whether these tiers would say nothing new."""
        return self.caught or set(tiers) <= set(self.met)


def tried(
    fault: Fault, tree: Path, cache: Path, record: list[Recorded], tiers: Sequence[str], met: tuple[str, ...] = ()
) -> Outcome:
    """Plant a fault in a copy of the tree, and run the tests of each tier until one fails; not those of ``met``."""
    began = time.monotonic()
    source = (ROOT / fault.file).read_text(encoding="utf-8")
    chosen = in_order(fault, source, record, DEFAULT_WORK)
    late: tuple[str, ...] = ()
    with with_fault(tree, fault), TemporaryDirectory() as own:
        variables = environment(tree, cache)
        if fault.file.startswith(NUMBA):
            variables["NUMBA_CACHE_DIR"] = own
        for tier in (tier for tier in tiers if tier not in met):
            caught_by = _STEPS[tier](fault, chosen, tree, variables)
            if caught_by == LATE:
                late += (tier,)
            elif caught_by:
                return Outcome(fault.name, tier, caught_by, _since(began), len(chosen), fault.equivalent, met, late)
            else:
                met += (tier,)
    return Outcome(fault.name, "", "", _since(began), len(chosen), fault.equivalent, met, late)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


def _default(fault: Fault, chosen: list[str], tree: Path, variables: dict[str, str]) -> str:
    """The nearest tests in a process of their own: fewer files to collect."""
    for tests in (chosen[:NEAREST], chosen[NEAREST:]):
        if tests and (found := first_failure(tests, "not slow", SECONDS["default"], tree, variables)):
            return found
    return ""


def _slow(fault: Fault, chosen: list[str], tree: Path, variables: dict[str, str]) -> str:
    """The first slow test that fails with the fault, and passes without it."""
    files, passed_over = slow_files(fault, tree, chosen, SLOW_FILES), list[str]()
    while files and (found := first_failure(files, "slow", SECONDS["slow"], tree, variables, passed_over)):
        if found == LATE:
            return LATE
        if found in passed_over or found == ENDLESS:
            return ""
        with without_fault(tree, fault):
            fails_anyway = first_failure([found], "slow", SECONDS["slow"], tree, variables)
        if fails_anyway == LATE:
            return LATE
        if not fails_anyway:
            return found
        passed_over.append(found)
    return ""


def _certificate(fault: Fault, chosen: list[str], tree: Path, variables: dict[str, str]) -> str:
    """The first check of the cell that fails with the fault; the cell must pass without it, in time."""
    cell = cell_of(fault)
    found = failed_check(cell, tree, variables) if cell else ""
    if cell is None or found in ("", LATE):
        return found
    with without_fault(tree, fault):
        anyway = _without_fault(cell, tree, tuple(sorted(variables.items())))
    if anyway not in ("", LATE):
        raise RuntimeError(f"{cell[0]} {cell[1]} fails without a fault: {anyway}")
    return anyway or f"certificate of {cell[0]} {cell[1]}: {found}"


def failed_check(cell: tuple[str, str], tree: Path, variables: dict[str, str]) -> str:
    """The first check of a cell that fails, in words; empty if all pass, and `LATE` if they are not done in time."""
    code, text = run_module(["tests.faults.checks", *cell], SECONDS["certificate"], tree, variables)
    if code is None:
        return LATE
    if code == FAILED_CHECK:
        return text.splitlines()[-1]
    return "an error" if code else ""


@once
def _without_fault(cell: tuple[str, str], tree: Path, variables: tuple[tuple[str, str], ...]) -> str:
    return failed_check(cell, tree, dict(variables))


_STEPS = {"default": _default, "certificate": _certificate, "slow": _slow}


def first_failure(
    tests: list[str], tier: str, seconds: float, tree: Path, variables: dict[str, str], passed_over: Sequence[str] = ()
) -> str:
    """The first test that fails, but for those passed over, in words; empty if all pass, `LATE` if time is up before."""
    with TemporaryDirectory() as own:
        listed = Path(own) / "tests"
        listed.write_text("\n".join(tests), encoding="utf-8")
        options = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=", "-m", tier]
        command = ["pytest", *options, f"--timeout={ALONE}", f"--basetemp={own}/work", f"@{listed}"]
        command += [f"--deselect={test}" for test in passed_over]
        code, text = run_module(command, seconds, tree, variables)
    if code is None:
        return LATE
    if code in (0, NOTHING_TO_RUN):
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)
    if found:
        return found[1]
    if "Timeout" in text:
        return ENDLESS
    raise RuntimeError(f"pytest ended with {code}, and no test failed:\n{text[-2000:]}")
