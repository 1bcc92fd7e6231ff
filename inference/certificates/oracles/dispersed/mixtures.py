"""`mixed_mixture` with counts that are not Poisson: two components with a category and a count, of which some are missing."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from inference.certificates.oracles.conjugate import (
    chosen,
    columns,
    dirichlet,
    dirichlet_block,
    independent,
    log_dirichlet,
    observed,
    one_hot,
    total,
)
from inference.certificates.oracles.contracts import Contracts, counted_cell, reordered
from inference.certificates.oracles.dispersed.counts import (
    SITES,
    Grid,
    Sampled,
    draw_counts,
    draw_sites,
    log_prior,
    log_probability,
    moments,
    mutant_of,
    numbers_of,
    poisson_alone,
    sampled,
)
from inference.certificates.oracles.mixing import ComponentCells, Components, Weights, WrongJoint, mixture_oracle, of_component
from inference.certificates.oracles.oracle import Oracle, Sites, Statistics, Tables
from inference.certificates.oracles.posterior import Posterior
from models.data.table import Data

LEVELS, CONCENTRATION = 3, 1.5
MISSING = np.array([[0, 0], [1, 0], [0, 1], [0, 0], [1, 1], [0, 0]], dtype=bool)  # rows, columns
WEIGHTS = Weights(2, "mixture_probs", 1.5, np.zeros(len(MISSING), bool))
MOST = 3000  # counts beyond have no probability: rates are below 20, and inverse dispersions above 0.1


def mixed_mixture(counts: str) -> Oracle:
    """The oracle with ``counts`` of that name."""
    kinds = np.full(LEVELS, CONCENTRATION)

    def draw(rng: np.random.Generator, replicates: int) -> dict[str, np.ndarray]:
        return {"probs_kind": dirichlet(rng, kinds, (replicates, 2))} | draw_sites(counts, rng, (replicates, 2, 1))

    def draw_rows(rng: np.random.Generator, sites: Sites, z: np.ndarray) -> np.ndarray:
        kind = chosen(rng, of_component(sites["probs_kind"], z))
        own = {site: of_component(sites[site], z)[..., 0] for site in SITES[counts]}
        return np.where(MISSING, np.nan, np.stack([kind, draw_counts(rng, own)], axis=-1))

    def densities(sites: Sites, x: np.ndarray, law: Any = log_probability) -> np.ndarray:
        codes = np.nan_to_num(x[:, :, 0]).astype(int)
        levels = np.log(np.swapaxes(sites["probs_kind"], 1, 2))[np.arange(len(x))[:, None], codes]
        own = {site: sites[site][:, None, :, 0] for site in SITES[counts]}
        return np.where(np.isnan(x[:, :, :1]), 0.0, levels) + law(own, x[:, :, None, 1])

    def functions(sites: Sites, x: np.ndarray) -> Statistics:
        count, zeros = np.nanmean(x[:, :, 1], axis=1), np.nanmean(np.where(np.isnan(x), np.nan, x == 0)[:, :, 1], axis=1)
        other = SITES[counts][1]
        return {
            "product of counts and rates": count * sites["rate"].mean((1, 2)),
            f"product of zeros and {other}": zeros * sites[other].mean((1, 2)),
            f"product of rates and {other}": (sites["rate"] * sites[other]).mean((1, 2)),
            "sum of log rates": total(np.log(sites["rate"])),
        }

    def cells(sites: Sites) -> ComponentCells:
        shape = (*sites["rate"].shape[:2], 2)
        mean, variance, probs = np.full(shape, np.nan), np.full(shape, np.nan), np.full((*shape, LEVELS), np.nan)
        mean[..., 1], variance[..., 1] = (moment[..., 0] for moment in moments(sites))
        probs[..., 0, :] = sites["probs_kind"]
        return ComponentCells(mean, variance, probs)

    kind = dirichlet_block("probs_kind", kinds, lambda x, weights: np.einsum("ank,nv->akv", weights, one_hot(x[:, 0], LEVELS)))
    probs = dirichlet_block("mixture_probs", [WEIGHTS.concentration] * 2, lambda x, weights: weights.sum(1))
    blocks, grid = independent([probs, columns(slice(0, 1), observed(kind))]), Grid(counts)

    def posterior(rng: np.random.Generator, table: Tables, number: int) -> Posterior:
        z = one_hot(np.array(list(product(range(2), repeat=len(MISSING)))), 2)
        x = table["x"][0]
        return sampled(grid, Sampled(x[:, 1], z, z, blocks, x), rng, number)

    parts = Components(
        draw=draw,
        draw_rows=draw_rows,
        densities=densities,
        log_prior=lambda sites: log_dirichlet(kinds, sites["probs_kind"]) + log_prior(counts, sites),
        functions=functions,
        table=_table,
        slip=WrongJoint("Poisson counts", lambda log_probs, sites, x: log_probs + densities(sites, x, poisson_alone)),
        contracts=Contracts(
            1 + 2 * (LEVELS - 1 + len(SITES[counts])),
            reordered((1, 0), {}),
            missing=(counted_cell(0, 0, LEVELS - 1), counted_cell(5, 1, MOST)),
            named=True,
        ),
        axes={"probs_kind": 1} | dict.fromkeys(SITES[counts], 1),
        conjugate=blocks,  # of the other columns; the posterior is sampled below
        simplices=("probs_kind",),
        far=_far,
        cells=cells,
    )

    def options(numbers: Mapping[str, float]) -> dict[str, Any]:
        component = {"level_concentration": CONCENTRATION, **numbers}
        prior = {"mixture_probs": {"concentration": WEIGHTS.concentration}, "component": component}
        return {"num_components": 2, "counts": counts, "prior": prior}

    found = mixture_oracle("mixed_mixture", WEIGHTS, parts, options(numbers_of(counts)), mutant_of(counts, options))
    return found._replace(posterior=posterior, enumeration=None)


def _table(x: np.ndarray, label: Mapping[str, Any]) -> Data:
    return Data("table", x, ("kind", "seen"), categories=(tuple("uvw"), ()), kinds=("category", "count"), **label)


def _far(table: Tables) -> dict[str, np.ndarray]:
    """The count of the last row, which is there, 4 standard deviations above the mean count."""
    x = table["x"].copy()
    x[:, -1, 1] = np.rint(np.nanmean(x[:, :, 1], axis=1) + 4 * np.nanstd(x[:, :, 1], axis=1))
    return {**table, "x": x}
