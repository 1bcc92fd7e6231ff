"""Factor analysis against scikit-learn and PyMC, part by part: maximum likelihood, growth with the rows, samplers.

- *em*: 20,000 × 100 of 10 factors, to the log-likelihood that scikit-learn ends with at its default stop and at a tight one,
  by its ``lapack`` and its ``randomized`` decomposition; each from its own start. The zoo's time holds the fit, with the
  result tree (scores and log-likelihood of every row), compiled, by EM with ``accelerate=true``.
- *growth*: seconds per iteration and memory beyond the data, to 1,000,000 × 50 of 5 factors.
- *samplers*: effective draws per second of the slowest functional, see `benchmarks.factor_samplers`.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.factor_samplers import measure_samplers
from benchmarks.measure import Target, interleave, median, print_table

REPEATS = 3


class Stop(NamedTuple):
    """When both stop: the zoo by the relative gain of an iteration, scikit-learn by the absolute one of its log-likelihood."""

    zoo: float
    peer: float


STOPS = {"default": Stop(1e-9, 1e-2), "tight": Stop(1e-13, 1e-6)}
WANTED = {"lapack": 30.0, "randomized": 20.0}
AGREEMENT = 1e-7  # relative, of two log-likelihoods


def factors(num_rows: int, num_columns: int, num_factors: int, seed: int = 0) -> Any:
    """Rows of a factor model: half of a column's variance is noise."""
    from models import Data

    rng = np.random.default_rng(seed)
    loading = 0.3 * rng.normal(size=(num_factors, num_columns))
    noise = rng.gamma(2.0, 0.5, num_columns)
    x = rng.normal(size=(num_rows, num_factors)) @ loading
    x += rng.normal(size=x.shape) * np.sqrt(noise)
    return Data("factors", x, tuple(f"x{d}" for d in range(num_columns)))


def peer(data: Any, num_factors: int, method: str, tol: float) -> Any:
    """scikit-learn's estimator."""
    from sklearn.decomposition import FactorAnalysis

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        return FactorAnalysis(num_factors, svd_method=method, tol=tol, max_iter=2000, random_state=0).fit(data.x)


def _seconds(function: Callable[[], Any], index: int) -> float:
    clock = time.perf_counter()
    function()
    return time.perf_counter() - clock


def _maximum(data: Any, tol: float) -> Any:
    """The zoo's result, including the construction of the model, which is one more pass over the table."""
    from inference import fit
    from models import MODELS

    model = MODELS["factor_analysis"](data, num_factors=10, prior="flat")
    return fit(model, data, "em", num_starts=1, max_iter=20_000, tol=tol, accelerate=True, progress=False)


def measure_em() -> list[Target]:
    """Seconds to scikit-learn's final log-likelihood."""
    data = factors(20_000, 100, 10)
    rows, targets = [], []
    for name, stop in STOPS.items():
        run = partial(_maximum, data, stop.zoo)
        tree = run()
        ours = float(tree["functionals"]["log_likelihood"])
        steps = int(tree["optimization"].to_dataset()["iterations"].values[0])
        for method, wanted in WANTED.items():
            call = partial(peer, data, 10, method, stop.peer)
            once = call()
            theirs = float(once.score(data.x)) * data.num_rows
            found = interleave({"peer": partial(_seconds, call), "zoo": partial(_seconds, run)}, REPEATS)
            ratio = median(found["peer"]) / median(found["zoo"])
            gap = (ours - theirs) / abs(theirs)
            times = (f"{median(found[who]):.2f}" for who in ("peer", "zoo"))
            rows.append((f"{name}, {method}", *times, f"{ratio:.0f}", f"{len(once.loglike_)}", f"{steps}", f"{gap:+.0e}"))
            targets.append(Target(f"factor analysis, {name}, {method}", ratio, wanted, agreed=gap > -AGREEMENT))
    print_table(
        "20,000 × 100, 10 factors, maximum likelihood, seconds",
        ("stop", "scikit-learn", "zoo", "ratio", "steps", "zoo's", "gap"),
        rows,
        "steps: SVDs of the data against E-steps of accelerated EM. gap: how far the zoo's log-likelihood is above, relative.",
    )
    return targets


def with_peak(run: Callable[[], Any]) -> tuple[Any, float]:
    """(the return value, peak growth of the process in MB)."""
    import threading

    import psutil

    process, done = psutil.Process(), threading.Event()
    before = largest = process.memory_info().rss

    def watch() -> None:
        nonlocal largest
        while not done.wait(0.005):
            largest = max(largest, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        found = run()
    finally:
        done.set()
        watcher.join()
    return found, (largest - before) / 2**20


def measure_growth() -> list[Target]:
    """Seconds of 100 iterations by the number of rows, and the peak of the process beyond the data."""
    from inference import fit
    from models import MODELS

    rows, spent = [], {}
    for size in (10_000, 100_000, 1_000_000):
        data = factors(size, 50, 5)

        def run(data: Any = data) -> Any:
            model = MODELS["factor_analysis"](data, num_factors=5)
            return fit(model, data, "em", num_starts=1, max_iter=100, tol=0.0, progress=False)

        tree, grown = with_peak(run)
        clock = time.perf_counter()
        run()
        spent[size] = time.perf_counter() - clock
        iterations = float(tree.attrs["run_seconds"])
        rows.append((f"{size:,}", f"{spent[size]:.2f}", f"{iterations:.3f}", f"{data.x.nbytes / 2**20:.0f}", f"{grown:.0f}"))
        del data, tree
    print_table(
        "growth with the rows: 50 columns, 5 factors, 100 EM iterations",
        ("rows", "seconds, all in", "of the iterations", "data, MB", "peak beyond, MB"),
        rows,
        "peak: of the process, sampled, beyond what it held with the data; compiling is in it, and the copy on the device.",
    )
    return [Target("factor analysis, seconds per row: 100,000 over 1,000,000", 10 * spent[100_000] / spent[1_000_000], 0.8)]


PARTS: Mapping[str, Callable[[], list[Target]]] = {
    "em": measure_em,
    "growth": measure_growth,
    "samplers": measure_samplers,
}
