"""Samplers of rows with missing cells against the exact posterior, by enumeration of the assignments."""

from functools import cache
from typing import Any

import naive_monotone
import numpy as np
import pytest
from identities import climbed
from naive import distances, distances_of_moments, draws_of, two_groups
from naive_mixed import X as ANSWERS
from naive_mixed import build as build_mixed
from naive_mixed import survey
from two_stage import assert_standard_normal

from inference import fit
from inference.engine.evaluate import evaluate
from inference.methods import cavi
from models import MODELS, Data, load_data
from models.base import Model
from models.data import allowed_labels

pytestmark = pytest.mark.slow
LONG = {"num_warmup": 500, "num_samples": 1280, "num_chains": 4}
LABELS = ["a", "b", None, None, "a", "b", "a|b", None]
PRIOR = {"strength": 0.5, "dof": 7.0}
HOLED = np.where(np.isin(np.arange(8), [1, 2, 4, 7])[:, None] & np.array([False, True]), np.nan, two_groups(8, gap=2.0))
HOLED[7] = np.nan  # nothing is known of it


def classes(covariance: str) -> tuple[Model, Data]:
    data = load_data(HOLED, labels=LABELS)
    return MODELS["linear_discriminant"](data, covariance=covariance, prior={"class": PRIOR}), data


@cache
def exact(covariance: str, seed: int = 0, size: int = 20_000) -> tuple[float, dict[str, np.ndarray]]:
    """(log evidence, sites and functionals of independent draws)."""
    model, data = classes(covariance)
    evidence, sites = naive_monotone.posterior(covariance, model.hyper, HOLED, allowed_labels(data), size, seed)
    found = evaluate(model, dict(model.hyper), dict(model.prior), model.rows(data), sites)
    return evidence, sites | {name: value for name, value in found.functionals.items() if name not in sites}


@pytest.mark.parametrize(("covariance", "method"), [("full", "gibbs"), ("full", "nuts"), ("tied", "gibbs")])
def test_sampler_finds_the_exact_posterior(covariance, method):
    """Means of 19 numbers and of their squares, of all parameters and functionals, against independent exact draws."""
    model, data = classes(covariance)

    def deviations(seed: int, times: int) -> np.ndarray:
        tree = fit(model, data, method=method, seed=seed, **LONG | {"num_samples": 1280 * times})
        scores = []
        for name, wanted in exact(covariance, seed, 20_000 * times)[1].items():
            group = "posterior" if name in tree["posterior"] else "functionals"
            scores.append(distances_of_moments(draws_of(tree, group, name), wanted.reshape(len(wanted), -1)))
        found = np.concatenate(scores)
        assert len(found) > 25
        return found

    assert_standard_normal(deviations)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_the_bound_is_below_the_exact_evidence(covariance):
    """By less than 5 nats: mean field loses what labels, cells and parameters tell of each other."""
    model, data = classes(covariance)
    evidence, found = exact(covariance)
    start = {name: found[name].mean(0) for name in ("class_probs", "mean", "precision")}
    bound = climbed(model, data, start, method=cavi.FIXED_POINT).criterion[0]
    assert evidence - 5 < np.nanmax(bound[1:]) < evidence


def mixed(method: str, seed: int, times: int) -> Any:
    data = survey(ANSWERS[:8], labels=LABELS)
    prior = {"component": {"strength": 0.5, "dof": 7.0, "level_concentration": 1.5}}
    options = ({} if method == "exact" else LONG) | {"num_samples": 1280 * times, "seed": seed}
    return fit(build_mixed(data, labelled=True, prior=prior), data, method=method, **options)


@pytest.mark.parametrize("method", ["gibbs", "nuts"])
def test_samplers_of_mixed_columns_find_the_exact_posterior(method):
    """Method exact sums over 2^4 assignments; means of all parameters and functionals and of their squares."""

    def deviations(seed: int, times: int) -> np.ndarray:
        scores = distances(mixed(method, seed, times), mixed("exact", seed + 1, times))
        assert len(scores) > 40
        return scores

    assert_standard_normal(deviations)
