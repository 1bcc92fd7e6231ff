"""`python -m tests.faults.checks MODEL METHOD`: the checks of a certificate, without controls, one by one until one fails.

The exit code is 3 if a check fails; the last line names it.
"""

import sys
from collections.abc import Callable
from functools import partial

from inference.certificates.cell import WAYS
from inference.certificates.checks.contracts import contracts_check
from inference.certificates.checks.figure import Check
from inference.certificates.checks.parity import parity_check
from inference.certificates.oracles import oracle_of
from inference.fitting.prepare import x64

FAILED, SEED, QUICK = 3, 0, "quick"


def steps_of(model: str, method: str) -> list[Callable[[], Check]]:
    """Each check of a cell that the quick budget has, ready to be called."""
    oracle = oracle_of(model)
    return [
        partial(parity_check, oracle, SEED),
        partial(contracts_check, oracle, SEED),
        *(partial(each.check, oracle, SEED + 1, each.sizes[QUICK]) for each in WAYS[method].questions if QUICK in each.sizes),
    ]


def main(model: str, method: str) -> int:
    with x64(64):
        for step in steps_of(model, method):
            if not (check := step()).passed:
                sys.stdout.write(f"{check.name}\n")
                return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
