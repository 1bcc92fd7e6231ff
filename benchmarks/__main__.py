"""``python -m benchmarks <model> [part ...]``: print the ratios of a model's benchmark, and which targets they meet.

Where other work has kept the machine busy, the figures are printed without a verdict.
Exit code 0 when all parts ran, whatever the ratios; 1 when peer and zoo disagreed somewhere; 2 for a wrong argument.
"""

import argparse
import sys
from collections.abc import Callable, Mapping

from benchmarks import (
    backends,
    classifiers,
    compilation,
    evidence,
    factor_analysis,
    gmm,
    gpu,
    hmm,
    latent_dirichlet,
    mixed_mixture,
    smc,
    state_space,
    streaming,
)
from benchmarks.measure import Target, print_header, print_targets, watched

# model -> part -> a function that measures, prints and returns the targets
BENCHMARKS: Mapping[str, Mapping[str, Callable[[], list[Target]]]] = {
    "gmm": gmm.PARTS,
    "classifiers": classifiers.PARTS,
    "mixed_mixture": mixed_mixture.PARTS,
    "factor_analysis": factor_analysis.PARTS,
    "hmm": hmm.PARTS,
    "state_space": state_space.PARTS,
    "smc": smc.PARTS,
    "latent_dirichlet": latent_dirichlet.PARTS,
    "gpu": gpu.PARTS,
    "streaming": streaming.PARTS,
    "compilation": compilation.PARTS,
    "evidence": evidence.PARTS,
    "backends": backends.PARTS,
}


def main(arguments: list[str]) -> int:
    """Run the chosen parts; by default all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    models = parser.add_subparsers(dest="model", required=True)
    for model, parts in BENCHMARKS.items():
        models.add_parser(model).add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(parts)}; default: all")
    chosen = parser.parse_args(arguments)
    known = BENCHMARKS[chosen.model]
    for part in chosen.parts:
        if part not in known:
            parser.error(f"{chosen.model} has no part {part!r}; its parts are {', '.join(known)}")
    print_header()
    targets, load = watched(lambda: [target for part in chosen.parts or known for target in known[part]()])
    print_targets(targets, load)
    return 0 if all(target.agreed for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
