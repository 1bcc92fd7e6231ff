"""`python -m tests.faults.checks MODEL METHOD`: the checks of a cell, one by one until one fails.

They are those of the quick budget as `inference.certify` makes them. Controls are left out, to save time. The exit code is 3 if
a check fails; the last line names it.
"""

import sys

from inference.certificates.cell import PRECISION, BoundCheck, bound_checks
from inference.certificates.checks.figure import CONTROL
from inference.fitting.prepare import x64

FAILED, SEED = 3, 0


def steps_of(model: str, method: str) -> list[BoundCheck]:
    return [bound for bound in bound_checks(model, method, "quick", SEED) if not bound.name.startswith(CONTROL)]


def main(model: str, method: str) -> int:
    with x64(PRECISION):
        for bound in steps_of(model, method):
            if not bound.check().passed:
                sys.stdout.write(f"{bound.name}\n")
                return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
