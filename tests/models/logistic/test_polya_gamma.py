"""The Pólya-Gamma sampler and the functions of its log-odds; the normal family of the coefficients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from naive_logistic import random_natural
from scipy import stats
from two_stage import assert_standard_normal, in_blocks, of_distribution, of_means

from models.families.coefficients import NormalStats, normal
from models.logistic import polya_gamma
from models.logistic.polya_gamma import draw, expected_omega, log_two_cosh


@pytest.mark.slow
@pytest.mark.parametrize("c", [0.0, 1e-4, 0.5, 1.0, 2.0, 3.1, 3.15, 5.0, 10.0, 30.0])
def test_polya_gamma_moments(c):
    """Mean, variance and Laplace transform in closed form."""
    mean = np.tanh(c / 2) / (2 * c) if c > 1e-3 else 0.25
    variance = (np.sinh(c) - c) / (4 * c**3 * np.cosh(c / 2) ** 2) if c > 1e-3 else 1 / 24

    def deviations(seed, times):
        omega = np.asarray(jax.jit(draw)(jax.random.PRNGKey(seed), jnp.full(100_000 * times, c)))
        assert (omega > 0).all()
        found = [of_means(omega, mean), of_means((omega - mean) ** 2, variance)]
        for t in (0.5, 4.0, 50.0):
            found.append(of_means(np.exp(-t * omega), np.cosh(c / 2) / np.cosh(np.sqrt((c**2 / 2 + t) / 2))))
        return found

    assert_standard_normal(deviations, int(10 * c))


def test_draws_do_not_depend_on_where_proposals_switch(monkeypatch):
    """The series holds between log 3 / π² and 4 / log 3 (Devroye 2009): near the end, where a tenth of the proposals is
    rejected, draws still have their Laplace transform."""
    monkeypatch.setattr(polya_gamma, "SWITCH", 0.13)
    program = jax.jit(lambda seed, c: draw(jax.random.PRNGKey(seed), c))  # a trace of its own
    c, t = 3.0, np.array([0.5, 4.0, 50.0])

    def one(seed):
        return np.exp(-t * np.asarray(program(seed, np.full(10_000, c)))[:, None])

    wanted = np.cosh(c / 2) / np.cosh(np.sqrt((c**2 / 2 + t) / 2))
    assert_standard_normal(lambda seed, times: of_means(in_blocks(one, seed, times), wanted))


@pytest.mark.slow
@pytest.mark.parametrize("c", [0.0, 1.5, 4.0])
def test_polya_gamma_is_its_sum_of_gammas(c):
    """Kolmogorov-Smirnov against (1/2π²) Σ g_k / ((k − ½)² + c²/4π²), 400 terms and the mean of the rest."""
    k = np.arange(1, 100001) - 0.5
    scale = 1 / (2 * np.pi**2 * (k**2 + c**2 / (4 * np.pi**2)))

    def naive(seed):
        return np.random.default_rng(seed).exponential(size=(10_000, 400)) @ scale[:400] + scale[400:].sum()

    def deviations(seed, times):
        found = np.asarray(jax.jit(draw)(jax.random.PRNGKey(seed), jnp.full(20_000 * times, c)))
        return of_distribution(found, in_blocks(naive, seed, 2 * times))

    assert_standard_normal(deviations, 1)


@pytest.mark.slow
def test_polya_gamma_at_extremes():
    """Entries of all sizes side by side, huge ones too, in both precisions: finite, positive, and of the right size."""
    for dtype in (jnp.float32, jnp.float64):
        c = jnp.asarray([0.0, 1e-3, 1.0, 1e2, 1e4, 1e6] * 50, dtype)
        omega = np.asarray(jax.jit(draw)(jax.random.PRNGKey(0), c))
        assert omega.dtype == dtype
        assert (omega > 0).all()
        assert near(
            omega[np.asarray(c) == 1e6], 0.5e-6, rtol=0.01
        )  # seven standard deviations, which are sqrt(2 / c) of the mean


def test_series_meet_the_functions_they_stand_for():
    """Just below the switch both are known to rounding: tanh(c/2)/2c, and log 2 cosh(c/2), at c = 9e-4."""
    c = 9e-4
    assert float(expected_omega(jnp.asarray(c**2))) == pytest.approx(np.tanh(c / 2) / (2 * c), rel=1e-12)
    assert float(log_two_cosh(jnp.asarray(c**2))) == pytest.approx(np.log(2 * np.cosh(c / 2)), rel=1e-14)


@pytest.mark.slow
def test_normal_family():
    """The gradient of the log partition is the mean; its value and its mode are SciPy's; draws have the moments."""
    nu = random_natural()
    gradient, mean = jax.grad(normal.log_partition)(nu), normal.mean(nu)
    assert near(gradient.linear, mean.linear, rtol=1e-12)
    assert near((gradient.quadratic + gradient.quadratic.T) / 2, mean.quadratic, rtol=1e-12)
    covariance = np.linalg.inv(nu.quadratic)
    peer = stats.multivariate_normal(covariance @ nu.linear, covariance)
    beta = np.array([0.3, -1.0, 2.0])
    T = NormalStats(beta, -0.5 * np.outer(beta, beta))
    value = (T.linear * nu.linear).sum() + (T.quadratic * nu.quadratic).sum() - normal.log_partition(nu)
    assert float(value) == pytest.approx(peer.logpdf(beta), rel=1e-12)
    assert near(normal.mode(nu).linear, peer.mean, rtol=1e-12)

    def deviations(seed, times):
        keys = jax.random.split(jax.random.PRNGKey(seed), 20_000 * times)
        draws = jax.jit(jax.vmap(normal.sample, (0, None)))(keys, nu)
        return np.concatenate([of_means(*pair).ravel() for pair in zip(draws, mean, strict=True)])

    assert_standard_normal(deviations)
    assert normal.why_no_mode(nu) is None
    assert "combination" in normal.why_no_mode(NormalStats(nu.linear, jnp.ones((3, 3))))
