"""The mixed mixture: program, algebra and every step against naive computations, cells missing and all there."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from identities import Values, agree, climbed, values_of
from naive import near, neighbours_increase
from naive_mixed import (
    LABELS,
    WHOLE,
    X,
    build,
    log_likelihood,
    log_local,
    log_prior,
    m_step,
    map_step,
    random_sites,
    survey,
)
from scipy.special import gammaln

from inference import predict
from inference.methods import cavi
from models.data import allowed_labels
from models.emissions.counts import Counts
from models.rows.masks import Cells

SITES = random_sites()
SEEN = ~np.isnan(X)
Z = np.eye(2)[np.random.default_rng(3).integers(2, size=len(X))]


@cache
def values() -> Values:
    model = build()
    return values_of(model, model.rows(survey()), SITES, Z)


def responsibilities(x: np.ndarray = X) -> np.ndarray:
    local = log_local(SITES, x)
    return np.exp(local - np.logaddexp.reduce(local, axis=1, keepdims=True))


# ---------------------------------------------------------------------------------------------------------------------
# Program = algebra = SciPy


@pytest.mark.slow
def test_density_of_what_is_observed():
    """log p(x_o, z, θ) and log p(x_o, θ): program and algebra, to 1e-10, and SciPy's densities cell by cell."""
    found, local, naive = values(), log_local(SITES, X), log_prior(build().hyper, SITES)
    assert near(found.local, local, rtol=1e-10)
    assert found.log_prior + found.energy.sum() == pytest.approx(float(found.complete), rel=1e-10)
    assert found.log_prior + found.log_partition.sum() == pytest.approx(float(found.marginal), rel=1e-10)
    assert naive + local[Z == 1].sum() == pytest.approx(float(found.complete), rel=1e-10)
    assert naive + log_likelihood(SITES, X).sum() == pytest.approx(float(found.marginal), rel=1e-10)


def test_density_is_the_product_with_the_statistics():
    """< T, statistics >, with 2π once for every number that is there and the factorial of every count."""
    carrier = -SEEN[:, [0, 3]].sum() / 2 * np.log(2 * np.pi) - np.nansum(gammaln(X[:, 2] + 1))
    assert values().product + carrier == pytest.approx(values().energy.sum(), rel=1e-10)


@pytest.mark.slow
def test_density_with_some_labels():
    """Labels observed, missing and sets: Σ over the components allowed; and labels with weights, where a row counts twice."""
    data = survey(labels=LABELS, weight=np.tile([1.0, 0.0, 2.0], 4))
    model, allowed = build(data, labelled=True), allowed_labels(data)
    z = np.eye(2)[(~allowed[:, 0]).astype(int)]
    found, naive = values_of(model, model.rows(data), SITES, z), log_prior(model.hyper, SITES)
    local = np.where(allowed, log_local(SITES, X), -np.inf)
    assert near(found.local, local, rtol=1e-10)
    assert naive + data.weight @ np.logaddexp(*local.T) == pytest.approx(float(found.marginal), rel=1e-10)
    assert naive + data.weight @ local[z == 1] == pytest.approx(float(found.complete), rel=1e-10)
    assert agree(found.gradient, found.statistics, 1e-11)
    assert model.symmetry is None
    assert model.naming.coords["component"] == ["a", "b"]
    assert build().symmetry is not None


def test_statistics_are_the_gradient_and_count_cells():
    """∂ Σ log Z(local(T)) / ∂T = expected statistics; every column counts the rows that have its cell (errata E19)."""
    found, r = values(), responsibilities()
    assert agree(found.gradient, found.statistics, 1e-11)
    block = found.statistics["component"]
    assert near(block["numbers"].exponent, r.T @ SEEN[:, [0, 3]], rtol=1e-11)
    assert near(block["counts"].exposure[:, 0], r.T @ SEEN[:, 2], rtol=1e-11)
    assert near(block["counts"].events[:, 0], r.T @ np.nan_to_num(X[:, 2]), rtol=1e-11)
    for name, d, levels in (("probs_planet", 1, 3), ("probs_armed", 4, 2)):
        assert near(block["categories"][name], r.T @ (X[:, [d]] == np.arange(levels)), rtol=1e-11)


@pytest.mark.slow
def test_a_row_without_cells_tells_nothing():
    found = predict(build(), SITES, survey())
    assert near(found["probs"][0], SITES["mixture_probs"], atol=1e-13)
    assert near(found["log_density"][0], 0.0, atol=1e-13)
    assert near(found["probs"], responsibilities(), atol=1e-11)


@pytest.mark.slow
def test_nothing_missing_is_the_complete_path():
    """All cells observed, in the form with missing cells: the numbers of complete rows, but for rounding."""
    model = build()
    complete = model.rows(survey(WHOLE))
    parts = complete.x
    assert not isinstance(parts["numbers"], Cells)
    filled = parts | {"numbers": Cells(parts["numbers"], np.ones((12, 2), bool))}
    filled["counts"] = Counts(parts["counts"].value, parts["counts"].carrier, np.ones((12, 1), bool))
    there = values_of(model, complete._replace(x=filled), SITES, Z)
    here = values_of(model, complete, SITES, Z)
    for name in ("complete", "marginal", "local", "energy", "log_partition", "gradient", "statistics"):
        assert agree(getattr(there, name), getattr(here, name), 1e-11)


# ---------------------------------------------------------------------------------------------------------------------
# Steps


@pytest.mark.slow
def test_em_climbs_by_the_textbooks_steps():
    """Ten steps are ten naive ones (E17, E19); on the way and to the end the log joint never falls (1e-9)."""
    model, sites = build(), SITES
    whole, ten = climbed(model, survey(), SITES), climbed(model, survey(), SITES, 10, 0.0)
    for step in range(10):
        naive = log_prior(model.hyper, sites) + log_likelihood(sites, X).sum()
        assert ten.objective[0, step] == pytest.approx(naive, rel=1e-11)
        sites = map_step(model.hyper, sites, X)
    for name, value in sites.items():
        assert near(ten.sites[name][0], value, rtol=1e-9)
    assert whole.converged.all()
    assert neighbours_increase(whole.objective[0], 1e-9)


@pytest.mark.slow
def test_the_bound_of_cavi_never_falls():
    """By 1e-9 of it; it is −∞ at a start given as sites, where q(θ) is not known."""
    found = climbed(build(), survey(), SITES, method=cavi.FIXED_POINT)
    assert found.converged.all()
    assert len(found.criterion[0]) > 3
    assert neighbours_increase(found.criterion[0, 1:], 1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Modes in closed form: one component


GENERAL = {"location": [0.4, 7.0], "strength": 0.7, "dof": 5.0, "scatter": [2.6, 1.9], "level_concentration": 1.7}
GENERAL |= {"shape": 2.5, "inverse_scale": 0.8}


def mode(x: np.ndarray, prior: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(sites after one step from anywhere, hyperparameters) of one component."""
    model = build(survey(x), num_components=1, prior=prior)
    found = climbed(model, survey(x), random_sites(1), 1, 0.0)
    return {name: value[0] for name, value in found.sites.items()}, dict(model.hyper)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [{"component": GENERAL}, "default", "document", "flat_mean"], ids=str)
def test_modes_of_one_component(prior):
    """Errata E17 and E19 with a, b, m and β free and in the presets; categories and counts likewise, cells missing."""
    sites, hyper = mode(X, prior)
    for name, value in m_step(hyper, np.ones((12, 1)), X).items():
        assert near(sites[name], value, rtol=1e-12)


def test_presets_of_the_document():
    """β = 2a − 1 (E17), and its limit β → 0 (E18); both leave what is not their own at the default."""
    hyper = {name: dict(build(prior=name).hyper) for name in ("default", "document", "flat_mean")}
    assert hyper["document"]["strength"] == hyper["document"]["dof"] - 1
    assert hyper["flat_mean"]["strength"] < 1e-9
    for name in ("document", "flat_mean"):
        changed = {key for key in hyper[name] if not np.array_equal(hyper[name][key], hyper["default"][key])}
        assert changed <= {"dof", "strength"}
