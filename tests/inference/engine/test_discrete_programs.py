"""Programs with discrete latents: enumerated, they are the programs in which somebody has summed them out by hand."""

from importlib import util

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from naive import near, two_groups
from numpyro import distributions as dist
from numpyro import handlers
from scipy import stats
from scipy.special import logsumexp

from inference import compare, fit, log_likelihood, program_model
from inference.engine.program import latent_sites, potential, trace_point
from models import ZooError

X = two_groups(8)[:, 0]
Y = np.random.default_rng(1).poisson(2.0, 8)


def parameters():
    probs = numpyro.sample("probs", dist.Dirichlet(jnp.full(2, 2.0)))
    mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 5.0).to_event(1))
    return probs, mean


def explicit(x):
    """A mixture as it is told."""
    probs, mean = parameters()
    with numpyro.plate("row", len(x)):
        z = numpyro.sample("z", dist.Categorical(probs))
        numpyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)


def marginal(x):
    """The same, summed out by hand."""
    probs, mean = parameters()
    with numpyro.plate("row", len(x)):
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(probs), dist.Normal(mean, 1.0)), obs=x)


def points(number=3):
    """Points on ℝᵈ: one number for the probabilities, two means."""
    rng = np.random.default_rng(0)
    return [{"probs": jnp.asarray(rng.normal(size=1)), "mean": jnp.asarray(3 * rng.normal(size=2))} for _ in range(number)]


@pytest.mark.slow
def test_log_joints_are_those_of_the_program_summed_out_by_hand():
    """With their gradients, at random points of ℝᵈ."""
    one, other = program_model(explicit, X), program_model(marginal, X)
    assert set(latent_sites(one.spec, {}, jnp.asarray(X))) == {"probs", "mean"}
    found, wanted = (
        jax.value_and_grad(lambda z, spec=model.spec: potential(spec, {}, jnp.asarray(X), z)) for model in (one, other)
    )
    for z in points():
        (energy, slope), (by_hand, slope_by_hand) = found(z), wanted(z)
        assert near(energy, by_hand, rtol=1e-10)
        assert all(near(slope[name], slope_by_hand[name], rtol=1e-9, atol=1e-9) for name in z)


@pytest.mark.slow
def test_map_is_that_of_the_program_summed_out_by_hand():
    """The same mode and densities row by row, with labels found from the values of the discrete site."""
    found, wanted = (fit(program, X, "map", num_starts=2, symmetry="component") for program in (explicit, marginal))
    assert found["point_estimate"]["mean"].dims == ("component",)
    for name in ("probs", "mean"):
        assert near(np.sort(found["point_estimate"][name]), np.sort(wanted["point_estimate"][name]), rtol=1e-6)
    assert near(found["log_likelihood"]["x"], wanted["log_likelihood"]["x"], rtol=1e-6)
    assert near(found["observed_data"]["x"], X)


@pytest.mark.slow
def test_nuts_and_laplace_run_on_it():
    """Draws have the log joints of the program summed out by hand, and data are drawn with the discrete latent."""
    short = {"num_chains": 2, "num_samples": 32}
    trees = {
        "nuts": fit(explicit, X, "nuts", num_warmup=100, predictive=True, symmetry="component", **short),
        "laplace": fit(explicit, X, "laplace", num_starts=2, symmetry="component", **short),
    }
    assert trees["nuts"]["posterior_predictive"]["x"].shape == (2, 32, 8)
    assert np.isfinite(compare(trees).table["elpd"]["nuts"])
    model = program_model(marginal, X)
    for tree in trees.values():
        site = tree["posterior"].to_dataset().isel(chain=1, draw=-1)
        sites = {name: np.asarray(site[name]) for name in ("probs", "mean")}
        assert near(tree["log_likelihood"]["x"][1, -1], log_likelihood(model, sites, X), rtol=1e-10)


def by_rows(program, sites, *data):
    """Log-likelihoods by observed site, and the log joint, at given sites."""
    model = program_model(program, data)
    return trace_point(model.spec, {}, tuple(jnp.asarray(each) for each in data), sites)


def two_columns(x, y):
    probs = numpyro.sample("probs", dist.Dirichlet(jnp.full(2, 2.0)))
    mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 5.0).to_event(1))
    with numpyro.plate("row", len(x)):
        z = numpyro.sample("z", dist.Categorical(probs))
        numpyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)
        numpyro.sample("y", dist.Poisson(jnp.array([1.0, 4.0])[z]), obs=y)


SITES = {"probs": np.array([0.3, 0.7]), "mean": np.array([0.5, 3.0])}


@pytest.mark.slow
def test_two_columns_share_their_latent():
    """p(x), then p(y | x): row by row their product is the joint density by SciPy."""
    found = by_rows(two_columns, SITES, X, Y)["by_site"]
    of_x = np.log(SITES["probs"]) + stats.norm(SITES["mean"], 1).logpdf(X[:, None])
    of_both = of_x + stats.poisson([1.0, 4.0]).logpmf(Y[:, None])
    assert near(found["x"], logsumexp(of_x, axis=1), rtol=1e-10)
    assert near(found["x"] + found["y"], logsumexp(of_both, axis=1), rtol=1e-10)


def shared_switch(x):
    """One discrete latent for all rows, and one that no row depends on; a column that depends on none."""
    mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 5.0).to_event(1))
    numpyro.sample("idle", dist.Bernoulli(0.3))
    switch = numpyro.sample("switch", dist.Bernoulli(0.25))
    with numpyro.plate("row", len(x)):
        numpyro.sample("x", dist.Normal(mean[switch], 1.0), obs=x)
        numpyro.sample("free", dist.Normal(mean[0], 2.0), obs=x)


@pytest.mark.slow
def test_a_latent_that_all_rows_share_has_one_density():
    found = by_rows(shared_switch, {"mean": SITES["mean"]}, X)
    of_x = np.log([0.75, 0.25]) + stats.norm(SITES["mean"], 1).logpdf(X[:, None]).sum(0)
    assert near(found["by_site"]["x"], logsumexp(of_x), rtol=1e-10)
    assert near(found["by_site"]["free"], stats.norm(0.5, 2).logpdf(X), rtol=1e-10)
    assert near(found["log_prior"], stats.norm(0, 5).logpdf(SITES["mean"]).sum(), rtol=1e-10)


def continuous_below(x):
    """A continuous latent that depends on the discrete one: its mixture is its prior."""
    with numpyro.plate("row", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.2, 0.8])))
        w = numpyro.sample("w", dist.Normal(jnp.array([-1.0, 2.0])[z], 1.0))
        numpyro.sample("x", dist.Normal(w, jnp.array([0.5, 1.5])[z]), obs=x)


@pytest.mark.slow
def test_a_continuous_latent_below_a_discrete_one():
    w = np.random.default_rng(2).normal(size=8)
    found = by_rows(continuous_below, {"w": w}, X)
    prior = np.log([0.2, 0.8]) + stats.norm([-1.0, 2.0], 1).logpdf(w[:, None])
    both = prior + stats.norm(w[:, None], [0.5, 1.5]).logpdf(X[:, None])
    assert near(found["log_prior"], logsumexp(prior, axis=1).sum(), rtol=1e-10)
    assert near(found["by_site"]["x"], logsumexp(both, axis=1) - logsumexp(prior, axis=1), rtol=1e-10)


def with_poisson(x):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("row", len(x)):
        number = numpyro.sample("number", dist.Poisson(rate))
        numpyro.sample("x", dist.Normal(number, 1.0), obs=x)


def from_two(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    z = numpyro.sample("z", dist.DiscreteUniform(2, 4))
    with numpyro.plate("row", len(x)):
        numpyro.sample("x", dist.Normal(mean + z, 1.0), obs=x)


def without_plate(x):
    mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 5.0).to_event(1))
    z = numpyro.sample("z", dist.Categorical(jnp.full(2, 0.5)).expand((len(x),)))
    numpyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)


def discrete_alone(x):
    z = numpyro.sample("z", dist.Bernoulli(0.5))
    with numpyro.plate("row", len(x)):
        numpyro.sample("x", dist.Normal(z, 1.0), obs=x)


def with_bounds(x):
    """The bounds of w depend on z."""
    with numpyro.plate("row", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.5])))
        w = numpyro.sample("w", dist.Uniform(0.0, jnp.array([1.0, 3.0])[z]))
        numpyro.sample("x", dist.Normal(w, 0.1), obs=x)


def scaled(x):
    mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 5.0).to_event(1))
    with numpyro.plate("row", len(x)), handlers.scale(scale=2.0):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.5])))
        numpyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)


def uneven(x):
    p = numpyro.sample("p", dist.Beta(1.0, 1.0))
    with numpyro.plate("row", len(x)):
        z = numpyro.sample("z", dist.Binomial(jnp.arange(len(x)) + 1, p))
        numpyro.sample("x", dist.Normal(z, 1.0), obs=x)


REFUSED = {  # program -> what is said of it
    from_two: "'z' takes the values 2 to 4, and only those from 0 on",
    discrete_alone: "no continuous site",
    with_bounds: "site 'w' depends on a discrete site, and the bounds of its values",
    scaled: "is scaled, and depends on a discrete site",
    uneven: "discrete site 'z' is a Binomial.*sum it out",
    with_poisson: "discrete site 'number' is a Poisson, whose values cannot be enumerated; sum it out.*MixtureSameFamily",
    without_plate: r"rows without a numpyro\.plate",
}
QUICK = (from_two, discrete_alone)  # the others compile more


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param(program, words, marks=[] if program in QUICK else pytest.mark.slow, id=program.__name__)
        for program, words in REFUSED.items()
    ],
)
def test_programs_that_cannot_be_enumerated(program, words):
    with pytest.raises(ZooError, match=words):
        fit(program, X, "map")


@pytest.mark.slow
def test_the_missing_package_is_named(monkeypatch):
    found = util.find_spec
    monkeypatch.setattr("inference.programs.support.find_spec", lambda name: None if name == "funsor" else found(name))
    with pytest.raises(ZooError, match=r"discrete site 'z'.*needs the package funsor: install the extra 'enumerate'"):
        fit(explicit, X, "map")
