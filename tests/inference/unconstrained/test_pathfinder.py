"""Pathfinder: of a Gaussian it finds that Gaussian; its weights and its bound are those of its draws."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gaussian_program import COVARIANCE, MEAN, NOTHING, gaussian, of_rows

from inference import fit, program_model
from inference.fitting.prepare import make_task, x64
from inference.runtime.progress import Silent
from inference.unconstrained import pathfinder
from inference.unconstrained.density import Density, Posterior
from inference.unconstrained.starts import at_paths
from models import ZooError

pytestmark = pytest.mark.slow  # kernels and searches compile programs of their own

DENSITY = Density(gaussian, (("z", (3,)),))


def test_draws_have_the_density_of_the_gaussian_of_their_path():
    """N(x + Σ ∇log p(x), Σ) with Σ = diag(α) + β γ βᵀ (section 2.2 of the paper); close to the posterior, a Gaussian, too."""
    starts, keys = jnp.zeros((3, 3)) + jnp.arange(3.0)[:, None], jax.random.split(jax.random.PRNGKey(0), 3)
    ended = pathfinder.paths(DENSITY, 30, NOTHING, keys, starts)
    for place in range(3):
        best = jax.tree.map(lambda leaf, place=place: leaf[place], ended.best)
        flat, log_q = pathfinder.drawn(DENSITY, 500, keys[0], best)
        covariance = jnp.diag(best.alpha) + best.beta @ best.gamma @ best.beta.T
        slope = jax.grad(lambda flat: DENSITY.log_density(NOTHING, flat))(best.position)
        centre = best.position + covariance @ slope
        np.testing.assert_allclose(log_q, dist.MultivariateNormal(centre, covariance).log_prob(flat), rtol=1e-8)
        divergence = (log_q - dist.MultivariateNormal(MEAN, COVARIANCE).log_prob(flat)).mean()
        assert divergence < 0.1
        np.testing.assert_allclose(ended.elbo[place], -divergence, atol=0.1)


def test_weights_are_those_of_the_draws():
    """Log p − log q at each draw; their mean is the bound, and their logarithmic mean the evidence, here of no information."""
    tree = fit(of_rows, np.zeros(1), "pathfinder", num_starts=2, num_samples=500)
    weights = tree["sample_stats"]["log_weight"].values
    evidence = float(dist.Normal(0.0, 1.0).log_prob(0.0))
    np.testing.assert_allclose(tree.attrs["elbo"], weights.mean(), rtol=1e-12)
    np.testing.assert_allclose(tree.attrs["log_evidence_importance"], evidence, atol=0.01)
    assert weights.mean() < evidence
    assert tree.attrs["pareto_k"] < 0.7


def test_a_density_without_a_finite_bound_is_refused():
    def impossible(x):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        numpyro.factor("wall", jnp.where((jnp.abs(z) < 1e-9).all(), 0.0, -jnp.inf))
        numpyro.sample("x", dist.Normal(z.sum(), 1.0), obs=x)

    with pytest.raises(ZooError):
        fit(impossible, np.zeros(3), "pathfinder", num_starts=2, start={"z": np.zeros(2)})


def test_chains_start_at_draws_of_their_paths():
    """From far away each comes to the posterior: squared distances have the mean of a χ² of three degrees of freedom."""
    away = np.full((64, 3), 30.0) + np.random.default_rng(0).standard_normal((64, 3))
    with x64(64):
        task = make_task(program_model(of_rows, np.zeros(1)), (np.zeros(1),), 0, None, Silent())
        points = at_paths(task, Posterior(DENSITY, NOTHING, {}, away)).starts - MEAN
    squares = np.einsum("si,ij,sj->s", points, np.linalg.inv(COVARIANCE), points)
    assert abs(squares.mean() - 3) < 5 * np.sqrt(6 / 64)
    assert len(np.unique(points[:, 0])) == 64


def test_every_sampler_takes_starts_of_paths():
    for method in ("nuts", "chees", "mclmc"):
        options = {"num_warmup": 20, "num_samples": 10, "num_chains": 2, "seed": 1}
        one, other = (fit(of_rows, np.zeros(1), method, starts=starts, **options) for starts in ("pathfinder", "overdispersed"))
        assert (one["posterior"]["z"].values != other["posterior"]["z"].values).any()


def test_a_start_that_is_more_probable_than_the_draw_stays():
    """At the mode no draw is more probable, so that all chains stay there."""
    with x64(64):
        task = make_task(program_model(of_rows, np.zeros(1)), (np.zeros(1),), 0, None, Silent())
        at_mode = np.tile(MEAN, (5, 1))
        posterior = at_paths(task, Posterior(DENSITY, NOTHING, {}, at_mode))
    np.testing.assert_array_equal(posterior.starts, at_mode)
    assert posterior.warnings[0].startswith("5 of 5 chains began at their overdispersed start")
    assert posterior.path_seconds > 0


def test_starts_are_found_or_given():
    with pytest.raises(ZooError, match="leave out start"):
        fit(of_rows, np.zeros(1), "nuts", starts="pathfinder", start={"z": np.zeros(3)}, num_warmup=10, num_samples=10)
