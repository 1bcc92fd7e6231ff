"""How often means of right steps fail: rarely where they are normal, often where few steps matter."""

import numpy as np
import pytest
from scipy import stats

from inference.certificates.checks import assigned
from inference.certificates.checks.assigned import OFTEN, SIMULATED, RandomSteps, _upper, failing
from inference.certificates.oracles import oracle_of
from inference.methods import stochastic_em


def test_means_of_rare_assignments_are_not_normal():
    """Where one assignment in 1e5 has all the variance, a mean of 2,500 steps is 6 deviations off whenever it comes at all.

    A mean of 10,000 is beyond 3.5 if it comes twice. Both happen with probability 0.025 × 0.0047 = 1.2e-4.
    """
    rng = np.random.default_rng(0)
    probs = np.array([0.5 - 1e-5, 0.5, 1e-5])
    values = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])  # even, rare, and constant
    even, rare, constant = failing(probs, values, 2_500, rng)
    assert even < OFTEN  # truly 1e-7; what was not seen may be as often as 3 in 4,000, at every look
    assert 5 * OFTEN < rare < 50 * OFTEN
    assert constant == 0


@pytest.mark.parametrize("count", [0, 1, 5, 20])
def test_rates_are_upper_ends_of_intervals(count):
    """Of a Poisson law with the rate so few are seen with a probability of 5 %."""
    assert stats.poisson.cdf(count, _upper(np.array(count)) * SIMULATED) == pytest.approx(0.05)


def test_a_table_on_which_nothing_is_random_is_not_taken(monkeypatch):
    """Where one assignment is certain, all steps are equal, and nothing of their law would be seen."""
    steps = RandomSteps(stochastic_em.FIXED_POINT.updates, oracle_of("gmm_simple"), 0, 100)
    assert steps.wanted
    monkeypatch.setattr(assigned, "softmax", lambda heights: np.eye(len(heights))[0])
    assert not steps._wanted(0)[0]
