"""Programs whose log density is finite nowhere, or hardly anywhere: a refusal that names the statement, for every method."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from inference import fit
from inference.engine.quasi_newton import minimise
from inference.runtime.progress import Silent
from models import ZooError

METHODS = ("map", "laplace", "advi", "nuts")
X = np.array([0.5, -1.0, 2.0])
FEW = {"map": {"num_starts": 2}, "laplace": {"num_starts": 2}, "advi": {"num_starts": 2}, "nuts": {"num_chains": 2}}


def program_of(site, factor):
    """A normal mean, and a factor of it under the name ``site``."""

    def program(x):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        with numpyro.plate("row", len(x)):
            numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)
        numpyro.factor(site, factor(mean))

    return program


@pytest.mark.parametrize(("method", "value"), [*((method, np.nan) for method in METHODS), ("map", np.inf), ("map", -np.inf)])
def test_a_density_that_is_finite_nowhere_is_refused_by_name(method, value):
    program = program_of("no_way", lambda mean: jnp.full((), value) + 0 * mean)
    with pytest.raises(ZooError, match=rf"finite log density in 1000 tries.*site 'no_way' has the log density {value}"):
        fit(program, X, method=method, **FEW[method])


def test_an_observed_statement_is_named():
    """Rows outside the support of their distribution."""

    def program(x):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        truncated = dist.Uniform(0.0, rate / (1 + rate))
        numpyro.sample("x", truncated.expand((3,)).to_event(1), obs=x)

    with pytest.raises(ZooError, match="site 'x' has the log density -inf"):
        fit(program, X, method="nuts")


def test_a_gradient_that_is_no_number_is_refused_by_name():
    """A branch that is not taken: its value is fine, its gradient is 0 × ∞; the statements beside it are not blamed."""
    program = program_of("branch", lambda mean: jnp.where(mean > 50, jnp.sqrt(mean - 50), 0.0))
    with pytest.raises(ZooError, match="log density of site 'branch' has a gradient that is not finite"):
        fit(program, X, method="map")


@pytest.mark.slow
def test_a_start_is_sought_further_than_the_prior_reaches():
    """The prior's own draws, with mean 0 and deviation 0.01, never come to where the data are possible."""

    def program(x):
        mean = numpyro.sample("mean", dist.Normal(0.0, 0.01))
        numpyro.factor("far", jnp.where(mean > 1.0, 0.0, -jnp.inf))
        numpyro.sample("x", dist.Normal(mean, 1.0).expand((3,)).to_event(1), obs=x)

    tree = fit(program, X, method="nuts", num_warmup=5, num_samples=5, num_chains=2)
    assert (tree["posterior"]["mean"].values > 1).all()


def test_a_start_that_is_impossible_is_refused_by_name():
    program = program_of("half", lambda mean: jnp.where(mean > 0, 0.0, -jnp.inf))
    with pytest.raises(ZooError, match="start: site 'half' has the log density -inf there"):
        fit(program, X, method="map", start={"mean": -1.0})
    tree = fit(program, X, method="map", start={"mean": 1.0})
    assert float(tree["point_estimate"]["mean"]) == pytest.approx(X.sum() / 4, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_start_without_a_gradient_is_refused_by_name(method):
    """It is no mode: a slope that is no number says nothing of where the density rises."""
    program = program_of("branch", lambda mean: jnp.where(mean > 50, jnp.sqrt(mean - 50), 0.0))
    with pytest.raises(ZooError, match="start: the log density of site 'branch' has a gradient that is not finite there"):
        fit(program, X, method=method, start={"mean": 1.0})


def without_slope(static, arrays, z):
    """A parabola about 3, and no gradient below 0."""
    below = z["x"] < 0
    return (z["x"] - 3) ** 2 + jnp.where(below, jnp.sqrt(jnp.where(below, 0 * z["x"], 1.0)), 0.0)


def test_a_point_without_a_gradient_is_no_optimum():
    """A start there has not converged; one elsewhere does."""
    found = minimise(without_slope, None, (), {"x": jnp.array([-1.0, 1.0])}, 50, 1e-12, Silent())
    assert list(found.converged) == [False, True]
    assert float(found.points["x"][1]) == pytest.approx(3.0, abs=1e-3)
