"""What the mixed mixture owes to its columns: the documents' formulas, invariances, its equal among the Gaussian mixtures."""

from typing import Any

import numpy as np
import pytest
from cell_predictive import NUMBERS, cell_predictive
from errata_columns import document_variance, doubled_variance, printed_means, right_variance
from identities import climbed
from naive import near, table
from naive_mixed import WHOLE, X, build, log_local, random_sites, survey

from inference import discriminant, posterior_predictive, predict
from inference.fitting.prepare import make_task
from inference.methods import cavi, em, exact
from inference.runtime.progress import Silent
from models import MODELS, Data
from models.data import take

SITES = random_sites()


# ---------------------------------------------------------------------------------------------------------------------
# The document's formulas (errata E18, E19), right and wrong


def one_column(x: np.ndarray, prior: str = "flat_mean") -> tuple[float, float, float, float]:
    """(mean, variance, a, b) of one component on one column of numbers."""
    data = Data("column", x[:, None], ("x",), kinds=("number",))
    model = MODELS["mixed_mixture"](data, num_components=1, prior=prior)
    start = {"mixture_probs": np.ones(1), "mean": np.zeros((1, 1)), "precision": np.ones((1, 1))}
    found = climbed(model, data, start, 1, 0.0)
    a, b = float(model.hyper["dof"]) / 2, float(model.hyper["scatter"][0]) / 2
    return float(found.sites["mean"][0, 0, 0]), float(1 / found.sites["precision"][0, 0, 0]), a, b


def column(mean: float) -> np.ndarray:
    """60 rows of N(mean, 1), 24 of them missing."""
    x = np.random.default_rng(3).normal(mean, 1.0, 60)
    x[np.random.default_rng(4).permutation(60)[:24]] = np.nan
    return x


def is_the_limit(formula: Any) -> bool:
    """Whether a formula for the variance is the zoo's, with N the observed cells, wherever the column is: to 1e-8.

    The strength that stands for 0 is 1e-10 and the location the column's mean, of which nothing more is left.
    """
    found = [(column(mean), one_column(column(mean))) for mean in (0.0, 5.0, 100.0)]
    return all(abs(formula(x[~np.isnan(x)], a, b) / variance - 1) < 1e-8 for x, (_, variance, a, b) in found)


def test_variance_in_the_limit():
    assert is_the_limit(right_variance)


@pytest.mark.parametrize("mutant", [document_variance, doubled_variance])
def test_documents_variance_is_rejected(mutant):
    assert not is_the_limit(mutant)


def test_missing_cells_do_not_count_as_zeros():
    """E19: of N(5, 1) with 40 % missing the mean is that of the cells that are there; a sum over all rows would make it 3."""
    x = column(5.0)
    assert one_column(x)[0] == pytest.approx(np.nanmean(x), rel=1e-9)
    planted = one_column(np.nan_to_num(x))[0]  # zeros that count as cells
    assert planted == pytest.approx(printed_means(x, np.ones((60, 1)))[0], rel=1e-9)
    assert planted < 3.5


# ---------------------------------------------------------------------------------------------------------------------
# Invariances


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["default", "flat"])
def test_units_and_offsets_do_not_matter(prior):
    """Numbers shifted and scaled: variances scale with the square, nothing else changes, in ten steps of EM.

    The default prior goes with the columns. 1e4 widths of offset leave 1e-12 of the digits, ten steps of conditioning 1e-9.
    """
    unit, offset = np.array([1e3, 0.01]), np.array([1e7, -100.0])
    x = X.copy()
    x[:, NUMBERS] = X[:, NUMBERS] * unit + offset
    moved = SITES | {"mean": SITES["mean"] * unit + offset, "precision": SITES["precision"] / unit**2}
    here = climbed(build(prior=prior), survey(), SITES, 10, 0.0).sites
    there = climbed(build(survey(x), prior=prior), survey(x), moved, 10, 0.0).sites
    back = there | {"mean": (there["mean"] - offset) / unit, "precision": there["precision"] * unit**2}
    for name, value in here.items():
        assert near(back[name], value, rtol=1e-8, atol=1e-9)


def permuted(data: Data, rows: np.ndarray, columns: np.ndarray) -> Data:
    """Rows and columns in another order, the levels of all categories turned round, codes with them."""
    x = np.column_stack([len(levels) - 1 - v if levels else v for v, levels in zip(data.x.T, data.categories, strict=True)])
    levels = tuple(names[::-1] for names in data.categories)
    moved = data._replace(
        x=x[:, columns], columns=tuple(np.array(data.columns)[columns]), categories=tuple(levels[d] for d in columns)
    )
    return take(moved._replace(kinds=tuple(data.kinds[d] for d in columns)), rows)


@pytest.mark.slow
def test_order_does_not_matter():
    """Rows, columns and levels in another order: ten steps of EM end at the same place, and new rows are matched by name."""
    rows, columns = np.random.default_rng(0).permutation(12), np.array([4, 3, 1, 0, 2])
    other = permuted(survey(), rows, columns)

    def turned(sites: Any) -> Any:
        flipped = {"mean": sites["mean"][..., ::-1], "precision": sites["precision"][..., ::-1]}
        return sites | flipped | {name: sites[name][..., ::-1] for name in ("probs_planet", "probs_armed")}

    here = climbed(build(), survey(), SITES, 10, 0.0)
    there = climbed(build(other), other, turned(SITES), 10, 0.0)
    assert near(there.objective, here.objective, rtol=1e-11)
    for name, value in turned(here.sites).items():
        assert near(there.sites[name], value, rtol=1e-9)
    assert near(predict(build(), SITES, other)["probs"], predict(build(), SITES, survey())["probs"][rows], atol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Numbers alone


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x", "method"),
    [(WHOLE[:, NUMBERS], em.FIXED_POINT), (X[:, NUMBERS], cavi.FIXED_POINT)],
    ids=["complete-em", "holes-cavi"],
)
def test_numbers_alone_are_a_gaussian_mixture(x, method):
    """The same prior as gmm with covariance=diag, the log joint or bound at every step, and the same fixed point."""
    data = table(x)._replace(kinds=("number", "number"))
    mixed, gaussian = MODELS["mixed_mixture"](data), MODELS["gmm"](data, covariance="diag")
    assert all(near(mixed.hyper[name], value) for name, value in gaussian.hyper.items())
    start = {name: SITES[name] for name in ("mixture_probs", "mean", "precision")}
    left, right = (climbed(model, data, start, method=method) for model in (mixed, gaussian))
    assert near(left.criterion, right.criterion, rtol=1e-11)
    for name in start:
        assert near(left.sites[name], right.sites[name], rtol=1e-9)


@pytest.mark.slow
def test_evidence_of_numbers_alone():
    """Summed over all 2^8 assignments: the evidence of both models to rounding, 1e-10."""
    data = table(WHOLE[:8, NUMBERS])._replace(kinds=("number", "number"))
    models = MODELS["mixed_mixture"](data), MODELS["gmm"](data, covariance="diag")
    tasks = [make_task(model, data, 0, None, Silent()) for model in models]
    left, right = (exact.run(task, exact.Options(1, 1)).attrs["log_evidence"] for task in tasks)
    assert left == pytest.approx(right, rel=1e-10)


# ---------------------------------------------------------------------------------------------------------------------
# Classes


def naive_predictive(hyper: Any, x: np.ndarray, labels: list[str], new: np.ndarray) -> np.ndarray:
    """log p(z = k, x_new | data) with every label given, (N, K): Dirichlet, Student t, negative binomial, cell by cell."""
    found = np.zeros((len(new), 2))
    for k, name in enumerate("ab"):
        own = x[np.array(labels) == name]
        found[:, k] = np.log((hyper["concentration"][k] + len(own)) / (hyper["concentration"].sum() + len(x)))
        for n, row in enumerate(new):
            for d in np.flatnonzero(~np.isnan(row)):
                seen = own[~np.isnan(own[:, d]), d]
                found[n, k] += cell_predictive(hyper, d, seen, row[d])
    return found


@pytest.mark.slow
def test_predictive_of_classes_in_closed_form():
    """Every label given, cells missing on both sides: the textbooks' predictives, each column from the cells that it has."""
    labels = list("aabbabbabaab")
    data = survey(labels=labels)
    model = build(data, labelled=True)
    found = posterior_predictive(model, data, survey(X[::-1]))
    wanted = naive_predictive(model.hyper, X, labels, X[::-1])
    density = np.logaddexp(*wanted.T)
    assert near(found["log_density"], density, rtol=1e-9, atol=1e-10)
    assert near(found["probs"], np.exp(wanted - density[:, None]), atol=1e-10)


def test_log_odds_of_classes():
    """Bias and weights of numbers, levels and counts together are the log-odds of complete rows."""
    data = survey(WHOLE, labels=list("aabbabbabaab"))
    model = build(data, labelled=True)
    found, features = discriminant(model, SITES), model.abilities.discriminant.features(model.rows(data))
    odds = found["bias"].values[1] + sum(
        (np.asarray(value).reshape(12, -1) @ found[f"weight_{name}"].values[1].ravel()) for name, value in features.items()
    )
    local = log_local(SITES, WHOLE)
    assert near(odds, local[:, 1] - local[:, 0], rtol=1e-9, atol=1e-9)
