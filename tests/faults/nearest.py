"""The tests that a fault should meet first: those that execute the fragment, near to the file, and quick."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from .fault import Fault, reach_of
from .record import Recorded, file_of

FAR = 3
FEWEST = 60  # tests, however long they take
ROUND = 4  # tests of a file before the next file has its turn
BESIDE = 0.5  # a level further than another test of the same file
SMALLEST = 0.05  # seconds that any test costs
# Of the text of sources, of this farm, and of the shell in processes of their own: they would say nothing of a fault, or late.
LEFT_OUT = (
    "tests/test_faults.py",
    "tests/test_rooms.py",
    "tests/test_imports.py",
    "tests/inference/runtime/test_one_door.py",
)
# The cell whose certificate runs a file: by the start of its name, the longest first.
CELLS = {
    "models/chains": "hmm gibbs",
    "models/hmm": "hmm gibbs",
    "models/factors": "factor_analysis gibbs",
    "models/factor_analysis": "factor_analysis gibbs",
    "models/topics": "latent_dirichlet gibbs",
    "models/latent_dirichlet": "latent_dirichlet gibbs",
    "models/logistic": "logistic_regression gibbs",
    "models/emissions/markov": "markov_naive_bayes gibbs",
    "models/emissions": "mixed_mixture gibbs",
    "models/": "gmm gibbs",
    "inference/methods/cavi": "gmm_simple cavi",
    "inference/unconstrained/": "gmm nuts",
    "inference/methods/exact": "naive_bayes exact",
    "inference/methods/gaussians_at_modes": "gmm_simple laplace",
    "inference/methods/laplace": "gmm_simple laplace",
    "inference/methods/advi": "gmm_simple advi",
    "inference/methods/collapsed": "gmm collapsed_gibbs",
    "inference/methods/temper": "gmm tempered_gibbs",
    "inference/methods/": "gmm em",
    "inference/engine/": "gmm em",
}


def cell_of(fault: Fault) -> tuple[str, str] | None:
    """The (model, method) of the certificate that runs the file, or None."""
    found = [start for start in CELLS if fault.file.startswith(start)]
    if not found:
        return None
    model, method = CELLS[max(found, key=len)].split()
    return model, method


def in_order(fault: Fault, source: str, record: list[Recorded], seconds: float, fewest: int = FEWEST) -> list[str]:
    """Tests that run the fragment, its statement, function or file, in this order: ``fewest``, or ``seconds`` of them."""
    reach = reach_of(fault, source).places
    known = [entry for entry in record if not entry.test.startswith(LEFT_OUT)]
    level = {entry.test: found for entry in known if (found := _level(reach, entry)) is not None}
    closest: dict[str, int] = {}  # of a file's tests: what one of them traced or cached, the others may look at
    for test, found in level.items():
        closest[file_of(test)] = min(found, closest.get(file_of(test), found))
    twins: Counter[str] = Counter()  # how many tests of the same function, and of the same file, come before
    rows = []
    for entry in sorted(known, key=lambda entry: entry.seconds):
        file, function = file_of(entry.test), entry.test.split("[")[0]
        if (best := closest.get(file)) is None:
            continue
        own = min(level.get(entry.test, len(reach)), best + BESIDE)
        turn = (
            twins[file] // ROUND + twins[function] // ROUND
        )  # a few of every file before more of them: other models, other uses
        rows.append((own, turn, distance(fault.file, entry.test), entry.seconds, entry.test))
        twins.update((file, function))
    chosen, left = [], seconds
    for *_, cost, test in sorted(rows):
        left -= max(cost, SMALLEST)
        if left < 0 and len(chosen) >= fewest:
            break
        chosen.append(test)
    return chosen


def _level(reach: tuple[tuple[str, frozenset[int]], ...], entry: Recorded) -> int | None:
    """How close a test comes: 0 if it executes the fragment; None if it does not execute the file."""
    return next((number for number, (file, lines) in enumerate(reach) if entry.runs(file, lines)), None)


def distance(file: str, test: str) -> int:
    """0 for a test in the folder that mirrors the file's, 1 for one that is named after it, up to 3."""
    room = PurePosixPath("tests") / PurePosixPath(file).parent
    where = PurePosixPath(file_of(test))
    stem = PurePosixPath(file).stem
    if where.parent == room:
        return 0 if stem in where.stem or len(room.parts) > 2 else 1
    if stem in where.stem:
        return 1
    return 2 if where.parts[1:2] == room.parts[1:2] else FAR


def slow_files(fault: Fault, tree: Path, tests: Sequence[str], most: int) -> list[str]:
    """Test files near a fault, for their slow tests: those that import its file, then those of the default tests."""
    module = fault.file.removesuffix(".py").replace("/", ".")
    room, name = module.rsplit(".", 1)
    imports = re.compile(rf"(from|import) {re.escape(module)}\b|from {re.escape(room)} import .*\b{name}\b")
    paths = {str(path.relative_to(tree)): path.read_text("utf-8") for path in sorted((tree / "tests").rglob("test_*.py"))}
    direct = [file for file, text in paths.items() if imports.search(text) and "mark.slow" in text]
    direct.sort(key=lambda file: distance(fault.file, file))
    others = [file for file in dict.fromkeys(map(file_of, tests)) if "mark.slow" in paths.get(file, "")]
    return list(dict.fromkeys([*direct, *others]))[:most]
