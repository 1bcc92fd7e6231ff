"""Draws of data and of the prior: by the program, in the form of the data, with the moments that they must have."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
import xarray as xr
from naive import SHORT, build, table, two_groups
from numpyro import distributions as dist
from two_stage import assert_standard_normal

from inference import fit
from inference.results import load, save
from models import MODELS, ZooError, load_data

X = two_groups(40)
GROUPS = {"prior", "prior_predictive", "posterior_predictive", "log_prior"}


def regression(x, y):
    """A user's program with two observed sites and a covariate."""
    slope = numpyro.sample("slope", dist.Normal(1.0, 0.5))
    with numpyro.plate("row", x.shape[0]):
        numpyro.sample("height", dist.Normal(slope * x, 1.0), obs=y)
        numpyro.sample("width", dist.Poisson(3.0), obs=jnp.round(jnp.abs(y)))


@cache
def own(predictive=True):
    return fit(regression, (X[:, 0], X[:, 1]), method="nuts", predictive=predictive, **SHORT["nuts"])


@cache
def mixture():
    return fit(build(X, "diag"), table(X), method="gibbs", predictive=True, **SHORT["gibbs"])


@pytest.mark.slow
def test_a_program_keeps_the_names_of_its_sites(tmp_path):
    """In log_likelihood, observed_data and the predictive groups; what it was given beside stands in constant_data."""
    save(own(), tmp_path / "results.nc")
    tree = load(tmp_path)
    assert set(tree.children) >= GROUPS
    for group in ("log_likelihood", "observed_data", "prior_predictive", "posterior_predictive"):
        assert set(tree[group].data_vars) == {"height", "width"}
        assert tree[group]["height"].dims[-1] == "row"
    np.testing.assert_array_equal(tree["observed_data"]["height"], X[:, 1])
    total = tree["log_likelihood"].to_dataset().to_array().sum(("variable", "row"))
    np.testing.assert_allclose(total, tree["functionals"]["log_likelihood"], rtol=1e-10)
    assert any(np.array_equal(given, X[:, 0]) for given in tree["constant_data"].data_vars.values())


@pytest.mark.slow
@pytest.mark.parametrize("tree", [own, mixture])
def test_log_prior_and_likelihood_make_the_log_joint(tree):
    """Site by site, at every draw: Σ log p(θ) = log joint − log likelihood."""
    found = tree()
    total = sum(value for value in found["log_prior"].data_vars.values())
    rest = found["functionals"]["log_joint"] - found["functionals"]["log_likelihood"]
    np.testing.assert_allclose(total.transpose("chain", "draw"), rest, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_requests_change_nothing_else():
    """The draws of a result are those of the same run without the groups."""
    plain = own(predictive=False)
    assert not GROUPS & set(plain.children)
    np.testing.assert_array_equal(plain["posterior"]["slope"], own()["posterior"]["slope"])


@pytest.mark.slow
def test_a_program_without_a_plate_draws_as_many_entries_as_it_observes():
    """Three entries by the distribution of one are independent of each other."""

    def program(x):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)

    tree = fit(program, np.array([1.0, 2.0, -1.0]), method="map", predictive=True, num_starts=1)
    for group in ("prior_predictive", "posterior_predictive"):
        drawn = tree[group]["x"].values
        assert drawn.shape[-1] == 3
        assert (np.ptp(drawn, axis=-1) > 0).all()


@pytest.mark.slow
def test_draws_have_the_moments_of_the_program():
    """Prior: slope ~ Normal(1, ½²), height ~ Normal(slope x, 1). Posterior: height around the draw of the slope, row by row."""

    def deviations(seed, times):
        tree = fit(
            regression, (X[:, 0], X[:, 1]), method="nuts", predictive=True, seed=seed, num_chains=2, num_warmup=100,
            num_samples=200 * times,
        )  # fmt: skip
        prior, x = tree["prior"]["slope"].values.ravel(), xr.DataArray(X[:, 0], dims="row")
        before = (tree["prior_predictive"]["height"] - tree["prior"]["slope"] * x).values.reshape(-1, len(x))
        after = (tree["posterior_predictive"]["height"] - tree["posterior"]["slope"] * x).values.reshape(-1, len(x))
        width = tree["posterior_predictive"]["width"].values
        standard = [(prior.mean() - 1) / 0.5 * np.sqrt(prior.size), (width.mean() - 3) / np.sqrt(3 / width.size)]
        for residual in (before, after):
            standard += [residual.mean() * np.sqrt(residual.size), ((residual**2).mean() - 1) * np.sqrt(residual.size / 2)]
        return np.array(standard)

    assert_standard_normal(deviations)


@pytest.mark.slow
def test_mixtures_draw_whole_rows_of_their_components():
    """Row by row E[x | θ] = Σ_k π_k μ_k, whatever is missing or weighed in the data."""
    holes = X.copy()
    holes[3, 0] = np.nan
    weight = np.where(np.arange(len(X)) < 20, 0.5, 2.0)
    model = build(table(holes, weight), "diag")

    def deviations(seed, times):
        options = SHORT["cavi"] | {"num_samples": 64 * times}
        tree = fit(model, table(holes, weight), method="cavi", predictive=True, seed=seed, **options)
        drawn, sites = tree["posterior_predictive"]["x"], tree["posterior"]
        assert set(tree["posterior_predictive"].data_vars) == {"x"}
        assert np.isfinite(drawn).all()
        mean = (sites["mixture_probs"] * sites["mean"]).sum("component").rename(feature="column")
        second = (sites["mixture_probs"] * (sites["mean"] ** 2 + 1 / sites["precision"])).sum("component")
        spread = np.sqrt(second.rename(feature="column") - mean**2)
        standard = ((drawn - mean) / spread).transpose("chain", "draw", "row", "column").values
        return standard.mean((0, 1, 2)) * np.sqrt(standard[..., 0].size)

    assert_standard_normal(deviations)


def test_an_improper_prior_is_said():
    """No draws from a prior that is none; the rest is there, and a line says why."""
    tree = fit(build(X, "diag", prior="flat"), table(X), method="em", predictive=True, num_starts=1)
    assert {"posterior_predictive", "log_prior"} <= set(tree.children)
    assert not {"prior", "prior_predictive"} & set(tree.children)
    assert "improper" in tree.attrs["warnings"]
    assert "point estimate" in tree["posterior_predictive"].attrs["parameters"]


def test_what_cannot_be_drawn_is_refused_before_the_fit(monkeypatch):
    """Sequences over the pairs of tokens that were seen: what follows any other is not known."""
    monkeypatch.setattr("models.markov_naive_bayes.ALL_PAIRS", 2)
    texts = load_data(["a b c", "b c d", "c a b", "d c b"], labels=["x", "y", "x", "y"])
    with pytest.raises(ZooError, match="cannot be drawn"):
        fit(MODELS["markov_naive_bayes"](texts), texts, method="exact", predictive=True)
    with pytest.raises(ZooError, match="predictive must be true or false"):
        fit(build(X, "diag"), table(X), method="em", predictive="yes")
