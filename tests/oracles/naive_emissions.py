"""Naive Bayes on one small table an emission, and its densities once more, term by term in SciPy."""

from functools import cache

import numpy as np
import pytest
from naive import SHORT
from scipy import stats

from inference import fit
from models import MODELS, Data, Model, load_data
from models.emissions.named import COUNTS, OF_CLASSES

# Those without latents beside the class; `test_dispersed_counts.py` has the others
EMISSIONS = tuple(name for name in OF_CLASSES if name == "poisson" or name not in COUNTS)
ROWS, COLUMNS = 15, 4
LEVELS = (2, 3, 2)  # of the columns that hold categories
LABELS = ["a", "b", "c", "a", "b", "c", "a", "a", "b", None, "a|b", "c", None, "b|c", "a"]
every_emission = pytest.mark.parametrize("emission", EMISSIONS)


@cache
def table(emission: str, labels: tuple[str | None, ...] = tuple(LABELS)) -> Data:
    rng = np.random.default_rng(4)
    x = {
        "bernoulli": rng.integers(0, 2, (ROWS, COLUMNS)),
        "multinomial": rng.poisson(2.0, (ROWS, COLUMNS)),
        "poisson": rng.poisson(2.0, (ROWS, COLUMNS)),
        "categorical": rng.integers(0, LEVELS, (ROWS, len(LEVELS))),
        "gaussian": rng.normal(size=(ROWS, COLUMNS)),
    }[emission]
    return load_data(x, labels=list(labels))


def build(emission: str, data: Data | None = None, **options) -> Model:
    return MODELS["naive_bayes"](table(emission) if data is None else data, emission=emission, **options)


@cache
def fitted(emission: str, method: str):
    return fit(build(emission), table(emission), method=method, seed=1, **SHORT[method])


def random_sites(emission: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    sites = {"class_probs": rng.dirichlet([3.0, 3.0, 3.0])}
    return (
        sites
        | {
            "bernoulli": lambda: {"feature_probs": rng.beta(2, 2, (3, COLUMNS))},
            "multinomial": lambda: {"word_probs": rng.dirichlet(np.full(COLUMNS, 2.0), 3)},
            "poisson": lambda: {"rate": rng.gamma(4.0, 0.5, (3, COLUMNS))},
            "categorical": lambda: {f"probs_x{d}": rng.dirichlet(np.full(k, 2.0), 3) for d, k in enumerate(LEVELS)},
            "gaussian": lambda: {"mean": rng.normal(size=(3, COLUMNS)), "precision": rng.gamma(3.0, 0.4, (3, COLUMNS))},
        }[emission]()
    )


def naive_log_density(emission: str, sites: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """log p(x_n | class c) by SciPy, one row and class at a time: (N, 3)."""
    return np.array([[naive_row(emission, sites, row, c) for c in range(3)] for row in x])


def naive_row(emission: str, sites: dict[str, np.ndarray], row: np.ndarray, c: int) -> float:
    if emission == "multinomial":
        return float(stats.multinomial(int(row.sum()), sites["word_probs"][c]).logpmf(row))
    if emission == "categorical":
        return float(sum(np.log(sites[f"probs_x{d}"][c, int(value)]) for d, value in enumerate(row)))
    if emission == "bernoulli":
        return float(stats.bernoulli(sites["feature_probs"][c]).logpmf(row).sum())
    if emission == "poisson":
        return float(stats.poisson(sites["rate"][c]).logpmf(row).sum())
    return float(stats.norm(sites["mean"][c], sites["precision"][c] ** -0.5).logpdf(row).sum())


def naive_log_prior(emission: str, hyper, sites) -> float:
    """log p(θ) by SciPy, with the hyperparameters by name."""
    total = stats.dirichlet(hyper["concentration"]).logpdf(sites["class_probs"])
    if emission == "bernoulli":
        total += stats.beta(hyper["a"], hyper["b"]).logpdf(sites["feature_probs"]).sum()
    elif emission == "multinomial":
        total += sum(stats.dirichlet(hyper["word_concentration"]).logpdf(p) for p in sites["word_probs"])
    elif emission == "poisson":
        total += stats.gamma(hyper["shape"], scale=1 / hyper["inverse_scale"]).logpdf(sites["rate"]).sum()
    elif emission == "categorical":
        concentration = float(hyper["level_concentration"])
        tables = [value for name, value in sites.items() if name != "class_probs"]
        total += sum(stats.dirichlet(np.full(len(p), concentration)).logpdf(p) for one in tables for p in one)
    else:
        total += stats.gamma(hyper["dof"] / 2, scale=2 / hyper["scatter"]).logpdf(sites["precision"]).sum()
        spread = (hyper["strength"] * sites["precision"]) ** -0.5
        total += stats.norm(hyper["location"], spread).logpdf(sites["mean"]).sum()
    return float(total)
