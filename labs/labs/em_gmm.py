"""EM for a Gaussian mixture with diagonal covariances and a prior."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from labs.parts.lab import Case, Lab, Mistake, State, made_once
from labs.parts.mixture_em import Prior, iterations, log_joint, log_posterior, m_step, variances_about
from labs.parts.naive import exp_at_once, exp_less_largest_of_all, softmax
from labs.parts.runs import Run
from labs.parts.values import Values

STORY = """\
150 irises were measured in 1935: two lengths of each are in your data, and the species is not. k-means would
cut between groups along straight lines. A mixture says more: how large each group is, how wide in each
direction, and with what probability a flower belongs to it. You write EM, which finds the parameters by
taking turns: with the parameters fixed, how probable is each group for each flower? With these
probabilities fixed, which parameters are best?
"""
MATHS = """\
The log posterior has a sum over groups inside a logarithm, so no formula maximises it. EM maximises a lower
bound instead, which touches the log posterior at the current parameters when r_nk = p(z_n = k | x_n). So the
log posterior can never fall: that is the test of every EM program.

The prior keeps a group from shrinking onto one flower, where the density has no limit. A Gamma(a, b) prior of a
precision λ has log density (a − 1) log λ − b λ and constants; a Dirichlet(α) prior of weights has
(α − 1) Σ_k log weights_k. Set derivatives to zero (for the weights with a Lagrange multiplier), and the three
formulas of `m_step` follow. The mean of a group has no prior: any value is as probable as any other.
"""
PRIOR = Prior(2.0, 2.0, 0.1)


RIGHT = SimpleNamespace(log_joint=log_joint, responsibilities=softmax, m_step=m_step, log_posterior=log_posterior)


# ---------------------------------------------------------------------------------------------------------------------
# Cases and mistakes; the naive oracles are in parts/mixture_em.py


def _parameters(rng: np.random.Generator, groups: int, columns: int) -> dict[str, np.ndarray]:
    return {
        "weights": rng.dirichlet(np.full(groups, 3.0)),
        "means": 2 * rng.normal(size=(groups, columns)),
        "variances": rng.gamma(3.0, 0.5, (groups, columns)),
    }


def _joint_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("three groups in the plane", {"x": rng.normal(size=(12, 2))} | _parameters(rng, 3, 2)),
        Case("two groups, four columns", {"x": rng.normal(size=(9, 4))} | _parameters(rng, 2, 4)),
    ]


def _responsibility_cases(rng: np.random.Generator) -> list[Case]:
    """Some rows are far below others: the largest of all log_p is no help for them."""
    near = rng.normal(size=(10, 3)) - 2
    far = near - 1_000 * (1 + np.arange(10)[:, None] % 2)
    return [Case("near", {"log_p": near}), Case("densities too small for exp", {"log_p": far}, True)]


NUMBERS = {"alpha": 2.5, "a": 3.0, "b": 0.7}


def _m_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("three groups in the plane", {"x": rng.normal(size=(20, 2)), "r": rng.dirichlet(np.ones(3), 20)} | NUMBERS),
        Case("two groups, three columns", {"x": 3 + rng.normal(size=(15, 3)), "r": rng.dirichlet(np.ones(2), 15)} | NUMBERS),
    ]


def _posterior_cases(rng: np.random.Generator) -> list[Case]:
    x, found = rng.normal(size=(12, 2)), _parameters(rng, 3, 2)
    return [
        Case("near", {"x": x} | found | NUMBERS),
        Case("densities too small for exp", {"x": x + 100} | found | NUMBERS, True),
    ]


def _quadratic(factor: float, x: Any, weights: Any, means: Any, variances: Any) -> Any:
    away = (x[:, None, :] - means) ** 2 / variances
    return np.log(weights) - 0.5 * np.log(2 * np.pi * variances).sum(-1) - factor * away.sum(-1)


def _over_rows(log_p: Any) -> Any:
    scaled = np.exp(log_p - log_p.max())
    return scaled / scaled.sum(0)


def _variances(x: Any, r: Any, top: float, bottom: float) -> Any:
    """(top + scatter) / (N_k + bottom)."""
    return variances_about(r.T @ x / r.sum(0)[:, None], x, r, top, bottom)


def _log_likelihood(x: Any, weights: Any, means: Any, variances: Any, *prior: Any) -> Any:
    return log_posterior(x, weights, means, variances, 1.0, 1.0, 0.0)


def _log_inside(x: Any, weights: Any, means: Any, variances: Any, alpha: Any, a: Any, b: Any) -> Any:
    prior = log_posterior(x[:0], weights, means, variances, alpha, a, b)
    return (weights * (log_joint(x, weights, means, variances) - np.log(weights))).sum() + prior


def _underflow(x: Any, weights: Any, means: Any, variances: Any, alpha: Any, a: Any, b: Any) -> Any:
    prior = log_posterior(x[:0], weights, means, variances, alpha, a, b)
    return np.log(np.exp(log_joint(x, weights, means, variances)).sum(1)).sum() + prior


def _variance_prior(x: Any, weights: Any, means: Any, variances: Any, alpha: Any, a: Any, b: Any) -> Any:
    gamma = ((a - 1) * np.log(variances) - b * variances).sum()
    return log_posterior(x, weights, means, variances, alpha, 1.0, 0.0) + gamma


JOINT = Values(
    "log_joint",
    4,
    _joint_cases,
    log_joint,
    (
        Mistake(
            "`log_joint` leaves out log weights_k: the result is log p(x_n | z_n = k)",
            lambda x, w, m, v: log_joint(x, np.ones_like(w), m, v),
        ),
        Mistake("`log_joint` adds weights_k; it should add log weights_k", lambda x, w, m, v: log_joint(x, np.exp(w), m, v)),
        Mistake("`log_joint` lacks the ½ before (x − mean)² / variance", lambda *given: _quadratic(1.0, *given)),
        Mistake(
            "`log_joint` squares the variances: they are variances already, not standard deviations",
            lambda x, w, m, v: log_joint(x, w, m, v**2),
        ),
        Mistake(
            "`log_joint` leaves out −½ log(2π variance): groups of different width cannot be compared",
            lambda x, w, m, v: np.log(w) - 0.5 * ((x[:, None] - m) ** 2 / v).sum(-1),
        ),
    ),
    ("log p(z, x)",),
)
E_STEP = Values(
    "responsibilities",
    4,
    _responsibility_cases,
    softmax,
    (
        Mistake(
            "`responsibilities` is 0 / 0 where all densities are too small for exp: subtract the largest logarithm first",
            exp_at_once,
        ),
        Mistake(
            "`responsibilities` is 0 / 0 in rows far below others: subtract the largest of each row, not of the whole table",
            exp_less_largest_of_all,
        ),
        Mistake("`responsibilities` makes columns sum to 1; the rows should: p(z_n = k | x_n) over k", _over_rows),
        Mistake(
            "`responsibilities` gives each row to one group: that is k-means; EM shares it by probability",
            lambda log_p: np.eye(log_p.shape[1])[log_p.argmax(1)],
        ),
        Mistake(
            "`responsibilities` divides the logarithms by their sum: take exp before you normalise",
            lambda log_p: log_p / log_p.sum(1, keepdims=True),
        ),
    ),
    ("responsibilities",),
    shares=("responsibilities",),
    plural=("responsibilities",),
)
M_STEP = Values(
    "m_step",
    6,
    _m_cases,
    m_step,
    (
        Mistake(
            "the weights of `m_step` are N_k / N: the prior's α − 1 is forgotten",
            lambda x, r, *prior: r.mean(0),
            "weights",
        ),
        Mistake(
            "the weights of `m_step` have α for α − 1: that is the posterior mean, and M wants the mode",
            lambda x, r, alpha, a, b: (r.sum(0) + alpha) / (len(x) + r.shape[1] * alpha),
            "weights",
        ),
        Mistake(
            "the means of `m_step` are divided by N; divide by N_k",
            lambda x, r, *prior: r.T @ x / len(x),
            "means",
        ),
        Mistake(
            "the means of `m_step` are all the mean of the data: weight each row by its responsibility",
            lambda x, r, *prior: np.tile(x.mean(0), (r.shape[1], 1)),
            "means",
        ),
        Mistake(
            "means given responsibilities are right, but the variances of `m_step` are not: b or 2b?",
            lambda x, r, alpha, a, b: _variances(x, r, b, 2 * a - 2),
            "variances",
        ),
        Mistake(
            "the variances of `m_step` are scatter / N_k: maximum likelihood, without the prior's a and b",
            lambda x, r, *prior: _variances(x, r, 0.0, 0.0),
            "variances",
        ),
        Mistake(
            "the variances of `m_step` are divided by N_k + 2a − 1, as if means had a prior, too; it is N_k + 2a − 2",
            lambda x, r, alpha, a, b: _variances(x, r, 2 * b, 2 * a - 1),
            "variances",
        ),
        Mistake(
            "the variances of `m_step` are divided by N_k − 1 as an unbiased variance, without the prior",
            lambda x, r, *prior: _variances(x, r, 0.0, -1.0),
            "variances",
        ),
    ),
    ("weights", "means", "variances"),
    follows={"variances": lambda found, x, r, alpha, a, b: variances_about(found["means"], x, r, 2 * b, 2 * a - 2)},
    shares=("weights",),
    plural=("weights", "means", "variances"),
)
BOUND = Values(
    "log_posterior",
    4,
    _posterior_cases,
    log_posterior,
    (
        Mistake("`log_posterior` is the log-likelihood: the prior is forgotten", _log_likelihood),
        Mistake(
            "`log_posterior` sums weights times log densities over k; it is the log of the sum, not the sum of logs",
            _log_inside,
        ),
        Mistake(
            "`log_posterior` is −infinity where all densities of a row are too small for exp: take the largest out of the sum",
            _underflow,
        ),
        Mistake(
            "`log_posterior` has the Gamma prior of the variances; it is the prior of the precisions 1 / variances",
            _variance_prior,
        ),
    ),
    ("log posterior",),
)


@made_once
def data() -> dict[str, np.ndarray]:
    """Petal length and width of 150 irises (cm), and three of them as means to start from."""
    from models.datasets.tables import iris

    x = np.asarray(iris().x, dtype=float)[:, 2:]
    return {"x": x, "start": x[[60, 100, 140]]}


def _advance(student: Any, state: State, iteration: int) -> State:
    x = data()["x"]
    r = student.responsibilities(student.log_joint(x, state["weights"], state["means"], state["variances"]))
    weights, means, variances = student.m_step(x, r, *PRIOR)
    return {"weights": weights, "means": means, "variances": variances, "r": r}


def _panels(axes: Any, state: State) -> None:
    from inference.plots.run_panels import ellipses, scatter

    scatter(axes, data()["x"], state["r"].argmax(1) if "r" in state else None, state["means"])
    ellipses(axes, state["means"], state["variances"])
    axes.set(xlabel="petal length (cm)", ylabel="petal width (cm)")


ITERATIONS = iterations(data, _advance, PRIOR, "the E-step", "your responsibilities sum to 1", _panels)
LAB = Lab(
    "em_gmm",
    "EM for a Gaussian mixture",
    75,
    STORY,
    MATHS,
    (JOINT, E_STEP, M_STEP, BOUND, Run(("log_joint", "responsibilities", "m_step"), 4, ITERATIONS, RIGHT)),
    data,
    iterations=ITERATIONS,
)
