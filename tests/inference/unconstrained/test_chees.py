"""ChEES: quasi-random lengths, the metric within chains, and round coordinates, against naive computations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gaussian_program import COVARIANCE, NOTHING, gaussian, shrunk

from inference.unconstrained import chees
from inference.unconstrained.density import Density

pytestmark = pytest.mark.slow  # kernels and searches compile programs of their own

WARMUP, CHAINS = 40, 8
FIRST, LAST = 6, 36  # of the only window
DENSITY = Density(gaussian, (("z", (3,)),))
ENSEMBLE = chees.Ensemble(DENSITY, WARMUP, 0.651)


def warmed(starts, number=WARMUP):
    """States (iteration, …) of the ensemble, and its records."""
    start = jax.tree.map(lambda leaf: leaf[0], chees.initial(ENSEMBLE, NOTHING, starts))

    def one(state, key):
        state, record, _ = chees.warm(ENSEMBLE, NOTHING, key, state)
        return state, (state, record)

    _, (states, records) = jax.lax.scan(one, start, jax.random.split(jax.random.PRNGKey(1), number))
    return jax.tree.map(np.asarray, (states, records))


def test_shares_are_the_numbers_of_van_der_corput():
    """Binary digits of the next number, mirrored at the point."""
    wanted = [sum(int(digit) / 2 ** (place + 1) for place, digit in enumerate(reversed(f"{n:b}"))) for n in range(1, 40)]
    np.testing.assert_allclose([chees.share(jnp.asarray(n)) for n in range(39)], wanted, rtol=1e-15)


@pytest.mark.parametrize("apart", [0.0, 1000.0])
def test_the_metric_is_the_covariance_within_chains(apart):
    """At the end of the window, shrunk as Stan does; the mean of each chain is its centre. Places far apart do not count."""
    starts = jnp.asarray(np.random.default_rng(0).standard_normal((CHAINS, 3)))
    states, _ = warmed(starts)
    positions = states.chains.position[FIRST:LAST]  # (iteration, C, d)
    within = sum(np.cov(positions[:, c].T) for c in range(CHAINS)) / CHAINS
    np.testing.assert_allclose(states.metric[LAST - 1], shrunk(within, LAST - FIRST), rtol=1e-8)
    np.testing.assert_allclose(states.centre[LAST - 1], positions.mean(0), rtol=1e-8)
    moved = jax.tree.map(jnp.asarray, states)
    state = jax.tree.map(lambda leaf: leaf[LAST - 2], moved)
    shift = apart * jnp.arange(CHAINS)[:, None]
    shifted = state._replace(chains=state.chains._replace(position=state.chains.position + shift), mean=state.mean + shift)
    one, other = (chees._windowed(ENSEMBLE, each._replace(iteration=each.iteration + 1)).metric for each in (state, shifted))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_round_coordinates():
    """The covariance of L⁻¹ z is the identity where the metric is that of z, and < z, p > is the same in both."""
    rng = np.random.default_rng(0)
    away, momenta = rng.standard_normal((2, 50, 3))
    for metric in (jnp.asarray(COVARIANCE), jnp.asarray(np.diag(COVARIANCE))):
        u, v = chees.round_positions(metric, jnp.asarray(away)), chees.round_momenta(metric, jnp.asarray(momenta))
        np.testing.assert_allclose((u * v).sum(1), (away * momenta).sum(1), rtol=1e-10)
        full = np.diag(metric) if metric.ndim == 1 else np.asarray(metric)
        np.testing.assert_allclose((u**2).sum(1), np.einsum("ci,ij,cj->c", away, np.linalg.inv(full), away), rtol=1e-9)


@pytest.mark.parametrize("first", [0.05, 1.5])
def test_the_length_climbs_the_criterion(first):
    """From a short length a trajectory comes to about a quarter of a turn, and the acceptance to its target."""
    starts = jnp.asarray(np.random.default_rng(0).multivariate_normal(np.zeros(3), COVARIANCE, 64))
    start = jax.tree.map(lambda leaf: leaf[0], chees.initial(ENSEMBLE._replace(num_warmup=300), NOTHING, starts))
    short = start._replace(tuning=start.tuning._replace(trajectory_length=jnp.asarray(first)), metric=jnp.asarray(COVARIANCE))

    def one(state, key):
        state, record, _ = chees.warm(ENSEMBLE._replace(num_warmup=300), NOTHING, key, state)
        return state, (state.tuning.trajectory_length, record["acceptance_rate"])

    _, (lengths, acceptance) = jax.lax.scan(one, short, jax.random.split(jax.random.PRNGKey(2), 300))
    assert 1.0 < lengths[-50:].mean() < 6.0
    assert 0.55 < acceptance[-100:].mean() < 0.9


def test_all_chains_take_equally_many_steps():
    chains = jax.vmap(lambda flat: _state(flat))(jnp.zeros((4, 3)))
    arrays = (*NOTHING, jnp.asarray(0.3), jnp.eye(3), jnp.asarray(9.0))
    number = []
    for iteration in range(6):
        keys = jax.random.split(jax.random.PRNGKey(iteration), 4)
        chains, record, _ = jax.vmap(lambda key, chain: chees.draw(DENSITY, arrays, key, chain))(keys, chains)
        number.append(np.asarray(record["n_steps"]))
    wanted = [max(1, int(np.ceil(9.0 * float(chees.share(jnp.asarray(n)))))) for n in range(6)]
    np.testing.assert_array_equal(number, np.broadcast_to(np.array(wanted)[:, None], (6, 4)))


def _state(flat):
    from blackjax.mcmc import dynamic_hmc

    return dynamic_hmc.init(flat, lambda flat: DENSITY.log_density(NOTHING, flat), jnp.zeros((), jnp.int32))
