"""Which planted faults of a kernel does `inference.certify` see?

`python -m tests.faults.kernels [budget=full]` certifies the right sampler of ``gmm`` in `faulty_mixture` and its 25 faults. It
prints the verdict on each, and ends with code 1 if the right one is not exact or fewer than `AT_LEAST` faults are seen.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from inference import certify, target
from inference.certificates.cell import BUDGETS
from inference.samplers import trial

AT_LEAST = {"quick": 20, "full": 23}  # of 25
MODEL = "gmm"


def main(options: Sequence[str]) -> int:
    """Print a line for each sampler, and the share of faults that are seen in each class."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "oracles"))
    from faulty_mixture import FAULTS
    from jax_mixture import JaxMixture

    named = dict(option.partition("=")[::2] for option in options)
    budget = named.pop("budget", "quick")
    if named or budget not in BUDGETS:
        print(f"the only option is budget=, one of {', '.join(BUDGETS)}; got {' '.join(options)}", file=sys.stderr)
        return 2
    trial.prior_hints = lambda *_: []  # type: ignore[assignment]  # they take most of the time, and change no verdict
    prior = target(MODEL).prior
    right = certify(JaxMixture(prior), MODEL, budget).verdict
    print(f"the right sampler, budget={budget}: {right}", flush=True)
    seen = 0
    for kind, faults in FAULTS.items():
        print(f"{kind}:", flush=True)
        for what, sampler in faults.items():
            report = certify(sampler(prior), MODEL, budget)
            wrong = next((check for check in report.checks if not check.passed), None)
            seen += wrong is not None
            print(f"  {report.verdict:12} {what}{'' if wrong is None else f' ({wrong.name}: {wrong.says})'}", flush=True)
    print(f"{seen} of {sum(map(len, FAULTS.values()))} faults are seen")
    return int(right != "invariant" or seen < AT_LEAST[budget])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
