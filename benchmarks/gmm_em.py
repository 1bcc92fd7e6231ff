"""EM of the full-covariance mixture against scikit-learn: same data, same start, 20 iterations of both, no regularisation.

Two ratios per size and precision, time of scikit-learn over time of the zoo:

- *iterations*: 20 E-steps and 20 M-steps, nothing else. For the zoo the driver's ``run_seconds`` (compiled beforehand); for
  scikit-learn from the start of its first E-step to the start of the one that follows its last M-step.
- *fit*: the whole call, which for the zoo includes compilation (its caches are emptied before every call), the copy of
  the data, the final evaluation and the result tree, and for scikit-learn the checks and the final E-step for the labels.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import CONSOLE, Target, geometric_mean, interleave, median, print_table

SIZES = ((200_000, 16, 16), (500_000, 2, 5), (100_000, 64, 8))
ITERATIONS = 20
REPEATS = 3
TOLERANCE = {64: 1e-9, 32: 1e-4}  # largest difference in log-likelihood per row between the two
EACH, OVERALL = 3.0, 6.0  # the targets: every size, geometric mean


class Start(NamedTuple):
    """One start, in the terms of both libraries."""

    weights: np.ndarray
    means: np.ndarray
    precisions: np.ndarray


class Timed(NamedTuple):
    """One fit: seconds of its iterations and of the whole call, and the log-likelihood per row it reached."""

    iterations: float
    fit: float
    log_likelihood: float


def mixture(num_rows: int, dimension: int, num_components: int, seed: int = 0) -> tuple[np.ndarray, Start]:
    """Rows of a mixture whose centres are about five standard deviations apart, and a start near its truth."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(num_components, dimension)) * 5 / np.sqrt(2 * dimension)
    shear = np.eye(dimension) + 0.3 / np.sqrt(dimension) * rng.normal(size=(num_components, dimension, dimension))
    group = np.sort(rng.choice(num_components, size=num_rows, p=rng.dirichlet(np.full(num_components, 20.0))))
    x = rng.normal(size=(num_rows, dimension))
    for component in range(num_components):
        rows = slice(*np.searchsorted(group, [component, component + 1]))
        x[rows] = centres[component] + x[rows] @ shear[component]
    precisions = np.broadcast_to(np.eye(dimension), shear.shape).copy()
    start = Start(np.full(num_components, 1 / num_components), centres + 0.3 * rng.normal(size=centres.shape), precisions)
    return x[rng.permutation(num_rows)], start


def fit_sklearn(x: np.ndarray, start: Start, precision: int, max_iter: int = ITERATIONS) -> Timed:
    """scikit-learn's fit; its E-step is wrapped to note when each one starts."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    dtype = np.float64 if precision == 64 else np.float32
    weights, means, precisions = (array.astype(dtype) for array in start)
    estimator = GaussianMixture(
        len(weights), reg_covar=0, tol=0, max_iter=max_iter,
        weights_init=weights, means_init=means, precisions_init=precisions,
    )  # fmt: skip
    rows = x.astype(dtype, copy=False)
    marks: list[float] = []
    e_step = estimator._e_step

    def marked(*arguments: Any, **named: Any) -> Any:
        marks.append(time.perf_counter())
        return e_step(*arguments, **named)

    estimator._e_step = marked
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clock = time.perf_counter()
        estimator.fit(rows)
        whole = time.perf_counter() - clock
    if estimator.n_iter_ != max_iter or len(marks) != max_iter + 1:
        raise RuntimeError(f"scikit-learn took {estimator.n_iter_} iterations with {len(marks)} E-steps")
    del estimator._e_step
    return Timed(marks[-1] - marks[0], whole, float(estimator.score(rows)))


def fit_zoo(x: np.ndarray, start: Start, precision: int, max_iter: int = ITERATIONS) -> Timed:
    """The zoo's fit on a model built beforehand, with nothing compiled."""
    import jax

    from inference import fit
    from models import MODELS, Data

    data = Data("mixture", x, tuple(f"x{d}" for d in range(x.shape[1])))
    model = MODELS["gmm"](data, num_components=len(start.weights), covariance="full", prior="flat")
    sites = {"mixture_probs": start.weights, "mean": start.means, "precision": start.precisions}
    jax.clear_caches()
    clock = time.perf_counter()
    tree = fit(model, data, method="em", start=sites, max_iter=max_iter, tol=0, precision=precision)
    whole = time.perf_counter() - clock
    taken = int(tree["optimization"]["iterations"].item())
    if taken != max_iter:
        raise RuntimeError(f"the zoo took {taken} iterations")
    return Timed(tree.attrs["run_seconds"], whole, float(tree["functionals"]["log_likelihood"]) / len(x))


def measure_size(size: tuple[int, int, int], precision: int) -> tuple[list[str], float, float]:
    """One size in one precision: (a row of the table, ratio of the iterations, ratio of the fits); NaN where they differ."""
    x, start = mixture(*size)
    runs: dict[str, Callable[[int], Timed]] = {
        "peer": lambda index: fit_sklearn(x, start, precision),
        "zoo": lambda index: fit_zoo(x, start, precision),
    }
    found = interleave(runs, REPEATS)
    gap = max(abs(peer.log_likelihood - zoo.log_likelihood) for peer, zoo in zip(found["peer"], found["zoo"], strict=True))
    agreed = gap <= TOLERANCE[precision]
    iterations, fastest, fits = (
        statistic(getattr(one, part) for one in found["peer"]) / statistic(getattr(one, part) for one in found["zoo"])
        if agreed
        else np.nan
        for part, statistic in (("iterations", median), ("iterations", min), ("fit", median))
    )
    cells = [f"{size[0] // 1000}k × {size[1]}, K={size[2]}"]
    cells += [f"{median(one.iterations for one in found[name]):.2f}" for name in ("peer", "zoo")]
    cells += [f"{iterations:.2f}", f"{fastest:.2f}"]
    cells += [f"{median(one.fit for one in found[name]):.2f}" for name in ("peer", "zoo")]
    return [*cells, f"{fits:.2f}", f"{gap:.0e}"], iterations, fits


def measure_em() -> list[Target]:
    """Both precisions, all sizes."""
    targets = []
    for precision in (64, 32):
        measured = [measure_size(size, precision) for size in SIZES]
        columns = ("rows × columns", "peer", "zoo", "ratio", "fastest", "peer", "zoo", "ratio", "gap")
        title = f"EM, {ITERATIONS} iterations, float{precision}: seconds of the iterations, then of the whole fit"
        note = (
            "ratio: of medians; fastest: of the fastest runs, which other work on the cores disturbs least. gap: largest "
            "difference in log-likelihood per row. Whole fit: with compilation and evaluation."
        )
        print_table(title, columns, (cells for cells, _, _ in measured), note)
        for name, bounded, ratios in (
            ("iterations", True, [ratio for _, ratio, _ in measured]),
            ("whole fit", False, [ratio for _, _, ratio in measured]),
        ):
            CONSOLE.print(f"{name}: geometric mean {geometric_mean(ratios):.2f} ×")
            if bounded:
                targets += _targets(precision, ratios)
    return targets


def _targets(precision: int, ratios: list[float]) -> list[Target]:
    target = partial(Target, agreed=not np.isnan(ratios).any())
    each = f"EM float{precision}, "
    return [
        *(target(f"{each}{n // 1000}k × {d}, K={k}", ratio, EACH) for (n, d, k), ratio in zip(SIZES, ratios, strict=True)),
        target(f"{each}geometric mean", geometric_mean(ratios), OVERALL),
    ]
