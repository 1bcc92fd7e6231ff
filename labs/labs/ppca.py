"""Probabilistic PCA, and in what it is PCA."""

from typing import Any

import numpy as np

from labs.parts.lab import Case, Lab, Mistake, made_once
from labs.parts.naive import factor_scores
from labs.parts.values import Values

STORY = """\
Thirteen chemical measurements of each of 178 wines are not thirteen independent facts: a few causes move many of
them together. PCA finds the directions in which a table varies most. Probabilistic PCA says why: hidden scores,
few of them, and equal noise everywhere. So it has a likelihood, can be compared with other models, and knows
how uncertain a score is. You write the fit, which needs no iteration, and see where it differs from PCA.
"""
MATHS = """\
With z_n summed out, x_n ~ Normal(mean, W Wᵀ + σ² I). The likelihood is largest where this matrix equals the sample
covariance in q directions, those with the largest eigenvalues, and is σ² in all others. Hence σ² is the *mean* of
the eigenvalues left out, and W has only what exceeds it, λ_i − σ². W R fits as well for any rotation R, so only
W Wᵀ can be known.

Given x_n, the scores are normal with mean M⁻¹ Wᵀ (x_n − mean), M = Wᵀ W + σ² I. The σ² in M pulls them to 0: scores
are uncertain, and 0 is where the prior has them. Without it you get least squares, which is PCA's projection.
"""


# ---------------------------------------------------------------------------------------------------------------------
# Naive oracles


def sample_covariance(x: Any) -> Any:
    """Row by row."""
    mean = sum(x) / len(x)
    return mean, sum(np.outer(row - mean, row - mean) for row in x) / len(x)


def fit_ppca(covariance: Any, q: Any) -> Any:
    """By singular values, which come in falling order."""
    vectors, values, _ = np.linalg.svd(covariance)
    variance = (np.trace(covariance) - sum(values[:q])) / (len(covariance) - q)
    return np.stack([vectors[:, i] * (values[i] - variance) ** 0.5 for i in range(q)], axis=1), variance


def log_likelihood(x: Any, mean: Any, W: Any, variance: Any) -> Any:
    """By SciPy's density."""
    from scipy.stats import multivariate_normal

    return float(np.sum(multivariate_normal(mean, W @ W.T + variance * np.eye(len(W))).logpdf(x)))


def project(x: Any, mean: Any, W: Any) -> Any:
    """By least squares, row by row."""
    return np.array([mean + W @ np.linalg.lstsq(W, row - mean, rcond=None)[0] for row in x])


# ---------------------------------------------------------------------------------------------------------------------
# Cases and mistakes


def _x(rng: np.random.Generator) -> np.ndarray:
    return 3 + rng.normal(size=(25, 2)) @ rng.normal(size=(2, 5)) + 0.5 * rng.normal(size=(25, 5))


def _x_cases(rng: np.random.Generator) -> list[Case]:
    return [Case("five columns", {"x": _x(rng)})]


def _fit_cases(rng: np.random.Generator) -> list[Case]:
    return [Case(f"{q} of five directions", {"covariance": np.cov(_x(rng).T), "q": q}) for q in (1, 2, 3)]


def _given(rng: np.random.Generator, *names: str) -> list[Case]:
    found = []
    for q, variance in ((2, 0.6), (1, 1.7)):
        given = {"x": _x(rng), "mean": np.full(5, 2.5), "W": rng.normal(size=(5, q)), "variance": variance}
        found.append(Case(f"{q} of five directions", {name: given[name] for name in ("x", *names)}))
    return found


def _eigen(covariance: Any) -> Any:
    values, vectors = np.linalg.eigh(covariance)
    return values[::-1], vectors[:, ::-1]


def _loadings(covariance: Any, q: int, scale: Any) -> Any:
    values, vectors = _eigen(covariance)
    return vectors[:, :q] * scale(values[:q], values[q:].mean())


def _wrong_density(half: float, determinant: float, x: Any, mean: Any, W: Any, variance: Any) -> Any:
    C = W @ W.T + variance * np.eye(len(W))
    distance = ((x - mean) @ np.linalg.inv(C) * (x - mean)).sum(1)
    return (-0.5 * (x.shape[1] * np.log(2 * np.pi) + determinant * np.linalg.slogdet(C)[1]) - half * distance).sum()


COVARIANCE = Values(
    "sample_covariance",
    2,
    _x_cases,
    sample_covariance,
    (
        Mistake(
            "the covariance of `sample_covariance` is divided by N − 1; maximum likelihood divides by N",
            lambda x: np.cov(x.T),
            "covariance",
        ),
        Mistake(
            "the covariance of `sample_covariance` is not centred: subtract the mean first",
            lambda x: x.T @ x / len(x),
            "covariance",
        ),
        Mistake(
            "the covariance of `sample_covariance` is a correlation: do not divide by standard deviations",
            lambda x: np.corrcoef(x.T),
            "covariance",
        ),
    ),
    ("mean", "covariance"),
    follows={"covariance": lambda found, x: (x - found["mean"]).T @ (x - found["mean"]) / len(x)},
)
FIT = Values(
    "fit_ppca",
    7,
    _fit_cases,
    fit_ppca,
    (
        Mistake(
            "W of `fit_ppca` has √λ: that is PCA; the noise explains σ² of it, √(λ − σ²)",
            lambda c, q: _loadings(c, q, lambda v, s: np.sqrt(v)),
            "W",
        ),
        Mistake("W of `fit_ppca` lacks the square root of λ − σ²", lambda c, q: _loadings(c, q, lambda v, s: v - s), "W"),
        Mistake(
            "W of `fit_ppca` has unit columns: scale each by √(λ − σ²)", lambda c, q: _loadings(c, q, lambda v, s: 1.0), "W"
        ),
        Mistake(
            "W of `fit_ppca` has the smallest eigenvalues: eigh returns them in rising order",
            lambda c, q: np.linalg.eigh(c)[1][:, :q] * np.sqrt(np.abs(np.linalg.eigh(c)[0][:q] - _eigen(c)[0][q:].mean())),
            "W",
        ),
        Mistake(
            "W of `fit_ppca` takes rows of the matrix of eigenvectors; they are its columns",
            lambda c, q: _eigen(c)[1].T[:, :q] * np.sqrt(_eigen(c)[0][:q] - _eigen(c)[0][q:].mean()),
            "W",
        ),
        Mistake(
            "σ² of `fit_ppca` is the sum of the eigenvalues left out; take their mean",
            lambda c, q: _eigen(c)[0][q:].sum(),
            "σ²",
        ),
        Mistake(
            "σ² of `fit_ppca` divides by D; divide by the D − q directions left out",
            lambda c, q: _eigen(c)[0][q:].sum() / len(c),
            "σ²",
        ),
        Mistake(
            "σ² of `fit_ppca` is the smallest eigenvalue; take the mean of those left out", lambda c, q: _eigen(c)[0][-1], "σ²"
        ),
        Mistake(
            "σ² of `fit_ppca` is the largest eigenvalue left out; take the mean of all that are",
            lambda c, q: _eigen(c)[0][q],
            "σ²",
        ),
        Mistake(
            "σ² of `fit_ppca` is the mean of the largest eigenvalues: eigh returns them in rising order",
            lambda c, q: np.linalg.eigh(c)[0][q:].mean(),
            "σ²",
        ),
        Mistake(
            "σ² of `fit_ppca` skips the largest eigenvalue left out: one index off",
            lambda c, q: _eigen(c)[0][q + 1 :].mean(),
            "σ²",
        ),
        Mistake(
            "W of `fit_ppca` has roots of negative numbers: λ − σ² needs the largest eigenvalues, and eigh returns them last",
            lambda c, q: np.full((len(c), q), np.nan),
            "W",
        ),
    ),
    ("W", "σ²"),
    {"W": lambda W, given: W @ W.T},
    {"W": lambda found, c, q: _eigen(c)[1][:, :q] * np.sqrt(_eigen(c)[0][:q] - found["σ²"])},
)
LIKELIHOOD = Values(
    "log_likelihood",
    4,
    lambda rng: _given(rng, "mean", "W", "variance"),
    log_likelihood,
    (
        Mistake("`log_likelihood` leaves out the determinant of C", lambda *given: _wrong_density(0.5, 0.0, *given)),
        Mistake("`log_likelihood` lacks the ½ of the quadratic form", lambda *given: _wrong_density(1.0, 1.0, *given)),
        Mistake(
            "`log_likelihood` adds σ to the diagonal of W Wᵀ; it is σ²", lambda x, m, W, v: log_likelihood(x, m, W, v**0.5)
        ),
        Mistake(
            "`log_likelihood` adds log det C once; it belongs to every row",
            lambda x, m, W, v: log_likelihood(x, m, W, v) + 0.5 * (len(x) - 1) * np.linalg.slogdet(W @ W.T + v * np.eye(5))[1],
        ),
        Mistake(
            "`log_likelihood` adds D log 2π + log det C once; both belong to every row",
            lambda x, m, W, v: log_likelihood(x, m, W, v) - (len(x) - 1) * log_likelihood(m[None], m, W, v),
        ),
        Mistake(
            "`log_likelihood` is the mean over the rows; it should be their sum",
            lambda x, m, W, v: log_likelihood(x, m, W, v) / len(x),
        ),
        Mistake("`log_likelihood` lacks the ½ of the whole sum", lambda *given: 2 * log_likelihood(*given)),
    ),
    ("log-likelihood",),
)
SCORES = Values(
    "scores",
    4,
    lambda rng: _given(rng, "mean", "W", "variance"),
    factor_scores,
    (
        Mistake(
            "`scores` is least squares: M has σ² I, which pulls scores to 0",
            lambda x, m, W, v: np.linalg.solve(W.T @ W, W.T @ (x - m).T).T,
        ),
        Mistake(
            "`scores` adds σ² to every entry of M; add it to the diagonal, σ² I",
            lambda x, m, W, v: np.linalg.solve(W.T @ W + v, W.T @ (x - m).T).T,
        ),
        Mistake("`scores` is Wᵀ (x − mean): divide by M", lambda x, m, W, v: (x - m) @ W),
        Mistake("`scores` does not subtract the mean", lambda x, m, W, v: factor_scores(x, 0 * m, W, v)),
    ),
    ("scores",),
    plural=("scores",),
)
PROJECT = Values(
    "project",
    3,
    lambda rng: _given(rng, "mean", "W"),
    project,
    (
        Mistake("`project` does not add the mean again", lambda x, m, W: project(x, m, W) - m),
        Mistake(
            "`project` is W Wᵀ (x − mean): that needs orthonormal columns; use (Wᵀ W)⁻¹", lambda x, m, W: m + (x - m) @ W @ W.T
        ),
        Mistake("`project` does not subtract the mean first", lambda x, m, W: m + project(x, 0 * m, W)),
    ),
    ("points",),
    plural=("points",),
)


@made_once
def data() -> dict[str, np.ndarray]:
    """13 measurements of 178 wines, each in units of its standard deviation, and their cultivars."""
    from models.datasets.tables import wine

    found = wine()
    x = np.asarray(found.x, dtype=float)
    return {"x": (x - x.mean(0)) / x.std(0), "cultivar": np.asarray(found.labels), "columns": np.array(found.columns)}


LAB = Lab("ppca", "Probabilistic PCA", 60, STORY, MATHS, (COVARIANCE, FIT, LIKELIHOOD, SCORES, PROJECT), data)
