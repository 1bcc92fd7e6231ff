"""What the farm reports: a line for every fault, and shares."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .catalogue import FAULTS
from .fault import Fault
from .trial import LATE, SURVIVES, TIERS, Outcome


def line_of(outcome: Outcome) -> str:
    """One outcome as a line."""
    if outcome.caught:
        said, why = outcome.tier, outcome.test
    else:
        said = "equivalent" if outcome.equivalent else outcome.verdict
        why = f"{outcome.tried} default tests were tried"
    return f"{outcome.name:<44} {said:<16} {outcome.seconds:6.1f} s  {why}"


def lines_of(outcomes: Sequence[Outcome], faults: Sequence[Fault]) -> list[str]:
    """The summary: counts by kind and tier, the share that is caught, and survivors with their arguments."""
    kind = {fault.name: fault.kind for fault in faults}
    counts = Counter((kind[outcome.name], outcome.verdict) for outcome in outcomes)
    columns = [*TIERS, SURVIVES, *([LATE] if any(outcome.verdict == LATE for outcome in outcomes) else [])]
    kinds = sorted({kind[outcome.name] for outcome in outcomes})
    lines = ["", f"{'kind':<20}" + "".join(f"{column:>18}" for column in columns)]
    lines += [f"{name:<20}" + "".join(f"{counts[name, column]:>18}" for column in columns) for name in kinds]
    caught = sum(outcome.caught for outcome in outcomes)
    shares = ", ".join(f"{sum(outcome.tier == tier for outcome in outcomes)} by {tier}" for tier in TIERS)
    lines += ["", f"{caught} of {len(outcomes)} faults are caught ({caught / max(len(outcomes), 1):.1%}): {shares}"]
    for outcome in outcomes:
        if not outcome.caught:
            why = f"{', '.join(outcome.late)} {LATE}" if outcome.late else "survives, and nobody argued that it is equivalent"
            lines.append(f"  {outcome.name}: {outcome.equivalent or why}")
    return lines


def unexplained(outcomes: Sequence[Outcome]) -> list[str]:
    """Names of faults that are not caught, and not argued to be equivalent."""
    return [outcome.name for outcome in outcomes if not outcome.caught and not outcome.equivalent]


def last_outcomes(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The last outcome of every fault, in the order of the catalogue; those of faults that it no longer has are dropped."""
    last = {outcome.name: outcome for outcome in outcomes}
    return [last[fault.name] for fault in FAULTS if fault.name in last]


def write_outcomes(path: Path, outcomes: Sequence[Outcome]) -> None:
    """All outcomes as JSON; replaces the file in one step."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps([outcome.as_row() for outcome in outcomes], indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def read_outcomes(path: Path) -> list[Outcome]:
    """The outcomes of a run before; none without a file."""
    if not path.exists():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [Outcome(**{**row, "met": tuple(row["met"]), "late": tuple(row.get("late", ()))}) for row in rows]
