"""The warm-up around BlackJAX's kernels: windows, metrics and step sizes against naive computations from the same draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gaussian_program import COVARIANCE, NOTHING, gaussian, shrunk

from inference.unconstrained.adaptation import UNKNOWN_STEP, initial, start_chains, step
from inference.unconstrained.blackjax_nuts import nuts_of_blackjax
from inference.unconstrained.density import SETTLED, Density, Posterior
from inference.unconstrained.mclmc import mclmc_of_blackjax

pytestmark = pytest.mark.slow  # kernels and searches compile programs of their own

WARMUP = 40  # iterations: Stan's windows are then one, from the seventh to the thirty-sixth
FIRST, LAST = 6, 36
DENSITY = Density(gaussian, (("z", (3,)),))
KERNELS = {
    "nuts": nuts_of_blackjax(DENSITY, WARMUP, 0.8, 5),
    "mclmc": mclmc_of_blackjax(DENSITY, WARMUP, 0.8, 3.0),
}


def iterations(kernel, number, seed=0):
    """States (iteration, …) of one chain, and the records of its iterations."""
    metric = jnp.eye(3) if kernel.dense else jnp.ones(3)
    start = jax.tree.map(lambda leaf: leaf[0], initial(kernel, NOTHING, jnp.zeros((1, 3)), metric[None]))

    def one(state, key):
        state, record, _ = step(kernel, NOTHING, key, state)
        return state, (state, record)

    _, (states, records) = jax.lax.scan(one, start, jax.random.split(jax.random.PRNGKey(seed), number))
    return jax.tree.map(np.asarray, (states, records))


@pytest.mark.parametrize("name", KERNELS)
def test_the_metric_is_the_covariance_of_its_window(name):
    """At its end, shrunk as Stan does: of the draws in the window, whose length is Stan's; before it the first one stays."""
    kernel = KERNELS[name]
    states, records = iterations(kernel, WARMUP + 3)
    metrics = states.metric.inverse_mass_matrix
    wanted = shrunk(np.cov(records["z"]["z"][FIRST:LAST].T), LAST - FIRST)
    if not kernel.dense:
        metrics, wanted = np.stack([np.diag(metric) for metric in metrics]), np.diag(np.diag(wanted))
    np.testing.assert_allclose(metrics[LAST - 1 :], np.broadcast_to(wanted, (WARMUP + 4 - LAST, 3, 3)), rtol=1e-9, atol=1e-12)
    assert (metrics[: LAST - 1] == np.eye(3)).all()


@pytest.mark.parametrize("name", KERNELS)
def test_step_size_and_metric_stay_after_the_warm_up(name):
    """The step size of the draws is dual averaging's average, and moves before."""
    states, records = iterations(KERNELS[name], WARMUP + 5)
    sizes = records["step_size"]
    assert len(np.unique(sizes[:WARMUP])) > WARMUP / 2
    np.testing.assert_allclose(sizes[WARMUP:], np.exp(states.step_size.log_step_size_avg[WARMUP - 1]), rtol=1e-12)


def test_dual_averaging_follows_its_formula():
    """Hoffman and Gelman 2014, algorithm 5, from the acceptance rates of the first iterations."""
    _, records = iterations(KERNELS["nuts"], FIRST)
    acceptance, gamma, t0 = records["acceptance_rate"], 0.05, 10
    mu = np.log(10 * records["step_size"][0])
    for t in range(1, FIRST):
        mean_error = 0.0
        for earlier in range(1, t + 1):  # H̄ₜ = (1 − 1 / (t + t0)) H̄ₜ₋₁ + (δ − αₜ) / (t + t0)
            weight = 1 / (earlier + t0)
            mean_error = (1 - weight) * mean_error + weight * (0.8 - acceptance[earlier - 1])
        np.testing.assert_allclose(np.log(records["step_size"][t]), mu - np.sqrt(t) / gamma * mean_error, atol=1e-6)


def test_a_long_warm_up_begins_with_the_curvature():
    """Of a Gaussian the inverse curvature is its covariance."""

    posterior = Posterior(DENSITY, NOTHING, {}, np.zeros((2, 3)))
    metric = start_chains(KERNELS["nuts"]._replace(num_warmup=SETTLED), posterior).metric.inverse_mass_matrix
    np.testing.assert_allclose(metric, np.broadcast_to(COVARIANCE, (2, 3, 3)), rtol=1e-6, atol=1e-8)
    diagonal = start_chains(KERNELS["mclmc"]._replace(num_warmup=SETTLED), posterior).metric.inverse_mass_matrix
    np.testing.assert_allclose(diagonal, np.broadcast_to(np.diag(COVARIANCE), (2, 3)), rtol=1e-6)
    identity = start_chains(KERNELS["mclmc"], posterior).metric.inverse_mass_matrix
    assert (np.asarray(identity) == 1).all()


@pytest.mark.parametrize("name", KERNELS)
def test_without_a_warm_up_the_first_step_size_stays(name):
    _, records = iterations(KERNELS[name]._replace(num_warmup=0), 3)
    np.testing.assert_allclose(records["step_size"], UNKNOWN_STEP)
