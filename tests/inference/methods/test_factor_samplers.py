"""Samplers of factor models: Geweke's test with and without missing cells, and one posterior for all of them."""

import numpy as np
import pytest
from geweke import CHAINS, geweke, hidden
from two_stage import assert_standard_normal, in_blocks, of_distributions

from inference import fit
from inference.diagnostics.summaries import summarise
from models import MODELS
from models.data import Data

pytestmark = pytest.mark.slow
every_model = pytest.mark.parametrize("name", ["factor_analysis", "ppca"])
COLUMNS, FACTORS, ROWS = 5, 2, 6
PRIOR = {"loading_strength": 0.7, "location": [0.3, -0.2, 0.0, 1.0, -1.0], "strength": 0.5, "dof": 9.0}
RNG = np.random.default_rng(3)
MISSING = RNG.uniform(size=(ROWS, COLUMNS)) < 0.3
MISSING[0], MISSING[1] = False, True
LOADING = np.array([[2.0, 0.0], [1.5, 0.3], [0.0, 1.5], [0.4, -1.2], [1.0, 1.0], [-1.0, 0.5]])
X = RNG.normal(size=(60, 2)) @ LOADING.T + RNG.normal(size=(60, 6)) * [1, 0.7, 0.5, 1, 0.8, 0.6]
HOLED = np.where(RNG.uniform(size=X.shape) < 0.15, np.nan, X)


def prior_draws(name, hyper, rng, relevance=False):
    """θ from the prior, by NumPy."""
    size = () if name == "ppca" else (COLUMNS,)
    precision = rng.gamma(hyper["dof"] / 2, 2 / hyper["scatter"], (CHAINS, *size))
    scale = np.broadcast_to(precision.reshape(CHAINS, -1), (CHAINS, COLUMNS)) ** -0.5
    strength = hyper["loading_strength"] * np.ones((CHAINS, FACTORS))
    sites = {}
    if relevance:
        sites["relevance"] = rng.gamma(hyper["relevance_shape"], 1 / hyper["relevance_rate"], (CHAINS, FACTORS))
        strength = strength * sites["relevance"]
    return sites | {
        "loading": rng.normal(size=(CHAINS, COLUMNS, FACTORS)) * scale[..., None] / np.sqrt(strength)[:, None, :],
        "mean": hyper["location"] + rng.normal(size=(CHAINS, COLUMNS)) * scale / np.sqrt(hyper["strength"]),
        "precision": precision,
    }


def rows_of(sites, rng):
    """Rows of every θ by NumPy."""
    z = rng.normal(size=(CHAINS, ROWS, FACTORS))
    scale = np.broadcast_to(sites["precision"].reshape(CHAINS, -1), (CHAINS, COLUMNS)) ** -0.5
    centre = sites["mean"][:, None, :] + np.einsum("snl,sdl->snd", z, sites["loading"])
    return centre + rng.normal(size=centre.shape) * scale[:, None, :]


def summaries(sites, x, location):
    """Functions of θ and the rows that catch a wrong shape, rate, strength or coupling; loadings also unrotated."""
    loading, precision = sites["loading"], sites["precision"].reshape(CHAINS, -1)
    covariance = np.einsum("sdl,sel->sde", loading, loading)
    away = (sites["mean"] - location) ** 2
    more = {}
    if "relevance" in sites:
        squares = (precision[:, -1:] * loading[:, -1] ** 2)[:, 0]
        more = {"relevance": sites["relevance"][:, 0], "last relevance": np.log(sites["relevance"][:, -1])}
        more["relevance and loading"] = squares * sites["relevance"][:, 0]
    return more | {
        "loading": loading[:, 0, 0],
        "last loading": loading[:, -1, -1],
        "size": covariance[:, 0, 0],
        "covariance": covariance[:, 0, 1],
        "all": np.trace(covariance, axis1=1, axis2=2),
        "mean": sites["mean"][:, 0],
        "distance": away.sum(1),
        "precision": precision[:, 0],
        "last precision": precision[:, -1],
        "coupling": away[:, -1] * precision[:, -1],
        "loading and noise": covariance[:, -1, -1] * precision[:, -1],
        "square": (x**2).mean((1, 2)),
        "product": (x[:, :, 0] * x[:, :, 1]).mean(1),
        "first": x[:, 0, 0],
        "spread": x.std(1).mean(1),
    }


@pytest.mark.parametrize(("holes", "relevance"), [(True, False), (False, True)])
@every_model
def test_geweke(name, holes, relevance):
    """Kolmogorov-Smirnov on 15 or 18 functions of independent chains. Certificates have the case with neither."""
    data = Data("prior", RNG.normal(size=(ROWS, COLUMNS)), tuple("abcde"))
    scatter = 6.0 if name == "ppca" else [6.0, 9.0, 4.0, 5.0, 7.0]
    prior = {"loading": PRIOR | {"scatter": scatter}} | ({"relevance": {"shape": 3.0, "rate": 2.0}} if relevance else {})
    model = MODELS[name](data, num_factors=FACTORS, prior=prior, relevance=relevance)
    run = geweke(model, lambda rows: rows._replace(x=hidden(rows.x, MISSING)) if holes else rows, ROWS)
    location = model.hyper["location"]

    def found_and_wanted(seed):
        rng = np.random.default_rng(seed)
        start, reference = (prior_draws(name, model.hyper, rng, relevance) for _ in range(2))
        return summaries(*run(start, seed), location), summaries(reference, rows_of(reference, rng), location)

    assert_standard_normal(lambda seed, times: of_distributions(*in_blocks(found_and_wanted, seed, times)))


def posterior(name, method, relevance, seed, times):
    data = Data("rows", HOLED, tuple("abcdef"))
    model = MODELS[name](data, num_factors=FACTORS, relevance=relevance)
    sizes = {"gibbs": 3000, "nuts": 300}
    tree = fit(model, data, method, num_warmup=300, num_samples=times * sizes[method], num_chains=3, seed=seed)
    return summarise(tree, "functionals")


@pytest.mark.parametrize(("name", "relevance"), [("factor_analysis", False), ("ppca", True)])
def test_nuts_and_gibbs_agree(name, relevance):
    """Means of all functionals, with missing cells."""

    def deviations(seed, times):
        gibbs, nuts = (posterior(name, method, relevance, seed, times) for method in ("gibbs", "nuts"))
        error = np.hypot(gibbs["sd"] / np.sqrt(gibbs["ess_bulk"]), nuts["sd"] / np.sqrt(nuts["ess_bulk"]))
        assert gibbs["r_hat"].max() < 1.05
        assert nuts["r_hat"].max() < 1.05
        return (gibbs["mean"] - nuts["mean"]) / error

    assert_standard_normal(deviations, 1)
