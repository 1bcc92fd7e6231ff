"""The family of degrees of freedom against integrals, at its edges, and where it has no mode."""

from itertools import pairwise

import jax
import numpy as np
import pytest
from scipy import integrate, special

from models.families.degrees_of_freedom import TailStats, degrees_of_freedom, inverse_dispersion

log_partition, mean, mode, sample = map(
    jax.jit, (degrees_of_freedom.log_partition, degrees_of_freedom.mean, degrees_of_freedom.mode, degrees_of_freedom.sample)
)  # one program each: all nu have one shape


def tail_stats(*numbers):
    return TailStats(*(np.array([number]) for number in numbers))


def naive_power(nu, half):
    """< T(ν), nu > at ν = 2 ``half``, as the definition has it."""
    return nu[0] * (half * np.log(half) - special.gammaln(half) - half) + nu[1] * half + nu[2] * np.log(half)


@pytest.mark.parametrize("nu", [(0.0, -0.2, 1.0), (0.4, -0.1, 0.3), (12.0, -1.5, 1.0), (5e4, -6e3, 1.0), (1e4, -1e8, 1.0)])
def test_tail_log_partition_is_an_integral(nu):
    """The prior alone, few factors, many: ∫ exp < T(ν), nu > dν about its peak."""
    nu_of = tail_stats(*nu)
    peak = float(2 * mode(nu_of).half[0])
    top = naive_power(nu, peak / 2)

    def density(degrees: float) -> float:
        return float(np.exp(naive_power(nu, degrees / 2) - top))

    width = 20 * peak / np.sqrt(1 + nu[0])
    integral = sum(
        integrate.quad(density, low, high, epsabs=0, limit=200)[0]
        for low, high in pairwise([1e-12, max(peak - width, 1e-9), peak, peak + width, peak + 40 * width])
        if high > low
    )
    assert float(log_partition(nu_of)) == pytest.approx(np.log(integral) + top, abs=1e-8)


@pytest.mark.parametrize("factors", [1e4, 1e6])
@pytest.mark.parametrize("decay", [0.2, 1e4])
def test_nearly_gaussian_tails_are_nearly_gamma(factors, decay):
    """For large h, g(h) is ½ log (h / 2π) to 1 / (12 h), so that h ~ Gamma(factors / 2 + log_half + 1, decay)."""
    shape = factors / 2 + 2
    nu = tail_stats(factors, -decay, 1.0)
    slack = factors * decay / shape  # factors / h
    if slack < 1e-3:
        wanted = np.log(2) + special.gammaln(shape) - shape * np.log(decay) - factors / 2 * np.log(2 * np.pi)
        assert float(log_partition(nu)) == pytest.approx(wanted, rel=1e-9, abs=slack)
        assert float(mean(nu).half[0]) == pytest.approx(shape / decay, rel=1e-6)
    drawn = sample(jax.random.PRNGKey(0), nu).half
    place = mode(nu).half
    assert abs(float(drawn[0] / place[0]) - 1) < 12 / np.sqrt(shape)  # twelve standard deviations


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_draws_of_tails_end_where_nu_is_not_finite(number):
    """They are NaN, and the loop of tries does not run for ever."""
    nu = tail_stats(10.0, number, 1.0)
    assert np.isnan(sample(jax.random.PRNGKey(0), nu).half).all()


def test_the_prior_of_tails_is_a_gamma_density():
    """Factors none: log ∫ ν^(shape − 1) exp(−rate ν) dν, for T in h = ν / 2, and its moments."""
    shape, rate = 2.0, 0.1
    nu = tail_stats(0.0, -2 * rate, shape - 1)
    wanted = special.gammaln(shape) - shape * np.log(rate) - (shape - 1) * np.log(2)
    assert float(log_partition(nu)) == pytest.approx(wanted, abs=1e-10)
    assert float(2 * mean(nu).half[0]) == pytest.approx(shape / rate, rel=1e-9)
    assert float(2 * mode(nu).half[0]) == pytest.approx((shape - 1) / rate, rel=1e-9)


def test_factors_that_do_not_differ_have_no_degrees_of_freedom():
    """Σ (log u − u + 1) = 0 where every u is 1: the likelihood of ν rises for ever. Where it falls without end ν goes to 0."""
    nu = [np.array([10.0, 10.0]), np.array([0.0, -0.5]), np.zeros(2)]
    assert "without bound" in degrees_of_freedom.why_no_mode(TailStats(*nu))
    assert degrees_of_freedom.why_no_mode(TailStats(*(leaf[1:] for leaf in nu))) is None
    assert "collapses" in degrees_of_freedom.why_no_mode(TailStats(nu[0], np.array([-0.5, -1e6]), nu[2]))
    assert "vary no more than Poisson" in inverse_dispersion.why_no_mode(TailStats(*nu))
    assert "hardly any of its counts" in inverse_dispersion.why_no_mode(TailStats(nu[0], np.array([-0.5, -1e6]), nu[2]))


def test_inverse_dispersions_are_half_the_degrees_of_freedom():
    """The same density in r = ν / 2, so that log ∫ dν exceeds log ∫ dr by log 2 for every entry; any shape of entries."""
    nu = TailStats(*(np.array(leaf) for leaf in ([[7.5, 0.0, 4.0]], [[-2.0, -0.2, -1.5]], [[1.0, 1.0, 0.5]])))
    flat = TailStats(*(leaf.ravel() for leaf in nu))
    both = [
        jax.jit(lambda nu, family=family: (family.log_partition(nu), family.mean(nu).half))
        for family in (inverse_dispersion, degrees_of_freedom)
    ]
    (of_entries, half), (of_flat, flat_half) = both[0](nu), both[1](flat)
    assert float(of_entries) == pytest.approx(float(of_flat) - 3 * np.log(2), rel=1e-12)
    assert np.allclose(half[0], flat_half, rtol=1e-12)
