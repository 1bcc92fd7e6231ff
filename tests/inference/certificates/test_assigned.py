"""How often means of right steps fail: rarely where they are normal, often where few steps matter."""

import numpy as np

from inference.certificates.checks.assigned import OFTEN, failing


def test_means_of_rare_assignments_are_not_normal():
    """Where one assignment in 1e5 has all the variance, a mean of 2,500 steps is 6 deviations off whenever it comes at all.

    A mean of 10,000 is beyond 3.5 if it comes twice. Both happen with probability 0.025 × 0.0047 = 1.2e-4.
    """
    rng = np.random.default_rng(0)
    probs = np.array([0.5 - 1e-5, 0.5, 1e-5])
    values = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])  # even, rare, and constant
    even, rare, constant = failing(probs, values, 2_500, rng)
    assert even < OFTEN  # truly 1e-7; three that were not seen are counted at every look
    assert 5 * OFTEN < rare < 50 * OFTEN
    assert constant == 0
