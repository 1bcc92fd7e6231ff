"""Gaussian mixtures and discriminants: document 002 (`gmm`, `gmm_simple`), documents 001 and 003 (`linear_discriminant`).

precision ~ Wishart(dof, scatter⁻¹),  mean_k ~ Normal(location, (strength precision)⁻¹),  x_n ~ Normal(mean_k, precision⁻¹)

A `linear_discriminant` has one precision for all classes, `gmm_simple` the identity.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from inference.certificates.oracles.conjugate import Wishart, gaussian_block, standard_normal_block
from inference.certificates.oracles.contracts import Contracts, moved, real_cell, reordered
from inference.certificates.oracles.mixing import (
    Components,
    Weights,
    WrongJoint,
    far_row,
    mixture_oracle,
    number_table,
    of_component,
)
from inference.certificates.oracles.oracle import Mutant, Oracle, Sites, Statistics, ten_percent

LABELLED = np.array([True, True, True, False, False, False])
LOCATION, STRENGTH, DOF = np.array([1.0, -0.5]), 0.4, 6.0
SCATTER = np.array([[4.0, 1.0], [1.0, 3.0]])


def _draw(size: int, tied: bool, rng: np.random.Generator, replicates: int) -> dict[str, np.ndarray]:
    number = 1 if tied else size
    precision = stats.wishart(DOF, np.linalg.inv(SCATTER)).rvs(replicates * number, random_state=rng)
    precision = precision.reshape(replicates, number, 2, 2)
    spread = np.broadcast_to(np.linalg.inv(STRENGTH * precision), (replicates, size, 2, 2))
    return {"mean": LOCATION + _normal(rng, spread), "precision": precision[:, 0] if tied else precision}


def _normal(rng: np.random.Generator, covariance: np.ndarray) -> np.ndarray:
    """One draw of Normal(0, covariance) for each matrix (…, D, D)."""
    return np.einsum("...ij,...j->...i", np.linalg.cholesky(covariance), rng.normal(size=covariance.shape[:-1]))


def _precisions(tied: bool, sites: Sites) -> np.ndarray:
    """(R, K, D, D): a matrix for each component, the same one where they share it, I where there is no such site."""
    shape = (*sites["mean"].shape, 2)
    if "precision" not in sites:
        return np.broadcast_to(np.eye(2), shape)
    return np.broadcast_to(sites["precision"][:, None], shape) if tied else sites["precision"]


def _densities(tied: bool, sites: Sites, x: np.ndarray) -> np.ndarray:
    precision = _precisions(tied, sites)
    away = x[:, :, None, :] - sites["mean"][:, None]
    distance = np.einsum("rnki,rkij,rnkj->rnk", away, precision, away)
    return -0.5 * distance + 0.5 * np.linalg.slogdet(precision)[1][:, None] - np.log(2 * np.pi)


def _wrong_sign(tied: bool, log_probs: np.ndarray, sites: Sites, x: np.ndarray) -> np.ndarray:
    determinant = 0.5 * np.linalg.slogdet(_precisions(tied, sites))[1][:, None] - np.log(2 * np.pi)
    return log_probs + determinant - (_densities(tied, sites, x) - determinant)


def _draw_rows(tied: bool, rng: np.random.Generator, sites: Sites, component: np.ndarray) -> np.ndarray:
    spread = of_component(np.linalg.inv(_precisions(tied, sites)), component)
    return of_component(sites["mean"], component) + _normal(rng, spread)


def _log_prior(tied: bool, sites: Sites) -> np.ndarray:
    """Site by site with SciPy's densities."""
    wishart = stats.wishart(DOF, np.linalg.inv(SCATTER))
    densities = []
    for means, matrices in zip(sites["mean"], _precisions(tied, sites), strict=True):
        spreads = np.linalg.inv(STRENGTH * matrices)
        of_means = sum(stats.multivariate_normal(LOCATION, s).logpdf(m) for m, s in zip(means, spreads, strict=True))
        densities.append(of_means + sum(wishart.logpdf(matrix) for matrix in (matrices[:1] if tied else matrices)))
    return np.array(densities)


def _functions(tied: bool, sites: Sites, x: np.ndarray) -> Statistics:
    middle = sites["mean"].mean(1)
    first, second = np.triu_indices(sites["mean"].shape[1], 1)  # all pairs: a result may have its components in any order
    precision = _precisions(tied, sites)
    statistics = {
        "product of row mean and mean of means": (x.mean(1) * middle).sum(-1),
        "distance of the means": np.linalg.norm(sites["mean"][:, first] - sites["mean"][:, second], axis=-1).mean(1),
    }
    if "precision" not in sites:
        return statistics
    pooled = np.einsum("rni,rij,rnj->r", x - x.mean(1, keepdims=True), precision.mean(1), x - x.mean(1, keepdims=True))
    return statistics | {
        "log determinant": np.linalg.slogdet(precision)[1].mean(1),
        "precision, off the diagonal": precision[..., 0, 1].mean(1),
        "scatter of rows times precision": pooled,
    }


def _components(size: int, tied: bool, block: str, free: int) -> Components:
    prior = ("prior", block)
    swap: dict[tuple[str, ...], tuple[int, ...]] = {(*prior, "location"): (0,), (*prior, "scatter"): (0, 1)}
    return Components(
        partial(_draw, size, tied),
        partial(_draw_rows, tied),
        partial(_densities, tied),
        partial(_log_prior, tied),
        partial(_functions, tied),
        number_table,
        WrongJoint("a plus for the minus before the squared distance (E14)", partial(_wrong_sign, tied)),
        Contracts(
            free,
            reordered((1, 0), {"mean": (-1,), "precision": (-2, -1)}, swap),
            moved("mean", (*prior, "location"), (0, 1)),
            (real_cell(0, 0), real_cell(5, 1)),
        ),
        {"mean": 1} if tied else {"mean": 1, "precision": 1},
        gaussian_block(Wishart(LOCATION, STRENGTH, DOF, SCATTER, tied)),
        symmetric=("precision",),
        far=far_row,
    )


def _prior(block: str, name: str, dof: float) -> dict[str, Any]:
    numbers = {"location": LOCATION, "strength": STRENGTH, "dof": dof, "scatter": SCATTER}
    return {"prior": {block: {"concentration": 1.5}, name: numbers}}


def gmm() -> Oracle:
    """Three components with full covariances."""

    def options(dof: float) -> dict[str, Any]:
        return {"num_components": 3, "covariance": "full"} | _prior("mixture_probs", "component", dof)

    weights = Weights(3, "mixture_probs", 1.5, np.zeros(6, bool))
    parts = _components(3, False, "component", free=2 + 3 * 2 + 3 * 3)
    return mixture_oracle("gmm", weights, parts, options(DOF), ten_percent("dof", DOF, options))


def linear_discriminant() -> Oracle:
    """Three classes that share a covariance; half of the labels are hidden."""
    weights = Weights(3, "class_probs", 1.5, LABELLED)
    parts = _components(3, True, "class", free=2 + 3 * 2 + 3)
    options = partial(_prior, "class_probs", "class")
    return mixture_oracle("linear_discriminant", weights, parts, options(DOF), ten_percent("dof", DOF, options))


def gmm_simple() -> Oracle:
    """Two components of unit covariance with equal weights, whose means are standard normal."""
    weights = Weights(2, None, 1.0, np.zeros(6, bool))
    oracle = _components(2, False, "component", free=2 * 2)
    location = ("prior", "component", "location")
    parts = oracle._replace(
        contracts=oracle.contracts._replace(
            order=reordered((1, 0), {"mean": (-1,)}), offset=moved("mean", location, (0, 1), np.zeros(2))
        ),
        draw=lambda rng, replicates: {"mean": rng.normal(size=(replicates, 2, 2))},
        log_prior=lambda sites: stats.norm.logpdf(sites["mean"]).sum((1, 2)),
        axes={"mean": 1},
        conjugate=standard_normal_block("mean"),
    )
    options = {"num_components": 2, "prior": {"component": {}}}
    wrong = options | {"prior": {"component": {"strength": 1.1**2}}}
    return mixture_oracle("gmm_simple", weights, parts, options, Mutant("means of a standard deviation of 1/1.1 for 1", wrong))
