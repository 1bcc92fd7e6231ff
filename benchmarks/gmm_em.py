"""EM of the full-covariance mixture against scikit-learn: same data, same start, 20 iterations of both, no regularisation.

Three ratios per size and precision, time of scikit-learn over time of the zoo:

- *iterations*: 20 E-steps and 20 M-steps, nothing else. For the zoo the driver's ``run_seconds`` (compiled beforehand); for
  scikit-learn from the start of its first E-step to the start of the one that follows its last M-step.
- *fit*: the whole call, once its programs are compiled: for the zoo the copy of the data, the final evaluation and the
  result tree, and for scikit-learn the checks and the final E-step for the labels. The targets are on this one.
- *first*: the same with compilation; the zoo's caches in memory are emptied before it.

An iteration needs N K D (D + 1) multiplications and additions for the densities, and as many for the moments, where only half
of a symmetric matrix is computed; *peak* is its share of what a product of two large matrices reaches on all cores.
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
EACH, OVERALL = 5.0, 8.0  # targets of whole fits: every size, geometric mean
SQUARE = 3000  # rows and columns of the matrices whose product gives the machine's peak


class Start(NamedTuple):
    """One start, in the terms of both libraries."""

    weights: np.ndarray
    means: np.ndarray
    precisions: np.ndarray


class Timed(NamedTuple):
    """One fit: seconds of its iterations, of the whole call, and of the call that compiled; log-likelihood per row."""

    iterations: float
    fit: float
    first: float
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
    return Timed(marks[-1] - marks[0], whole, whole, float(estimator.score(rows)))


def fit_zoo(x: np.ndarray, start: Start, precision: int, max_iter: int = ITERATIONS) -> Timed:
    """The zoo's fit on a model built beforehand: with nothing compiled, and again."""
    import jax

    from inference import fit
    from models import MODELS, Data

    data = Data("mixture", x, tuple(f"x{d}" for d in range(x.shape[1])))
    model = MODELS["gmm"](data, num_components=len(start.weights), covariance="full", prior="flat")
    sites = {"mixture_probs": start.weights, "mean": start.means, "precision": start.precisions}
    jax.clear_caches()
    seconds = []
    for _ in range(2):
        clock = time.perf_counter()
        tree = fit(model, data, method="em", start=sites, max_iter=max_iter, tol=0, precision=precision)
        seconds.append(time.perf_counter() - clock)
    taken = int(tree["optimization"]["iterations"].item())
    if taken != max_iter:
        raise RuntimeError(f"the zoo took {taken} iterations")
    return Timed(tree.attrs["run_seconds"], seconds[1], seconds[0], float(tree["functionals"]["log_likelihood"]) / len(x))


def peak(precision: int) -> float:
    """Multiplications and additions a second in a product of two large matrices, at best."""
    left = np.random.default_rng(0).random((SQUARE, SQUARE)).astype(f"float{precision}")
    best = np.inf
    for _ in range(5):
        clock = time.perf_counter()
        np.matmul(left, left)
        best = min(best, time.perf_counter() - clock)
    return 2 * SQUARE**3 / best


class Ratios(NamedTuple):
    """Time of the peer over time of the zoo; NaN where their answers differ."""

    iterations: float
    fit: float
    first: float


def measure_size(size: tuple[int, int, int], precision: int) -> tuple[list[str], Ratios]:
    """One size in one precision: (a row of the table, ratios)."""
    x, start = mixture(*size)
    runs: dict[str, Callable[[int], Timed]] = {
        "peer": lambda index: fit_sklearn(x, start, precision),
        "zoo": lambda index: fit_zoo(x, start, precision),
    }
    found = interleave(runs, REPEATS)
    gap = max(abs(peer.log_likelihood - zoo.log_likelihood) for peer, zoo in zip(found["peer"], found["zoo"], strict=True))
    agreed = gap <= TOLERANCE[precision]

    def middle(name: str, part: str) -> float:
        return median(getattr(one, part) for one in found[name])

    ratios = Ratios(*(middle("peer", part) / middle("zoo", part) if agreed else np.nan for part in Ratios._fields))
    num_rows, dimension, num_components = size
    work = 2 * num_rows * num_components * dimension * (dimension + 1) * ITERATIONS
    share = work / middle("zoo", "iterations") / peak(precision)
    cells = [f"{num_rows // 1000}k × {dimension}, K={num_components}"]
    for part in Ratios._fields:
        cells += [f"{middle('peer', part):.2f}"] if part != "first" else []
        cells += [f"{middle('zoo', part):.2f}", f"{getattr(ratios, part):.1f}"]
    return [*cells, f"{share:.0%}", f"{gap:.0e}"], ratios


def measure_em() -> list[Target]:
    """Both precisions, all sizes."""
    targets = []
    for precision in (64, 32):
        measured = [measure_size(size, precision) for size in SIZES]
        columns = ("rows × columns", "peer", "zoo", "×", "peer", "zoo", "×", "first", "×", "peak", "gap")
        title = f"EM, {ITERATIONS} iterations, float{precision}: seconds of the iterations, whole fit, first fit"
        note = (
            "First: with compilation. Peak: share of what a product of two large matrices reaches. Gap: largest difference in "
            "log-likelihood per row."
        )
        print_table(title, columns, (cells for cells, _ in measured), note)
        for part in Ratios._fields:
            CONSOLE.print(f"{part}: geometric mean {geometric_mean([getattr(ratios, part) for _, ratios in measured]):.2f} ×")
        targets += _targets(precision, [ratios.fit for _, ratios in measured])
    return targets


def _targets(precision: int, ratios: list[float]) -> list[Target]:
    target = partial(Target, agreed=not np.isnan(ratios).any())
    each = f"EM float{precision}, "
    return [
        *(target(f"{each}{n // 1000}k × {d}, K={k}", ratio, EACH) for (n, d, k), ratio in zip(SIZES, ratios, strict=True)),
        target(f"{each}geometric mean", geometric_mean(ratios), OVERALL),
    ]
