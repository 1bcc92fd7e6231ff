"""The classifiers against scikit-learn, part by part: fit and predict, Pólya-Gamma Gibbs against NUTS, and few labels.

- *speed*: fit and predict on data in memory, after one call that compiles. For the zoo from the building of the model to the
  class probabilities, with the result tree in between (log joint, log-likelihood and class probabilities of every row); for
  scikit-learn ``fit`` and ``predict_proba``. Same data, same estimate (maximum likelihood, or Laplace smoothing), and the class
  probabilities must agree.
- *posterior*: the same with the posterior: in closed form, as class probabilities with all parameters integrated out, and as
  independent draws (``method=exact``), everything evaluated at each.
- *polya_gamma*: two samplers of one posterior, logistic regression of `breast_cancer`, in effective draws per second.
- *few_labels*: digits with one label in ten: how much the unlabelled rows help or hurt, over ten seeds.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import CONSOLE, Target, interleave, median, print_table, seconds

REPEATS = 5
AGREEMENT = 1e-9  # largest difference of two class probabilities
DRAWS = 25  # of the posterior, in one chain
CLOSE = 0.2  # two standard errors, at most, of a probability averaged over so few draws
SEEDS = 10
LABELLED = 0.1


class Case(NamedTuple):
    """One data set, the zoo's model on it, and the peer that computes the same estimate."""

    data: Any
    build: Callable[[Any], Any]
    peer: Callable[[], Any]


def binary(num_rows: int = 100_000, num_columns: int = 1000, seed: int = 0) -> Any:
    """Two classes of rows with one cell in twenty filled."""
    from models import Data

    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, num_rows)
    x = (rng.random((num_rows, num_columns)) < rng.beta(0.5, 10, (2, num_columns))[y]).astype(np.float64)
    return Data("binary", x, tuple(f"x{d}" for d in range(num_columns)), y, "y", ("0", "1"))


def gaussian(num_rows: int = 200_000, num_columns: int = 50, num_classes: int = 3, seed: int = 0) -> Any:
    """Three overlapping Gaussian classes."""
    from models import Data

    rng = np.random.default_rng(seed)
    y = rng.integers(0, num_classes, num_rows)
    x = rng.normal(size=(num_rows, num_columns)) + 0.3 * rng.normal(size=(num_classes, num_columns))[y]
    return Data("gaussian", x, tuple(f"x{d}" for d in range(num_columns)), y, "y", tuple(map(str, range(num_classes))))


def cases() -> dict[str, Case]:
    """What is measured, by name."""
    from scipy import sparse
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.naive_bayes import BernoulliNB, GaussianNB

    from models import MODELS

    bits, reals = binary(), gaussian()
    smoothed = {"class_probs": {"concentration": 1.0}, "class": {"a": 2.0, "b": 2.0}}

    def bernoulli(data: Any) -> Any:
        return MODELS["naive_bayes"](data, prior=smoothed)

    def discriminant(covariance: str) -> Callable[[Any], Any]:
        return lambda data: MODELS["linear_discriminant"](data, covariance=covariance, prior="flat")

    return {
        "Bernoulli, dense": Case(bits, bernoulli, lambda: BernoulliNB(alpha=1.0)),
        "Bernoulli, sparse": Case(bits._replace(x=sparse.csr_array(bits.x)), bernoulli, lambda: BernoulliNB(alpha=1.0)),
        "linear, svd": Case(reals, discriminant("tied"), lambda: LinearDiscriminantAnalysis()),
        "linear, eigen": Case(reals, discriminant("tied"), lambda: LinearDiscriminantAnalysis(solver="eigen")),
        "quadratic": Case(reals, discriminant("full"), lambda: QuadraticDiscriminantAnalysis()),
        "Gaussian naive": Case(
            reals,
            lambda data: MODELS["naive_bayes"](data, emission="gaussian", prior="flat"),
            lambda: GaussianNB(var_smoothing=0.0),
        ),
    }


def fit_zoo(case: Case, method: str = "em", **options: Any) -> tuple[float, np.ndarray]:
    """(seconds, class probabilities) of the zoo."""
    from inference import fit, predict

    clock = time.perf_counter()
    model = case.build(case.data)
    probs = predict(model, fit(model, case.data, method, **options), case.data)["probs"].values
    return time.perf_counter() - clock, probs


def fit_peer(case: Case) -> tuple[float, np.ndarray]:
    """(seconds, class probabilities) of scikit-learn."""
    clock = time.perf_counter()
    probs = case.peer().fit(case.data.x, case.data.labels).predict_proba(case.data.x)
    return time.perf_counter() - clock, probs


def _seconds(fitted: Callable[[Case], tuple[float, np.ndarray]], case: Case, index: int) -> float:
    return fitted(case)[0]


def measure_speed() -> list[Target]:
    """Fit and predict, case by case."""
    rows, targets = [], []
    for name, case in cases().items():
        first, probs = fit_zoo(case)
        gap = float(np.abs(probs - fit_peer(case)[1]).max())
        del probs
        found = interleave({"peer": partial(_seconds, fit_peer, case), "zoo": partial(_seconds, fit_zoo, case)}, REPEATS)
        ratio = median(found["peer"]) / median(found["zoo"])
        rows.append((name, seconds(found["peer"]), seconds(found["zoo"]), f"{ratio:.2f}", f"{first:.1f}", f"{gap:.0e}"))
        targets.append(Target(f"{name}: fit and predict", ratio, 1.0, agreed=gap < AGREEMENT))
    print_table(
        "fit + predict, seconds: 100,000 × 1000 binary, 200,000 × 50 Gaussian",
        ("", "scikit-learn", "zoo", "ratio", "first", "gap"),
        rows,
        "first: the zoo's first call, with compilation. gap: largest difference of two class probabilities.",
    )
    return targets


def measure_posterior() -> list[Target]:
    """Independent posterior draws on the same data, and predictions averaged over them."""
    rows, targets = [], []
    for name in ("Bernoulli, dense", "linear, svd", "quadratic", "Gaussian naive"):
        case = cases()[name]
        proper = case if name.startswith("Bern") else case._replace(build=_with_default_prior(name))
        runs = {
            "peer": partial(_seconds, fit_peer, case),
            "closed": partial(_seconds, integrate, proper),
            "draws": partial(_seconds, partial(fit_zoo, method="exact", num_chains=1, num_samples=DRAWS), proper),
        }
        probs, averaged = integrate(proper)[1], fit_zoo(proper, "exact", num_chains=1, num_samples=DRAWS)[1]
        gap = float(np.abs(probs - averaged).max())
        found = interleave(runs, REPEATS)
        peer, closed, draws = (median(found[run]) for run in runs)
        rows.append((name, *map(seconds, found.values()), f"{peer / closed:.2f}", f"{peer / draws:.2f}", f"{gap:.0e}"))
        targets.append(Target(f"{name}: posterior and its predictions", peer / closed, 1.0, agreed=gap < CLOSE))
    print_table(
        "fit + predict with the whole posterior; seconds",
        ("", "scikit-learn", "closed form", f"{DRAWS} draws", "ratio", "of draws", "gap"),
        rows,
        "scikit-learn: its point estimate. Closed form: posterior_predictive, all parameters integrated out. Draws: exact, "
        "log-likelihood of every row at every draw, predictions averaged. gap: largest difference of the two probabilities.",
    )
    return targets


def integrate(case: Case) -> tuple[float, np.ndarray]:
    """(seconds, class probabilities) of the conjugate posterior and its predictive, both in closed form."""
    from inference import posterior_predictive

    clock = time.perf_counter()
    probs = posterior_predictive(case.build(case.data), case.data, case.data)["probs"].values
    return time.perf_counter() - clock, probs


def _with_default_prior(name: str) -> Callable[[Any], Any]:
    from models import MODELS

    if name == "Gaussian naive":
        return lambda data: MODELS["naive_bayes"](data, emission="gaussian")
    return lambda data: MODELS["linear_discriminant"](data, covariance="full" if name == "quadratic" else "tied")


class Sampled(NamedTuple):
    """Runs of one sampler: means of the weights and their Monte Carlo errors, and effective draws per second."""

    mean: np.ndarray
    error: np.ndarray
    rate: float
    row: tuple[str, ...]


def measure_polya_gamma() -> list[Target]:
    """Gibbs and NUTS on the first ten columns of `breast_cancer`: 4 × (1000 + 2000) draws, everything compiled."""
    gibbs, nuts = (_sampled(method) for method in ("gibbs", "nuts"))
    z = np.abs(gibbs.mean - nuts.mean) / np.hypot(gibbs.error, nuts.error)
    columns = ("", "smallest ESS of a weight", "seconds", "ESS/s")
    print_table("logistic regression: Pólya-Gamma Gibbs and NUTS", columns, (gibbs.row, nuts.row))
    CONSOLE.print(f"largest difference of two means: {z.max():.1f} Monte Carlo standard errors", style="dim")
    return [Target("Pólya-Gamma Gibbs over NUTS, ESS/s", gibbs.rate / nuts.rate, 1.0, agreed=bool(z.max() < 5))]


def _sampled(method: str) -> Sampled:
    from arviz_stats import ess

    from inference import fit
    from models import MODELS, load_data

    data = load_data("breast_cancer")
    data = load_data(data, columns=list(data.columns[:10]))
    model = MODELS["logistic_regression"](data)
    fit(model, data, method, num_warmup=10, num_samples=10)
    trees = [fit(model, data, method, seed=seed, num_warmup=1000, num_samples=2000) for seed in range(3)]
    weights = [tree["posterior"].to_dataset()["weight"] for tree in trees]
    smallest = [float(ess(weight).min()) for weight in weights]
    spent = [tree.attrs["warmup_seconds"] + tree.attrs["run_seconds"] for tree in trees]
    rate = median([size / clock for size, clock in zip(smallest, spent, strict=True)])
    draws = np.concatenate([weight.to_numpy().reshape(-1, 10) for weight in weights])
    row = (method, f"{median(smallest):.0f}", seconds(spent), f"{rate:.0f}")
    return Sampled(draws.mean(0), draws.std(0) / np.sqrt(sum(smallest)), rate, row)


def measure_few_labels() -> list[Target]:
    """Accuracy and log loss on 449 digits held out, from about 135 labelled ones, with and without the 1213 others."""
    targets = []
    for name, plans in _FEW_LABELS.items():
        found = {plan: [_few_labels(name, plan, seed) for seed in range(SEEDS)] for plan in plans}
        base = np.array(found[LABELLED_ONLY])
        rows = []
        for plan, values in found.items():
            accuracy, loss = np.array(values).T
            better = "" if plan == LABELLED_ONLY else f"{int((accuracy > base[:, 0]).sum())} of {SEEDS}"
            spreads = (f"{column.mean():.3f} ± {column.std(ddof=1):.3f}" for column in (accuracy, loss))
            rows.append((plan, *spreads, better))
        print_table(
            f"{name}, digits with one label in ten: rows held out, mean ± sd over {SEEDS} seeds",
            ("", "accuracy", "log loss", "more accurate"),
            rows,
        )
        gain = float((np.array(found["all rows, EM"]) - base)[:, 0].mean())
        targets.append(Target(f"{name}: accuracy that unlabelled rows add (EM)", gain, 0.0, unit=""))
    CONSOLE.print("weight 0.1: a row without a label counts as a tenth of one (Nigam et al. 2000)", style="dim")
    return targets


LABELLED_ONLY = "labelled rows only"
_FEW_LABELS = {
    "naive_bayes": (LABELLED_ONLY, "all rows, EM", "all rows, EM, weight 0.1", "all rows, Gibbs"),
    "linear_discriminant": (LABELLED_ONLY, "all rows, EM", "all rows, EM, weight 0.1", "all rows, Gibbs"),
}


def _few_labels(name: str, plan: str, seed: int) -> tuple[float, float]:
    """(accuracy, log loss) of one model and plan on the held-out rows of one seed."""
    from inference import fit, score
    from models import MODELS, load_data
    from models.data import split, take

    digits = load_data("binary_digits") if name == "naive_bayes" else _inked(load_data("digits"))
    train, test = split(digits, 0.25, seed)
    known = np.random.default_rng(seed).random(train.num_rows) < LABELLED
    weight = np.where(known, 1.0, 0.1) if "weight" in plan else None
    partly = train._replace(labels=np.where(known, np.asarray(train.labels), -1), weight=weight)
    data = take(train, known) if plan == LABELLED_ONLY else partly
    gibbs: dict[str, Any] = {"num_warmup": 100, "num_samples": 100, "num_chains": 2}
    method, options = ("gibbs", gibbs) if "Gibbs" in plan else ("em", {"num_starts": 1})
    model = MODELS[name](data)
    scores = score(model, fit(model, data, method, seed=seed, **options), test)
    return float(scores["accuracy"]), float(scores["log_loss"])


def _inked(digits: Any) -> Any:
    """The pixels with ink in at least one digit of twenty; the others may be constant in a few rows."""
    from models import load_data

    inked = [name for name, share in zip(digits.columns, (digits.x > 0).mean(0), strict=True) if share > 0.05]
    return load_data(digits, columns=inked)


PARTS: Mapping[str, Callable[[], list[Target]]] = {
    "speed": measure_speed,
    "posterior": measure_posterior,
    "polya_gamma": measure_polya_gamma,
    "few_labels": measure_few_labels,
}
