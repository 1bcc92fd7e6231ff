"""Bayesian logistic regression (document 003): labels given columns, which are not modelled.

weight_c ~ Normal(0, diag(weight_scale)²),  intercept_c ~ Normal(0, intercept_scale²),  y_n ~ Categorical(softmax(η_n)),
η_nc = intercept_c + weight_cᵀ (x_n − origin),  η_n0 = 0;  origin are the means of the columns

The columns of all tables are the same; only labels are drawn.
"""

from typing import Any

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from inference.certificates.oracles.answers import Answers
from inference.certificates.oracles.conjugate import total
from inference.certificates.oracles.contracts import Contracts, moved, reordered
from inference.certificates.oracles.oracle import Mutant, Oracle, Sites, Slip, Statistics, Tables
from inference.certificates.oracles.posterior import Posterior, near_the_mode
from models.data.table import Data

CLASSES = 3
X = np.array([[0.3, 1.2], [-1.0, 0.4], [2.0, -0.7], [0.1, -1.5], [1.4, 0.9], [-0.8, -0.3], [0.6, 0.5], [-2.0, 1.1]])
SCALES = {"weight": 1.5, "intercept": 1.0}  # standard deviations
WRONG = 1.1


def _draw_parameters(rng: np.random.Generator, replicates: int) -> dict[str, np.ndarray]:
    return {
        "weight": rng.normal(0, SCALES["weight"], (replicates, CLASSES - 1, X.shape[1])),
        "intercept": rng.normal(0, SCALES["intercept"], (replicates, CLASSES - 1)),
    }


def _log_odds(sites: Sites) -> np.ndarray:
    """(R, N, C): η, the log-odds of every class against the first."""
    against = sites["intercept"][:, None] + np.einsum("nd,rcd->rnc", X - X.mean(0), sites["weight"])
    return np.concatenate([np.zeros((*against.shape[:2], 1)), against], axis=-1)


def _log_probs(sites: Sites) -> np.ndarray:
    """(R, N, C): log p(y_n = c)."""
    eta = _log_odds(sites)
    return eta - logsumexp(eta, axis=-1, keepdims=True)


def _answers(sites: Sites, table: Tables, with_label: bool) -> Answers:
    """Columns are not modelled: without a label, every row has density 1."""
    logs = _log_probs(sites)
    label = np.eye(CLASSES)[table["label"]] * np.ones((len(logs), 1, 1))
    if not with_label:
        return Answers(np.zeros(logs.shape[:2]), {"probs": np.exp(logs)})
    return Answers((label * logs).sum(-1), {"probs": label})


def _without_intercept(sites: Sites, table: Tables, with_label: bool) -> Answers:
    return _answers({**sites, "intercept": 0 * sites["intercept"]}, table, with_label)


def _draw_tables(rng: np.random.Generator, sites: Sites) -> dict[str, np.ndarray]:
    """The class with the largest log-odds plus Gumbel noise: softmax probabilities without computing them."""
    eta = _log_odds(sites)
    return {"label": (eta + rng.gumbel(size=eta.shape)).argmax(-1)}


def _log_likelihood(sites: Sites, tables: Tables) -> np.ndarray:
    return np.take_along_axis(_log_probs(sites), tables["label"][..., None], axis=-1)[..., 0].sum(-1)


def _log_prior(sites: Sites) -> np.ndarray:
    weight = stats.norm.logpdf(sites["weight"], 0, SCALES["weight"])
    return total(weight) + total(stats.norm.logpdf(sites["intercept"], 0, SCALES["intercept"]))


def _posterior(rng: np.random.Generator, table: Tables, number: int) -> Posterior:
    """The log density is concave: importance sampling about its mode."""
    places = (CLASSES - 1) * X.shape[1]

    def sites_of(points: np.ndarray) -> dict[str, np.ndarray]:
        return {"weight": points[:, :places].reshape(-1, CLASSES - 1, X.shape[1]), "intercept": points[:, places:]}

    def density(points: np.ndarray) -> np.ndarray:
        sites = sites_of(points)
        label = np.broadcast_to(table["label"], (len(points), table["label"].shape[1]))
        return _log_prior(sites) + _log_likelihood(sites, {"label": label})

    return near_the_mode(density, sites_of, places + CLASSES - 1, rng, number)


def _functions(sites: Sites, tables: Tables) -> Statistics:
    probs = np.exp(_log_probs(sites))
    first = (tables["label"] == 0).mean(1)
    return {
        "entropy of the classes": -(probs * np.log(np.maximum(probs, 1e-300))).sum((1, 2)),
        "probability of the first class": probs[..., 0].mean(1),
        "that times its share": probs[..., 0].mean(1) * first,
        "length of the weights": np.linalg.norm(sites["weight"], axis=(1, 2)),
        "product of the weights": sites["weight"][:, 0, 0] * sites["weight"][:, 0, 1],
        "distance of two classes": np.linalg.norm(sites["weight"][:, 0] - sites["weight"][:, 1], axis=-1),
    }


def _table(tables: Tables, replicate: int) -> Data:
    labels = tables["label"][replicate]
    return Data("table", X[: len(labels)], ("x0", "x1"), labels=labels, label="class", levels=("a", "b", "c"))


def logistic_regression() -> Oracle:
    """Three classes of eight rows with two columns."""

    def options(weight: float) -> dict[str, Any]:
        return {"prior": {"weight": {"scale": weight}, "intercept": {"scale": SCALES["intercept"]}}}

    return Oracle(
        model="logistic_regression",
        options=options(SCALES["weight"]),
        draw_parameters=_draw_parameters,
        draw_tables=_draw_tables,
        known={"x": X},
        table=_table,
        answers=_answers,
        contracts=Contracts((CLASSES - 1) * (1 + 2), reordered((1, 0), {"weight": (-1,)}), moved(None, None, (0, 1))),
        slips=(Slip("log-odds without an intercept (E15)", _without_intercept),),
        log_prior=_log_prior,
        posterior=_posterior,
        log_likelihood=_log_likelihood,
        functions=_functions,
        mutant=Mutant(
            f"weights of a standard deviation of {WRONG * SCALES['weight']:.3g} for {SCALES['weight']:.2g}",
            options(WRONG * SCALES["weight"]),
        ),
    )
