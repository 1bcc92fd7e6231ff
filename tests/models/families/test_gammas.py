"""Logarithms of Gamma draws against their exact distribution."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from scipy import special, stats
from two_stage import assert_standard_normal, of_counts, of_distribution, of_largest

from models.families.log_gamma import NEAR, _remainder, log_gamma

SHAPES = (1e-4, 0.01, 0.3, 1.0, 1.1, 7.5, 300.0, 1e6)
SIZE = 20_000
every_precision = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@cache
def draws(dtype, seed, times, few=False):
    """(shapes, times · SIZE) of one call, or of as many calls, with one draw of each shape."""
    with jax.enable_x64(dtype == np.float64):
        shape, key, size = jnp.asarray(SHAPES, dtype), jax.random.PRNGKey(seed), times * SIZE
        if few:
            return np.asarray(jax.jit(jax.vmap(log_gamma, (0, None)))(jax.random.split(key, size), shape)).T
        return np.asarray(jax.jit(log_gamma)(key, jnp.broadcast_to(shape[:, None], (len(SHAPES), size))))


every_number = pytest.mark.parametrize("few", [False, True], ids=["many", "few"])


@pytest.mark.slow
@every_number
@every_precision
def test_draws_have_the_exact_distribution(dtype, few):
    """Kolmogorov and Smirnov's test at every shape.

    Rounding to 24 bits moves log G of shape 1e6 by 1e-6, a thousandth of its standard deviation.
    """

    def deviations(seed, times):
        found = draws(dtype, seed, times, few)
        assert found.dtype == dtype
        assert np.isfinite(found).all()
        exact = [stats.loggamma(np.float64(dtype(shape))).cdf for shape in SHAPES]
        return [of_distribution(one.astype(float), cdf) for one, cdf in zip(found, exact, strict=True)]

    assert_standard_normal(deviations, 3)


@pytest.mark.slow
@every_number
@every_precision
def test_tails_are_filled(dtype, few):
    """The number of draws above and below the 1 % quantiles is binomial."""
    exact = [stats.loggamma(np.float64(dtype(shape))) for shape in SHAPES]

    def deviations(seed, times):
        pairs = list(zip(draws(dtype, seed, times, few), exact, strict=True))
        below = [(found < law.ppf(0.01)).sum() for found, law in pairs]
        above = [(found > law.ppf(0.99)).sum() for found, law in pairs]
        return of_counts(below + above, times * SIZE, 0.01)

    assert_standard_normal(deviations, 3)


@pytest.mark.slow
def test_entries_and_keys_are_independent():
    """Correlations of uniform scores: 120 pairs of columns, of which the largest counts, and neighbours."""

    def deviations(seed, times):
        shape, keys = jnp.full((2000 * times, 8), 1.0), (jax.random.PRNGKey(seed), jax.random.PRNGKey(seed + 1))
        uniform = np.stack([special.gammainc(1.0, np.exp(jax.jit(log_gamma)(key, shape))) for key in keys])
        columns = uniform.transpose(1, 0, 2).reshape(len(shape), 16)
        pairs = np.corrcoef(columns.T)[np.triu_indices(16, 1)]
        neighbours = np.corrcoef(uniform[0].reshape(-1)[:-1], uniform[0].reshape(-1)[1:])[0, 1]
        return [of_largest(pairs * np.sqrt(len(shape))), neighbours * np.sqrt(shape.size)]

    assert_standard_normal(deviations)


@pytest.mark.slow
def test_chains_side_by_side_draw_what_they_draw_alone():
    shapes = jnp.asarray(np.random.default_rng(0).gamma(0.5, 2.0, (3, 7, 31)))
    keys = jax.random.split(jax.random.PRNGKey(1), 3)
    together = jax.vmap(log_gamma)(keys, shapes)
    for key, shape, found in zip(keys, shapes, together, strict=True):
        assert near(found, log_gamma(key, shape), rtol=1e-13, atol=1e-13)
    few = shapes[:, 0, :5]
    together = jax.vmap(log_gamma)(keys, few)
    for key, shape, found in zip(keys, few, together, strict=True):
        assert near(found, log_gamma(key, shape), rtol=1e-13, atol=1e-13)


def test_shapes_at_the_edge():
    """0 has all its mass at 0; below it, and of what is no number, there is no draw; infinite shapes and none at all end."""
    found = np.asarray(jax.jit(log_gamma)(jax.random.PRNGKey(0), np.array([0.0, -0.5, -3.0, np.nan, np.inf, 1e-300])))
    assert found[0] == -np.inf
    assert np.isnan(found[1:4]).all()
    assert found[4] == np.inf
    assert found[5] < -1e290
    assert jax.jit(log_gamma)(jax.random.PRNGKey(0), np.zeros((0, 3))).shape == (0, 3)
    assert jax.jit(log_gamma)(jax.random.PRNGKey(0), np.array(2.0)).shape == ()


def test_the_remainder_keeps_its_digits():
    """log(1 + y) − y + y²/2 − y³/3: at 1e-4 1e-16 has to be told from 0."""
    y = np.array([-0.9, -0.3, -NEAR * 0.999, NEAR * 0.999, 0.3, 5.0])
    found = np.asarray(jax.jit(_remainder)(np.append(y, 1e-4)))
    assert near(found[:-1], np.log1p(y) - y + y**2 / 2 - y**3 / 3, rtol=1e-8)
    assert near(found[-1:], [-(1e-16) / 4 * (1 - 0.8e-4)], rtol=1e-7)
