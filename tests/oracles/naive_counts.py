"""Mixtures of columns of counts once more, by SciPy's densities, cell by cell: what the tests compare with."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from models import MODELS, load_data
from models.base import Model
from models.data import Data

NEGATIVE, ZERO = "negative_binomial", "zero_inflated_poisson"
BOTH = "zero_inflated_negative_binomial"
NAMES = (NEGATIVE, ZERO, BOTH)
PRIOR = {"shape": 3.0, "inverse_scale": 1.0}
PRIORS = {
    NEGATIVE: PRIOR | {"inverse_dispersion_shape": 4.0, "inverse_dispersion_rate": 1.5},
    ZERO: PRIOR | {"zero_a": 2.0, "zero_b": 3.0},
}
PRIORS[BOTH] = PRIORS[NEGATIVE] | PRIORS[ZERO]
Sites = Mapping[str, Any]


def table_of(x: np.ndarray, **fields: Any) -> Data:
    """Columns of counts, NaN where a cell is missing."""
    names = tuple(f"c{column}" for column in range(x.shape[1]))
    return load_data(Data("table", x, names, kinds=("count",) * x.shape[1], categories=((),) * x.shape[1]), **fields)


def build(name: str, data: Data, components: int = 2, prior: Any = None, weights: str = "learned") -> Model:
    """A mixture whose counts are ``name``, under `PRIORS` by default."""
    given = {"mixture_probs": {"concentration": 2.0}, "component": PRIORS[name]} if prior is None else prior
    return MODELS["mixed_mixture"](data, num_components=components, counts=name, prior=given, weights=weights)


def random_sites(name: str, components: int, columns: int, seed: int = 1) -> dict[str, np.ndarray]:
    """Any θ in the support."""
    rng = np.random.default_rng(seed)
    shape = (components, columns)
    sites = {"mixture_probs": rng.dirichlet(np.full(components, 3.0)), "rate": rng.gamma(3.0, 1.0, shape)}
    if name != ZERO:
        sites["inverse_dispersion"] = rng.gamma(2.0, 1.0, shape)
    if name != NEGATIVE:
        sites["zero_probs"] = rng.uniform(0.1, 0.7, shape)
    return sites


def law_of(sites: Sites, k: int, d: int) -> Any:
    """The distribution of a count that is no structural zero."""
    rate = sites["rate"][k, d]
    if "inverse_dispersion" not in sites:
        return stats.poisson(rate)
    size = sites["inverse_dispersion"][k, d]
    return stats.nbinom(size, size / (size + rate))


def log_cell(sites: Sites, x: float, k: int, d: int) -> float:
    """Log p(x_d | component k); 0 of a missing cell."""
    if np.isnan(x):
        return 0.0
    found = float(law_of(sites, k, d).logpmf(x))
    if "zero_probs" not in sites:
        return found
    zero = sites["zero_probs"][k, d]
    return float(np.log(zero + (1 - zero) * np.exp(found)) if x == 0 else np.log1p(-zero) + found)


def log_local(sites: Sites, x: np.ndarray) -> np.ndarray:
    """(N, K): log π_k + log p(x_n | k)."""
    rows, columns = x.shape
    components = len(sites["mixture_probs"])
    cells = [[sum(log_cell(sites, x[n, d], k, d) for d in range(columns)) for k in range(components)] for n in range(rows)]
    return np.log(sites["mixture_probs"]) + np.array(cells)


def log_prior(name: str, sites: Sites) -> float:
    """Of `PRIORS`, by SciPy."""
    prior = PRIORS[name]
    found = stats.dirichlet(np.full(len(sites["mixture_probs"]), 2.0)).logpdf(sites["mixture_probs"])
    found += stats.gamma(prior["shape"], scale=1 / prior["inverse_scale"]).logpdf(sites["rate"]).sum()
    if name != ZERO:
        law = stats.gamma(prior["inverse_dispersion_shape"], scale=1 / prior["inverse_dispersion_rate"])
        found += law.logpdf(sites["inverse_dispersion"]).sum()
    if name != NEGATIVE:
        found += stats.beta(prior["zero_a"], prior["zero_b"]).logpdf(sites["zero_probs"]).sum()
    return float(found)


def log_joint(name: str, sites: Sites, x: np.ndarray) -> float:
    """Log p(x, θ), components summed out."""
    return log_prior(name, sites) + float(logsumexp(log_local(sites, x), axis=1).sum())


def draw_sites(name: str, components: int, columns: int, rng: np.random.Generator, number: int) -> dict[str, np.ndarray]:
    """(number, …): θ from the prior."""
    prior, shape = PRIORS[name], (number, components, columns)
    sites = {
        "mixture_probs": rng.dirichlet(np.full(components, 2.0), number),
        "rate": rng.gamma(prior["shape"], 1 / prior["inverse_scale"], shape),
    }
    if name != ZERO:
        sites["inverse_dispersion"] = rng.gamma(prior["inverse_dispersion_shape"], 1 / prior["inverse_dispersion_rate"], shape)
    if name != NEGATIVE:
        sites["zero_probs"] = rng.beta(prior["zero_a"], prior["zero_b"], shape)
    return sites
