"""Faults in the checks of certificates."""

from ..fault import Fault

LAW = "inference/certificates/checks/kernel_law.py"
CALIBRATION = "inference/certificates/checks/calibration.py"
FIGURE = "inference/certificates/checks/figure.py"
POSTERIOR = "inference/certificates/checks/posterior.py"
PIPELINE = "inference/certificates/checks/pipeline.py"
CELL = "inference/certificates/cell.py"

FAULTS = (
    Fault(
        "certificate-deviation-once",
        FIGURE,
        "return bool(abs(self.again) <= (FAR * self.limit if other_side else self.limit))",
        "return True",
        "whatever is rerun passes",
        "threshold",
    ),
    Fault(
        "certificate-error-of-sum",
        LAW,
        "error = difference.std(ddof=1) / np.sqrt(len(difference))",
        "error = difference.std(ddof=1)",
        "deviations are divided by a standard deviation instead of its error",
        "divisor",
    ),
    Fault(
        "certificate-limit-loose",
        FIGURE,
        "MOST = 3.5  # deviations beyond this are looked at a second time",
        "MOST = 35  # deviations beyond this are looked at a second time",
        "deviations of 35 pass",
        "threshold",
    ),
    Fault(
        "certificate-spread-of-ranks",
        CALIBRATION,
        'deviations[f"{name}, spread"] = float((np.abs(each.rank - 0.5).mean() - 0.25) * np.sqrt(48 * number))',
        'deviations[f"{name}, spread"] = float((np.abs(each.rank - 0.5).mean() - 0.5) * np.sqrt(48 * number))',
        "the mean distance of uniform ranks from ½ is taken for ½",
        "formula",
    ),
    Fault(
        "certificate-stands-still",
        LAW,
        'return answer("kernel law", says, (*figures, *still), FALSE_ALARM * len(figures))',
        'return answer("kernel law", says, figures, FALSE_ALARM * len(figures))',
        "a kernel that stands still passes",
        "threshold",
    ),
    Fault(
        "certificate-half-of-nothing",
        CALIBRATION,
        "halved = min(_share(each.narrow_rank) / max(shares[name], 1 / replicates) for name, each in found.items())",
        "halved = min(_share(each.narrow_rank) for each in found.values())",
        "intervals that hold too little from the beginning count as halved ones that are noticed",
        "formula",
    ),
    Fault(
        "certificate-error-of-few-in-a-tail",
        POSTERIOR,
        "variance = max(float(drawn.var()), float(weights @ (reference - wanted) ** 2))",
        "variance = float(drawn.var())",
        "draws that are missing in a tail make its error smaller",
        "formula",
    ),
    Fault(
        "certificate-evidence-rejects-draws",
        POSTERIOR,
        "of_draws = [figure for figure in figures if figure.name != INTEGRATED]",
        "of_draws = list(figures)",
        "another route to the evidence counts as a rejection of the draws",
        "mask",
    ),
    Fault(
        "certificate-takes-failed-checks",
        CELL,
        "return {(check.name, check.code): check for check in before.checks if check.passed}",
        "return {(check.name, check.code): check for check in before.checks}",
        "a check that failed is taken over from the certificate before",
        "mask",
    ),
    Fault(
        "certificate-takes-old-checks",
        CELL,
        "check = known.get((asked.name, asked.code))",
        "check = next((each for (name, _), each in known.items() if name == asked.name), None)",
        "a check of other code is taken over from the certificate before",
        "mask",
    ),
    Fault(
        "certificate-pipeline-shifted",
        PIPELINE,
        "return np.where(sound, (places[0] + places[1] * rng.random(len(true))) / (drawn.shape[1] + 1), np.nan)",
        "return np.where(sound, (places[0] + 0.5) / (drawn.shape[1] + 1), np.nan)",
        "ranks among few draws are no longer uniform",
        "formula",
    ),
    Fault(
        "certificate-pipeline-other-table",
        PIPELINE,
        "own = {name: value[place : place + 1] for name, value in tables.items()}",
        "own = {name: value[:1] for name, value in tables.items()}",
        "statistics of the draws are those of the first table",
        "mask",
    ),
    Fault(
        "certificate-pipeline-first-draws",
        PIPELINE,
        "return {name: value.reshape(CHAINS, DRAWS)[:, place % DRAWS] for name, value in found.items()}",
        "return {name: value.reshape(CHAINS, DRAWS)[:, 0] for name, value in found.items()}",
        "only the first draw of a chain is ranked",
        "mask",
    ),
    Fault(
        "certificate-pipeline-one-chain",
        PIPELINE,
        "return {name: value.reshape(CHAINS, DRAWS)[:, place % DRAWS] for name, value in found.items()}",
        "return {name: value.reshape(DRAWS, CHAINS).T[:, place % DRAWS] for name, value in found.items()}",
        "draws of one chain are ranked, which depend on each other",
        "formula",
    ),
    Fault(
        "certificate-pipeline-whole-spread",
        PIPELINE,
        "narrow = (drawn + drawn.mean(1, keepdims=True)) / 2",
        "narrow = drawn",
        "draws with half their spread are the draws themselves",
        "formula",
    ),
)
