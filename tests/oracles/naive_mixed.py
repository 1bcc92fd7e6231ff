"""The mixed mixture once more, column by column in NumPy and SciPy, and one small survey to compare on."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from naive import Sites
from naive_missing import with_holes
from scipy import stats

from models import MODELS, Data, load_data
from models.base import Model

KINDS = ("number", "category", "count", "number", "category")
COLUMNS = ("height", "planet", "moons", "weight", "armed")
LEVELS = ((), ("mars", "pluto", "venus"), (), (), ("no", "yes"))
LABELS = ["a", "b", None, "a|b", "b", "a", None, "b", "a", "b", "a", "b"]


def answers(num_rows: int, seed: int = 0) -> np.ndarray:
    """Two groups that differ in every column; categories are codes."""
    rng = np.random.default_rng(seed)
    group = np.arange(num_rows) % 2
    return np.column_stack(
        [
            rng.normal(2.0 * group, 1.0),
            np.where(rng.random(num_rows) < 0.6, 2 * group, rng.integers(0, 3, num_rows)),
            rng.poisson(1.0 + 4 * group),
            rng.normal(10 - 3.0 * group, 2.0),
            (rng.random(num_rows) < 0.3 + 0.5 * group).astype(float),
        ]
    ).astype(float)


WHOLE = answers(12)
X = with_holes(WHOLE, 0.3)


def survey(x: np.ndarray = X, labels: list[str | None] | None = None, weight: Any = None) -> Data:
    """The answers as a table whose kinds are known."""
    data = Data("survey", x, COLUMNS, weight=weight, categories=LEVELS, kinds=KINDS)
    return data if labels is None else load_data(data, labels=labels)


def build(data: Data | None = None, **options: Any) -> Model:
    return MODELS["mixed_mixture"](survey() if data is None else data, **options)


def random_sites(num_components: int = 2, seed: int = 1) -> Sites:
    """Any θ in the support."""
    rng = np.random.default_rng(seed)
    return {
        "mixture_probs": rng.dirichlet(np.full(num_components, 4.0)),
        "mean": np.array([1.0, 8.5]) + rng.normal(size=(num_components, 2)),
        "precision": rng.gamma(3.0, 0.2, (num_components, 2)),
        "probs_planet": rng.dirichlet(np.full(3, 2.0), num_components),
        "probs_armed": rng.dirichlet(np.full(2, 2.0), num_components),
        "rate": rng.gamma(4.0, 0.7, (num_components, 1)),
    }


def log_local(sites: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """log π_k + log p(observed cells of x_n | k): (N, K), one cell at a time."""
    found = np.tile(np.log(sites["mixture_probs"]), (len(x), 1))
    for n, row in enumerate(x):
        for k in range(found.shape[1]):
            cells = [
                lambda v, k=k: stats.norm(sites["mean"][k, 0], sites["precision"][k, 0] ** -0.5).logpdf(v),
                lambda v, k=k: np.log(sites["probs_planet"][k, int(v)]),
                lambda v, k=k: stats.poisson(sites["rate"][k, 0]).logpmf(v),
                lambda v, k=k: stats.norm(sites["mean"][k, 1], sites["precision"][k, 1] ** -0.5).logpdf(v),
                lambda v, k=k: np.log(sites["probs_armed"][k, int(v)]),
            ]
            found[n, k] += sum(cell(value) for cell, value in zip(cells, row, strict=True) if not np.isnan(value))
    return found


def log_likelihood(sites: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """log p(observed cells of x_n | θ) of every row."""
    return np.logaddexp.reduce(log_local(sites, x), axis=1)


def log_prior(hyper: Mapping[str, Any], sites: Mapping[str, np.ndarray]) -> float:
    """log p(θ): SciPy's densities, site by site."""
    spread = (hyper["strength"] * sites["precision"]) ** -0.5
    total = stats.dirichlet(hyper["concentration"]).logpdf(sites["mixture_probs"])
    total += stats.gamma(hyper["dof"] / 2, scale=2 / hyper["scatter"]).logpdf(sites["precision"]).sum()
    total += stats.norm(hyper["location"], spread).logpdf(sites["mean"]).sum()
    total += stats.gamma(hyper["shape"], scale=1 / hyper["inverse_scale"]).logpdf(sites["rate"]).sum()
    for name in ("probs_planet", "probs_armed"):
        levels = sites[name].shape[1]
        total += sum(stats.dirichlet(np.full(levels, float(hyper["level_concentration"]))).logpdf(p) for p in sites[name])
    return float(total)


def map_step(hyper: Mapping[str, Any], sites: Sites, x: np.ndarray) -> Sites:
    """One step of MAP-EM (errata E17): every column counts its own observed cells (E19)."""
    local = log_local(sites, x)
    return m_step(hyper, np.exp(local - np.logaddexp.reduce(local, axis=1, keepdims=True)), x)


def m_step(hyper: Mapping[str, Any], r: np.ndarray, x: np.ndarray) -> Sites:
    """Mode of the parameters given memberships r (N, K), column by column from the rows that have the cell."""

    def counts(d: int, levels: int) -> np.ndarray:
        return np.array([[r[x[:, d] == level, k].sum() for level in range(levels)] for k in range(r.shape[1])])

    def shares(numbers: np.ndarray) -> np.ndarray:
        return numbers / numbers.sum(axis=-1, keepdims=True)

    numbers = [number(hyper, place, r[~np.isnan(x[:, d])], x[~np.isnan(x[:, d]), d]) for place, d in enumerate((0, 3))]
    seen = ~np.isnan(x[:, 2])
    events = hyper["shape"] - 1 + r[seen].T @ x[seen, 2:3]
    return {
        "mixture_probs": shares(hyper["concentration"] - 1 + r.sum(0)),
        "mean": np.column_stack([mean for mean, _ in numbers]),
        "precision": np.column_stack([precision for _, precision in numbers]),
        "probs_planet": shares(hyper["level_concentration"] - 1 + counts(1, 3)),
        "probs_armed": shares(hyper["level_concentration"] - 1 + counts(4, 2)),
        "rate": events / (hyper["inverse_scale"] + r[seen].sum(0)[:, None]),
    }


def number(hyper: Mapping[str, Any], place: int, r: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean (K,), precision (K,)) of one column of numbers, all of whose cells are observed, as errata E17 writes them.

    With a = dof / 2, b = scatter / 2, m = location, β = strength and N_k = Σ_n r_nk:
    μ = (β m + N x̄) / (β + N), 1 / λ = [2b + N var + β N / (β + N) (x̄ − m)²] / (N + 2a − 1).
    """
    a, b, beta = hyper["dof"] / 2, hyper["scatter"][place] / 2, hyper["strength"]
    location, size = hyper["location"][place], r.sum(0)
    average = r.T @ x / size
    variance = (r * (x[:, None] - average) ** 2).sum(0) / size
    mean = (beta * location + size * average) / (beta + size)
    spread = 2 * b + size * variance + beta * size / (beta + size) * (average - location) ** 2
    return mean, (size + 2 * a - 1) / spread
