"""Mixtures of independent columns: documents 000 and 003 (naive Bayes), document 004 (mixed columns), Dawid and Skene (raters).

feature_probs_cd ~ Beta(a, b),       x_nd ~ Bernoulli(feature_probs_cd)                        naive_bayes
rate_cd ~ Gamma(shape, inverse_scale),    x_nd ~ Poisson(rate_cd)                              poisson_naive_bayes
precision_k ~ Gamma(dof / 2, scatter / 2), mean_k ~ Normal(location, 1 / (strength precision_k)),
probs_k ~ Dirichlet(level_concentration), rate_k ~ Gamma(…)                                    mixed_mixture, cells missing
confusion_rc ~ Dirichlet(right at entry c, wrong elsewhere),  x_nd ~ Categorical(confusion)    annotators

Columns are independent given the component, and a missing cell has probability 1.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from inference.certificates.oracles.conjugate import (
    Conjugate,
    Wishart,
    beta_block,
    chosen,
    columns,
    dirichlet,
    dirichlet_block,
    gaussian_block,
    independent,
    log_dirichlet,
    observed,
    one_hot,
    poisson_block,
    total,
)
from inference.certificates.oracles.contracts import Contracts, counted_cell, moved, real_cell, reordered
from inference.certificates.oracles.mixing import (
    TWO_CLASSES,
    ComponentCells,
    Components,
    Weights,
    WrongJoint,
    far_counts,
    mixture_oracle,
    number_table,
    of_component,
)
from inference.certificates.oracles.oracle import Oracle, Sites, Statistics, Tables, ten_percent
from models.data.table import Data

COLUMNS = 3
MOST = 200  # counts beyond have no probability: rates are below 50


def naive_bayes() -> Oracle:
    """Two classes with three binary columns."""
    a, b = 2.0, 3.0

    def densities(sites: Sites, x: np.ndarray) -> np.ndarray:
        return np.asarray(stats.bernoulli.logpmf(x[:, :, None, :], sites["feature_probs"][:, None])).sum(-1)

    def functions(sites: Sites, x: np.ndarray) -> Statistics:
        probs = sites["feature_probs"]
        return {
            "product of row mean and probabilities": (x.mean(1) * probs.mean(1)).sum(-1),
            "distance of the classes": np.linalg.norm(probs[:, 0] - probs[:, 1], axis=-1),
            "product over columns": probs.prod(-1).sum(1),
        }

    parts = Components(
        draw=lambda rng, replicates: {"feature_probs": rng.beta(a, b, (replicates, 2, COLUMNS))},
        draw_rows=lambda rng, sites, z: 1.0 * (rng.random((*z.shape, COLUMNS)) < of_component(sites["feature_probs"], z)),
        densities=densities,
        log_prior=lambda sites: total(stats.beta(a, b).logpdf(sites["feature_probs"])),
        functions=functions,
        table=number_table,
        slip=WrongJoint(
            "the probability of the class once for every column (E16)",
            lambda log_probs, sites, x: COLUMNS * log_probs + densities(sites, x),
        ),
        contracts=Contracts(1 + 2 * COLUMNS, reordered((2, 0, 1), {"feature_probs": (-1,)})),
        axes={"feature_probs": 1},
        conjugate=beta_block("feature_probs", a, b),
    )

    def options(a: float) -> dict[str, Any]:
        return {"emission": "bernoulli", "prior": {"class_probs": {"concentration": 1.5}, "class": {"a": a, "b": b}}}

    return mixture_oracle("naive_bayes", TWO_CLASSES, parts, options(a), ten_percent("a", a, options))


def poisson_naive_bayes() -> Oracle:
    """Two classes with three columns of counts."""
    shape, inverse_scale = 3.0, 1.5

    def densities(sites: Sites, x: np.ndarray) -> np.ndarray:
        return np.asarray(stats.poisson.logpmf(x[:, :, None, :], sites["rate"][:, None])).sum(-1)

    def functions(sites: Sites, x: np.ndarray) -> Statistics:
        rate = sites["rate"]
        return {
            "product of row mean and rates": (x.mean(1) * rate.mean(1)).sum(-1),
            "distance of the classes": np.linalg.norm(rate[:, 0] - rate[:, 1], axis=-1),
            "sum of log rates": total(np.log(rate)),
        }

    parts = Components(
        draw=lambda rng, replicates: {"rate": rng.gamma(shape, 1 / inverse_scale, (replicates, 2, COLUMNS))},
        draw_rows=lambda rng, sites, z: 1.0 * rng.poisson(of_component(sites["rate"], z)),
        densities=densities,
        log_prior=lambda sites: total(stats.gamma(shape, scale=1 / inverse_scale).logpdf(sites["rate"])),
        functions=functions,
        table=number_table,
        slip=WrongJoint(
            "log-odds without an intercept (E15)", lambda log_probs, sites, x: x @ np.swapaxes(np.log(sites["rate"]), 1, 2)
        ),
        contracts=Contracts(
            1 + 2 * COLUMNS, reordered((2, 0, 1), {"rate": (-1,)}), missing=(counted_cell(0, 0, MOST), counted_cell(5, 1, MOST))
        ),
        axes={"rate": 1},
        conjugate=poisson_block("rate", shape, inverse_scale),
        far=far_counts,
    )

    def options(shape: float) -> dict[str, Any]:
        numbers = {"shape": shape, "inverse_scale": inverse_scale}
        return {"prior": {"class_probs": {"concentration": 1.5}, "class": numbers}}

    return mixture_oracle("poisson_naive_bayes", TWO_CLASSES, parts, options(shape), ten_percent("shape", shape, options))


# ---------------------------------------------------------------------------------------------------------------------
# Document 004: columns of three kinds, with missing cells

MIXED = {"location": 1.0, "strength": 0.5, "dof": 6.0, "scatter": 4.0, "level_concentration": 1.5}
COUNTS = {"shape": 3.0, "inverse_scale": 1.5}
LEVELS = 3
MISSING = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0]], dtype=bool)  # rows, columns


def _draw_mixed(rng: np.random.Generator, replicates: int) -> dict[str, np.ndarray]:
    precision = rng.gamma(MIXED["dof"] / 2, 2 / MIXED["scatter"], (replicates, 2, 1))
    return {
        "mean": rng.normal(MIXED["location"], (MIXED["strength"] * precision) ** -0.5),
        "precision": precision,
        "probs_kind": dirichlet(rng, np.full(LEVELS, MIXED["level_concentration"]), (replicates, 2)),
        "rate": rng.gamma(COUNTS["shape"], 1 / COUNTS["inverse_scale"], (replicates, 2, 1)),
    }


def _draw_mixed_rows(rng: np.random.Generator, sites: Sites, z: np.ndarray) -> np.ndarray:
    size = rng.normal(of_component(sites["mean"], z)[..., 0], of_component(sites["precision"], z)[..., 0] ** -0.5)
    kind = chosen(rng, of_component(sites["probs_kind"], z))
    seen = rng.poisson(of_component(sites["rate"], z)[..., 0])
    return np.where(MISSING, np.nan, np.stack([size, kind, seen], axis=-1))


def _mixed_cells(sites: Sites, x: np.ndarray) -> np.ndarray:
    """(R, N, K): Σ over the observed cells of a row; a missing one has probability 1."""
    size, kind, seen = (x[:, :, None, column] for column in range(3))
    mean, spread = sites["mean"][:, None, :, 0], sites["precision"][:, None, :, 0] ** -0.5
    codes = np.nan_to_num(x[:, :, 1]).astype(int)
    levels = np.log(np.swapaxes(sites["probs_kind"], 1, 2))[np.arange(len(x))[:, None], codes]
    cells = (
        (size, stats.norm.logpdf(size, mean, spread)),
        (kind, levels),
        (seen, stats.poisson.logpmf(np.nan_to_num(seen), sites["rate"][:, None, :, 0])),
    )
    return np.add.reduce([np.where(np.isnan(cell), 0.0, density) for cell, density in cells])


def _cells_given_components(sites: Sites) -> ComponentCells:
    shape = (*sites["mean"].shape[:2], len(MISSING[0]))
    mean, variance, probs = np.full(shape, np.nan), np.full(shape, np.nan), np.full((*shape, LEVELS), np.nan)
    mean[..., 0], variance[..., 0] = sites["mean"][..., 0], 1 / sites["precision"][..., 0]
    mean[..., 2] = variance[..., 2] = sites["rate"][..., 0]
    probs[..., 1, :] = sites["probs_kind"]
    return ComponentCells(mean, variance, probs)


def _far_mixed(table: Tables) -> dict[str, np.ndarray]:
    """The last row, of which every cell is there, 4 standard deviations above the mean number and the mean count."""
    x = table["x"].copy()
    far = np.nanmean(x, axis=1) + 4 * np.nanstd(x, axis=1)
    x[:, -1, 0], x[:, -1, 2] = far[:, 0], np.rint(far[:, 2])
    return {**table, "x": x}


def _mixed_log_prior(sites: Sites) -> np.ndarray:
    spread = (MIXED["strength"] * sites["precision"]) ** -0.5
    return (
        total(stats.gamma(MIXED["dof"] / 2, scale=2 / MIXED["scatter"]).logpdf(sites["precision"]))
        + total(stats.norm.logpdf(sites["mean"], MIXED["location"], spread))
        + log_dirichlet(np.full(LEVELS, MIXED["level_concentration"]), sites["probs_kind"])
        + total(stats.gamma(COUNTS["shape"], scale=1 / COUNTS["inverse_scale"]).logpdf(sites["rate"]))
    )


def _mixed_functions(sites: Sites, x: np.ndarray) -> Statistics:
    away = np.nansum((x[:, :, 0] - np.nanmean(x[:, :, 0], axis=1, keepdims=True)) ** 2, axis=1)
    return {
        "product of row mean and means": np.nanmean(x[:, :, 0], axis=1) * sites["mean"].mean((1, 2)),
        "scatter of rows times precision": away * sites["precision"].mean((1, 2)),
        "product of counts and rates": np.nanmean(x[:, :, 2], axis=1) * sites["rate"].mean((1, 2)),
        "sum of log precisions": total(np.log(sites["precision"])),
    }


def _mixed_table(x: np.ndarray, label: Mapping[str, Any]) -> Data:
    levels = ((), tuple("uvw"), ())
    return Data("table", x, ("size", "kind", "seen"), categories=levels, kinds=("number", "category", "count"), **label)


def _mixed_blocks() -> Conjugate:
    """A block for each column: a number with the precision of one dimension, a category, and a count."""
    numbers = {name: np.array(MIXED[name]) for name in ("location", "scatter")}
    size = gaussian_block(
        Wishart(numbers["location"].reshape(1), MIXED["strength"], MIXED["dof"], numbers["scatter"].reshape(1, 1))
    )
    one = Conjugate(  # the site of one dimension has no second axis of the matrix
        size.log_marginal,
        lambda rng, x, weights: _without_matrix(size.draw(rng, x, weights)),
        lambda x, weights: _without_matrix(size.mode(x, weights)),
    )
    kind = dirichlet_block(
        "probs_kind",
        np.full(LEVELS, MIXED["level_concentration"]),
        lambda x, weights: np.einsum("ank,nv->akv", weights, one_hot(x[:, 0], LEVELS)),
    )
    seen = poisson_block("rate", COUNTS["shape"], COUNTS["inverse_scale"])
    return independent(
        [
            columns(slice(0, 1), observed(one)),
            columns(slice(1, 2), observed(kind)),
            columns(slice(2, 3), seen),
        ]
    )


def _without_matrix(sites: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return sites | {"precision": sites["precision"][..., 0]}


def mixed_mixture() -> Oracle:
    """Two components with a number, a category and a count, of which some cells are missing."""
    parts = Components(
        _draw_mixed,
        _draw_mixed_rows,
        _mixed_cells,
        _mixed_log_prior,
        _mixed_functions,
        _mixed_table,
        WrongJoint(
            "a zero in place of a missing cell (E19)",
            lambda log_probs, sites, x: log_probs + _mixed_cells(sites, np.nan_to_num(x)),
        ),
        Contracts(
            1 + 2 * (1 + 1 + (LEVELS - 1) + 1),
            reordered((2, 0, 1), {}),
            moved("mean", ("prior", "component", "location"), (0,)),
            (real_cell(0, 0), counted_cell(0, 1, LEVELS - 1), counted_cell(5, 2, MOST)),
            named=True,
        ),
        {"mean": 1, "precision": 1, "probs_kind": 1, "rate": 1},
        _mixed_blocks(),
        ("probs_kind",),
        far=_far_mixed,
        cells=_cells_given_components,
    )

    def options(dof: float) -> dict[str, Any]:
        numbers = MIXED | COUNTS | {"dof": dof}
        return {"num_components": 2, "prior": {"mixture_probs": {"concentration": 1.5}, "component": numbers}}

    weights = Weights(2, "mixture_probs", 1.5, np.zeros(6, bool))
    dof = MIXED["dof"]
    return mixture_oracle("mixed_mixture", weights, parts, options(dof), ten_percent("dof", dof, options))


# ---------------------------------------------------------------------------------------------------------------------
# Raters

RATERS = np.array([0, 1, 0])  # of the three columns
RIGHT, WRONG = 3.0, 1.5


def annotators() -> Oracle:
    """Two raters, one of whom rates every item twice; two classes, known for four items of six."""
    concentration = np.where(np.eye(2, dtype=bool), RIGHT, WRONG)

    def draw_rows(rng: np.random.Generator, sites: Sites, z: np.ndarray) -> np.ndarray:
        by_class = np.moveaxis(sites["confusion"], 1, 2)  # (R, class, rater, rating)
        return 1.0 * chosen(rng, of_component(by_class, z)[:, :, RATERS])

    def densities(sites: Sites, x: np.ndarray) -> np.ndarray:
        replicate = np.arange(len(x))[:, None, None]
        each = np.log(sites["confusion"])[replicate, RATERS, :, x.astype(int)]  # (R, N, column, class)
        return each.sum(2)

    def functions(sites: Sites, x: np.ndarray) -> Statistics:
        confusion = sites["confusion"]
        right = confusion[:, :, [0, 1], [0, 1]]
        return {
            "right ratings of the first rater": right[:, 0].sum(-1),
            "right ratings of the second rater": right[:, 1].sum(-1),
            "agreement of ratings times right ratings": (x[..., 0] == x[..., 1]).mean(-1) * right.mean((1, 2)),
        }

    def counts(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(A, rater, class, rating)."""
        return np.einsum("ank,ndv,dr->arkv", weights, one_hot(x, 2), one_hot(RATERS, 2))

    def table(x: np.ndarray, label: Mapping[str, Any]) -> Data:
        return Data("table", x, ("r0", "r1", "r2"), categories=(("a", "b"),) * 3, kinds=("category",) * 3, **label)

    parts = Components(
        draw=lambda rng, replicates: {"confusion": dirichlet(rng, concentration, (replicates, 2, 2))},
        draw_rows=draw_rows,
        densities=densities,
        log_prior=lambda sites: log_dirichlet(concentration, sites["confusion"]),
        functions=functions,
        table=table,
        slip=WrongJoint(
            "the probability of the class once for every rating (E16)",
            lambda log_probs, sites, x: len(RATERS) * log_probs + densities(sites, x),
        ),
        contracts=Contracts(
            1 + 2 * 2,
            reordered((0, 2, 1), {}, {("raters",): (0,)}),  # columns of two raters, who still come in the same order
            missing=(counted_cell(0, 0, 1), counted_cell(5, 1, 1)),
        ),
        axes={"confusion": 2},
        conjugate=dirichlet_block("confusion", concentration, counts),
        simplices=("confusion",),
    )

    def options(right: float) -> dict[str, Any]:
        numbers = {"right_concentration": right, "wrong_concentration": WRONG}
        return {"raters": ["anna", "ben", "anna"], "prior": {"class_probs": {"concentration": 1.5}, "class": numbers}}

    wrong = ten_percent("right_concentration", RIGHT, options)
    return mixture_oracle("annotators", TWO_CLASSES, parts, options(RIGHT), wrong)._replace(known={"rater": RATERS})
