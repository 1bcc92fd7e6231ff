"""Exact posteriors by enumeration of all assignments, and draws of the prior, for tests of samplers."""

from functools import partial
from typing import Any

import numpy as np
from naive import Sites, build, two_groups
from scipy import stats

from models.base import Model

ROWS = 6


def informative(covariance: str) -> Model:
    """A prior with moments, off the column means, so that every term of the algebra is at work."""
    dimension = 2
    component: dict[str, Any] = {"location": [0.3, -0.2], "strength": 0.5}
    if covariance != "unit":
        component |= {"dof": dimension + 8.0, "scatter": 6.0 if covariance == "spherical" else [6.0, 9.0]}
    prior = {"component": component} | {"mixture_probs": {"concentration": [2.0, 3.0]}}
    return build(two_groups(ROWS), covariance, prior=prior)


def prior_draws(covariance: str, hyper: Any, rng: np.random.Generator, size: int) -> Sites:
    """θ from the prior, by SciPy and NumPy."""
    dof = float(hyper.get("dof", np.nan))
    gamma = partial(rng.gamma, dof / 2)
    eye = np.eye(2)
    if covariance in {"full", "tied"}:
        each = 2 * size if covariance == "full" else size
        drawn = stats.wishart.rvs(dof, np.linalg.inv(hyper["scatter"]), size=each, random_state=rng)
        precision = drawn.reshape(size, 2, 2, 2) if covariance == "full" else drawn
        matrix = precision if covariance == "full" else precision[:, None].repeat(2, 1)
    elif covariance == "diag":
        precision = gamma(2 / hyper["scatter"], (size, 2, 2))
        matrix = precision[..., None] * eye
    else:
        precision = gamma(2 / hyper["scatter"], (size, 2)) if covariance == "spherical" else np.ones((size, 2))
        matrix = precision[..., None, None] * eye
    roots = np.linalg.cholesky(np.linalg.inv(float(hyper["strength"]) * matrix))
    mean = hyper["location"] + np.einsum("ckij,ckj->cki", roots, rng.normal(size=(size, 2, 2)))
    sites = {"mixture_probs": rng.dirichlet(hyper["concentration"], size), "mean": mean}
    return sites if covariance == "unit" else sites | {"precision": precision}


def summaries(sites: Sites, x: np.ndarray, location: np.ndarray) -> dict[str, np.ndarray]:
    """Functions of θ and x that catch a wrong location, shape, rate, strength or coupling."""
    found = {"prob": sites["mixture_probs"][:, 0], "mean": sites["mean"][:, 0, 0], "other": sites["mean"][:, 1, 1]}
    found |= {"first": x[:, 0, 0], "last": x[:, -1, 1], "square": (x**2).mean((1, 2)), "spread": x.std(1).mean(1)}
    found["distance"] = ((sites["mean"] - location) ** 2).sum((1, 2))
    if "precision" in sites:
        precision = sites["precision"].reshape(len(x), -1)
        found |= {"first precision": precision[:, 0], "last precision": precision[:, -1], "inner precision": precision[:, 1]}
        found["coupling"] = (sites["mean"][:, 0, 0] - location[0]) ** 2 * precision[:, 0]
    return found


def naive_rows(covariance: str, sites: Sites, rng: np.random.Generator) -> np.ndarray:
    """Rows of every θ by NumPy: one component, then one Normal, at a time (through the covariance's own square root)."""
    size = len(sites["mean"])
    component = (rng.random((size, ROWS)) >= sites["mixture_probs"][:, :1]).astype(int)
    chain = np.arange(size)[:, None]
    noise = rng.normal(size=(size, ROWS, 2))
    mean = sites["mean"][chain, component]
    if covariance == "unit":
        return mean + noise
    precision = sites["precision"]
    if covariance == "diag":
        return mean + noise / np.sqrt(precision[chain, component])
    if covariance == "spherical":
        return mean + noise / np.sqrt(precision[chain, component])[..., None]
    roots = np.linalg.cholesky(np.linalg.inv(precision))
    chosen = roots[chain, component] if covariance == "full" else roots[:, None].repeat(ROWS, 1)
    return mean + np.einsum("cnij,cnj->cni", chosen, noise)
