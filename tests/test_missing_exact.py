"""Samplers of rows with missing cells against the exact posterior, by enumeration of the assignments."""

from functools import cache
from typing import Any

import naive_monotone
import numpy as np
import pytest
from identities import climbed
from naive import batch_error, distances, two_groups
from naive_mixed import X as ANSWERS
from naive_mixed import build as build_mixed
from naive_mixed import survey

from inference import cavi, fit
from inference.evaluate import evaluate
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
def exact(covariance: str) -> tuple[float, dict[str, np.ndarray]]:
    """(log evidence, sites and functionals of 20,000 independent draws)."""
    model, data = classes(covariance)
    evidence, sites = naive_monotone.posterior(covariance, model.hyper, HOLED, allowed_labels(data), 20_000)
    found = evaluate(model, dict(model.hyper), dict(model.prior), model.rows(data), sites)
    return evidence, sites | {name: value for name, value in found.functionals.items() if name not in sites}


@pytest.mark.parametrize(("covariance", "method"), [("full", "gibbs"), ("full", "nuts"), ("tied", "gibbs")])
def test_sampler_finds_the_exact_posterior(covariance, method):
    """Means of 19 numbers and of their squares, of all parameters and functionals, against independent exact draws.

    Errors are by 40 batch means; |z| < 6 at 39 degrees of freedom gives 38 numbers false alarms of 2e-5.
    """
    model, data = classes(covariance)
    tree = fit(model, data, method=method, **LONG)
    scores = {}
    for name, reference in exact(covariance)[1].items():
        group = "posterior" if name in tree["posterior"] else "functionals"
        values = tree[group][name].values.reshape(4, 1280, -1)
        for place, (column, wanted) in enumerate(zip(np.moveaxis(values, 2, 0), reference.reshape(20_000, -1).T, strict=True)):
            for power in (1, 2):
                found, known = (column - wanted.mean()) ** power, (wanted - wanted.mean()) ** power
                error = np.hypot(batch_error(found), known.std() / np.sqrt(20_000))
                scores[name, place, power] = abs(found.mean() - known.mean()) / error
    assert len(scores) > 25
    assert max(scores.values()) < 6, scores


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_the_bound_is_below_the_exact_evidence(covariance):
    """By less than 5 nats: mean field loses what labels, cells and parameters tell of each other."""
    model, data = classes(covariance)
    evidence, found = exact(covariance)
    start = {name: found[name].mean(0) for name in ("class_probs", "mean", "precision")}
    bound = climbed(model, data, start, method=cavi.METHOD).criterion[0]
    assert evidence - 5 < np.nanmax(bound[1:]) < evidence


@cache
def mixed(method: str) -> Any:
    data = survey(ANSWERS[:8], labels=LABELS)
    prior = {"component": {"strength": 0.5, "dof": 7.0, "level_concentration": 1.5}}
    return fit(
        build_mixed(data, labelled=True, prior=prior), data, method=method, **{"num_samples": 1280} | mixed_options(method)
    )


def mixed_options(method: str) -> dict[str, Any]:
    return {} if method == "exact" else LONG


@pytest.mark.parametrize("method", ["gibbs", "nuts"])
def test_samplers_of_mixed_columns_find_the_exact_posterior(method):
    """Method exact sums over 2^4 assignments; means of all parameters and functionals and of their squares.

    |z| < 6 with errors by 40 batch means on both sides, about 60 numbers: false alarms of 2e-5.
    """
    scores = distances(mixed(method), mixed("exact"))
    assert len(scores) > 40
    assert max(scores.values()) < 6, scores
