"""The mixed mixture against StepMix, part by part: EM of the same likelihood from the same start, and growth with the rows.

- *em*: 5000 rows of 4 numbers and 6 categories, complete and with a tenth of the cells missing, maximum likelihood, 100
  iterations after the compiling call. StepMix's first iteration gives the start of both. The log-likelihoods must agree.
- *growth*: seconds per iteration and memory beyond the data, from 10,000 to 1,000,000 rows.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Target, interleave, median, print_table, seconds

ITERATIONS = 100
REPEATS = 3
AGREEMENT = 1e-6  # relative, of two log-likelihoods
NUMBERS, LEVELS = 4, (2, 3, 3, 4, 5, 5)
COMPONENTS = 3


def survey(num_rows: int, missing: float = 0.1, seed: int = 0) -> Any:
    """Three overlapping groups in numbers and categories, cells missing completely at random."""
    from models import Data

    rng = np.random.default_rng(seed)
    group = rng.integers(0, COMPONENTS, num_rows)
    reals = rng.normal(size=(num_rows, NUMBERS)) + 1.5 * rng.normal(size=(COMPONENTS, NUMBERS))[group]
    codes = []
    for size in LEVELS:
        edges = np.cumsum(rng.dirichlet(np.ones(size), COMPONENTS), axis=1)[group]
        codes.append((rng.random((num_rows, 1)) > edges[:, :-1]).sum(axis=1))
    x = np.column_stack([reals, *codes]).astype(np.float64)
    x[rng.random(x.shape) < missing] = np.nan
    names = (*(f"x{d}" for d in range(NUMBERS)), *(f"y{d}" for d in range(len(LEVELS))))
    categories = (*(((),) * NUMBERS), *(tuple(map(str, range(size))) for size in LEVELS))
    kinds = ("number",) * NUMBERS + ("category",) * len(LEVELS)
    return Data("survey", x, names, categories=categories, kinds=kinds)


class Start(NamedTuple):
    """Where both begin: StepMix after one iteration, in its own state and as the zoo's sites."""

    seed: int
    sites: dict[str, np.ndarray]


def peer(data: Any, iterations: int, seed: int = 0) -> Any:
    """StepMix after ``iterations``."""
    from stepmix.stepmix import StepMix

    blocks = {
        "number": {"model": "gaussian_diag_nan", "n_columns": NUMBERS},
        "category": {"model": "categorical_nan", "n_columns": len(LEVELS)},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        return StepMix(
            n_components=COMPONENTS, measurement=blocks, max_iter=iterations, abs_tol=0.0, rel_tol=0.0, random_state=seed,
            progress_bar=0,
        ).fit(data.x)  # fmt: skip


def start_of(data: Any, seed: int = 0) -> Start:
    """The parameters of StepMix after its first iteration."""
    found = peer(data, 1, seed).get_parameters()
    numbers, categories = found["measurement"]["number"], found["measurement"]["category"]
    most = max(LEVELS)
    probs = np.asarray(categories["pis"]).reshape(COMPONENTS, len(LEVELS), -1)
    sites = {
        "mixture_probs": np.asarray(found["weights"]),
        "mean": np.asarray(numbers["means"]),
        "precision": 1 / np.asarray(numbers["covariances"]),
    }
    assert probs.shape[2] == most
    for d, size in enumerate(LEVELS):
        own = probs[:, d, :size]
        sites[f"probs_y{d}"] = own / own.sum(axis=1, keepdims=True)
    return Start(seed, sites)


def _seconds(function: Callable[[], Any], index: int) -> float:
    clock = time.perf_counter()
    function()
    return time.perf_counter() - clock


def measure_em() -> list[Target]:
    """Seconds of 100 iterations, and the log-likelihood after them."""
    from inference import fit
    from models import MODELS

    rows, targets = [], []
    for name, missing in (("complete", 0.0), ("a tenth missing", 0.1)):
        data = survey(5000, missing)
        start = start_of(data)
        model = MODELS["mixed_mixture"](data, num_components=COMPONENTS, prior="flat")

        run = partial(fit, model, data, "em", start=start.sites, max_iter=ITERATIONS, tol=0.0)
        tree = run()
        ours = float(tree["functionals"]["log_likelihood"])
        theirs = float(peer(data, ITERATIONS + 1, start.seed).score(data.x)) * data.num_rows
        found = interleave(
            {"peer": partial(_seconds, partial(peer, data, ITERATIONS + 1, start.seed)), "zoo": partial(_seconds, run)}, REPEATS
        )
        ratio = median(found["peer"]) / median(found["zoo"])
        gap = abs(ours - theirs) / abs(theirs)
        rows.append((name, seconds(found["peer"]), seconds(found["zoo"]), f"{ratio:.1f}", f"{gap:.0e}"))
        targets.append(Target(f"mixed mixture, EM, {name}", ratio, 5.0, agreed=gap < AGREEMENT))
    print_table(
        f"5000 × (4 numbers + 6 categories), {ITERATIONS} EM iterations, seconds",
        ("", "StepMix", "zoo", "ratio", "gap"),
        rows,
        "zoo: fit, with the result tree, compiled. gap: relative difference of the two log-likelihoods.",
    )
    return targets


def measure_growth() -> list[Target]:
    """Seconds of 20 iterations by the number of rows, and the growth of the process beyond the data."""
    import psutil

    from inference import fit
    from models import MODELS

    rows, spent = [], {}
    for size in (10_000, 100_000, 1_000_000):
        data = survey(size)
        model = MODELS["mixed_mixture"](data, num_components=COMPONENTS)
        run = partial(fit, model, data, "em", num_starts=1, max_iter=20, tol=0.0)
        run()
        before = psutil.Process().memory_info().rss
        tree = run()
        grown = (psutil.Process().memory_info().rss - before) / 2**20
        spent[size] = float(tree.attrs["run_seconds"])
        rows.append(
            (
                f"{size:,}",
                f"{spent[size]:.2f}",
                f"{1e6 * spent[size] / 20 / size:.2f}",
                f"{data.x.nbytes / 2**20:.0f}",
                f"{grown:.0f}",
            )
        )
        del data, model, tree
    print_table(
        "growth with the rows: 20 EM iterations",
        ("rows", "seconds", "µs per row and iteration", "data, MB", "growth of the process, MB"),
        rows,
    )
    per_row = spent[1_000_000] / spent[100_000] / 10
    return [Target("mixed mixture, time per row: 100,000 rows over 1,000,000", 1 / per_row, 0.8)]


PARTS: Mapping[str, Callable[[], list[Target]]] = {"em": measure_em, "growth": measure_growth}
