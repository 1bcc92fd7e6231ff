"""Linear discriminant analysis: from class means to a straight line."""

import math
from typing import Any

import numpy as np

from labs.parts.lab import Case, Lab, Mistake, made_once
from labs.parts.naive import exp_at_once, softmax
from labs.parts.values import Values

STORY = """\
Men, women and aliens arrive from Mars, and the passport office has weighed and measured some of each. The next
visitor shows no passport. If each kind is a Gaussian cloud, Bayes' rule gives the probability of each kind.
If the clouds have the same shape and orientation, something nice happens: the quadratic terms cancel, and the
border between two kinds is a straight line.
"""
MATHS = """\
The log-likelihood is Σ_n [ log probs_{y_n} − ½ log det Σ − ½ (x_n − μ_{y_n})ᵀ Σ⁻¹ (x_n − μ_{y_n}) ] and constants.
Its derivative with respect to Σ⁻¹ is N/2 Σ minus half of the scatter matrix about the means *of the classes*,
so Σ is that scatter divided by N. In log p(y = c, x) the term −½ xᵀ Σ⁻¹ x is the same for all classes and
cancels in P(y | x): a softmax of linear functions remains, as in logistic regression.
"""


# ---------------------------------------------------------------------------------------------------------------------
# Naive oracles


def estimate(x: Any, y: Any, num_classes: Any) -> Any:
    """Class by class, row by row."""
    classes = [x[[n for n in range(len(x)) if y[n] == c]] for c in range(num_classes)]
    means = [sum(rows) / len(rows) for rows in classes]
    scatter = sum(np.outer(row - mean, row - mean) for rows, mean in zip(classes, means, strict=True) for row in rows)
    return np.array([len(rows) / len(x) for rows in classes]), np.array(means), scatter / len(x)


def log_joint(x: Any, probs: Any, means: Any, covariance: Any) -> Any:
    """By SciPy's density."""
    from scipy.stats import multivariate_normal

    each = [multivariate_normal(mean, covariance).logpdf(x) + math.log(p) for p, mean in zip(probs, means, strict=True)]
    return np.array(each).reshape(len(probs), len(x)).T


def linear_form(probs: Any, means: Any, covariance: Any) -> Any:
    """The value at the origin, and what a step along each axis adds; the constant is that of a class at the origin."""
    size = means.shape[1]
    points = np.concatenate([np.zeros((1, size)), np.eye(size)])
    common = log_joint(points, np.ones(1), np.zeros((1, size)), covariance)
    values = log_joint(points, probs, means, covariance) - common
    return (values[1:] - values[0]).T, values[0]


def predict(x: Any, weights: Any, bias: Any) -> Any:
    """Row by row."""
    return softmax([[sum(row * weight) + b for weight, b in zip(weights, bias, strict=True)] for row in x])


# ---------------------------------------------------------------------------------------------------------------------
# Cases and mistakes


def _rows(rng: np.random.Generator, classes: int, columns: int) -> dict[str, Any]:
    y = np.concatenate([np.arange(classes), np.arange(classes), rng.integers(classes, size=14)])
    x = 2 * rng.normal(size=(classes, columns))[y] + rng.normal(size=(len(y), columns)) @ rng.normal(size=(columns, columns))
    return {"x": x, "y": y, "num_classes": classes}


def _estimate_cases(rng: np.random.Generator) -> list[Case]:
    return [Case("three classes in the plane", _rows(rng, 3, 2)), Case("two classes in space", _rows(rng, 2, 3))]


def _parameters(rng: np.random.Generator, classes: int, columns: int) -> dict[str, np.ndarray]:
    root = rng.normal(size=(columns, columns))
    return {
        "probs": rng.dirichlet(np.full(classes, 3.0)),
        "means": rng.normal(size=(classes, columns)),
        "covariance": root @ root.T + np.eye(columns),
    }


def _joint_cases(rng: np.random.Generator) -> list[Case]:
    return [Case("three classes in the plane", {"x": rng.normal(size=(8, 2))} | _parameters(rng, 3, 2))]


def _linear_cases(rng: np.random.Generator) -> list[Case]:
    return [Case("three classes in the plane", _parameters(rng, 3, 2)), Case("two classes in space", _parameters(rng, 2, 3))]


def _predict_cases(rng: np.random.Generator) -> list[Case]:
    given = {"weights": rng.normal(size=(3, 2)), "bias": rng.normal(size=3)}
    x = rng.normal(size=(8, 2))
    return [Case("near", {"x": x} | given), Case("scores too large for exp", {"x": 2_000 * x} | given, True)]


def _covariances(x: Any, y: Any, classes: int) -> list[Any]:
    return [np.cov(x[y == c].T, bias=True) for c in range(classes)]


def _quadratic(factor: float, sign: float, x: Any, probs: Any, means: Any, covariance: Any) -> Any:
    """The log joint with another factor of the quadratic form."""
    away = x[:, None, :] - means
    distance = np.einsum("nci,ij,ncj->nc", away, np.linalg.inv(covariance), away)
    return log_joint(x, probs, means, covariance) + (0.5 + sign * factor) * distance


def _no_inverse(x: Any, probs: Any, means: Any, covariance: Any) -> Any:
    away = x[:, None, :] - means
    constant = x.shape[1] * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1]
    return np.log(probs) - 0.5 * (constant + np.einsum("nci,ij,ncj->nc", away, covariance, away))


def _columns(x: Any, weights: Any, bias: Any) -> Any:
    scores = x @ weights.T + bias
    scaled = np.exp(scores - scores.max(0))
    return scaled / scaled.sum(0)


def _columns_after_rows(x: Any, weights: Any, bias: Any) -> Any:
    scores = x @ weights.T + bias
    scaled = np.exp(scores - scores.max(1, keepdims=True))
    return scaled / scaled.sum(0)


ESTIMATE = Values(
    "estimate",
    6,
    _estimate_cases,
    estimate,
    (
        Mistake(
            "the covariance of `estimate` is about the mean of all rows: take each row from the mean of its own class",
            lambda x, y, classes: np.cov(x.T, bias=True),
            "covariance",
        ),
        Mistake(
            "the covariance of `estimate` is divided by N − C: unbiased, but maximum likelihood divides by N",
            lambda x, y, classes: estimate(x, y, classes)[2] * len(x) / (len(x) - classes),
            "covariance",
        ),
        Mistake(
            "the covariance of `estimate` averages the classes as if they were equally large: weight them by their rows",
            lambda x, y, classes: sum(_covariances(x, y, classes)) / classes,
            "covariance",
        ),
        Mistake(
            "the covariance of `estimate` is the sum of the classes' covariances: it should be their weighted mean",
            lambda x, y, classes: sum(_covariances(x, y, classes)),
            "covariance",
        ),
        Mistake(
            "the means of `estimate` are divided by N; divide by the number of rows of the class",
            lambda x, y, classes: np.array([x[y == c].sum(0) / len(x) for c in range(classes)]),
            "means",
        ),
        Mistake(
            "probs of `estimate` are equal; they are the shares of the classes",
            lambda x, y, classes: np.full(classes, 1 / classes),
            "probs",
        ),
        Mistake(
            "the covariance of `estimate` is a sum over the rows: divide it by N",
            lambda x, y, classes: estimate(x, y, classes)[2] * len(x),
            "covariance",
        ),
        Mistake(
            "the covariance of `estimate` has variances alone: columns vary together, too",
            lambda x, y, classes: np.diag(np.diag(estimate(x, y, classes)[2])),
            "covariance",
        ),
    ),
    ("probs", "means", "covariance"),
    follows={"covariance": lambda found, x, y, c: (x - found["means"][y]).T @ (x - found["means"][y]) / len(x)},
    shares=("probs",),
    plural=("probs", "means"),
)
JOINT = Values(
    "log_joint",
    5,
    _joint_cases,
    log_joint,
    (
        Mistake("`log_joint` adds the quadratic form; subtract half of it", lambda *given: _quadratic(1.0, 1.0, *given)),
        Mistake("`log_joint` lacks the ½ of the quadratic form", lambda *given: _quadratic(1.0, -1.0, *given)),
        Mistake("`log_joint` multiplies by the covariance; multiply by its inverse", _no_inverse),
        Mistake(
            "`log_joint` leaves out log probs: rare classes become too probable",
            lambda x, probs, *rest: log_joint(x, np.ones_like(probs), *rest),
        ),
        Mistake(
            "`log_joint` leaves out −½ log det(covariance)",
            lambda x, p, m, covariance: log_joint(x, p, m, covariance) + 0.5 * np.linalg.slogdet(covariance)[1],
        ),
        Mistake(
            "`log_joint` lacks the ½ of log det(covariance)",
            lambda x, p, m, covariance: log_joint(x, p, m, covariance) - 0.5 * np.linalg.slogdet(covariance)[1],
        ),
        Mistake(
            "`log_joint` has ½ log 2π once; it belongs to each of the D columns",
            lambda x, *rest: log_joint(x, *rest) + 0.5 * (x.shape[1] - 1) * np.log(2 * np.pi),
        ),
        Mistake("`log_joint` adds probs; add their logarithms", lambda x, p, *rest: log_joint(x, np.exp(p), *rest)),
        Mistake(
            "`log_joint` is log p(y = c | x_n): do not divide by the sum over the classes",
            lambda *given: log_joint(*given) - np.logaddexp.reduce(log_joint(*given), axis=1)[:, None],
        ),
    ),
    ("log p(y, x)",),
)
LINEAR = Values(
    "linear_form",
    5,
    _linear_cases,
    linear_form,
    (
        Mistake("weights of `linear_form` are means times covariance; it is the inverse", lambda p, m, c: m @ c, "weights"),
        Mistake(
            "the bias of `linear_form` leaves out log probs",
            lambda p, m, c: linear_form(np.ones_like(p), m, c)[1],
            "bias",
        ),
        Mistake(
            "the bias of `linear_form` has + ½ means · weights; the sign is minus",
            lambda p, m, c: 2 * np.log(p) - linear_form(p, m, c)[1],
            "bias",
        ),
        Mistake("the bias of `linear_form` lacks the ½", lambda p, m, c: 2 * linear_form(p, m, c)[1] - np.log(p), "bias"),
        Mistake(
            "the bias of `linear_form` has probs; it should have log probs",
            lambda p, m, c: linear_form(np.exp(p), m, c)[1],
            "bias",
        ),
        Mistake(
            "the bias of `linear_form` has means · means; it should have means · weights",
            lambda p, m, c: np.log(p) - 0.5 * (m * m).sum(1),
            "bias",
        ),
        Mistake("the bias of `linear_form` is log probs alone", lambda p, m, c: np.log(p), "bias"),
    ),
    ("weights", "bias"),
    follows={"bias": lambda found, p, m, c: np.log(p) - 0.5 * (m * found["weights"]).sum(1)},
    plural=("weights",),
)
PREDICT = Values(
    "predict",
    4,
    _predict_cases,
    predict,
    (
        Mistake(
            "`predict` is infinity / infinity for large scores: subtract the largest of each row first",
            lambda x, w, b: exp_at_once(x @ w.T + b),
        ),
        Mistake("`predict` ignores the bias", lambda x, weights, bias: predict(x, weights, 0 * bias)),
        Mistake("`predict` makes columns sum to 1; rows should", _columns),
        Mistake("`predict` divides by the sum of each column; divide by the sum of each row", _columns_after_rows),
        Mistake(
            "`predict` takes the sigmoid of each score: that is for two classes; divide by the sum over all",
            lambda x, w, b: 1 / (1 + np.exp(-(x @ w.T + b))),
        ),
    ),
    ("probabilities",),
    shares=("probabilities",),
    plural=("probabilities",),
)


@made_once
def data() -> dict[str, np.ndarray]:
    """Weight (kg) and height (cm) of 200 visitors from Mars, and their kinds."""
    from models.datasets.tables import martians

    found = martians(num_rows=200, seed=2)
    return {"x": np.asarray(found.x, dtype=float), "y": np.asarray(found.labels), "kinds": np.array(found.levels)}


LAB = Lab("lda_classifier", "Linear discriminant analysis", 50, STORY, MATHS, (ESTIMATE, JOINT, LINEAR, PREDICT), data)
