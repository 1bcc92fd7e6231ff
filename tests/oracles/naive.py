"""The Gaussian mixture once more, written stupidly in NumPy and SciPy: what the tests compare with."""

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import logsumexp
from two_stage import batch_error, of_batch_means
from xarray import DataTree

from inference.results.triangles import whole_variable
from models import MODELS, Data
from models.base import Model

COVARIANCES = ("full", "tied", "diag", "spherical", "unit")
Sites = dict[str, np.ndarray]


def table(x: Any, weight: Any = None) -> Data:
    """An array as data, with columns a, b, c, …"""
    x = np.asarray(x, dtype=float)
    return Data("table", x, tuple("abcdefgh"[: x.shape[1]]), weight=weight)


def two_groups(num_rows: int, num_columns: int = 2, gap: float = 3.0, seed: int = 0) -> np.ndarray:
    """Rows in two overlapping groups with correlated columns."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_rows, num_columns)) @ (np.eye(num_columns) + 0.4 * np.tri(num_columns, k=-1))
    return x + gap * (np.arange(num_rows) % 2)[:, None]


def build(x: Any, covariance: str, num_components: int = 2, **options: Any) -> Model:
    """The mixture of the zoo on an array, or on data."""
    data = x if isinstance(x, Data) else table(x)
    return MODELS["gmm"](data, num_components=num_components, covariance=covariance, **options)


def random_sites(covariance: str, num_components: int, x: np.ndarray, seed: int = 1, weights: str = "learned") -> Sites:
    """Any θ in the support: means near rows, precisions of the size of the data's."""
    rng = np.random.default_rng(seed)
    dimension = x.shape[1]
    mean = x[rng.choice(len(x), num_components, replace=False)] + 0.3 * rng.normal(size=(num_components, dimension))
    factors = np.eye(dimension) + 0.3 * rng.normal(size=(num_components, dimension, dimension))
    full = factors @ np.swapaxes(factors, 1, 2)
    precision = {
        "full": full,
        "tied": full[0],
        "diag": rng.gamma(3.0, 0.4, (num_components, dimension)),
        "spherical": rng.gamma(3.0, 0.4, num_components),
    }
    sites = {"mixture_probs": rng.dirichlet(np.full(num_components, 4.0))} if weights == "learned" else {}
    return sites | {"mean": mean} | ({"precision": precision[covariance]} if covariance in precision else {})


def matrices(covariance: str, sites: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The precision matrix of every component, whatever the covariance type."""
    num_components, dimension = sites["mean"].shape
    precision = sites.get("precision")
    matrix = {
        "full": lambda k: precision[k],
        "tied": lambda k: precision,
        "diag": lambda k: np.diag(precision[k]),
        "spherical": lambda k: precision[k] * np.eye(dimension),
        "unit": lambda k: np.eye(dimension),
    }[covariance]
    return [matrix(k) for k in range(num_components)]


def probs(sites: Mapping[str, np.ndarray]) -> np.ndarray:
    """Mixture weights, uniform where they are not a site."""
    num_components = len(sites["mean"])
    return sites.get("mixture_probs", np.full(num_components, 1 / num_components))


def log_local(covariance: str, sites: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """log π_k + log Normal(x_n | mean_k, precision_k⁻¹), one SciPy density at a time: (N, K)."""
    columns = [
        np.log(weight) + stats.multivariate_normal(mean, np.linalg.inv(precision)).logpdf(x)
        for weight, mean, precision in zip(probs(sites), sites["mean"], matrices(covariance, sites), strict=True)
    ]
    return np.column_stack([np.atleast_1d(column) for column in columns])


def log_likelihood(covariance: str, sites: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """log p(x_n | θ) of every row."""
    return logsumexp(log_local(covariance, sites, x), axis=1)


def responsibilities(covariance: str, sites: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """E-step, row by row."""
    local = log_local(covariance, sites, x)
    return np.exp(local - logsumexp(local, axis=1, keepdims=True))


def log_prior(covariance: str, hyper: Mapping[str, np.ndarray], sites: Mapping[str, np.ndarray]) -> float:
    """log p(θ): SciPy's Dirichlet, Wishart, Gamma and Normal densities, site by site."""
    total = stats.dirichlet(hyper["concentration"]).logpdf(sites["mixture_probs"]) if "mixture_probs" in sites else 0.0
    for mean, precision in zip(sites["mean"], matrices(covariance, sites), strict=True):
        spread = np.linalg.inv(hyper["strength"] * precision)
        total += stats.multivariate_normal(hyper["location"], spread).logpdf(mean)
    if covariance in {"full", "tied"}:
        wishart = stats.wishart(float(hyper["dof"]), np.linalg.inv(hyper["scatter"]))
        total += sum(wishart.logpdf(p) for p in (sites["precision"] if covariance == "full" else [sites["precision"]]))
    elif covariance != "unit":
        total += stats.gamma(hyper["dof"] / 2, scale=2 / hyper["scatter"]).logpdf(sites["precision"]).sum()
    return float(total)


def map_step(covariance: str, hyper: Mapping[str, np.ndarray], sites: Mapping[str, np.ndarray], x: np.ndarray) -> Sites:
    """One step of MAP-EM, from the textbook's formulas (errata E17); without prior numbers in ``hyper``, of ML-EM."""
    return m_step(covariance, hyper, responsibilities(covariance, sites, x), x, "mixture_probs" in sites)


def m_step(covariance: str, hyper: Mapping[str, np.ndarray], r: np.ndarray, x: np.ndarray, learned: bool) -> Sites:
    """Mode of the parameters given memberships r (N, K): sums over rows and components, one by one."""
    num_components, dimension = r.shape[1], x.shape[1]
    strength, location = hyper.get("strength", 0.0), hyper.get("location", np.zeros(dimension))
    count = r.sum(0)
    mean = np.array([(strength * location + r[:, k] @ x) / (strength + count[k]) for k in range(num_components)])
    scatters = np.array(
        [
            sum(r[n, k] * np.outer(x[n] - mean[k], x[n] - mean[k]) for n in range(len(x)))
            + strength * np.outer(mean[k] - location, mean[k] - location)
            for k in range(num_components)
        ]
    )
    dof, scatter = hyper.get("dof", 0.0), hyper.get("scatter", 0.0)
    # Twice the exponent of |Λ| or τ: rows, and with a prior its own and that of the means' Normal density.
    if strength == 0:
        numbers = {"full": count, "tied": count.sum(), "diag": count[:, None], "spherical": dimension * count}
    else:
        numbers = {
            "full": dof - dimension + count,
            "tied": dof - dimension - 1 + num_components + count.sum(),
            "diag": dof - 1 + count[:, None],
            "spherical": dof - 2 + dimension * (1 + count),
        }
    diagonals = np.array([np.diag(matrix) for matrix in scatters])
    precision = {
        "full": lambda: np.array([n * np.linalg.inv(scatter + s) for n, s in zip(numbers["full"], scatters, strict=True)]),
        "tied": lambda: numbers["tied"] * np.linalg.inv(scatter + scatters.sum(0)),
        "diag": lambda: numbers["diag"] / (scatter + diagonals),
        "spherical": lambda: numbers["spherical"] / (scatter + diagonals.sum(1)),
    }
    concentration = hyper.get("concentration", 1.0)
    weights = {"mixture_probs": (concentration - 1 + count) / (concentration - 1 + count).sum()} if learned else {}
    return weights | {"mean": mean} | ({"precision": precision[covariance]()} if covariance != "unit" else {})


def near(found: Any, wanted: Any, rtol: float = 0.0, atol: float = 0.0) -> bool:
    """Whether two arrays agree; where they do not, the message shows them."""
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)
    return True


def equal(found: Any, wanted: Any) -> bool:
    """Whether two arrays are the same; where they are not, the message shows them."""
    np.testing.assert_array_equal(found, wanted)
    return True


def neighbours_increase(trace: np.ndarray, slack: float) -> bool:
    """Whether a trace never falls by more than ``slack`` relative to its size."""
    return all(after - before >= -slack * (1 + abs(before)) for before, after in pairwise(trace[~np.isnan(trace)]))


def is_finite(tree: DataTree) -> bool:
    """No NaN or infinity in what a user reads: parameters, functionals, densities, responsibilities."""
    groups = {"posterior", "posterior_raw", "point_estimate", "functionals", "log_likelihood", "latent"} & set(tree.children)
    return all(np.isfinite(value.values).all() for group in groups for value in tree[group].data_vars.values())


# Options of every method that make a fit short. What takes time is to compile: another number of starts, of chains or of NUTS's
# warm-up, or of draws that is no multiple of 256 (so many are evaluated together), makes a program of its own. Tests that want
# more draws ask for `num_samples` only.
DRAWS = {"num_samples": 64, "num_chains": 4}
SHORT: dict[str, dict[str, Any]] = {
    "em": {"num_starts": 2},
    "hard_em": {"num_starts": 2},
    "stochastic_em": {"num_starts": 2, "max_iter": 50},
    "cavi": {"num_starts": 2, **DRAWS},
    "hard_cavi": {"num_starts": 2, **DRAWS},
    "exact": DRAWS,
    "gibbs": {"num_warmup": 20, **DRAWS},
    "tempered_gibbs": {"num_warmup": 40, "num_temperatures": 3, **DRAWS},
    "map": {"num_starts": 2},
    "laplace": {"num_starts": 2, **DRAWS},
    "advi": {"num_starts": 2, "max_iter": 2000, **DRAWS},
    "pathfinder": {"num_starts": 2, "max_iter": 30, **DRAWS},
    "nuts": {"num_warmup": 500, **DRAWS},
    "chees": {"num_warmup": 300, **DRAWS},
    "mclmc": {"num_warmup": 300, **DRAWS},
    "smc": {"num_moves": 5, **DRAWS},
}


def draws_of(tree: DataTree, group: str, name: str) -> np.ndarray:
    """(draws of all chains, entries) of a variable of a result, matrices whole."""
    values = whole_variable(tree[group].to_dataset(), name).values
    return values.reshape(values.shape[0] * values.shape[1], -1)


def distances(left: DataTree, right: DataTree, names: Collection[str] | None = None) -> np.ndarray:
    """How far two samplers' means of functionals and sites, and of their squares, are apart: standard normal deviations.

    Of those in ``names`` alone, where given.
    Errors are by 40 batch means: of 1,280 draws of all chains, or a multiple, there are as many in each.
    """
    scores = []
    for group in ("functionals", "posterior"):
        for name in left[group].data_vars:
            if names is not None and name not in names:
                continue
            found, wanted = (draws_of(tree, group, str(name)) for tree in (left, right))
            for power in (1, 2):
                one, other = ((draws - wanted.mean(0)) ** power for draws in (found, wanted))
                scores.append(of_batch_means(one, other.mean(0), batch_error(other)))
    return np.concatenate(scores)


def distances_of_moments(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The same of a chain (draws, entries) and of independent draws of what it should be."""
    pairs = [[(draws - wanted.mean(0)) ** power for draws in (found, wanted)] for power in (1, 2)]
    return np.concatenate([of_batch_means(one, other.mean(0), other.std(0) / np.sqrt(len(other))) for one, other in pairs])
