"""Faults in the checks of certificates."""

from ..fault import Fault

LAW = "inference/certificates/laws/kernel_law.py"
CALIBRATION = "inference/certificates/checks/calibration.py"
FIGURE = "inference/certificates/checks/figure.py"
POSTERIOR = "inference/certificates/checks/posterior.py"
PIPELINE = "inference/certificates/checks/pipeline.py"
CELL = "inference/certificates/cell.py"

FAULTS = (
    Fault(
        "certificate-deviation-once",
        f"{FIGURE}::Figure.passed",
        "bool(abs(self.again) <= (FAR * self.limit if other_side else self.limit))",
        "True",
        "whatever is rerun passes",
        "threshold",
    ),
    Fault(
        "certificate-error-of-sum",
        f"{LAW}::paired",
        "_1 / np.sqrt(len(difference))",
        "_1",
        "deviations are divided by a standard deviation instead of its error",
        "divisor",
    ),
    Fault(
        "certificate-limit-loose",
        f"{FIGURE}::MOST",
        "3.5",
        "35",
        "deviations of 35 pass",
        "threshold",
    ),
    Fault(
        "certificate-spread-of-ranks",
        f"{CALIBRATION}::rank_deviations",
        "np.abs(_1).mean() - 0.25",
        "np.abs(_1).mean() - 0.5",
        "the mean distance of uniform ranks from ½ is taken for ½",
        "formula",
    ),
    Fault(
        "certificate-stands-still",
        f"{LAW}::checked_law",
        "(*figures, *still)",
        "figures",
        "a kernel that stands still passes",
        "threshold",
    ),
    Fault(
        "certificate-half-of-nothing",
        f"{CALIBRATION}::bias_check",
        "(_1 / max(shares[name], 1 / replicates) for name, each in statistics.items())",
        "(_1 for each in statistics.values())",
        "intervals that hold too little from the beginning count as halved ones that are noticed",
        "formula",
    ),
    Fault(
        "certificate-error-of-few-in-a-tail",
        f"{POSTERIOR}::deviation",
        "max(_1, float(weights @ (reference - wanted) ** 2))",
        "_1",
        "draws that are missing in a tail make its error smaller",
        "formula",
    ),
    Fault(
        "certificate-evidence-rejects-draws",
        f"{POSTERIOR}::posterior_control",
        "[figure for figure in figures if figure.name not in OF_EVIDENCE]",
        "list(figures)",
        "another route to the evidence counts as a rejection of the draws",
        "mask",
    ),
    Fault(
        "certificate-takes-failed-checks",
        f"{CELL}::_known",
        "{_1: check for check in before.checks if check.passed}",
        "{_1: check for check in before.checks}",
        "a check that failed is taken over from the certificate before",
        "mask",
    ),
    Fault(
        "certificate-takes-old-checks",
        f"{CELL}::certify",
        "bound.changes(check)",
        "[]",
        "a check of other numbers is taken over from the certificate before",
        "mask",
    ),
    Fault(
        "certificate-pipeline-shifted",
        f"{PIPELINE}::ranks",
        "places[1] * rng.random(len(true))",
        "0.5",
        "ranks among few draws are no longer uniform",
        "formula",
    ),
    Fault(
        "certificate-pipeline-other-table",
        f"{PIPELINE}::Fits._draws",
        "value[place : place + 1]",
        "value[:1]",
        "statistics of the draws are those of the first table",
        "mask",
    ),
    Fault(
        "certificate-pipeline-first-draws",
        f"{PIPELINE}::Fits._draws",
        "place % DRAWS",
        "0",
        "only the first draw of a chain is ranked",
        "mask",
    ),
    Fault(
        "certificate-pipeline-one-chain",
        f"{PIPELINE}::Fits._draws",
        "value.reshape(CHAINS, DRAWS)",
        "value.reshape(DRAWS, CHAINS).T",
        "draws of one chain are ranked, which depend on each other",
        "formula",
    ),
    Fault(
        "certificate-pipeline-whole-spread",
        f"{PIPELINE}::ranked_of",
        "(drawn + drawn.mean(1, keepdims=True)) / 2",
        "drawn",
        "draws with half their spread are the draws themselves",
        "formula",
    ),
)
