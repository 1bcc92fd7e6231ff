"""Points of optimisers: modes pass; points beside them, saddles and wrong densities do not."""

from types import SimpleNamespace

import numpy as np
import pytest

from inference.certificates.checks.optimum import GAIN, CheckedOptimum, tangents
from inference.certificates.checks.parity import parity_check
from inference.certificates.oracles import ORACLES, oracle_of

CURVATURE = np.array([[3.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize("name", ORACLES)
def test_directions_keep_sites_in_their_support_and_are_all_there(name):
    """Simplices still sum to 1, symmetric matrices stay symmetric, and the number of directions is that of free numbers."""
    oracle, rng = oracle_of(name), np.random.default_rng(0)
    sites = oracle.draw_parameters(rng, 1)
    basis, free = tangents(oracle, sites), 0
    for site, value in sites.items():
        if site in oracle.simplices:
            np.testing.assert_allclose(basis[site].sum(-1), 0, atol=1e-12)
            free += value.size // value.shape[-1] * (value.shape[-1] - 1)
        elif site in oracle.symmetric:
            np.testing.assert_array_equal(basis[site], np.swapaxes(basis[site], -1, -2))
            free += value.size * (value.shape[-1] + 1) // (2 * value.shape[-1])
        else:
            free += value.size
    flat = np.concatenate([directions.reshape(len(directions), -1) for directions in basis.values()], axis=1)
    assert np.linalg.matrix_rank(flat) == len(flat) == free


def beside(curvature, at):
    """A point of a quadratic density, whose mode is at (2, 2)."""
    point = CheckedOptimum.__new__(CheckedOptimum)
    point.oracle = SimpleNamespace(simplices=(), symmetric=())
    point.sites = {"mean": np.array([at])}
    point.density = lambda sites: -0.5 * np.einsum("ri,ij,rj->r", sites["mean"] - 2, curvature, sites["mean"] - 2)
    return point


def test_the_gain_is_what_a_quadratic_has_lost():
    """In every direction, flat ones too; and nothing at the mode."""
    for at in ([2.0, 2.0], [2.1, 2.0], [1.9, 2.3]):
        point = beside(CURVATURE, np.array(at))
        gain, curvature = point.figures()
        assert gain.value == pytest.approx(-float(point.density(point.sites)[0]), rel=1e-4, abs=1e-9)
        assert curvature.passed
        assert gain.passed is (at == [2.0, 2.0])


def test_a_saddle_is_no_mode():
    gain, curvature = beside(np.diag([3.0, -0.1]), np.array([2.0, 2.0])).figures()
    assert gain.value < GAIN
    assert not curvature.passed


def test_a_wrong_density_fails_parity():
    """By a constant, as of a forgotten normaliser, or a hundred-millionth of itself."""
    right = oracle_of("gmm_simple")
    for wrong in (lambda value: value - 0.9189, lambda value: value * (1 + 1e-8)):
        off = right._replace(log_likelihood=lambda *args, wrong=wrong: wrong(right.log_likelihood(*args)))
        assert not parity_check(off, 0).passed
