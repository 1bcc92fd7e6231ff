"""`fit` as its users meet it: the groups of a result, seeds, precision, interruption."""

import signal
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from interrupting import Interrupting
from naive import SHORT, build, equal, is_finite, random_sites, table, two_groups

from inference import METHODS, fit, identify
from inference.results import load, save
from models import ZooError

X = two_groups(40)
OPTIMISERS = {"em", "hard_em", "stochastic_em", "map"}
OTHERS = {"exact", "collapsed_gibbs"}  # see test_classifiers
DEAR = {"nuts", "laplace", "advi", "map", "cavi", "tempered_gibbs", "pathfinder", "chees", "mclmc", "smc"}  # to compile
every_method = pytest.mark.parametrize(
    "method",
    [pytest.param(name, marks=pytest.mark.slow if name in DEAR else []) for name in METHODS if name not in OTHERS],
)


@cache
def fitted(method: str) -> xr.DataTree:
    return fit(build(X, "diag"), table(X), method=method, seed=3, **SHORT[method])


def variables(tree: xr.DataTree) -> dict[str, np.ndarray]:
    """Every number of a result, apart from the clock."""
    return {f"{node.path}/{name}": value.values for node in tree.subtree for name, value in node.data_vars.items()}


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
    assert sites["mean"].dims == (*lead, "component", "feature")
    assert sites["mixture_probs"].dims == (*lead, "component")
    assert list(sites["mean"]["feature"].values) == ["a", "b"]
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
        assert equal(back[name], value)


@pytest.mark.slow
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
    before = variables(fitted("gibbs"))
    for name, value in variables(tree).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    assert tree.attrs["warnings"] == fitted("gibbs").attrs["warnings"]
    with pytest.raises(ZooError, match="posterior_raw"):
        identify(fitted("em"), build(X, "diag"), table(X))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_single_precision(method):
    """float32 in the run, double precision in what is reported; the log joint agrees with that of a run in it to 1e-4."""
    model = build(X, "full")
    start = random_sites("full", 2, X)
    options = {"max_iter": 3, "tol": 0} if method == "em" else SHORT[method]
    tree = fit(model, table(X), method=method, precision=32, start=start, **options)
    sites = tree["point_estimate" if method == "em" else "posterior"]
    assert sites["mean"].dtype == np.float64
    assert (sites["mean"].values - sites["mean"].values.astype(np.float32)).any()  # moved back in double precision
    assert is_finite(tree)
    if method == "em":
        double = fit(model, table(X), method=method, start=start, **options)
        assert float(tree["functionals"]["log_joint"]) == pytest.approx(float(double["functionals"]["log_joint"]), rel=1e-4)


@pytest.mark.parametrize("method", ["gibbs", pytest.param("nuts", marks=pytest.mark.slow)])
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
    """EM returns where it got to; a sampler without a draw says so; Ctrl-C is then what it was before."""
    before = signal.getsignal(signal.SIGINT)
    tree = fit(build(X, "diag"), table(X), method="em", tol=0, max_iter=10_000, progress=Interrupting("iterating"))
    assert tree.attrs["interrupted"] == 1
    assert is_finite(tree)
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        fit(build(X, "diag"), table(X), method="gibbs", progress=Interrupting("warm-up"), **SHORT["gibbs"])
    assert signal.getsignal(signal.SIGINT) is before


def test_double_precision_is_the_fits_own():
    """A process in single precision gets double precision results all the same, and keeps its setting."""
    with jax.enable_x64(False):
        tree = fit(build(X, "diag"), table(X), method="em", num_starts=1)
        assert jnp.zeros(()).dtype == np.float32
    assert tree["point_estimate"]["mean"].dtype == np.float64
    alone = fit(build(X, "diag"), table(X), method="em", num_starts=1)
    np.testing.assert_array_equal(tree["point_estimate"]["mean"], alone["point_estimate"]["mean"])
