"""Which figure is the worst: by its limit, and what is no number before all."""

import math

import numpy as np
import pytest

from inference.certificates.checks.figure import Figure, worst


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_no_number_is_the_worst_wherever_it_stands(place):
    values = [1e-12, 2e-12]
    values.insert(place, math.nan)
    found = worst(Figure(str(value), value, 1e-8, "relative") for value in values)
    assert np.isnan(found.value)
    assert not found.passed


def test_the_worst_is_furthest_beyond_its_own_limit():
    """A deviation of 3 of 3.5 is within, one of 2e-8 of 1e-8 is not; with a limit of 0 anything else is beyond."""
    within, beyond = Figure("a", -3.0, 3.5, "deviation"), Figure("b", 2e-8, 1e-8, "relative")
    assert worst([within, beyond]) is worst([beyond, within]) is beyond
    count = Figure("count", 1.0, 0.0, "count")
    assert worst([beyond, count]) is count
    assert worst([count._replace(value=0.0), within]) is within
