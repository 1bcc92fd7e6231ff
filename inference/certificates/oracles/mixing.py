"""Oracles of mixtures and classifiers: one of K components for every row, given by a label or not.

probs ~ Dirichlet(concentration),    z_n ~ Categorical(probs),    x_n ~ p(x | θ_{z_n})

A label names the component of a row; a hidden one carries no information.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from inference.certificates.oracles.answers import Answers
from inference.certificates.oracles.conjugate import (
    Conjugate,
    chosen,
    dirichlet,
    dirichlet_block,
    independent,
    log_dirichlet,
    one_hot,
    repeated,
    total,
)
from inference.certificates.oracles.contracts import Contracts
from inference.certificates.oracles.oracle import HIDDEN, Mutant, Oracle, Sites, Slip, Statistics, Tables, pointed_at
from inference.certificates.oracles.posterior import Enumeration, enumerated
from models.data.table import Data


class ComponentCells(NamedTuple):
    """The cells of a row given its component."""

    mean: np.ndarray  # (R, K, D), NaN where a column has levels
    variance: np.ndarray
    probs: np.ndarray  # (R, K, D, levels), NaN where it has none


class WrongJoint(NamedTuple):
    """An error in log p(x_n, z_n = k | θ)."""

    what: str  # in words
    joint: Callable[[np.ndarray, Sites, np.ndarray], np.ndarray]  # (log probs of components (R, 1, K), sites, x) -> (R, N, K)


class Components(NamedTuple):
    """The likelihood p(x | component) and its prior."""

    draw: Callable[[np.random.Generator, int], dict[str, np.ndarray]]  # (generator, R) -> sites (R, …)
    draw_rows: Callable[[np.random.Generator, Sites, np.ndarray], np.ndarray]  # (generator, sites, component (R, N)) -> x
    densities: Callable[[Sites, np.ndarray], np.ndarray]  # (sites, x) -> (R, N, K): log p(x_n | component k)
    log_prior: Callable[[Sites], np.ndarray]  # (R,)
    functions: Callable[[Sites, np.ndarray], Statistics]  # (sites, x) -> functions that labels do not enter
    table: Callable[[np.ndarray, Mapping[str, Any]], Data]  # (x (N, …), fields of a label column) -> a table
    slip: WrongJoint
    contracts: Contracts
    axes: Mapping[str, int]  # its sites that differ between components, with the axis that runs over these
    conjugate: Conjugate  # its closed forms given the components, of x (N, …)
    simplices: tuple[str, ...] = ()
    symmetric: tuple[str, ...] = ()
    far: Callable[[Tables], dict[str, np.ndarray]] | None = None  # as of `Oracle`
    cells: Callable[[Sites], ComponentCells] | None = None  # of the columns given the component; None: no cell is ever missing


class Weights(NamedTuple):
    """The probabilities of the components: a site, or ``site=None`` for 1 / K each; which rows have labels."""

    size: int
    site: str | None
    concentration: float
    labelled: np.ndarray  # (N,): rows whose label is not hidden


TWO_CLASSES = Weights(2, "class_probs", 1.5, np.array([True, True, True, True, False, False]))


def mixture_oracle(model: str, weights: Weights, parts: Components, options: Mapping[str, Any], mutant: Mutant) -> Oracle:
    """The oracle of a mixture; of a classifier, where some rows have labels."""
    with_labels = bool(weights.labelled.any())

    def draw_parameters(rng: np.random.Generator, replicates: int) -> dict[str, np.ndarray]:
        concentration = np.full(weights.size, weights.concentration)
        probs = {} if weights.site is None else {weights.site: dirichlet(rng, concentration, (replicates,))}
        return probs | parts.draw(rng, replicates)

    def draw_tables(rng: np.random.Generator, sites: Sites) -> dict[str, np.ndarray]:
        probs = probs_of(weights, sites)[:, None, :]
        component = chosen(rng, np.broadcast_to(probs, (len(probs), len(weights.labelled), weights.size)))
        labels = np.where(weights.labelled, component, HIDDEN)
        return {"x": parts.draw_rows(rng, sites, component), "label": labels, "component": component}

    def table(tables: Tables, replicate: int) -> Data:
        names = tuple("abcdefgh"[: weights.size])
        label = {"labels": tables["label"][replicate], "label": "class", "levels": names}
        return parts.table(tables["x"][replicate], label if with_labels else {})

    def log_prior(sites: Sites) -> np.ndarray:
        concentration = np.full(weights.size, weights.concentration)
        log_weight = 0.0 if weights.site is None else log_dirichlet(concentration, sites[weights.site])
        return log_weight + parts.log_prior(sites)

    def joint(sites: Sites, tables: Tables) -> np.ndarray:
        """(R, N, K): log p(x_n, z_n = k), −∞ where the label of the row is another."""
        computed = parts.densities(sites, tables["x"]) + np.log(probs_of(weights, sites))[:, None, :]
        return of_labels(computed, tables["label"])

    def log_likelihood(sites: Sites, tables: Tables) -> np.ndarray:
        return logsumexp(joint(sites, tables), axis=-1).sum(-1)

    def complete(sites: Sites, tables: Tables) -> Statistics:
        """Σ_n log p(z_n), −∞ where a label is another component, and Σ_n log p(x_n | z_n)."""
        component, label = tables["component"], tables["label"]
        log_weight = np.take_along_axis(np.log(probs_of(weights, sites)), component, axis=-1)
        rows = np.take_along_axis(parts.densities(sites, tables["x"]), component[..., None], axis=-1)
        return {
            "log probability of components": np.where((label == HIDDEN) | (label == component), log_weight, -np.inf).sum(1),
            "log density of rows given components": rows.sum((1, 2)),
        }

    def functions(sites: Sites, tables: Tables) -> Statistics:
        """Those of the components, whether the last two rows, without labels, belong together, and statistics of the labels."""
        last = joint(sites, tables)[:, -2:]
        probs = np.exp(last - logsumexp(last, axis=-1, keepdims=True))
        entropy = -(probs * np.log(np.maximum(probs, 1e-300))).sum((1, 2))
        pair = {"last two rows together": (probs[:, 0] * probs[:, 1]).sum(-1), "entropy of the last two rows": entropy}
        computed = pair | parts.functions(sites, tables["x"])
        if not with_labels or weights.site is None:
            return computed
        first = sites[weights.site][:, 0]  # with labels, components have names
        labelled = tables["label"] != HIDDEN  # nowhere, where a kernel runs on the last rows alone
        if not labelled.any():
            return computed | {"first class": first}
        share = (tables["label"] == 0).sum(1) / labelled.sum(1)
        return computed | {"first class": first, "first class times its share of labels": first * share}

    def shown(sites: Sites, table: Tables, with_label: bool) -> dict[str, np.ndarray]:
        """The table of every draw, with its labels or with all of them hidden."""
        tables = repeated(table, len(next(iter(sites.values()))))
        if not with_label:
            tables["label"] = np.full(tables["label"].shape, HIDDEN)
        return tables

    def answers(sites: Sites, table: Tables, with_label: bool) -> Answers:
        computed = joint(sites, shown(sites, table, with_label))
        return component_answers(computed, None if parts.cells is None else parts.cells(sites))

    def wrong(sites: Sites, table: Tables, with_label: bool) -> Answers:
        tables = shown(sites, table, with_label)
        computed = parts.slip.joint(np.log(probs_of(weights, sites))[:, None], sites, tables["x"])
        computed = of_labels(computed, tables["label"])
        return component_answers(computed, None if parts.cells is None else parts.cells(sites))

    latents = enumeration_of(weights, parts.conjugate, joint)
    axes = dict(parts.axes) if weights.site is None else {weights.site: 1, **parts.axes}
    return Oracle(
        model=model,
        options=options,
        draw_parameters=draw_parameters,
        draw_tables=draw_tables,
        table=table,
        log_prior=log_prior,
        log_likelihood=log_likelihood,
        functions=functions,
        mutant=mutant,
        answers=answers,
        contracts=parts.contracts,
        slips=(Slip(parts.slip.what, wrong),),
        far=parts.far,
        posterior=partial(enumerated, latents),
        enumeration=latents,
        simplices=parts.simplices if weights.site is None else (weights.site, *parts.simplices),
        symmetric=parts.symmetric,
        latent="component",
        complete=complete,
        pointed=pointed_at("component", int(weights.labelled.argmin()), axes),
    )


def enumeration_of(weights: Weights, parts: Conjugate, joint: Callable[[Sites, Tables], np.ndarray]) -> Enumeration:
    """A component for every row; a label leaves one."""
    size = weights.size
    blocks = parts
    if weights.site is not None:
        blocks = independent([dirichlet_block(weights.site, [weights.concentration] * size, lambda x, w: w.sum(1)), parts])

    def assignments(table: Tables) -> np.ndarray:
        choices = [range(size) if label == HIDDEN else [label] for label in table["label"][0]]
        return np.array(list(product(*choices)))

    def log_joint(table: Tables, z: np.ndarray) -> np.ndarray:
        uniform = -z.shape[1] * np.log(size) if weights.site is None else 0.0
        return blocks.log_marginal(table["x"][0], one_hot(z, size)) + uniform

    def complete(sites: Sites, table: Tables, z: np.ndarray) -> np.ndarray:
        each = joint(sites, repeated(table, len(z)))
        return total(np.take_along_axis(each, z[..., None], axis=-1))

    return Enumeration(
        lambda table: int(size ** (table["label"] == HIDDEN).sum()),
        assignments,
        log_joint,
        lambda rng, table, z: blocks.draw(rng, table["x"][0], one_hot(z, size)),
        lambda table, z: blocks.mode(table["x"][0], one_hot(z, size)),
        complete,
    )


def of_labels(joint: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Log p(x_n, z_n = k) (R, N, K) with −∞ where the label (R, N) of the row is another; a hidden one rules out nothing."""
    known = label[..., None]
    return np.where((known == HIDDEN) | (known == np.arange(joint.shape[-1])), joint, -np.inf)


def component_answers(joint: np.ndarray, cells: ComponentCells | None) -> Answers:
    """Of log p(x_n, z_n = k | θ_s) (S, N, K): Bayes' rule; a missing cell is that of each component, by its probability."""
    log_density = np.asarray(logsumexp(joint, axis=-1))
    probs = np.exp(joint - log_density[..., None])
    if cells is None:
        return Answers(log_density, {"probs": probs})
    mean = np.einsum("snk,skd->snd", probs, cells.mean)
    square = np.einsum("snk,skd->snd", probs, cells.variance + cells.mean**2)
    levels = np.einsum("snk,skdv->sndv", probs, cells.probs)
    return Answers(
        log_density,
        {"probs": probs},
        cells={"imputed_probs": levels},
        uncertain_cells={"imputed": (mean, square - mean**2)},
        undefined=frozenset({"imputed_mean", "imputed_sd", "imputed_probs"}),  # a category has no mean, and a number no levels
    )


def far_row(table: Tables) -> dict[str, np.ndarray]:
    """The last row 4 standard deviations above the mean of every column of numbers."""
    x = table["x"].copy()
    x[:, -1] = x.mean(1) + 4 * x.std(1)
    return {**table, "x": x}


def far_counts(table: Tables) -> dict[str, np.ndarray]:
    """The same of counts."""
    row = far_row(table)
    return {**row, "x": np.rint(row["x"])}


def probs_of(weights: Weights, sites: Sites) -> np.ndarray:
    """(R, K)."""
    if weights.site is not None:
        return sites[weights.site]
    return np.full((len(next(iter(sites.values()))), weights.size), 1 / weights.size)


def of_component(values: np.ndarray, component: np.ndarray) -> np.ndarray:
    """(R, K, …) and (R, N) -> (R, N, …): the value that belongs to the component of each row."""
    return values[np.arange(len(values))[:, None], component]


def number_table(x: np.ndarray, label: Mapping[str, Any]) -> Data:
    """A table of numbers with columns x0, x1, …"""
    return Data("table", x, tuple(f"x{column}" for column in range(x.shape[1])), **label)
