"""When an iteration is the last does not depend on the units of the data, nor on where they are counted from."""

import numpy as np
import pytest
from naive import SHORT, build, table, two_groups

from inference import fit
from inference.fixed_points.fixed_point import threshold

X = two_groups(40)
SCALE, SHIFT = 2.0**40, 2.0**20  # powers of two: the same digits in other units


def ended(x: np.ndarray, method: str) -> tuple[np.ndarray, float]:
    """(iterations of every start, the log joint)."""
    tree = fit(build(x, "diag"), table(x), method, seed=0, **SHORT[method])
    return tree["optimization"]["iterations"].values, float(tree["functionals"]["log_joint"].mean())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "hard_em", "cavi", "map"])
def test_iterations_do_not_depend_on_units(method):
    """In units of 2⁻⁴⁰ the log joint is larger by 2,300 nats, and by another constant of the prior; iterations are as many."""
    taken, value = ended(X, method)
    scaled, other = ended(SCALE * X, method)
    assert abs(other - value) > 2000
    np.testing.assert_array_equal(scaled, taken)
    if method != "map":  # whose line search sees the rounding of an offset
        np.testing.assert_array_equal(
            ended(np.round(X * 2**20) / 2**20 + SHIFT, method)[0], ended(np.round(X * 2**20) / 2**20, method)[0]
        )


def test_the_least_gain_counts_nats_of_data():
    """Twice the rows, twice the rise: twice the gain that is too little."""
    assert threshold(1e-10, 40.0, 60.0) == pytest.approx(1e-8, rel=1e-12)
    assert threshold(1e-10, 80.0, 120.0) == pytest.approx(2e-8, rel=1e-12)
