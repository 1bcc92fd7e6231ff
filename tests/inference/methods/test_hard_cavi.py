"""Hard assignments with the parameters integrated out, against the log joint of every assignment."""

from itertools import product

import numpy as np
from scipy import stats

from inference import fit
from inference.comparison.criteria import BOUND, criteria
from inference.diagnostics.checks import MEASURES
from inference.diagnostics.starts import describe_starts
from inference.fitting.prepare import make_task, x64
from inference.fixed_points.climbing import climb
from inference.methods import cavi, hard_cavi
from inference.runtime.progress import Silent
from models import MODELS, load_data

X = np.array([[-2.0], [-1.4], [0.1], [0.3], [1.9], [2.2]])


def log_joint(z, num_components=2):
    """Log p(x, z) of the simplified mixture: z uniform, means ~ N(0, 1) integrated out, x ~ N(mean, 1)."""
    total = -len(z) * np.log(num_components)
    for k in range(num_components):
        rows = X[np.array(z) == k, 0]
        if len(rows):
            total += stats.multivariate_normal.logpdf(rows, np.zeros(len(rows)), np.eye(len(rows)) + 1.0)
    return total


def fitted(x=X, name="gmm_simple", **options):
    data = load_data(x)
    model = MODELS[name](data, num_components=2)
    return model, data, fit(model, data, "hard_cavi", num_samples=500, num_chains=2, **options)


def test_the_best_of_all_assignments_is_reached():
    """The bound at the end is log p(x, z) of the assignment, and none of the 64 is more probable."""
    tree = fitted()[2]
    best = max(product((0, 1), repeat=len(X)), key=log_joint)
    np.testing.assert_allclose(tree.attrs["elbo"], log_joint(best), rtol=1e-10)


def test_draws_are_those_of_the_parameters_given_the_assignment():
    """Given n rows of sum s a mean is N(s / (n + 1), 1 / (n + 1)): 1,000 draws of each, four standard errors."""
    tree = fitted()[2]
    best = np.array(max(product((0, 1), repeat=len(X)), key=log_joint))
    expected = sorted((X[best == k, 0].sum() / (1 + (best == k).sum()), 1 / (1 + (best == k).sum())) for k in (0, 1))
    drawn = tree["posterior"]["mean"].values.reshape(-1, 2)
    for (mean, variance), draws in zip(expected, drawn[:, drawn.mean(0).argsort()].T, strict=True):
        assert abs(draws.mean() - mean) < 4 * np.sqrt(variance / len(draws))
        assert abs(draws.var() / variance - 1) < 4 * np.sqrt(2 / len(draws))


def test_the_bound_rises_and_lies_below_that_of_soft_assignments():
    data = load_data("blobs", num_rows=30, seed=2)
    model = MODELS["gmm"](data, num_components=2)
    with x64(64):
        task = make_task(model, data, 0, None, Silent())
        points = climb(task, hard_cavi.FIXED_POINT, 100, 1e-12, 4)[0]
        soft = climb(task, cavi.FIXED_POINT, 500, 1e-10, 4)[0]
    for trace in points.criterion:
        trace = trace[np.isfinite(trace)]
        assert (np.diff(trace) > -1e-9 * np.abs(trace[1:])).all()
    assert np.nanmax(points.criterion) <= np.nanmax(soft.criterion) + 1e-9
    assert points.converged.all()


def test_bounds_of_assignments_are_no_masses_of_modes():
    """With empty components K! counts too many labellings; starts at other assignments are local optima, and no modes."""
    data = load_data(X)
    tree = fit(MODELS["gmm_simple"](data, num_components=7), data, "hard_cavi", num_samples=50, num_chains=2, num_starts=10)
    found = criteria(tree)
    assert found["ELBO"] == tree.attrs["elbo"]
    assert np.isnan(found[BOUND])
    assert "with noise" not in describe_starts(tree)
    assert MEASURES["another mode"](tree) is None


def test_models_without_assignments_are_refused():
    wine, words = load_data("wine"), load_data("bars")
    support = hard_cavi.METHOD.support
    assert "stands for no assignment" in (support.why_not(MODELS["factor_analysis"](wine).algebra) or "")
    assert "parameters of their own" in (support.why_not(MODELS["latent_dirichlet"](words, num_topics=2).algebra) or "")
