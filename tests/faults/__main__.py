"""`python -m tests.faults`: plant faults, and report what catches them; docs/faults.md has the options."""

import os
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import NamedTuple

from .catalogue import AREAS, FAULTS
from .fault import Fault
from .record import recorded
from .table import last_outcomes, line_of, lines_of, read_outcomes, unexplained, write_outcomes
from .tree import ROOT, copied, environment
from .trial import TIERS, Outcome, tried

MISTAKE, SURVIVES = 2, 3
OPTIONS = ("only", "sample", "seed", "tiers", "out", "cache", "workers", "again")
USUAL_CACHE = Path.home() / ".cache" / "bayes-model-zoo-faults"


class MistakeError(Exception):
    """An option that cannot be."""


class Asked(NamedTuple):
    """The options of the command."""

    faults: tuple[Fault, ...]
    tiers: tuple[str, ...]
    out: Path | None
    cache: Path
    workers: int
    again: bool


def main(arguments: Sequence[str]) -> int:
    """Run the farm; returns 0, 2 for a mistake in the options, or 3 if a fault survives that is not argued to be equivalent."""
    try:
        asked = parsed(arguments)
    except MistakeError as error:
        print(error, file=sys.stderr)
        return MISTAKE
    outcomes = run(asked)
    print("\n".join(lines_of(outcomes, FAULTS)))
    return SURVIVES if unexplained(outcomes) else 0


def parsed(arguments: Sequence[str]) -> Asked:
    """Options ``key=value``; raises `MistakeError`."""
    given = dict(argument.partition("=")[::2] for argument in arguments)
    if unknown := [key for key in given if key not in OPTIONS]:
        raise MistakeError(f"{unknown[0]!r}: python -m tests.faults takes {', '.join(OPTIONS)}, as key=value")
    tiers = tuple(given.get("tiers", ",".join(TIERS)).split(","))
    if wrong := [tier for tier in tiers if tier not in TIERS]:
        raise MistakeError(f"tiers={wrong[0]}: the tiers are {', '.join(TIERS)}")
    for key in ("sample", "seed", "workers"):
        if not given.get(key, "1").isdecimal():
            raise MistakeError(f"{key} must be a whole number, got {given[key]!r}")
    faults = chosen(given.get("only", ""))
    if "sample" in given:
        faults = sample(faults, int(given["sample"]), int(given.get("seed", "0")))
    out = Path(given["out"]) if "out" in given else None
    workers = int(given.get("workers", len(os.sched_getaffinity(0))))
    return Asked(faults, tiers, out, Path(given.get("cache", USUAL_CACHE)).absolute(), workers, given.get("again") == "true")


def chosen(only: str) -> tuple[Fault, ...]:
    """The faults of names and areas, separated by commas; all for none. Raises `MistakeError`."""
    if not only:
        return FAULTS
    found: list[Fault] = []
    for name in only.split(","):
        of_name = [fault for fault in FAULTS if name in (fault.name, fault.file)] + list(AREAS.get(name, ()))
        if not of_name:
            raise MistakeError(f"only={name}: no fault, no file and no area; areas are {', '.join(AREAS)}")
        found += of_name
    return tuple(dict.fromkeys(found))


def sample(faults: Sequence[Fault], number: int, seed: int) -> tuple[Fault, ...]:
    """So many faults, drawn without replacement."""
    return tuple(random.Random(seed).sample(list(faults), min(number, len(faults))))


def run(asked: Asked) -> list[Outcome]:
    """Try all faults, on copies of the tree.

    Unless ``again``, faults that ``out`` knows to be caught are left alone. The others meet the tiers that they have not met.
    """
    asked.cache.mkdir(parents=True, exist_ok=True)
    os.environ.update(environment(ROOT, asked.cache))  # JAX reads it when it is loaded
    names = {fault.name for fault in asked.faults}
    kept = read_outcomes(asked.out) if asked.out and not asked.again else []
    met = {outcome.name: outcome.met for outcome in kept}
    outcomes = {outcome.name: outcome for outcome in kept if outcome.name in names and outcome.is_final(asked.tiers)}
    waiting = [fault for fault in asked.faults if fault.name not in outcomes]
    with TemporaryDirectory(prefix="faults-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(max(1, min(asked.workers, len(waiting)))):
            trees.put(copied(Path(folder) / str(number)))
        first = Path(folder) / "0"
        record = recorded(first, asked.cache, asked.workers) if waiting else []

        def one(fault: Fault) -> Outcome:
            tree = trees.get()
            try:
                return tried(fault, tree, asked.cache, record, asked.tiers, met.get(fault.name, ()))
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(max(1, asked.workers)) as pool:
            for done in as_completed([pool.submit(one, fault) for fault in waiting]):
                outcome = done.result()
                outcomes[outcome.name] = outcome
                print(f"{len(outcomes):4d} of {len(asked.faults)}  {line_of(outcome)}", flush=True)
                if asked.out:
                    write_outcomes(asked.out, last_outcomes([*kept, *outcomes.values()]))
    return [outcomes[fault.name] for fault in asked.faults]


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
