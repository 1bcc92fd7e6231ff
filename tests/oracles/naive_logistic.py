"""Logistic regression on one small table, and the model once more, written stupidly in NumPy and SciPy."""

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from naive import SHORT
from scipy import optimize, stats
from scipy.special import log_softmax, logsumexp, softmax

from inference import METHODS, fit
from models import MODELS, Data, Model, load_data
from models.families.coefficients import NormalStats

Sites = dict[str, np.ndarray]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]]) + [1.0, -2.0]
LABELS = {
    2: [*("ab" * 4), None, *("abb" * 4), "a", None, "b"],
    3: ["a", "b", "c", None, "a|b", "b", None, "a", "c", "c|b", "a", "b", "c", "a", *("abc" * 3), "a|c"],
}
# Every method, with as many draws as the comparison of the two samplers takes: one run serves every test of a method.
REFUSED = {"hard_em", "hard_cavi", "exact", "tempered_gibbs", "collapsed_gibbs"}
METHODS_RUN = tuple(method for method in METHODS if method not in REFUSED)
RUNS = [(method, size) for method in METHODS_RUN for size in (2, 3) if (method, size) != ("cavi", 3)]
every_size = pytest.mark.parametrize("size", [2, 3])


@cache
def table(size: int) -> Data:
    return load_data(pd.DataFrame(X, columns=["u", "v"]).assign(kind=LABELS[size]), label="kind")


def line(labels: list[Any]) -> Data:
    x = np.linspace(-1, 1, len(labels)) ** 3 + 0.2 * np.linspace(-1, 1, len(labels))
    return load_data(pd.DataFrame({"u": x, "kind": labels}), label="kind")


def build(size: int, data: Data | None = None, **options: Any) -> Model:
    return MODELS["logistic_regression"](table(size) if data is None else data, **options)


@cache
def fitted(method: str, size: int) -> xr.DataTree:
    return fit(build(size), table(size), method=method, seed=1, **SHORT[method])


def random_sites(size: int, columns: int = 2, seed: int = 1) -> Sites:
    rng = np.random.default_rng(seed)
    return {"weight": rng.normal(size=(size - 1, columns)), "intercept": rng.normal(size=size - 1)}


def random_natural(seed: int = 3, columns: int = 3) -> NormalStats:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(columns, columns))
    return NormalStats(jnp.asarray(rng.normal(size=columns)), jnp.asarray(factor @ factor.T + np.eye(columns)))


def naive_eta(model: Model, sites: Sites, x: np.ndarray) -> np.ndarray:
    centred = x - model.hyper["origin"]
    columns = [np.zeros(len(x))] + [b + centred @ w for w, b in zip(sites["weight"], sites["intercept"], strict=True)]
    return np.stack(columns, axis=1)


def naive_log_likelihood(model: Model, sites: Sites, x: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    return logsumexp(np.where(allowed, log_softmax(naive_eta(model, sites, x), axis=1), -np.inf), axis=1)


def naive_log_prior(model: Model, sites: Sites) -> float:
    if "weight_scale" not in model.hyper:
        return 0.0
    weights = stats.norm(0, model.hyper["weight_scale"]).logpdf(sites["weight"]).sum()
    return float(weights + stats.norm(0, model.hyper["intercept_scale"]).logpdf(sites["intercept"]).sum())


def naive_step(model: Model, sites: Sites, x: np.ndarray, allowed: np.ndarray) -> Sites:
    """One step of EM: class after class, ω and labels expected given the latest coefficients, then weighted least squares."""
    weight, intercept = sites["weight"].copy(), sites["intercept"].copy()
    design = np.column_stack([np.ones(len(x)), x - model.hyper["origin"]])
    precision = np.diag(np.concatenate([[model.hyper["intercept_scale"]], model.hyper["weight_scale"]]) ** -2.0)
    for c in range(1, allowed.shape[1]):
        eta = naive_eta(model, {"weight": weight, "intercept": intercept}, x)
        total, pull = precision.copy(), np.zeros(design.shape[1])
        for n, row in enumerate(design):
            if allowed[n].all():
                continue
            offset = logsumexp(np.delete(eta[n], c))
            psi = eta[n, c] - offset
            omega = np.tanh(psi / 2) / (2 * psi)
            probs = softmax(np.where(allowed[n], eta[n], -np.inf))
            total += omega * np.outer(row, row)
            pull += (probs[c] - 0.5 + omega * offset) * row
        intercept[c - 1], *weight[c - 1] = np.linalg.solve(total, pull)
    return {"weight": weight, "intercept": intercept}


def best_log_joint(model: Model, x: np.ndarray, allowed: np.ndarray) -> float:
    """The maximum of the naive log posterior, by SciPy."""
    shape = (allowed.shape[1] - 1, x.shape[1] + 1)

    def loss(flat: np.ndarray) -> float:
        coefficients = flat.reshape(shape)
        sites = {"weight": coefficients[:, 1:], "intercept": coefficients[:, 0]}
        return -naive_log_prior(model, sites) - naive_log_likelihood(model, sites, x, allowed).sum()

    first = optimize.minimize(loss, np.zeros(np.prod(shape)), method="BFGS")
    polished = optimize.minimize(loss, first.x, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxfev": 20000})
    return -float(polished.fun)
