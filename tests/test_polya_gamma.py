"""The Pólya-Gamma sampler and the functions of its log-odds; the normal family of the coefficients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from naive_logistic import random_natural
from scipy import stats

from models.normal import NormalStats, normal
from models.polya_gamma import draw, expected_omega, log_two_cosh


@pytest.mark.parametrize("c", [0.0, 1e-4, 0.5, 1.0, 2.0, 3.1, 3.15, 5.0, 10.0, 30.0])
def test_polya_gamma_moments(c):
    """Mean, variance and Laplace transform in closed form, each within 5.5 standard errors: 4e-8 false alarms each."""
    omega = np.asarray(jax.jit(draw)(jax.random.PRNGKey(int(10 * c)), jnp.full(200000, c)))
    mean = np.tanh(c / 2) / (2 * c) if c > 1e-3 else 0.25
    variance = (np.sinh(c) - c) / (4 * c**3 * np.cosh(c / 2) ** 2) if c > 1e-3 else 1 / 24
    checks = {"mean": (omega, mean), "variance": ((omega - mean) ** 2, variance)}
    for t in (0.5, 4.0, 50.0):
        checks[f"exp(-{t} omega)"] = (np.exp(-t * omega), np.cosh(c / 2) / np.cosh(np.sqrt((c**2 / 2 + t) / 2)))
    for name, (values, wanted) in checks.items():
        assert abs(values.mean() - wanted) <= 5.5 * values.std() / np.sqrt(len(values)), name
    assert (omega > 0).all()


@pytest.mark.parametrize("c", [0.0, 1.5, 4.0])
def test_polya_gamma_is_its_sum_of_gammas(c):
    """Kolmogorov-Smirnov against (1/2π²) Σ g_k / ((k − ½)² + c²/4π²), 400 terms and the mean of the rest: p above 1e-6."""
    k = np.arange(1, 100001) - 0.5
    scale = 1 / (2 * np.pi**2 * (k**2 + c**2 / (4 * np.pi**2)))
    gammas = np.random.default_rng(0).exponential(size=(20000, 400))
    naive = gammas @ scale[:400] + scale[400:].sum()
    found = np.asarray(jax.jit(draw)(jax.random.PRNGKey(1), jnp.full(20000, c)))
    assert stats.ks_2samp(found, naive).pvalue > 1e-6


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


def test_normal_family():
    """The gradient of the log partition is the mean; its value SciPy's; the mode's gradient vanishes; draws have the moments.

    Twelve means of 40,000 draws within 5.5 standard errors: false alarms below 1e-6.
    """
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
    draws = jax.vmap(normal.sample, (0, None))(jax.random.split(jax.random.PRNGKey(0), 40000), nu)
    for found, wanted in zip(jax.tree.leaves(draws), jax.tree.leaves(mean), strict=True):
        assert (np.abs(found.mean(0) - wanted) <= 5.5 * np.std(found, axis=0) / 200).all()
    assert normal.defect(nu) is None
    assert "combination" in normal.defect(NormalStats(nu.linear, jnp.ones((3, 3))))
