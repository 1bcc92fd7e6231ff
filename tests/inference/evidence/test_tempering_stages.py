"""One stage of sequential Monte Carlo, against naive computations: temperatures, weights, families."""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from inference.evidence.estimates import combined
from inference.evidence.stages import CLOSE, Cloud, Sampler, Stage, family_variance, next_temperature, num_ancestors, step


class Still(NamedTuple):
    """The density exp(t L) of particles L (N,) that do not move."""

    def log_density(self, arrays, particles, temperature):
        return jnp.where(temperature == 0, 0.0, temperature * particles)

    def moved(self, arrays, key, particles, temperature, log_step, num_moves):
        return particles, log_step, jnp.ones(())


STILL = Still()


def ran(levels, ess_share, seed=0, most=200, path=STILL):
    """States before and after every stage of one run."""
    size, zero = len(levels), jnp.zeros(())
    state = (Cloud(levels, jnp.arange(size), zero, zero, zero, zero), Stage(zero, zero, zero, zero))
    stage = jax.jit(partial(step, Sampler(path, 1, ess_share), ()))
    states, done = [state], False
    while not done and len(states) < most:
        state, _, done = stage(jax.random.fold_in(jax.random.PRNGKey(seed), len(states)), state)
        states.append(state)
    assert done
    return states


def levels_of(seed, size=400, scale=30.0):
    return jnp.asarray(scale * np.random.default_rng(seed).standard_normal(size))


def test_weights_fall_to_the_share_at_every_temperature_but_the_last():
    """(Σ w)² / Σ w² is the share of N, within the tolerance of the solver; at the last temperature, 1, it may be more."""
    states = ran(levels_of(0), 0.6)
    temperatures = [float(cloud.temperature) for cloud, _ in states]
    assert temperatures[-1] == 1.0
    for (before, _), now in zip(states, temperatures[1:], strict=False):
        w = np.exp((now - float(before.temperature)) * np.asarray(before.particles))
        share = w.sum() ** 2 / (w**2).sum() / len(w)
        assert share == pytest.approx(0.6, rel=2 * CLOSE) if now < 1 else share >= 0.6 * (1 - 2 * CLOSE)


def test_the_evidence_is_the_sum_of_log_mean_weights():
    states = ran(levels_of(1), 0.4)
    total = 0.0
    for (before, _), (after, record) in pairwise(states):
        w = (float(after.temperature) - float(before.temperature)) * np.asarray(before.particles)
        total += logsumexp(w) - np.log(len(w))
        assert float(after.log_evidence) == float(record.log_evidence) == pytest.approx(total, rel=1e-12)


def test_one_stage_is_importance_sampling():
    """Where the weights are even enough at once."""
    levels = levels_of(2, scale=0.1)
    (cloud, _) = ran(levels, 0.5)[-1]
    assert len(ran(levels, 0.5)) == 2
    assert float(cloud.log_evidence) == pytest.approx(logsumexp(levels) - np.log(len(levels)), rel=1e-12)


class Impossible(Still):
    """Particles of level −∞ have no density at the prior, either."""

    def log_density(self, arrays, particles, temperature):
        return jnp.where(particles == -jnp.inf, particles, temperature * particles)


@pytest.mark.parametrize("path", [Still(), Impossible()])
def test_impossible_particles_are_left_behind(path):
    """Nine in ten have density 0 at every t > 0: no effective size is half of N, and the run goes on with the others."""
    levels = jnp.where(jnp.arange(400) % 10 == 0, levels_of(3), -jnp.inf)
    states = ran(levels, 0.5, path=path)
    assert np.isfinite(states[1][0].particles).all()
    assert 0 < float(states[1][0].temperature) < 1e-9
    assert float(states[1][0].log_evidence) == pytest.approx(np.log(0.1), abs=1e-9)


def test_a_run_that_no_particle_explains_ends():
    cloud, _ = ran(jnp.full(10, -jnp.inf), 0.5)[-1]
    assert not np.isfinite(cloud.log_evidence)


def test_families_stay_together_and_are_counted():
    """Systematic resampling keeps the order, and a particle that stays is where its ancestor was.

    The error and the number of ancestors are those of a naive count.
    """
    levels = np.asarray(levels_of(4))
    states = ran(jnp.asarray(levels), 0.5)
    for (before, _), (after, record) in pairwise(states):
        assert (np.diff(after.ancestor) >= 0).all()
        np.testing.assert_array_equal(after.particles, levels[np.asarray(after.ancestor)])
        w = np.exp((float(after.temperature) - float(before.temperature)) * np.asarray(before.particles))
        share = np.array([w[np.asarray(before.ancestor) == k].sum() / w.sum() for k in range(len(w))])
        assert float(after.variance) == pytest.approx(((share - 1 / len(w)) ** 2).sum(), rel=1e-9)
        _, counts = np.unique(after.ancestor, return_counts=True)
        assert float(record.ancestors) == pytest.approx(1 / ((counts / len(w)) ** 2).sum(), rel=1e-9)


def test_particles_of_one_ancestor_count_once():
    ancestor = jnp.zeros(8, int)
    assert float(num_ancestors(ancestor)) == pytest.approx(1.0)
    assert float(family_variance(ancestor, jnp.full(8, 1 / 8))) == pytest.approx(1 - 1 / 8)


def test_a_run_at_the_posterior_stays():
    final = ran(levels_of(5), 0.5)[-1]
    again, record, done = jax.jit(partial(step, Sampler(Still(), 1, 0.5), ()))(jax.random.PRNGKey(9), final)
    assert done
    jax.tree.map(np.testing.assert_array_equal, (again, record), (final, final[1]))


def test_the_first_weights_are_relative_to_the_prior():
    """γ_0 is no constant 1 where latents are summed over: the first weights are γ_t itself."""

    class Shifted(Still):
        def log_density(self, arrays, particles, temperature):
            return temperature * particles + 5.0

    levels = levels_of(6, scale=0.1)
    temperature, log_weights = next_temperature(Sampler(Shifted(), 1, 0.5), (), levels, jnp.zeros(()))
    assert float(temperature) == 1.0
    np.testing.assert_allclose(log_weights, levels + 5.0, rtol=1e-12)


def test_runs_are_averaged():
    """The mean of Ẑ; its error by the families where runs agree, by the spread where they do not."""
    agreeing = combined(np.log([1.0, 1.0, 1.0, 1.0]), np.full(4, 0.04))
    assert agreeing.log_evidence == pytest.approx(0.0)
    assert agreeing.standard_error == pytest.approx(0.1)  # √(0.04 / 4)
    assert agreeing.agreement == pytest.approx(1.0)
    values = np.array([1.0, 3.0])
    apart = combined(np.log(values), np.full(2, 1e-6))
    assert apart.log_evidence == pytest.approx(np.log(2.0))
    assert apart.standard_error == pytest.approx(np.log(values).std(ddof=1))
    assert apart.agreement < 1e-6
    assert combined(np.array([-3.0]), np.array([0.04])) == pytest.approx((-3.0, 0.2, 1.0))
