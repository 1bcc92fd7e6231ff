"""The two paths of densities, against naive computations; their moves leave a density as it is."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from naive import table
from scipy import stats
from scipy.special import logsumexp
from two_modes import LEFT_AND_RIGHT, ROWS
from two_stage import assert_standard_normal, of_distribution, of_means

from inference.engine.program import draw_of_prior, potential, prior_and_rest
from inference.engine.sweep import tempered_log_partition
from inference.evidence.paths import hamiltonian_moves, independent_moves, side_by_side
from inference.fitting.prepare import make_task
from inference.runtime.progress import Silent
from models import MODELS

X = np.array([0.5, 1.5, -0.2])


def program(hyper, rows, *, marginal=True):
    """A scaled parameter, a scaled observation and a factor."""
    a = numpyro.sample("a", dist.Gamma(2.0, 1.0))
    with numpyro.handlers.scale(scale=0.5):
        b = numpyro.sample("b", dist.Normal(0.0, 2.0))
    numpyro.factor("f", -(b**4))
    with numpyro.handlers.scale(scale=3.0):
        numpyro.sample("x", dist.Normal(b, a).expand((3,)).to_event(1), obs=rows)


def test_both_parts_of_a_program_by_hand():
    """The prior is the density of draws, with the Jacobian; the rest has the factor, the observation and all scales."""
    z = {"a": jnp.asarray(0.3), "b": jnp.asarray(-0.4)}
    prior, rest = prior_and_rest(program, {}, jnp.asarray(X), z)
    a, b = np.exp(0.3), -0.4
    density = stats.norm(0.0, 2.0).logpdf(b)
    assert float(prior) == pytest.approx(density + stats.gamma(2.0).logpdf(a) + 0.3, rel=1e-12)
    assert float(rest) == pytest.approx(-0.5 * density - b**4 + 3 * stats.norm(b, a).logpdf(X).sum(), rel=1e-12)
    assert float(prior + rest) == pytest.approx(-float(potential(program, {}, jnp.asarray(X), z)), rel=1e-12)


def test_draws_of_the_prior_have_its_law():
    def deviations(seed, times):
        keys = jax.random.split(jax.random.PRNGKey(seed), 2000 * times)
        z = jax.jit(jax.vmap(partial(draw_of_prior, program, {}, jnp.asarray(X))))(keys)
        return of_distribution(np.exp(z["a"]), stats.gamma(2.0).cdf), of_distribution(z["b"], stats.norm(0.0, 2.0).cdf)

    assert_standard_normal(deviations)


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
def test_the_path_of_the_sweeps_sums_powers_over_the_latents(temperature):
    """Σ_n log Σ_z (½ N(x_n; mean_z, I))^t of two components with equal shares."""
    task = make_task(MODELS["gmm_simple"](table(ROWS), num_components=2), table(ROWS), 0, None, Silent())
    algebra = task.model.algebra
    mean = LEFT_AND_RIGHT["mean"]
    T = algebra.natural(task.hyper, {"mean": jnp.asarray(mean)})
    found = jax.jit(partial(tempered_log_partition, algebra))(task.hyper, jnp.asarray(temperature), T, task.rows)
    each = np.log(0.5) + stats.norm.logpdf(ROWS[:, None, :], mean[None]).sum(-1)
    assert float(found) == pytest.approx(logsumexp(temperature * each, axis=1).sum(), rel=1e-12)


SCALES = np.array([0.5, 2.0])


@cache
def kernel(moves):
    """Moves of particles of a Gaussian with the mean 1 and these scales, in blocks of 300."""
    move = {"hmc": hamiltonian_moves, "independent": independent_moves}[moves]

    def log_density(flat):
        return -0.5 * (((flat - 1) / SCALES) ** 2).sum()

    return jax.jit(lambda key, z: move(log_density, key, z, jnp.log(0.5), 3, 300))


@pytest.mark.parametrize("moves", ["hmc", "independent"])
def test_moves_leave_the_density_as_it_is(moves):
    """Exact draws keep location, spread and their independence, and nearly all have moved."""

    def deviations(seed, times):
        blocks = []
        for part in range(times):
            rng = np.random.default_rng(seed + part)
            z = 1 + SCALES * rng.standard_normal((1000, 2))
            after, _, acceptance = kernel(moves)(jax.random.PRNGKey(seed + part), jnp.asarray(z))
            assert 0.5 < float(acceptance) <= 1.0
            assert (np.asarray(after) != z).any(1).mean() > 0.9
            blocks.append((np.asarray(after) - 1) / SCALES)
        standard = np.concatenate(blocks)
        laws = [of_distribution(standard[:, column], stats.norm.cdf) for column in range(2)]
        return np.array([*laws, *of_means(standard, 0.0), *of_means(standard**2, 1.0), of_means(standard.prod(1), 0.0)])

    assert_standard_normal(deviations)


def test_step_sizes_follow_the_acceptance():
    """From steps far too long to a mean acceptance near the target, as half a Gaussian's leapfrog step is stable up to 2."""
    z = jnp.asarray(1 + SCALES * np.random.default_rng(0).standard_normal((1000, 2)))

    def log_density(flat):
        return -0.5 * (((flat - 1) / SCALES) ** 2).sum()

    moved = jax.jit(lambda log_step: hamiltonian_moves(log_density, jax.random.PRNGKey(0), z, log_step, 10, 1000))
    log_step = jnp.log(20.0)
    for _ in range(4):
        _, log_step, acceptance = moved(log_step)
    assert float(acceptance) > 0.7
    assert float(log_step) < np.log(2.5)


def test_few_particles_are_moved_side_by_side_where_the_data_are_large():
    assert side_by_side(np.zeros((10, 2)), 1000, in_blocks=False) == 1000
    assert side_by_side(np.zeros((2**15, 8)), 1000, in_blocks=False) == 4
    assert side_by_side(np.zeros((2**15, 8)), 1000, in_blocks=True) > 16
    assert side_by_side((), 1000, in_blocks=False) == 1000
