"""`python -m tests.faults.checks MODEL METHOD`: the checks of a certificate, without controls, one by one until one fails.

The exit code is 3 if a check fails; the last line names it.
"""

import sys
from collections.abc import Iterator
from functools import partial

from inference.certificates.cell import WAYS
from inference.certificates.checks.contracts import contracts_check
from inference.certificates.checks.figure import Check
from inference.certificates.checks.parity import parity_check
from inference.certificates.oracles import oracle_of
from inference.fitting.prepare import x64

FAILED, SEED = 3, 0


def checks_of(model: str, method: str) -> Iterator[Check]:
    """Each check of a cell in the quick budget, as it is done."""
    oracle = oracle_of(model)
    steps = [partial(parity_check, oracle, SEED), partial(contracts_check, oracle, SEED)]
    steps += [partial(each.check, oracle, SEED + 1, each.sizes["quick"]) for each in WAYS[method].questions]
    for step in steps:
        yield step()


def main(model: str, method: str) -> int:
    with x64(64):
        for check in checks_of(model, method):
            if not check.passed:
                sys.stdout.write(f"{check.name}\n")
                return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
