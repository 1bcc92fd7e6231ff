"""EM for mixtures with diagonal covariances: the oracles and iterations of two labs. A cell that is NaN is missing."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from labs.parts.lab import Iterations, State
from labs.parts.naive import softmax

FIELDS = ("weights", "means", "variances")


class Prior(NamedTuple):
    """Dirichlet(alpha) of the weights, Gamma(a, b) of every precision."""

    alpha: float
    a: float
    b: float


def log_joint(x: Any, weights: Any, means: Any, variances: Any) -> Any:
    """Log p(z_n = k, x_n): row by row, cell by cell."""
    found = np.zeros((len(x), len(weights)))
    for n, row in enumerate(x):
        for k, weight in enumerate(weights):
            found[n, k] = math.log(weight)
            for value, mean, variance in zip(row, means[k], variances[k], strict=True):
                if not math.isnan(value):
                    found[n, k] -= 0.5 * math.log(2 * math.pi * variance) + 0.5 * (value - mean) ** 2 / variance
    return found


def m_step(x: Any, r: Any, alpha: Any, a: Any, b: Any) -> Any:
    """Group by group, column by column."""
    size, groups = r.shape
    shape = (groups, x.shape[1])
    means, variances = np.zeros(shape), np.zeros(shape)
    for k, d in np.ndindex(shape):
        rows = [n for n in range(size) if not math.isnan(x[n, d])]
        count = sum(r[n, k] for n in rows)
        means[k, d] = sum(r[n, k] * x[n, d] for n in rows) / count
        variances[k, d] = (2 * b + sum(r[n, k] * (x[n, d] - means[k, d]) ** 2 for n in rows)) / (count + 2 * a - 2)
    weights = [(sum(r[:, k]) + alpha - 1) / (size + groups * (alpha - 1)) for k in range(groups)]
    return np.array(weights), means, variances


def log_posterior(x: Any, weights: Any, means: Any, variances: Any, alpha: Any, a: Any, b: Any) -> Any:
    """Row by row, with the largest term taken out."""
    total = 0.0
    for row in log_joint(x, weights, means, variances):
        total += max(row) + math.log(sum(math.exp(value - max(row)) for value in row))
    total += (alpha - 1) * sum(math.log(weight) for weight in weights)
    return total + sum((a - 1) * math.log(1 / v) - b / v for v in np.ravel(variances))


def squares(x: Any, means: Any, variances: Any) -> Any:
    """(N, K, D), NaN where a cell is missing."""
    return (x[:, None] - means) ** 2 / variances


def summed(weights: Any, logs: Any, away: Any) -> Any:
    """The log joint with other logarithms and squares: log weights − ½ Σ (logs + away) over the cells that are there."""
    return np.log(weights) - 0.5 * np.nansum(logs + away, axis=2)


def variances_about(means: Any, x: Any, r: Any, top: float, bottom: float) -> Any:
    """(top + scatter about the means) / (N_kd + bottom); 2b and 2a − 2 are right."""
    scatter = np.nansum(r[:, :, None] * (x[:, None] - means) ** 2, axis=0)
    return (top + scatter) / (r.T @ ~np.isnan(x) + bottom)


def iterations(
    data: Callable[[], Mapping[str, np.ndarray]],
    advance: Callable[[Any, State, int], State],
    prior: Prior,
    first: str,
    law: str,
    panels: Callable[[Any, State], None],
) -> Iterations:
    """EM from the means ``start`` of the data. ``first``: what makes responsibilities; ``law``: that they sum to 1."""

    def start() -> State:
        x, means = data()["x"], data()["start"]
        return {
            "weights": np.full(len(means), 1 / len(means)),
            "means": means,
            "variances": np.tile(np.nanvar(x, 0), (len(means), 1)),
        }

    def bound(state: State) -> float:
        return float(log_posterior(data()["x"], state["weights"], state["means"], state["variances"], *prior))

    def e_step(before: State, after: State) -> State:
        return after | {"r": softmax(log_joint(data()["x"], before["weights"], before["means"], before["variances"]))}

    def mended(field: str, before: State, after: State) -> State:
        """Weights and means given the student's responsibilities; variances about the student's means."""
        x, r = data()["x"], after["r"]
        if field == "variances":
            return after | {field: variances_about(after["means"], x, r, 2 * prior.b, 2 * prior.a - 2)}
        return after | {field: m_step(x, r, *prior)[FIELDS.index(field)]}

    return Iterations(
        start,
        advance,
        30,
        bound,
        "log posterior",
        {first: e_step} | {f"the M-step of the {field}": partial(mended, field) for field in FIELDS},
        first,
        {law: lambda state: bool(np.allclose(state["r"].sum(1), 1, atol=1e-4))},
        panels,
    )
