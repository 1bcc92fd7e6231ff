"""`fit` as its users meet it: hostile input, the groups of a result, seeds, precision, interruption, programs."""

import os
import signal
import threading
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from naive import COVARIANCES, build, random_sites, table, two_groups
from scipy import stats

from inference import METHODS, fit, identify
from inference.results import load, save
from models import MODELS, ZooError

X = two_groups(40)
SHORT: dict[str, dict[str, Any]] = {
    "em": {"num_starts": 2},
    "hard_em": {"num_starts": 2},
    "stochastic_em": {"num_starts": 2, "max_iter": 20},
    "cavi": {"num_starts": 2, "num_samples": 50, "num_chains": 2},
    "gibbs": {"num_warmup": 20, "num_samples": 50, "num_chains": 2},
    "map": {"num_starts": 2},
    "laplace": {"num_starts": 2, "num_samples": 50, "num_chains": 2},
    "nuts": {"num_warmup": 30, "num_samples": 50, "num_chains": 2},
}
OPTIMISERS = {"em", "hard_em", "stochastic_em", "map"}
every_method = pytest.mark.parametrize("method", METHODS)


@cache
def fitted(method: str) -> xr.DataTree:
    return fit(build(X, "diag"), table(X), method=method, seed=3, **SHORT[method])


def variables(tree: xr.DataTree) -> dict[str, np.ndarray]:
    """Every number of a result, apart from the clock."""
    return {f"{node.path}/{name}": value.values for node in tree.subtree for name, value in node.data_vars.items()}


def is_finite(tree: xr.DataTree) -> bool:
    """No NaN or infinity in what a user reads: parameters, functionals, densities, responsibilities."""
    groups = {"posterior", "posterior_raw", "point_estimate", "functionals", "log_likelihood", "latent"} & set(tree.children)
    return all(np.isfinite(value.values).all() for group in groups for value in tree[group].data_vars.values())


# ---------------------------------------------------------------------------------------------------------------------
# Results


@every_method
def test_groups_of_a_result(method):
    """Design §6: what every method returns, with its dimensions; all numbers finite."""
    tree = fitted(method)
    assert is_finite(tree)
    shared = {"functionals", "log_likelihood", "latent", "observed_data", "constant_data"}
    own = {"point_estimate", "optimization"} if method in OPTIMISERS else {"posterior", "posterior_raw", "sample_stats"}
    assert shared | own <= set(tree.children)
    lead = () if method in OPTIMISERS else ("chain", "draw")
    sites = tree["point_estimate" if method in OPTIMISERS else "posterior"]
    assert sites["mean"].dims == (*lead, "component", "column")
    assert sites["mixture_probs"].dims == (*lead, "component")
    assert list(sites["mean"]["column"].values) == ["a", "b"]
    for name in ("log_joint", "log_likelihood", "entropy"):
        assert tree["functionals"][name].dims == lead
    assert tree["log_likelihood"]["x"].dims == (*lead, "row")
    assert tree["latent"]["responsibilities"].dims == ("row", "component")
    if lead:
        assert tree["sample_stats"]["relabel_confidence"].dims == lead
        assert tree["sample_stats"]["permutation"].dims == (*lead, "component")
    attrs = {"model", "method", "data", "seed", "options", "numpyro_version", "jax_version", "compile_seconds", "exit_status"}
    assert attrs | {"warmup_seconds", "run_seconds"} <= set(tree.attrs)


@every_method
def test_numbers_of_a_result_belong_together(method):
    """Totals are sums over rows, weights are sorted, responsibilities add up, raw draws are the relabelled ones permuted."""
    tree = fitted(method)
    rows = tree["log_likelihood"]["x"]
    np.testing.assert_allclose(rows.sum("row"), tree["functionals"]["log_likelihood"], rtol=1e-10)
    assert (tree["functionals"]["sorted_probs"].diff("rank") <= 0).all()
    np.testing.assert_allclose(tree["latent"]["responsibilities"].sum("component"), 1, atol=1e-5)  # stored in float32
    if method not in OPTIMISERS:
        raw, order = tree["posterior_raw"]["mean"].values, tree["sample_stats"]["permutation"].values
        moved = np.take_along_axis(raw, order[..., None], axis=2)
        np.testing.assert_array_equal(moved, tree["posterior"]["mean"])


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_results_survive_the_disk(method, tmp_path):
    save(fitted(method), tmp_path / "results.nc")
    back = variables(load(tmp_path))
    for name, value in variables(fitted(method)).items():
        np.testing.assert_array_equal(back[name], value)


@pytest.mark.parametrize("method", ["em", "gibbs", "nuts", "laplace"])
def test_seed_decides_and_progress_does_not(method, capsys):
    """The same seed, with a bar this time, gives the same numbers; another seed others."""
    first = variables(fitted(method))
    again = variables(fit(build(X, "diag"), table(X), method=method, seed=3, progress=True, **SHORT[method]))
    assert "compiling" in capsys.readouterr().err
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)
    if method != "em":
        other = fit(build(X, "diag"), table(X), method=method, seed=4, **SHORT[method])
        assert not np.array_equal(other["posterior"]["mean"], fitted(method)["posterior"]["mean"])


def test_relabelling_again_changes_nothing():
    tree = identify(fitted("gibbs"), build(X, "diag"), table(X))
    np.testing.assert_array_equal(tree["posterior"]["mean"], fitted("gibbs")["posterior"]["mean"])
    with pytest.raises(ZooError, match="posterior_raw"):
        identify(fitted("em"), build(X, "diag"), table(X))


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_single_precision(method):
    """float32 throughout; the log joint agrees with double precision at the same point to 1e-4 of its size."""
    model = build(X, "full")
    start = random_sites("full", 2, X)
    options = {"max_iter": 3, "tol": 0} if method == "em" else SHORT[method]
    tree = fit(model, table(X), method=method, precision=32, start=start, **options)
    sites = tree["point_estimate" if method == "em" else "posterior"]
    assert sites["mean"].dtype == np.float32
    assert is_finite(tree)
    if method == "em":
        double = fit(model, table(X), method=method, start=start, **options)
        assert float(tree["functionals"]["log_joint"]) == pytest.approx(float(double["functionals"]["log_joint"]), rel=1e-4)


class Interrupting:
    """A reporter that sends Ctrl-C once, when a chunk of ``phase`` has been finished."""

    def __init__(self, phase: str) -> None:
        self.wanted, self.current, self.sent = phase, "", False

    def phase(self, name: str, total: int | None) -> None:
        self.current = name

    def update(self, done: int, note: str) -> None:
        if self.current == self.wanted and not self.sent:
            self.sent = True
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("method", ["gibbs", "nuts"])
def test_interruption_keeps_finished_draws(method):
    """They are the first draws of the run that is left alone."""
    options = SHORT[method]
    tree = fit(build(X, "diag"), table(X), method=method, seed=3, progress=Interrupting("sampling"), **options)
    kept = tree["posterior_raw"]["mean"].values
    assert 0 < kept.shape[1] < options["num_samples"]
    np.testing.assert_array_equal(kept, fitted(method)["posterior_raw"]["mean"].values[:, : kept.shape[1]])
    assert tree.attrs["interrupted"] == 1
    assert tree.attrs["exit_status"] == 130


def test_interruption_of_an_optimiser_and_of_a_warmup():
    """EM returns where it got to; a sampler without a draw says so."""
    tree = fit(build(X, "diag"), table(X), method="em", tol=0, max_iter=10_000, progress=Interrupting("iterating"))
    assert tree.attrs["interrupted"] == 1
    assert is_finite(tree)
    with pytest.raises(ZooError, match="before the first draw"):
        fit(build(X, "diag"), table(X), method="gibbs", progress=Interrupting("warm-up"), **SHORT["gibbs"])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler or threading.current_thread().name != "MainThread"


# ---------------------------------------------------------------------------------------------------------------------
# Hostile input

ODD_TABLES = {
    "duplicates": np.repeat(two_groups(4), 5, axis=0),
    "one value twice": np.array([[1.0, 2.0]] * 10 + [[3.0, 4.0]] * 10),
    "as many rows as components": two_groups(3),
    "huge": 1e150 * two_groups(20),
    "tiny": 1e-150 * two_groups(20),
    "far": 1e9 + two_groups(20),
    "collinear": two_groups(20)[:, :1] * np.array([1.0, 2.0]),
    "outlier": np.vstack([two_groups(20), [[1e6, -1e6]]]),
}


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("name", ODD_TABLES)
def test_odd_tables_are_fitted_or_refused(covariance, name):
    """Under the default prior, three components: a sound result, or a message; never NaN."""
    try:
        tree = fit(build(ODD_TABLES[name], covariance, 3), table(ODD_TABLES[name]), method="em", num_starts=3, max_iter=100)
    except ZooError as error:
        assert len(str(error)) > 30
    else:
        assert is_finite(tree)


@pytest.mark.parametrize("method", ["em", "gibbs", "map", "cavi"])
def test_one_component_and_one_row(method):
    """K = 1 on a table; and one row, where the covariances have nothing but the unit prior to go by."""
    assert is_finite(fit(build(X, "diag", 1), table(X), method=method, **SHORT[method]))
    row = table(X[:1])
    assert is_finite(fit(MODELS["gmm_simple"](row, num_components=1), row, method=method, **SHORT[method]))
    with pytest.raises(ZooError, match="same value in every row"):
        build(X[:1], "full", 1)


def test_laplace_is_exact_for_a_gaussian():
    """Unit covariance, one component: the posterior is a Gaussian, its evidence the algebra's, its weights equal."""
    row = table(X[:1])
    model = MODELS["gmm_simple"](row, num_components=1)
    tree = fit(model, row, method="laplace", num_samples=50, num_chains=2)
    exact = stats.multivariate_normal(np.zeros(2), 2 * np.eye(2)).logpdf(X[0])
    assert tree.attrs["log_evidence_laplace"] == pytest.approx(exact, rel=1e-9)
    assert tree.attrs["log_evidence_importance"] == pytest.approx(exact, rel=1e-9)
    assert tree.attrs["pareto_k"] == 0


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_start_with_an_empty_component(covariance):
    """A component a thousand standard deviations off: under the default prior it goes to the prior, and nothing is NaN."""
    start = random_sites(covariance, 2, X)
    start["mean"][1] = 1e4
    assert is_finite(fit(build(X, covariance), table(X), method="em", start=start, max_iter=50))


@pytest.mark.parametrize("method", ["em", "map"])
def test_collapse_under_a_flat_prior_is_named(method):
    """A component on a single row has unbounded density: an error that says what collapses and what to do, or a failed start."""
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
    ({"method": "ems"}, "'ems' is not one of em, hard_em"),
    ({"method": "em", "num_samples": 5}, "no option 'num_samples'; it takes max_iter"),
    ({"method": "em", "max_iter": 0}, "max_iter must be at least 1"),
    ({"method": "em", "max_iter": 2.5}, "max_iter must be a whole number"),
    ({"method": "em", "tol": -1.0}, "tol must be at least 0"),
    ({"method": "em", "tol": float("nan")}, "tol must be at least 0"),
    ({"method": "em", "seed": -1}, "seed must be a whole number"),
    ({"method": "em", "precision": 16}, "precision=16 is not one of 64, 32"),
    ({"method": "em", "start": {"mean": np.zeros((2, 2))}}, "start has the sites mean; the model has"),
    ({"method": "em", "start": random_sites("diag", 3, X)}, "has shape"),
    ({"method": "em", "start": random_sites("diag", 2, X) | {"precision": -np.ones((2, 2))}}, "precision is outside its support"),
    ({"method": "em", "start": random_sites("diag", 2, X) | {"mixture_probs": np.ones(2)}}, "mixture_probs is outside its support"),
    ({"method": "em", "start": random_sites("diag", 2, X) | {"mean": np.full((2, 2), np.nan)}}, "mean is outside its support"),
]


@pytest.mark.parametrize(("options", "words"), SLIPS, ids=[words[:24] for _, words in SLIPS])
def test_slips_are_named(options, words):
    with pytest.raises(ZooError, match=words):
        fit(build(X, "diag"), table(X), **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_components": 0}, "above 0"),
        ({"num_components": 2.0}, "whole number"),
        ({"num_components": 41}, "40 rows, fewer than num_components=41"),
        ({"covariance": "round"}, "'round' is not one of full"),
        ({"weights": "equal"}, "'equal' is not one of learned"),
    ],
)
def test_builds_that_make_no_sense(options, words):
    with pytest.raises(ZooError, match=words):
        MODELS["gmm"](table(X), **options)


# ---------------------------------------------------------------------------------------------------------------------
# Program-only models


def half_normal_mixture(x):
    """A user's program: scales with a prior that no conjugate family has."""
    probs = numpyro.sample("probs", dist.Dirichlet(jnp.full(2, 2.0)))
    mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 5.0).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(jnp.full(2, 2.0)).to_event(1))
    with numpyro.plate("row", x.shape[0]):
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(probs), dist.Normal(mean, scale)), obs=x)


def half_normal_log_joint(x, sites):
    """The same density by SciPy."""
    prior = stats.dirichlet([2.0, 2.0]).logpdf(sites["probs"]) + stats.norm(0, 5).logpdf(sites["mean"]).sum()
    prior += stats.halfnorm(scale=2).logpdf(sites["scale"]).sum()
    density = sites["probs"] * stats.norm(sites["mean"], sites["scale"]).pdf(x[:, None])
    return prior + np.log(density.sum(1)).sum()


@pytest.mark.parametrize("method", ["nuts", "map", "laplace"])
def test_programs_are_fitted(method):
    """Labels found from the mixture, log joints equal to SciPy's, draws relabelled."""
    x = two_groups(40)[:, 0]
    tree = fit(half_normal_mixture, x, method=method, symmetry="component", **SHORT[method])
    assert is_finite(tree)
    sites = tree["point_estimate" if method == "map" else "posterior"].to_dataset()
    last = sites if method == "map" else sites.isel(chain=-1, draw=-1)
    log_joint = tree["functionals"]["log_joint"].values.reshape(-1)[-1]
    assert log_joint == pytest.approx(half_normal_log_joint(x, {k: v.values for k, v in last.items()}), rel=1e-10)
    assert last["scale"].dims == ("component",)
    assert "sorted_probs" in tree["functionals"]
    if method != "map":
        assert tree["sample_stats"]["permutation"].shape == (2, 50, 2)


def flat_program(x):
    """Improper sites, which cannot be drawn from."""
    mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), (2,)))
    numpyro.sample("x", dist.Normal(mean, 1.0).to_event(1).expand((x.shape[0],)), obs=x)


def test_improper_sites_are_fitted():
    """The mode under a flat prior is the mean of the rows, to the gradient's 1e-7."""
    tree = fit(flat_program, X, method="map", num_starts=1)
    np.testing.assert_allclose(tree["point_estimate"]["mean"], X.mean(0), atol=1e-6)


def discrete_program(x):
    z = numpyro.sample("z", dist.Bernoulli(0.5))
    numpyro.sample("x", dist.Normal(z, 1.0).expand((x.shape[0],)).to_event(1), obs=x)


def silent_program(x):
    numpyro.sample("mean", dist.Normal(0.0, 1.0))


def broken_program(x):
    raise RuntimeError("ouch")


@pytest.mark.parametrize(
    ("program", "options", "words"),
    [
        (half_normal_mixture, {"method": "em"}, "half_normal_mixture is a NumPyro program without the algebra.*map, laplace or nuts"),
        (half_normal_mixture, {"method": "gibbs"}, "without the algebra"),
        (half_normal_mixture, {"method": "map", "dims": {"mean": ("a", "b")}}, "names 2 dimensions, but the site has shape"),
        (discrete_program, {"method": "map"}, "discrete site 'z'.*MixtureSameFamily"),
        (silent_program, {"method": "map"}, "observes nothing"),
        (broken_program, {"method": "map"}, "does not run on this data: RuntimeError: ouch"),
        ("gmm", {"method": "em"}, "expected a Model of the zoo or a NumPyro function, not str"),
    ],
)
def test_programs_that_do_not_fit(program, options, words):
    with pytest.raises(ZooError, match=words):
        fit(program, two_groups(10)[:, 0], **options)


def test_double_precision_is_the_fits_own():
    """A process in single precision gets double precision results all the same, and keeps its setting."""
    with jax.enable_x64(False):
        tree = fit(build(X, "diag"), table(X), method="em", num_starts=1)
        assert jnp.zeros(()).dtype == np.float32
    assert tree["point_estimate"]["mean"].dtype == np.float64
    alone = fit(build(X, "diag"), table(X), method="em", num_starts=1)
    np.testing.assert_array_equal(tree["point_estimate"]["mean"], alone["point_estimate"]["mean"])
