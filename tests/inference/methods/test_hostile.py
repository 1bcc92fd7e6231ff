"""Input that no one should give: a message that names the slip and the remedy, or a sound result; never NaN."""

from typing import Any

import numpy as np
import pytest
from naive import COVARIANCES, SHORT, build, is_finite, random_sites, table, two_groups
from scipy import stats

from inference import fit
from inference.diagnostics.importance import pareto_k
from inference.methods import gaussians_at_modes, laplace
from models import MODELS, ZooError, load_data

X = two_groups(40)
ODD_TABLES = {
    "duplicates": np.repeat(two_groups(4), 5, axis=0),
    "one value twice": np.array([[1.0, 2.0]] * 10 + [[3.0, 4.0]] * 10),
    "as many rows as components": two_groups(3),
    "huge": 1e150 * two_groups(20),
    "tiny": 1e-150 * two_groups(20),
    "far": 1e9 + two_groups(20),
    "collinear": two_groups(20)[:, :1] * np.array([1.0, 2.0]),
    "outlier": np.vstack([two_groups(19), [[1e6, -1e6]]]),
}
# What cannot be fitted, and what the message must hold: the option or the column, what is wrong, the remedy.
REFUSED = {
    (
        "beyond squares",
        "full",
    ): "table: the numbers of column 'a' are too large or too small to be squared; give .* another unit",
    (
        "below squares",
        "diag",
    ): "table: the numbers of column 'a' are too large or too small to be squared; give .* another unit",
    ("constant", "full"): "table: column 'a' has the same value in every row, .* leave it out with data.drop_constant=true",
    ("an infinite cell", "full"): "table: column 'b', row 2: the value is infinite; correct or remove it",
    ("an empty column", "diag"): "table: no row has a value in column 'b', .* leave it out with data.types.b=ignore",
}
IMPOSSIBLE = {
    "beyond squares": 1e200 * two_groups(20),
    "below squares": 1e-200 * two_groups(20),
    "constant": np.column_stack([np.full(20, 7.0), np.arange(20.0)]),
    "an infinite cell": np.array([[1.0, 2.0], [3.0, np.inf], [4.0, 1.0], [0.0, 0.0]]),
    "an empty column": np.column_stack([np.arange(20.0), np.full(20, np.nan)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("name", ODD_TABLES)
def test_odd_tables_are_fitted(covariance, name):
    """Under the default prior, three components: each of these has a sound result; never NaN, and no refusal."""
    tree = fit(build(ODD_TABLES[name], covariance, 3), table(ODD_TABLES[name]), method="em", num_starts=3, max_iter=100)
    assert is_finite(tree)


@pytest.mark.parametrize(("name", "covariance"), REFUSED)
def test_impossible_tables_are_refused(name, covariance):
    """Before anything is computed, with the column or option and the remedy."""
    with pytest.raises(ZooError, match=REFUSED[name, covariance]):
        MODELS["gmm"](load_data(table(IMPOSSIBLE[name])), num_components=3, covariance=covariance)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "gibbs", "map", "cavi"])
def test_one_component_and_one_row(method):
    """K = 1 on a table; and one row, also where covariances have nothing but the prior to go by."""
    assert is_finite(fit(build(X, "diag", 1), table(X), method=method, **SHORT[method]))
    row = table(X[:1])
    assert is_finite(fit(MODELS["gmm_simple"](row, num_components=1), row, method=method, **SHORT[method]))
    assert is_finite(fit(build(X[:1], "full", 1), row, method=method, **SHORT[method]))


@pytest.mark.slow
def test_laplace_says_that_its_search_has_not_ended():
    """Two iterations do not reach a mode: that, and no scale that goes to 0, is why the Hessian is singular."""
    data = load_data("iris")
    with pytest.raises(ZooError, match=r"not converged after 2 iterations, .*: raise max_iter"):
        fit(MODELS["gmm"](data, num_components=2), data, "laplace", max_iter=2, num_starts=1)


@pytest.mark.slow
def test_laplace_is_exact_for_a_gaussian():
    """Unit covariance, one component: the posterior is a Gaussian, its evidence the algebra's, its weights equal."""
    row = table(X[:1])
    model = MODELS["gmm_simple"](row, num_components=1)
    tree = fit(model, row, method="laplace", num_samples=50, num_chains=2)
    exact = stats.multivariate_normal(np.zeros(2), 2 * np.eye(2)).logpdf(X[0])
    assert tree.attrs["log_evidence_laplace"] == pytest.approx(exact, rel=1e-9)
    assert tree.attrs["log_evidence_importance"] == pytest.approx(exact, rel=1e-9)
    assert tree.attrs["pareto_k"] == 0


def test_weights_too_far_apart_for_a_tail_are_the_worst():
    """All but one are 0 next to the largest: a diagnostic that says nothing would pass."""
    assert pareto_k(-300.0 * np.arange(400)) == np.inf


@pytest.mark.slow
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_start_with_an_empty_component(covariance):
    """A component a thousand standard deviations off: under the default prior it goes to the prior, and nothing is NaN."""
    start = random_sites(covariance, 2, X)
    start["mean"][1] = 1e4
    assert is_finite(fit(build(X, covariance), table(X), method="em", start=start, max_iter=50))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "map"])
def test_collapse_under_a_flat_prior_is_named(method):
    """A component on a single row has unbounded density: an error that says what collapses and what to do."""
    x = np.vstack([X, [[50.0, 50.0]]])
    start = {"mixture_probs": np.array([0.9, 0.1]), "mean": np.array([[1.0, 1.0], [50.0, 50.0]]), "precision": np.ones((2, 2))}
    with pytest.raises(ZooError, match=r"collapses.*(default prior|prior=default).*fewer components"):
        fit(build(x, "diag", prior="flat"), table(x), method=method, start=start)


@pytest.mark.parametrize("method", ["gibbs", "nuts", "cavi", "laplace"])
def test_flat_prior_has_no_posterior(method):
    with pytest.raises(ZooError, match=r"flat.*proper"):
        fit(build(X, "diag", prior="flat"), table(X), method=method, **SHORT[method])


PRIORS = [
    ({"component": {"strength": -1.0}}, "strength must be above 0, got -1"),
    ({"component": {"dof": 0.5}}, "dof must be above 1"),
    ({"component": {"scatter": [[1.0, 2.0], [2.0, 1.0]]}}, "scatter.*positive definite"),
    ({"component": {"location": [0.0, 0.0, 0.0]}}, "location: expected numbers of shape"),
    ({"component": {"location": "left"}}, "location: expected numbers"),
    ({"component": {"scatter": np.inf}}, "scatter: every number must be finite"),
    ({"component": {"shape": 1.0}}, "component.shape: the names in this block"),
    ({"weights": {"concentration": 1.0}}, "block 'weights': the blocks are"),
    ({"mixture_probs": {"concentration": 0.0}}, "concentration must be above 0"),
    ("weak", "prior='weak': expected default, flat"),
]


@pytest.mark.parametrize(("prior", "words"), PRIORS, ids=[words[:20] for _, words in PRIORS])
def test_priors_outside_their_support(prior, words):
    with pytest.raises(ZooError, match=words):
        build(X, "full", prior=prior)


def test_mode_on_the_boundary_is_an_error():
    """Concentration below 1 has no interior mode: EM names it when a component empties, and does not return NaN."""
    prior = {"mixture_probs": {"concentration": 0.01}}
    start = random_sites("unit", 2, X)
    start["mean"][1] = 1e3
    with pytest.raises(ZooError, match=r"concentration.*more than 1"):
        fit(build(X, "unit", prior=prior), table(X), method="em", start=start)


SLIPS: list[tuple[dict[str, Any], str]] = [
    ({"method": "ems"}, "method='ems' is not one of em, hard_em.* \\(did you mean em\\?\\)"),
    ({"method": "em", "num_samples": 5}, "no option 'num_samples' \\(.*smc take it\\); it takes max_iter"),
    ({"method": "em", "max_iter": 0}, "max_iter must be at least 1"),
    ({"method": "em", "max_iter": 2.5}, "max_iter must be a whole number"),
    ({"method": "em", "tol": -1.0}, "tol must be at least 0"),
    ({"method": "em", "tol": float("nan")}, "tol must be at least 0"),
    ({"method": "em", "seed": -1}, "seed must be a whole number"),
    ({"method": "em", "precision": 16}, "precision=16 is not one of 64, 32"),
    (
        {"method": "em", "start": {"mean": np.zeros((2, 2))}},
        "start: expected the sites mean, .* got mean",
    ),
    ({"method": "em", "start": random_sites("diag", 3, X)}, r"start: .* has shape \(3.*, and that of gmm has shape \(2"),
    (
        {"method": "em", "start": random_sites("diag", 2, X) | {"precision": -np.ones((2, 2))}},
        "start: precision is outside its support: it takes numbers above 0",
    ),
    (
        {"method": "em", "start": random_sites("diag", 2, X) | {"mixture_probs": np.ones(2)}},
        "start: mixture_probs is outside its support: it takes probabilities .* sum to 1",
    ),
    (
        {"method": "em", "start": random_sites("diag", 2, X) | {"mean": np.full((2, 2), np.nan)}},
        "mean is outside its support: .* finite",
    ),
]


@pytest.mark.parametrize(("options", "words"), SLIPS, ids=[words[:24] for _, words in SLIPS])
def test_slips_are_named(options, words):
    with pytest.raises(ZooError, match=words):
        fit(build(X, "diag"), table(X), **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_components": 0}, "num_components must be a whole number above 0, got 0"),
        ({"num_components": 2.0}, "num_components must be a whole number above 0, got 2.0"),
        ({"covariance": "round"}, "'round' is not one of full"),
        ({"weights": "equal"}, "'equal' is not one of learned"),
    ],
)
def test_builds_that_make_no_sense(options, words):
    with pytest.raises(ZooError, match=words):
        MODELS["gmm"](table(X), **options)


@pytest.mark.slow
def test_rows_of_weight_zero_are_not_there():
    """Padding far away, weight 0: the same prior, start, optimum and functionals as without it."""
    x = two_groups(40)
    padded, weight = np.concatenate([x, np.full((3, x.shape[1]), 1e4)]), np.repeat([1.0, 0.0], [40, 3])
    found = []
    for data in (table(x), table(padded, weight)):
        model = build(data, "full")
        found.append((model.hyper, fit(model, data, method="em")))
    for name, value in found[0][0].items():
        np.testing.assert_allclose(found[1][0][name], value, rtol=1e-12)
    for name in ("log_joint", "log_likelihood", "entropy", "sorted_probs"):
        left, right = (float(tree["functionals"][name].sum()) for _, tree in found)
        assert right == pytest.approx(left, rel=1e-6, abs=1e-8), name


@pytest.mark.slow
@pytest.mark.parametrize(("interrupted", "error"), [(True, KeyboardInterrupt), (False, ZooError)])
def test_a_search_that_was_stopped_before_a_mode_is_no_singular_posterior(monkeypatch, interrupted, error):
    """Where the Hessian is singular because of Ctrl-C, the run was interrupted; nothing is said of the posterior."""

    def singular(*_):
        raise ZooError("the posterior has no isolated mode here")

    search = laplace.minimise
    monkeypatch.setattr(gaussians_at_modes, "normal_at", singular)
    monkeypatch.setattr(laplace, "minimise", lambda *given: search(*given)._replace(interrupted=interrupted))
    data = table(two_groups(20))
    with pytest.raises(error, match="mode"):
        fit(build(data, "diag", 2), data, "laplace", num_starts=1, num_samples=10, num_chains=1)
