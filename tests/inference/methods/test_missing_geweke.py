"""Geweke's joint-distribution test of Gibbs with a fixed pattern of missing cells: Gaussians, and columns of all kinds."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from exact_summaries import informative, naive_rows, prior_draws, summaries
from geweke import CHAINS, geweke, hidden
from naive import Sites
from naive_mixed import X as ANSWERS
from naive_mixed import build as build_mixed
from naive_mixed import survey
from two_stage import assert_standard_normal, in_blocks, of_distributions

from models.emissions.counts import Counts
from models.rows.encoded import Rows

pytestmark = pytest.mark.slow
MISSING = np.array([[0, 0], [1, 1], [0, 1], [1, 0], [0, 1], [0, 0]], dtype=bool)  # of 6 rows


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_geweke_of_gaussians(covariance):
    """Rows with no, one and both cells missing. Kolmogorov-Smirnov on 12 functions of θ and the rows, of independent chains."""
    model = informative(covariance)
    location, run = model.hyper["location"], geweke(model, lambda rows: rows._replace(x=hidden(rows.x, MISSING)), 6)

    def found_and_wanted(seed: int) -> tuple[Sites, Sites]:
        rng = np.random.default_rng(seed)
        start, sites = (prior_draws(covariance, model.hyper, rng, CHAINS) for _ in range(2))
        return summaries(*run(start, seed), location), summaries(sites, naive_rows(covariance, sites, rng), location)

    assert_standard_normal(lambda seed, times: of_distributions(*in_blocks(found_and_wanted, seed, times)))


MIXED_PRIOR = {"location": [0.3, -0.2], "strength": 0.5, "dof": 10.0, "scatter": [6.0, 9.0], "level_concentration": 1.5}
MIXED_PRIOR |= {"shape": 3.0, "inverse_scale": 1.5}
NO_ANSWER = np.isnan(ANSWERS[[0, 1, 3, 4, 8, 10]])  # every column in some row, all of one row


def mixed_prior_draws(hyper: Any, rng: np.random.Generator) -> Sites:
    """θ from the prior, by NumPy."""
    precision = rng.gamma(hyper["dof"] / 2, 2 / hyper["scatter"], (CHAINS, 2, 2))
    level = float(hyper["level_concentration"])
    return {
        "mixture_probs": rng.dirichlet(hyper["concentration"], CHAINS),
        "mean": rng.normal(hyper["location"], (hyper["strength"] * precision) ** -0.5),
        "precision": precision,
        "probs_planet": rng.dirichlet(np.full(3, level), (CHAINS, 2)),
        "probs_armed": rng.dirichlet(np.full(2, level), (CHAINS, 2)),
        "rate": rng.gamma(hyper["shape"], 1 / hyper["inverse_scale"], (CHAINS, 2, 1)),
    }


def mixed_rows(sites: Sites, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows of every θ by NumPy: numbers, counts and codes of the planet."""
    component = (rng.random((CHAINS, 6)) >= sites["mixture_probs"][:, :1]).astype(int)
    chain = np.arange(CHAINS)[:, None]
    mean, precision = (sites[name][chain, component] for name in ("mean", "precision"))
    below = np.cumsum(sites["probs_planet"][chain, component], axis=2)
    return {
        "numbers": mean + rng.normal(size=mean.shape) * precision**-0.5,
        "counts": rng.poisson(sites["rate"][chain, component]),
        "planet": (rng.random((CHAINS, 6, 1)) > below).sum(2),
    }


def mixed_summaries(sites: Sites, rows: dict[str, np.ndarray], location: np.ndarray) -> dict[str, np.ndarray]:
    """Functions of θ and the rows that catch a wrong shape, rate, concentration or coupling of any block."""
    away = (sites["mean"] - location) ** 2
    found = {"prob": sites["mixture_probs"][:, 0], "mean": sites["mean"][:, 0, 0], "distance": away.sum((1, 2))}
    found |= {"precision": sites["precision"][:, 0, 0], "last precision": sites["precision"][:, 1, 1]}
    found |= {"coupling": away[:, 1, 0] * sites["precision"][:, 1, 0], "rate": sites["rate"][:, 0, 0]}
    found |= {"planet": sites["probs_planet"][:, 0, 0], "armed": sites["probs_armed"][:, 1, 0]}
    numbers, counts = rows["numbers"], rows["counts"][..., 0]
    found |= {"square": (numbers**2).mean((1, 2)), "spread": numbers.std(1).mean(1), "first": numbers[:, 0, 0]}
    found |= {"counts": counts.mean(1) + counts.var(1), "largest rate": sites["rate"].max((1, 2))}
    same = rows["planet"][:, :, None] == rows["planet"][:, None, :]
    return found | {"pairs": (same * np.abs(counts[:, :, None] - counts[:, None, :])).mean((1, 2))}


def test_geweke_of_mixed_columns():
    """Numbers, categories and counts, each missing in some rows and one row missing entirely: 15 functions, as above."""
    model = build_mixed(survey(), prior={"component": MIXED_PRIOR, "mixture_probs": {"concentration": [2.0, 3.0]}})
    location = model.hyper["location"]

    def simulate(rows: Rows) -> Rows:
        x, counts = rows.x, rows.x["counts"]
        there = jnp.asarray(~NO_ANSWER)
        codes = jnp.where(there[:, [1, 4]], x["categories"], -1)
        holed = Counts(jnp.where(there[:, [2]], counts.value, 0.0), counts.carrier, there[:, [2]])
        return rows._replace(x={"numbers": hidden(x["numbers"], NO_ANSWER[:, [0, 3]]), "categories": codes, "counts": holed})

    run = geweke(model, simulate, 6)

    def found_and_wanted(seed: int) -> tuple[Sites, Sites]:
        rng = np.random.default_rng(seed)
        start, reference = (mixed_prior_draws(model.hyper, rng) for _ in range(2))
        sites, x = run(start, seed)
        rows = {"numbers": x["numbers"], "counts": x["counts"].value, "planet": x["categories"][..., 0]}
        return mixed_summaries(sites, rows, location), mixed_summaries(reference, mixed_rows(reference, rng), location)

    assert_standard_normal(lambda seed, times: of_distributions(*in_blocks(found_and_wanted, seed, times)))
